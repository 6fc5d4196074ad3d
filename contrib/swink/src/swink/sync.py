"""The client without `await`: the same names, on one event loop in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload
from weakref import finalize

from swink.answers import Answer
from swink.background import background_loop
from swink.batches import Batch, Progress
from swink.client import LIMIT, MAX_TURNS, Client, Models, Prompts, RunOptions, Tools
from swink.prompts import Prompt
from swink.sync_streams import SyncAnswerStream, SyncRun, SyncStream
from swink.toolbox import Approve
from swink_core import (
    AssistantMessage,
    ClientOptions,
    Cost,
    EventStream,
    Options,
    Usage,
)
from swink_core.providers import Catalog, Gate, takes_options

if TYPE_CHECKING:
    from typing_extensions import TypeForm

__all__ = ["SyncClient", "complete_sync"]

T = TypeVar("T")


class SyncClient:
    """`Client` without `await`, for scripts, notebooks, threads and frameworks that have no loop.

        with swink.SyncClient() as client:
            with client.stream("acme/large", "Why is the sky blue?") as stream:
                for piece in stream.text:
                    print(piece, end="")

    One client serves any number of threads, with one pool of connections. Its arguments are those
    of `Client`. It may be kept for as long as the program runs, and is closed at its end, or when
    nobody holds it or a stream of it any more.
    """

    @takes_options(ClientOptions)
    def __init__(
        self,
        *,
        plugins: Iterable[Any] = (),
        default: Models = None,
        gates: Iterable[Gate] = (),
        breaker: bool = True,
        providers: Mapping[str, Mapping[str, Any] | Callable[[str], Any]] | None = None,
        **defaults: Unpack[ClientOptions],
    ) -> None:
        self._client = Client(
            plugins=plugins,
            default=default,
            gates=gates,
            breaker=breaker,
            providers=providers,
            **defaults,
        )
        loop = background_loop()
        loop.clients.add(self._client)
        finalize(self, loop.drop, self._client).atexit = False

    @property
    def catalog(self) -> Catalog:
        """What is known of providers and models."""
        return self._client.catalog

    @property
    def usage(self) -> Usage | None:
        """What all attempts of all calls took so far; `None` while nothing is known."""
        return self._client.usage

    @property
    def cost(self) -> Cost | None:
        """What all attempts of all calls cost so far, as far as is known."""
        return self._client.cost

    @overload
    def stream(
        self, model: Models, context: Prompt, *, type: None = None, **options: Unpack[Options]
    ) -> SyncStream: ...

    @overload
    def stream(
        self, model: Models, context: Prompt, *, type: TypeForm[T], **options: Unpack[Options]
    ) -> SyncAnswerStream[T]: ...

    @takes_options(Options)
    def stream(
        self, model: Models, context: Prompt, *, type: Any = None, **options: Unpack[Options]
    ) -> SyncStream | SyncAnswerStream[Any]:
        """Return the stream of a call; see `Client.stream`."""
        stream: Any = self._client.stream(model, context, type=type, **options)
        kind = SyncStream if isinstance(stream, EventStream) else SyncAnswerStream[Any]
        return kind(stream, self)

    @overload
    def complete(
        self, model: Models, context: Prompt, *, type: None = None, **options: Unpack[Options]
    ) -> AssistantMessage: ...

    @overload
    def complete(
        self, model: Models, context: Prompt, *, type: TypeForm[T], **options: Unpack[Options]
    ) -> Answer[T]: ...

    @takes_options(Options)
    def complete(
        self, model: Models, context: Prompt, *, type: Any = None, **options: Unpack[Options]
    ) -> AssistantMessage | Answer[Any]:
        """Make a call and return its message or typed answer; see `Client.complete`."""
        done: AssistantMessage | Answer[Any] = background_loop().run(
            self._client.complete(model, context, type=type, **options)
        )
        return done

    @takes_options(RunOptions)
    def run(
        self,
        model: Models,
        context: Prompt,
        *,
        tools: Tools,
        max_turns: int = MAX_TURNS,
        approve: Approve | None = None,
        **options: Unpack[RunOptions],
    ) -> SyncRun:
        """Return a tool loop; see `Client.run`. `approve` is asked in the background loop."""
        run = self._client.run(
            model, context, tools=tools, max_turns=max_turns, approve=approve, **options
        )
        return SyncRun(run, self)

    @overload
    def gather(
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
    def gather(
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
    def gather(
        self,
        model: Models,
        prompts: Prompts,
        *,
        type: Any = None,
        limit: int = LIMIT,
        on_progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Batch[Any]:
        """Answer many prompts; see `Client.gather`."""
        batch: Batch[Any] = background_loop().run(
            self._client.gather(
                model, prompts, type=type, limit=limit, on_progress=on_progress, **options
            )
        )
        return batch

    def close(self) -> None:
        """Close all connections. A closed client makes no more calls."""
        background_loop().run(self._client.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


@overload
def complete_sync(
    model: Models, context: Prompt, *, type: None = None, **options: Unpack[Options]
) -> AssistantMessage: ...


@overload
def complete_sync(
    model: Models, context: Prompt, *, type: TypeForm[T], **options: Unpack[Options]
) -> Answer[T]: ...


@takes_options(Options)
def complete_sync(
    model: Models, context: Prompt, *, type: Any = None, **options: Unpack[Options]
) -> AssistantMessage | Answer[Any]:
    """Make one call with a client of its own; for more than one, keep a `SyncClient`."""
    with SyncClient() as client:
        done: AssistantMessage | Answer[Any] = client.complete(model, context, type=type, **options)
    return done
