"""Typed answers: request JSON that matches a type's schema, and convert it to a value of the type.

If a provider has no structured output, the model is forced to call a tool whose arguments are the
answer (the answer tool). If an answer does not match the type, the reason is sent to the model in
another request. The number of these requests is limited.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeGuard, TypeVar

from attrs import define

from swink.amounts import added
from swink.of_stream import OfStream
from swink.partial import json_in, partial_json
from swink.prompts import Prompt
from swink.schemas import Schema
from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Context,
    Cost,
    Event,
    EventStream,
    LimitReached,
    Retry,
    StopReason,
    StreamError,
    SwinkError,
    TextDelta,
    Tool,
    ToolCallDelta,
    ToolCallStart,
    ToolResultMessage,
    Unsupported,
    Usage,
    UsageError,
    UserMessage,
    replace,
)
from swink_core.providers import AsyncOnly, closed_schema

__all__ = [
    "ANSWER",
    "Answer",
    "AnswerForm",
    "AnswerStream",
    "BadAnswer",
    "Growing",
    "answer_in",
    "check_typed",
    "corrections_of",
]

log = logging.getLogger(__name__)

T = TypeVar("T")

ANSWER = "answer"
"""The name of the answer tool, which is used if the model has no structured output."""

WRAPPED = "value"
"""The field that contains an answer whose type is not an object.

APIs require an object at the root.
"""

FREE_CHARACTERS = 1_000_000
"""How many characters are parsed, in total, before parsing begins to skip new pieces.

An incomplete answer is always parsed from its beginning. Up to this number, each new piece causes
another parse. Beyond the number, the answer is parsed only when it has grown by the factor
`GROWTH`, so that the work stays linear.
"""

GROWTH = 1.1

_SAY_AGAIN = "That does not fit the schema: {why}\nAnswer again, with the whole corrected JSON."

_NOT_CALLED = "The tool was not called: the answer was given in the same turn."
"""The result of another call beside a call of the answer tool that has to be corrected."""


def check_typed(given: Mapping[str, Any]) -> None:
    """Raise UsageError for options that a call for a typed answer sets itself."""
    if given.get("response_format") is not None:
        raise UsageError(
            "type and response_format cannot be combined", resolution="Pass only one of them."
        )
    if any(_name_of(tool) == ANSWER for tool in given.get("tools") or ()):
        raise UsageError(
            f"the tool name {ANSWER!r} is reserved for the typed answer",
            resolution="Give it another name: tool(name=…)(function).",
        )


def _name_of(tool: Any) -> Any:
    return tool.get("name") if isinstance(tool, Mapping) else getattr(tool, "name", None)


@define(frozen=True)
class Answer(Generic[T]):
    """A model's answer as a value. `usage` and `cost` include all attempts and corrections."""

    parsed: T
    message: AssistantMessage
    usage: Usage | None = None
    cost: Cost | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            place = next((each for each in ("parsed", "message") if _has(self, each, name)), None)
            hint = f"; did you mean answer.{place}.{name}?" if place else ""
            text = f"'Answer' object has no attribute {name!r}{hint}"
            raise AttributeError(text, name=name, obj=self)

    @property
    def text(self) -> str:
        """The answer as the model wrote it."""
        return written(self.message)


def _has(answer: Answer[Any], place: str, name: str) -> bool:
    try:
        whole = object.__getattribute__(answer, place)
    except AttributeError:  # the object is being copied
        return False
    return not name.startswith("_") and hasattr(whole, name)


class BadAnswer(SwinkError, title="The answer does not fit the type"):
    """Raised if the answer does not match the type, even after corrections.

    `text` is the answer as written by the model, `answer` the whole message. `message` describes
    the fault, as in every `SwinkError`.
    """

    def __init__(
        self, why: str, answer: AssistantMessage, usage: Usage | None, cost: Cost | None
    ) -> None:
        is_cut = answer.stop_reason is StopReason.LENGTH
        super().__init__(
            why,
            resolution="The answer is in the error's text."
            + (" Allow more tokens with max_tokens." if is_cut else ""),
        )
        self.answer = answer
        self.text = written(answer)
        self.usage, self.cost = usage, cost

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copying and pickling."""
        return type(self), (self.message, self.answer, self.usage, self.cost), self.__dict__


def written(message: AssistantMessage) -> str:
    """Return an answer as the model wrote it: its text, or the arguments of the answer tool."""
    for call in message.tool_calls:
        if call.name == ANSWER:
            return call.raw_arguments or ""
    return message.text


class AnswerForm(Generic[T]):
    """The schema of a type, for requests, and the conversion of answers to values of the type."""

    def __init__(self, schema: Schema[T]) -> None:
        self._schema = schema
        self._is_object = schema.json.get("type") == "object"
        whole = schema.json if self._is_object else self._wrapped()
        self.json: dict[str, Any] = closed_schema(whole)

    def _wrapped(self) -> dict[str, Any]:
        inner = dict(self._schema.json)
        definitions = inner.pop("$defs", None)
        whole = {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED]}
        return {**whole, "$defs": definitions} if definitions else whole

    @property
    def tool(self) -> Tool:
        """The tool that a model is forced to call if it has no structured output."""
        return Tool(ANSWER, "Give the answer.", self.json)

    def read(self, message: AssistantMessage) -> T:
        """Return the value of an answer. Raises ValueError if it does not match the type."""
        call = next((call for call in message.tool_calls if call.name == ANSWER), None)
        if call is not None and call.state == "complete":
            return self.load(call.arguments)
        try:
            data = json_in(written(message))
        except ValueError as error:
            raise ValueError(f"invalid JSON: {error}") from error
        return self.load(data)

    def load(self, data: Any) -> T:
        """Convert JSON data to a value of the type. Raises ValueError if it does not match."""
        if not self._is_object:
            if not isinstance(data, Mapping) or WRAPPED not in data:
                raise ValueError(f"an object with the field {WRAPPED!r} was expected")
            data = data[WRAPPED]
        return self._schema.load(data)

    def so_far(self, text: str) -> Any:
        """Return the JSON data in an incomplete answer."""
        data = partial_json(text)
        if self._is_object or not isinstance(data, Mapping):
            return data
        return data.get(WRAPPED)


class Growing:
    """The incomplete text of an answer while it arrives, or the arguments of the answer tool."""

    def __init__(self, form: AnswerForm[Any]) -> None:
        self._form = form
        self._last: Any = None
        self.begin()

    def begin(self) -> None:
        """Discard the text so far, before another answer begins."""
        self._parts: list[str] = []
        self._size = 0
        self._read = 0  # the size when it was last parsed
        self._spent = 0  # characters parsed in total
        self._block: int | None = None

    def feed(self, batch: Sequence[AssistantMessageEvent]) -> Any:
        """Process events, and return the answer so far (`None` if it has not changed)."""
        for event in batch:
            if isinstance(event, Retry):
                self.begin()
            elif isinstance(event, ToolCallStart) and event.name == ANSWER:
                self.begin()
                self._block = event.content_index
            elif self._is_of_answer(event):
                self._parts.append(event.delta)
                self._size += len(event.delta)
        is_free = self._size > self._read and self._spent + self._size <= FREE_CHARACTERS
        if not is_free and self._size <= self._read * GROWTH:
            return None
        self._parts = ["".join(self._parts)]
        self._read = self._size
        self._spent += self._size
        so_far = self._form.so_far(self._parts[0])
        if so_far is None or so_far == self._last:
            return None
        self._last = so_far
        return so_far

    def _is_of_answer(self, event: AssistantMessageEvent) -> TypeGuard[TextDelta | ToolCallDelta]:
        if isinstance(event, ToolCallDelta):
            return event.content_index == self._block
        return isinstance(event, TextDelta) and self._block is None


Ask: TypeAlias = Callable[[Prompt, bool], EventStream]
"""A function that requests an answer. Its second argument is True to force a tool call."""


class AnswerStream(OfStream, AsyncOnly, Generic[T]):
    """The stream of a typed answer.

    Iterate over its events, its `text` or its `partials`, and get the `Answer` from `result()`.

        async with client.stream_answer("acme/large", "A recipe?", type=Recipe) as stream:
            async for so_far in stream.partials:
                print(so_far.get("title"))
            answer = await stream.result()
    """

    def __init__(
        self,
        form: AnswerForm[T],
        ask: Ask,
        stream: EventStream,
        by_tool: bool,
        corrections: int,
    ) -> None:
        self._form, self._ask, self._by_tool = form, ask, by_tool
        self._corrections = corrections
        self._stream: EventStream = stream
        # `ask` adds the tools to each request, so the conversation is kept without them.
        self._context = replace(stream.call.context, tools=[])
        self._usage: Usage | None = None
        self._cost: Cost | None = None
        self._alone = asyncio.Lock()  # held while the result is read
        self._answer: Answer[T] | None = None
        self._failure: Exception | None = None
        # Closes a client that was created only for this stream.
        self._on_close: Callable[[], Awaitable[None]] | None = None

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        async for event in self._stream:
            yield event

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """Yield the events of one network read at a time, as lists."""
        async for batch in self._stream.batches():
            yield batch

    @property
    def text(self) -> AsyncGenerator[str, None]:
        """The text of the answer, piece by piece; see `EventStream.text`."""
        return self._stream.text

    @property
    def partials(self) -> AsyncGenerator[Any, None]:
        """The answer so far, as JSON data that grows.

        Raises the same errors as `result()`, but only `result()` checks the complete answer against
        the type. If `result()` requests a corrected answer, `partials` and the events do not show
        it: show `parsed` of the result at the end.
        """
        return self._pieces(self._partials())

    async def _partials(self) -> AsyncGenerator[Any, None]:
        growing = Growing(self._form)
        async for batch in self._stream.batches():
            if (so_far := growing.feed(batch)) is not None:
                yield so_far
        try:
            await self._stream.result()
        except Unsupported:
            if self._by_tool:
                raise  # otherwise `result()` requests the answer as a tool call

    async def result(self) -> Answer[T]:
        """Read to the end and return the answer.

        If the answer does not match the type, it is requested again, at most `corrections` times.
        The answer is not requested again if it was truncated, or if the type's own code (such as a
        validator) raised an exception.

        Raises the `StreamError` of a failed call, and BadAnswer, with the answer's text, if no
        answer matches the type. If limits forbid a further request, raises LimitReached with the
        last answer in `partial`. The `total_usage` and `total_cost` of `partial` include all
        attempts and corrections. Further calls return the same answer or raise the same error, and
        send nothing.
        """
        async with self._alone:
            if self._failure is not None:
                raise self._failure
            if self._answer is None:
                try:
                    self._answer = await self._result()
                except Exception as error:
                    self._failure = error
                    if isinstance(error, StreamError):
                        usage, cost = self._totals()
                        error.partial = replace(
                            error.partial or self.message, total_usage=usage, total_cost=cost
                        )
                    raise
                finally:
                    await self._close_client()
            return self._answer

    async def _result(self) -> Answer[T]:
        try:
            message = await self._stream.result()
        except Unsupported:
            if self._by_tool:
                raise
            self._by_tool = True
            message = await self._again(self._context)
        context, left = self._context, self._corrections
        while True:
            try:
                return self._read(message)
            except ValueError as error:
                why = str(error)
                if left == 0:
                    raise BadAnswer(why, message, *self._totals()) from error
            left -= 1
            log.warning(
                "call %s: the answer does not fit and was requested again: %s", self.call.id, why
            )
            said = [*context.messages, message, *corrections_of(message, why)]
            context = replace(context, messages=said)
            try:
                message = await self._again(context)
            except LimitReached as reached:
                reached.partial = message  # the answer that does not fit
                raise

    async def aclose(self) -> None:
        """Close the connection at once. May be called from any task; further calls do nothing."""
        try:
            await self._stream.aclose()
        finally:
            await self._close_client()

    async def _close_client(self) -> None:
        if self._on_close is not None:
            await self._on_close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    async def _again(self, context: Context) -> AssistantMessage:
        await self._stream.aclose()
        stream = self._ask(context, self._by_tool)
        self._usage, self._cost = self._totals()
        self._stream = stream
        async with stream:
            return await stream.result()

    def _totals(self) -> tuple[Usage | None, Cost | None]:
        call = self._stream.call
        return added(self._usage, call.usage), added(self._cost, call.cost)

    def _read(self, message: AssistantMessage) -> Answer[T]:
        return answer_in(message, self._form, *self._totals())


def answer_in(
    message: AssistantMessage, form: AnswerForm[T], usage: Usage | None, cost: Cost | None
) -> Answer[T]:
    """Return the answer in a message.

    Raises ValueError if the answer does not match the type, and BadAnswer if a further request
    would not help.
    """
    if cut := _CUT.get(message.stop_reason or StopReason.STOP):
        raise BadAnswer(cut, message, usage, cost)
    try:
        parsed = form.read(message)
    except ValueError:
        raise
    except Exception as error:
        why = f"the type's own code raised {type(error).__name__}: {error}"
        raise BadAnswer(why, message, usage, cost) from error
    return Answer(parsed, message, usage, cost)


_CUT = {
    StopReason.LENGTH: "the answer was cut off at its limit of tokens",
    StopReason.CONTENT_FILTER: "the model declined to answer",
}
"""Explanations of stop reasons after which a corrected answer is not requested."""


def corrections_of(message: AssistantMessage, why: str) -> list[UserMessage | ToolResultMessage]:
    """Return the messages that request a corrected answer. `why` describes the fault."""
    text = _SAY_AGAIN.format(why=why)
    calls = message.tool_calls
    if not calls:
        return [UserMessage(text)]
    by_tool = any(call.name == ANSWER for call in calls)
    return [
        ToolResultMessage(
            call.id,
            call.name,
            _NOT_CALLED if by_tool and call.name != ANSWER else text,
            is_error=True,
        )
        for call in calls
    ]
