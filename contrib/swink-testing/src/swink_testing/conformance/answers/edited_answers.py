"""Recorded answers as data, and with something of it changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

from swink_recorder.recording import Recording
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.check import DoesNotApply
from swink_testing.conformance.subject import Subject

__all__ = ["UNWRITTEN", "Place", "answers", "data_of", "edited", "places", "remove", "writer"]

UNWRITTEN = "its frames are neither SSE nor NDJSON, and its decoder has no as_json and of_json"

LONGEST = 20_000
"""Bytes of a recording; a longer one says nothing more about what is unknown."""


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


def writer(subject: Subject) -> Answer:
    """Return an answer of nothing, whose frames are what the provider's decoder reads."""
    return Answer.of_body(b"", type(subject.provider).decoder)


Place: TypeAlias = tuple[dict[str, Any], str]


def edited(
    answer: Answer, find: Callable[[Any], Iterator[Place]], change: Callable[..., None]
) -> bytes | None:
    """Return the body with all found places changed; `None` without any place."""
    frames, found = [], False
    for frame in answer.frames:
        for data in data_of(answer, frame):
            if at := list(find(data)):
                found = True
                for holder, name in at:
                    change(holder, name)
                frame = answer.frame(json.dumps(data).encode())
        frames.append(frame)
    return b"".join(frames) if found else None


def data_of(answer: Answer, frame: bytes) -> Iterator[Any]:
    """Yield the JSON data of a frame."""
    for payload in answer.payloads(frame):
        with suppress(ValueError):
            yield json.loads(payload)


def places(data: Any, wanted: Callable[[str, Any], bool]) -> Iterator[Place]:
    """Yield where JSON data holds something, by its name in small letters without `_`."""
    if isinstance(data, dict):
        for name, value in data.items():
            if wanted(name.lower().replace("_", ""), value):
                yield data, name
            else:
                yield from places(value, wanted)
    elif isinstance(data, list):
        for value in data:
            yield from places(value, wanted)


def remove(holder: dict[str, Any], name: str) -> None:
    """Take a place's value away."""
    del holder[name]
