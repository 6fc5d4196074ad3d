"""What a configuration says, as classes; their docstrings are the reference of the TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NewType

from attrs import define, field

from swink_core import ClientOptions, Timeouts
from swink_gateway.policy.limits import Store

__all__ = [
    "OPTION_NAMES", "Amount", "Config", "Count", "Digest", "Dollars", "Key", "OptionName",
    "Options", "Pattern", "Price", "RequestGuard", "Route", "Rule", "Settings", "Tag",
    "Transforms", "Upstream", "When",
]  # fmt: skip

Amount = NewType("Amount", float)
"""A number above 0."""

Dollars = NewType("Dollars", float)
"""A number of at least 0."""

Count = NewType("Count", int)
"""A whole number above 0."""

Options = NewType("Options", dict[str, Any])
"""Options of a call, by the names of `StreamOptions`."""

Digest = NewType("Digest", bytes)
"""The SHA-256 of a key."""

Tag = NewType("Tag", str)
"""A word for the ledger, of at most 64 characters: letters, digits and `-_.:/@`."""

Pattern = NewType("Pattern", str)
"""A regular expression of Python's."""

Settings = NewType("Settings", dict[str, Any])
"""Values by name, as a plugin takes them."""

OptionName = NewType("OptionName", str)
"""An option that a client may say, or `tools`."""

OPTION_NAMES = frozenset(ClientOptions.__annotations__) - {"timeout", "timeouts", "retry"} | {
    "tools"
}


@define(frozen=True, kw_only=True)
class Upstream:
    """A model of a tier.

    `model` is `provider/model`, or a bare name that one provider lists. Of the models of a tier,
    each is the first to be asked as often as its `weight` says. `options` go before those of the
    route, and may hold `api_key` and `base_url`.
    """

    model: str
    weight: Amount = Amount(1.0)
    options: Options = field(factory=lambda: Options({}), repr=False)


@define(frozen=True, kw_only=True)
class Transforms:
    """What becomes of a request before it is passed on.

    `system_prompt` is said before the client's own instructions. `defaults` are options of calls
    that do not say them. `leave_out` names options of the client's that are not passed on; `tools`
    are all its tools. `max_tokens` is the most that a client may ask for, and what is asked for
    where it says nothing.
    """

    system_prompt: str | None = None
    defaults: Options = field(factory=lambda: Options({}), repr=False)
    leave_out: tuple[OptionName, ...] = ()
    max_tokens: Count | None = None


@define(frozen=True, kw_only=True)
class Route:
    """A name that clients may ask for, and who answers.

    `tiers` are asked one after the other, until one answers. A tier is a model, or a list of models
    among which `weight` chooses; the rest of them are asked next. `options` are those of all its
    models and go before the client's. `time_limits` are in seconds, `false` for none. `guards` are
    names of guards for all requests to this route.
    """

    tiers: tuple[tuple[Upstream, ...], ...]
    options: Options = field(factory=lambda: Options({}), repr=False)
    time_limits: Timeouts | None = None
    transforms: Transforms = field(factory=Transforms)
    guards: tuple[str, ...] = ()


@define(frozen=True, kw_only=True)
class When:
    """Which requests a rule is for; all that is said has to hold.

    `models` are patterns of the names that are asked for. `thinking`, `tools` and `web_search` say
    whether those are asked for; a tool that a vendor runs on its own servers is none of the
    client's tools. `longer_than` is a length in tokens, estimated. `background` is what agents ask
    beside a conversation: a title, a summary or a topic of it, without tools.
    """

    models: tuple[str, ...] = ()
    thinking: bool | None = None
    tools: bool | None = None
    web_search: bool | None = None
    longer_than: Count | None = None
    background: bool | None = None


@define(frozen=True, kw_only=True)
class Rule:
    """Where requests go that have something in common; the first rule that fits decides.

    `to` is a route, an alias or a model.
    """

    when: When
    to: str


@define(frozen=True, kw_only=True)
class Key:
    """Who may ask, and for how much; what is left out has no bound.

    `key` is `"sha256:…"`, the SHA-256 of the key in hexadecimal, or `"${NAME}"`, the variable that
    holds it; of several each counts. `models` are patterns of what may be asked for, by the names
    that clients use. An `operator` may read the metrics, the feed of calls and what all spend.
    Tokens are those of prompts and answers; days and months are those of UTC. With a budget, models
    without a price are refused: see `prices`. The ledger has the key's `team` and `tags`, and the
    tags that a request names in `x-swink-tags`.

    All keys share the vendors' accounts. `vendor_ids` are patterns of the ids of files, vector
    stores, containers and conversations at a vendor that the key may name, in addition to the ids
    in its answers. `allowed_fields` are fields of requests to a vendor that the gateway does not
    know, and that a key with limited models or a budget may set all the same. `guards` are names of
    guards for all requests of the key.
    """

    key: tuple[Digest, ...] = field(repr=False)
    models: tuple[str, ...] = ()
    operator: bool = False
    requests_per_minute: Amount | None = None
    tokens_per_minute: Amount | None = None
    streams: Count | None = None
    dollars_per_day: Amount | None = None
    dollars_per_month: Amount | None = None
    team: Tag = Tag("")
    tags: tuple[Tag, ...] = ()
    vendor_ids: tuple[str, ...] = ()
    allowed_fields: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()

    @property
    def is_limited(self) -> bool:
        """Whether the models or the budget of the key are limited."""
        return bool(self.models or self.has_budget)

    @property
    def has_budget(self) -> bool:
        """Whether the dollars of the key are limited."""
        return bool(self.dollars_per_day or self.dollars_per_month)


@define(frozen=True, kw_only=True)
class Price:
    """US dollars for a million tokens of a model. Cache tokens cost `input` by default.

    These go before the catalogue's prices. Models that cost nothing have `input` and `output` of 0.
    """

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None


@define(frozen=True, kw_only=True)
class RequestGuard:
    """A check of requests before they go out to a vendor, for the keys and routes that name it.

    `redact` are regular expressions; each match is replaced with `replacement`. `block` are
    words, in any case, that refuse a request. `max_prompt_tokens` is the longest prompt, estimated.
    `plugin` names an installed plugin of the group `swink.guards`, and `settings` are for it. A
    request that a guard cannot check is refused.
    """

    redact: tuple[Pattern, ...] = ()
    replacement: str = "[removed]"
    block: tuple[str, ...] = ()
    max_prompt_tokens: Count | None = None
    plugin: str | None = None
    settings: Settings = field(factory=lambda: Settings({}), repr=False)


@define(frozen=True, kw_only=True)
class Config:
    """What a file says.

    `aliases` are other names of routes and models, `routes` names with a chain of models each,
    `rules` decide by what a request asks for, `keys` are those that clients show, by the names of
    their owners, `prices` by patterns of `provider/model` go before the catalogue's (the first that
    fits counts), `guards` check requests of keys and routes that name them, and `store` is where
    limits and the ledger are kept. A streamed answer's status
    waits for the provider's first words or failure, but no longer than `head_wait` seconds; from
    then on the client gets signs of life.
    """

    head_wait: Amount = Amount(10.0)

    aliases: Mapping[str, str] = field(factory=dict)
    routes: Mapping[str, Route] = field(factory=dict)
    rules: tuple[Rule, ...] = ()
    keys: Mapping[str, Key] = field(factory=dict)
    prices: Mapping[str, Price] = field(factory=dict)
    guards: Mapping[str, RequestGuard] = field(factory=dict)
    store: Store = field(factory=Store)
