"""`Client`: the core's, with typed answers, the tool loop and many prompts at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack, overload

import swink_core
from swink.answers import Answer, AnswerForm, AnswerStream
from swink.approvals import Approve, PausedRun, context_after
from swink.arguments import check_names, check_number
from swink.batches import Batch, Progress, gathered
from swink.goals import Goal, V
from swink.loop import Run
from swink.mistakes import missing_name, takes_options
from swink.prompts import Prompt
from swink.schemas import Schema
from swink.tools import ToolLike, refuse_functions, tools_by_name
from swink_core import (
    AssistantMessage,
    EventStream,
    Model,
    ModelChain,
    Options,
    StreamOptions,
    UsageError,
)
from swink_core.providers import TargetOptions

if TYPE_CHECKING:
    from typing_extensions import TypeForm

__all__ = [
    "Client",
    "Models",
    "Prompts",
    "RunOptions",
    "Tools",
    "complete",
    "gather",
    "stream",
]

T = TypeVar("T")

Models: TypeAlias = ModelChain | None
"""A model, or several to fall back through; `None` is the client's default."""

Prompts: TypeAlias = Iterable[Prompt]

Tools: TypeAlias = Sequence[ToolLike]

MAX_TURNS = 10
"""Calls of the model in a run, unless it is told otherwise."""

CORRECTIONS = 1
"""How often a run asks again for an answer that does not fit its type."""

NO_TYPE: Any = None
"""Stands for no type; of any type, so that a type checker finds the type of a run by the other
arguments."""

LIMIT = 10
"""Calls at a time in a batch, unless it is told otherwise."""


class RunOptions(TargetOptions, total=False):
    """The options of a run's calls: those of a call, without its tools."""

    system_prompt: str | None


class Client(swink_core.Client):
    """Streams from any installed provider, runs tools, and reads answers as types.

        async with swink.Client() as client:
            async with client.stream("acme/large", "Why is the sky blue?") as stream:
                async for piece in stream.text:
                    print(piece, end="")

    One client serves any number of calls at a time; what it is made of, see `swink_core.Client`.
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(missing_name("Client", name), name=name, obj=self)

        def __enter__(self) -> Any:
            raise UsageError(
                "Client is asynchronous",
                resolution="Write async with Client() as client, or use SyncClient.",
            )

        def __exit__(self, *raised: object) -> None: ...

    @overload
    def stream(
        self, model: Models, context: Prompt, *, type: None = None, **options: Unpack[Options]
    ) -> EventStream: ...

    @overload
    def stream(
        self, model: Models, context: Prompt, *, type: TypeForm[T], **options: Unpack[Options]
    ) -> AnswerStream[T]: ...

    @takes_options(Options)
    def stream(
        self, model: Models, context: Prompt, *, type: Any = None, **options: Unpack[Options]
    ) -> EventStream | AnswerStream[Any]:
        """Return the stream of a call, or with `type` that of an answer of this type.

        Nothing is sent before it is read. See `swink_core.Client.stream` for the rest. Raises
        UsageError for a call that cannot be made, and for a type that has no JSON schema.
        """
        refuse_functions(options.get("tools"))
        if type is None:
            return super().stream(model, context, **options)
        if options.get("response_format") is not None:
            raise UsageError(
                "type and response_format say two things", resolution="Leave one of them out."
            )
        form: AnswerForm[Any] = AnswerForm(Schema(type))
        tools = [*(options.pop("tools", None) or ())]

        forced = True

        def ask(context: Prompt, by_tool: bool) -> EventStream:
            asked = options.copy()
            if by_tool:
                asked["tools"] = [*tools, form.tool]
                asked["tool_choice"] = form.tool.name if forced else None
            else:
                asked["tools"], asked["response_format"] = tools or None, form.json
            return super(Client, self).stream(model, context, **asked)

        def lacking(stream: EventStream) -> set[str | None]:
            return {self._refused(each, stream.call.options) for each in _models(model, stream)}

        first = ask(context, False)
        if by_tool := FEATURE in lacking(first):
            first = ask(context, True)
            forced = "tool_choice" not in lacking(first)
            if not forced:  # the tool is on offer, and asked for again if need be
                first = ask(context, True)
        return AnswerStream(form, ask, first, by_tool)

    @overload
    async def complete(
        self, model: Models, context: Prompt, *, type: None = None, **options: Unpack[Options]
    ) -> AssistantMessage: ...

    @overload
    async def complete(
        self, model: Models, context: Prompt, *, type: TypeForm[T], **options: Unpack[Options]
    ) -> Answer[T]: ...

    @takes_options(Options)
    async def complete(
        self, model: Models, context: Prompt, *, type: Any = None, **options: Unpack[Options]
    ) -> AssistantMessage | Answer[Any]:
        """Make a call and return its message, or with `type` its answer as a value of this type."""
        async with self.stream(model, context, type=type, **options) as stream:
            result: AssistantMessage | Answer[Any] = await stream.result()
        return result

    @takes_options(RunOptions)
    def run(
        self,
        model: Models,
        context: Prompt | PausedRun,
        *,
        tools: Tools,
        type: TypeForm[V] = NO_TYPE,
        corrections: int = CORRECTIONS,
        max_turns: int = MAX_TURNS,
        approve: Approve | None = None,
        **options: Unpack[RunOptions],
    ) -> Run[V]:
        """Return a tool loop: the model is called, its tool calls are carried out together, and so
        on until it has answered, for `max_turns` calls of the model at most.

        `tools` are functions, async ones or blocking ones, which run in threads; see `tool` for
        what else can be said of one. A `tool_choice` that forces a call holds for the first turn.

        With `type`, the run ends with a value of this type, which `Run.answer` returns; an answer
        that does not fit is asked for again up to `corrections` times.

        `approve` decides on each call of a tool. Without it, a call of a tool that needs approval
        pauses the run, and so does a call for which `approve` returns `PAUSE`. To go on, pass the
        `PausedRun` as `context`, with the same tools.

        Raises UsageError for a run that cannot begin.
        """
        check_names(options, "approve", "corrections", "max_turns", "type")
        named = tools_by_name(tools)
        asked: Options = {**options, "tools": [one.definition for one in named.values()]}
        resumed = context if isinstance(context, PausedRun) else None
        prompt: Any = context if resumed is None else context_after(resumed)

        def ask(context: Prompt, asked: Options) -> EventStream:
            return super(Client, self).stream(model, context, **asked)

        goal: Goal[V] | None = None
        if type is not NO_TYPE:
            check_number("corrections", corrections, "Allow none, or some.", least=0)
            goal = Goal(AnswerForm(Schema(type)), corrections)
            goal.check(asked)
            first = ask(prompt, goal.asked(asked))
            lacking = {self._refused(each, first.call.options) for each in _models(model, first)}
            goal.by_tool = FEATURE in lacking
        return Run(ask, prompt, asked, named, max_turns, approve, goal, resumed)

    @overload
    async def gather(
        self,
        model: Models,
        prompts: Prompts,
        *,
        type: None = None,
        limit: int = LIMIT,
        on_progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Batch[AssistantMessage]: ...

    @overload
    async def gather(
        self,
        model: Models,
        prompts: Prompts,
        *,
        type: TypeForm[T],
        limit: int = LIMIT,
        on_progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Batch[Answer[T]]: ...

    @takes_options(Options)
    async def gather(
        self,
        model: Models,
        prompts: Prompts,
        *,
        type: Any = None,
        limit: int = LIMIT,
        on_progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Batch[Any]:
        """Answer many prompts, at most `limit` at a time; one that fails stops no other.

        `on_progress` is called with the batch each time that one has ended. Raises UsageError,
        before anything is asked, for a model, type or option with which no prompt can be.
        """

        check_names(options, "limit", "on_progress")

        async def ask(prompt: Prompt) -> Any:
            return await self.complete(model, prompt, type=type, **options)

        def check(prompt: Prompt) -> None:
            self.stream(model, prompt, type=type, **options)

        return await gathered(ask, check, prompts, limit, on_progress)

    def _refused(self, name: str | Model, options: StreamOptions) -> str | None:
        """Return the feature for which a call would be refused, as far as can be known."""
        target = self.target(name)
        failure = target.refusal(options=options)
        if failure is not None:
            return failure.code
        provider = target.binding.provider
        if hasattr(provider, "fit") or FEATURE in getattr(provider, "features", {FEATURE}):
            return None
        return FEATURE


FEATURE = "structured_output"


def _models(model: Models, first: EventStream) -> list[str | Model]:
    """Return the models of a chain; `first` knows the only one."""
    chain: Any = model
    if isinstance(chain, str | Model | None) or (len(chain) == 2 and isinstance(chain[1], Mapping)):
        return [first.call.model]
    return [each[0] if isinstance(each, tuple) else each for each in chain]


@overload
def stream(
    model: Models, context: Prompt, *, type: None = None, **options: Unpack[Options]
) -> EventStream: ...


@overload
def stream(
    model: Models, context: Prompt, *, type: TypeForm[T], **options: Unpack[Options]
) -> AnswerStream[T]: ...


@takes_options(Options)
def stream(
    model: Models, context: Prompt, *, type: Any = None, **options: Unpack[Options]
) -> EventStream | AnswerStream[Any]:
    """Stream one call with a client of its own, closed with the stream."""
    client = Client()
    client._on_close = client.aclose
    streamed: EventStream | AnswerStream[Any] = client.stream(model, context, type=type, **options)
    return streamed


@overload
async def complete(
    model: Models, context: Prompt, *, type: None = None, **options: Unpack[Options]
) -> AssistantMessage: ...


@overload
async def complete(
    model: Models, context: Prompt, *, type: TypeForm[T], **options: Unpack[Options]
) -> Answer[T]: ...


@takes_options(Options)
async def complete(
    model: Models, context: Prompt, *, type: Any = None, **options: Unpack[Options]
) -> AssistantMessage | Answer[Any]:
    """Make one call with a client of its own and return its message, or the answer of a type."""
    async with Client() as client:
        result: AssistantMessage | Answer[Any] = await client.complete(
            model, context, type=type, **options
        )
    return result


@overload
async def gather(
    model: Models,
    prompts: Prompts,
    *,
    type: None = None,
    limit: int = LIMIT,
    on_progress: Progress | None = None,
    **options: Unpack[Options],
) -> Batch[AssistantMessage]: ...


@overload
async def gather(
    model: Models,
    prompts: Prompts,
    *,
    type: TypeForm[T],
    limit: int = LIMIT,
    on_progress: Progress | None = None,
    **options: Unpack[Options],
) -> Batch[Answer[T]]: ...


@takes_options(Options)
async def gather(
    model: Models,
    prompts: Prompts,
    *,
    type: Any = None,
    limit: int = LIMIT,
    on_progress: Progress | None = None,
    **options: Unpack[Options],
) -> Batch[Any]:
    """Answer many prompts with a client of its own; see `Client.gather`."""
    async with Client() as client:
        batch: Batch[Any] = await client.gather(
            model, prompts, type=type, limit=limit, on_progress=on_progress, **options
        )
    return batch
