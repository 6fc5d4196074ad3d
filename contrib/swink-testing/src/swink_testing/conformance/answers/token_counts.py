"""Checks of token counts that are missing, 0 or repeated.

A number is a token count if its change affects only the usage of the message, whatever the field's
name is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from swink_core import AssistantMessage, StopReason, Usage, replace
from swink_testing.conformance.answers.recorded_answers import (
    GONE,
    Changes,
    Path,
    RecordedAnswer,
    at,
    message_of,
    names_of,
    read_answers,
)
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import Subject

__all__ = ["check_token_counts"]

_COUNTED = 4711

_KINDS = ("input", "output", "cache_read", "cache_write", "reasoning")

_NAMED = re.compile("usage|token|count", re.IGNORECASE)
"""Matches the names of token counts in most APIs; other counts are recognized by their effect."""

_Counts: TypeAlias = dict[tuple[str, ...], bool]
"""Maps a number's wire format and field names to True if the number counts tokens."""


def check_token_counts(subject: Subject) -> None:
    """Token counts are those of the answer; a missing count is unknown, and is not read as 0.

    If a later frame repeats a count, it is not added again; if a later frame has a different count,
    this count replaces the earlier one. Cached tokens are part of the input.
    """

    async def compare() -> None:
        counts: _Counts = {}
        answers = await read_answers(subject)
        for answer in answers:
            await _find_counts(answer, counts)
        for answer in answers:
            await _require_unknown(answer, counts)
            await _require_once(answer, counts)
            if answer.message.usage is not None:
                await _require_replaced(answer, answer.message.usage)
        if not any(counts.values()):
            raise DoesNotApply("no number of a recording is read as a count of tokens")

    asyncio.run(compare())


async def _find_counts(answer: RecordedAnswer, counts: _Counts) -> None:
    """Find the numbers that count tokens, and check that 0 is read as 0."""
    for place in _last_numbers(answer):
        kind = _kind(answer, place[1])
        if kind in counts:
            continue
        found = await _message(answer, answer.replaced({place: _COUNTED}))
        counts[kind] = _is_counted(found, answer.message)
        shown = [name for name in _KINDS if getattr(found.usage, name, None) == _COUNTED]
        none = answer.replaced({place: 0})
        usage = (await _message(answer, none)).usage if shown else None
        for name in shown:
            count = getattr(usage, name, None)
            what = f"{answer.where}: 0 {name} tokens are said to be {count}"
            require(count == 0, what, answer.body(none), {name: 0})


async def _require_unknown(answer: RecordedAnswer, counts: _Counts) -> None:
    """Check that the counts are unknown, and the content is kept, if the answer has no counts."""
    gone: dict[tuple[int, Path], Any] = {}
    for number, path, value in answer.values():
        if not path or isinstance(path[-1], int):
            continue
        if any((number, path[:depth]) in gone for depth in range(len(path))):
            continue  # its object is removed
        is_number = type(value) is int and counts.get(_kind(answer, path), False)
        if is_number or _is_named(path, value):
            gone[number, path] = GONE
    changes = answer.replaced(gone)
    whole = answer.message
    found = await _message(answer, changes)
    if found == whole:
        return
    where, body = f"{answer.where}: where no tokens are counted", answer.body(changes)
    is_error = found.stop_reason is StopReason.ERROR
    require(not is_error, f"{where}, it fails: {found.error_message}", body)
    for name in ("input", "output"):
        told = getattr(found.usage, name, None)
        is_unknown = told in (None, getattr(whole.usage, name, None))
        require(is_unknown, f"{where}, {name} tokens are said to be {told}", body, {name: None})
    same = replace(found, usage=whole.usage) == whole
    require(same or is_error, f"{where}, the message is another", body)


def _is_named(path: Path, value: Any) -> bool:
    name = str(path[-1]).lower().replace("_", "")
    is_count = "token" in name and isinstance(value, int | dict)
    return is_count or "usage" in name or name.endswith("evalcount")


async def _require_once(answer: RecordedAnswer, counts: _Counts) -> None:
    """Check that the counts stay the same if a frame with token counts is sent twice."""
    for number in {n for n, path in _last_numbers(answer) if _counts_tokens(answer, path, counts)}:
        frame = answer.answer.frames[number]
        twice = {number: [frame, frame]}
        found, whole = await _message(answer, twice), answer.message
        if found.content == whole.content and found.stop_reason is whole.stop_reason:
            same = found.usage == whole.usage
            where = f"{answer.where}: where frame {number + 1} comes twice"
            why = f"{where}, tokens are counted twice"
            require(same, why, answer.body(twice), whole.usage)


async def _require_replaced(answer: RecordedAnswer, usage: Usage) -> None:
    """Check that a repeated count is not added again, and that a later count replaces it."""
    of_cache = (usage.cache_read or 0) + (usage.cache_write or 0)
    within = usage.input is None or usage.input >= of_cache
    where, body = answer.where, answer.recording.body
    require(within, f"{where}: the cache had more than the input: {usage}", body)
    for first, later, name in _repeatable(answer):
        count = at(answer.frames[first[0]], first[1])[name]
        other = answer.replaced({(first[0], (*first[1], name)): _COUNTED})
        if (await _message(answer, other)).usage == usage:
            continue  # the answer began again, so the first count no longer applies
        again = f"{where}: where frame {later[0] + 1} says again that {name} is"
        for value, is_same in ((count, True), (_COUNTED, False)):
            changes = answer.replaced({(later[0], (*later[1], name)): value})
            found = (await _message(answer, changes)).usage
            why = f"{again} {value}, the usage is {found}"
            require((found == usage) is is_same, why, answer.body(changes), usage)


def _repeatable(
    answer: RecordedAnswer,
) -> Iterator[tuple[tuple[int, Path], tuple[int, Path], str]]:
    """Yield pairs of usage objects: an earlier one with a count, and a later one without it.

    Each tuple contains the frame numbers and paths of the two objects, and the name of the count.
    """
    said: dict[tuple[Any, str], tuple[int, Path]] = {}
    for number, path, value in answer.values():
        kind = path[-1] if path else None
        if not isinstance(value, dict) or not isinstance(kind, str) or "usage" not in kind.lower():
            continue
        for (other, name), first in said.items():
            if other == kind and name not in value and first[0] < number:
                yield first, (number, path), name
        for name, count in value.items():
            if type(count) is int:
                said[kind, name] = number, path


async def _message(answer: RecordedAnswer, changes: Changes) -> AssistantMessage:
    return message_of(await answer.events(changes))


def _is_counted(found: AssistantMessage, whole: AssistantMessage) -> bool:
    """Return True if a number is a token count: its change affects only the usage."""
    return found.usage != whole.usage and replace(found, usage=whole.usage) == whole


def _counts_tokens(answer: RecordedAnswer, path: Path, counts: _Counts) -> bool:
    return counts[_kind(answer, path)] or bool(_NAMED.search(".".join(map(str, path))))


def _kind(answer: RecordedAnswer, path: Path) -> tuple[str, ...]:
    return (answer.recording.wire_format, *names_of(path))


def _last_numbers(answer: RecordedAnswer) -> list[tuple[int, Path]]:
    """Return the path of each integer field, in the last frame that contains the field."""
    places = {path: number for number, path, value in answer.values() if type(value) is int}
    return [(number, path) for path, number in places.items()]
