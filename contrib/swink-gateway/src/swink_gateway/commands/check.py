"""The output of `swink gateway --check`: a summary of a configuration file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import asdict

from swink_cli.terminal import table
from swink_gateway.policy.charging import allowance_of
from swink_gateway.policy.config import Config, Key, Route, When
from swink_gateway.policy.limits.ledger import counted
from swink_gateway.policy.routing import Routing
from swink_gateway.policy.rules import is_named
from swink_gateway.policy.served_models import ServedModels

__all__ = ["lines_of"]

SERVERS = {"postgres": "Postgres", "redis": "Redis"}
"""The database servers' names to print, by the name of a store's engine."""

_Rows = Sequence[tuple[str, str]]


def lines_of(routing: Routing) -> Iterator[str]:
    """Yield the lines of the summary, without secrets."""
    config = routing.config
    sections: dict[tuple[str, str], _Rows] = {
        ("ROUTE", "MODELS"): [(name, _tiers(route)) for name, route in config.routes.items()],
        ("ALIAS", "TARGET"): [*config.aliases.items()],
        ("REQUESTS", "TARGET"): [(_when(rule.when), rule.to) for rule in config.rules],
        ("GUARD", "USED BY"): [(name, _guarded(name, config)) for name in config.guards],
        ("KEY", "LIMITS"): [(name, _key(key)) for name, key in config.keys.items()],
    }
    for headings, rows in sections.items():
        if rows:
            yield from table(rows, headings)
            yield ""
    yield f"limits, budgets and the ledger are stored in: {config.store.engine}"
    models = {str(m): m for name in config.routes for m in routing.models(name)}
    unpriced = [name for name, m in models.items() if m.info is None or m.info.prices is None]
    if unpriced:
        names = ", ".join(sorted(unpriced))
        yield f"no price for {names}: keys with a budget cannot use them; add [prices]"
    for name, pattern in _fitting_nothing(routing):
        yield f"keys.{name}.models: {pattern!r} matches no route, alias or known model"
    server = SERVERS.get(config.store.engine)
    servers = f"the {server} server, and providers" if server else "providers"
    yield f"not checked: {servers}, their keys and their models"


def _tiers(route: Route) -> str:
    def tier(at: int) -> str:
        models = route.tiers[at]
        if len(models) == 1:
            return models[0].model
        return " | ".join(f"{one.model} ({one.weight:g})" for one in models)

    return ", then ".join(map(tier, range(len(route.tiers))))


def _guarded(name: str, config: Config) -> str:
    holders = [f"keys.{key}" for key, one in config.keys.items() if name in one.guards]
    holders += [f"routes.{route}" for route, one in config.routes.items() if name in one.guards]
    return ", ".join(holders) or "nothing: no key or route names it"


def _when(when: When) -> str:
    said = []
    for name, value in asdict(when).items():
        words = name.replace("_", " ")
        if value is True or value is False:
            said.append(words if value else f"no {words}")
        elif value:
            text = " ".join(value) if isinstance(value, tuple) else f"{value:,} tokens"
            said.append(f"{words} {text}")
    return ", ".join(said) or "all"


def _key(key: Key) -> str:
    said = [" ".join(key.models) or "any model"]
    limits = asdict(allowance_of(key)).items()
    said += [counted(limit, _WORDS[name]) for name, limit in limits if limit is not None]
    return ", ".join([*said, "operator"] if key.operator else said)


def _fitting_nothing(routing: Routing) -> Iterator[tuple[str, str]]:
    """Yield the name of each key with a model pattern that matches no model, and the pattern.

    A pattern for all models of a provider counts as matching even if the provider lists no models.
    A pattern that also occurs in a routing rule counts as matching: such a rule serves names that
    the gateway does not list.
    """
    config, served = routing.config, ServedModels(routing, "")
    known = {f"{name}/" for name in served.providers()} | {info.id for info in served.models()}
    heard = {pattern for rule in config.rules for pattern in rule.when.models}
    for name, key in config.keys.items():
        for pattern in key.models:
            provider, slash, _ = pattern.partition("/")
            wanted = provider + slash + "*" * bool(slash)
            names = [*routing.names, *known]
            if pattern not in heard and not any(is_named(one, [pattern, wanted]) for one in names):
                yield name, pattern


_WORDS = {
    "requests": "requests a minute",
    "tokens": "tokens a minute",
    "streams": "concurrent requests",
    "dollars_a_day": "US dollars a day",
    "dollars_a_month": "US dollars a month",
}
