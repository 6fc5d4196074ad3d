"""Token counts: missing, 0, and told again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

from attrs import evolve

from swink_core import StopReason
from swink_recorder.recording import Recording
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.edited import Place, answers, data_of, edited, places, remove
from swink_testing.conformance.joined import Path, with_value
from swink_testing.conformance.subject import Subject
from swink_testing.driver import comparable, fold

__all__ = ["check_counts", "check_missing_usage"]

_COUNTED = 4711

_KINDS = ("input", "output", "cache_read", "cache_write", "reasoning")


def check_missing_usage(subject: Subject) -> None:
    """An answer that counts no tokens is the same message, whose counts are unknown, not 0."""

    async def compare() -> None:
        counted = False
        for recording, answer in answers(subject):
            if (body := edited(answer, _counts, remove)) is None:
                continue
            counted = True
            whole = comparable(fold(await subject.parse(recording)))
            found = comparable(fold(await subject.parse(recording, [body])))
            where = f"recording {recording.name}: where no tokens are counted"
            if found.stop_reason is StopReason.ERROR:
                fail(f"{where}, it fails: {found.error_message}", body)
            for name in ("input", "output"):
                told = getattr(found.usage, name, None)
                require(
                    told in (None, getattr(whole.usage, name, None)),
                    f"{where}, {name} tokens are said to be {told}",
                    body,
                )
            same = evolve(found, usage=whole.usage) == whole
            require(same, f"{where}, the message is another", body)
        if not counted:
            raise DoesNotApply("no recording counts tokens")

    asyncio.run(compare())


def check_counts(subject: Subject) -> None:
    """Tokens are counted as the answer says, 0 too, and once where it says so twice."""

    async def compare() -> None:
        seen: set[tuple[str | None, ...]] = set()
        for recording, answer in answers(subject):
            where = f"recording {recording.name}"
            for place, data, path in _last_counts(answer):
                kind = (recording.wire_format, *map(str, path))
                if kind in seen:
                    continue
                seen.add(kind)
                many = _with(answer, place, with_value(data, path, _COUNTED))
                usage = fold(await subject.parse(recording, [many])).usage
                shown = [name for name in _KINDS if getattr(usage, name, None) == _COUNTED]
                none = _with(answer, place, with_value(data, path, 0))
                told = fold(await subject.parse(recording, [none])).usage
                for name in shown:
                    count = getattr(told, name, None)
                    require(count == 0, f"{where}: 0 {name} tokens are said to be {count}", none)
            await _require_once(subject, recording, answer)
        if not seen:
            raise DoesNotApply("no recording counts tokens")

    asyncio.run(compare())


async def _require_once(subject: Subject, recording: Recording, answer: Answer) -> None:
    """Counts that come twice are counted once."""
    whole = comparable(fold(await subject.parse(recording)))
    for place in {place for place, _, _ in _last_counts(answer)}:
        frame = answer.frames[place]
        body = b"".join([*answer.frames[:place], frame, *answer.frames[place:]])
        found = comparable(fold(await subject.parse(recording, [body])))
        if found.content == whole.content and found.stop_reason is whole.stop_reason:
            same = found.usage == whole.usage
            where = f"recording {recording.name}: where frame {place + 1} comes twice"
            require(same, f"{where}, tokens are counted twice", body, whole.usage)


def _last_counts(answer: Answer) -> list[tuple[int, Any, Path]]:
    """Return each count of tokens where it stands last: the frame, its data, and the place."""
    found: dict[Path, tuple[int, Any, Path]] = {}
    for place, frame in enumerate(answer.frames):
        for data in data_of(answer, frame):
            for path in _numbers(data, ()):
                found[path] = (place, data, path)
    return list(found.values())


def _numbers(data: Any, path: Path) -> Iterator[Path]:
    if type(data) is int:
        if _COUNT.search(".".join(map(str, path))):
            yield path
    elif isinstance(data, dict | list):
        for step, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _numbers(value, (*path, step))


_COUNT = re.compile("usage|token|count", re.IGNORECASE)


def _with(answer: Answer, place: int, data: Any) -> bytes:
    frame = answer.frame(json.dumps(data).encode())
    return b"".join([*answer.frames[:place], frame, *answer.frames[place + 1 :]])


def _counts(data: Any) -> Iterator[Place]:
    return places(data, _counts_tokens)


def _counts_tokens(name: str, value: Any) -> bool:
    counted = "token" in name and isinstance(value, int | dict)
    return counted or "usage" in name or name.endswith("evalcount")
