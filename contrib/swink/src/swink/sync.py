"""The synchronous client: the methods of `Client`, run by an event loop in a background thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack
from weakref import finalize

from swink.answers import Answer
from swink.approvals import Approve, PausedRun
from swink.background import background_loop
from swink.batches import Batch, Progress
from swink.client import (
    CORRECTIONS,
    LIMIT,
    MAX_TURNS,
    NO_TYPE,
    Client,
    Models,
    Prompts,
    RunOptions,
    Tools,
)
from swink.goals import V
from swink.mistakes import missing_name, takes_options
from swink.prompts import Prompt
from swink.sync_streams import SyncAnswerStream, SyncRun, SyncStream
from swink_core import (
    AssistantMessage,
    Charge,
    ClientOptions,
    Context,
    Cost,
    Limits,
    Model,
    Options,
    Usage,
    UsageError,
)
from swink_core.providers import Catalog, Gate, LimitGate

if TYPE_CHECKING:
    from typing_extensions import TypeForm

__all__ = ["SyncClient", "answer_sync", "complete_sync"]

T = TypeVar("T")


class SyncClient:
    """`Client` without `await`, for scripts, notebooks, threads and synchronous frameworks.

        with swink.SyncClient() as client:
            with client.stream("acme/large", "Why is the sky blue?") as stream:
                for piece in stream.text:
                    print(piece, end="")

    One client may be used by any number of threads, with one connection pool. `SyncClient` takes
    the same arguments as `Client`. A program can use one client from its start to its exit. The
    client is closed at exit, or earlier when the program has no more references to the client and
    its streams.
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(missing_name("Client", name), name=name, obj=self)

        def __aenter__(self) -> Any:
            raise UsageError(
                "SyncClient is not asynchronous",
                resolution="Write with SyncClient() as client, or use Client.",
            )

        def __aexit__(self, *raised: object) -> None: ...

    @takes_options(ClientOptions)
    def __init__(
        self,
        *,
        plugins: Iterable[Any] = (),
        default: Models = None,
        gates: Iterable[Gate] = (),
        breaker: bool = True,
        providers: Mapping[str, Mapping[str, Any] | Callable[[str], Any]] | None = None,
        count_tokens: Callable[[Model, Context], int | Awaitable[int]] | None = None,
        limits: Limits | LimitGate | None = None,
        **defaults: Unpack[ClientOptions],
    ) -> None:
        self._client = Client(
            plugins=plugins,
            default=default,
            gates=gates,
            breaker=breaker,
            providers=providers,
            count_tokens=count_tokens,
            limits=limits,
            **defaults,
        )
        loop = background_loop()
        loop.clients.add(self._client)
        finalize(self, loop.drop, self._client).atexit = False

    @property
    def catalog(self) -> Catalog:
        """The catalog of providers and models."""
        return self._client.catalog

    @property
    def usage(self) -> Usage | None:
        """The token usage of all attempts of all calls so far; `None` if no usage is known."""
        return self._client.usage

    @property
    def cost(self) -> Cost | None:
        """The known part of the cost of all attempts of all calls so far; `None` if unknown."""
        return self._client.cost

    @property
    def charge(self) -> Charge:
        """The total tokens and US dollars that are charged for all attempts that have ended."""
        return self._client.charge

    @takes_options(Options)
    def stream(
        self,
        model: Models,
        context: Prompt,
        *,
        limits: Limits | LimitGate | None = None,
        **options: Unpack[Options],
    ) -> SyncStream:
        """Return the stream of a call; see `Client.stream`."""
        return SyncStream(self._client.stream(model, context, limits=limits, **options), self)

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
    ) -> SyncAnswerStream[T]:
        """Return the stream of a typed answer; see `Client.stream_answer`."""
        stream = self._client.stream_answer(
            model, context, type=type, corrections=corrections, limits=limits, **options
        )
        return SyncAnswerStream(stream, self)

    @takes_options(Options)
    def complete(
        self,
        model: Models,
        context: Prompt,
        *,
        limits: Limits | LimitGate | None = None,
        **options: Unpack[Options],
    ) -> AssistantMessage:
        """Make a call and return its message; see `Client.complete`."""
        return background_loop().run(
            self._client.complete(model, context, limits=limits, **options)
        )

    @takes_options(Options)
    def answer(
        self,
        model: Models,
        context: Prompt,
        *,
        type: TypeForm[T],
        corrections: int = CORRECTIONS,
        limits: Limits | LimitGate | None = None,
        **options: Unpack[Options],
    ) -> Answer[T]:
        """Make a call and return the typed answer; see `Client.answer`."""
        return background_loop().run(
            self._client.answer(
                model, context, type=type, corrections=corrections, limits=limits, **options
            )
        )

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
    ) -> SyncRun[V]:
        """Return a run of the tool loop; see `Client.run`.

        `approve` is called in the background thread.
        """
        run = self._client.run(
            model,
            context,
            tools=tools,
            type=type,
            corrections=corrections,
            max_turns=max_turns,
            approve=approve,
            limits=limits,
            **options,
        )
        return SyncRun(run, self)

    @takes_options(Options)
    def gather(
        self,
        model: Models,
        prompts: Prompts,
        *,
        limit: int = LIMIT,
        on_progress: Progress | None = None,
        limits: Limits | LimitGate | None = None,
        **options: Unpack[Options],
    ) -> Batch[AssistantMessage]:
        """Answer many prompts; see `Client.gather`."""
        return background_loop().run(
            self._client.gather(
                model, prompts, limit=limit, on_progress=on_progress, limits=limits, **options
            )
        )

    @takes_options(Options)
    def gather_answers(
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
        """Answer many prompts with typed answers; see `Client.gather_answers`."""
        return background_loop().run(
            self._client.gather_answers(
                model,
                prompts,
                type=type,
                corrections=corrections,
                limit=limit,
                on_progress=on_progress,
                limits=limits,
                **options,
            )
        )

    def close(self) -> None:
        """End all calls and runs, and close all connections. A closed client accepts no more calls.

        A call or a run in another thread raises `StreamAborted`, whose `partial` contains what has
        arrived.
        """
        background_loop().run(self._client.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


@takes_options(Options)
def complete_sync(
    model: Models,
    context: Prompt,
    *,
    limits: Limits | LimitGate | None = None,
    **options: Unpack[Options],
) -> AssistantMessage:
    """Make one call with a new client. For several calls, use one `SyncClient`."""
    with SyncClient() as client:
        return client.complete(model, context, limits=limits, **options)


@takes_options(Options)
def answer_sync(
    model: Models,
    context: Prompt,
    *,
    type: TypeForm[T],
    corrections: int = CORRECTIONS,
    limits: Limits | LimitGate | None = None,
    **options: Unpack[Options],
) -> Answer[T]:
    """Make one call with a new client and return the typed answer."""
    with SyncClient() as client:
        return client.answer(
            model, context, type=type, corrections=corrections, limits=limits, **options
        )
