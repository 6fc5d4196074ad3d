"""The tool loop: a model is called, its tool calls are carried out, until it has answered.

The conversation holds only what is complete: each answer with the results of all its tool calls.
So it can be sent on as it is at any time, whatever happened; what was left unfinished is in
`message`, and a tool call that nothing came of has a result that says so.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from types import AsyncGeneratorType
from typing import Any, Self, TypeAlias, cast

from swink.amounts import added
from swink.arguments import check_called, check_number
from swink.events import Outcome, RunEnd, RunEvent, RunStart, TurnEnd, TurnStart
from swink.of_stream import OfStream
from swink.prompts import Prompt
from swink.toolbox import Approve, Toolbox
from swink.tools import FunctionTool
from swink_core import (
    AssistantMessage,
    Conversation,
    Cost,
    Done,
    Error,
    EventStream,
    Options,
    Retry,
    StopReason,
    StreamAborted,
    StreamError,
    SwinkError,
    TextDelta,
    Usage,
    replace,
)

__all__ = ["Run", "TooManyTurns"]

Ask: TypeAlias = Callable[[Prompt, Options], EventStream]


class TooManyTurns(SwinkError, title="The run did not come to an end"):
    """A model that still called tools in the last turn it was given."""


class Run(OfStream):
    """A tool loop under way: the events of all its turns, in order, and those of its tools.

        async with client.run("acme/large", "What is 2 + 3?", tools=[add]) as run:
            async for piece in run.text:
                print(piece, end="")
        print(run.conversation, run.cost)

    Leaving the `async with` closes it, with all tools that are under way. `call` is that of the
    turn whose events are being read; `conversation` and `message` can be read at any time.
    """

    def __init__(
        self,
        ask: Ask,
        prompt: Prompt,
        options: Options,
        tools: Mapping[str, FunctionTool[..., Any]],
        max_turns: int,
        approve: Approve | None,
    ) -> None:
        check_number("max_turns", max_turns, "Allow one turn at least.")
        check_called("approve", approve, "Pass a function that returns True, or why not.")
        self.id = secrets.token_hex(6)
        self._ask, self._options = ask, options
        self._toolbox, self._max_turns = Toolbox(self.id, tools, approve, self._told), max_turns
        self._stream: EventStream = ask(prompt, options)
        self._context = self._stream.call.context
        self._messages: Conversation = [*self._context.messages]
        self._usage: Usage | None = None
        self._cost: Cost | None = None
        self._turn = 0
        self._outcome: Outcome | None = None
        self._is_closing = self._wants_result = self._is_kept = False
        self._driving: AsyncGeneratorType[list[RunEvent], None] | None = None
        self._rest: Iterator[RunEvent] = iter(())

    # -- what is known -----------------------------------------------------------------------

    @property
    def conversation(self) -> Conversation:
        """What was said from the beginning on, as far as it is complete: a list of your own."""
        return [*self._messages]

    @property
    def turns(self) -> int:
        """How many turns have begun."""
        return self._turn

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; `None` while it has not."""
        return self._outcome

    @property
    def usage(self) -> Usage | None:
        """What all attempts of all turns took; `None` while nothing is known."""
        return added(self._usage, self._stream.call.usage)

    @property
    def cost(self) -> Cost | None:
        """What all attempts of all turns cost, as far as is known."""
        return added(self._cost, self._stream.call.cost)

    # -- reading -----------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncGenerator[RunEvent, None]:
        # the iterator over a batch is kept on the run: a loop left by break can be resumed
        while True:
            for event in self._rest:
                yield event
            batch = await self._next()
            if not batch:
                return
            self._rest = iter(batch)

    async def batches(self) -> AsyncGenerator[list[RunEvent], None]:
        """Yield the events that came together, as lists."""
        if rest := list(self._rest):
            yield rest
        while batch := await self._next():
            yield batch

    @property
    def text(self) -> AsyncGenerator[str, None]:
        """The text of all turns, piece by piece. Raises what `result()` raises."""
        return self._text()

    async def _text(self) -> AsyncGenerator[str, None]:
        is_said = False
        async for batch in self.batches():
            for event in batch:
                if isinstance(event, Retry) and is_said:
                    await self.aclose()
                    raise StreamError.for_kind(event.error_kind)(event.error)
                is_said = is_said and not isinstance(event, TurnStart)
            pieces = (event.delta for event in batch if isinstance(event, TextDelta))
            if not isinstance(batch[-1], Retry) and (piece := "".join(pieces)):
                is_said = True
                yield piece
        await self.result()

    async def result(self) -> AssistantMessage:
        """Run to the end and return the model's last message.

        Raises the `StreamError` of a call that failed, and TooManyTurns.
        """
        self._wants_result = True
        async for _ in self.batches():
            pass
        if self._outcome == "max_turns":
            raise TooManyTurns(
                f"after turn {self._max_turns} the model still calls tools",
                resolution="Raise max_turns, or go on from run.conversation.",
            )
        if self._outcome == "aborted":
            raise StreamAborted("the run was closed before its end", partial=self.message)
        return await self._stream.result()

    async def aclose(self) -> None:
        """Stop the model and all tools at once, from any task; a second call does nothing."""
        self._is_closing = True
        self._toolbox.cancel()
        await self._stream.aclose()
        driving = self._driving or self._start()
        pause = 0.0  # its reader is at it, and soon done, unless a tool takes its time to end
        while driving.ag_running:
            await asyncio.sleep(pause)
            pause = 0.01
        await driving.aclose()
        self._end("aborted")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def _next(self) -> Awaitable[list[RunEvent]]:
        return anext(self._driving or self._start(), [])

    def _start(self) -> AsyncGeneratorType[list[RunEvent], None]:
        self._driving = cast("AsyncGeneratorType[list[RunEvent], None]", self._drive())
        return self._driving

    # -- turns -------------------------------------------------------------------------------

    def _told(self, event: RunEvent) -> RunEvent:
        self._stream.observe(event)
        return event

    async def _drive(self) -> AsyncGenerator[list[RunEvent], None]:
        try:
            while self._outcome is None:
                if self._turn:
                    self._turn_over()
                self._turn += 1
                begun: list[RunEvent] = []
                if self._turn == 1:
                    begun = [self._told(RunStart(self.id, self._toolbox.names))]
                yield [*begun, self._told(TurnStart(self.id, self._turn))]
                async with self._stream as stream:
                    terminal: Any = None
                    if self._wants_result:
                        terminal = await _result_of(stream)
                    else:
                        async for batch in stream.batches():
                            terminal = batch[-1]
                            yield [*batch]
                if isinstance(terminal, Error):
                    was_left = terminal.stop_reason is StopReason.ABORTED
                    yield [self._end("aborted" if was_left else "error")]
                    return
                reason = stream.message.stop_reason or StopReason.STOP
                async with aclosing(self._after(stream.message, reason)) as batches:
                    async for events in batches:
                        yield events
        finally:
            self._keep_turn()
            self._end("aborted")

    async def _after(
        self, message: AssistantMessage, reason: StopReason
    ) -> AsyncGenerator[list[RunEvent], None]:
        """End a turn that the model has answered in: carry out its tool calls."""
        calls = message.tool_calls
        goes_on = reason is StopReason.PAUSE or (calls and reason is not StopReason.CONTENT_FILTER)
        yield [self._told(TurnEnd(self.id, self._turn, reason))]
        if calls and goes_on and self._turn < self._max_turns:
            async with aclosing(self._toolbox.carry_out(calls, self._turn)) as batches:
                async for events in batches:
                    yield [*events]
        self._keep_turn()
        if self._is_closing:
            yield [self._end("aborted")]
        elif not goes_on:
            yield [self._end("done")]
        elif self._turn == self._max_turns:
            yield [self._end("max_turns")]

    def _keep_turn(self) -> None:
        """Add a turn that the model has answered in to the conversation, once."""
        message = self._stream.message
        if self._is_kept or message.stop_reason in (None, StopReason.ERROR, StopReason.ABORTED):
            return
        self._is_kept = True
        self._messages += [message, *self._toolbox.results(message.tool_calls)]

    def _turn_over(self) -> None:
        """Go on to the next turn; a tool that was asked for by name has been called by now."""
        if self._options.get("tool_choice") not in (None, "auto", "none"):
            self._options = {**self._options, "tool_choice": None}
        self._usage, self._cost = self.usage, self.cost
        context = replace(self._context, messages=[*self._messages])
        self._stream, self._is_kept = self._ask(context, self._options), False

    def _end(self, outcome: Outcome) -> RunEnd:
        end = RunEnd(self.id, self._turn, outcome, self.usage, self.cost)
        if self._outcome is None:
            self._outcome = outcome
            if self._turn:
                self._told(end)
        return end


async def _result_of(stream: EventStream) -> Done | Error:
    """Read a turn to its end, unseen: one that drops is begun again, as `result()` does."""
    try:
        message = await stream.result()
    except StreamError as error:
        return Error(
            StopReason.ABORTED if isinstance(error, StreamAborted) else StopReason.ERROR,
            error.message,
            error_kind=error.kind,
        )
    return Done(message.stop_reason or StopReason.STOP)
