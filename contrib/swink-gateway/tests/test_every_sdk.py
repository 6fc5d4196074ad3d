"""Every kind of answer, request and failure through every SDK, streamed and complete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from judging import check
from made import CALLS
from sdks import CLIENTS, Ask, Read
from serving import Scripted, serving

import swink_core as swink
from swink_core import StopReason, Usage
from swink_core import StreamErrorKind as Kind
from swink_testing.driver import fold

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ASK = Ask()
MODEL = "echo/echo"
PNG = b"\x89PNG\r\n\x1a\n\xfb\xff\xfe\x00"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL = swink.Tool(
    "plan", "Plan a trip.", {name: SCHEMA[name] for name in ("type", "properties", "required")}
)


def text(at: int, *pieces: str) -> list[Any]:
    said = [swink.TextDelta(at, piece) for piece in pieces]
    return [swink.TextStart(at), *said, swink.TextEnd(at)]


def thought(at: int, words: str, **end: Any) -> list[Any]:
    return [
        swink.ThinkingStart(at), swink.ThinkingDelta(at, words), swink.ThinkingEnd(at, **end)
    ]  # fmt: skip


USAGE = Usage(30, 9, cache_read=4, cache_write=3, reasoning=5, total=39, reported=True)
NAMED = {"response_id": "r1", "model": "large-1", "usage": USAGE, "cost": swink.Cost(total=0.25)}

ANSWERS: dict[str, list[Any]] = {
    "text": [*text(0, "Hel", "lo"), swink.Done(StopReason.STOP, **NAMED)],
    "nothing": [swink.Done(StopReason.STOP, **NAMED)],
    "thinking": [
        *thought(0, "hm", signature="sig"), *text(1, "so"), swink.Done(StopReason.STOP, **NAMED),
    ],
    "parallel tools": [*CALLS, swink.Done(StopReason.TOOL_USE, **NAMED)],
    "a tool without arguments": [
        swink.ToolCallStart(0, "c1", "f"), swink.ToolCallEnd(0),
        swink.Done(StopReason.TOOL_USE, **NAMED),
    ],
    "a call cut off before its arguments": [
        *text(0, "So"), swink.ToolCallStart(1, "c1", "f"), swink.ToolCallEnd(1),
        swink.Done(StopReason.LENGTH, **NAMED),
    ],
    "a call cut off inside its arguments": [
        swink.ToolCallStart(0, "c1", "f"), swink.ToolCallDelta(0, '{"a":'), swink.ToolCallEnd(0),
        swink.Done(StopReason.LENGTH, **NAMED),
    ],
    "structured output": [
        *text(0, '{"city":', '"Rome","days":3}'), swink.Done(StopReason.STOP, **NAMED)
    ],
    "nobody counted": [*text(0, "Hello"), swink.Done(StopReason.STOP)],
    **{
        f"ends by {reason}": [*text(0, "Hi"), swink.Done(reason, **NAMED)]
        for reason in StopReason
        if reason not in ("error", "aborted")
    },
    "a refusal": [*text(0, "I'm sorry."), swink.Done(StopReason.CONTENT_FILTER, **NAMED)],
}  # fmt: skip


@pytest.mark.parametrize("protocol", CLIENTS)
async def test_every_kind_of_answer_is_read_unchanged(protocol: str) -> None:
    upstream = Scripted()
    async with serving(upstream) as gateway, CLIENTS[protocol](gateway.url) as client:
        for name, events in ANSWERS.items():
            upstream.answers = [[[swink.Start(), *events]]]
            message = fold([swink.Start(), *events], "echo", "echo")
            for read in (client.stream, client.whole):
                with told(name):
                    check(protocol, await read(MODEL, ASK), message)


class told:
    """A context that adds the name of the case to an exception."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            error.add_note(self._name)


@pytest.mark.parametrize("protocol", CLIENTS)
async def test_an_image_a_tool_and_the_schema_of_an_answer_arrive(protocol: str) -> None:
    upstream = Scripted([swink.Start(), *ANSWERS["structured output"]])
    ask = Ask("Look", PNG, SCHEMA, TOOL)
    async with serving(upstream) as gateway, CLIENTS[protocol](gateway.url) as client:
        for read in (client.stream, client.whole):
            assert (await read(MODEL, ask)).text == '{"city":"Rome","days":3}'
            (message,) = upstream.context.messages
            words, image = message.content
            assert words == swink.TextBlock("Look")
            assert isinstance(image, swink.ImageBlock)
            assert image.source == swink.Base64Source("image/png", ask.base64)
            (tool,) = upstream.context.tools
            assert (tool.name, tool.description) == (TOOL.name, TOOL.description)
            assert tool.parameters == TOOL.parameters
            schema = dict(upstream.options.response_format)  # type: ignore[arg-type]  # it is one
            assert {name: schema[name] for name in SCHEMA} == SCHEMA


# -- failures ------------------------------------------------------------------------------------

# Each vendor's code and HTTP status for every kind of failure. Where OpenAI and Google have no
# specific code, they use a general one.
FAILURES: dict[Kind, tuple[int, str, str, str]] = {
    Kind.THROTTLED: (429, "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"),
    Kind.QUOTA_EXHAUSTED: (429, "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED"),
    Kind.OVERLOADED: (503, "server_is_overloaded", "overloaded_error", "UNAVAILABLE"),
    Kind.NETWORK: (502, "server_error", "api_error", "UNAVAILABLE"),
    Kind.TIMEOUT: (504, "server_error", "timeout_error", "DEADLINE_EXCEEDED"),
    Kind.PROTOCOL: (502, "server_error", "api_error", "DATA_LOSS"),
    Kind.EMPTY_RESPONSE: (502, "server_error", "api_error", "INTERNAL"),
    Kind.OUTPUT_TOO_LARGE: (502, "server_error", "api_error", "OUT_OF_RANGE"),
    Kind.RESOURCE: (503, "server_error", "api_error", "UNAVAILABLE"),
    Kind.AUTH: (502, "upstream_credentials", "api_error", "FAILED_PRECONDITION"),
    Kind.MODEL_NOT_FOUND: (404, "model_not_found", "not_found_error", "NOT_FOUND"),
    Kind.CONTEXT_WINDOW_EXCEEDED: (
        400, "context_length_exceeded", "invalid_request_error", "INVALID_ARGUMENT",
    ),
    Kind.CONTENT_FILTERED: (400, "content_filter", "invalid_request_error", "SAFETY"),
    Kind.INVALID_REQUEST: (400, "invalid_request", "invalid_request_error", "INVALID_ARGUMENT"),
    Kind.UNSUPPORTED: (400, "unsupported", "invalid_request_error", "UNIMPLEMENTED"),
    Kind.CANCELLED: (503, "server_error", "api_error", "CANCELLED"),
    Kind.INTERNAL: (500, "server_error", "api_error", "INTERNAL"),
    Kind.UNKNOWN: (502, "server_error", "api_error", "UNKNOWN"),
}  # fmt: skip

WORDS: dict[str, Callable[[Kind], str | None]] = {
    "native": lambda kind: kind,
    "chat": lambda kind: FAILURES[kind][1],
    "responses": lambda kind: FAILURES[kind][1],
    "socket": lambda kind: FAILURES[kind][1],
    "messages": lambda kind: FAILURES[kind][2],
    "gemini": lambda kind: FAILURES[kind][3],
    "ollama": lambda kind: None,
}

WRONG = (Kind.AUTH, Kind.CONTENT_FILTERED, Kind.INVALID_REQUEST, Kind.MODEL_NOT_FOUND)
IN_RESPONSES = dict.fromkeys((*WRONG, Kind.UNSUPPORTED), "invalid_prompt")
"""The code in a stream of Responses that keeps Codex from retrying."""


def word(protocol: str, kind: Kind, streamed: bool, begun: bool) -> str | None:
    """Return a vendor's code for a failure at this point."""
    in_stream = begun and streamed and protocol in ("responses", "socket")
    final = IN_RESPONSES if in_stream else {}
    return final.get(kind) or WORDS[protocol](kind)


STATUSES_OF_ITS_OWN = {("messages", Kind.AUTH): 503, ("gemini", Kind.AUTH): 400}
"""The status that keeps a vendor's clients from retrying, if the kind's own status would not."""

Reading = Callable[[str, Ask], Awaitable[Read]]


@pytest.mark.parametrize("protocol", CLIENTS)
async def test_every_kind_of_failure_is_raised_with_the_vendors_code(protocol: str) -> None:
    assert FAILURES.keys() == set(Kind)
    upstream = Scripted()
    async with serving(upstream) as gateway, CLIENTS[protocol](gateway.url) as client:
        for kind in Kind:
            failed = swink.Error(error_message="it is so", error_kind=kind, retry_after=7)
            for before in ([], text(0, "Hello")):
                upstream.answers = [[[swink.Start(), *before, failed]]]
                with told(f"{kind}, after {len(before)} events"):
                    await raised(protocol, client, kind, bool(before))


async def raised(protocol: str, client: Any, kind: Kind, begun: bool) -> None:
    blocked = protocol == "gemini" and kind is Kind.CONTENT_FILTERED
    for read in (client.stream, client.whole):
        found = await read(MODEL, ASK)
        assert found.error is not None
        assert "it is so" in found.message
        late = blocked and begun and read == client.stream  # a prompt is blocked before an answer
        streamed = read == client.stream or protocol == "socket"
        expected = "INVALID_ARGUMENT" if late else word(protocol, kind, streamed, begun)
        assert found.code == expected
        has_status = read == client.whole or not begun
        if has_status and protocol not in ("native", "socket") and not blocked:
            assert found.status == STATUSES_OF_ITS_OWN.get((protocol, kind), FAILURES[kind][0])
