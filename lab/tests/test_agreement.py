"""`lab.agreement`, and requests that real servers accept and the simulated vendor once refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.agreement import Agreement
from lab.vendor.state import State
from lab.vendor.unplugged import answered
from swink_judge import asked_of

USER = {"role": "user", "content": "Hi"}
LINKED_LIST = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    "required": ["next"],
}


def claude(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"max_tokens": 10, "messages": [USER, *messages], **more}


def use(id: str) -> dict[str, Any]:
    call = {"type": "tool_use", "id": id, "name": "look", "input": {}}
    return {"role": "assistant", "content": [call]}


def search(kind: str, execution: str) -> dict[str, Any]:
    return {"type": kind, "call_id": "s", "execution": execution, "arguments": {}, "tools": []}


def nova(id: str) -> list[dict[str, Any]]:
    ran = {"toolUseId": id, "content": [{"text": "7"}]}
    call = {"toolUseId": id, "name": "nova_code_interpreter", "input": {}}
    return [{"toolUse": call}, {"toolResult": ran}]


RESULTS = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": each, "content": "1"} for each in "ab"],
}
ACCEPTED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Claude on Vertex": (
        "vertex",
        "/publishers/anthropic/models/claude-opus-5-5:rawPredict",
        claude(anthropic_version="vertex-2023-10-16"),
    ),
    "a deployment of Azure": (
        "azure",
        "/openai/deployments/gpt-5.4-mini/chat/completions",
        {"messages": [USER]},
    ),
    "a tool whose schema refers to itself": (
        "openai",
        "/v1/chat/completions",
        {
            "model": "gpt-5.4-mini",
            "messages": [USER],
            "tool_choice": "required",
            "tools": [{"type": "function", "function": {"name": "f", "parameters": LINKED_LIST}}],
        },
    ),
    "two assistant messages in a row": (
        "anthropic",
        "/v1/messages",
        claude(use("a"), use("b"), RESULTS, model="claude-sonnet-4-5"),
    ),
    "a search of tools that the client ran": (
        "openai",
        "/v1/responses",
        {
            "model": "gpt-5.6",
            "input": [
                USER,
                search("tool_search_call", "client"),
                search("tool_search_output", "client"),
            ],
        },
    ),
    "a search of tools that the server ran": (
        "openai",
        "/v1/responses",
        {"model": "gpt-5.6", "input": [USER, search("tool_search_output", "server")]},
    ),
    "code that the server ran": (
        "bedrock",
        "/model/us.amazon.nova-premier-v1:0/converse",
        {
            "messages": [
                {"role": "user", "content": [{"text": "Hi"}]},
                {"role": "assistant", "content": nova("n")},
                {"role": "user", "content": [{"text": "Go on"}]},
            ],
            "toolConfig": {"tools": [{"systemTool": {"name": "nova_code_interpreter"}}]},
        },
    ),
    "reasoning without encryption": (
        "deepseek",
        "/responses",
        {
            "model": "deepseek-v4-pro",
            "input": [
                USER,
                {"type": "reasoning", "id": "rs-a", "summary": []},
                {"role": "assistant", "content": "Yes"},
                USER,
            ],
        },
    ),
}
HEADERS = {"Anthropic-Version": "2023-06-01"}


@pytest.mark.parametrize(("provider", "path", "body"), ACCEPTED.values(), ids=ACCEPTED)
def test_the_vendor_accepts_what_real_servers_accept(
    provider: str, path: str, body: dict[str, Any]
) -> None:
    url = f"https://example.com{path}"
    exchange = answered(State(), provider, url, HEADERS, json.dumps(body).encode())
    assert exchange is not None
    assert (exchange.ended, exchange.message) == ("complete", None)


@pytest.mark.parametrize(
    ("change", "alike", "different"),
    [
        pytest.param({}, 1, "", id="accepted by both"),
        pytest.param({"temperature": 9}, 1, "", id="refused by both"),
        pytest.param({"unknown": 1}, 0, "only the vendor refuses: unknown: Extra", id="vendor"),
    ],
)
def test_a_difference_names_the_vendors_message(
    change: dict[str, Any], alike: int, different: str
) -> None:
    body = json.dumps({"model": "claude-sonnet-4-5", **claude(), **change}).encode()
    url = "https://api.anthropic.com/v1/messages"
    asked = asked_of("anthropic", url, body)
    assert asked is not None
    agreement = Agreement()
    agreement.compare(asked, url, HEADERS, body, "here")
    assert agreement.alike == alike
    assert agreement.differences.total() == 1 - alike
    assert different in agreement.lines()[0]
