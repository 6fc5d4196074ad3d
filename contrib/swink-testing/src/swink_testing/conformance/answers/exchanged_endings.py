"""Recorded answers with the finish reason of another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define

from swink_core import StopReason
from swink_recorder.recording import Recording
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.answers.edited_answers import Place, answers, data_of, edited, places
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import fold

__all__ = ["check_ends_of_others"]

_CUT = (StopReason.LENGTH, StopReason.CONTENT_FILTER)


@define
class _Ended:
    """A recorded answer, the words in its fields that say why it stopped, and what they mean."""

    recording: Recording
    answer: Answer
    words: Mapping[str, str]
    reason: StopReason | None


def check_ends_of_others(subject: Subject) -> None:
    """The finish reason of a truncated or refused answer has its meaning in other answers too.

    It does whatever they hold, such as a call. Only words count that stand for one reason in all
    recordings.
    """

    async def compare() -> None:
        ended = [await _ended(subject, *each) for each in answers(subject)]
        pairs = [(one, other) for one in ended for other in ended if _can_end(one, other, ended)]
        if not pairs:
            raise DoesNotApply("no recording was cut off whose words another could have")
        for one, other in pairs:
            body = edited(one.answer, _ends, _set(other.words))
            assert body is not None  # it has the words
            reason = fold(await subject.parse(one.recording, [body])).stop_reason
            require(
                reason is other.reason,
                f"recording {one.recording.name}: where it ends as {other.recording.name}, which "
                f"is {other.reason}, it is said to be {reason}",
                body,
                other.reason,
            )

    asyncio.run(compare())


async def _ended(subject: Subject, recording: Recording, answer: Answer) -> _Ended:
    found = [p for frame in answer.frames for d in data_of(answer, frame) for p in _ends(d)]
    words = {name: holder[name] for holder, name in found}
    reason = fold(await subject.parse(recording)).stop_reason
    return _Ended(recording, answer, words, reason)


def _can_end(one: _Ended, other: _Ended, ended: list[_Ended]) -> bool:
    """Whether an answer can end as another did that was cut off, in words that mean that alone."""
    if other.reason not in _CUT or not one.words or one.words.keys() - other.words.keys():
        return False
    meant = {
        each.reason
        for each in ended
        for name, word in one.words.items()
        if each.words.get(name) == other.words[name]
    }
    alike = one.recording.wire_format == other.recording.wire_format
    return alike and meant == {other.reason} and one.reason is not other.reason


def _ends(data: Any) -> Iterator[Place]:
    for holder, name in places(data, lambda name, value: name.endswith("reason")):
        if isinstance(holder[name], str) and holder[name] not in ("", "null"):
            yield holder, name


def _set(words: Mapping[str, str]) -> Any:
    def change(holder: dict[str, Any], name: str) -> None:
        holder[name] = words[name]

    return change
