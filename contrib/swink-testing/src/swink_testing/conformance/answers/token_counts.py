"""Token counts: missing, 0, and told again. A number that is read as one is one, whatever its
name."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from swink_core import AssistantMessage, StopReason, replace
from swink_recorder.recording import Recording
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.answers.edited_answers import (
    Place,
    answers,
    data_of,
    edited,
    places,
    remove,
)
from swink_testing.conformance.answers.joined_frames import Path, at, with_value
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import comparable, fold

__all__ = ["check_counts", "check_missing_usage"]

_COUNTED = 4711

_NONE_SEEN = "no number of a recording is read as a count of tokens"

_KINDS = ("input", "output", "cache_read", "cache_write", "reasoning")


def check_missing_usage(subject: Subject) -> None:
    """Without token counts, the message is the same, and its counts are unknown, not 0."""

    async def compare() -> None:
        counted = False
        for recording, answer in answers(subject):
            whole = comparable(fold(await subject.parse(recording)))
            body = await _without_counts(subject, recording, answer)
            found = comparable(fold(await subject.parse(recording, [body])))
            if found == whole:
                continue
            counted = True
            where = f"recording {recording.name}: where no tokens are counted"
            if found.stop_reason is StopReason.ERROR:
                fail(f"{where}, it fails: {found.error_message}", body)
            for name in ("input", "output"):
                told = getattr(found.usage, name, None)
                require(
                    told in (None, getattr(whole.usage, name, None)),
                    f"{where}, {name} tokens are said to be {told}",
                    body,
                    {name: None},
                )
            same = replace(found, usage=whole.usage) == whole
            require(same, f"{where}, the message is another", body)
        if not counted:
            raise DoesNotApply(_NONE_SEEN)

    asyncio.run(compare())


async def _without_counts(subject: Subject, recording: Recording, answer: Answer) -> bytes:
    """Return an answer without its counts: what is named as one, and what else is read as one."""
    body = edited(answer, _counts, remove) or recording.body
    rest = comparable(fold(await subject.parse(recording, [body])))
    if all(getattr(rest.usage, name, None) is None for name in _KINDS):
        return body
    bare = Answer.of_body(body, type(subject.provider).decoder)
    paths = []
    for place, data, path in _last_numbers(bare):
        more = _with(bare, place, with_value(data, path, _COUNTED))
        if _is_counted(comparable(fold(await subject.parse(recording, [more]))), rest):
            paths.append(path)

    def of_these(data: Any) -> Iterator[Place]:
        for *above, name in paths:
            with suppress(LookupError, TypeError):
                holder = at(data, tuple(above))
                if isinstance(holder, dict) and name in holder:
                    yield holder, str(name)

    return edited(bare, of_these, remove) or body


def check_counts(subject: Subject) -> None:
    """Token counts are those of the answer: 0 stays 0, and a repeated count counts once."""

    async def compare() -> None:
        seen: dict[tuple[str, ...], bool] = {}
        for recording, answer in answers(subject):
            where, frames = f"recording {recording.name}", set[int]()
            whole = comparable(fold(await subject.parse(recording)))
            for place, data, path in _last_numbers(answer):
                kind = (recording.wire_format, *map(str, path))
                if kind not in seen:
                    many = _with(answer, place, with_value(data, path, _COUNTED))
                    found = comparable(fold(await subject.parse(recording, [many])))
                    seen[kind] = _is_counted(found, whole)
                    usage = found.usage
                    shown = [name for name in _KINDS if getattr(usage, name, None) == _COUNTED]
                    none = _with(answer, place, with_value(data, path, 0))
                    told = fold(await subject.parse(recording, [none])).usage if shown else None
                    for name in shown:
                        count = getattr(told, name, None)
                        what = f"{where}: 0 {name} tokens are said to be {count}"
                        require(count == 0, what, none, {name: 0})
                if seen[kind] or _COUNT.search(".".join(map(str, path))):
                    frames.add(place)
            await _require_once(subject, recording, answer, frames)
        if not any(seen.values()):
            raise DoesNotApply(_NONE_SEEN)

    asyncio.run(compare())


def _is_counted(found: AssistantMessage, whole: AssistantMessage) -> bool:
    """Tell whether a number is a count: with another one nothing differs but the usage."""
    return found.usage != whole.usage and replace(found, usage=whole.usage) == whole


async def _require_once(
    subject: Subject, recording: Recording, answer: Answer, frames: set[int]
) -> None:
    """Counts that come twice are counted once."""
    whole = comparable(fold(await subject.parse(recording)))
    for place in frames:
        frame = answer.frames[place]
        body = b"".join([*answer.frames[:place], frame, *answer.frames[place:]])
        found = comparable(fold(await subject.parse(recording, [body])))
        if found.content == whole.content and found.stop_reason is whole.stop_reason:
            same = found.usage == whole.usage
            where = f"recording {recording.name}: where frame {place + 1} comes twice"
            require(same, f"{where}, tokens are counted twice", body, whole.usage)


def _last_numbers(answer: Answer) -> list[tuple[int, Any, Path]]:
    """Return each whole number where it stands last: the frame, its data, and the place."""
    found: dict[Path, tuple[int, Any, Path]] = {}
    for place, frame in enumerate(answer.frames):
        for data in data_of(answer, frame):
            for path in _numbers(data, ()):
                found[path] = (place, data, path)
    return list(found.values())


def _numbers(data: Any, path: Path) -> Iterator[Path]:
    if type(data) is int:
        yield path
    elif isinstance(data, dict | list):
        for step, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _numbers(value, (*path, step))


_COUNT = re.compile("usage|token|count", re.IGNORECASE)
"""Names of counts in most APIs; other names are recognized by their effect."""


def _with(answer: Answer, place: int, data: Any) -> bytes:
    frame = answer.frame(json.dumps(data).encode())
    return b"".join([*answer.frames[:place], frame, *answer.frames[place + 1 :]])


def _counts(data: Any) -> Iterator[Place]:
    return places(data, _counts_tokens)


def _counts_tokens(name: str, value: Any) -> bool:
    counted = "token" in name and isinstance(value, int | dict)
    return counted or "usage" in name or name.endswith("evalcount")
