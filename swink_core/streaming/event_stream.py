"""`EventStream`: the object that callers iterate over, and all ways to end it early.

The generator that runs the call has a reference to the `Driver` but not to the `EventStream`. A
stream that the caller has dropped is therefore garbage collected at once, and the event loop then
closes the generator and its connection.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Awaitable, Iterator
from types import AsyncGeneratorType
from typing import Self, cast

from swink_core.failures.asynchronous import AsyncOnly
from swink_core.failures.exceptions import LimitReached, StreamError
from swink_core.failures.failure import Failure
from swink_core.plugins.call import Call
from swink_core.streaming.driver import Batch, Driver
from swink_core.streaming.retries import is_retryable
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.messages import AssistantMessage
from swink_core.vocabulary.outcome import StreamErrorKind

_SAID_OF_FAILURES = ("phase", "status", "request_id", "retry_after", "code")

READ_BY_ANOTHER = "the stream is being read by another task"


class EventStream(AsyncOnly):
    """The events of a call, in order, ending with exactly one `Done` or `Error`.

        async with client.stream("acme/large", "Why?") as stream:
            async for piece in stream.text:
                print(piece, end="")
        print(stream.message.usage)

    Iterate over the stream to receive its events. The end of the `async with` block closes the
    connection. `call` contains the attempts, the usage and the cost of the call; `message` is the
    partial message at any time, also after a failure.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._driving: AsyncGeneratorType[Batch, None] | None = None
        self._rest: Iterator[ev.Event] = iter(())

    @property
    def call(self) -> Call:
        """The call: its id, attempts, times, usage and cost over all attempts."""
        return self._driver.call

    @property
    def message(self) -> AssistantMessage:
        """The message received so far; complete after the terminal event."""
        return self._driver.message

    @property
    def text(self) -> AsyncGenerator[str, None]:
        """The text of the answer, in pieces; each piece is the text of one network read.

        Raises the same exceptions as `result()`. Also raises a `StreamError` if an attempt fails
        after text was delivered, because a new attempt would begin again with the first word.
        """
        return self._pieces(self._text())

    async def _text(self) -> AsyncGenerator[str, None]:
        call = self.call
        async for batch in self.batches():
            pieces: list[str] = []
            for event in batch:
                if type(event) is ev.TextDelta:
                    pieces.append(event.delta)
                elif type(event) is ev.Retry:  # more events may follow it, see `EventWriter`
                    if not call.may_restart:
                        await self.aclose()
                        raise self.begun_again(event)
                    pieces.clear()
            if piece := "".join(pieces):
                call.may_restart = False
                yield piece
        await self.result()

    async def batches(self) -> AsyncGenerator[list[ev.Event], None]:
        """Yield the events of one network read at a time, as lists."""
        if rest := list(self._rest):
            yield rest
        while batch := await self._next() or self._driver.part():
            yield batch

    async def __aiter__(self) -> AsyncGenerator[ev.Event, None]:
        # the iterator over a batch is stored, so that a loop left by `break` can be resumed
        for event in self._rest:
            yield event
        while batch := await self._next() or self._driver.part():
            self._rest = iter(batch)
            for event in self._rest:
                yield event

    def _next(self) -> Awaitable[Batch]:
        """Return an awaitable for the next batch; the batch is empty at the end."""
        driving = self._driving or self._start()
        if driving.ag_running:
            raise RuntimeError(READ_BY_ANOTHER)
        return anext(driving, [])

    async def result(self) -> AssistantMessage:
        """Read to the end and return the message.

        A failed attempt is retried as the retry policy allows, unless the caller has already
        received events. If another task is reading the stream, wait until that task has read to the
        end or stopped. If the call fails, raises the `StreamError` of the failure's kind, whose
        `partial` contains the message so far.
        """
        while self._driving is not None and self._driving.ag_running:
            await self._driver.pause()
        self._driver.expect_result()
        self._rest = iter(())
        while await self._next() or self._driver.part():
            pass
        terminal = self._driver.terminal
        if isinstance(terminal, ev.Error):
            raise self._error(terminal)
        return self.message

    def observe(self, event: ev.AssistantMessageEvent) -> None:
        """Pass an event of a class from another library to observers with `other_events`.

        This method may be called before the stream starts and after it ends.
        """
        self._driver.observers.show_other(event)

    def begun_again(self, event: ev.Retry) -> StreamError:
        """Return the exception for an answer that begins again after its text was delivered."""
        failure = Failure("streaming", kind=event.error_kind, code=event.code, message=event.error)
        return self._error(self.call.error(failure))

    async def aclose(self) -> None:
        """Close the connection at once.

        This method may be called from any task. Further calls do nothing. A task that is reading
        the stream receives an `Error` event with the stop reason `aborted`, and its loop ends.
        """
        self._driver.interrupt()
        driving = self._driving or self._start()
        while driving.ag_running:  # a reader or another closer runs it, and will soon be done
            await self._driver.pause()
        await driving.aclose()
        await self._driver.close()  # for a stream that was never read

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._driving is not None and self._driver.terminal is None:
            what = f"a stream of {self.call.model} was neither read to its end nor closed: "
            what += "use async with"
            warnings.warn(what, ResourceWarning, stacklevel=2, source=self)

    def _start(self) -> AsyncGeneratorType[Batch, None]:
        self._driving = cast("AsyncGeneratorType[Batch, None]", self._driver.drive())
        return self._driving

    def _error(self, event: ev.Error) -> StreamError:
        call = self.call
        end = call.ended_at if call.ended_at is not None else call.clock.time()
        is_limit = event.code == "limit" and event.error_kind is StreamErrorKind.QUOTA_EXHAUSTED
        kind = LimitReached if is_limit else StreamError.for_kind(event.error_kind)
        return kind(
            event.error_message,
            title=event.title or "",
            resolution=event.resolution or "",
            provider=call.model.provider,
            model=str(call.model),
            attempts=call.attempts,
            elapsed=end - call.started_at,
            retryable=is_retryable(event),
            partial=self.message,
            **{name: getattr(event, name) for name in _SAID_OF_FAILURES},
        )
