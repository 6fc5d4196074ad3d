"""The provider under test, and the ways to call it.

No network is used: answers come from memory or from a loopback server. A provider that computes its
answer in this process declares `wire_format = "none"` in its `models.toml`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager, nullcontext
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self, TypeVar
from unittest.mock import patch

import msgspec
from attrs import define, field

from swink_core import (
    Client,
    Context,
    Event,
    Host,
    Model,
    PluginError,
    ProviderInfo,
    RetryPolicy,
    StopReason,
    StreamOptions,
    Timeouts,
)
from swink_core.plugins.binding import Binding
from swink_core.plugins.host import PluginEntry
from swink_core.plugins.package_data import USER_FILE_ENV
from swink_core.providers import Catalog, Clock, HTTPClient, HTTPProvider
from swink_judge.matrix.asker import Asker, Outcome
from swink_judge.matrix.cases import Case
from swink_judge.matrix.expected_values import Said
from swink_judge.matrix.models import AskedModel
from swink_recorder.recording import Recording, bundled_recordings, find_recordings
from swink_testing.calls import call_of, events_of
from swink_testing.clock import BEGAN, DatedClock
from swink_testing.conformance.check import DoesNotApply, Waivers, require
from swink_testing.conformance.loopback_only import loopback_only
from swink_testing.conformance.played import PlayedClient, Through
from swink_testing.driver import MemoryResponse, drive_bytes

__all__ = ["CANARY_KEY", "NOWHERE", "PATIENCE", "Subject"]

CANARY_KEY = "sk-swink-canary-7f3a91c2d4e8"
"""The key of every call that the checks make; it must appear only in the request."""

NOWHERE = "http://conformance.invalid/v1"
"""The address of calls that are answered from memory (RFC 2606: it cannot exist)."""

PATIENCE = Timeouts(connect=5.0, first_event=10.0, idle=10.0, no_progress=10.0, total=20.0)
"""Time limits of every call, so that a provider that hangs fails a check instead of blocking it."""

WAIVERS = "waivers.toml"

WHOLE_ANSWERS = "whole_answers"

NO_WIRE_FORMAT = "none"

_FIXED_DATE = DatedClock(BEGAN)
"""The clock of the calls of an `Asker`, for providers that sign the time."""

T = TypeVar("T")

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@define
class Subject:
    """The subject of the checks: a provider, a model, and recordings.

    `options`, such as a region, are passed to every call that is made through a client. `offline`
    means that such a call reaches no other machine, whatever the wire format is. `heavy` names
    further modules that the import of the plugin must not import. `key_form` is the form of an API
    key, such as `AK1:{}`: the checks put each of their keys in the place of `{}`.
    """

    name: str
    host: Host = field(repr=False)
    model_name: str | None = None
    recording_paths: Sequence[Path] | None = field(default=None, repr=False)
    options: Mapping[str, Any] = field(factory=dict, repr=False)
    offline: bool | None = None
    heavy: Sequence[str] = ()
    key_form: str = "{}"
    outcomes: dict[str, Outcome] = field(factory=dict, init=False, repr=False, eq=False)
    """Outcomes of the cases of `swink_judge.matrix`; several checks share these outcomes."""

    @classmethod
    def find(
        cls,
        provider: str,
        model: str | None = None,
        *,
        recordings: str | Path | Iterable[str | Path] | None = None,
        **more: Any,
    ) -> Self:
        """Find an installed provider. No other plugin is loaded.

        `model` is `provider/id` (`None`: the first model in the catalogue). `recordings` are
        folders, by default those in the package. Raises UnknownProvider if the provider is not
        installed, and PluginError if two distributions define a provider of this name.
        """
        host = Host(entry_points=[Host(environ={}).entry(provider)], environ={})
        if isinstance(recordings, str | Path):
            recordings = [recordings]
        paths = None if recordings is None else [Path(path) for path in recordings]
        return cls(provider, host, model, paths, **more)

    # -- what is known of it -----------------------------------------------------------------

    @property
    def entry(self) -> PluginEntry:
        """The entry point through which the provider is installed."""
        return self.host.entry(self.name)

    @cached_property
    def fault(self) -> str | None:
        """Why the plugin cannot be loaded; `None` if it can."""
        try:
            self.host.bind(self.name)
        except PluginError as error:
            return str(error)
        return None

    @property
    def binding(self) -> Binding:
        """The provider with its hooks. Raises DoesNotApply if it cannot be loaded."""
        if self.fault is not None:
            raise DoesNotApply("the plugin cannot be loaded")
        return self.host.bind(self.name)

    @property
    def provider(self) -> Any:
        """The provider's plugin object."""
        return self.binding.provider

    @cached_property
    def catalog(self) -> Catalog:
        """The package's data about providers and models, without the user's file."""
        return Catalog(self.host, environ={})

    @property
    def info(self) -> ProviderInfo | None:
        """The provider's row of `models.toml`, or `None`."""
        return self.catalog.provider(self.name)

    @cached_property
    def model(self) -> Model:
        """The model that calls use unless they specify another model."""
        if self.model_name is not None:
            return self.catalog.resolve(self.model_name)
        known = self.catalog.models(self.name)
        if known:
            return self.catalog.resolve(Model(self.name, known[0].id))
        if self.recordings:
            return self.model_of(self.recordings[0])
        return Model(self.name, "any")

    def model_of(self, recording: Recording) -> Model:
        """Return the model with which a recording was made."""
        return self.catalog.resolve(Model(self.name, recording.model))

    @property
    def speaks_http(self) -> bool:
        """Whether the provider makes HTTP requests; False if its bytes come from another source."""
        return isinstance(self.provider, HTTPProvider) and self.provider.speaks_http

    def require_http(self) -> None:
        """Raise DoesNotApply for a provider that makes no HTTP requests."""
        if not self.speaks_http:
            raise DoesNotApply("it does not speak HTTP")

    def require_parser(self) -> None:
        """Raise DoesNotApply for a provider without a parser."""
        if not self.parses:
            raise DoesNotApply("it has no parser: no bytes can be put through it")

    @property
    def reads_elsewhere(self) -> bool:
        """Whether the provider reads bytes from a source other than HTTP, such as a process."""
        return isinstance(self.provider, HTTPProvider) and not self.speaks_http

    @property
    def is_played(self) -> bool:
        """Whether recorded bytes can replace those that `exchange` reads from another source."""
        return self.reads_elsewhere and any(each.status == 200 for each in self.recordings)

    @property
    def parses(self) -> bool:
        """Whether the provider has a decoder and a parser, so that it can parse given bytes."""
        return all(
            hasattr(self.provider, name) for name in ("decoder", "parser", "malformed", "info")
        )

    @property
    def can_be_called(self) -> bool:
        """Whether a call can be made without a server and without reaching another machine."""
        if self.offline is None:
            return self.info is not None and self.info.wire_format == NO_WIRE_FORMAT
        return self.offline

    @cached_property
    def waivers(self) -> Waivers:
        """The package's waivers (accepted faults), from its `waivers.toml`.

        A table `[provider.check]` maps words of a fault's message to the reason for accepting the
        fault. Raises PluginError if the file cannot be read.
        """
        decode = partial(msgspec.toml.decode, type=dict[str, dict[str, dict[str, str]]])
        tables: dict[str, dict[str, dict[str, str]]] | None = self.shipped(WAIVERS, decode)
        return (tables or {}).get(self.name, {})

    def shipped(self, name: str, decode: Callable[[bytes], T]) -> T | None:
        """Return the data of a file of the package; `None` if the file does not exist.

        Raises PluginError if the file cannot be read.
        """
        spec = find_spec(self.entry.package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            file = Path(folder) / name
            if file.is_file():
                try:
                    return decode(file.read_bytes())
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise PluginError(f"{file}: {error}", resolution="Correct the file.") from error
        return None

    def rows(self, name: str, row: type[T]) -> list[tuple[str, T]]:
        """Return the rows of a file that apply to this provider, each with its position.

        A row's `provider` is `None` if it applies to all providers of the package. The list is
        empty if the file does not exist. Raises PluginError if it cannot be read.
        """
        listed = self.shipped(name, msgspec.json.Decoder(row).decode_lines) or []
        return [
            (f"{name}, line {number}", each)
            for number, each in enumerate(listed, 1)
            if getattr(each, "provider", None) in (None, self.name)
        ]

    def listed_model(self, id: str | None) -> Model:
        """Return the model for a row of a file; `id` is the model id in the row.

        If `id` is `None`, this is the first model in the catalogue or, if the catalogue is empty,
        the model under test.
        """
        known = self.catalog.models(self.name)
        first = known[0].id if known else self.model.id
        return self.catalog.resolve(Model(self.name, id or first))

    # -- recordings --------------------------------------------------------------------------

    @cached_property
    def recordings(self) -> list[Recording]:
        """The provider's recordings or, if it has none, recordings of the same wire format.

        Raises RecordingError if a recording cannot be read.
        """
        if self.recording_paths is not None:
            folders = [case for path in self.recording_paths for case in find_recordings(path)]
            return [Recording.load(folder) for folder in folders]
        return self._of_this(bundled_recordings(self.entry.package))

    @cached_property
    def whole_answers(self) -> list[Recording]:
        """The recorded answers that were not streamed, in the package's `whole_answers/`.

        Raises RecordingError if a recording cannot be read.
        """
        return self._of_this(bundled_recordings(self.entry.package, WHOLE_ANSWERS))

    def _of_this(self, folders: Iterable[Path]) -> list[Recording]:
        bundled = [Recording.load(folder) for folder in folders]
        own = [recording for recording in bundled if recording.provider == self.name]
        wire_format = self.info.wire_format if self.info else ""
        return own or [r for r in bundled if r.wire_format == wire_format or not wire_format]

    def answers(self) -> list[Recording]:
        """Return the recordings of complete answers.

        Raises DoesNotApply if the list would be empty.
        """
        self.require_parser()
        found = [
            recording
            for recording in self.recordings
            if recording.status == 200
            and recording.message is not None
            and recording.message.stop_reason not in (StopReason.ERROR, StopReason.ABORTED)
        ]
        if not found:
            raise DoesNotApply("no recording contains a complete answer")
        return found

    @property
    def whole_calls(self) -> list[Recording]:
        """The recordings of calls that were read to their end."""
        return [
            recording
            for recording in self.recordings
            if recording.message is None or recording.message.stop_reason is not StopReason.ABORTED
        ]

    def failures(self) -> list[Recording]:
        """Return the recordings whose expected message is an error."""
        return [
            recording
            for recording in self.recordings
            if recording.message is not None and recording.message.stop_reason is StopReason.ERROR
        ]

    # -- ways through it ---------------------------------------------------------------------

    async def parse(
        self, recording: Recording, chunks: Iterable[bytes] | None = None
    ) -> list[Event]:
        """Return the events of a recording's body, or of other chunks in its place."""
        pieces = [recording.body] if chunks is None else chunks
        return await drive_bytes(self.provider, self.model_of(recording), pieces)

    def http(self, *answers: Any, **more: Any) -> PlayedClient:
        """Return an HTTP client that gives `answers` to requests for a model's answer.

        Other requests of a call, for example for a token, get the recorded responses.

        `more` are other arguments of `PlayedClient`. Without `answers`, any request that is not
        recorded is a fault.
        """
        return PlayedClient(self.recordings, *answers, **more)

    def asker(self, outcomes: dict[str, Outcome] | None = None, **more: Any) -> Asker:
        """Return an `Asker`, which calls the provider through a client and captures requests."""

        def through(wall: HTTPClient) -> HTTPClient:
            http = self.http(Through(wall))
            http.is_open = True
            return http

        self._set_clock(self.host, _FIXED_DATE)
        options = {"api_key": self.key("test"), **self.options, **more}
        return Asker(self.host, outcomes, through=through, **options)

    async def outcome(
        self,
        asker: Asker,
        name: str,
        context: Context,
        options: dict[str, Any] | None = None,
        id: str | None = None,
    ) -> Outcome:
        """Make a call with a context, and return its outcome.

        `name` is the name of the context in messages about faults. If `options` is `None`, the call
        has no options; if `id` is `None`, the call uses the subject's model.
        """
        asker.hold(self.name, Said(name, context))
        id = id or self.model.id
        return await asker.outcome(
            Case(self.name, AskedModel(id, "listed", id), name, options or {})
        )

    async def played_events(
        self, recording: Recording, answer: MemoryResponse | None = None, **more: Any
    ) -> list[Event]:
        """Make a call in which every request is answered as recorded, and return the events.

        `answer` replaces the recorded answer; `more` are other arguments of `PlayedClient`.
        """
        answer = answer or MemoryResponse.of_recording(recording)
        http = self.http(answer, recording=recording, **more)
        return await self.events_of_call(http, self.model_of(recording))

    def client(
        self,
        http: HTTPClient | None = None,
        host: Host | None = None,
        clock: Clock | None = None,
        retry: RetryPolicy | None = None,
    ) -> Client:
        """Make a client of this provider. With `None` for `retry`, calls are not retried.

        `http` answers the requests; if it is `None`, every request is a fault. `host` is a host
        that has loaded the provider separately (`None`: the usual host). If `clock` is `None`, the
        clock has the event loop's time and a fixed date at which the recorded models are not
        retired. If the provider has a function `now`, it is set to that of the clock.
        """
        host, clock = host or self.host, clock or DatedClock()
        self._set_clock(host, clock)
        return Client(
            host=host,
            http=http or self.http(),
            clock=clock,
            retry=retry or RetryPolicy.none(),
        )

    def _set_clock(self, host: Host, clock: Clock) -> None:
        provider: Any = None if self.fault else host.bind(self.name).provider
        if callable(getattr(provider, "now", None)):
            provider.now = clock.now

    def key(self, text: str) -> str:
        """Return an API key that contains a text, in the form of the provider's keys."""
        return self.key_form.replace("{}", text)

    def call_options(self, **more: Any) -> dict[str, Any]:
        """Return options for a call through a client: a test key, a base URL and timeouts.

        A key in `more` is brought into the form of the provider's keys.
        """
        given = {"api_key": self.key(CANARY_KEY), "base_url": NOWHERE, "timeouts": PATIENCE}
        if more.get("api_key") is not None:
            more["api_key"] = self.key(more["api_key"])
        return {**given, **self.options, **more}

    async def events_of_call(
        self, http: HTTPClient, model: Model | None = None, **more: Any
    ) -> list[Event]:
        """Make a call with the options `more`, and return its events.

        If `model` is `None`, the subject's model is used.
        """
        options = self.call_options(**more)
        async with self.client(http).stream(model or self.model, "Hello", **options) as stream:
            return [event async for event in stream]

    async def recorded_events(self, recording: Recording) -> AsyncIterator[Event]:
        """Call the provider's `stream` hook directly with a recording, and yield the events.

        For a provider without HTTP, the recorded bytes replace those that `exchange` yields.
        """
        http = self.http(MemoryResponse.of_recording(recording), recording=recording)
        model = self.model_of(recording)
        async with AsyncExitStack() as stack:
            if self.reads_elsewhere:
                stack.enter_context(self.playing(recording))
            async for event in self.raw_events(http, model):
                yield event

    @contextmanager
    def playing(self, recording: Recording) -> Iterator[None]:
        """In the `with` block, let `exchange` of a provider without HTTP yield recorded bytes."""
        pieces = [piece for _, piece in recording.pieces()]
        with patch.object(self.provider, "exchange", lambda _: _yielded(pieces)):
            yield

    async def raw_events(self, http: HTTPClient, model: Model) -> AsyncIterator[Event]:
        """Call the provider's `stream` hook directly, and yield the events."""
        options = StreamOptions(**self.call_options())
        call = call_of(self.binding, model, options=options, http=http)
        hook = self.binding.hook
        source = hook.stream(model=model, context=call.context, options=call.options, call=call)
        events = events_of(source)
        async with aclosing(events) if hasattr(events, "aclose") else nullcontext():
            async for event in events:
                yield event

    @contextmanager
    def environment(self) -> Iterator[None]:
        """Return a context in which checks run: without the user's keys, base URLs and proxies.

        Environment variables that the provider requires are set. Connections to other machines are
        refused; if the provider tried to open one, Broken is raised.
        """
        with loopback_only() as refused:
            try:
                info = None if self.fault else self.info
                own = (*info.api_key_env, *info.base_url_env) if info else ()
                needed = dict.fromkeys(info.required_env if info else (), "conformance")
                hidden = {*_PROXIES, USER_FILE_ENV, *own}
                kept = {name: value for name, value in os.environ.items() if name not in hidden}
                with patch.dict(os.environ, {**needed, **kept}, clear=True):
                    yield
            finally:
                where = ", ".join(dict.fromkeys(refused))
                require(not refused, f"it connects to {where} by itself, not by the call's client")


async def _yielded(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
