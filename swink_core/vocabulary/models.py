"""The catalogue's classes: models, providers and rules.

The entries of a `models.toml` are decoded into these classes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import date
from typing import Any, Literal, TypeAlias

import msgspec
from attrs import define, field

from swink_core.vocabulary.option_table import TUNING
from swink_core.vocabulary.options import StreamOptions, ThinkingLevel
from swink_core.vocabulary.prices import Prices
from swink_core.vocabulary.tokens import MediaTokens


class ModelInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The catalogue entry of a model. `None` means unknown.

    `capabilities` lists the features that the model supports (`tools`, `images`, `documents`,
    `audio`, `thinking`, `structured_output`, `json`). `api` is the API to use, if the provider has
    several. `as_of` is the ISO date on which the entry was last checked. `context_window` and
    `max_output` are in tokens. `match` is a regular expression for other ids of the model, such as
    aliases and dated versions. `typical_output` is the number of output tokens that spending limits
    assume for a call without `max_tokens`, and `output_rate` is the number of output tokens per
    second. `media` contains rules for estimating the tokens of images, audio and documents, in
    place of the provider's rules.
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


FEATURES = (
    "assistant_audio", "assistant_documents", "assistant_images", "audio", "buffered_transport",
    "documents", "extensions", "extensions_of_others", "file_ids", "file_ids_of_others", "images",
    "json", "stop", "strict", "structured_output", "system_messages", "tool_choice", "tools",
    "websocket_transport",
)  # fmt: skip
"""The features that a call may use, if its API and its model support them."""

FORMS = (
    "prefill", "assistant_first", "call_first", "blank_end", "blank_stop", "recursive_schema",
    "root_schema", "trailing_space", "calls_apart",
)  # fmt: skip
"""The forms of a call that a rule may refuse."""

_TAKEN = frozenset({*FEATURES, *TUNING, *FORMS})

_NAMES = {"takes": _TAKEN, "when": _TAKEN | StreamOptions.names()}
"""The names that may occur in a rule's mappings."""

COUNTED = frozenset({"tools", "documents"})
"""For these names, `Rule.most` limits the number of tools or documents in a call."""


class Rule(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True, kw_only=True):
    """A rule about the options and content that certain models support.

    Options and content without a rule are sent unchanged.

    Selection: the rule applies to models of `providers` (empty: all) whose id matches the pattern
    `match` but not the pattern `unless`, and to calls over one of `apis` (empty: any). `when` maps
    features or options to lists of states. A rule with `when` applies to a call if each of these
    features or options is in a listed state: `set`, `unset`, or a value. Further states are `on`
    for thinking, `tokens` for thinking that is set to a number, and `forced` for `tool_choice`. A
    later rule replaces an earlier rule with the same `name`.

    Effect: `takes` maps a feature, an option or a form of the call (`prefill`, `call_first`, …) to
    whether it is supported, or to the supported values. `least` and `most` limit numeric options;
    `most` also limits the length of strings and lists, and the number of `tools` and `documents`.
    `change` replaces values of options. `efforts` maps thinking levels to the API's names for them,
    `budget` is the minimum and maximum of thinking tokens, `tool_name` is the pattern of valid tool
    names, `schema` lists keywords that the root of a tool's schema must not contain, and `api` is
    the API to use. `retires` is the ISO date of the model's retirement, and `successor` is the
    model that replaces it. `facts` is data that only the provider's plugin reads.

    `as_of` is the ISO date on which the rule was last checked. If this is the date of retirement or
    a later day, the retirement is confirmed, not just announced.
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
        for key, known in _NAMES.items():
            for name in getattr(self, key).keys() - known:
                raise ValueError(
                    f'the rule "{self.name or self.match}" has "{name}" in `{key}`, which is '
                    f"unknown{_instead(name, known)}"
                )
        date.fromisoformat(self.retires or "2000-01-01")
        date.fromisoformat(self.as_of or "2000-01-01")
        bounds = (
            (name, min(bound, 0) or None)
            for name, bound in {**self.least, **self.most}.items()
            if name not in COUNTED
        )
        if options := {**dict(bounds), **self.change}:
            StreamOptions(**options)  # raises for options that no call can have


def _instead(name: str, known: Collection[str]) -> str:
    """Suggest the known name that is most similar to `name`, or list all known names."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f'; did you mean "{near[0]}"?' if near else f"; there are {', '.join(sorted(known))}"


class ProviderInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The data of a provider's package, available without importing the plugin.

    `api_key_env` and `base_url_env` list environment variables; the first that is set is used.
    `auth` says whether calls need an API key: `key`, `optional`, `none`, or a word that only this
    provider uses. `portal` is the web page on which API keys are created, and `key_prefixes` are
    prefixes that only keys of this provider have. `settings` contains the type of each key that is
    allowed in the option `settings`; the key `*` allows any others. `continues` lists fields of
    `extra`: a call with one of these fields continues a conversation that the provider stores.
    `required_env` lists environment variables that every call needs. `media` contains rules for
    estimating the tokens of images, audio and documents. `runs_commands` is true if a call runs a
    program on this machine that can read files or run commands: a gateway then serves the provider
    only in routes.
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
    runs_commands: bool = False


@define(frozen=True)
class Model:
    """A model of a provider, written `provider/id`.

    `info` is the model's catalogue entry, or `None` if the catalogue does not list the model.
    `rules` are the catalogue's rules for its id, in the order in which they are applied.
    `Catalog.resolve` sets both.
    """

    provider: str
    id: str
    info: ModelInfo | None = field(default=None, eq=False, repr=False)
    rules: tuple[Rule, ...] = field(default=(), eq=False, repr=False)

    @classmethod
    def parse(cls, name: str) -> Model:
        """Parse `provider/id`; the id may contain slashes. Raises ValueError for other names."""
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
