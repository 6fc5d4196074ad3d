"""The format of an answer's JSON, which must make no difference."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from swink_core import AssistantMessage, Block, Event, ToolCallBlock, replace
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.answers.edited_answers import answers, data_of
from swink_testing.conformance.check import require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import comparable, fold

__all__ = ["check_spelling"]


def _backwards(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _backwards(value) for name, value in reversed(data.items())}
    return [_backwards(each) for each in data] if isinstance(data, list) else data


_WRITTEN: dict[str, Callable[[Any], str]] = {
    "with its names the other way round": lambda data: json.dumps(_backwards(data)),
    "without blanks": lambda data: json.dumps(data, separators=(",", ":"), ensure_ascii=False),
    "with more blanks": lambda data: f" {json.dumps(data, separators=(' , ', ' : '))} ",
}


def check_spelling(subject: Subject) -> None:
    """The order of names, blanks and escapes in the JSON of an answer make no difference."""

    async def compare() -> None:
        for recording, answer in answers(subject):
            whole = _message(await subject.parse(recording))
            for how, write in _WRITTEN.items():
                body = _rewritten(answer, write)
                found = _message(await subject.parse(recording, [body]))
                where = f"recording {recording.name}: where its JSON is written {how}"
                require(found == whole, f"{where}, the message is another", body, whole)

    asyncio.run(compare())


def _message(events: Sequence[Event]) -> AssistantMessage:
    """Return the message without the text of arguments, which is the answer's own spelling."""
    message = comparable(fold(events))
    content: list[Block] = [
        replace(block, raw_arguments=None) if isinstance(block, ToolCallBlock) else block
        for block in message.content
    ]
    return replace(message, content=content)


def _rewritten(answer: Answer, write: Callable[[Any], str]) -> bytes:
    return b"".join(
        next((answer.frame(write(data).encode()) for data in data_of(answer, frame)), frame)
        for frame in answer.frames
    )
