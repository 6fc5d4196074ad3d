"""The catalogue's classes: models, providers and rules.

The entries of a `models.toml` are decoded into these classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Literal, TypeAlias

import msgspec
from attrs import define, field

from swink_core.vocabulary.options import StreamOptions, ThinkingLevel
from swink_core.vocabulary.prices import Prices
from swink_core.vocabulary.tokens import MediaTokens


class ModelInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The catalogue entry of a model. `None` means unknown.

    `capabilities` names features (`tools`, `images`, `documents`, `audio`, `thinking`,
    `structured_output`, `json`); `api` selects one of a provider's endpoints; `as_of` is the ISO
    date on which the entry was checked; limits are in tokens. `match` is a regular expression for
    other ids of the model, such as aliases and dated versions. `typical_output` is the number of
    tokens to reserve for an answer without `max_tokens`, and `output_rate` the number of output
    tokens per second. `media` replaces the provider's rules for the tokens of media.
    """

    id: str
    provider: str = ""
    name: str | None = None
    context_window: int | None = None
    max_output: int | None = None
    capabilities: frozenset[str] | None = None
    status: str = "active"
    prices: Prices | None = None
    api: str | None = None
    as_of: str | None = None
    extra: Mapping[str, Any] = {}
    match: str | None = None
    typical_output: int | None = None
    output_rate: float | None = None
    media: MediaTokens | None = None


SettingType: TypeAlias = Literal["string", "integer", "boolean", "strings", "any"] | tuple[str, ...]
"""The type of a setting; `strings` is a list of strings, and a tuple lists the allowed values."""


COUNTED = frozenset({"tools", "documents"})
"""Names for which `Rule.most` limits a number of items: tools and documents of a call."""


class Rule(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True, kw_only=True):
    """A rule about the options and content that some models support.

    Values without a rule are sent unchanged.

    Selection: the rule applies to models of `providers` (empty: all) whose id matches the pattern
    `match` and not the pattern `unless`, and to calls over one of `apis` (empty: any). A rule with
    `when` applies to calls in which each named feature or option has one of the listed states:
    `set`, `unset`, or a value; for thinking also `on` and, for a number, `tokens`; for
    `tool_choice` also `forced`. A later rule replaces an earlier rule with the same `name`.

    Effect: `takes` states for a feature, an option or a form of the call (`prefill`, `call_first`,
    …) whether it is supported, or which values are supported. `least` and `most` limit numeric
    options; `most` also limits the length of texts and lists, and the number of `tools` and
    `documents`. `change` replaces values of options. `efforts` are the names of thinking levels,
    `budget` is the minimum and maximum of thinking tokens, `tool_name` is the pattern of valid tool
    names, `schema` lists keywords that the root of a tool's schema must not contain, and `api` is
    the API to use. `retires` is the ISO date of the model's retirement, and `successor` is the
    model that replaces it. `facts` are data for the provider's plugin.

    `as_of` is the ISO date on which the rule was checked. A date of retirement counts as confirmed
    if the rule was checked on that day or later.
    """

    name: str = ""
    match: str = ""
    unless: str | None = None
    providers: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    when: Mapping[str, tuple[str | int | float | bool, ...]] = {}
    takes: Mapping[str, bool | tuple[str | int | float | bool, ...]] = {}
    least: Mapping[str, int | float] = {}
    most: Mapping[str, int | float] = {}
    change: Mapping[str, Any] = {}
    efforts: Mapping[ThinkingLevel, str] = {}
    budget: tuple[int, int] | None = None
    tool_name: str | None = None
    schema: tuple[str, ...] = ()
    api: str | None = None
    retires: str = ""
    successor: str = ""
    facts: Mapping[str, Any] = {}
    as_of: str = ""

    def __post_init__(self) -> None:
        for pattern in (self.match, self.unless, self.tool_name):
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise ValueError(f"{self.name} {pattern!r}: {error}") from error
        date.fromisoformat(self.retires or "2000-01-01")
        date.fromisoformat(self.as_of or "2000-01-01")
        bounds = (
            (name, min(bound, 0) or None)
            for name, bound in {**self.least, **self.most}.items()
            if name not in COUNTED
        )
        if options := {**dict(bounds), **self.change}:
            StreamOptions(**options)  # raises for options that no call can have


class ProviderInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The data of a provider's package, available without importing the plugin.

    `api_key_env` and `base_url_env` list environment variables; the first that is set is used.
    `auth` is `key`, `optional`, `none`, or a provider-specific word. `portal` is the web page on
    which API keys are created, and `key_prefixes` are prefixes that only keys of this provider
    have. `settings` are the keys and types of `StreamOptions.settings` (`*` allows others).
    `continues` lists fields of `extra` by which a call continues a conversation that the provider
    stores. `required_env` lists variables that every call needs. `media` contains the rules for the
    tokens of images, audio and documents.
    """

    name: str
    title: str = ""
    wire_format: str = ""
    base_url: str | None = None
    api_key_env: tuple[str, ...] = ()
    base_url_env: tuple[str, ...] = ()
    auth: str = "key"
    api_level: int = 1
    docs: str | None = None
    portal: str | None = None
    dialect: Mapping[str, Any] = {}
    settings: Mapping[str, SettingType] = {}
    continues: tuple[str, ...] = ()
    required_env: tuple[str, ...] = ()
    key_prefixes: tuple[str, ...] = ()
    media: MediaTokens | None = None


@define(frozen=True)
class Model:
    """A model of a provider, written `provider/id`. `info` is `None` for an unlisted model.

    `info` is the model's catalogue entry, and `rules` are the catalogue's rules for its id, in the
    order in which they are applied. `Catalog.resolve` sets both.
    """

    provider: str
    id: str
    info: ModelInfo | None = field(default=None, eq=False, repr=False)
    rules: tuple[Rule, ...] = field(default=(), eq=False, repr=False)

    @classmethod
    def parse(cls, name: str) -> Model:
        """Split `provider/id` at the first slash. Raises ValueError for anything else."""
        provider, slash, model_id = name.partition("/")
        if not (provider and slash and model_id):
            raise ValueError(f"{name!r} is not a model name: write provider/id")
        return cls(provider, model_id)

    def __str__(self) -> str:
        return f"{self.provider}/{self.id}"

    def lacks(self, capability: str) -> bool:
        """Return True if the catalogue states that the model lacks this capability."""
        known = self.info.capabilities if self.info else None
        return known is not None and capability not in known
