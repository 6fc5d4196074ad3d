"""Options that some provider could take, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import (
    CacheStrategy,
    RetryPolicy,
    StreamErrorKind,
    StreamOptions,
    ThinkingLevel,
    Timeouts,
)
from swink_core.providers import THINKING_BUDGETS

# (option, value as given, value as kept)
TAKEN: list[tuple[str, Any, Any]] = [
    ("temperature", 0, 0),
    ("temperature", 1.5, 1.5),
    ("top_p", 0.9, 0.9),
    ("max_tokens", 1, 1),
    ("stop", "END", ("END",)),
    ("stop", ["a", "b"], ("a", "b")),
    ("stop", (), ()),
    ("seed", 0, 0),
    ("seed", -1, -1),
    ("session_id", "s1", "s1"),
    ("transport", "buffered", "buffered"),
    ("thinking", "high", ThinkingLevel.HIGH),
    ("thinking", ThinkingLevel.OFF, ThinkingLevel.OFF),
    ("thinking", 0, 0),
    ("thinking", 2000, 2000),
    ("tool_choice", "required", "required"),
    ("tool_choice", "weather", "weather"),
    ("parallel_tool_calls", False, False),
    ("response_format", "json", "json"),
    ("response_format", {"type": "object"}, {"type": "object"}),
    ("cache", "none", CacheStrategy("none")),
    ("cache", CacheStrategy("auto", 3600), CacheStrategy("auto", 3600)),
    ("api_key", "key", "key"),
    ("base_url", "http://localhost:1/v1", "http://localhost:1/v1"),
    ("headers", {"X-A": "b"}, {"X-A": "b"}),
    ("malformed", "fail", "fail"),
    ("max_output_chars", 10, 10),
    ("max_output_chars", None, None),
    ("extra", {"a": 1}, {"a": 1}),
]


@pytest.mark.parametrize(("name", "value", "kept"), TAKEN)
def test_an_option_that_some_provider_could_take_is_kept(name: str, value: Any, kept: Any) -> None:
    assert getattr(StreamOptions(**{name: value}), name) == kept


@pytest.mark.parametrize("name", sorted(StreamOptions.names() - {"max_output_chars"}))
def test_none_stands_for_the_default_of_every_option(name: str) -> None:
    assert StreamOptions(**{name: None}) == StreamOptions()


# (option, value, what is said of it)
REFUSED: list[tuple[str, Any, str]] = [
    ("temperature", "hot", "temperature is a number, not 'hot'"),
    ("temperature", True, "temperature is a number, not True"),
    ("temperature", float("nan"), "temperature is a number, not nan"),
    ("top_p", [1], "top_p is a number"),
    ("max_tokens", 0, "max_tokens is a positive whole number, not 0"),
    ("max_tokens", 1.5, "max_tokens is a positive whole number"),
    ("max_tokens", True, "max_tokens is a positive whole number"),
    ("max_tokens", "10", "max_tokens is a positive whole number"),
    ("stop", 5, "stop is a string or a list of strings, not 5"),
    ("stop", ["a", 5], "stop is a string or a list of strings"),
    ("seed", "1", "seed is int, not '1'"),
    ("seed", True, "seed is int, not True"),
    ("session_id", 5, "session_id is str"),
    ("transport", "pigeon", "transport is one of auto, sse, websocket, buffered, not 'pigeon'"),
    ("thinking", "deep", "thinking is one of off, minimal, low"),
    ("thinking", -1, "a number of tokens, not -1"),
    ("thinking", True, "a number of tokens, not True"),
    ("thinking", 0.5, "a number of tokens, not 0.5"),
    ("tool_choice", 5, "tool_choice is str"),
    ("parallel_tool_calls", "yes", "parallel_tool_calls is bool"),
    ("response_format", "xml", "response_format is json or a JSON schema, not 'xml'"),
    ("response_format", [], "response_format is json or a JSON schema"),
    ("cache", "always", "cache is none, auto or a CacheStrategy, not 'always'"),
    ("cache", True, "cache is none, auto or a CacheStrategy"),
    ("api_key", 5, "api_key is str"),
    ("base_url", "localhost:1", "base_url begins with http:// or https://, not 'localhost:1'"),
    ("base_url", 5, "base_url is str"),
    ("headers", "X-A: b", "headers is a mapping of strings to strings"),
    ("headers", {"X-A": 1}, "headers is a mapping of strings to strings"),
    ("timeouts", 5, "timeouts is Timeouts, not 5"),
    ("retry", 5, "retry is RetryPolicy, not 5"),
    ("malformed", "ignore", "malformed is one of read_on, skip, fail, not 'ignore'"),
    ("max_output_chars", 0, "max_output_chars is a positive whole number"),
    ("extra", "a", "extra is Mapping"),
]


@pytest.mark.parametrize(("name", "value", "said"), REFUSED)
def test_an_option_that_no_provider_could_take_is_refused_by_name(
    name: str, value: Any, said: str
) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        StreamOptions(**{name: value})
    assert said in str(caught.value)


def test_a_refused_credential_is_not_quoted() -> None:
    for name, value in [
        ("api_key", b"sk-canary"),
        ("headers", {"X-Key": b"sk-canary"}),
        ("extra", "sk-canary"),
    ]:
        with pytest.raises(TypeError) as caught:
            StreamOptions(**{name: value})
        assert "canary" not in str(caught.value)


# (option of Timeouts or RetryPolicy, value, what is said of it)
LIMITS: list[tuple[type[Any], str, Any, str]] = [
    (Timeouts, "idle", "5", "idle is a number of seconds above 0, or None, not '5'"),
    (Timeouts, "idle", 0, "idle is a number of seconds above 0, or None, not 0"),
    (Timeouts, "connect", -1, "connect is a number of seconds above 0"),
    (Timeouts, "total", True, "total is a number of seconds above 0"),
    (Timeouts, "window", None, "window is a number above 0, not None"),
    (Timeouts, "min_chars_per_second", -5, "min_chars_per_second is a number above 0"),
    (RetryPolicy, "budget", "2m", "budget is a number of at least 0, not '2m'"),
    (RetryPolicy, "base", -1, "base is a number of at least 0"),
    (RetryPolicy, "retries", 3, "retries is Mapping, not 3"),
    (RetryPolicy, "retries", {"throttled": -1}, "retries"),
    (RetryPolicy, "retries", {"tired": 1}, "'tired'"),
]


@pytest.mark.parametrize(("kind", "name", "value", "said"), LIMITS)
def test_a_limit_that_could_not_be_kept_is_refused_by_name(
    kind: type[Any], name: str, value: Any, said: str
) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        kind(**{name: value})
    assert said in str(caught.value)


def test_every_limit_may_be_disabled() -> None:
    names = ("connect", "first_event", "idle", "no_progress", "total", "min_chars_per_second")
    timeouts = Timeouts(**dict.fromkeys(names))
    assert [getattr(timeouts, name) for name in names] == [None] * len(names)


def test_retries_may_be_named_in_words() -> None:
    assert RetryPolicy(retries={"throttled": 1}).retries[StreamErrorKind.THROTTLED] == 1  # type: ignore[dict-item]  # on purpose


def test_the_policy_that_never_retries_has_no_retries() -> None:
    assert RetryPolicy.none().retries == dict.fromkeys(StreamErrorKind, 0)


def test_secrets_have_no_repr() -> None:
    options = StreamOptions(
        api_key="sk-canary-1",
        headers={"Authorization": "Bearer sk-canary-2"},
        extra={"token": "sk-canary-3"},
    )
    assert "canary" not in repr(options)
    assert "canary" not in str(options)


# (thinking, budget, level)
THINKING: list[tuple[Any, int | None, ThinkingLevel | None]] = [
    (None, None, None),
    ("off", 0, ThinkingLevel.OFF),
    ("minimal", 1024, ThinkingLevel.MINIMAL),
    ("low", 2048, ThinkingLevel.LOW),
    ("medium", 5000, ThinkingLevel.MEDIUM),
    ("high", 10000, ThinkingLevel.HIGH),
    ("extra_high", 20000, ThinkingLevel.EXTRA_HIGH),
    (0, 0, ThinkingLevel.OFF),
    (1, 1, ThinkingLevel.MINIMAL),
    (1024, 1024, ThinkingLevel.MINIMAL),
    (1025, 1025, ThinkingLevel.LOW),
    (10**6, 10**6, ThinkingLevel.EXTRA_HIGH),
]


@pytest.mark.parametrize(("thinking", "budget", "level"), THINKING)
def test_thinking_is_a_budget_and_a_level(
    thinking: Any, budget: int | None, level: ThinkingLevel | None
) -> None:
    options = StreamOptions(thinking=thinking)
    assert (options.thinking_budget, options.thinking_level) == (budget, level)


def test_the_public_names_of_levels_and_budgets_agree() -> None:
    assert {*THINKING_BUDGETS} == {*ThinkingLevel} - {ThinkingLevel.OFF}
