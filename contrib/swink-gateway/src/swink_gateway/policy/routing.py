"""Who is asked for what a client names: rules, aliases, tiers, and what becomes of the request."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec
from attrs import asdict, define, evolve

from swink_core import (
    Client,
    InvalidModel,
    Model,
    ModelInfo,
    StreamErrorKind,
    StreamOptions,
    UsageError,
    replace,
)
from swink_core.providers import prompt_of, text_of
from swink_gateway.policy.config import (
    Config,
    Fault,
    Route,
    Source,
    Transforms,
)
from swink_gateway.policy.config.lines import Path, written
from swink_gateway.policy.config.values import unknown
from swink_gateway.policy.guards import GUARD_NAME, Guard
from swink_gateway.policy.limits.stores import ENGINES, Store
from swink_gateway.policy.passthrough import check_named_by_client
from swink_gateway.policy.permissions import permitted
from swink_gateway.policy.rules import fits, is_like, is_named
from swink_gateway.policy.tenancy import with_names
from swink_gateway.protocols import Asked

__all__ = ["CACHED_TOKENS", "Chain", "Routing", "persistent", "usable"]

CACHED_TOKENS = 1024
"""The shortest prompt that vendors cache: who answers a shorter one is drawn each time."""

MOST_COMPARED = 10_000
"""The characters of each text by which conversations are told apart."""

MOST_PRICED = 1000
"""Models for which the file's prices are remembered: clients choose their names."""

Chain = list[tuple[Model, dict[str, Any]]]
"""Models in the order in which they are asked, each with options of its own."""


@define(frozen=True)
class Routing:
    """What a configuration means to `client`; `chance` returns numbers from 0 to 1."""

    client: Client
    config: Config
    chance: Callable[[], float] = random.random

    @property
    def names(self) -> list[str]:
        """The gateway's own names."""
        return [*self.config.routes, *self.config.aliases]

    def models(self, name: str) -> list[Model]:
        """Return who may answer to a name. Raises UsageError."""
        meant = self.config.aliases.get(name, name)
        return [model for model, _ in self._chain(meant, lambda place: 1.0)]

    def routed(self, asked: Asked, owner: str) -> tuple[Chain, Asked]:
        """Resolve a request of the owner of a key. Raises UsageError and Refused."""
        if not self.allows(owner, asked.model):
            raise InvalidModel(
                f"the key {owner!r} may not ask for {asked.model!r}",
                resolution="GET /v1/models lists what it may ask for.",
            )
        name = self._meant(asked)
        route = self.config.routes.get(name)
        chain = self._chain(name, self._chance(asked, owner, route))
        if name == asked.model and route is None:
            check_named_by_client(self.client, chain[0][0])
        if (key := self.config.keys.get(owner)) is not None:
            asked = with_names(asked, owner)
            if key.is_limited:
                to = chain[0][0].provider
                asked = permitted(
                    asked, lambda model: self.allows(owner, f"{to}/{model}"), key.allowed_fields
                )
        return chain, _transformed(asked, route.transforms) if route else evolve(asked)

    def guards(self, asked: Asked, owner: str) -> list[Guard]:
        """List the guards of the key and then of the route of a request."""
        config = self.config
        if not config.guards:
            return []
        key = config.keys.get(owner)
        route = config.routes.get(self._meant(asked))
        names = (*(key.guards if key else ()), *(route.guards if route else ()))
        return [self._guards[name] for name in dict.fromkeys(names)]

    @cached_property
    def _guards(self) -> dict[str, Guard]:
        return {name: Guard.made(name, guard) for name, guard in self.config.guards.items()}

    def _meant(self, asked: Asked) -> str:
        """Return the name of the route or model that a request is for."""
        name = next((rule.to for rule in self.config.rules if fits(asked, rule.when)), asked.model)
        return self.config.aliases.get(name, name)

    def allows(self, owner: str, name: str) -> bool:
        """Tell whether the owner of a key may ask for a name; `""` owns what the gateway does."""
        key = self.config.keys.get(owner)
        if key is None:
            return not owner
        return not key.models or any(is_named(one, key.models) for one in self._called(name))

    def faults(self) -> Iterator[Fault]:
        """Yield what cannot be: names of nothing, options that a provider does not take."""
        config = self.config
        for kind, names in (("aliases", config.aliases), ("routes", config.routes)):
            if "" in names:
                yield Fault((kind, ""), "a name was expected")
        for name, meant in config.aliases.items():
            yield from self._unknown(("aliases", name), meant, known=config.routes)
            if name in config.routes:
                yield Fault(("aliases", name), "there is a route of this name")
        for name, route in config.routes.items():
            yield from self._faults_of(name, route)
        for at, rule in enumerate(config.rules):
            known = {*config.routes, *config.aliases}
            yield from self._unknown(("rules", at, "to"), rule.to, known=known)
        owners: dict[bytes, str] = {}
        for name, key in config.keys.items():
            if not name:
                yield Fault(("keys", name), "a name of whose key it is was expected")
            if not key.key:
                yield Fault(("keys", name, "key"), "a key was expected")
            for digest in key.key:
                if owners.setdefault(digest, name) != name:
                    yield Fault(("keys", name, "key"), f"it is the key of {owners[digest]}, too")
        for name, guard in config.guards.items():
            if not GUARD_NAME.fullmatch(name):
                expected = "a name of at most 58 letters, digits and -_ was expected"
                yield Fault(("guards", name), expected)
            try:
                Guard.made(name, guard)
            except ValueError as error:
                yield Fault(("guards", name), str(error))
        for kind, holders in (("keys", config.keys), ("routes", config.routes)):
            for name, holder in holders.items():
                for guard_name in holder.guards:
                    if guard_name not in config.guards:
                        yield Fault((kind, name, "guards"), unknown(guard_name, config.guards))
        yield from _faults_of_store(config.store)

    def _faults_of(self, name: str, route: Route) -> Iterator[Fault]:
        if not all(route.tiers) or not route.tiers:
            yield Fault(("routes", name, "tiers"), "a model was expected in each tier")
        for place, choice in _choices(name, route):
            try:
                self.client.target(choice)
            except UsageError as error:
                yield Fault(place, str(error).partition("\n")[0])

    def places(self, account: str) -> Sequence[str]:
        """Return where an account (`Target.key`) stands in the routes, as faults say it."""
        return self._places.get(account, ())

    @cached_property
    def _places(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, route in self.config.routes.items():
            for path, choice in _choices(name, route):
                with suppress(UsageError):
                    account = self.client.target(choice).key
                    found.setdefault(account, []).append(written(path))
        return found

    def _unknown(self, path: Any, name: str, known: Any) -> Iterator[Fault]:
        if name not in known:
            try:
                self.client.catalog.resolve(name)
            except UsageError as error:
                yield Fault(path, f"a route or a model was expected: {error.message}")

    def _called(self, name: str) -> Iterator[str]:
        """Yield what a name can be called: itself, what it is an alias of, the model's in full."""
        meant = self.config.aliases.get(name, name)
        yield from (name, meant)
        if meant not in self.config.routes:
            with suppress(UsageError):
                yield str(self.client.catalog.resolve(meant))

    def _chance(self, asked: Asked, owner: str, route: Route | None) -> Callable[[str], float]:
        """Return a function that draws a number for a place in a route, the same in a conversation.

        A vendor's prompt cache is its account's, so the turns of a conversation ask one account
        first. Conversations are spread over accounts by their weights.
        """
        conversation = None
        if route is not None and any(len(tier) > 1 for tier in route.tiers):
            conversation = _conversation(asked, owner)
        if conversation is None:
            return lambda place: self.chance()
        seed = conversation.encode("utf-8", "surrogateescape")

        def drawn(place: str) -> float:
            digest = hashlib.sha256(seed + place.encode()).digest()
            return int.from_bytes(digest[:8]) / 2**64

        return drawn

    def _resolve(self, name: str) -> Model:
        """Return a model by its name, with the prices that the file gives it. Raises UsageError."""
        model = self.client.catalog.resolve(name)
        if not self.config.prices:
            return model
        full = str(model)
        if full not in self._priced:
            if len(self._priced) >= MOST_PRICED:
                self._priced.clear()
            patterns = self.config.prices.items()
            price = next((price for pattern, price in patterns if is_like(full, pattern)), None)
            info = model.info
            if price is not None:
                given = {name: rate for name, rate in asdict(price).items() if rate is not None}
                read = msgspec.convert({"id": model.id, "prices": given}, ModelInfo)
                info = msgspec.structs.replace(info or read, prices=read.prices)
            self._priced[full] = info
        return Model(model.provider, model.id, self._priced[full], model.rules)

    @cached_property
    def _priced(self) -> dict[str, ModelInfo | None]:
        """Facts about models by name, with the prices of the file."""
        return {}

    def _chain(self, name: str, chance: Callable[[str], float]) -> Chain:
        resolve = self._resolve
        route = self.config.routes.get(name)
        if route is not None:
            chain = []
            for number, tier in enumerate(route.tiers):
                # the odds of coming first are as the weights (Efraimidis and Spirakis, 2006)
                drawn = [
                    (chance(f"{number}.{at}") ** (1 / one.weight), one)
                    for at, one in enumerate(tier)
                ]
                for _, one in sorted(drawn, key=lambda pair: pair[0], reverse=True):
                    chain.append((resolve(one.model), _options(route, one.options)))
            return chain
        return [(resolve(name), {})]


def usable(
    client: Client,
    source: Source,
    environ: Mapping[str, str],
    more: Callable[[Config], Iterable[Fault]] = lambda config: (),
) -> Config:
    """Return what a file says, if it can be done with what is installed.

    Raises ConfigError, which tells all faults at once, and those that `more` finds in tables that
    have none so far.
    """
    config, faults = source.read(environ)
    if config is not None:
        faults += Routing(client, config).faults()
        wrong = {fault.path[0] for fault in faults}
        faults += [fault for fault in more(config) if fault.path[0] not in wrong]
    source.refuse(faults)
    assert config is not None  # or there is a fault
    return config


def _conversation(asked: Asked, owner: str) -> str | None:
    """Return a name for a conversation; `None` for one too short to cache.

    It is the client's own name of the session, or how the conversation begins.
    """
    if session := asked.options.get("session_id"):
        return f"{owner}\0{session}"
    context = asked.context
    if prompt_of(None, context, StreamOptions()).tokens < CACHED_TOKENS:
        return None
    begins = [owner, text_of(context.system_prompt or "")[:MOST_COMPARED]]
    for message in context.messages:
        content = message.content
        texts = [content] if isinstance(content, str) else [getattr(b, "text", "") for b in content]
        begins += [text[:MOST_COMPARED] for text in texts]
        if message.role == "user":
            break
    return "\0".join(begins)


def _faults_of_store(store: Store) -> Iterator[Fault]:
    if store.engine not in ENGINES:
        yield Fault(("store", "engine"), f"one of {', '.join(ENGINES)} was expected")
    wanted = {"sqlite": "path", "redis": "url"}.get(store.engine)
    if wanted and not getattr(store, wanted):
        yield Fault(("store", wanted), f"is missing, and {store.engine} needs it")


def _choices(name: str, route: Route) -> Iterator[tuple[Path, Any]]:
    """Yield each model of a route with its options, and where it stands."""
    for tier, upstreams in enumerate(route.tiers):
        for at, one in enumerate(upstreams):
            yield ("routes", name, "tiers", tier, at), (one.model, _options(route, one.options))


def _options(route: Route, own: dict[str, Any]) -> dict[str, Any]:
    limits = {} if route.time_limits is None else {"timeouts": route.time_limits}
    return {**limits, **route.options, **own}


def persistent(options: dict[str, Any], unseen: bool) -> dict[str, Any]:
    """Have the retry policy of options, if they have one, do all that helps a client.

    Credentials are the operator's: where one's are refused, the next model is asked. An answer
    of which a client has seen nothing (`unseen`) begins anew.
    """
    if "retry" not in options:
        return options
    policy = options["retry"]
    kinds = policy.fall_back_on | {StreamErrorKind.AUTH}
    anew = policy.restart_after_output or unseen
    return {**options, "retry": evolve(policy, fall_back_on=kinds, restart_after_output=anew)}


def _transformed(asked: Asked, by: Transforms) -> Asked:
    """Return what is asked after a route's transforms."""
    context, dropped = asked.context, [*asked.dropped]
    options, own = dict(asked.options), dict(asked.own)
    for name in by.leave_out:
        if name == "tools" and (context.tools or "tools" in own):
            own.pop("tools", None)
            context = replace(context, tools=[])
            for about in ("tool_choice", "parallel_tool_calls"):
                options.pop(about, None)
            dropped.append(name)
        elif name in options:
            del options[name]
            dropped.append(name)
    options = {**by.defaults, **options}
    if by.max_tokens is not None:
        options["max_tokens"] = min(options.get("max_tokens") or by.max_tokens, by.max_tokens)
    if by.system_prompt is not None:
        prompt: Any = context.system_prompt
        if isinstance(prompt, list):
            prompt = [by.system_prompt, *prompt]
        else:
            prompt = "\n\n".join(filter(None, [by.system_prompt, prompt]))
        context = replace(context, system_prompt=prompt)
    return evolve(asked, context=context, options=options, own=own, dropped=dropped)
