"""Runs a provider on given response bytes, without a network.

`run_bytes` passes bytes through a provider's decoder and parser; no request is made.
`MemoryHTTPClient` replaces the network for a `Client`, so that a test also covers a provider's
requests and its use of statuses and headers:

    http = MemoryHTTPClient(MemoryResponse([b"data: …"]))
    async with client_with(http=http, api_key="test") as client: ...
    assert http.bodies[0]["stream"] is True

`fold` combines events into a message. `comparable` and `comparable_events` rename tool-call ids
that the core generated, so that the results of two runs can be compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec

from swink_core import (
    AssistantMessage,
    Call,
    Classification,
    Context,
    Done,
    Event,
    ExtensionBlock,
    Failure,
    Model,
    ProviderInfo,
    StreamOptions,
    ToolCallBlock,
    ToolCallStart,
    replace,
)
from swink_core.providers import (
    Decoder,
    EventSource,
    HTTPRequest,
    HTTPResponse,
    Parser,
    is_synthetic_id,
    synthetic_id,
)
from swink_core.streaming.builder import MessageBuilder
from swink_recorder.recording import Recording
from swink_testing.calls import call_of

if TYPE_CHECKING:
    from swink_core import Block
    from swink_testing.chaos_answers import Answer

__all__ = [
    "MemoryHTTPClient",
    "MemoryResponse",
    "PausingResponse",
    "comparable",
    "comparable_events",
    "drive_bytes",
    "fold",
    "reads_on",
    "run_bytes",
    "source_of",
    "source_of_call",
]


class ParsingProvider(Protocol):
    """The methods of a provider that parse bytes; every `HTTPProvider` has them."""

    name: str
    info: ProviderInfo
    malformed: str

    @staticmethod
    def decoder() -> Decoder:
        """Make a decoder for one response."""

    def parser(self, model: Model) -> Parser:
        """Make a parser for one response."""

    def classify_error(self, model: Model, failure: Failure) -> Classification | None:
        """Classify a failure, or return `None`."""


async def drive_bytes(
    provider: ParsingProvider,
    model: str | Model,
    chunks: Iterable[bytes],
    *,
    options: StreamOptions | None = None,
    context: Context | str = "Hello",
) -> list[Event]:
    """Parse a body that is received in these chunks, and return all events."""
    source = source_of(provider, model, chunks, options=options, context=context)
    return [event async for batch in source.batches() for event in batch]


def source_of(
    provider: ParsingProvider,
    model: str | Model,
    chunks: Iterable[bytes],
    *,
    options: StreamOptions | None = None,
    context: Context | str = "Hello",
) -> EventSource:
    """Return the `EventSource` that parses a body."""
    call = call_of(provider, model, options=options, context=context, id="memory")
    return source_of_call(provider, call, chunks)


def source_of_call(provider: ParsingProvider, call: Call, chunks: Iterable[bytes]) -> EventSource:
    """Return the `EventSource` that parses a body for a call."""
    return EventSource(
        call,
        _pieces(chunks),
        type(provider).decoder(),
        provider.parser(call.model),
        malformed=call.options.malformed or provider.malformed,
    )


def run_bytes(
    provider: ParsingProvider,
    model: str | Model,
    chunks: Iterable[bytes],
    *,
    options: StreamOptions | None = None,
    context: Context | str = "Hello",
) -> list[Event]:
    """Call `drive_bytes` from a test that is not a coroutine."""
    return asyncio.run(drive_bytes(provider, model, chunks, options=options, context=context))


async def reads_on(
    provider: ParsingProvider, model: str | Model, answers: Iterable[Answer]
) -> bool:
    """Return True if no frame marks the end of the provider's answers.

    The function concludes this if an answer becomes complete with a frame that adds content.
    """
    for answer in answers:
        before = "", "", 0
        for end in answer.ends:
            events = await drive_bytes(provider, model, [answer.body[:end]])
            message = fold(events)
            opaque = sum(isinstance(block, ExtensionBlock) for block in message.content)
            said = message.text, message.thinking, len(message.content) - opaque
            if isinstance(events[-1], Done):
                if said != before:
                    return True
                break
            before = said
    return False


def fold(
    events: Iterable[Event],
    provider: str | None = None,
    model: str | None = None,
) -> AssistantMessage:
    """Return the message that these events form. `model` is used if the answer names no model."""
    builder = MessageBuilder(provider, model)
    builder.feed(list(events))
    return builder.message


def comparable(message: AssistantMessage) -> AssistantMessage:
    """Return the message, with numbers from 0 in place of the ids that the core generated."""
    ids: dict[str, str] = {}
    content: list[Block] = [
        replace(block, id=_numbered(block.id, ids)) if isinstance(block, ToolCallBlock) else block
        for block in message.content
    ]
    return replace(message, content=content)


def comparable_events(events: Iterable[Event]) -> list[Event]:
    """Return the events, with numbers from 0 in place of the ids that the core generated."""
    ids: dict[str, str] = {}
    return [
        replace(event, id=_numbered(event.id, ids)) if isinstance(event, ToolCallStart) else event
        for event in events
    ]


def _numbered(tool_call_id: str, ids: dict[str, str]) -> str:
    if not is_synthetic_id(tool_call_id):
        return tool_call_id
    return ids.setdefault(tool_call_id, synthetic_id("any", len(ids)))


async def _pieces(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in chunks:
        yield piece


class MemoryResponse:
    """An HTTP response in memory.

    `error` is raised after the last chunk, in place of the end of the body. `closed` is true if the
    client has closed the response.
    """

    def __init__(
        self,
        chunks: Iterable[bytes] = (),
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        error: Exception | None = None,
    ) -> None:
        from multidict import CIMultiDict

        self.status = status
        self.headers: Mapping[str, str] = CIMultiDict(headers or {})
        self.closed = False
        self._chunks = iter(chunks)
        self._error = error

    @classmethod
    def of_recording(
        cls, recording: Recording, chunks: Iterable[bytes] | None = None
    ) -> MemoryResponse:
        """Return a recorded response.

        If `chunks` is given, it replaces the recorded chunks of the body.
        """
        if chunks is None:
            chunks = [piece for _, piece in recording.pieces()]
        return cls(chunks, recording.status, recording.headers)

    @classmethod
    def of_json(
        cls, data: Any, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> MemoryResponse:
        """Make a response with JSON data, such as the body of an error."""
        headers = {"Content-Type": "application/json", **(headers or {})}
        return cls([msgspec.json.encode(data)], status, headers)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._chunks:
            if piece:
                return piece
        raise self._error or StopAsyncIteration

    def close(self) -> None:
        """Record that the response was closed."""
        self.closed = True


class PausingResponse(MemoryResponse):
    """A response that yields its data and then does not end."""

    async def __anext__(self) -> bytes:
        try:
            return await super().__anext__()
        except StopAsyncIteration:
            await asyncio.Event().wait()
            raise


class MemoryHTTPClient:
    """An `HTTPClient` that answers from memory and keeps its requests in `requests`.

    Each request gets the next of `answers`; an exception among them is raised. A request after the
    last answer fails the test.
    """

    def __init__(self, *answers: MemoryResponse | Exception) -> None:
        self.requests: list[HTTPRequest] = []
        self._answers = list(answers)

    def answer(self, *answers: MemoryResponse | Exception) -> None:
        """Use these answers for the next requests, and drop earlier answers that were not used."""
        self._answers = list(answers)

    @property
    def bodies(self) -> list[Any]:
        """The JSON data of each request."""
        return [msgspec.json.decode(request.body) for request in self.requests]

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        """Return the next answer."""
        self.requests.append(request)
        if not self._answers:
            raise AssertionError(f"request {len(self.requests)} was not expected: {request.url}")
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close_idle(self) -> None:
        """Do nothing: no connections are open."""

    async def aclose(self) -> None:
        """Do nothing: no connections are open."""
