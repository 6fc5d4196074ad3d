"""Options that some provider could take, and what is refused by name."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pytest
from attrs import asdict, fields_dict
from attrs.exceptions import FrozenInstanceError

from swink_core import (
    CacheStrategy,
    ClientOptions,
    Limits,
    Options,
    RetryPolicy,
    StreamErrorKind,
    StreamOptions,
    ThinkingLevel,
    Timeouts,
)
from swink_core.vocabulary.checks import annotations_of
from swink_core.vocabulary.options import THINKING_BUDGETS

BESIDE = {"system_prompt", "timeout", "tools"}
"""Keyword arguments that are not fields themselves."""


def test_the_typed_keyword_arguments_are_the_options() -> None:
    assert set(Options.__annotations__) == StreamOptions.names() | BESIDE


def test_no_option_is_required() -> None:
    assert Options.__required_keys__ == frozenset()
    assert ClientOptions.__required_keys__ == frozenset()


PERSONAL = {"api_key", "base_url", "headers", "settings", "extra"}


def test_options_of_one_provider_are_not_client_options() -> None:
    assert set(ClientOptions.__annotations__) == StreamOptions.names() - PERSONAL | {"timeout"}


@pytest.mark.parametrize("name", sorted(StreamOptions.names()))
def test_an_option_is_typed_as_what_is_kept_of_it_and_may_be_none(name: str) -> None:
    def plain(annotation: Any) -> set[Any]:
        """Return the accepted types without bounds, and numbers for types that count as such."""
        if get_origin(annotation) is Annotated:
            return plain(annotation.__origin__)
        if isinstance(annotation, UnionType) or get_origin(annotation) is Union:
            return set().union(*map(plain, get_args(annotation)))
        return {float} if annotation is int else {get_origin(annotation) or annotation}

    kept = plain(annotations_of(StreamOptions)[name])
    typed = plain(get_type_hints(Options)[name])
    assert kept - {tuple} <= typed
    assert NoneType in typed


class Float64(float):
    """A number of another library's."""


class Indexed:
    """An object with `[]` but without the other methods of a mapping."""

    def __getitem__(self, name: str) -> str:
        return name


# (option, value as given, value as kept)
TAKEN: list[tuple[str, Any, Any]] = [
    ("temperature", 0, 0),
    ("temperature", 1.5, 1.5),
    ("temperature", Float64(0.5), 0.5),
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
    ("thinking", {"type": "enabled", "budget_tokens": 2000}, 2000),
    ("thinking", {"type": "disabled"}, ThinkingLevel.OFF),
    ("thinking", 0, 0),
    ("thinking", 2000, 2000),
    ("thinking", {"type": "enabled", "budget_tokens": 2000}, 2000),
    ("thinking", {"type": "disabled"}, ThinkingLevel.OFF),
    ("tool_choice", "required", "required"),
    ("tool_choice", "weather", "weather"),
    ("tool_choice", {"type": "auto"}, "auto"),
    ("tool_choice", {"type": "none"}, "none"),
    ("tool_choice", {"type": "any"}, "required"),
    ("tool_choice", {"type": "tool", "name": "weather"}, "weather"),
    ("tool_choice", {"type": "function", "name": "weather"}, "weather"),
    ("tool_choice", {"type": "function", "function": {"name": "weather"}}, "weather"),
    ("parallel_tool_calls", False, False),
    ("response_format", "json", "json"),
    ("response_format", {"type": "object"}, {"type": "object"}),
    ("response_format", {"type": "text"}, None),
    ("response_format", {"type": "json_object"}, "json"),
    ("response_format", {"type": "json_schema", "schema": {"minimum": 1}}, {"minimum": 1}),
    (
        "response_format",
        {"type": "json_schema", "json_schema": {"name": "a", "schema": {"minimum": 1}}},
        {"title": "a", "minimum": 1},
    ),
    (
        "response_format",
        {"type": "json_schema", "name": "a", "description": "b", "schema": {"title": "c"}},
        {"title": "a", "description": "b"},
    ),
    (
        "response_format",
        {"type": "json_schema", "description": "b", "schema": {"minimum": 1}},
        {"description": "b", "minimum": 1},
    ),
    ("cache", "none", CacheStrategy("none")),
    ("cache", "auto", CacheStrategy("auto")),
    ("cache", CacheStrategy("auto", 3600), CacheStrategy("auto", 3600)),
    ("api_key", "key", "key"),
    ("base_url", "http://localhost:1/v1", "http://localhost:1/v1"),
    ("headers", {"X-A": "b"}, {"X-A": "b"}),
    ("retry", False, RetryPolicy.none()),
    ("retry", True, RetryPolicy()),
    ("retry", RetryPolicy(base=5), RetryPolicy(base=5)),
    ("malformed", "fail", "fail"),
    ("max_output_chars", 10, 10),
    ("max_output_chars", None, None),
    ("extra", {"a": 1}, {"a": 1}),
]


@pytest.mark.parametrize(("name", "value", "kept"), TAKEN)
def test_an_option_that_some_provider_could_take_is_kept(name: str, value: Any, kept: Any) -> None:
    assert getattr(StreamOptions(**{name: value}), name) == kept


def test_an_answer_may_have_32_mebi_characters_unless_more_is_asked_for() -> None:
    assert StreamOptions().max_output_chars == 33_554_432


@pytest.mark.parametrize("name", sorted(StreamOptions.names() - {"max_output_chars"}))
def test_none_stands_for_the_default_of_every_option(name: str) -> None:
    assert StreamOptions(**{name: None}) == StreamOptions()


# (option, value, what is said of it)
REFUSED: list[tuple[str, Any, str]] = [
    ("temperature", "hot", "temperature='hot': expected `int | float | None`, got `str`"),
    ("temperature", True, "temperature=True: expected `int | float | None`, got `bool`"),
    ("temperature", float("inf"), "temperature=inf: expected a finite number"),
    ("temperature", float("nan"), "temperature=nan: expected a finite number"),
    ("top_p", [1], "top_p=[1]: expected `int | float | None`, got `array`"),
    ("max_tokens", 0, "max_tokens=0: expected `int` >= 1"),
    ("max_tokens", 1.5, "max_tokens=1.5: expected `int | None`, got `float`"),
    ("max_tokens", True, "max_tokens=True: expected `int | None`, got `bool`"),
    ("max_tokens", "10", "max_tokens='10': expected `int | None`, got `str`"),
    ("stop", 5, "stop=5: expected `array`, got `int`"),
    ("stop", ["a", 5], "stop=['a', 5]: expected `str`, got `int` - at `$[1]`"),
    ("seed", "1", "seed='1': expected `int | None`, got `str`"),
    ("seed", True, "seed=True: expected `int | None`, got `bool`"),
    ("session_id", 5, "session_id=5: expected `str | None`, got `int`"),
    (
        "transport",
        "pigeon",
        "transport='pigeon': invalid enum value 'pigeon'; one of: auto, sse, websocket, buffered",
    ),
    *(
        ("thinking", no, f"thinking={no!r}: expected 0 or more tokens, or a level; one of: off")
        for no in ("deep", -1, True, 0.5, "5")
    ),
    ("response_format", int, "not the type int; call answer(…, type=int)"),
    ("response_format", list[int], "not the type list[int]; call answer(…, type=list[int])"),
    ("response_format", int | str, "not the type int | str; call answer(…, type=int | str)"),
    ("response_format", {"type": "json_schema"}, "has no JSON schema under 'schema'"),
    ("response_format", {"type": "json_schema", "json_schema": 5}, "has no JSON schema under"),
    *(
        ("thinking", no, f"thinking={no!r}: write a level, as thinking='high', or a budget")
        for no in ({"type": "adaptive"}, {"type": "enabled", "budget_tokens": "5"}, {})
    ),
    ("tool_choice", 5, "tool_choice=5: expected `str | None`, got `int`"),
    *(
        ("tool_choice", no, f"tool_choice={no!r}: expected `str | None`, got `dict`")
        for no in (
            {"type": "auto", "more": 1},
            {"type": "none", "more": 1},
            {"type": "tool", "more": 1},
            {"type": "any", "more": 1},
            {"type": "tool", "name": "f", "more": 1},
            {"type": "tool", "name": 5},
            {"type": "required"},
        )
    ),
    ("parallel_tool_calls", "yes", "parallel_tool_calls='yes': expected `bool | None`, got `str`"),
    ("response_format", "xml", "response_format='xml': invalid enum value 'xml'; one of: json"),
    (
        "response_format",
        [],
        "response_format=[]: expected `str | object | None`, got `array`; one of: json",
    ),
    ("response_format", int, "not the type int; call answer(…, type=int)"),
    ("response_format", list[int], "not the type list[int]; call answer(…, type=list[int])"),
    ("response_format", {"type": "json_schema"}, "no JSON schema under 'schema'"),
    (
        "response_format",
        {"type": "json_schema", "json_schema": 5},
        "no JSON schema under 'schema'",
    ),
    ("cache", "always", "cache='always': expected CacheStrategy, got `str`"),
    ("cache", True, "cache=True: expected CacheStrategy, got `bool`"),
    ("api_key", 5, "api_key: expected `str | None`, got `int`"),
    (
        "base_url",
        "localhost:1",
        "base_url='localhost:1': expected an address that begins with http",
    ),
    ("base_url", 5, "base_url=5: expected an address"),
    ("headers", "X-A: b", "headers: expected `dict`, got `str`"),
    ("headers", Indexed(), "headers: expected `dict`, got `Indexed`"),
    ("headers", {"X-A": 1}, "headers: expected `str`, got `int` - at `$[...]`"),
    ("timeouts", {"idle": 5}, "timeouts={'idle': 5}: expected Timeouts, got `dict`"),
    ("timeouts", 5, "timeouts=5: expected Timeouts, got `int`"),
    ("retry", 5, "retry=5: expected RetryPolicy, got `int`"),
    (
        "malformed",
        "ignore",
        "malformed='ignore': invalid enum value 'ignore'; one of: read_on, skip, fail",
    ),
    ("max_output_chars", 0, "max_output_chars=0: expected `int` >= 1"),
    ("extra", "a", "extra: expected `dict`, got `str`"),
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
        with pytest.raises((TypeError, ValueError)) as caught:
            StreamOptions(**{name: value})
        assert "canary" not in str(caught.value)


# (option of Timeouts, Limits or RetryPolicy, value, what is said of it)
LIMITS: list[tuple[type[Any], str, Any, str]] = [
    (Timeouts, "idle", "5", "idle='5': expected `float | None`, got `str`"),
    (Timeouts, "idle", 0, "idle=0: expected `float` > 0.0"),
    (Timeouts, "connect", -1, "connect=-1: expected `float` > 0.0"),
    (Timeouts, "total", True, "total=True: expected `float | None`, got `bool`"),
    (Timeouts, "window", None, "window=None: expected `float`, got `None`"),
    (Timeouts, "min_chars_per_second", -5, "min_chars_per_second=-5: expected `float` > 0.0"),
    (Limits, "cost", -1, "cost is -1; US dollars of at least 0 is expected"),
    (Limits, "cost", float("inf"), "cost is inf; US dollars of at least 0 is expected"),
    (Limits, "tokens", 1.5, "tokens is 1.5; a whole number of at least 0 is expected"),
    (Limits, "turns", True, "turns is True; a whole number of at least 0 is expected"),
    (RetryPolicy, "budget", "2m", "budget='2m': expected `float`, got `str`"),
    (RetryPolicy, "base", -1, "base=-1: expected `float` >= 0.0"),
    (RetryPolicy, "retries", 3, "retries=3: expected `dict`, got `int`"),
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
        settings={"token": "sk-canary-4"},
    )
    assert "canary" not in repr(options)
    assert "canary" not in str(options)


# (a base URL, how it is shown)
ADDRESSES = [
    ("https://a.example/v1", "'https://a.example/v1'"),
    ("https://me:pw@a.example/v1", "[hidden]"),
    ("https://a.example/v1?key=1", "[hidden]"),
]


@pytest.mark.parametrize(("url", "shown"), ADDRESSES)
def test_an_address_is_shown_unless_it_may_contain_a_secret(url: str, shown: str) -> None:
    assert f" base_url={shown}," in repr(StreamOptions(base_url=url))
    with pytest.raises(ValueError, match="an address that begins with") as caught:
        StreamOptions(base_url=f"f{url}")
    shown = shown.replace("'h", "'fh")
    assert str(caught.value).startswith(f"base_url={shown}: ")


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


@pytest.mark.parametrize("kind", [CacheStrategy, Timeouts, RetryPolicy, StreamOptions])
def test_options_stay_as_they_were_checked_and_are_given_by_name(kind: type) -> None:
    made, name = kind(), next(iter(fields_dict(kind)))
    with pytest.raises(FrozenInstanceError):
        setattr(made, name, None)
    if kind is not CacheStrategy:  # whose mode says enough by itself
        with pytest.raises(TypeError):
            kind(None)


NONE = dict.fromkeys(StreamOptions.names())

# what nobody asked for
DEFAULTS: list[tuple[Any, dict[str, Any]]] = [
    (CacheStrategy(), {"mode": "auto", "ttl": None}),
    (
        Timeouts(),
        {"connect": 10, "first_event": 300, "idle": 300, "no_progress": 1800, "total": None}
        | {"min_chars_per_second": None, "window": 30},
    ),
    (
        RetryPolicy(),
        {"retries": {}, "budget": 120, "base": 1, "factor": 2, "max_delay": 30}
        | {"retry_after_cap": 60, "restart_after_output": False, "fall_back_on": frozenset()}
        | {"circuit_threshold": 5, "circuit_cooldown": 30},
    ),
    (
        StreamOptions(),
        NONE
        | {"stop": (), "transport": "auto", "headers": {}, "settings": {}, "extra": {}}
        | {"timeouts": Timeouts(), "retry": RetryPolicy(), "rules": True, "retired": False}
        | {"download_media": False}
        | {"max_output_chars": 33_554_432},
    ),
]


@pytest.mark.parametrize(("made", "values"), DEFAULTS, ids=lambda value: type(value).__name__)
def test_what_nobody_asked_for_is_as_the_reference_says(made: Any, values: dict[str, Any]) -> None:
    assert asdict(made, recurse=False) == values
