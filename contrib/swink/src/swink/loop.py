"""The tool loop: a model is called and its tool calls are carried out, until it has answered.

The conversation contains only complete turns: each answer with the results of all its tool calls.
So the conversation can always be sent again, even after a failure. An unfinished answer is only in
`message`, and a tool call that was not carried out has a result that contains the reason.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from types import AsyncGeneratorType
from typing import Any, Generic, Self, TypeAlias, cast
from weakref import WeakSet

from swink.amounts import added
from swink.answers import Answer, Growing
from swink.approvals import Approve, PausedRun, RunPaused
from swink.arguments import check_called, check_number
from swink.events import Outcome, RunEnd, RunEvent, RunStart, TurnEnd, TurnStart
from swink.goals import Goal, V
from swink.of_stream import OfStream
from swink.prompts import Prompt
from swink.toolbox import Toolbox
from swink.tools import FunctionTool
from swink_core import (
    AssistantMessage,
    Charge,
    Context,
    Conversation,
    Cost,
    Done,
    Error,
    EventStream,
    LimitReached,
    Options,
    Retry,
    Start,
    StopReason,
    StreamAborted,
    StreamError,
    StreamErrorKind,
    SwinkError,
    TextDelta,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UsageError,
    replace,
)
from swink_core.providers import AsyncOnly, LimitGate

__all__ = ["Run", "TooManyTurns"]

Ask: TypeAlias = Callable[[Prompt, Options], EventStream]


class TooManyTurns(SwinkError, title="The run did not come to an end"):
    """Raised if the model called tools in the last allowed turn."""


class Run(OfStream, AsyncOnly, Generic[V]):
    """A running tool loop, which yields the events of all its turns and tools, in order.

        async with client.run("acme/large", "What is 2 + 3?", tools=[add]) as run:
            async for piece in run.text:
                print(piece, end="")
        print(run.conversation, run.cost)

    Leaving the `async with` closes the run and stops its running tools. `call` is the call of the
    turn whose events are being read; `conversation` and `message` can be read at any time. If the
    run has a type, `answer()` returns the typed value at its end.
    """

    def __init__(
        self,
        ask: Ask,
        prompt: Prompt,
        options: Options,
        tools: Mapping[str, FunctionTool[..., Any]],
        max_turns: int,
        approve: Approve | None,
        goal: Goal[V] | None,
        resumed: PausedRun | None,
        limits: LimitGate | None,
        begun: WeakSet[Run[Any]],
    ) -> None:
        check_number("max_turns", max_turns, "Pass at least 1.")
        check_called(
            "approve", approve, "Pass a function that returns True, or the reason for a refusal."
        )
        self.id = secrets.token_hex(6)
        self._ask, self._options = ask, options
        self._toolbox = Toolbox(self.id, tools, approve, self._told, self._check_result)
        self._max_turns = max_turns
        self._goal = goal
        self._limits = limits
        self._begun = begun
        self._limit_reached: LimitReached | None = None
        self._failure: Exception | None = None  # of a call that could not be made
        self._stream: EventStream = self._asked(prompt)
        self._context = self._stream.call.context
        self._messages: Conversation = [*self._context.messages]
        self._last: AssistantMessage | None = None  # the message of the last turn that was kept
        self._resumed = resumed
        self._usage: Usage | None = None
        self._cost: Cost | None = None
        self._spent: Charge | None = None
        self._turn = 0
        self._paused: PausedRun | None = None
        if resumed is not None:
            self._messages = [*resumed.messages]
            self._turn, self._usage, self._cost = resumed.turn, resumed.usage, resumed.cost
            self._spent = resumed.charge
            self._toolbox.take(resumed.results, resumed.decisions)
        self._outcome: Outcome | None = None
        self._is_begun = self._is_closing = self._wants_result = self._is_kept = False
        self._driving: AsyncGeneratorType[list[RunEvent], None] | None = None
        self._rest: Iterator[RunEvent] = iter(())

    # -- state -------------------------------------------------------------------------------

    @property
    def conversation(self) -> Conversation:
        """The conversation from the beginning, with complete turns only, as a new list."""
        return [*self._messages]

    @property
    def turns(self) -> int:
        """The number of turns that have begun."""
        return self._turn

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; `None` until it has ended."""
        return self._outcome

    @property
    def paused(self) -> PausedRun | None:
        """The paused run, if it waits for decisions on tool calls; otherwise `None`."""
        return self._paused

    @property
    def usage(self) -> Usage | None:
        """The token usage of all attempts of all turns; `None` if unknown so far."""
        return added(self._usage, self._stream.call.usage)

    @property
    def cost(self) -> Cost | None:
        """The known cost of all attempts of all turns; `None` if nothing is known."""
        return added(self._cost, self._stream.call.cost)

    @property
    def _charge(self) -> Charge | None:
        """The charge for all attempts of all turns, as limits count it."""
        call = self._stream.call
        return added(self._spent, call.charge if call.attempts else None)

    # -- reading -----------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncGenerator[RunEvent, None]:
        # the iterator over a batch is stored, so that a loop left by `break` can be resumed
        while True:
            for event in self._rest:
                yield event
            batch = await self._next()
            if not batch:
                return
            self._rest = iter(batch)

    async def batches(self) -> AsyncGenerator[list[RunEvent], None]:
        """Yield the events as lists, each with the events that arrived at the same time."""
        if rest := list(self._rest):
            yield rest
        while batch := await self._next():
            yield batch

    @property
    def text(self) -> AsyncGenerator[str, None]:
        """The text of all turns, in pieces. Raises the same errors as `result()`."""
        return self._pieces(self._text())

    async def _text(self) -> AsyncGenerator[str, None]:
        async for batch in self.batches():
            pieces: list[str] = []
            for event in batch:
                if isinstance(event, TextDelta):
                    pieces.append(event.delta)
                elif isinstance(event, Retry):
                    if not self.call.may_restart:
                        await self.aclose()
                        raise self._stream.begun_again(event)
                    pieces.clear()
            if piece := "".join(pieces):
                self.call.may_restart = False
                yield piece
        await self.result()

    @property
    def partials(self) -> AsyncGenerator[Any, None]:
        """The typed answer so far, as growing JSON data. Raises the same errors as `answer()`."""
        return self._pieces(self._partials())

    async def _partials(self) -> AsyncGenerator[Any, None]:
        growing = Growing(self._typed().form)
        async for batch in self.batches():
            for event in batch:
                if isinstance(event, TurnStart):
                    growing.begin()
            if (so_far := growing.feed(batch)) is not None:
                yield so_far
        await self.answer()

    def _typed(self) -> Goal[V]:
        if self._goal is None:
            raise UsageError(
                "the run ends with a message, not with a value",
                resolution="Pass type=… to run(…), or take result().",
            )
        return self._goal

    async def answer(self) -> Answer[V]:
        """Run to the end and return the typed answer.

        Raises the same errors as `result()`, and UsageError for a run without a type.
        """
        goal = self._typed()
        await self.result()
        return cast("Answer[V]", goal.answer)  # `answer` is set, or `result()` has raised

    async def result(self) -> AssistantMessage:
        """Run to the end and return the model's last message.

        Raises the `StreamError` of a failed call, LimitReached at a limit, TooManyTurns after
        `max_turns`, RunPaused if the run waits for decisions, BadAnswer if the last message does
        not match the type, and UsageError if the conversation cannot be sent any more, for example
        because a file in it was deleted. If another task reads the run, the method waits until that
        task has read to the end or stopped.
        """
        driving = self._driving
        pause = 0.0
        while driving is not None and driving.ag_running:
            await asyncio.sleep(pause)
            pause = 0.01
        self._wants_result = True
        async for _ in self.batches():
            pass
        if self._outcome == "max_turns":
            raise TooManyTurns(
                f"after turn {self._turn} the model still calls tools",
                resolution="Raise max_turns, or go on from run.conversation.",
            )
        if self._limit_reached is not None:
            self._limit_reached.partial = self._last or self.message
            raise self._limit_reached
        if self._failure is not None:
            raise self._failure
        if self._paused is not None:
            raise RunPaused(self._paused)
        if self._goal is not None and self._goal.fault is not None:
            raise self._goal.fault
        if self._outcome == "aborted":
            raise StreamAborted("the run was closed before its end", partial=self.message)
        try:
            return await self._stream.result()
        except LimitReached as reached:
            if not self.call.attempts:  # the limit allowed no request in this turn
                reached.partial = self._last or self.message
            raise

    async def aclose(self) -> None:
        """Stop the model and all tools at once.

        May be called from any task; further calls do nothing.
        """
        self._leave()
        await self._stream.aclose()
        driving = self._driving or self._start()
        pause = 0.0  # the reader will be done soon, unless a tool takes long to end
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

    async def _close_with_client(self) -> None:
        """Close the run in its event loop; only request it if that is not the running loop."""
        if self._loop is asyncio.get_running_loop():
            await self.aclose()
        elif self._outcome is None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        self._is_closing = True
        self._toolbox.cancel()

    def _start(self) -> AsyncGeneratorType[list[RunEvent], None]:
        self._loop = asyncio.get_running_loop()
        self._begun.add(self)
        self._driving = cast("AsyncGeneratorType[list[RunEvent], None]", self._drive())
        return self._driving

    # -- turns -------------------------------------------------------------------------------

    def _told(self, event: RunEvent) -> RunEvent:
        self._stream.observe(event)
        return event

    def _asked(self, prompt: Prompt) -> EventStream:
        options = self._options if self._goal is None else self._goal.asked(self._options)
        return self._ask(prompt, options)

    async def _drive(self) -> AsyncGenerator[list[RunEvent], None]:
        self._is_begun = True
        try:
            begun: list[RunEvent] = [self._told(RunStart(self.id, self._toolbox.names))]
            if self._resumed is not None:
                yield begun
                begun = []
                async with aclosing(self._resume(self._resumed.answer)) as batches:
                    async for events in batches:
                        yield events
            while self._outcome is None:
                if self._turn >= self._max_turns:
                    yield [*begun, self._end("max_turns")]
                    break
                if (self._is_kept and not self._turn_over()) or not self._may_take_turn():
                    yield [*begun, self._end("error")]
                    break
                self._turn += 1
                yield [*begun, self._told(TurnStart(self.id, self._turn))]
                begun = []
                async with aclosing(self._turn_of_model()) as batches:
                    async for events in batches:
                        yield events
        finally:
            self._keep_turn()
            self._end("aborted")

    async def _resume(self, answer: AssistantMessage) -> AsyncGenerator[list[RunEvent], None]:
        """Carry out the tool calls for which a paused run needed decisions."""
        try:
            async with aclosing(self._settle(answer)) as batches:
                async for events in batches:
                    yield events
        finally:
            self._keep(answer)
        if self._is_closing:
            yield [self._end("aborted")]

    async def _turn_of_model(self) -> AsyncGenerator[list[RunEvent], None]:
        """Call the model once, and carry out its tool calls."""
        terminal: Any = None
        held: list[RunEvent] = []
        async with self._stream as stream:
            if self._wants_result:
                terminal = await _result_of(stream)
            else:
                async for batch in stream.batches():
                    terminal = batch[-1]
                    held += batch
                    if not self._may_be_asked_by_tool(terminal):
                        yield held
                        held = []
        if isinstance(terminal, Error):
            if self._goal is not None and self._may_be_asked_by_tool(terminal):
                self._goal.by_tool = True
                if not self._next_stream():
                    yield [self._end("error")]
                    return
                async with aclosing(self._turn_of_model()) as batches:
                    async for events in batches:
                        yield events
                return
            was_left = terminal.stop_reason is StopReason.ABORTED
            yield [self._end("aborted" if was_left else "error")]
            return
        reason = stream.message.stop_reason or StopReason.STOP
        async with aclosing(self._after(stream.message, reason)) as batches:
            async for events in batches:
                yield events

    def _may_be_asked_by_tool(self, last: Any) -> bool:
        """Return True if the call may still have to be made again without structured output.

        `last` is the latest event of the call. If a call is refused because structured output is
        not supported, it is made again with a tool whose arguments are the answer; the events of
        the refused call are not delivered.
        """
        if self._goal is None or self._goal.by_tool:
            return False
        if isinstance(last, Error):
            return last.error_kind is StreamErrorKind.UNSUPPORTED
        return isinstance(last, Start)

    async def _after(
        self, message: AssistantMessage, reason: StopReason
    ) -> AsyncGenerator[list[RunEvent], None]:
        """Finish a turn in which the model has answered: carry out its tool calls."""
        calls = message.tool_calls
        goes_on = reason is StopReason.PAUSE or (calls and reason is not StopReason.CONTENT_FILTER)
        is_answer = self._goal is not None and self._goal.is_given_by(calls)
        yield [self._told(TurnEnd(self.id, self._turn, reason))]
        if goes_on and not is_answer:
            if calls and not self._may_call_tools(len(calls)):
                self._keep_turn()
                yield [self._end("error")]
                return
            if calls and self._turn < self._max_turns:
                async with aclosing(self._settle(message)) as batches:
                    async for events in batches:
                        yield events
            self._keep_turn()
        elif self._goal is not None and not self._is_closing:
            may_ask = self._turn < self._max_turns
            again = self._goal.read(message, self.usage, self.cost, may_ask=may_ask)
            self._keep_turn(again)
            goes_on = bool(again)
        else:
            self._keep_turn()
        if self._is_closing:
            yield [self._end("aborted")]
        elif self._goal is not None and self._goal.fault is not None:
            yield [self._end("error")]
        elif not goes_on:
            yield [self._end("done")]

    async def _settle(self, message: AssistantMessage) -> AsyncGenerator[list[RunEvent], None]:
        """Carry out the tool calls of a message, and pause the run if some wait for a decision."""
        calls = message.tool_calls
        async with aclosing(self._toolbox.carry_out(calls, self._turn)) as batches:
            async for events in batches:
                yield [*events]
        if self._toolbox.waiting and not self._is_closing:
            self._paused = PausedRun(
                messages=[*self._messages],
                answer=message,
                results=self._toolbox.finished,
                system_prompt=self._context.system_prompt,
                turn=self._turn,
                usage=self.usage,
                cost=self.cost,
                spent=self._charge,
            )
            self._keep(message)
            yield [self._end("paused")]

    def _may_take_turn(self) -> bool:
        """Count a turn; return False if the turn would exceed a limit of the run."""
        try:
            if self._limits is not None:
                self._limits.take_turn()
        except LimitReached as reached:
            self._limit_reached = reached
        return self._limit_reached is None

    def _may_call_tools(self, number: int) -> bool:
        """Count tool calls; return False if they would exceed a limit of the run."""
        try:
            if self._limits is not None:
                self._limits.take_tool_calls(number)
        except LimitReached as reached:
            self._limit_reached = reached
        return self._limit_reached is None

    def _keep_turn(self, results: Conversation | None = None) -> None:
        """Add the current turn to the conversation if it contains an answer and was not added yet.

        `results` are the messages to add after the model's message. If `results` is `None`, the
        results of the tool calls in that message are added.
        """
        message = self._stream.message
        if message.stop_reason not in (None, StopReason.ERROR, StopReason.ABORTED):
            self._keep(message, results)

    def _keep(self, message: AssistantMessage, results: Conversation | None = None) -> None:
        if self._is_kept:
            return
        self._is_kept = True
        calls = message.tool_calls
        if not results:
            given = self._goal.results(calls) if self._goal is not None else []
            self._toolbox.settle(given)
            results = [*self._toolbox.results(calls)]
        self._messages += [message, *results]
        self._last = message

    def _turn_over(self) -> bool:
        """Prepare the next turn; return False if its call cannot be made.

        A `tool_choice` that forced a call is removed: it applies to the first turn only.
        """
        if self._options.get("tool_choice") not in (None, "auto", "none"):
            self._options = {**self._options, "tool_choice": None}
        return self._next_stream()

    def _next_stream(self) -> bool:
        """Prepare the next call; return False if it cannot be made."""
        try:
            stream = self._asked(replace(self._context, messages=[*self._messages]))
        except Exception as error:
            self._failure = error
            return False
        self._usage, self._cost, self._spent = self.usage, self.cost, self._charge
        self._stream, self._is_kept = stream, False
        return True

    def _check_result(self, result: ToolResultMessage) -> None:
        """Check the result of a tool like a message that is sent, including its files.

        Raises InvalidContext or MediaError.
        """
        call = ToolCallBlock(result.tool_call_id, result.tool_name)
        self._ask(Context([AssistantMessage([call]), result]), self._options)

    def _end(self, outcome: Outcome) -> RunEnd:
        end = RunEnd(self.id, self._turn, outcome, self.usage, self.cost)
        if self._outcome is None:
            self._outcome = outcome
            if self._is_begun:
                self._told(end)
        return end


async def _result_of(stream: EventStream) -> Done | Error:
    """Read the stream of a turn to its end.

    The events do not reach the reader of the run, so that a failed call can still be retried.
    """
    try:
        message = await stream.result()
    except StreamError as error:
        return Error(
            StopReason.ABORTED if isinstance(error, StreamAborted) else StopReason.ERROR,
            error.message,
            error_kind=error.kind,
        )
    return Done(message.stop_reason or StopReason.STOP)
