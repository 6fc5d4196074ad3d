"""The `Client` class, which owns the plugins and the HTTP connections."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack

from attrs import evolve

from swink_core.arguments import (
    address_of,
    check_choice,
    check_credentials,
    check_options,
    check_settings,
    expect,
    frozen,
    full_options,
    options_of,
)
from swink_core.conversation import check_context, context_of
from swink_core.failures.exceptions import InvalidModel, InvalidOption, UsageError
from swink_core.plugins.attempt import Attempt, Gate
from swink_core.plugins.binding import Target
from swink_core.plugins.call import Call
from swink_core.plugins.catalog import Catalog
from swink_core.plugins.client_tasks import ClientTasks
from swink_core.plugins.host import Host, copied
from swink_core.plugins.limits import LimitGate, gate_of
from swink_core.providers.aiohttp_client import AiohttpClient
from swink_core.providers.answers import override
from swink_core.providers.clock import LoopClock
from swink_core.providers.fields import merge_fields
from swink_core.streaming.breaker import CircuitBreaker
from swink_core.streaming.driver import Driver
from swink_core.streaming.event_stream import EventStream
from swink_core.streaming.gates import ClientGates
from swink_core.vocabulary.clock import Clock
from swink_core.vocabulary.http import HTTPClient
from swink_core.vocabulary.limits import Limits
from swink_core.vocabulary.messages import AssistantMessage, Context, Prompt
from swink_core.vocabulary.models import Model
from swink_core.vocabulary.option_table import OPTIONS, takes_options
from swink_core.vocabulary.options import ClientOptions, Options, StreamOptions, TargetOptions
from swink_core.vocabulary.outcome import Charge, Cost, Totals, Usage

if TYPE_CHECKING:
    from swink_core.vocabulary.option_table import call_options, client_options, target_options

OneModel: TypeAlias = str | Model | Target

ModelChoice: TypeAlias = OneModel | tuple[OneModel, TargetOptions]

ModelChain: TypeAlias = ModelChoice | Sequence[ModelChoice]
"""A model, optionally paired with its own options, or a fallback chain of such models."""


class Client:
    """Streams from any installed provider. One client can run any number of calls at the same time.

        async with swink.Client() as client:
            async with client.stream("acme/large", "Why is the sky blue?") as stream:
                async for piece in stream.text: ...

    `plugins` are added to the installed plugins. `host`, `http` and `clock` replace the plugin
    host, the HTTP client and the clock. Calls without a model use `default`, or the environment
    variable `SWINK_MODEL` if `default` is `None`. `gates` can delay or refuse an attempt, see
    `Gate`. They are called in order before each attempt, after the circuit breaker; `breaker=False`
    removes the circuit breaker. `providers` maps the name of a provider to options for this
    provider only, such as credentials and address, or to the class of a provider that is not
    installed: `{"acme": Acme}`. `count_tokens` replaces swink's estimate of the tokens in a prompt:
    a function, possibly async, that takes a `Model` and a `Context` and returns the number of
    tokens. If it raises an exception, the estimate is used. `limits` apply to the total of all
    calls of the client, for example to their total cost. Other keyword arguments are the default
    options of every call. Raises UsageError for an unknown option, or for a credential that would
    apply to every provider.

    The attribute `catalog` contains the data about providers and models, see `Catalog`.
    """

    @takes_options(ClientOptions)
    def __init__(
        self,
        *,
        plugins: Iterable[Any] = (),
        host: Host | None = None,
        http: HTTPClient | None = None,
        clock: Clock | None = None,
        default: ModelChain | None = None,
        gates: Iterable[Gate] = (),
        breaker: bool = True,
        providers: Mapping[str, Mapping[str, Any] | Callable[[str], Any]] | None = None,
        count_tokens: Callable[[Model, Context], int | Awaitable[int]] | None = None,
        limits: Limits | LimitGate | None = None,
        **defaults: Unpack[ClientOptions],
    ) -> None:
        if TYPE_CHECKING:
            client_options(**defaults)
        for name, part, kind in (
            ("plugins", plugins, Iterable), ("host", host, Host | None), ("breaker", breaker, bool),
            ("http", http, HTTPClient | None), ("clock", clock, Clock | None),
            ("gates", gates, Iterable), ("providers", providers, Mapping | None),
        ):  # fmt: skip
            expect(part, kind, f"{name} is", "See the arguments of Client.", UsageError)
        expect(limits, Limits | LimitGate | None, "limits is", _LIMITS, UsageError)
        classes = {name: each for name, each in (providers or {}).items() if callable(each)}
        if host is not None and classes:
            raise UsageError(
                f"host cannot be combined with classes in providers: {', '.join(classes)}",
                resolution="Pass the classes to the host: Client(host=Host(providers={…})).",
            )
        self.host = host or Host(plugins, providers=classes)
        self.catalog = Catalog(self.host)
        self._installed = frozenset(self.host.provider_names())
        self._http = http or AiohttpClient()
        self._clock = clock or LoopClock()
        self._default = default
        self._counter = count_tokens
        self._closed = False
        limit = gate_of(limits)
        own_gates: tuple[Any, ...] = (*gates, *([limit] if limit is not None else []))
        for gate in own_gates:
            expect(
                gate,
                Gate,
                "a gate is",
                "A gate has the methods enter and leave; see Gate.",
                UsageError,
            )
        first = (CircuitBreaker(self._clock),) if breaker else ()
        self._gates = ClientGates((*first, *own_gates))
        self._defaults = _impersonal(full_options(defaults))
        self._providers: dict[str, dict[str, Any]] = {}
        self._totals = Totals()
        self._tasks = ClientTasks()
        self._on_close: Callable[[], Awaitable[None]] | None = None  # passed to each stream
        self._remembered: dict[Hashable, tuple[Any, list[Target]]] = {}
        options_of(self._defaults)
        for name, given in (providers or {}).items():
            if name in classes:
                continue
            self.host.entry(name)
            own = _of_provider(name, given)
            self._providers[name] = own
            check_settings(name, self.catalog.provider(name), options_of(own).settings)
        self.host.join()

    @property
    def usage(self) -> Usage | None:
        """The token usage of all attempts of all calls so far; `None` if no usage is known."""
        return self._totals.usage

    @property
    def cost(self) -> Cost | None:
        """The known cost of all attempts of all calls so far.

        If an attempt ended without a usage report, the cost includes an estimate for this attempt,
        and the field `estimated` is true.
        """
        return self._totals.cost

    @property
    def charge(self) -> Charge:
        """The charge for all attempts that have ended: tokens, and US dollars."""
        return self._totals.charge

    @property
    def http(self) -> HTTPClient:
        """The HTTP client that sends requests."""
        return self._http

    @takes_options(Options)
    def stream(
        self,
        model: ModelChain | None,
        context: Prompt,
        *,
        limits: Limits | LimitGate | None = None,
        **options: Unpack[Options],
    ) -> EventStream:
        """Return the stream of a call. The request is sent when the stream is first read.

        `model` is `provider/id`, or an id that only one provider lists, or a fallback chain: a list
        of these, each optionally paired with its own options. `None` selects the client's default
        model. `context` is a conversation, a list of messages or a string; the options
        `system_prompt` and `tools` replace those of the conversation. `limits` apply to this call,
        in addition to the client's limits; a `LimitGate` may be passed to several calls, so that
        its limits apply to all of them together. The other options are described in `OPTIONS`. In a
        fallback chain, credentials, address, headers, settings and `extra` given here are used only
        for the provider of the first model. Raises `UsageError` for invalid arguments.
        """
        if TYPE_CHECKING:
            call_options(**options)
        if self._closed:
            raise UsageError("the client is closed", resolution="Make calls before it is closed.")
        asked = full_options(options)
        system_prompt = asked.pop("system_prompt", None)
        tools = asked.pop("tools", None)
        expect(limits, Limits | LimitGate | None, "limits is", _LIMITS, UsageError)
        limit = gate_of(limits)
        conversation = context_of(context, system_prompt, tools)
        targets = self._targets(model, asked)
        first = targets[0]
        continued = first.continues or (not conversation.messages and first.has_prompt)
        check_context(conversation, continued)
        for target in targets:
            check_choice(target.options, conversation)
        call = Call(
            attempt=Attempt(targets[0]),
            context=conversation,
            clock=self._clock,
            http=self._http,
            tasks=self._tasks,
            counter=self._counter,
            gates=() if limit is None else (limit,),
            shared_totals=self._totals,
        )
        return EventStream(Driver(call, targets, self._gates, self._on_close))

    @takes_options(TargetOptions)
    def target(self, model: ModelChoice | None, **options: Unpack[TargetOptions]) -> Target:
        """Return the target (model and options) that a call with these arguments tries first.

        No request is sent.

        The target contains the merged options, the address and the catalogue entry of the model.
        You can pass it to `stream` instead of a model; options of that call, including `extra`,
        override the options in the target. Raises `UsageError` like `stream`.
        """
        if TYPE_CHECKING:
            target_options(**options)
        return self._targets(model, {**options})[0]

    @takes_options(Options)
    async def complete(
        self,
        model: ModelChain | None,
        context: Prompt,
        *,
        limits: Limits | LimitGate | None = None,
        **options: Unpack[Options],
    ) -> AssistantMessage:
        """Make a call and return its message; see `stream` and `EventStream.result`."""
        async with self.stream(model, context, limits=limits, **options) as events:
            return await events.result()

    async def aclose(self) -> None:
        """End all calls, and close the connections and the shared plugins.

        A task that is reading a stream receives an `Error` event with the stop reason `aborted`.
        Shared plugins are the plugins that apply to every call.

        The `aclose()` method of each plugin is awaited for a few seconds at most. Plugins stay open
        if another client with the same plugin host uses them, or if they were passed as objects. A
        closed client accepts no more calls. Closing a closed client does nothing.
        """
        if not self._closed:
            self._closed = True
            try:
                await self._tasks.aclose()
                await self._http.aclose()
            finally:
                await self.host.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def _targets(self, models: Any, options: dict[str, Any]) -> list[Target]:
        if models is None:
            models = self._default or os.environ.get(MODEL_ENV, "").split()
            if not models:
                raise InvalidModel(
                    "No model given",
                    resolution=f"Pass one, set Client(default=…), or set {MODEL_ENV}.",
                )
        chain = models if isinstance(models, list) or _is_chain(models) else [models]
        if not chain:
            raise InvalidModel("the list of models is empty", resolution="Pass at least one model.")
        key = self._key(chain, options)
        if key is None:
            return self._resolved(chain, options)
        found = self._remembered.get(key)
        if found is None:
            chain = copied(chain)
            options = copied(options)
            if len(self._remembered) >= MOST_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
            # The chain is stored too: the key contains the `id()` of objects in it, which must stay
            # alive.
            found = (chain, self._resolved(chain, options))
            self._remembered[key] = found
        return [target.again() for target in found[1]]

    def _key(self, chain: Sequence[Any], options: Mapping[str, Any]) -> Hashable | None:
        """Return the key under which a chain's targets are cached.

        Return `None` if the targets cannot be cached.
        """
        try:
            names = map(self._key_of, chain)
            return self.catalog.users, *names, frozen(options) if options else None
        except TypeError:
            return None

    def _key_of(self, choice: Any) -> Hashable:
        if type(choice) is tuple and len(choice) == 2:
            return self._key_of(choice[0]), frozen(choice[1])
        if type(choice) is str and choice.partition("/")[0] not in self._installed:
            choice = self.catalog.resolve(choice)  # may depend on the keys that are set
        if type(choice) is Model:
            return str(choice), id(choice.info), id(choice.rules)
        return frozen(choice)

    def _resolved(self, chain: Sequence[Any], options: Mapping[str, Any]) -> list[Target]:
        options = full_options(options)
        targets: list[Target] = []
        named = options.get("base_url")
        address = named  # for which `options` were given; `None`: the provider's default
        for choice in chain:
            name, own = _with_options(choice)
            if isinstance(name, Target):
                model = name.model
                given = dict(name.given)
                home = given.get("base_url") or named
            else:
                model = self.catalog.resolve(name)
                given = {**self._defaults, **self._providers.get(model.provider, {})}
                home = named or given.get("base_url")
            asked: Mapping[str, Any] = options
            home = own.get("base_url", home)
            if not targets:
                address = named or home
            elif (
                model.provider != targets[0].model.provider
                or "base_url" in own
                or address_of(home) != address_of(address)
            ):
                # Credentials and settings given for the first target are not passed on to other
                # targets.
                asked = {name: value for name, value in asked.items() if name not in _PERSONAL}
            asked = {**asked, **own}
            target = self._target(model, given, asked, len(targets) == len(chain) - 1)
            if "timeouts" in own or (
                isinstance(name, Target) and "timeouts" not in {*options, *name.inherited}
            ):
                of_call = options_of({"timeouts": options.get("timeouts")}).timeouts.total
                _limit_model(target, of_call, is_alone=len(chain) == 1)
            targets.append(target)
        return targets

    def _target(
        self, model: Model, given: dict[str, Any], asked: Mapping[str, Any], is_last: bool
    ) -> Target:
        """Return the target for a model.

        `asked` contains the options of the call and those of the model's entry in the chain. They
        override `given`, which contains the options of the client or of a `Target`.
        """
        merged = _merged(given, asked)
        options = options_of(merged)
        home = given.get("base_url")
        if home and address_of(options.base_url) != address_of(home):
            # options given with an address apply only to that address
            given = {name: v for name, v in given.items() if name not in _CREDENTIALS}
            all_given = options
            merged = _merged(given, asked)
            options = options_of(merged)
            check_credentials(model.provider, home, all_given, options)
        binding = self.host.bind(model.provider)
        info = self.catalog.provider(model.provider)
        check_settings(model.provider, info, options.settings)
        check_options(options)
        return Target(
            model=model,
            options=options,
            binding=binding,
            info=info,
            is_last=is_last,
            inherited=frozenset(given.keys() - asked.keys() - _STEERING),
            extra=asked.get("extra") or {},
            given=merged,
        )


_LIMITS = "Pass Limits(cost=…)."

MOST_REMEMBERED = 256
"""A client caches the targets of at most this many combinations of a model chain and options."""

MODEL_ENV = "SWINK_MODEL"
"""The environment variable with the model for calls that do not name a model.

Several names separated by spaces form a fallback chain.
"""

_CREDENTIALS = frozenset({"api_key", "headers"})

_PERSONAL = frozenset(name for name, each in OPTIONS.items() if each.kind == "provider")

_STEERING = _PERSONAL | {"transport", "rules", "retired"}
"""These options have no field in the request body, so `extra` cannot override them."""


def _impersonal(defaults: dict[str, Any]) -> dict[str, Any]:
    """Check the options that a client sets for all providers, and return them.

    Raises UsageError for options that belong to a single provider, such as an API key.
    """
    if personal := ", ".join(sorted(_PERSONAL & defaults.keys())):
        raise UsageError(
            f"{personal} would be sent to every provider that the client uses",
            resolution='Write Client(providers={"acme": {"api_key": …}}), or pass it to the call.',
        )
    return defaults


def _of_provider(name: str, given: Any) -> dict[str, Any]:
    """Return a client's options for one provider.

    Names that are not options of swink become settings of the provider.
    """
    if not isinstance(given, Mapping):
        raise InvalidOption(
            f"the options of provider {name!r} are of type {type(given).__name__}",
            resolution='Write Client(providers={"acme": {"api_key": …}}).',
        )
    options = full_options(given)
    settings = {key: options.pop(key) for key in [*options] if key not in StreamOptions.names()}
    return _merged({"settings": settings}, options)


def _merged(given: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two sets of options: `asked` overrides `given`.

    Headers, settings and fields of `extra` are merged one by one.
    """
    values = {**given, **asked}
    for name in ("settings", "extra"):
        if given.get(name) and isinstance(asked.get(name), Mapping):
            values[name] = merge_fields(given[name], asked[name])
    if given.get("headers") and isinstance(asked.get("headers"), Mapping):
        override(headers := dict(given["headers"]), asked["headers"])
        values["headers"] = headers
    return values


def _limit_model(target: Target, of_call: float | None, is_alone: bool) -> None:
    """Let the total limit of a model's own options end only the attempts with this model.

    `of_call` is the total limit of the call, which applies in addition. The limit of the only model
    applies to the whole call.
    """
    timeouts = target.options.timeouts
    total = min(filter(None, (timeouts.total, of_call)), default=None)
    if not is_alone and total != of_call:
        target.own_total = total
        total = of_call
    target.options = evolve(target.options, timeouts=evolve(timeouts, total=total))


def _with_options(choice: Any) -> tuple[Any, Mapping[str, Any]]:
    if not isinstance(choice, tuple):
        return choice, {}
    if len(choice) != 2 or not isinstance(choice[1], Mapping):
        raise InvalidModel(
            "an entry of the list of models is a tuple of "
            f"{', '.join(type(p).__name__ for p in choice)}",
            resolution="Each entry is a model name, or a pair of a model name and its options.",
        )
    return choice[0], full_options(choice[1])


def _is_chain(models: Any) -> bool:
    """Return True for a fallback chain, and False for a single model or (model, options) pair."""
    return isinstance(models, tuple) and not (len(models) == 2 and isinstance(models[1], Mapping))


@takes_options(Options)
def stream(
    model: ModelChain | None,
    context: Prompt,
    *,
    limits: Limits | LimitGate | None = None,
    **options: Unpack[Options],
) -> EventStream:
    """Stream one call with a temporary client, which is closed together with the stream."""
    client = Client()
    client._on_close = client.aclose
    return client.stream(model, context, limits=limits, **options)


@takes_options(Options)
async def complete(
    model: ModelChain | None,
    context: Prompt,
    *,
    limits: Limits | LimitGate | None = None,
    **options: Unpack[Options],
) -> AssistantMessage:
    """Make one call with a temporary client and return its message."""
    async with Client() as client:
        return await client.complete(model, context, limits=limits, **options)


@takes_options(Options)
def complete_sync(
    model: ModelChain | None,
    context: Prompt,
    *,
    limits: Limits | LimitGate | None = None,
    **options: Unpack[Options],
) -> AssistantMessage:
    """Make one call and return its message, for scripts without an event loop.

    Raises UsageError if an event loop is running in this thread, because this function would block
    the loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(complete(model, context, limits=limits, **options))
    hint = "Use: await swink.complete(…)"
    raise UsageError("complete_sync() was called inside a running event loop", resolution=hint)
