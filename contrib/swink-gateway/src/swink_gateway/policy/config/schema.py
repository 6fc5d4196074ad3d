"""The classes of a configuration; their docstrings are the reference of the TOML file."""

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
"""A number greater than 0."""

Dollars = NewType("Dollars", float)
"""A number greater than or equal to 0."""

Count = NewType("Count", int)
"""A whole number greater than 0."""

Options = NewType("Options", dict[str, Any])
"""Options of a call, named as in `StreamOptions`."""

Digest = NewType("Digest", bytes)
"""The SHA-256 digest of a key."""

Tag = NewType("Tag", str)
"""A tag or team in the ledger: at most 64 letters, digits and `-_.:/@`."""

Pattern = NewType("Pattern", str)
"""A Python regular expression."""

Settings = NewType("Settings", dict[str, Any])
"""Settings of a plugin, by name."""

OptionName = NewType("OptionName", str)
"""The name of an option that a client may set, or `tools`."""

OPTION_NAMES = frozenset(ClientOptions.__annotations__) - {"timeout", "timeouts", "retry"} | {
    "tools"
}


@define(frozen=True, kw_only=True)
class Upstream:
    """A model in a tier of a route.

    `model` is `provider/model`, or a bare name that exactly one provider lists. `weight` determines
    how often this model is tried first, relative to the other models of the tier. `options`
    override those of the route, and may include `api_key` and `base_url`.
    """

    model: str
    weight: Amount = Amount(1.0)
    options: Options = field(factory=lambda: Options({}), repr=False)


@define(frozen=True, kw_only=True)
class Transforms:
    """Changes to a request before it is forwarded.

    `system_prompt` is inserted before the client's own instructions. `defaults` are options for
    requests that do not set them. `leave_out` lists options of the client to drop; in this list,
    `tools` drops all tools of the client, and `cache` also its cache marks. `max_tokens` is the
    maximum length of an answer in tokens, also for requests without `max_tokens` and for `options`
    of the route and its models. With `leave_out` or `max_tokens`, further data is dropped, because
    a client could set the same values in it: the option `extra`, body fields that the gateway does
    not know, and the vendors' fields for these options, such as `reasoning` and
    `output_config.effort` for `thinking`.
    """

    system_prompt: str | None = None
    defaults: Options = field(factory=lambda: Options({}), repr=False)
    leave_out: tuple[OptionName, ...] = ()
    max_tokens: Count | None = None


@define(frozen=True, kw_only=True)
class Route:
    """A name that clients may request, and the models behind it.

    `tiers` are tried in order until one succeeds. A tier is one model or a list. Within a list, the
    model to try first is chosen at random according to `weight`; the other models follow. `options`
    apply to all models and override the client's. `time_limits` are in seconds; `false` disables
    one. `guards` are the names of the guards of the route.
    """

    tiers: tuple[tuple[Upstream, ...], ...]
    options: Options = field(factory=lambda: Options({}), repr=False)
    time_limits: Timeouts | None = None
    transforms: Transforms = field(factory=Transforms)
    guards: tuple[str, ...] = ()


@define(frozen=True, kw_only=True)
class When:
    """Conditions of a rule; all of them must hold.

    `models` are patterns of the requested names. For `thinking`, `tools` and `web_search`, `true`
    matches requests that use the feature, and `false` requests that do not; tools that run on a
    vendor's servers do not count as `tools`. `longer_than` matches requests with more than this
    estimated number of tokens. `background` matches the auxiliary requests of agents, for example
    for the title or a summary of a conversation; such requests have no tools.
    """

    models: tuple[str, ...] = ()
    thinking: bool | None = None
    tools: bool | None = None
    web_search: bool | None = None
    longer_than: Count | None = None
    background: bool | None = None


@define(frozen=True, kw_only=True)
class Rule:
    """A rule that routes matching requests; the first rule that matches decides.

    `to` is a route, an alias or a model.
    """

    when: When
    to: str


@define(frozen=True, kw_only=True)
class Key:
    """A client's key and its limits. A limit that is left out does not apply.

    `key` is `"sha256:…"`, the SHA-256 digest of the key in hexadecimal, or `"${NAME}"`, the
    environment variable that contains the key; a list contains several keys, which share the
    limits. Only the variable `SWINK_GATEWAY_KEY` may contain several keys, separated by spaces.
    `models` are patterns of the names that the key may request. A key with `operator` may read the
    metrics, the feed of calls and the spending of all keys. Token limits count prompts and answers.
    Days and months are in UTC. A key with a budget cannot use models without a price: see `prices`.
    The ledger records the key's `team` and `tags`, and the tags in the `x-swink-tags` header of a
    request.

    All keys share the operator's accounts at the vendors. `vendor_ids` are patterns of ids (of
    files, vector stores, containers and conversations) that the key may use, in addition to the ids
    in its own answers. If a key has limited models or a budget, the gateway refuses request fields
    that it does not know, except those in `allowed_fields`. If a key has a budget, the gateway also
    refuses a vendor's tool if the vendor does not report the tool's fee, unless `allowed_fields`
    contains `tools.TYPE`. `guards` are the names of the guards that check the requests of the key.
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
        """Whether the key has a budget or a limited list of models."""
        return bool(self.models or self.has_budget)

    @property
    def has_budget(self) -> bool:
        """Whether the key has a budget in dollars."""
        return bool(self.dollars_per_day or self.dollars_per_month)


@define(frozen=True, kw_only=True)
class Price:
    """Prices in US dollars per million tokens. Cache prices that are left out equal `input`.

    These prices override those in the catalog. If `input` is twice the catalog's price, for
    example, the prices for long prompts, service tiers and regions double too. The catalog's prices
    of images and sound, and its fees, stay the same. `search` is the fee for one search by a tool
    of the vendor, in US dollars. For free models, set `input` and `output` to 0.
    """

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    search: Dollars | None = None


@define(frozen=True, kw_only=True)
class RequestGuard:
    """A check of requests before they are sent to a vendor, used by keys and routes that name it.

    `redact` are regular expressions; each match is replaced with `replacement`. A request that
    contains one of the words in `block`, in upper or lower case, is refused. `max_prompt_tokens` is
    the maximum length of a prompt in estimated tokens. `plugin` names an installed plugin of the
    group `swink.guards`, and `settings` are passed to it. A request that a guard cannot check is
    refused.
    """

    redact: tuple[Pattern, ...] = ()
    replacement: str = "[removed]"
    block: tuple[str, ...] = ()
    max_prompt_tokens: Count | None = None
    plugin: str | None = None
    settings: Settings = field(factory=lambda: Settings({}), repr=False)


@define(frozen=True, kw_only=True)
class Config:
    """The configuration of a gateway.

    `aliases` are other names for routes and models. `routes` are names for fallback chains of
    models. `rules` choose a route by the properties of a request. `keys` are clients' keys by the
    names of their owners. `prices` maps patterns of `provider/model` to prices, which override the
    catalog's; the first pattern that matches applies. `guards` check requests before they are sent
    to a vendor. `store` is where limits and the ledger are kept. For a streamed answer, the gateway
    sends the HTTP status after the provider's first output or failure, or after `head_wait`
    seconds; after that, it sends keep-alives until output arrives.
    """

    head_wait: Amount = Amount(10.0)

    aliases: Mapping[str, str] = field(factory=dict)
    routes: Mapping[str, Route] = field(factory=dict)
    rules: tuple[Rule, ...] = ()
    keys: Mapping[str, Key] = field(factory=dict)
    prices: Mapping[str, Price] = field(factory=dict)
    guards: Mapping[str, RequestGuard] = field(factory=dict)
    store: Store = field(factory=Store)
