"""Unknown finish reasons, in the fields that contain them."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FunctionType
from typing import Any, TypeAlias

from swink_core import AssistantMessage, Block, Event, ExtensionBlock, Notice, StopReason, replace
from swink_recorder.recording import Recording
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.answers.edited_answers import Place, answers, data_of, edited, remove
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import comparable, fold

__all__ = ["check_stop_reasons"]

UNHEARD = "swink_unknown"

WORDS = ("stop", "length", "tool_calls", "end_turn", "max_tokens", "tool_use", "MAX_TOKENS")
"""Names of finish reasons in several APIs."""

MOST_TRIES = 150
"""Answers that are read to find the reason's fields."""

_Path: TypeAlias = tuple[str, ...]


def check_stop_reasons(subject: Subject) -> None:
    """An unknown or missing finish reason is an error or is reported by a Notice.

    It may be missing if a recording has none. Its field has a name that ends with "reason", or is
    the string whose change gives the same answer another reason. The rest of the message stays
    unchanged. A reason that means truncated, refused or interrupted is never a normal end.
    """

    async def compare() -> None:
        recorded = list(answers(subject))
        find = partial(_at, await _fields(subject, recorded))
        without = {r.wire_format for r, answer in recorded if edited(answer, find, remove) is None}
        named = known = False
        await _require_meant(subject, recorded, find)
        for recording, answer in recorded:
            whole = await subject.parse(recording)
            before = _told(whole)
            for what, change in (("unknown", _set(UNHEARD)), ("missing", remove)):
                body = edited(answer, find, change)
                if body is None or (what == "missing" and recording.wire_format in without):
                    continue
                named, known = True, known or not before
                events = await subject.parse(recording, [body])
                reason, told = fold(events).stop_reason, _told(events)
                where = f"recording {recording.name}: where the reason to stop is {what}"
                require(
                    {*told} - {*before} or reason is StopReason.ERROR,
                    f"{where}, it is said to be {reason}, and no Notice tells of it",
                )
                require(
                    reason is StopReason.ERROR
                    or what == "missing"
                    or any(UNHEARD in n for n in told),
                    f"{where}, the Notice does not name it: {', '.join(told)}",
                )
                lost = _lost(events, whole)
                require(
                    reason is StopReason.ERROR or lost is None, f"{where}, {lost} is another", body
                )
        if not named:
            raise DoesNotApply("no recording names a reason to stop")
        require(known, "each recorded finish reason is reported as unknown by a Notice")

    asyncio.run(compare())


def _lost(events: Sequence[Event], whole: Sequence[Event]) -> str | None:
    """Name what of a message is another than it was, besides the reason and what belongs to it."""
    found, expected = _without_reason(events), _without_reason(whole)
    names = (n for n in AssistantMessage.__struct_fields__ if not n.startswith("total_"))
    return next((n for n in names if getattr(found, n) != getattr(expected, n)), None)


def _without_reason(events: Sequence[Event]) -> AssistantMessage:
    message = comparable(fold(events))
    blocks = [block for block in message.content if not isinstance(block, ExtensionBlock)]
    content: list[Block] = [replace(block, metadata=None) for block in blocks]
    return replace(message, content=content, stop_reason=None, metadata=None)


async def _require_meant(
    subject: Subject,
    recorded: Sequence[tuple[Recording, Answer]],
    find: Callable[[Any], Iterator[Place]],
) -> None:
    """No word for an answer that is not whole is a clean end, neither the API's nor another's."""
    smallest = {
        recording.wire_format: (recording, answer)
        for recording, answer in sorted(recorded, key=lambda pair: -len(pair[0].body))
        if edited(answer, find, remove) is not None
    }
    for recording, answer in smallest.values():
        parser = subject.provider.parser(subject.model_of(recording))
        before = _told(await subject.parse(recording))
        for word in dict.fromkeys([*NOT_WHOLE, *filter(_NOT_WHOLE.search, _vocabulary(parser))]):
            body = edited(answer, find, _set(word))
            assert body is not None  # only such are the smallest
            events = await subject.parse(recording, [body])
            reason = fold(events).stop_reason
            require(
                reason not in (StopReason.STOP, StopReason.TOOL_USE)
                or {*_told(events)} - {*before},
                f"recording {recording.name}: where the reason to stop is {word!r}, it is said to "
                f"be {reason}, and no Notice tells of it",
                body,
            )


NOT_WHOLE = (
    "length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "model_length", "context_length",
    "context_limit", "model_context_window_exceeded", "token_limit", "ERROR_LIMIT", "truncated",
    "incomplete", "content_filter", "content_filtered", "SAFETY", "refusal", "blocked", "guardrail",
    "PROHIBITED_CONTENT", "ERROR_TOXIC", "sensitive", "error", "ERROR", "failed", "cancelled",
    "abort", "timeout", "network_error", "overloaded", "insufficient_system_resource",
)  # fmt: skip
"""Names of finish reasons of incomplete answers in several APIs."""

_NOT_WHOLE = re.compile(
    r"max|length|limit|window|truncat|incomplete|filter|safety|refus|block|prohibit|toxic|guardrail|"
    r"error|fail|cancel|abort|timeout|overload|insufficient|malformed|recitation",
    re.IGNORECASE,
)


def _vocabulary(parser: Any) -> Iterator[str]:
    """Yield the words that a parser's modules hold in tables and functions."""
    for made in type(parser).__mro__[:-1]:
        for value in vars(sys.modules[made.__module__]).values():
            yield from _words(value, made.__module__)


def _words(value: Any, module: str) -> Iterator[str]:
    match value:
        case str():
            if _WORD.fullmatch(value):
                yield value
        case dict() | tuple() | list() | set() | frozenset():
            for each in value:
                yield from _words(each, module)
        case type(__module__=where) if where == module:
            for each in vars(value).values():
                yield from _words(each, module)
        case FunctionType(__code__=code):
            for each in code.co_consts:
                yield from _words(each, module)


async def _fields(subject: Subject, recorded: Sequence[tuple[Recording, Answer]]) -> set[_Path]:
    """Return the fields that say why an answer stopped: by their names, or by their effect."""
    said: dict[_Path, set[str]] = {}
    for _, answer in recorded:
        for path, value in _strings(answer):
            said.setdefault(path, set()).add(value)
    found = {path for path in said if _is_named(path)}
    named = {r.wire_format for r, a in recorded if any(path in found for path, _ in _strings(a))}
    tries = MOST_TRIES
    for recording, answer in sorted(recorded, key=lambda pair: len(pair[0].body)):
        paths = list(dict.fromkeys(path for path, _ in _strings(answer)))
        if recording.wire_format in named or not found.isdisjoint(paths):
            continue
        whole = await subject.parse(recording)
        for path in paths:
            if len(said[path]) > len(WORDS) or not all(map(_WORD.fullmatch, said[path])):
                continue
            for word in dict.fromkeys([UNHEARD, *sorted(said[path]), *WORDS]):
                if not tries:
                    return found
                tries -= 1
                body = edited(answer, partial(_at, {path}), _set(word))
                assert body is not None  # the path is of this answer
                try:
                    events = await subject.parse(recording, [body])
                except Exception:
                    continue  # a fault; where it is the reason's field, the check itself tells it
                if _says_why(events, whole):
                    found.add(path)
                    break
    return found


_WORD = re.compile(r"[A-Za-z_-]{2,32}")


def _is_named(path: _Path) -> bool:
    return path[-1].lower().replace("_", "").endswith("reason")


def _says_why(events: Sequence[Event], whole: Sequence[Event]) -> bool:
    """Whether the same answer has another finish reason, or the unknown one is reported."""
    message, before = fold(events), fold(whole)
    if comparable(message).content != comparable(before).content:
        return False
    if message.stop_reason is StopReason.ERROR:
        return UNHEARD in (message.error_message or "")
    told = any(UNHEARD in detail for detail in _told(events))
    return told or message.stop_reason is not before.stop_reason


def _strings(answer: Answer) -> Iterator[tuple[_Path, str]]:
    for frame in answer.frames:
        for data in data_of(answer, frame):
            for path, holder, name in _walk(data):
                yield path, holder[name]


def _at(fields: set[_Path], data: Any) -> Iterator[Place]:
    for path, holder, name in _walk(data):
        if path in fields and holder[name] not in _NONE_YET:
            yield holder, name


_NONE_YET = ("null", "")
"""Names that APIs use while an answer continues."""


def _walk(data: Any, path: _Path = ()) -> Iterator[tuple[_Path, dict[str, Any], str]]:
    """Yield the strings in JSON data: the names that lead to one, and where it is."""
    if isinstance(data, dict):
        for name, value in data.items():
            if isinstance(value, str):
                yield (*path, name), data, name
            else:
                yield from _walk(value, (*path, name))
    elif isinstance(data, list):
        for value in data:
            yield from _walk(value, path)


def _set(word: str) -> Callable[[dict[str, Any], str], None]:
    def change(holder: dict[str, Any], name: str) -> None:
        holder[name] = word

    return change


def _told(events: Sequence[Event]) -> list[str]:
    return [event.detail for event in events if isinstance(event, Notice) and event.detail]
