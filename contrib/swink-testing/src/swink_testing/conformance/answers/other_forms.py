"""Checks of answers that are written differently but have the same meaning."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from swink_core import AssistantMessage, Block, Error, Event, ThinkingBlock, ToolCallBlock, replace
from swink_testing.conformance.answers.pieces import is_written
from swink_testing.conformance.answers.recorded_answers import (
    GONE,
    Changes,
    RecordedAnswer,
    at,
    message_of,
    names_of,
    read_answers,
    values_in,
    with_value,
)
from swink_testing.conformance.check import require
from swink_testing.conformance.subject import Subject

__all__ = ["check_other_forms"]

_UNKNOWN = json.dumps({"type": "swink_unknown", "swink_unknown": {"a": [1, "b", None]}}).encode()


def _backwards(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _backwards(value) for name, value in reversed(data.items())}
    return [_backwards(each) for each in data] if isinstance(data, list) else data


_WRITTEN: dict[str, Callable[[Any], str]] = {
    "with its names the other way round": lambda data: json.dumps(_backwards(data)),
    "without blanks": lambda data: json.dumps(data, separators=(",", ":"), ensure_ascii=False),
    "with more blanks": lambda data: f" {json.dumps(data, separators=(' , ', ' : '))} ",
}


def check_other_forms(subject: Subject) -> None:
    """An answer that is written differently is parsed to the same message.

    The message does not depend on the order of names, white space and escapes in the JSON, on
    frames of an unknown type, or on whether a signature is in a separate frame after its thinking.
    An unknown field causes no error. A text that is null or missing adds nothing to the message.
    """

    async def compare() -> None:
        seen: set[tuple[str, ...]] = set()
        for answer in await read_answers(subject):
            for how, changes in _forms(answer):
                events = await answer.events(changes)
                where = f"{answer.where}, {how}"
                body, error = answer.body(changes), message_of(events).error_message
                require(not isinstance(events[-1], Error), f"{where}: it fails: {error}", body)
                found, expected = _message(events), _message(answer.whole)
                require(
                    found == expected or isinstance(events[-1], Error),
                    f"{where}: the message is another",
                    body,
                    expected,
                )
            await _require_signatures(answer)
            await _require_unknown_fields(answer, seen)
            await _require_no_null(answer, seen)

    asyncio.run(compare())


def _forms(answer: RecordedAnswer) -> Iterator[tuple[str, Changes]]:
    for how, write in _WRITTEN.items():
        yield f"its JSON written {how}", _rewritten(answer, write)
    unknown = answer.answer.frame(_UNKNOWN, "swink_unknown")
    count = len(answer.frames)
    for place in sorted({0, 1, count // 2, count - 1} & {*range(count)}):
        yield (
            f"a frame of an unknown type after {place}",
            {place: [unknown, answer.answer.frames[place]]},
        )
    for name in _types(answer.frames):
        own = [(n, data) for n, data in enumerate(answer.frames) if isinstance(data, dict)]
        latest = {data[name]: n for n, data in own}.values()
        other = {n: [d, with_value(d, (name,), "swink_unknown")] for n, d in own if n in latest}
        yield f"frames again with an unknown {name}", other


def _types(frames: Sequence[Any]) -> list[str]:
    """Return the names of fields that may contain a frame's type.

    Such a field is in every frame, and has several values, of which some occur repeatedly.
    """
    own = [data for data in frames if isinstance(data, dict)]
    found: list[str] = []
    for name in own[0] if own else ():
        values = [data.get(name) for data in own]
        are_words = all(isinstance(v, str) and re.fullmatch(r"[A-Za-z][\w.-]*", v) for v in values)
        if are_words and len(own) > len(set(values)) > 1:
            found.append(name)
    return found


async def _require_signatures(answer: RecordedAnswer) -> None:
    """Check that a signature in a separate frame, after the last text of the thinking, is kept."""
    signed = _signatures(answer.message)
    thought = "\n".join(block.thinking for block in _thinking(answer.message))
    for number, data in enumerate(answer.frames):
        if (apart := _apart(data, signed, thought)) is None:
            continue
        changes = {number: apart}
        kept = _signatures(message_of(await answer.events(changes)))
        where = f"{answer.where}: where the signature of frame {number + 1} comes after its text"
        require(kept == signed, f"{where}, it is lost", answer.body(changes), sorted(signed))


def _thinking(message: AssistantMessage) -> list[ThinkingBlock]:
    return [block for block in message.content if isinstance(block, ThinkingBlock)]


def _signatures(message: AssistantMessage) -> set[str]:
    return {block.signature for block in _thinking(message) if block.signature}


def _rewritten(answer: RecordedAnswer, write: Callable[[Any], str]) -> Changes:
    return {
        number: [answer.answer.frame(write(data).encode())]
        for number, data in enumerate(answer.frames)
        if not isinstance(data, bytes)
    }


def _apart(data: Any, signed: set[str], thought: str) -> list[Any] | None:
    """Split a frame into one without its signature and one without its text.

    Return `None` if the frame does not have exactly one signature and one text.
    """
    strings = [(path, value) for path, value in values_in(data) if path and isinstance(value, str)]
    signatures = [path for path, value in strings if value in signed]
    texts = [path for path, value in strings if value and value in thought and path[-1] != "type"]
    if len(signatures) != 1 or len(texts) != 1:
        return None
    return [with_value(data, signatures[0], GONE), with_value(data, texts[0], "")]


def _message(events: Sequence[Event]) -> AssistantMessage:
    """Return the message without the raw JSON of tool arguments, whose formatting may differ."""
    message = message_of(events)
    content: list[Block] = [
        replace(block, raw_arguments=None) if isinstance(block, ToolCallBlock) else block
        for block in message.content
    ]
    return replace(message, content=content)


async def _require_unknown_fields(answer: RecordedAnswer, seen: set[tuple[str, ...]]) -> None:
    objects = [(n, path) for n, path, value in answer.values() if isinstance(value, dict)]
    for names in dict.fromkeys(names_of(path) for _, path in objects):
        if names in seen:
            continue
        seen.add(names)
        added: dict[Any, Any] = {}
        for number, path in objects:
            if names_of(path) == names:
                added[number, (*path, "swink_unknown")] = _new(at(answer.frames[number], path))
        changes = answer.replaced(added)
        last = (await answer.events(changes))[-1]
        if isinstance(last, Error):
            where = f"{answer.where}: with a new field in {'.'.join(names)}"
            require(False, f"{where}, it fails: {last.error_message}", answer.body(changes))


async def _require_no_null(answer: RecordedAnswer, seen: set[tuple[str, ...]]) -> None:
    """Check that a text that is null or missing does not become the word None or null."""
    usual = f"{answer.message.text} {answer.message.thinking}"
    texts = [
        (number, path)
        for number, path, value in answer.values()
        if path
        and isinstance(value, str)
        and value.strip()
        and value in usual
        and isinstance(path[-1], str)
    ]
    for names in dict.fromkeys(names_of(path) for _, path in texts):
        if names in seen:
            continue
        seen.add(names)
        places = [place for place in texts if names_of(place[1]) == names]
        for how, value in (("null", None), ("missing", GONE)):
            changes = answer.replaced(dict.fromkeys(places, value))
            if not all(is_written(answer, data) for [data] in changes.values()):
                continue
            found = message_of(await answer.events(changes))
            said = f"{found.text} {found.thinking}"
            where = f"{answer.where}: where {'.'.join(names)} is {how}, the message says"
            for word in ("None", "null"):
                require(word in usual or word not in said, f"{where} {word}", answer.body(changes))


def _new(holder: dict[str, Any]) -> Any:
    numbers = all(isinstance(value, int | float) for value in holder.values())
    return 1 if holder and numbers else {"a": [1, "b", None]}
