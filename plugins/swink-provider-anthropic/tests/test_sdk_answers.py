"""The `anthropic` package as a second opinion on what the answers mean."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swink_core import (
    AssistantMessageEvent,
    Context,
    Error,
    ExtensionBlock,
    Model,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.providers import parse_arguments
from swink_provider_anthropic import AnthropicProvider
from swink_test_helpers.corpus import Case, ids, stream_cases
from swink_test_helpers.typed_dicts import misfits
from swink_testing.driver import fold, run_bytes

PROVIDER = AnthropicProvider("anthropic")
MODEL = Model("anthropic", "any")
HI = UserMessage("Hi")
SAID = {"role": "user", "content": "Hi"}

STREAMS = [case for case in stream_cases("anthropic") if case.reference["error"] is None]
FAILED = [case for case in stream_cases("anthropic") if case.reference["error"] is not None]

STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "pause_turn": "pause",
    "refusal": "content_filter",
}

DIFFERENCES = {
    "anthropic/anthropic-sdk-incomplete-partial-json-response": {
        "calls": "the SDK completes arguments that were cut off by a guess; we say they are cut"
    },
    "anthropic/truncated-before-message-stop": {
        "end": "the SDK accepts a truncated stream; without message_stop it is incomplete"
    },
    "anthropic/vercel-anthropic-compaction-1": {
        "opaque": "the SDK adds a null that was not sent",
        "input": "the tokens of the compaction are billed too",
        "output": "the tokens of the compaction are billed too",
    },
    "anthropic/vercel-spliced-message-start": dict.fromkeys(
        ("id", "thinking", "signatures", "calls"),
        "the SDK mixes two answers in one body into one that the API then refuses; the first is "
        "void, since it was never completed",
    ),
}


@pytest.mark.parametrize("case", STREAMS, ids=ids)
def test_we_read_what_the_sdk_reads(case: Case, server: Any, sdk: Any) -> None:
    server.body = case.body
    with sdk.beta.messages.stream(model="any", max_tokens=9, messages=[SAID]) as stream:
        theirs = _their_reading(stream.get_final_message())

    ours = _our_reading(run_bytes(PROVIDER, "any", [case.body]))
    different = {name for name in theirs if theirs[name] != ours[name]}
    assert different == set(DIFFERENCES.get(case.name, {}))


@pytest.mark.parametrize("case", FAILED, ids=ids)
def test_we_fail_where_the_sdk_fails(case: Case, server: Any, sdk: Any, anthropic: Any) -> None:
    server.body = case.body
    with (
        sdk.beta.messages.stream(model="any", max_tokens=9, messages=[SAID]) as stream,
        pytest.raises(anthropic.APIStatusError) as raised,
    ):
        stream.get_final_message()

    last = run_bytes(PROVIDER, "any", [case.body])[-1]
    assert isinstance(last, Error)
    body: Any = raised.value.body
    assert last.error_message == body["error"]["message"]


def _their_reading(message: Any) -> dict[str, Any]:
    blocks = message.content
    of = {kind: [block for block in blocks if block.type == kind] for kind in _UNDERSTOOD}
    usage = message.usage
    read, write = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    return {
        "id": message.id,
        "text": [block.text for block in of["text"]],
        "citations": [
            [citation.to_dict() for citation in block.citations or ()] for block in of["text"]
        ],
        "thinking": [block.thinking for block in of["thinking"]],
        "signatures": [block.signature for block in of["thinking"]],
        "redacted": [block.data for block in of["redacted_thinking"]],
        "calls": [(block.id, block.name, block.input) for block in of["tool_use"]],
        "opaque": [block.to_dict() for block in blocks if block.type not in _UNDERSTOOD],
        "end": STOPS[message.stop_reason],
        "input": usage.input_tokens + (read or 0) + (write or 0),
        "output": usage.output_tokens,
        "cache": (read, write),
    }


_UNDERSTOOD = ("text", "thinking", "redacted_thinking", "tool_use")


def _our_reading(events: list[AssistantMessageEvent]) -> dict[str, Any]:
    message = fold(events, "anthropic")
    texts = [block for block in message.content if isinstance(block, TextBlock)]
    thinking = [block for block in message.content if isinstance(block, ThinkingBlock)]
    usage = message.usage
    assert usage is not None
    return {
        "id": message.response_id,
        "text": [block.text for block in texts],
        "citations": [(block.metadata or {}).get("citations", []) for block in texts],
        "thinking": [block.thinking for block in thinking if not block.redacted],
        "signatures": [block.signature for block in thinking if not block.redacted],
        "redacted": [block.signature for block in thinking if block.redacted],
        "calls": [
            (call.id, call.name, parse_arguments(call.raw_arguments or ""))
            for call in message.tool_calls
        ],
        "opaque": [
            block.data
            for block in message.content
            if isinstance(block, ExtensionBlock) and block.kind != "container"
        ],
        "end": message.stop_reason,
        "input": usage.input,
        "output": usage.output,
        "cache": (usage.cache_read, usage.cache_write),
    }


UNDECLARED = {
    "anthropic/vercel-anthropic-web-fetch-tool-20260209-1": [
        ".messages.1.content.3.content.abort_reason is not declared by "
        "BetaCodeExecutionResultBlockParam"
    ],
}
"""A field of a server's result that the SDK does not define. It is sent back unchanged, because the
API expects the block unchanged.
"""


@pytest.mark.parametrize("case", STREAMS, ids=ids)
def test_the_sdk_declares_every_field_of_an_answer_that_we_send_back(
    case: Case, declared: Any
) -> None:
    answer = fold(run_bytes(PROVIDER, "any", [case.body]), "anthropic")
    results = [ToolResultMessage(call.id, call.name, "done") for call in answer.tool_calls]
    context = Context([HI, answer, *results, HI])
    asked = StreamOptions(base_url="http://localhost")
    request = PROVIDER.request(MODEL, PROVIDER.convert(MODEL, context, asked), asked)
    body = msgspec.json.decode(request.body)
    assert misfits(body, declared) == UNDECLARED.get(case.name, [])
