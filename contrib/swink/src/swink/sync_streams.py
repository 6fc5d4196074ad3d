"""Synchronous streams, typed answers and runs: the calling thread waits for each result."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from swink.answers import Answer, AnswerStream
from swink.approvals import PausedRun
from swink.background import BackgroundLoop, background_loop
from swink.events import Outcome, RunEvent
from swink.goals import V
from swink.loop import Run
from swink.of_stream import OfStream
from swink_core import AssistantMessage, Call, Conversation, Cost, Event, Usage, UsageError

__all__ = ["SyncAnswerStream", "SyncRun", "SyncStream"]

T = TypeVar("T")
E = TypeVar("E")
R = TypeVar("R", covariant=True)


class _Stream(Protocol[E, R]):
    """The interface that streams, typed answers and runs share."""

    @property
    def call(self) -> Call: ...
    @property
    def message(self) -> AssistantMessage: ...
    @property
    def text(self) -> AsyncIterator[str]: ...
    def batches(self) -> AsyncIterator[list[E]]: ...
    async def result(self) -> R: ...
    async def aclose(self) -> None: ...


def _iterated(
    loop: Callable[[], BackgroundLoop], make: Callable[[], AsyncIterator[T]]
) -> Iterator[T]:
    """Iterate over an async iterator that `make` returns and that runs on the background loop."""
    source = make()

    async def following() -> list[T]:
        try:
            return [await anext(source)]
        except StopAsyncIteration:
            return []

    while item := loop().run(following()):
        yield item[0]


class _SyncStream(OfStream, Generic[E, R]):
    """A stream for synchronous code; the calling thread waits while the background loop reads."""

    if not TYPE_CHECKING:

        def __aiter__(self) -> Any:
            raise UsageError(
                f"{type(self).__name__} is not asynchronous",
                resolution="Write for … in …, or use Client.",
            )

        def __aenter__(self) -> Any:
            raise UsageError(
                f"{type(self).__name__} is not asynchronous",
                resolution="Write with … as …, or use Client.",
            )

        def __aexit__(self, *raised: object) -> None: ...

    def __init__(self, stream: _Stream[E, R], client: object) -> None:
        self._stream: _Stream[E, R] = stream
        self._client = client  # closed when it is no longer referenced
        self._rest: Iterator[E] = iter(())
        self._process = os.getpid()

    def _loop(self) -> BackgroundLoop:
        """Return the background event loop.

        Raises UsageError in a process that did not create the stream.
        """
        if os.getpid() != self._process:
            raise UsageError(
                "the stream belongs to the process that this one was forked from",
                resolution="Begin a new call in the forked process; the client may be the same.",
            )
        return background_loop()

    def __iter__(self) -> Iterator[E]:
        # the iterator over a batch is stored, so that a loop left by `break` can be resumed
        yield from self._rest
        for batch in _iterated(self._loop, self._stream.batches):
            self._rest = iter(batch)
            yield from self._rest

    @property
    def text(self) -> Iterator[str]:
        """An iterator over the answer's pieces of text. Raises the same errors as `result()`."""
        return _iterated(self._loop, lambda: self._stream.text)

    def result(self) -> R:
        """Read the stream to its end and return the result, or raise the error that ended the call.

        Every method that reads raises UsageError in a process that was forked after the stream was
        created.
        """
        return self._loop().run(self._stream.result())

    def close(self) -> None:
        """Close the connection at once. Any thread may call this; repeated calls do nothing."""
        self._loop().run(self._stream.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class SyncStream(_SyncStream[Event, AssistantMessage]):
    """`EventStream` without `await`."""


class SyncAnswerStream(_SyncStream[Event, Answer[T]], Generic[T]):
    """`AnswerStream` without `await`."""

    _stream: AnswerStream[T]

    @property
    def partials(self) -> Iterator[Any]:
        """The answer so far, as JSON data that grows."""
        return _iterated(self._loop, lambda: self._stream.partials)


class SyncRun(_SyncStream[RunEvent, AssistantMessage], Generic[V]):
    """`Run` without `await`."""

    _stream: Run[V]

    def answer(self) -> Answer[V]:
        """Run to the end and return the typed answer; see `Run.answer`."""
        return self._loop().run(self._stream.answer())

    @property
    def partials(self) -> Iterator[Any]:
        """The typed answer so far, as JSON data that grows."""
        return _iterated(self._loop, lambda: self._stream.partials)

    @property
    def paused(self) -> PausedRun | None:
        """The paused run as data, if it waits for decisions on tool calls; otherwise `None`."""
        return self._stream.paused

    @property
    def conversation(self) -> Conversation:
        """The conversation from the beginning, with complete turns only."""
        return self._stream.conversation

    @property
    def turns(self) -> int:
        """The number of turns that have begun."""
        return self._stream.turns

    @property
    def outcome(self) -> Outcome | None:
        """The reason why the run ended; `None` until it has ended."""
        return self._stream.outcome

    @property
    def usage(self) -> Usage | None:
        """The token usage of all attempts of all turns; `None` if no usage is known."""
        return self._stream.usage

    @property
    def cost(self) -> Cost | None:
        """The known part of the cost of all attempts of all turns; `None` if unknown."""
        return self._stream.cost
