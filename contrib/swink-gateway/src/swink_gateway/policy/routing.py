"""Resolve the requested model by rules, aliases and tiers, and transform the request."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from attrs import define, evolve

from swink_core import (
    Client,
    InvalidModel,
    Model,
    ModelInfo,
    StreamErrorKind,
    StreamOptions,
    UsageError,
)
from swink_core.providers import prompt_of, text_of
from swink_gateway.policy.config import (
    Config,
    Fault,
    Route,
    Source,
)
from swink_gateway.policy.config.lines import Path, written
from swink_gateway.policy.config.values import similar, unknown
from swink_gateway.policy.guards import GUARD_NAME, Guard
from swink_gateway.policy.limits.stores import ENGINES, REQUIRED, Store
from swink_gateway.policy.passthrough import check_named_by_client
from swink_gateway.policy.permissions import permitted
from swink_gateway.policy.prices import repriced
from swink_gateway.policy.rules import fits, is_like, is_named
from swink_gateway.policy.tenancy import with_names
from swink_gateway.policy.transforms import capped, transformed
from swink_gateway.protocols import Asked

__all__ = ["Chain", "Routing", "persistent", "usable"]

CACHED_TOKENS = 1024
"""The minimum length of a prompt that providers cache, in tokens.

For each shorter request, the model to try first is chosen at random.
"""

MOST_COMPARED = 10_000
"""The maximum number of characters of each text that are compared to recognize a conversation."""

MOST_PLACES = 3
"""The maximum number of routes in a log message. Many routes may share the account that failed."""

MOST_PRICED = 1000
"""The maximum number of models whose prices are cached.

Limited because clients choose the names of models.
"""

Chain = list[tuple[Model, dict[str, Any]]]
"""A fallback chain: models in order, each with its own options."""


@define(frozen=True)
class Routing:
    """The routes of a configuration for `client`; `chance` returns random numbers from 0 to 1."""

    client: Client
    config: Config
    chance: Callable[[], float] = random.random

    @property
    def names(self) -> list[str]:
        """The model names that the configuration defines."""
        return [*self.config.routes, *self.config.aliases]

    def models(self, name: str) -> list[Model]:
        """Return the models behind a name. Raises UsageError for an unknown name."""
        meant = self.config.aliases.get(name, name)
        return [model for model, _ in self._chain(meant, lambda place: 1.0)]

    def routed(self, asked: Asked, owner: str) -> tuple[Chain, Asked]:
        """Return the models for a request, and the changed request.

        Raises UsageError for an unknown or forbidden model, and Refused for forbidden fields.
        """
        if not self.allows(owner, asked.model):
            raise InvalidModel(
                f"the key {owner!r} may not use the model {asked.model!r}",
                resolution="GET /v1/models lists the models that it may use.",
            )
        name = self._meant(asked)
        route = self.config.routes.get(name)
        chain = self._chain(name, self._chance(asked, owner, route))
        if name == asked.model and route is None:
            check_named_by_client(self.client, chain[0][0])
        if (key := self.config.keys.get(owner)) is not None:
            asked = with_names(asked, owner)
            if key.is_limited:
                asked = permitted(
                    asked,
                    [model.provider for model, _ in chain],
                    lambda name: self.allows(owner, name),
                    key.allowed_fields,
                    key.has_budget,
                )
        return chain, transformed(asked, route.transforms) if route else evolve(asked)

    def guards(self, asked: Asked, owner: str) -> list[Guard]:
        """Return the guards of a request: first the key's guards, then the route's guards."""
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
        """Return True if the owner of a key may use a model; the owner `""` may use all models."""
        key = self.config.keys.get(owner)
        if key is None:
            return not owner
        return not key.models or any(is_named(one, key.models) for one in self._called(name))

    def faults(self) -> Iterator[Fault]:
        """Yield unknown names, and options that a provider does not accept."""
        config = self.config
        for kind, names in (("aliases", config.aliases), ("routes", config.routes)):
            if "" in names:
                yield Fault((kind, ""), "expected a name")
        for name, meant in config.aliases.items():
            yield from self._unknown(("aliases", name), meant, known=config.routes)
            if name in config.routes:
                yield Fault(("aliases", name), "a route has the same name")
        for name, route in config.routes.items():
            yield from self._faults_of(name, route)
        for at, rule in enumerate(config.rules):
            known = {*config.routes, *config.aliases}
            yield from self._unknown(("rules", at, "to"), rule.to, known=known)
        owners: dict[bytes, str] = {}
        for name, key in config.keys.items():
            if not name:
                yield Fault(("keys", name), "expected the name of the key's owner")
            if not key.key:
                yield Fault(("keys", name, "key"), "expected a key")
            for digest in key.key:
                if owners.setdefault(digest, name) != name:
                    yield Fault(("keys", name, "key"), f"the same key belongs to {owners[digest]}")
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
            yield Fault(("routes", name, "tiers"), "expected a model in each tier")
        for place, choice in _choices(name, route):
            try:
                self.client.target(choice)
            except UsageError as error:
                yield Fault(place, str(error).partition("\n")[0])

    def places(self, account: str) -> Sequence[str]:
        """Return the paths in the configuration file at which routes use an account.

        `account` is the `key` of a `Target`.
        """
        return self._places.get(account, ())

    def named(self, account: str) -> str:
        """Return the first paths of `places` as a text, separated by commas."""
        found = [*self.places(account)]
        if len(found) > MOST_PLACES:
            found[MOST_PLACES:] = ["…"]
        return ", ".join(found)

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
                why = f"expected a route or a model: {error.message}{similar(name, known)}"
                yield Fault(path, why)

    def _called(self, name: str) -> Iterator[str]:
        """Yield the name, the name that an alias stands for, and the model's full name."""
        meant = self.config.aliases.get(name, name)
        yield from (name, meant)
        if meant not in self.config.routes:
            with suppress(UsageError):
                yield str(self.client.catalog.resolve(meant))

    def _chance(self, asked: Asked, owner: str, route: Route | None) -> Callable[[str], float]:
        """Return a function that draws a random number for each model of a route.

        All requests of a conversation get the same numbers, so that they try the same account
        first: a prompt cache belongs to one account. The weights determine each account's share of
        the conversations.
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
        """Resolve a model, with prices from the configuration.

        Raises UsageError for an unknown name.
        """
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
                known = info if info is not None else ModelInfo(model.id)
                info = repriced(known, price)
            self._priced[full] = info
        return Model(model.provider, model.id, self._priced[full], model.rules)

    @cached_property
    def _priced(self) -> dict[str, ModelInfo | None]:
        """Catalog data of models by name, with the configuration's prices."""
        return {}

    def _chain(self, name: str, chance: Callable[[str], float]) -> Chain:
        resolve = self._resolve
        route = self.config.routes.get(name)
        if route is not None:
            chain = []
            for number, tier in enumerate(route.tiers):
                # the weights are the odds of being first (Efraimidis and Spirakis, 2006)
                drawn = [
                    (chance(f"{number}.{at}") ** (1 / one.weight), one)
                    for at, one in enumerate(tier)
                ]
                for _, one in sorted(drawn, key=lambda pair: pair[0], reverse=True):
                    own = capped(_options(route, one.options), route.transforms)
                    chain.append((resolve(one.model), own))
            return chain
        return [(resolve(name), {})]


def usable(
    client: Client,
    source: Source,
    environ: Mapping[str, str],
    more: Callable[[Config], Iterable[Fault]] = lambda config: (),
) -> Config:
    """Parse a configuration and check it against the installed providers.

    Raises ConfigError with all faults, including those that `more` finds in a configuration without
    other faults.
    """
    config, faults = source.read(environ)
    if config is not None:
        faults += Routing(client, config).faults()
        wrong = {fault.path[0] for fault in faults}
        faults += [fault for fault in more(config) if fault.path[0] not in wrong]
    source.refuse(faults)
    assert config is not None  # otherwise, `refuse` has raised
    return config


def _conversation(asked: Asked, owner: str) -> str | None:
    """Return an identifier of a conversation; `None` if its prompt is too short to cache.

    The identifier is the client's session id, or the beginning of the conversation.
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
        yield Fault(("store", "engine"), f"expected one of {', '.join(ENGINES)}")
    wanted = REQUIRED.get(store.engine)
    if wanted and not getattr(store, wanted):
        yield Fault(("store", wanted), f"is missing; {store.engine} requires it")


def _choices(name: str, route: Route) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the options of each model of a route."""
    for tier, upstreams in enumerate(route.tiers):
        for at, one in enumerate(upstreams):
            yield ("routes", name, "tiers", tier, at), (one.model, _options(route, one.options))


def _options(route: Route, own: dict[str, Any]) -> dict[str, Any]:
    limits = {} if route.time_limits is None else {"timeouts": route.time_limits}
    return {**limits, **route.options, **own}


def persistent(options: dict[str, Any], unseen: bool) -> dict[str, Any]:
    """Extend the retry policy in `options`, if there is one, for use in a gateway.

    If a provider refuses the credentials, which are the operator's, the next model is tried. With
    `unseen`, an answer that failed before the client received output is retried.
    """
    if "retry" not in options:
        return options
    policy = options["retry"]
    kinds = policy.fall_back_on | {StreamErrorKind.AUTH}
    anew = policy.restart_after_output or unseen
    return {**options, "retry": evolve(policy, fall_back_on=kinds, restart_after_output=anew)}
