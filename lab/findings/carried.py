"""Print which fields of a client's request reach each vendor, and which are lost without a notice.

    python -m lab.findings.carried [chat | messages]

The upstream request is compared with and without the field. A loss is declared if a header of the
response names it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from typing import Any

from lab.findings.upstreams import MODELS, Answered, Stand, stand, verdict

Fields = dict[str, dict[str, Any]]

HI = {"role": "user", "content": "Hi"}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "Weather.", "parameters": PARAMETERS}
FUNCTIONS = [{"type": "function", "function": FUNCTION}]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOL = {"name": "get_weather", "description": "Weather.", "input_schema": PARAMETERS}
PDF = "JVBERi0xLjQKdHJhaWxlcjw8Pj4KJSVFT0Y="
DOCUMENT = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
    "title": "Report",
    "context": "Written in May.",
    "citations": {"enabled": True},
}
TEXT_DOCUMENT = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "The sky is blue."},
}

CHAT: Fields = {
    "temperature": {"temperature": 0.3},
    "top_p": {"top_p": 0.4},
    "max_tokens": {"max_tokens": 77},
    "stop": {"stop": ["XX"]},
    "n": {"n": 2},
    "seed": {"seed": 5},
    "logprobs": {"logprobs": True, "top_logprobs": 3},
    "logit_bias": {"logit_bias": {"50256": -100}},
    "presence_penalty": {"presence_penalty": 0.5},
    "user": {"user": "u1"},
    "prompt_cache_key": {"prompt_cache_key": "k1"},
    "service_tier": {"service_tier": "flex"},
    "store": {"store": True},
    "metadata": {"metadata": {"a": "b"}},
    "prediction": {"prediction": {"type": "content", "content": "Hello"}},
    "reasoning_effort": {"reasoning_effort": "high"},
    "verbosity": {"verbosity": "low"},
    "web_search_options": {"web_search_options": {}},
    "json_object": {"response_format": {"type": "json_object"}},
    "json_schema": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "x", "strict": True, "schema": SCHEMA},
        }
    },
    "tools": {"tools": FUNCTIONS},
    "tool_choice required": {"tools": FUNCTIONS, "tool_choice": "required"},
    "parallel_tool_calls": {"tools": FUNCTIONS, "parallel_tool_calls": False},
    "custom tool": {"tools": [{"type": "custom", "custom": {"name": "py", "description": "d"}}]},
    "name of a user": {"messages": [{**HI, "name": "bob"}]},
    "refusal in history": {
        "messages": [HI, {"role": "assistant", "content": None, "refusal": "I refuse."}, HI]
    },
    "prefill": {"messages": [HI, {"role": "assistant", "content": "Once"}]},
    "cache_control": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}],
            }
        ]
    },
    "unknown field": {"a_field_of_tomorrow": 1},
}

MESSAGES: Fields = {
    "temperature": {"temperature": 0.3},
    "top_k": {"top_k": 6},
    "stop_sequences": {"stop_sequences": ["XX"]},
    "cached system": {
        "system": [
            {
                "type": "text",
                "text": "Rules.",
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            }
        ]
    },
    "metadata.user_id": {"metadata": {"user_id": "u1"}},
    "service_tier": {"service_tier": "standard_only"},
    "thinking": {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 9000},
    "output_config.format": {
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}
    },
    "container": {"container": "container_1"},
    "context_management": {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
    "tools": {"tools": [TOOL]},
    "tool strict": {"tools": [{**TOOL, "strict": True}]},
    "tool_choice any": {"tools": [TOOL], "tool_choice": {"type": "any"}},
    "not parallel": {
        "tools": [TOOL],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    },
    "web search": {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]},
    "document": {
        "messages": [{"role": "user", "content": [DOCUMENT, {"type": "text", "text": "Hi"}]}]
    },
    "text document": {
        "messages": [{"role": "user", "content": [TEXT_DOCUMENT, {"type": "text", "text": "Hi"}]}]
    },
    "foreign thinking": {
        "messages": [
            HI,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "foreign"},
                    {"type": "text", "text": "Hello."},
                ],
            },
            HI,
        ]
    },
    "unknown field": {"a_field_of_tomorrow": 1},
}

PROTOCOLS: dict[str, tuple[str, dict[str, Any], Fields]] = {
    "chat": ("/v1/chat/completions", {"messages": [HI]}, CHAT),
    "messages": ("/v1/messages", {"messages": [HI], "max_tokens": 900}, MESSAGES),
}


def declared(answer: Answered) -> bool:
    """Return whether a header of the response names something that was changed or lost."""
    names = [name.lower() for name in answer.headers]
    return any(name.startswith("x-swink-") and name != "x-swink-model" for name in names)


async def outcome(at: Stand, path: str, plain: dict[str, Any], body: dict[str, Any]) -> str:
    """Classify a field as carried, declared, silent, or refused with a status."""
    await at.post(path, plain)
    without = at.last_body
    at.forget()
    answer = await at.post(path, body)
    if answer.status != 200:
        return f"status {answer.status}"
    if json.dumps(at.last_body, sort_keys=True) != json.dumps(without, sort_keys=True):
        return "carried" if not declared(answer) else "carried, with a notice"
    return "declared" if declared(answer) else "SILENT"


async def fields(at: Stand, protocol: str) -> None:
    """Print the outcomes of each field of a client's protocol."""
    path, plain, table = PROTOCOLS[protocol]
    for field, values in table.items():
        models: dict[str, list[str]] = defaultdict(list)
        for model in MODELS:
            body = {"model": model, **plain}
            models[await outcome(at, path, body, {**body, **values})].append(model)
        shown = "; ".join(f"{what}: {', '.join(names)}" for what, names in models.items())
        print(f"{protocol:9} {field:22} {shown}", flush=True)


async def answers(at: Stand) -> None:
    """Print whether a refusal keeps its field, directly and through the gateway."""
    path, plain, _ = PROTOCOLS["chat"]
    for base, model in ((at.vendor.url, "gpt-4.1"), (at.gateway, "gpt"), (at.gateway, "deepseek")):
        at.play([{"refusal": "I refuse."}])
        answer = await at.post(path, {"model": model, **plain}, base)
        choice = answer.data["choices"][0] if answer.status == 200 else {}
        message = choice.get("message", {})
        kept = message.get("refusal") == "I refuse." and not message.get("content")
        detail = f"{answer.status} {choice.get('finish_reason')}, content {message.get('content')}"
        where = "directly" if base == at.vendor.url else "through the gateway"
        verdict(kept, f"chat: a refusal of {model} {where} is a refusal", detail)


async def run(protocols: list[str]) -> None:
    """Print one line for each field, then one for each refusal."""
    async with stand() as at:
        for protocol in protocols:
            await fields(at, protocol)
        await answers(at)


def main() -> None:
    """Run the program."""
    asyncio.run(run(sys.argv[1:] or list(PROTOCOLS)))


if __name__ == "__main__":
    main()
