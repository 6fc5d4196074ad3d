"""Checks that no text is lost, even if it is unusual or arrives in an unexpected frame.

The arguments `frame` and `path` locate a text that the answer's message contains once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from swink_core import AssistantMessage, Error, Event, TextBlock, ThinkingBlock, ToolCallBlock
from swink_core import replace as replaced
from swink_judge.request_readers import strings_of
from swink_testing.conformance.answers.joined_frames import ended_apart, joined, rest_of
from swink_testing.conformance.answers.recorded_answers import (
    Changes,
    Path,
    RecordedAnswer,
    at,
    details,
    message_of,
    with_value,
)
from swink_testing.conformance.check import fail

__all__ = ["is_once", "is_written", "require_calls", "require_pieces", "require_together"]

_NONCE, _SECOND = "nonce_piece", "nonce_second"

PIECES = (
    "", " ", "\n\n", "0", "false", "[DONE]", "data: x\n\n", 'naïve 鍵 🔑 \u2028 \\ " & <b>',
    "a\r\n\tb  e\u0301 &amp; \u200b\ufeff", "long " * 2000,
)  # fmt: skip
"""Texts that a parser may mistake for an empty text, for the end of the stream, or for markup."""


def _changed(answer: RecordedAnswer, frame: int, path: Path, *values: str) -> Changes:
    """Return the changes that insert values at `path`, each in a separate copy of the frame."""
    return {frame: [with_value(answer.frames[frame], path, value) for value in values]}


def is_written(answer: RecordedAnswer, data: Any) -> bool:
    """Return True if a frame can contain `data` unchanged.

    An SSE event, for example, cannot contain a carriage return.
    """
    payloads = answer.answer.payloads(answer.frame(data))
    return [json.loads(payload) for payload in payloads] == [data]


async def is_once(answer: RecordedAnswer, frame: int, path: Path) -> bool:
    """Return True if the message contains the text at `path` exactly once."""
    events = await answer.events(_changed(answer, frame, path, _NONCE))
    return "".join(_said(events)).count(_NONCE) == 1 and not isinstance(events[-1], Error)


async def require_pieces(answer: RecordedAnswer, frame: int, path: Path) -> None:
    """Put texts such as white space and markup into a frame, and expect them in the message."""
    marked = await answer.events(_changed(answer, frame, path, _NONCE))
    for piece in PIECES:
        changes = _changed(answer, frame, path, piece)
        if not is_written(answer, changes[frame][0]):
            continue
        if not _says(await answer.events(changes), marked, _NONCE, piece):
            why = f"{answer.where}: where frame {frame + 1} says {piece!r}, the message does not"
            fail(why, answer.body(changes), _expected(marked, _NONCE, piece))
    both, equal = _NONCE + _SECOND, _changed(answer, frame, path, "ha", "ha")
    marked = await answer.events(_changed(answer, frame, path, _NONCE, _SECOND))
    comes_again = any(both in text for text in _said(marked))
    if comes_again and not _says(await answer.events(equal), marked, both, "haha"):
        why = f"{answer.where}: of two equal pieces, frames {frame + 1} and the next, one is lost"
        fail(why, answer.body(equal), _expected(marked, both, "haha"))
    await _require_listed(answer, frame, path)


def _says(events: Sequence[Event], marked: Sequence[Event], mark: str, piece: str) -> bool:
    """Return True if a message equals the message `marked`, except that `piece` replaces `mark`."""
    if not piece:  # the message may then use another field
        return not isinstance(events[-1], Error)
    return any(
        _said(events, parsed=parsed) == _expected(marked, mark, piece, parsed=parsed)
        for parsed in (False, True)
    )


def _expected(marked: Sequence[Event], mark: str, piece: str, *, parsed: bool = False) -> list[str]:
    return [text.replace(mark, piece) for text in _said(marked, parsed=parsed)]


async def _require_listed(answer: RecordedAnswer, frame: int, path: Path) -> None:
    """Check that a second item in a frame's list is kept, or that a Notice reports its loss."""
    for depth, step in enumerate(path):
        if not isinstance(step, int):
            continue
        changes = _changed(answer, frame, path, _NONCE)
        listed = at(changes[frame][0], path[:depth])
        parts = "type" in listed[step] or any(isinstance(s, int) for s in path[:depth])
        if not parts or "index" in listed[step]:
            continue  # several answers, of which one is read, or several calls
        listed.insert(step + 1, with_value(listed[step], path[depth + 1 :], _SECOND))
        events = await answer.events(changes)
        told = len(details(events)) > len(details(answer.whole))
        if _SECOND not in "".join(_said(events)) and not told:
            name = ".".join(map(str, path[:depth]))
            why = f"{answer.where}: the second of `{name}` in frame {frame + 1} is lost, and no"
            fail(f"{why} Notice tells of it", answer.body(changes), _SECOND)


async def require_calls(answer: RecordedAnswer) -> None:
    """Check that several calls of the same tool remain separate calls."""
    names = list(dict.fromkeys(call.name for call in answer.message.tool_calls))
    if len(names) < 2:
        return
    own = {
        (number, path): value
        for number, path, value in answer.values()
        if isinstance(value, str) and value in names
    }
    changes = answer.replaced(dict.fromkeys(own, names[0]))
    found = message_of(await answer.events(changes)).tool_calls
    rewritten = message_of(await answer.events(answer.replaced(own)))
    expected = [replaced(call, name=names[0]) for call in rewritten.tool_calls]
    if found != expected:
        why = f"{answer.where}: where all calls are of the tool {names[0]!r}, they are others"
        fail(why, answer.body(changes), expected)


async def require_together(answer: RecordedAnswer, frame: int, path: Path) -> None:
    """Check that the last text is kept if the frame that ends the answer contains it.

    The same is checked with a frame that contains only the second half of the text.
    """
    data, end = ended_apart(answer.frames[frame], path)
    following = answer.frames[frame + 1 : frame + 2]
    replaces_next = end is None and following and not isinstance(following[0], bytes)
    if replaces_next:
        end = following[0]
    if end is None:
        return
    expected = _ending(answer.whole)

    def changed(*frames: Any) -> Changes:
        return {frame: frames, frame + 1: []} if replaces_next else {frame: frames}

    async def same(*frames: Any) -> bool:
        return _ending(await answer.events(changed(*frames))) == expected

    if not await same(data, end):
        return  # splitting the frame changes the answer
    text = at(answer.frames[frame], path)
    half = len(text) // 2
    first = with_value(data, path, text[:half])
    for begun, rest in [((), data), *(((first,), rest) for rest in rest_of(data, path, half))]:
        together = joined(rest, end)
        if together is None or not await same(*begun, rest, end):
            continue
        if not await same(*begun, together):
            why = f"{answer.where}: what comes in one frame with the end of the answer is lost"
            fail(why, answer.body(changed(*begun, together)), expected)


def _ending(events: Sequence[Event]) -> tuple[str, str]:
    return "".join(_said(events)), str(message_of(events).stop_reason)


def _said(events: Sequence[Event], *, parsed: bool = False) -> list[str]:
    """Return the text of each block; for a tool call, its raw or parsed arguments."""
    return list(_texts(message_of(events), parsed))


def _texts(message: AssistantMessage, parsed: bool) -> Iterator[str]:
    for block in message.content:
        match block:
            case TextBlock(text=text) | ThinkingBlock(thinking=text):
                yield text
            case ToolCallBlock(arguments=arguments, raw_arguments=raw):
                as_it_came = raw is not None and not (parsed and arguments)
                yield raw if as_it_came and raw else "\0".join(strings_of(arguments))
