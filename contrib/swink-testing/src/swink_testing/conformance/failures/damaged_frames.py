"""Damaged frames in the middle of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from swink_core import Error, Notice
from swink_recorder.recording import Recording
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.answers.edited_answers import answers
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import comparable, fold
from swink_testing.quiet import quiet

__all__ = ["check_damaged_frames"]

MOST_FRAMES = 3
"""Frames of an answer that are damaged, one at a time."""


def check_damaged_frames(subject: Subject) -> None:
    """Content lost in a damaged frame is reported by an error or a Notice."""

    async def compare() -> None:
        applied = False
        for recording, answer in answers(subject):
            whole = await subject.parse(recording)
            content = comparable(fold(whole)).content
            for place in await _telling(subject, recording, answer):
                for what, frame in _damaged(answer, answer.frames[place]):
                    applied = True
                    body = _with(answer, place, frame)
                    events = await subject.parse(recording, [body])
                    told = [e for e in events if isinstance(e, Notice)]
                    require(
                        isinstance(events[-1], Error)
                        or len(told) > sum(isinstance(e, Notice) for e in whole)
                        or comparable(fold(events)).content == content,
                        f"recording {recording.name}: without frame {place + 1}, {what}, the "
                        "answer is another, and nothing tells of it",
                        body,
                    )
        if not applied:
            raise DoesNotApply("no recorded answer has a frame in its middle that can be damaged")

    with quiet():
        asyncio.run(compare())


async def _telling(subject: Subject, recording: Recording, answer: Answer) -> list[int]:
    """Return places of frames, from the middle on, without which the content is another."""
    content = comparable(fold(await subject.parse(recording))).content
    last = len(answer.frames) - 1
    found: list[int] = []
    for place in sorted(range(1, last), key=lambda place: abs(place - last // 2))[:_MOST_TRIES]:
        left = comparable(fold(await subject.parse(recording, [_with(answer, place, b"")])))
        if left.content != content:
            found.append(place)
        if len(found) == MOST_FRAMES:
            break
    return found


_MOST_TRIES = 8


def _damaged(answer: Answer, frame: bytes) -> Iterator[tuple[str, bytes]]:
    for payload in answer.payloads(frame):
        half = len(payload) // 2
        with suppress(ValueError):  # a framing of its own that holds no such text
            yield "whose JSON is cut", answer.frame(payload[:half])
            control = payload[:half] + b"\x01" + payload[half:]
            yield "which has a control character in it", answer.frame(control)


def _with(answer: Answer, place: int, frame: bytes) -> bytes:
    return b"".join([*answer.frames[:place], frame, *answer.frames[place + 1 :]])
