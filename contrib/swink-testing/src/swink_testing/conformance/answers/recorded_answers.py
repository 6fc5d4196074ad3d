"""Recorded answers as data. The checks change the data and parse the changed answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, TypeAlias

from attrs import define

from swink_core import AssistantMessage, Event, Notice
from swink_recorder.recording import Recording
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.check import DoesNotApply
from swink_testing.conformance.subject import Subject
from swink_testing.driver import comparable, fold

__all__ = [
    "GONE",
    "LONGEST",
    "UNWRITTEN",
    "Changes",
    "Path",
    "RecordedAnswer",
    "answers",
    "at",
    "data_of",
    "details",
    "message_of",
    "names_of",
    "read_answers",
    "values_in",
    "with_value",
    "writer",
]

UNWRITTEN = "its frames are neither SSE nor NDJSON, and its decoder has no as_json and of_json"

LONGEST = 20_000
"""Recordings longer than this, in bytes, are not read: few have fields that shorter ones lack."""

GONE = object()
"""Given in place of a value, this object removes the field."""

Path: TypeAlias = tuple[str | int, ...]

Changes: TypeAlias = Mapping[int, Sequence[Any]]
"""Maps the number of a frame to the frames that replace it, each as JSON data or as bytes."""


@define
class RecordedAnswer:
    """A recorded answer whose frames can be changed.

    `frames` contains the JSON data of each frame, or the bytes of a frame without JSON data.
    `whole` are the events of the unchanged answer.
    """

    recording: Recording
    answer: Answer
    frames: Sequence[Any]
    whole: Sequence[Event]
    subject: Subject

    @property
    def where(self) -> str:
        """The name of the recording, for messages about faults."""
        return f"recording {self.recording.name}"

    @property
    def message(self) -> AssistantMessage:
        """The message of the unchanged answer."""
        return message_of(self.whole)

    def body(self, changes: Changes) -> bytes:
        """Return the body of the answer with some frames replaced by others."""
        pieces: list[bytes] = []
        for number, frame in enumerate(self.answer.frames):
            pieces += map(self.frame, changes[number]) if number in changes else [frame]
        ends = self.answer.ends
        return b"".join([*pieces, self.recording.body[ends[-1] if ends else 0 :]])

    def frame(self, data: Any) -> bytes:
        """Return the bytes of a frame with this data."""
        return data if isinstance(data, bytes) else self.answer.frame(json.dumps(data).encode())

    async def events(self, changes: Changes) -> list[Event]:
        """Parse the answer with some frames replaced by others."""
        return await self.subject.parse(self.recording, [self.body(changes)])

    def values(self) -> Iterator[tuple[int, Path, Any]]:
        """Yield every value in the frames, with its frame's number and its path in the frame.

        Each tuple contains the number, the path and the value.
        """
        for number, data in enumerate(self.frames):
            if not isinstance(data, bytes):
                yield from ((number, path, value) for path, value in values_in(data))

    def replaced(self, values: Mapping[tuple[int, Path], Any]) -> dict[int, list[Any]]:
        """Return changes of frames that insert these values; `GONE` removes a field."""
        changed: dict[int, list[Any]] = {}
        for (number, path), value in values.items():
            [data] = changed.get(number, [self.frames[number]])
            changed[number] = [with_value(data, path, value)]
        return changed


def answers(subject: Subject) -> Iterator[tuple[Recording, Answer]]:
    """Yield recordings of complete answers whose frames can be written."""
    found = False
    for recording in subject.answers():
        answer = Answer.of_recording(recording, type(subject.provider).decoder)
        if answer.is_data and len(recording.body) <= LONGEST:
            found = True
            yield recording, answer
    if not found:
        raise DoesNotApply(UNWRITTEN)


async def read_answers(subject: Subject) -> list[RecordedAnswer]:
    """Return the recorded complete answers. Raises DoesNotApply if the list would be empty."""
    found: list[RecordedAnswer] = []
    for recording, answer in answers(subject):
        whole = await subject.parse(recording)
        found.append(RecordedAnswer(recording, answer, data_of(answer), whole, subject))
    return found


def writer(subject: Subject) -> Answer:
    """Return an empty answer, whose methods write frames for the provider's decoder."""
    return Answer.of_body(b"", type(subject.provider).decoder)


def data_of(answer: Answer) -> list[Any]:
    """Return the JSON data of each frame, or the bytes of a frame without JSON data."""
    return [next(_data(answer.payloads(frame)), frame) for frame in answer.frames]


def _data(payloads: Iterable[bytes]) -> Iterator[Any]:
    for payload in payloads:
        with suppress(ValueError):
            yield json.loads(payload)


def values_in(data: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value in JSON data and its path; an object or list comes before its items."""
    yield path, data
    if isinstance(data, dict | list):
        for step, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from values_in(value, (*path, step))


def at(data: Any, path: Path) -> Any:
    """Return the value at a path in JSON data."""
    for step in path:
        data = data[step]
    return data


def with_value(data: Any, path: Path, value: Any) -> Any:
    """Return a copy of JSON data with another value at a path, or without it for `GONE`."""
    if not path:
        return value
    data = deepcopy(data)
    holder = at(data, path[:-1])
    if value is GONE:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return data


def names_of(path: Path) -> tuple[str, ...]:
    """Return the names in a path, without the indexes of lists."""
    return tuple(step for step in path if isinstance(step, str))


def message_of(events: Iterable[Event]) -> AssistantMessage:
    """Build the message from its events, and replace generated ids by numbers."""
    return comparable(fold(events))


def details(events: Iterable[Event]) -> list[str]:
    """Return the details of all notices among the events."""
    return [event.detail for event in events if isinstance(event, Notice) and event.detail]
