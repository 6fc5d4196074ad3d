"""Answers with other texts, and in other frames, than recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from attrs import define

from swink_core import (
    AssistantMessage,
    Error,
    Event,
    Notice,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    replace,
)
from swink_judge.request_readers import strings_of
from swink_recorder.recording import Recording
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.answers.edited_answers import answers, data_of
from swink_testing.conformance.answers.joined_frames import (
    Path,
    at,
    ended_apart,
    joined,
    rest_of,
    texts_in,
    with_value,
)
from swink_testing.conformance.check import DoesNotApply, fail
from swink_testing.conformance.subject import Subject
from swink_testing.driver import comparable, fold

__all__ = ["check_pieces"]

_NONCE, _SECOND = "nonce_piece", "nonce_second"

PIECES = (
    "", " ", "\n\n", "0", "false", "[DONE]", "data: x\n\n", 'naïve 鍵 🔑 \u2028 \\ " & <b>',
    "a\r\n\tb  e\u0301 &amp; \u200b\ufeff", "long " * 2000,
)  # fmt: skip
"""Texts that are easily taken for nothing, for the end, or for markup."""

_TRIES = 3
"""Places of one kind in an answer that are tried to find one whose text is in the message."""

_Frames: TypeAlias = list[Any]
"""Each frame's JSON data, or its bytes where it has none."""


@define
class _Place:
    """Where a frame holds text of the message; `kind` is the same for all pieces of one block."""

    frame: int
    path: Path
    value: str

    def kind(self, frames: _Frames) -> tuple[Any, ...]:
        """Return the kind of the piece."""
        named = frames[self.frame].get("type") if isinstance(frames[self.frame], dict) else None
        return (named, *(step for step in self.path if isinstance(step, str)))


@define
class _Read:
    """A recorded answer, to be read with other frames."""

    subject: Subject
    recording: Recording
    answer: Answer
    frames: _Frames

    @property
    def where(self) -> str:
        """Name the recording."""
        return f"recording {self.recording.name}"

    def body(self, frames: _Frames) -> bytes:
        """Write frames."""
        return b"".join(
            frame if isinstance(frame, bytes) else self.answer.frame(json.dumps(frame).encode())
            for frame in frames
        )

    async def events(self, frames: _Frames) -> list[Event]:
        """Read frames instead of those that were recorded."""
        return await self.subject.parse(self.recording, [self.body(frames)])

    def holds(self, data: Any) -> bool:
        """Tell whether a frame can hold data unchanged: an event holds no carriage return."""
        frame = self.answer.frame(json.dumps(data).encode())
        return [json.loads(payload) for payload in self.answer.payloads(frame)] == [data]

    def replaced(self, place: _Place, *values: str) -> _Frames:
        """Return the frames with that place saying something else; several values: in as many
        frames."""
        data = self.frames[place.frame]
        others = [with_value(data, place.path, value) for value in values]
        return [*self.frames[: place.frame], *others, *self.frames[place.frame + 1 :]]


def check_pieces(subject: Subject) -> None:
    """No piece of an answer is lost, whatever its text and its place in the frames."""

    async def compare() -> None:
        seen: set[tuple[Any, ...]] = set()
        for recording, answer in answers(subject):
            frames = [next(data_of(answer, frame), frame) for frame in answer.frames]
            read = _Read(subject, recording, answer, frames)
            whole = await read.events(frames)
            places = list(_places(frames, _said(whole)))
            for place in await _new_places(read, places, seen):
                await _require_each_piece(read, place)
                await _require_both(read, place)
                await _require_listed(read, place, whole)
            if places:
                await _require_together(read, places[-1], whole)
            await _require_calls(read, whole)
        if not seen:
            raise DoesNotApply("no text of a recorded answer is unchanged in its message")

    asyncio.run(compare())


def _said(events: Sequence[Event], *, parsed: bool = False) -> list[str]:
    """Return the text of each block; of a call, the raw or the parsed arguments."""
    return list(_texts(fold(events), parsed))


def _texts(message: AssistantMessage, parsed: bool) -> Iterator[str]:
    for block in message.content:
        match block:
            case TextBlock(text=text) | ThinkingBlock(thinking=text):
                yield text
            case ToolCallBlock(arguments=arguments, raw_arguments=raw):
                as_it_came = raw is not None and not (parsed and arguments)
                yield raw if as_it_came and raw else "\0".join(strings_of(arguments))


def _places(frames: _Frames, said: Sequence[str]) -> Iterator[_Place]:
    for number, data in enumerate(frames):
        for path, value in texts_in(data):
            if value.strip() and any(value in text for text in said):
                yield _Place(number, path, value)


async def _new_places(
    read: _Read, places: Sequence[_Place], seen: set[tuple[Any, ...]]
) -> list[_Place]:
    """Return a place of each kind not `seen` yet that the message repeats, once."""
    found: list[_Place] = []
    tried: dict[tuple[Any, ...], int] = {}
    for place in places:
        kind = (read.recording.wire_format, *place.kind(read.frames))
        tried[kind] = tried.get(kind, 0) + 1
        if kind in seen or tried[kind] > _TRIES:
            continue
        events = await read.events(read.replaced(place, _NONCE))
        if "".join(_said(events)).count(_NONCE) == 1 and not isinstance(events[-1], Error):
            seen.add(kind)
            found.append(place)
    return found


async def _require_each_piece(read: _Read, place: _Place) -> None:
    """Blanks, digits, markup: each text is in the message."""
    marked = await read.events(read.replaced(place, _NONCE))
    for piece in PIECES:
        frames = read.replaced(place, piece)
        if not read.holds(frames[place.frame]):
            continue  # no frame of this format can say it
        if not _says(await read.events(frames), marked, _NONCE, piece):
            why = (
                f"{read.where}: where frame {place.frame + 1} says {piece!r}, the message does not"
            )
            fail(why, read.body(frames), _expected(marked, _NONCE, piece))


async def _require_both(read: _Read, place: _Place) -> None:
    """Two pieces that say the same are both kept."""
    marked, both = await read.events(read.replaced(place, _NONCE, _SECOND)), _NONCE + _SECOND
    if not any(both in text for text in _said(marked)):
        return  # the frame is not one that can come again
    frames = read.replaced(place, "ha", "ha")
    if not _says(await read.events(frames), marked, both, "haha"):
        why = (
            f"{read.where}: of two equal pieces, frames {place.frame + 1} and the next, one is lost"
        )
        fail(why, read.body(frames), _expected(marked, both, "haha"))


def _says(events: Sequence[Event], marked: Sequence[Event], mark: str, piece: str) -> bool:
    """Whether a message says what another does, with a piece in the place of the mark."""
    if not piece:  # what stands beside it may be said instead
        return not isinstance(events[-1], Error)
    return any(
        _said(events, parsed=parsed) == _expected(marked, mark, piece, parsed=parsed)
        for parsed in (False, True)
    )


def _expected(marked: Sequence[Event], mark: str, piece: str, *, parsed: bool = False) -> list[str]:
    return [text.replace(mark, piece) for text in _said(marked, parsed=parsed)]


async def _require_listed(read: _Read, place: _Place, whole: Sequence[Event]) -> None:
    """Where a frame lists pieces, all are kept, or a Notice tells that only one is."""
    notices = sum(isinstance(event, Notice) for event in whole)
    for depth, step in enumerate(place.path):
        if not isinstance(step, int):
            continue
        frames = read.replaced(place, _NONCE)
        listed = at(frames[place.frame], place.path[:depth])
        parts = "type" in listed[step] or any(isinstance(s, int) for s in place.path[:depth])
        if not parts or "index" in listed[step]:
            continue  # several answers, of which one is read, or several calls
        again = with_value(listed[step], place.path[depth + 1 :], _SECOND)
        listed.insert(step + 1, again)
        events = await read.events(frames)
        told = sum(isinstance(event, Notice) for event in events) > notices
        if _SECOND not in "".join(_said(events)) and not told:
            name = ".".join(map(str, place.path[:depth]))
            why = f"{read.where}: the second of `{name}` in frame {place.frame + 1} is lost, and no"
            fail(f"{why} Notice tells of it", read.body(frames), _SECOND)


async def _require_calls(read: _Read, whole: Sequence[Event]) -> None:
    """Several calls of one tool are as many calls."""
    before = comparable(fold(whole))
    names = list(dict.fromkeys(call.name for call in before.tool_calls))
    if len(names) < 2:
        return
    frames = list(read.frames)
    for number, data in enumerate(frames):
        for path, value in texts_in(data):
            if value in names:
                frames[number] = with_value(frames[number], path, names[0])
    found = comparable(fold(await read.events(frames))).tool_calls
    expected = [replace(call, name=names[0]) for call in before.tool_calls]
    if found != expected:
        why = f"{read.where}: where all calls are of the tool {names[0]!r}, they are others"
        fail(why, read.body(frames), expected)


async def _require_together(read: _Read, place: _Place, whole: Sequence[Event]) -> None:
    """The last piece, or a part of it, may come in the frame that ends the answer."""
    before, after = read.frames[: place.frame], read.frames[place.frame + 1 :]
    data, end = ended_apart(read.frames[place.frame], place.path)
    if end is None and after and not isinstance(after[0], bytes):
        end, after = after[0], after[1:]
    if end is None:
        return
    expected = _ending(whole)

    async def same(*frames: Any) -> bool:
        return _ending(await read.events([*before, *frames, *after])) == expected

    if not await same(data, end):
        return  # its end says more than that
    half = len(place.value) // 2
    first = with_value(data, place.path, place.value[:half])
    for begun, rest in [
        ((), data),
        *(((first,), rest) for rest in rest_of(data, place.path, half)),
    ]:
        together = joined(rest, end)
        if together is None or not await same(*begun, rest, end):
            continue
        if not await same(*begun, together):
            frames = [*before, *begun, together, *after]
            why = f"{read.where}: what comes in one frame with the end of the answer is lost"
            fail(why, read.body(frames), expected)


def _ending(events: Sequence[Event]) -> tuple[str, str]:
    return "".join(_said(events)), str(fold(events).stop_reason)
