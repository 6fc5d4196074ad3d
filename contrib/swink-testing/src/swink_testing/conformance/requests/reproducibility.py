"""Checks that a repeated call makes the same request, also in another process."""

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
from swink_judge.matrix.conversations import conversation
from swink_judge.matrix.options import SCHEMA, alone
from swink_testing.clock import DatedClock
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.requests.conversations import conversations
from swink_testing.conformance.requests.worker_process import elsewhere
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse
from swink_testing.quiet import quiet

__all__ = [
    "check_order_is_kept",
    "check_same_requests",
    "requests_of",
]

_MANY = 8
"""How many tools, stop sequences and calls are sent to check their order. A Python set of this size
hardly keeps the order by chance.
"""

_KEPT = ("own part", "own thinking", "tool used", "marks for the cache", "schema deep and strict")
"""Conversations with objects that a converter might modify. The first conversation is sent with all
values of each option, the other conversations with one value of each option.
"""


class _Asked(NamedTuple):
    """A call: its name, its conversation, and its options."""

    name: str
    context: Context
    options: dict[str, Any]


def check_same_requests(subject: Subject) -> None:
    """A call makes the same request after other calls, in a retry, and in another process.

    The call does not change its context and its options.
    """
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
    if subject.speaks_http:
        asyncio.run(_require_kept(subject))
        with quiet():
            asyncio.run(_require_retried(subject))
    again = asyncio.run(requests_of(subject, before[::-1]))
    _require_same(first, again, "asked again after other calls")
    if _is_found(subject):
        _require_same(first, elsewhere(subject), "asked in another process")


async def _require_kept(subject: Subject) -> None:
    """Check that a call does not change its context and its options."""
    a_value_each = {tuple(options): options for options in alone()}.values()
    async with subject.asker() as asker:
        for name in _KEPT:
            context = conversation(name, subject.name).context
            for options in alone() if name == _KEPT[0] else a_value_each:
                given = deepcopy((context, options))  # shared objects must stay unchanged
                outcome = await subject.outcome(asker, name, *given)
                kept = given == (context, options)
                require(kept, f"the call changes what it was given: {outcome.case}", given[0])


def _require_same(first: dict[str, str], again: dict[str, str], when: str) -> None:
    for name, request in first.items():
        if (other := again.get(name)) != request:
            fail(f"{name}: {when}, the call is another request", other, request)


def _is_found(subject: Subject) -> bool:
    """Whether another process finds the same plugin by its entry point."""
    entry = subject.entry
    try:
        return EntryPoint(entry.name, entry.value, entry.group).load() is entry.load()
    except (ImportError, AttributeError):
        return False


async def requests_of(subject: Subject, calls: list[_Asked] | None = None) -> dict[str, str]:
    """Return the request of each call that is not refused, by the name of the call."""
    found: dict[str, str] = {}
    if not subject.speaks_http:
        hook, options = subject.binding.hook.convert_messages, StreamOptions()
        for call in calls or _calls():
            if not call.options:
                payload = hook(model=subject.model, context=call.context, options=options)
                found[call.name] = repr(payload)
        return found
    async with subject.asker() as asker:
        for call in calls or _calls():
            outcome = await subject.outcome(asker, *call)
            if (request := outcome.request) is not None:
                found[call.name] = f"{request.url}\n{request.body.decode('utf-8', 'replace')}"
    return found


def _calls() -> Iterator[_Asked]:
    for each in conversations():
        yield _Asked(f"the conversation {each.name}", each.context, {})
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
    """Return a conversation with many parts of each kind, and the expected order of their texts."""
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
    """Turns, content parts, tools, calls, results and stop sequences are sent in order."""
    subject.require_http()
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


async def _require_retried(subject: Subject) -> None:
    """Check that a retried request equals the first request."""
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
