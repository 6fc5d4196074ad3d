"""Calls of the library: arguments, answers and failures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import swink
from lab.exchanges import words
from lab.exchanges.plan import Conversation, Options
from lab.exchanges.talk import Call, Entry, Failed, Result, Seen, User

__all__ = ["FUNCTIONS", "Note", "ask", "collect", "context_of", "options_of", "seen_of"]

_RETRYABLE = ("throttled", "overloaded", "network", "empty_response", "timeout", "protocol")
SILENT = swink.Timeouts(first_event=2.5, idle=2.5, no_progress=2.5)
"""Time limits of calls whose vendor falls silent; on a busy machine, no other pause is as long."""


class Place(TypedDict):
    """A place of a report."""

    street: str
    number: int


def get_weather(city: str, unit: Literal["celsius", "fahrenheit"]) -> str:
    """Tell the weather."""
    return f"{city}: 18 {unit} 🌧️"


async def add(numbers: list[int], exact: bool) -> dict[str, Any]:
    """Add numbers: 足し算 🧮."""
    if len(numbers) > 3:
        raise ValueError("too many numbers")
    return {"sum": sum(numbers), "exact": exact}


def file_report(title: str, place: Place, tags: list[str]) -> str:
    """File a report."""
    return json.dumps([title, place, tags], ensure_ascii=False)


FUNCTIONS: dict[str, Any] = {"get_weather": get_weather, "add": add, "file_report": file_report}
"""The tools of runs, by name; their schemas are those of `words.TOOLS`."""


@dataclass
class Note:
    """A note about a place."""

    title: str
    count: int
    tags: list[str]


def context_of(entries: list[Entry]) -> list[Any]:
    """Return a conversation as swink's messages."""
    made: list[Any] = []
    for entry in entries:
        if isinstance(entry, User):
            made.append(swink.UserMessage([*entry.texts, *map(swink.image, entry.images)]))
        elif isinstance(entry, Result):
            made.append(
                swink.ToolResultMessage(entry.id, entry.name, entry.text, is_error=entry.is_error)
            )
        elif entry.native is not None:
            made.append(entry.native)
        else:
            blocks: list[Any] = [swink.TextBlock(entry.text)] if entry.text else []
            for call in entry.calls:
                blocks.append(swink.ToolCallBlock(call.id, call.name, call.arguments or {}))
            made.append(swink.AssistantMessage(blocks))
    return made


def options_of(talk: Conversation, *, tools: bool = True) -> dict[str, Any]:
    """Return the options of the calls of a conversation."""
    given: Options = talk.options
    made: dict[str, Any] = {
        "system_prompt": given.system,
        "max_tokens": given.max_tokens,
        "temperature": given.temperature,
        "top_p": given.top_p,
        "stop": given.stop,
        "tool_choice": given.choice,
        "response_format": given.schema,
        "thinking": given.thinking,
        "extra": talk.target.extra(given.tier),
        "transport": "auto" if talk.streamed else "buffered",
        "retry": _retry(talk.retries),
    }
    if tools and given.tools:
        made["tools"] = [swink.Tool(name, **words.TOOLS[name]) for name in given.tools]
    if talk.fault is not None and talk.fault.kind == "silence":
        made["timeouts"] = SILENT
    return {name: value for name, value in made.items() if value not in (None, (), {})}


def _retry(retries: int) -> Any:
    if not retries:
        return False
    kinds = {swink.StreamErrorKind(kind): retries for kind in _RETRYABLE}
    return swink.RetryPolicy(retries=kinds, base=0)


def seen_of(message: swink.AssistantMessage) -> Seen:
    """Return the contents of a message."""
    calls = []
    for block in message.tool_calls:
        known = block.state == "complete"
        arguments = block.arguments if known else None
        calls.append(Call(block.id, block.name, arguments, block.raw_arguments or ""))
    made = Seen(message.text, message.thinking, tuple(calls), native=message)
    made.stop = None if message.stop_reason is None else str(message.stop_reason.value)
    if message.usage is not None:
        usage = message.usage
        made.usage = {
            "input": usage.input,
            "output": usage.output,
            "cached": usage.cache_read,
            "written": usage.cache_write,
            "reasoning": usage.reasoning,
            "total": usage.total,
        }
    if message.cost is not None:
        made.cost = message.cost.total
        made.estimated = message.cost.estimated
    return made


def failed_of(error: swink.SwinkError) -> Failed:
    """Return the fields of an exception."""
    name = type(error).__name__
    if isinstance(error, swink.StreamError):
        return Failed(
            error.kind.value,
            name,
            error.status,
            error.code,
            message=error.message,
            attempts=error.attempts,
        )
    return Failed("usage", name, message=error.message, attempts=0)


async def ask(
    client: swink.Client,
    talk: Conversation,
    entries: list[Entry],
    kind: str,
    turn: int,
    model: str | None = None,
) -> Seen:
    """Make one call of a conversation; `model` replaces its target's name."""
    name = model or talk.target.name
    options = options_of(talk)
    context = context_of(entries)
    if kind == "complete":
        return await collect(client.complete(name, context, **options))
    return await _streamed(client, talk, name, context, options, talk.leave_at == turn)


async def collect(call: Any) -> Seen:
    """Await a message, or the failure in its place."""
    try:
        message = await call
    except swink.StreamError as error:
        made = Seen() if error.partial is None else seen_of(error.partial)
        made.failed = failed_of(error)
        return made
    except swink.SwinkError as error:
        return Seen(failed=failed_of(error))
    return seen_of(message)


async def _streamed(
    client: swink.Client,
    talk: Conversation,
    model: str,
    context: Any,
    options: Any,
    leaves: bool,
) -> Seen:
    """Read the events of a stream, and compare them with the message at its end."""
    try:
        stream = client.stream(model, context, **options)
    except swink.SwinkError as error:
        return Seen(failed=failed_of(error))
    text: list[str] = []
    thinking: list[str] = []
    named: list[str] = []
    events = 0
    ends = 0
    left = False
    reserved: float | None = None
    async with stream:
        async for event in stream:
            events += 1
            if leaves and reserved is None and stream.call.attempt is not None:
                reserved = stream.call.attempt.charge.cost
            match event:
                case swink.Start() | swink.Retry():
                    text.clear()
                    thinking.clear()
                    events -= 1
                case swink.TextDelta(delta=delta):
                    text.append(delta)
                case swink.ThinkingDelta(delta=delta):
                    thinking.append(delta)
                case swink.Notice(paths=paths):
                    named += paths
                    events -= 1
                case swink.Done() | swink.Error():
                    ends += 1
            if leaves and events >= talk.leave_after and ends == 0 and events > 0:
                left = True
                break
        failed = None
        if not left:
            try:
                await stream.result()
            except swink.SwinkError as error:
                failed = failed_of(error)
    made = seen_of(stream.message)
    made.failed = failed
    made.left = left
    made.named = tuple(named)
    made.charge = stream.call.charge.cost if left else None
    made.reserved = reserved
    if not left and ends != 1:
        made.problems.append(f"{ends} terminal events in a stream")
    if "".join(text) != made.text and not left:
        made.problems.append("the message and its events have different texts")
    if "".join(thinking) != made.thinking and not left:
        made.problems.append("the message and its events have different thinking")
    return made
