"""A check that a provider keeps no references to finished calls."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

from swink_core import Context, UserMessage
from swink_testing.conformance.answers.recorded_answers import (
    Changes,
    Path,
    RecordedAnswer,
    read_answers,
)
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse
from swink_testing.quiet import quiet

__all__ = ["check_calls_are_forgotten"]

_CALLS = 24

_FEW = 12
"""How many calls may leave data behind: a bounded cache may keep the last one, or the last ten."""

_MARK = "swink-kept-{}-"

_MARKED = re.compile(r"swink-kept-\d+-")


def check_calls_are_forgotten(subject: Subject) -> None:
    """The prompts, answers and keys of finished calls are not kept, except those of a few calls."""
    if not (subject.parses and subject.speaks_http):
        raise DoesNotApply("it does not speak HTTP")

    async def call() -> None:
        for number in range(_CALLS):
            mark = _MARK.format(number)
            http = subject.http(*[MemoryResponse.of_json({"error": {"message": mark}}, 400)] * 2)
            options = subject.call_options(api_key=f"{mark}key", headers={"X-Swink": mark})
            context = Context([UserMessage(mark)])
            async with subject.client(http).stream(subject.model, context, **options) as stream:
                async for _ in stream:
                    pass
        answer = (await read_answers(subject))[0]
        for number in range(_CALLS):
            await answer.events(_marked(answer, _MARK.format(number)))

    with quiet(), suppress(DoesNotApply):  # raised after the calls if frames cannot be written
        asyncio.run(call())
    kept = sorted({mark for text in _held(subject) for mark in _MARKED.findall(text)})
    where = f"of {_CALLS} calls that are over, something of {len(kept)} is still there: {kept[:3]}"
    require(len(kept) <= _FEW, where)


def _marked(answer: RecordedAnswer, mark: str) -> Changes:
    """Return the changes that mark the texts of an answer."""
    said = f"{answer.message.thinking}{answer.message.text}"
    marked: dict[tuple[int, Path], Any] = {}
    for number, path, value in answer.values():
        is_text = isinstance(value, str) and len(value) > 1 and value in said
        if is_text and path and path[-1] != "type":
            marked[number, path] = mark
    return answer.replaced(marked)


def _held(subject: Subject) -> Iterator[str]:
    """Yield every text that the provider object or a module of the package refers to."""
    package = subject.entry.package.partition(".")[0]

    def is_own(name: Any) -> bool:
        return isinstance(name, str) and name.partition(".")[0] == package

    todo: list[Any] = [vars(module) for name, module in list(sys.modules.items()) if is_own(name)]
    todo.append(subject.provider)
    seen: set[int] = set()
    while todo:
        thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, str | bytes | bytearray):
            yield thing if isinstance(thing, str) else bytes(thing).decode("utf-8", "replace")
            continue
        own = not isinstance(thing, ModuleType) and is_own(getattr(thing, "__module__", None))
        if own or isinstance(thing, dict | list | tuple | set | frozenset | deque):
            todo += gc.get_referents(thing)
