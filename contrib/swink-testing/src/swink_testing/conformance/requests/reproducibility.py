"""Repeated calls: after other calls, beside them, in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import deepcopy
from importlib.metadata import EntryPoint
from typing import Any, NamedTuple

from swink_core import (
    AssistantMessage,
    Client,
    Context,
    Event,
    Message,
    RetryPolicy,
    StopReason,
    StreamErrorKind,
    StreamOptions,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_judge.matrix.cases import Case
from swink_judge.matrix.expected_values import Said
from swink_judge.matrix.models import AskedModel
from swink_judge.matrix.options import SCHEMA
from swink_recorder.recording import Recording
from swink_testing.clock import DatedClock
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.requests.conversations import conversations
from swink_testing.conformance.requests.worker_process import elsewhere
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse, comparable, fold, source_of
from swink_testing.quiet import quiet

__all__ = [
    "check_order_is_kept",
    "check_retries_are_alike",
    "check_same_requests",
    "check_side_by_side",
    "requests_of",
]

_MANY = 8
"""Tools, stop sequences and calls whose order is looked at: a set of them has hardly the same."""

_READ = 5
"""Recordings that are read beside each other."""


class _Asked(NamedTuple):
    """A call: its name, its conversation, and its options."""

    name: str
    context: Context
    options: dict[str, Any]


def check_same_requests(subject: Subject) -> None:
    """A call makes the same request after other calls and in another process."""
    if not (subject.speaks_http or subject.binding.hook.convert_messages.get_hookimpls()):
        raise DoesNotApply("it sends no request that could be looked at")
    calls = list(_calls())
    before = deepcopy(calls)
    first = asyncio.run(requests_of(subject, calls))
    for call, kept in zip(calls, before, strict=True):
        for name, value in call.options.items():
            same = value == kept.options[name]
            require(same, f"{call.name}: its option {name} is changed by the call", value)
        require(call.context == kept.context, f"{call.name}: its context is changed by the call")
    again = asyncio.run(requests_of(subject, before[::-1]))
    _require_same(first, again, "asked again after other calls")
    if _is_found(subject):
        _require_same(first, elsewhere(subject), "asked in another process")


def _require_same(first: dict[str, str], again: dict[str, str], when: str) -> None:
    for name, request in first.items():
        if (other := again.get(name)) != request:
            fail(f"{name}: {when}, the call is another request", other, request)


def _is_found(subject: Subject) -> bool:
    """Whether its entry point leads another process to the same plugin."""
    entry = subject.entry
    try:
        return EntryPoint(entry.name, entry.value, entry.group).load() is entry.load()
    except (ImportError, AttributeError):
        return False


async def requests_of(subject: Subject, calls: list[_Asked] | None = None) -> dict[str, str]:
    """Return the request of each call that is not refused, by its name."""
    found: dict[str, str] = {}
    if not subject.speaks_http:
        hook, options = subject.binding.hook.convert_messages, StreamOptions()
        for call in calls or _calls():
            if not call.options:
                payload = hook(model=subject.model, context=call.context, options=options)
                found[call.name] = repr(payload)
        return found
    id = subject.model.id
    async with subject.asker() as asker:
        for call in calls or _calls():
            asker.hold(subject.name, Said(call.name, call.context))
            case = Case(subject.name, AskedModel(id, "listed", id), call.name, call.options)
            if (request := (await asker.outcome(case)).request) is not None:
                found[call.name] = f"{request.url}\n{request.body.decode('utf-8', 'replace')}"
    return found


def _calls() -> Iterator[_Asked]:
    for conversation in conversations():
        yield _Asked(f"the conversation {conversation.name}", conversation.context, {})
    yield _Asked("many of all", _ordered()[0], {})
    for options in (
        {"stop": [*_names("stop")]},
        {"extra": {"nonce_extra": {"nonce_name": ["nonce_value", {"nonce_deep": 0}]}}},
        {"response_format": deepcopy(SCHEMA)},
        {"thinking": "high"},
        {"user": "nonce_user", "session_id": "nonce_session"},
    ):
        yield _Asked(f"with {', '.join(options)}", Context([UserMessage("Hello")]), options)


def _names(what: str) -> list[str]:
    return [f"nonce_{what}_{letter}" for letter in "hcafbgde"[:_MANY]]


def _ordered() -> tuple[Context, list[list[str]]]:
    """Make a conversation that has many of all, and what of it comes in which order."""
    tools = [Tool(name, f"{name}_about", {"type": "object"}) for name in _names("tool")]
    said, results, asked = _names("said"), _names("result"), _names("word")
    calls = [
        ToolCallBlock(f"call_{word[-1]}", tools[0].name, {"nonce_word": word}) for word in asked
    ]
    messages: list[Message] = []
    for text in said[:3]:
        answer = AssistantMessage([TextBlock(f"{text}_answer")], stop_reason=StopReason.STOP)
        messages += [UserMessage([TextBlock(text)]), answer]
    messages += [UserMessage(said[3]), AssistantMessage([*calls], stop_reason=StopReason.TOOL_USE)]
    messages += [
        ToolResultMessage(call.id, call.name, text)
        for call, text in zip(calls, results, strict=True)
    ]
    messages.append(UserMessage([TextBlock(text) for text in said[4:]]))
    turns = [each for text in said[:3] for each in (text, f"{text}_answer")]
    orders = [[f"{t.name}_about" for t in tools], [*turns, *said[3:]], results, asked]
    return Context(messages, tools=tools), orders


def check_order_is_kept(subject: Subject) -> None:
    """Turns, parts, tools, calls, results and stop sequences are sent in their order."""
    if not subject.speaks_http:
        raise DoesNotApply("it sends no HTTP request that could be looked at")
    context, orders = _ordered()
    stop = _names("stop")
    calls = [
        _Asked("many of all", context, {}),
        _Asked("many stops", Context([UserMessage("Hello")]), {"stop": stop}),
    ]
    requests = asyncio.run(requests_of(subject, calls))
    if "many of all" not in requests:  # it takes no tools
        calls[0] = _Asked("many of all", Context([UserMessage(name) for name in orders[1]]), {})
        requests, orders = asyncio.run(requests_of(subject, calls)), [orders[1]]
    for name, each in [("many of all", order) for order in orders] + [("many stops", stop)]:
        request = requests.get(name, "")
        sent = [value for value in each if _where(value, request)]
        require(
            each is stop or sent == each,
            f"of many, only these are sent: {', '.join(sent)}",
            request,
        )
        found = sorted(sent, key=lambda value: min(_where(value, request)))
        require(found == sent, f"the order is lost: {', '.join(found)}", request, sent)


def _where(value: str, request: str) -> list[int]:
    return [at for end in ('"', "\\") if (at := request.find(value + end)) >= 0]


_PASSING = (StreamErrorKind.OVERLOADED, StreamErrorKind.NETWORK)


def check_retries_are_alike(subject: Subject) -> None:
    """A retried request is the same request."""
    if not subject.speaks_http:
        raise DoesNotApply("it does not speak HTTP")

    async def ask() -> None:
        http = subject.http(MemoryResponse(status=503), MemoryResponse(status=400))
        once = RetryPolicy(retries=dict.fromkeys(_PASSING, 1), base=0.0)
        client = Client(host=subject.host, http=http, clock=DatedClock(), retry=once)
        context = Context([UserMessage("Hello")], "Be brief.")
        options = subject.call_options(extra={"nonce_extra": ["nonce_value"]})
        async with client.stream(subject.model, context, **options) as stream:
            async for _ in stream:
                pass
        require(len(http.requests) == 2, f"{len(http.requests)} requests are made, not 2")
        first, again = http.requests
        for what in ("method", "url", "body"):
            one, other = getattr(first, what), getattr(again, what)
            require(one == other, f"the {what} of a request is another when it is retried", other)
        gone = {name.lower() for name in first.headers} ^ {name.lower() for name in again.headers}
        require(not gone, f"the headers {', '.join(sorted(gone))} are not in both of two attempts")

    with quiet():
        asyncio.run(ask())


def check_side_by_side(subject: Subject) -> None:
    """Answers that are read concurrently or consecutively do not affect each other."""
    recordings = sorted(subject.answers(), key=lambda recording: len(recording.body))[:_READ]

    async def read() -> None:
        alone = {r.name: comparable(fold(await subject.parse(r))) for r in recordings}
        for one, other in zip(recordings, [*recordings[1:], recordings[0]], strict=True):
            for pair in ((one, other), (one, one)):
                for recording, events in zip(pair, await _together(subject, pair), strict=True):
                    beside = " and ".join(each.name for each in pair)
                    require(
                        comparable(fold(events)) == alone[recording.name],
                        f"recording {recording.name}: it is another message where {beside} are "
                        "read at the same time",
                        recording.body,
                    )

    asyncio.run(read())


async def _together(subject: Subject, pair: tuple[Recording, Recording]) -> list[list[Event]]:
    sources = [
        source_of(subject.provider, subject.model_of(recording), _cut(recording.body))
        for recording in pair
    ]
    found: list[list[Event]] = [[], []]
    left = list(zip(map(aiter, sources), found, strict=True))
    while left:
        for source, events in list(left):
            try:
                events.append(await anext(source))
            except StopAsyncIteration:
                left.remove((source, events))
    return found


def _cut(body: bytes) -> list[bytes]:
    size = max(1, len(body) // 20)
    return [body[at : at + size] for at in range(0, len(body), size)]
