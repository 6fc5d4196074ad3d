"""What is asked for: a model, and how it should answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from math import isfinite
from typing import Any, Literal, TypeAlias

from attrs import define, field, fields_dict
from attrs.validators import optional

from swink_core.vocabulary.outcome import StreamErrorKind

Transport: TypeAlias = Literal["auto", "sse", "websocket", "buffered"]

MalformedPolicy: TypeAlias = Literal["read_on", "skip", "fail"]


class ThinkingLevel(StrEnum):
    """How hard a model should reason, for providers that take a word or a token budget."""

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
"""Tokens of reasoning that a level stands for where a provider wants a number."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _number(_: Any, attribute: Any, value: Any) -> None:
    if value is not None and not _is_number(value):
        raise TypeError(f"{attribute.name} is a number, not {value!r}")


def _count(_: Any, attribute: Any, value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise TypeError(f"{attribute.name} is a positive whole number, not {value!r}")


def _seconds(_: Any, attribute: Any, value: Any) -> None:
    if value is not None and not (_is_number(value) and value > 0):
        raise TypeError(f"{attribute.name} is a number of seconds above 0, or None, not {value!r}")


def _above_zero(_: Any, attribute: Any, value: Any) -> None:
    if not (_is_number(value) and value > 0):
        raise TypeError(f"{attribute.name} is a number above 0, not {value!r}")


def _at_least_zero(_: Any, attribute: Any, value: Any) -> None:
    if not (_is_number(value) and value >= 0):
        raise TypeError(f"{attribute.name} is a number of at least 0, not {value!r}")


def _of(*types: type) -> Any:
    def check(_: Any, attribute: Any, value: Any) -> None:
        fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
        if value is not None and not fits:
            names = " or ".join(t.__name__ for t in types)
            raise TypeError(f"{attribute.name} is {names}, not {value!r}")

    return check


def _given(check: Any) -> Any:
    """Check what may not be `None` either."""

    def given(_: Any, attribute: Any, value: Any) -> None:
        if value is None:
            raise TypeError(f"{attribute.name} is not None")
        check(_, attribute, value)

    return given


def _unquoted(kind: type) -> Any:
    """Check what may hold a secret, and so must not be quoted."""

    def check(_: Any, attribute: Any, value: Any) -> None:
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{attribute.name} is {kind.__name__}, not {type(value).__name__}")

    return check


def _headers(_: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, Mapping) or not all(
        isinstance(part, str) for pair in value.items() for part in pair
    ):
        raise TypeError(f"{attribute.name} is a mapping of strings to strings")


def _one_of(*allowed: str) -> Any:
    def check(_: Any, attribute: Any, value: Any) -> None:
        if value is not None and value not in allowed:
            raise ValueError(f"{attribute.name} is one of {', '.join(allowed)}, not {value!r}")

    return check


@define(frozen=True)
class CacheStrategy:
    """Whether prompt caching is asked for, and for how long (`ttl` in seconds; `None`: default)."""

    mode: Literal["none", "auto"] = field(default="auto", validator=_given(_one_of("none", "auto")))
    ttl: int | None = field(default=None, validator=_count)


def _retries(_: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{attribute.name} is Mapping, not {value!r}")
    for kind, count in value.items():
        StreamErrorKind(kind)
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise TypeError(f"{attribute.name} of {kind} is a whole number, not {count!r}")


def _thinking(value: Any) -> ThinkingLevel | int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    try:
        return ThinkingLevel(value)
    except ValueError:
        levels = ", ".join(ThinkingLevel)
        raise ValueError(
            f"thinking is one of {levels}, or a number of tokens, not {value!r}"
        ) from None


def _cache(value: Any) -> CacheStrategy | None:
    if value is None or isinstance(value, CacheStrategy):
        return value
    if value in ("none", "auto"):
        return CacheStrategy(value)
    raise ValueError(f"cache is none, auto or a CacheStrategy, not {value!r}")


def _stop(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise TypeError(f"stop is a string or a list of strings, not {value!r}")


@define(frozen=True, kw_only=True)
class Timeouts:
    """Limits in seconds; `None` disables one. Each closes the connection when it passes.

    `first_event` runs from the start of an attempt to its first event, `idle` between network
    reads, `no_progress` between events (keep-alive comments do not count), `total` over the
    whole call. With `min_chars_per_second`, an answer that stays slower over `window` seconds
    has timed out too.
    """

    connect: float | None = field(default=10.0, validator=_seconds)
    first_event: float | None = field(default=300.0, validator=_seconds)
    idle: float | None = field(default=300.0, validator=_seconds)
    no_progress: float | None = field(default=1800.0, validator=_seconds)
    total: float | None = field(default=None, validator=_seconds)
    min_chars_per_second: float | None = field(default=None, validator=optional(_above_zero))
    window: float = field(default=30.0, validator=_above_zero)


def _kinds(value: Iterable[StreamErrorKind | str]) -> frozenset[StreamErrorKind]:
    return frozenset(map(StreamErrorKind, value))


@define(frozen=True, kw_only=True)
class RetryPolicy:
    """When a failed attempt is made again.

    `retries`, per kind of failure and per target, names only kinds for which it is not what
    docs/reference/failures.md says. `budget` bounds the waits of a call, together, in seconds.
    The wait grows from `base` by `factor` to `max_delay`, with full jitter; a provider's Retry-
    After wins up to `retry_after_cap`, beyond which the failure is final. `restart_after_output`
    allows a restart, announced by a `Retry` event, after the caller has been handed content. In a
    chain of models, the kinds in `fall_back_on` let the next one be tried, which would end it;
    one that failed `circuit_threshold` times in a row is passed over for `circuit_cooldown`
    seconds.
    """

    retries: Mapping[StreamErrorKind, int] = field(factory=dict, validator=_retries)
    budget: float = field(default=120.0, validator=_at_least_zero)
    base: float = field(default=1.0, validator=_at_least_zero)
    factor: float = field(default=2.0, validator=_at_least_zero)
    max_delay: float = field(default=30.0, validator=_at_least_zero)
    retry_after_cap: float = field(default=60.0, validator=_at_least_zero)
    restart_after_output: bool = field(default=False, validator=_given(_of(bool)))
    fall_back_on: frozenset[StreamErrorKind] = field(default=frozenset(), converter=_kinds)
    circuit_threshold: int = field(default=5, validator=_given(_count))
    circuit_cooldown: float = field(default=30.0, validator=_at_least_zero)

    @classmethod
    def none(cls) -> RetryPolicy:
        """Return the policy that makes every call once."""
        return cls(retries=dict.fromkeys(StreamErrorKind, 0))


def _transport(value: Transport | None) -> Transport:
    return "auto" if value is None else value


def _mapping(value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {} if value is None else value


_TIMEOUTS = Timeouts()

_POLICY = RetryPolicy()


def _address(value: str | None) -> str:
    """Show an address that holds no user information and no query."""
    return "[hidden]" if value and {"@", "?"} & {*value} else repr(value)


def _timeouts(value: Timeouts | None) -> Timeouts:
    return _TIMEOUTS if value is None else value


def _policy(value: RetryPolicy | None) -> RetryPolicy:
    return _POLICY if value is None else value


@define(frozen=True, kw_only=True)
class StreamOptions:
    """How the model should answer; `None` leaves a choice to the provider.

    `thinking` is a level or a budget of tokens; `tool_choice` is `auto`, `none`, `required` or a
    tool's name; `response_format` is `json` or a JSON schema; `user` names whoever asks, for the
    provider to tell its users' users apart; `malformed` is what follows from a damaged frame: the
    rest is read and the attempt fails at its end (`read_on`), the rest is the answer (`skip`), or
    the attempt fails at once (`fail`); `max_output_chars` bounds the answer's size in characters;
    `settings` steer the provider's adapter, which declares them, and `extra` is fields of the
    request body (docs/reference/extra-and-settings.md). `api_key`, `headers` and what may be secret
    in `base_url` never show in a repr. Raises TypeError or ValueError for a value that no provider
    could take.
    """

    temperature: float | None = field(default=None, validator=_number)
    top_p: float | None = field(default=None, validator=_number)
    top_k: int | None = field(default=None, validator=_of(int))
    presence_penalty: float | None = field(default=None, validator=_number)
    frequency_penalty: float | None = field(default=None, validator=_number)
    max_tokens: int | None = field(default=None, validator=_count)
    stop: tuple[str, ...] = field(default=(), converter=_stop)
    seed: int | None = field(default=None, validator=_of(int))
    session_id: str | None = field(default=None, validator=_of(str))
    user: str | None = field(default=None, validator=_of(str))
    transport: Transport = field(
        default="auto",
        converter=_transport,
        validator=_one_of("auto", "sse", "websocket", "buffered"),
    )
    thinking: ThinkingLevel | int | None = field(default=None, converter=_thinking)
    tool_choice: str | None = field(default=None, validator=_of(str))
    parallel_tool_calls: bool | None = field(default=None, validator=_of(bool))
    response_format: str | Mapping[str, Any] | None = field(default=None)
    cache: CacheStrategy | None = field(default=None, converter=_cache)
    api_key: str | None = field(default=None, repr=False, validator=_unquoted(str))
    base_url: str | None = field(default=None, validator=_unquoted(str), repr=_address)
    headers: Mapping[str, str] = field(
        factory=dict, converter=_mapping, validator=_headers, repr=False
    )
    timeouts: Timeouts = field(default=_TIMEOUTS, converter=_timeouts, validator=_of(Timeouts))
    retry: RetryPolicy = field(default=_POLICY, converter=_policy, validator=_of(RetryPolicy))
    malformed: MalformedPolicy | None = field(
        default=None, validator=_one_of("read_on", "skip", "fail")
    )
    max_output_chars: int | None = field(default=32 * 1024 * 1024, validator=_count)
    settings: Mapping[str, Any] = field(
        factory=dict, converter=_mapping, validator=_unquoted(Mapping), repr=False
    )
    extra: Mapping[str, Any] = field(
        factory=dict, converter=_mapping, validator=_unquoted(Mapping), repr=False
    )

    @response_format.validator
    def _check_response_format(self, _: Any, value: Any) -> None:
        if not (value is None or value == "json" or isinstance(value, Mapping)):
            raise ValueError(f"response_format is json or a JSON schema, not {value!r}")

    @base_url.validator
    def _check_base_url(self, _: Any, value: Any) -> None:
        if value is not None and not str(value).startswith(("http://", "https://")):
            raise ValueError(f"base_url begins with http:// or https://, not {_address(value)}")

    @property
    def thinking_budget(self) -> int | None:
        """Tokens of reasoning: 0 for off, `None` where nothing was asked for."""
        if isinstance(self.thinking, ThinkingLevel):
            return THINKING_BUDGETS.get(self.thinking, 0)
        return self.thinking

    @property
    def thinking_level(self) -> ThinkingLevel | None:
        """A level, that nearest a budget; `None` where nothing was asked for."""
        if isinstance(self.thinking, int):
            return ThinkingLevel.of_budget(self.thinking)
        return self.thinking

    @classmethod
    def names(cls) -> frozenset[str]:
        """Return the names of all options."""
        return frozenset(fields_dict(cls))
