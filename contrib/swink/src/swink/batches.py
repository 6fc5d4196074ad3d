"""Answer many prompts with a limited number of concurrent calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, suppress
from inspect import isawaitable
from types import NoneType
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from attrs import define, field

from swink.amounts import added
from swink.answers import Answer, BadAnswer
from swink.arguments import check_called, check_number
from swink.prompts import Prompt
from swink_core import (
    AssistantMessage,
    Cost,
    InvalidContext,
    MediaError,
    StreamError,
    SwinkError,
    Usage,
    UsageError,
)

__all__ = ["Batch", "Progress", "gathered"]

R = TypeVar("R")
A = TypeVar("A", covariant=True)


@define
class Batch(Generic[R]):
    """The results of many prompts, in order.

    The result of a failed prompt is its `SwinkError`. While the batch runs, the result of an
    unfinished prompt is `None`. `done` is the number of prompts that have ended, and `failed` the
    number of those that failed; `usage` and `cost` are sums over all attempts of all calls.
    """

    results: list[R | SwinkError | None] = field(repr=False)
    done: int = 0
    failed: int = 0
    usage: Usage | None = None
    cost: Cost | None = None

    @property
    def total(self) -> int:
        """The number of prompts."""
        return len(self.results)

    @property
    def answers(self) -> list[R]:
        """The answers of the prompts that succeeded, in order."""
        return [each for each in self.results if not isinstance(each, SwinkError | NoneType)]

    def __iter__(self) -> Iterator[R | SwinkError | None]:
        """Yield the results, in order."""
        return iter(self.results)

    def _ended(self, number: int, result: R | SwinkError) -> None:
        self.results[number] = result
        self.done += 1
        self.failed += isinstance(result, SwinkError)
        usage, cost = _taken(result)
        self.usage, self.cost = added(self.usage, usage), added(self.cost, cost)


Progress: TypeAlias = Callable[[Batch[Any]], object]
"""A function that receives the batch each time that a prompt has succeeded or failed.

It may be async. The batch awaits it, up to `limit` times concurrently.
"""


class _Asked(Protocol[A]):
    """The methods and properties of a call's stream that `gathered` uses."""

    async def result(self) -> A: ...
    async def aclose(self) -> None: ...


async def gathered(
    ask: Callable[[Prompt], _Asked[R]],
    prompts: Iterable[Prompt],
    limit: int,
    on_progress: Progress | None,
) -> Batch[R]:
    """Answer all prompts, at most `limit` at a time; `ask` returns the stream of a prompt's call.

    Raises UsageError before anything is sent if the arguments of `ask` are invalid for every
    prompt.
    """
    check_number("limit", limit, "Pass at least 1.")
    check_called("on_progress", on_progress, "Pass a function that takes the batch.")
    if isinstance(prompts, str):
        raise UsageError("prompts is a single string", resolution="Pass a list of prompts.")
    waiting = list(prompts)
    for each in waiting:  # the first valid prompt shows the problems that all prompts have
        with suppress(InvalidContext, MediaError):
            ask(each)
            break
    else:
        ask("Hi")
    batch: Batch[R] = Batch([None] * len(waiting))
    numbered: Iterator[tuple[int, Prompt]] = iter(enumerate(waiting))

    async def work() -> None:
        for number, prompt in numbered:  # all workers share the iterator
            result: R | SwinkError
            try:
                async with aclosing(ask(prompt)) as stream:
                    result = await stream.result()
            except SwinkError as error:
                result = error
            batch._ended(number, result)
            if on_progress is not None:
                told = on_progress(batch)
                if isawaitable(told):
                    await told

    workers = [asyncio.ensure_future(work()) for _ in range(min(limit, len(waiting)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return batch


def _taken(result: object) -> tuple[Usage | None, Cost | None]:
    if isinstance(result, StreamError):
        result = result.partial
    if isinstance(result, AssistantMessage):
        return result.total_usage, result.total_cost
    if isinstance(result, Answer | BadAnswer):
        return result.usage, result.cost
    return None, None
