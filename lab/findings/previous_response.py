"""Print whether a tool's result reaches each vendor after `previous_response_id`.

    python -m lab.findings.previous_response

The client names a stored response and sends the result alone. The upstream request has to say the
same as for the whole conversation.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from lab.findings.upstreams import MODELS, Stand, stand, verdict

NAME = "get_weather"
TOOLS = [
    {
        "type": "function",
        "name": NAME,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": False,
    }
]
QUESTION = {"role": "user", "content": "How is the weather in Oslo?"}

FORCED: dict[str, tuple[str, dict[str, Any]]] = {
    "openai": (
        "/v1/responses",
        {
            "model": "gpt-5.4-mini",
            "input": "Hi",
            "tools": TOOLS,
            "tool_choice": {"type": "function", "name": "unknown"},
        },
    ),
    "anthropic": (
        "/v1/messages",
        {
            "model": "claude-haiku-4-5",
            "max_tokens": 9,
            "messages": [QUESTION],
            "tools": [{"name": NAME, "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "tool", "name": "unknown"},
        },
    ),
    "gemini": (
        "/v1beta/models/gemini-3.6-flash:generateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "tools": [{"functionDeclarations": [{"name": NAME}]}],
            "toolConfig": {
                "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["unknown"]}
            },
        },
    ),
}
"""For each API, a request that forces a call of a tool that it does not declare."""


async def second_turn(at: Stand, model: str, whole: bool) -> tuple[int, Any]:
    """Let the model call the tool, return the result, and give the status and upstream body."""
    call = {"call": NAME, "arguments": {"city": "Oslo"}}
    at.play([call], [{"text": "It is 21 degrees."}])
    first = await at.post("/v1/responses", {"model": model, "input": [QUESTION], "tools": TOOLS})
    if first.status != 200:
        return first.status, {}
    results = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "21"}
        for item in first.data["output"]
        if item["type"] == "function_call"
    ]
    body: dict[str, Any] = {"model": model, "tools": TOOLS}
    if whole:
        body["input"] = [QUESTION, *first.data["output"], *results]
    else:
        body["previous_response_id"] = first.data["id"]
        body["input"] = results
    second = await at.post("/v1/responses", body)
    return second.status, at.last_body


def choice_of(body: dict[str, Any]) -> object:
    """Return the choice of tools in an upstream request."""
    return body.get("tool_choice", body.get("toolConfig"))


def named(body: dict[str, Any]) -> list[str]:
    """Return the names that an upstream request gives to the results of functions."""
    parts = [part for content in body.get("contents", []) for part in content["parts"]]
    return [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]


async def run() -> None:
    """Print one line for each vendor, then one for each API's forced unknown tool."""
    async with stand() as at:
        for model in MODELS:
            whole_status, whole = await second_turn(at, model, True)
            status, body = await second_turn(at, model, False)
            same = (choice_of(whole), named(whole)) == (choice_of(body), named(body))
            detail = f"status {whole_status} whole, {status} by id; choice {choice_of(body)}"
            right = same and status == whole_status == 200
            verdict(right, f"{model}: a result after previous_response_id", detail)
        for api, (path, request) in FORCED.items():
            answer = await at.post(path, request, at.vendor.url)
            detail = f"status {answer.status} {json.dumps(answer.data)[:60]}"
            verdict(answer.status == 400, f"{api}: the vendor refuses an unknown tool", detail)


def main() -> None:
    """Run the program."""
    asyncio.run(run())


if __name__ == "__main__":
    main()
