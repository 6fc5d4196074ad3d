"""Token counts that a later frame repeats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from attrs import define

from swink_core import Usage
from swink_recorder.recording import Recording
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.answers.edited_answers import answers, data_of
from swink_testing.conformance.answers.joined_frames import Path, at, with_value
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import fold

__all__ = ["check_counts_are_held"]

_ANOTHER = 4711


@define
class _Told:
    """An object that holds counts: its frame, the frame's data, and where it is in them."""

    frame: int
    data: Any
    path: Path

    @property
    def counts(self) -> dict[str, Any]:
        """What it says."""
        found: dict[str, Any] = at(self.data, self.path)
        return found

    def saying(self, answer: Answer, name: str, count: int) -> bytes:
        """Return the answer in which it says that too."""
        data = with_value(self.data, self.path, {**self.counts, name: count})
        frame = answer.frame(json.dumps(data).encode())
        return b"".join([*answer.frames[: self.frame], frame, *answer.frames[self.frame + 1 :]])


def check_counts_are_held(subject: Subject) -> None:
    """A repeated count replaces the earlier one; cached tokens are part of the input."""

    async def compare() -> None:
        counted = False
        for recording, answer in answers(subject):
            if (usage := await _usage(subject, recording, recording.body)) is None:
                continue
            counted = True
            where = f"recording {recording.name}"
            of_cache = (usage.cache_read or 0) + (usage.cache_write or 0)
            within = usage.input is None or usage.input >= of_cache
            require(within, f"{where}: the cache had more than the input: {usage}", recording.body)
            for first, later, name in _again(answer):
                count = first.counts[name]
                other = first.saying(answer, name, _ANOTHER)
                if await _usage(subject, recording, other) == usage:
                    continue  # the answer was begun anew since, and it counts no longer
                body = later.saying(answer, name, count)
                found = await _usage(subject, recording, body)
                again = f"{where}: where frame {later.frame + 1} says again that {name} is {count}"
                require(found == usage, f"{again}, the usage is {found}", body, usage)
                body = later.saying(answer, name, _ANOTHER)
                found = await _usage(subject, recording, body)
                again = f"{where}: where frame {later.frame + 1} says of {name} {_ANOTHER}, at last"
                require(found != usage, f"{again}, it is not counted", body)
        if not counted:
            raise DoesNotApply("no recording counts tokens")

    asyncio.run(compare())


async def _usage(subject: Subject, recording: Recording, body: bytes) -> Usage | None:
    return fold(await subject.parse(recording, [body])).usage


def _again(answer: Answer) -> Iterator[tuple[_Told, _Told, str]]:
    """Yield each count, its last place, and a later object without it."""
    said: dict[tuple[str, str], _Told] = {}
    for number, frame in enumerate(answer.frames):
        for data in data_of(answer, frame):
            for path in _usages(data, ()):
                told, kind = _Told(number, data, path), str(path[-1])
                for (other, name), first in said.items():
                    if other == kind and name not in told.counts and first.frame < number:
                        yield first, told, name
                for name, count in told.counts.items():
                    if type(count) is int:
                        said[kind, name] = told


def _usages(data: Any, path: Path) -> Iterator[Path]:
    if isinstance(data, dict | list):
        for step, value in data.items() if isinstance(data, dict) else enumerate(data):
            if isinstance(value, dict) and isinstance(step, str) and "usage" in step.lower():
                yield (*path, step)
            yield from _usages(value, (*path, step))
