"""`Client`: the core's client, with typed answers, the tool loop and batches of prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack
from weakref import WeakSet

import swink_core
from swink.answers import Answer, AnswerForm, AnswerStream, check_typed
from swink.approvals import Approve, PausedRun, context_after
from swink.arguments import check_names, check_number, refuse_type
from swink.batches import Batch, Progress, gathered
from swink.goals import Goal, V
from swink.loop import Run
from swink.mistakes import missing_name, takes_options
from swink.prompts import Prompt
from swink.schemas import Schema
from swink.tools import ToolLike, refuse_functions, tools_by_name
from swink_core import (
    AssistantMessage,
    Block,
    EventStream,
    Limits,
    Model,
    ModelChain,
    Options,
    StreamOptions,
    Target,
    UsageError,
)
from swink_core.providers import LimitGate, TargetOptions

if TYPE_CHECKING:
    from typing_extensions import TypeForm

__all__ = [
    "Client",
    "Models",
    "Prompts",
    "RunOptions",
    "Tools",
    "answer",
    "complete",
    "gather",
    "gather_answers",
    "stream",
    "stream_answer",
]

# Jedi does not support `Unpack`. It finds the names of options in the calls under `TYPE_CHECKING`.

T = TypeVar("T")

Models: TypeAlias = ModelChain | None
"""A model, or a fallback chain of models; `None` is the client's default."""

Prompts: TypeAlias = Iterable[Prompt]

Tools: TypeAlias = Sequence[ToolLike]

MAX_TURNS = 10
"""The default maximum number of model calls in a run."""

CORRECTIONS = 1
"""The default maximum number of new requests for an answer that does not match its type."""

NO_TYPE: Any = None
"""The default of the argument `type`: the answer is not typed.

The constant is annotated as Any, so that a type checker infers the type of a run from the other
arguments.
"""

LIMIT = 10
"""The default number of concurrent calls in a batch."""


class RunOptions(TargetOptions, total=False):
    """The options for the calls of a run: all options of a call except `tools`."""

    system_prompt: str | Sequence[str | Block] | None


class Client(swink_core.Client):
    """Streams from any installed provider, runs tools, and returns typed answers.

        async with swink.Client() as client:
            async with client.stream("acme/large", "Why is the sky blue?") as stream:
                async for piece in stream.text:
                    print(piece, end="")

    One client can run any number of calls at the same time. For the arguments, see
    `swink_core.Client`.
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

    @cached_property
    def _runs(self) -> WeakSet[Run[Any]]:
        """The runs of the client whose reading has begun."""
        return WeakSet()

    async def aclose(self) -> None:
        """End all calls and runs, and close the connections and the shared plugins.

        A run ends with the outcome `aborted`, and its tools are stopped. See also
        `swink_core.Client.aclose`.
        """
        try:
            await asyncio.gather(*[run._close_with_client() for run in self._runs])
        finally:
            await super().aclose()

    @takes_options(Options)
    def stream(
        self,
        model: Models,
        context: Prompt,
        *,
        limits: Limits | LimitGate | None = None,
        **options: Unpack[Options],
    ) -> EventStream:
        """Return the stream of a call. The request is sent when the stream is first read.

        See `swink_core.Client.stream`. Raises UsageError for invalid arguments.
        """
        refuse_functions(options.get("tools"))
        refuse_type(options)
        return super().stream(model, context, limits=limits, **options)

    @takes_options(Options)
    def stream_answer(
        self,
        model: Models,
        context: Prompt,
        *,
        type: TypeForm[T],
        corrections: int = CORRECTIONS,
        limits: Limits | LimitGate | None = None,
        **options: Unpack[Options],
    ) -> AnswerStream[T]:
        """Return the stream of a typed answer. The request is sent when the stream is first read.

        `type` is a class, or any other annotation that has a JSON schema, such as `list[int]`. If
        an answer does not match the type, it is requested again, at most `corrections` times.
        `limits` apply to all of these requests together. Raises UsageError for invalid arguments,
        and for a type without a schema.
        """
        if TYPE_CHECKING:
            self.stream(model, context, **options)
        check_names(options, "corrections", "limits", "type")
        gate = _gate_of(limits)
        check_number("corrections", corrections, "Pass 0 or more.", least=0)
        refuse_functions(options.get("tools"))
        check_typed(options)
        form: AnswerForm[T] = AnswerForm(Schema(type))
        tools = options.pop("tools", None)
        forced = True

        def ask(context: Prompt, by_tool: bool) -> EventStream:
            asked = options.copy()
            if by_tool:
                asked["tools"] = [*(tools or ()), form.tool]
                asked["tool_choice"] = form.tool.name if forced else None
            else:
                asked["tools"], asked["response_format"] = tools, form.json
            return super(Client, self).stream(model, context, limits=gate, **asked)

        first = ask(context, False)
        tools = first.call.context.tools  # the option's, or those of the conversation
        check_typed({"tools": tools})
        if by_tool := FEATURE in self._lacking(model, first):
            first = ask(context, True)
            forced = "tool_choice" not in self._lacking(model, first)
            if not forced:  # the tool is only offered, so a correction may be necessary
                first = ask(context, True)
        return AnswerStream(form, ask, first, by_tool, corrections)

    @takes_options(Options)
    async def complete(
        self,
        model: Models,
        context: Prompt,
        *,
        limits: Limits | LimitGate | None = None,
        **options: Unpack[Options],
    ) -> AssistantMessage:
        """Make a call and return its message; see `stream` and `EventStream.result`."""
        return await super().complete(model, context, limits=limits, **options)

    @takes_options(Options)
    async def answer(
        self,
        model: Models,
        context: Prompt,
        *,
        type: TypeForm[T],
        corrections: int = CORRECTIONS,
        limits: Limits | LimitGate | None = None,
        **options: Unpack[Options],
    ) -> Answer[T]:
        """Make a call and return its answer as a value of a type.

        See `stream_answer` and `AnswerStream.result`.
        """
        async with self.stream_answer(
            model, context, type=type, corrections=corrections, limits=limits, **options
        ) as stream:
            return await stream.result()

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
        limits: Limits | LimitGate | None = None,
        **options: Unpack[RunOptions],
    ) -> Run[V]:
        """Return a tool loop ("run").

        The model is called, its tool calls are carried out concurrently, and the model is called
        again with the results, until it has answered or was called `max_turns` times, including the
        turns before a pause.

        `tools` are functions. A function that is not async runs in a thread. See `tool` for further
        settings. A `tool_choice` that forces a call applies only to the first turn.

        With `type`, the run ends with a value of this type, which `Run.answer` returns; if an
        answer does not match the type, it is requested again, at most `corrections` times.

        `approve` decides on each tool call. If `approve` returns `PAUSE`, the run pauses. Without
        `approve`, the run pauses at each call of a tool that needs approval. To continue, pass the
        `PausedRun` as `context`, with the same tools.

        `limits` apply to the whole run, in addition to the client's limits. They limit the `cost`,
        `tokens` and `requests` of all turns together, the `turns` and the `tool_calls`. After a
        pause, the turns, tokens and cost before the pause are counted as well. At a limit the run
        ends with an error, and `Run.result` raises LimitReached with the last message in `partial`.

        Raises UsageError for invalid arguments.
        """
        check_names(options, "approve", "corrections", "limits", "max_turns", "type")
        gate = _gate_of(limits)
        if TYPE_CHECKING:
            self.stream(model, "Hi", tools=None, **options)
        named = tools_by_name(tools)
        asked: Options = {**options, "tools": [one.definition for one in named.values()]}
        resumed = context if isinstance(context, PausedRun) else None
        if gate is not None and gate is not limits and resumed is not None:
            gate.charge = resumed.charge
            gate.turns = resumed.turn
        prompt: Any = context if resumed is None else context_after(resumed)

        def ask(context: Prompt, asked: Options) -> EventStream:
            return super(Client, self).stream(model, context, limits=gate, **asked)

        goal: Goal[V] | None = None
        if type is not NO_TYPE:
            check_number("corrections", corrections, "Pass 0 or more.", least=0)
            goal = Goal(AnswerForm(Schema(type)), corrections)
            check_typed(asked)
            first = ask(prompt, goal.asked(asked))
            goal.by_tool = FEATURE in self._lacking(model, first)
        runs = self._runs
        return Run(ask, prompt, asked, named, max_turns, approve, goal, resumed, gate, runs)

    @takes_options(Options)
    async def gather(
        self,
        model: Models,
        prompts: Prompts,
        *,
        limit: int = LIMIT,
        on_progress: Progress | None = None,
        limits: Limits | LimitGate | None = None,
        **options: Unpack[Options],
    ) -> Batch[AssistantMessage]:
        """Answer many prompts, at most `limit` at a time. If a prompt fails, the others continue.

        `limits` apply to all prompts together. Prompts that would exceed them fail with
        LimitReached, and nothing is sent for them.

        `on_progress` is called with the batch after each prompt that has ended, and may be async.
        If a model or an option is invalid for every prompt, raises UsageError before any request.
        """
        if TYPE_CHECKING:
            self.stream(model, "Hi", **options)
        check_names(options, "limit", "limits", "on_progress")
        gate = _gate_of(limits)

        def ask(prompt: Prompt) -> EventStream:
            return self.stream(model, prompt, limits=gate, **options)

        return await gathered(ask, prompts, limit, on_progress)

    @takes_options(Options)
    async def gather_answers(
        self,
        model: Models,
        prompts: Prompts,
        *,
        type: TypeForm[T],
        corrections: int = CORRECTIONS,
        limit: int = LIMIT,
        on_progress: Progress | None = None,
        limits: Limits | LimitGate | None = None,
        **options: Unpack[Options],
    ) -> Batch[Answer[T]]:
        """Answer many prompts with typed answers; see `gather` and `stream_answer`."""
        if TYPE_CHECKING:
            self.stream(model, "Hi", **options)
        check_names(options, "corrections", "limit", "limits", "on_progress", "type")
        gate = _gate_of(limits)

        def ask(prompt: Prompt) -> AnswerStream[T]:
            return self.stream_answer(
                model, prompt, type=type, corrections=corrections, limits=gate, **options
            )

        return await gathered(ask, prompts, limit, on_progress)

    def _lacking(self, model: Models, first: EventStream) -> set[str | None]:
        """Return the features of the call `first` that a model of the chain does not support."""
        return {self._refused(each, first.call.options) for each in _models(model, first)}

    def _refused(self, name: str | Model | Target, options: StreamOptions) -> str | None:
        """Return the name of a missing feature that the call needs, or `None`."""
        target = self.target(name)
        failure = target.refusal(options=options)
        if failure is not None:
            return FEATURE if failure.code in _NO_SCHEMA else failure.code
        provider = target.binding.provider
        if hasattr(provider, "fit") or FEATURE in getattr(provider, "features", {FEATURE}):
            return None
        return FEATURE


def _gate_of(limits: Limits | LimitGate | None) -> LimitGate | None:
    """Return the `LimitGate` with which several calls share these limits; `None` for no limits.

    Raises UsageError if `limits` has another type.
    """
    if limits is None or isinstance(limits, LimitGate):
        return limits
    if not isinstance(limits, Limits):
        raise UsageError(
            f"limits is of type {type(limits).__name__}", resolution="Pass Limits(cost=…)."
        )
    return LimitGate(limits)


FEATURE = "structured_output"

_NO_SCHEMA = (FEATURE, "recursive_schema")
"""The codes of refusals after which the answer is requested as a tool call."""


def _models(model: Models, first: EventStream) -> list[str | Model | Target]:
    """Return the models of a fallback chain.

    If `model` is a single model or `None`, the list contains only the model that `first` calls.
    """
    chain: Any = model
    is_single = isinstance(chain, str | Model | Target | None)
    if is_single or (len(chain) == 2 and isinstance(chain[1], Mapping)):
        return [first.call.model]
    return [each[0] if isinstance(each, tuple) else each for each in chain]


@takes_options(Options)
def stream(
    model: Models,
    context: Prompt,
    *,
    limits: Limits | LimitGate | None = None,
    **options: Unpack[Options],
) -> EventStream:
    """Stream one call with a new client, which is closed together with the stream."""
    client = Client()
    client._on_close = client.aclose
    return client.stream(model, context, limits=limits, **options)


@takes_options(Options)
def stream_answer(
    model: Models,
    context: Prompt,
    *,
    type: TypeForm[T],
    corrections: int = CORRECTIONS,
    limits: Limits | LimitGate | None = None,
    **options: Unpack[Options],
) -> AnswerStream[T]:
    """Stream a typed answer with a new client, which is closed together with the stream.

    The end of `result()` closes the client, too.
    """
    client = Client()
    stream = client.stream_answer(
        model, context, type=type, corrections=corrections, limits=limits, **options
    )
    stream._on_close = client.aclose
    return stream


@takes_options(Options)
async def complete(
    model: Models,
    context: Prompt,
    *,
    limits: Limits | LimitGate | None = None,
    **options: Unpack[Options],
) -> AssistantMessage:
    """Make one call with a new client and return its message."""
    async with Client() as client:
        return await client.complete(model, context, limits=limits, **options)


@takes_options(Options)
async def answer(
    model: Models,
    context: Prompt,
    *,
    type: TypeForm[T],
    corrections: int = CORRECTIONS,
    limits: Limits | LimitGate | None = None,
    **options: Unpack[Options],
) -> Answer[T]:
    """Make one call with a new client and return the typed answer."""
    if TYPE_CHECKING:
        stream(model, context, **options)
    async with Client() as client:
        return await client.answer(
            model, context, type=type, corrections=corrections, limits=limits, **options
        )


@takes_options(Options)
async def gather(
    model: Models,
    prompts: Prompts,
    *,
    limit: int = LIMIT,
    on_progress: Progress | None = None,
    limits: Limits | LimitGate | None = None,
    **options: Unpack[Options],
) -> Batch[AssistantMessage]:
    """Answer many prompts with a new client; see `Client.gather`."""
    if TYPE_CHECKING:
        stream(model, "Hi", **options)
    async with Client() as client:
        return await client.gather(
            model, prompts, limit=limit, on_progress=on_progress, limits=limits, **options
        )


@takes_options(Options)
async def gather_answers(
    model: Models,
    prompts: Prompts,
    *,
    type: TypeForm[T],
    corrections: int = CORRECTIONS,
    limit: int = LIMIT,
    on_progress: Progress | None = None,
    limits: Limits | LimitGate | None = None,
    **options: Unpack[Options],
) -> Batch[Answer[T]]:
    """Answer many prompts with typed answers, with a new client."""
    if TYPE_CHECKING:
        stream(model, "Hi", **options)
    async with Client() as client:
        return await client.gather_answers(
            model,
            prompts,
            type=type,
            corrections=corrections,
            limit=limit,
            on_progress=on_progress,
            limits=limits,
            **options,
        )
