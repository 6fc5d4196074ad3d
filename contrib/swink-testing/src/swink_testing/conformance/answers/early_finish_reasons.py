"""Finish reasons before the end of an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

from swink_core import Error, Event, Notice
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.answers.edited_answers import answers, data_of
from swink_testing.conformance.answers.joined_frames import Path, at, texts_in, with_value
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import fold

__all__ = ["check_early_reasons"]


def check_early_reasons(subject: Subject) -> None:
    """A finish reason that each frame repeats does not end the answer early."""

    async def compare() -> None:
        found = False
        for recording, answer in answers(subject):
            if (body := _said_early(answer)) is None:
                continue
            found = True
            whole, events = await subject.parse(recording), await subject.parse(recording, [body])
            told = [sum(isinstance(e, Notice) for e in each) for each in (whole, events)]
            text, expected = (_text(each) for each in (events, whole))
            require(
                text == expected or isinstance(events[-1], Error) or told[1] > told[0],
                f"recording {recording.name}: where each frame says the reason to stop, the text "
                "is another, and nothing tells of it",
                body,
                expected,
            )
        if not found:
            raise DoesNotApply("no frame but the last has room for a reason to stop")

    asyncio.run(compare())


def _text(events: Sequence[Event]) -> str:
    """Return the text, and the reasoning: calls may end with the reason."""
    message = fold(events)
    return f"{message.thinking}\0{message.text}"


def _said_early(answer: Answer) -> bytes | None:
    """Return the answer with its reason in every frame that has what holds it at the end."""
    frames = [next(data_of(answer, frame), None) for frame in answer.frames]
    reasons = [(n, *reason) for n, data in enumerate(frames) for reason in _reasons(data)]
    if not reasons:
        return None
    last, path, reason = reasons[-1]
    changed = dict(_with_reason(frames[:last], path, reason))
    if not changed:
        return None
    return b"".join(
        answer.frame(json.dumps(changed[n]).encode()) if n in changed else frame
        for n, frame in enumerate(answer.frames)
    )


def _reasons(data: Any) -> Iterator[tuple[Path, str]]:
    for path, value in texts_in(data):
        if str(path[-1]).lower().replace("_", "").endswith("reason") and value:
            yield path, value


def _with_reason(frames: list[Any], path: Path, reason: str) -> Iterator[tuple[int, Any]]:
    for number, data in enumerate(frames):
        try:
            holder = at(data, path[:-1])
        except (LookupError, TypeError):
            continue
        if isinstance(holder, dict):
            yield number, with_value(data, path, reason)
