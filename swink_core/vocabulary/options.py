"""The options of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypedDict, get_origin

from attrs import define, field, fields_dict
from msgspec import Meta

from swink_core.vocabulary.checks import Checked
from swink_core.vocabulary.messages import Block, Tool
from swink_core.vocabulary.outcome import StreamErrorKind

Transport: TypeAlias = Literal["auto", "sse", "websocket", "buffered"]

MalformedPolicy: TypeAlias = Literal["read_on", "skip", "fail"]


class ThinkingLevel(StrEnum):
    """How hard a model should reason. Providers accept a name or a token budget."""

    OFF = "off"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    EXTRA_HIGH = "extra_high"

    @classmethod
    def of_budget(cls, tokens: int) -> ThinkingLevel:
        """Return the smallest level whose budget covers `tokens`."""
        if tokens <= 0:
            return cls.OFF
        return next((lv for lv, most in THINKING_BUDGETS.items() if tokens <= most), cls.EXTRA_HIGH)


THINKING_BUDGETS: dict[ThinkingLevel, int] = {
    ThinkingLevel.MINIMAL: 1024,
    ThinkingLevel.LOW: 2048,
    ThinkingLevel.MEDIUM: 5000,
    ThinkingLevel.HIGH: 10000,
    ThinkingLevel.EXTRA_HIGH: 20000,
}
"""The token budget for each level, for models whose API takes a number of tokens."""


PositiveInt: TypeAlias = Annotated[int, Meta(gt=0)]

NonNegativeInt: TypeAlias = Annotated[int, Meta(ge=0)]

TokenCount: TypeAlias = Annotated[int, Meta(ge=0, description="0 or more tokens, or a level")]

NonNegativeFloat: TypeAlias = Annotated[float, Meta(ge=0)]

PositiveFloat: TypeAlias = Annotated[float, Meta(gt=0)]

HttpUrl: TypeAlias = Annotated[
    str, Meta(pattern="^https?://", description="an address that begins with http:// or https://")
]


@define(frozen=True)
class CacheStrategy(Checked):
    """Prompt caching. `ttl` is the lifetime of the cache in seconds (`None`: the API's default)."""

    mode: Literal["none", "auto"] = "auto"
    ttl: PositiveInt | None = None


@define(frozen=True, kw_only=True)
class Timeouts(Checked):
    """Time limits in seconds; `None` means no limit. Exceeding a limit closes the connection.

    `connect` limits the time for connecting. `first_event` limits the time from the start of an
    attempt to its first event; headers, comments and chunks without content are not events. After
    the first event, `idle` limits the time between network reads, and `no_progress` the time
    between events, even if keep-alive comments arrive in between. `total` limits the whole call. In
    the own options of a model in a fallback chain, `total` replaces the client's default and limits
    only all attempts with this model, from the beginning of the first one; then the next model is
    tried. The `total` of the call applies in addition. If `min_chars_per_second` is set, an answer
    with fewer characters per second over `window` seconds times out, too. A limit of 100 seconds or
    more may take effect up to a second late.
    """

    connect: PositiveFloat | None = 10.0
    first_event: PositiveFloat | None = 300.0
    idle: PositiveFloat | None = 300.0
    no_progress: PositiveFloat | None = 1800.0
    total: PositiveFloat | None = None
    min_chars_per_second: PositiveFloat | None = None
    window: PositiveFloat = 30.0


@define(frozen=True, kw_only=True)
class RetryPolicy(Checked):
    """When and how often failed attempts are retried.

    `retries` maps kinds of failure to the maximum number of retries on one model; the documentation
    of failures lists the defaults. `budget` is the maximum sum of the waits of a call, in seconds.
    The first wait is up to `base` seconds, and each further one up to `factor` times as long, at
    most `max_delay` seconds (exponential backoff with full jitter). If the provider sends a
    Retry-After of at most `retry_after_cap` seconds, swink waits for this time instead; a longer
    Retry-After ends the retries. `restart_after_output` allows retries even after content was
    delivered; a `Retry` event then tells the caller to discard the content. `fall_back_on` lists
    kinds of failure after which the next model of a fallback chain is tried although these kinds
    normally end the call. After `circuit_threshold` consecutive failed calls, a model is skipped
    for as long as the provider requested, or else for `circuit_cooldown` seconds.
    """

    retries: Mapping[StreamErrorKind, NonNegativeInt] = field(factory=dict)
    budget: NonNegativeFloat = 120.0
    base: NonNegativeFloat = 1.0
    factor: NonNegativeFloat = 2.0
    max_delay: NonNegativeFloat = 30.0
    retry_after_cap: NonNegativeFloat = 60.0
    restart_after_output: bool = False
    fall_back_on: frozenset[StreamErrorKind] = frozenset()
    circuit_threshold: PositiveInt = 5
    circuit_cooldown: NonNegativeFloat = 30.0

    @classmethod
    def none(cls) -> RetryPolicy:
        """Return a policy without retries."""
        return cls(retries=dict.fromkeys(StreamErrorKind, 0))


def _cache(value: Any) -> Any:
    return CacheStrategy(value) if value in ("none", "auto") else value


def _stop(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _thinking(value: Any) -> Any:
    """Convert a `thinking` object of Anthropic's Messages API to a value of swink's option.

    Source: Anthropic's API reference, `thinking` of Messages.
    """
    match value:
        case {"type": "enabled", "budget_tokens": int() as tokens}:
            return tokens
        case {"type": "disabled"}:
            return "off"
        case Mapping():
            raise ValueError(
                f"thinking={value!r}: write a level, as thinking='high', or a budget of tokens"
            )
    return value


def _choice(value: Any) -> Any:
    """Convert a `tool_choice` object of Chat Completions, Responses or Messages to swink's form.

    Sources: OpenAI's and Anthropic's API references, `tool_choice`.
    """
    match value:
        case {"type": "function", "function": {"name": str() as name}}:
            return name
        case {"type": "function" | "tool", "name": str() as name} if len(value) == 2:
            return name
        case {"type": "auto" | "none" as word} if len(value) == 1:
            return word
        case {"type": "any"} if len(value) == 1:
            return "required"
    return value


def _retry(value: Any) -> Any:
    return {False: RetryPolicy.none(), True: _POLICY}[value] if isinstance(value, bool) else value


def _format(value: Any) -> Any:
    """Convert OpenAI's forms of `response_format` to swink's; return a JSON schema unchanged.

    The `type` of OpenAI's forms is `json_object`, `json_schema` or `text`. JSON Schema has no such
    types, so a schema cannot be mistaken for one of these forms. The form's `name` and
    `description` become the title and the description of the schema. `strict` is dropped, because
    provider plugins use strict mode for every schema that strict mode accepts. Source: OpenAI's API
    reference, `response_format` of Chat Completions and `text.format` of Responses.
    """
    if isinstance(value, type) or get_origin(value) is not None:
        name = value.__name__ if isinstance(value, type) else repr(value)
        raise TypeError(
            f"response_format takes 'json' or a JSON schema, not the type {name}; call "
            f"answer(…, type={name}) of swink.Client or swink.SyncClient for an answer of this type"
        )
    if not isinstance(value, Mapping):
        return value
    match value.get("type"):
        case "text":
            return None
        case "json_object":
            return "json"
        case "json_schema":
            return _schema_in(value.get("json_schema", value))
    return value


def _schema_in(form: Any) -> Any:
    """Return the schema in OpenAI's `json_schema` object.

    The object's `name` and `description` become the title and the description of the schema.
    """
    schema = form.get("schema") if isinstance(form, Mapping) else None
    if not isinstance(schema, Mapping):
        raise TypeError("a response_format of type json_schema has no JSON schema under 'schema'")
    named = {"title": form.get("name"), "description": form.get("description")}
    return {**schema, **{key: text for key, text in named.items() if text}}


_TIMEOUTS = Timeouts()

_POLICY = RetryPolicy()


def _address(value: object) -> str:
    """Return a URL without its user information and query."""
    return "[hidden]" if {"@", "?"} & {*str(value)} else repr(value)


OptionKind: TypeAlias = Literal["tuning", "answer", "call", "provider", "conversation"]
"""The category of an option: see `Option`."""


def _option(
    kind: OptionKind, meaning: str, example: Any = None, *, local: bool = False
) -> dict[str, Any]:
    """Return the metadata of an option's field; see `Option`."""
    return {"kind": kind, "meaning": meaning, "example": example, "local": local}


@define(frozen=True, kw_only=True)
class StreamOptions(Checked):
    """The options of a call. `None` means that the option is not set, so that the provider decides.

    The table `OPTIONS` describes each field. The repr hides `api_key`, `headers` and the parts of
    `base_url` that may be secret. Raises ValueError for a value that no provider could accept.
    """

    none_is_default: ClassVar[bool] = True

    temperature: int | float | None = field(
        default=None,
        metadata=_option("tuning", "The sampling temperature; 0: the least random.", 0.2),
    )
    top_p: int | float | None = field(
        default=None,
        metadata=_option(
            "tuning", "Sample from the most likely tokens up to this total probability.", 0.9
        ),
    )
    top_k: int | None = field(
        default=None,
        metadata=_option("tuning", "Sample from this many of the most likely tokens.", 40),
    )
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = field(
        default=None,
        metadata=_option(
            "tuning",
            "Ignore tokens below this fraction of the most likely one's probability.",
            0.05,
        ),
    )
    presence_penalty: int | float | None = field(
        default=None,
        metadata=_option("tuning", "Penalize tokens that have occurred already.", 0.5),
    )
    frequency_penalty: int | float | None = field(
        default=None,
        metadata=_option("tuning", "Penalize tokens by how often they have occurred.", 0.5),
    )
    max_tokens: PositiveInt | None = field(
        default=None,
        metadata=_option("tuning", "The largest number of tokens to generate.", 1000),
    )
    stop: tuple[str, ...] = field(
        default=(),
        converter=_stop,
        metadata=_option(
            "answer", "Stop sequences: texts at which the answer ends; a string is one.", ("END",)
        ),
    )
    seed: int | None = field(
        default=None,
        metadata=_option("tuning", "The seed for sampling, to repeat an answer.", 7),
    )
    session_id: str | None = field(
        default=None,
        metadata=_option(
            "tuning", "The id of a session, which helps to find its cached prompt.", "s-1"
        ),
    )
    user: str | None = field(
        default=None,
        metadata=_option(
            "tuning", "The id of the end user, so that the provider can tell users apart.", "u"
        ),
    )
    transport: Transport = field(
        default="auto",
        metadata=_option(
            "call",
            "How the answer is sent; `buffered`: in one response without streaming.",
            "buffered",
        ),
    )
    thinking: ThinkingLevel | TokenCount | None = field(
        default=None,
        converter=_thinking,
        metadata=_option("tuning", "The reasoning effort: a level, or a token budget.", "low"),
    )
    tool_choice: str | None = field(
        default=None,
        converter=_choice,
        metadata=_option("answer", "`auto`, `none`, `required` or the name of a tool.", "required"),
    )
    parallel_tool_calls: bool | None = field(
        default=None,
        metadata=_option("tuning", "Whether an answer may call several tools.", False),
    )
    response_format: Literal["json"] | Mapping[str, Any] | None = field(
        default=None,
        converter=_format,
        metadata=_option(
            "answer", "`json` or a JSON schema, or Chat Completions' dictionary for one.", "json"
        ),
    )
    cache: CacheStrategy | None = field(
        default=None,
        converter=_cache,
        metadata=_option("tuning", "Whether and for how long to cache the prompt.", "auto"),
    )
    api_key: str | None = field(
        default=None,
        repr=False,
        metadata=_option("provider", "The API key; `None`: from the environment.", local=True),
    )
    base_url: HttpUrl | None = field(
        default=None,
        repr=_address,
        metadata=_option("provider", "The base URL; `None`: the provider's.", local=True),
    )
    headers: Mapping[str, str] = field(
        factory=dict,
        repr=False,
        metadata=_option("provider", "HTTP headers to add or replace.", local=True),
    )
    timeouts: Timeouts = field(
        default=_TIMEOUTS, metadata=_option("call", "Limits in seconds.", local=True)
    )
    retry: RetryPolicy = field(
        default=_POLICY,
        converter=_retry,
        metadata=_option("call", "When failed attempts are retried; `False`: never.", local=True),
    )
    malformed: MalformedPolicy | None = field(
        default=None,
        metadata=_option(
            "call",
            "After a damaged frame, read on and fail at the end (`read_on`), accept the rest as "
            "the answer (`skip`), or fail at once (`fail`).",
            "skip",
        ),
    )
    max_output_chars: PositiveInt | None = field(
        default=32 * 1024 * 1024,
        metadata=_option(
            "call",
            "The largest size of an answer, in characters, checked after each network read, which "
            "may bring tens of thousands more; `None`: no limit.",
            local=True,
        ),
    )
    rules: bool = field(
        default=True,
        metadata=_option("call", "Whether the rules of models may change, omit or reject options."),
    )
    retired: bool = field(
        default=False,
        metadata=_option(
            "call",
            "Whether to send requests to a retired model; all other rules still apply.",
        ),
    )
    download_media: bool = field(
        default=False,
        metadata=_option(
            "call",
            "Whether to download media given by a URL, for APIs that accept only data; only from "
            "public hosts.",
            local=True,
        ),
    )
    settings: Mapping[str, Any] = field(
        factory=dict,
        repr=False,
        metadata=_option("provider", "Settings that the provider's adapter declares."),
    )
    extra: Mapping[str, Any] = field(
        factory=dict, repr=False, metadata=_option("provider", "Further fields of the request.")
    )

    @property
    def thinking_budget(self) -> int | None:
        """The reasoning budget in tokens: 0 for off, `None` if not set."""
        if isinstance(self.thinking, ThinkingLevel):
            return THINKING_BUDGETS.get(self.thinking, 0)
        return self.thinking

    @property
    def thinking_level(self) -> ThinkingLevel | None:
        """The thinking level; for a token budget, the smallest level that covers it.

        `None` if the option is not set.
        """
        if isinstance(self.thinking, int):
            return ThinkingLevel.of_budget(self.thinking)
        return self.thinking

    @classmethod
    def names(cls) -> frozenset[str]:
        """Return the names of all options."""
        return frozenset(fields_dict(cls))


LevelWord: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "extra_high"]


class ClientOptions(TypedDict, total=False):
    """The options of a client, as keyword arguments: see `StreamOptions`; `None` means the default.

    `timeout=30` is short for `timeouts=Timeouts(total=30)`.
    """

    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    max_tokens: int | None
    stop: str | Sequence[str] | None
    seed: int | None
    session_id: str | None
    user: str | None
    transport: Transport | None
    thinking: ThinkingLevel | LevelWord | int | None
    tool_choice: str | None
    parallel_tool_calls: bool | None
    response_format: Literal["json"] | Mapping[str, Any] | None
    cache: CacheStrategy | Literal["none", "auto"] | None
    timeouts: Timeouts | None
    timeout: float | None
    retry: RetryPolicy | bool | None
    malformed: MalformedPolicy | None
    max_output_chars: int | None
    rules: bool | None
    retired: bool | None
    download_media: bool | None


class TargetOptions(ClientOptions, total=False):
    """The options that can be set for one model of a fallback chain."""

    api_key: str | None
    base_url: str | None
    headers: Mapping[str, str] | None
    settings: Mapping[str, Any] | None
    extra: Mapping[str, Any] | None


class Options(TargetOptions, total=False):
    """All keyword arguments of a call: additions to the conversation, and options."""

    system_prompt: str | Sequence[str | Block] | None
    tools: Sequence[Tool] | None
