"""Checks of answers that are truncated or contain damaged frames."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress

from swink_core import Error, Event
from swink_core import StreamErrorKind as Kind
from swink_recorder.recording import Recording
from swink_testing.chunking import frame_ends, truncations
from swink_testing.conformance.answers.recorded_answers import (
    RecordedAnswer,
    details,
    message_of,
    read_answers,
)
from swink_testing.conformance.answers.streaming import broken_rule
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.subject import Subject
from swink_testing.quiet import quiet

__all__ = ["check_lost_content"]

MOST_FRAMES = 3
"""The maximum number of frames of an answer that are damaged, one at a time."""

_MOST_TRIES = 8
"""The maximum number of frames that are left out, one at a time, to find frames with content."""


def check_lost_content(subject: Subject) -> None:
    """Lost content is reported, and a truncated answer ends with a network error.

    An answer that is cut after the frame that completes it counts as complete. If a damaged frame
    contained content, an error or a Notice reports its loss.
    """

    async def read() -> None:
        for recording in subject.answers():
            await _require_cuts(subject, recording)
        with suppress(DoesNotApply):  # only frames that can be written are damaged
            for answer in await read_answers(subject):
                await _require_damage(answer)

    with quiet():
        asyncio.run(read())


async def _require_cuts(subject: Subject, recording: Recording) -> None:
    whole = message_of(await subject.parse(recording))
    complete_at = None
    ends = frame_ends(recording.body, type(subject.provider).decoder)
    for frames, body in truncations(recording.body, ends):
        where = f"recording {recording.name} cut after {frames} of {len(ends)} frames"
        events = await subject.parse(recording, [body])
        if (broken := broken_rule(events)) is not None:
            fail(f"{where}: {broken}")
        terminal = events[-1]
        if isinstance(terminal, Error):
            kind = terminal.error_kind
            is_network = kind is Kind.NETWORK
            require(is_network, f"{where} ends in Error({kind}), not in Error(network)")
            ended = f"{where} ends in an error, though it was Done after {complete_at} frames"
            require(complete_at is None, ended)
            continue
        complete_at = frames if complete_at is None else complete_at
        found = message_of(events)
        same = found.content == whole.content and found.stop_reason is whole.stop_reason
        require(same, f"{where} ends in Done({found.stop_reason}) with half an answer")


async def _require_damage(answer: RecordedAnswer) -> None:
    for number in await _telling(answer):
        for what, frame in _damaged(answer, number):
            changes = {number: [frame]}
            events = await answer.events(changes)
            require(
                isinstance(events[-1], Error)
                or _notices(events) > _notices(answer.whole)
                or message_of(events).content == answer.message.content,
                f"{answer.where}: without frame {number + 1}, {what}, the answer is another, and "
                "nothing tells of it",
                answer.body(changes),
            )


def _notices(events: Sequence[Event]) -> int:
    return len(details(events))


async def _telling(answer: RecordedAnswer) -> list[int]:
    """Return the indexes of frames with content, the frame nearest the answer's middle first."""
    last = len(answer.frames) - 1
    found: list[int] = []
    for number in sorted(range(1, last), key=lambda place: abs(place - last // 2))[:_MOST_TRIES]:
        left = message_of(await answer.events({number: []}))
        if left.content != answer.message.content:
            found.append(number)
        if len(found) == MOST_FRAMES:
            break
    return found


def _damaged(answer: RecordedAnswer, number: int) -> Iterator[tuple[str, bytes]]:
    for payload in answer.answer.payloads(answer.answer.frames[number]):
        half = len(payload) // 2
        with suppress(ValueError):  # a binary framing cannot contain this text
            yield "whose JSON is cut", answer.answer.frame(payload[:half])
            control = payload[:half] + b"\x01" + payload[half:]
            yield "which has a control character in it", answer.answer.frame(control)
