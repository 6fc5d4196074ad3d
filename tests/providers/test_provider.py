"""The base class of HTTP providers: features, credentials, requests, whole answers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attrs import define
from fakes import (
    AT_ONCE,
    HELLO,
    MODEL,
    Observer,
    Pipe,
    PipeClient,
    Toy,
    client_of,
    collect,
    cut_after,
    entry_point,
    frame,
    host_of,
    types,
)

import swink_core as swink
from swink_core import (
    Context,
    Error,
    Failure,
    ImageBlock,
    Model,
    ModelInfo,
    Notice,
    ProviderInfo,
    StreamOptions,
    SystemMessage,
    Tool,
    UrlSource,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_core.framing.frame import FrameTooLong
from swink_core.providers import (
    OPTIONS,
    TUNING,
    Exchange,
    Grant,
    HTTPProvider,
    HTTPRequest,
    Token,
    TokenHTTP,
    by_tables,
    with_extra,
)
from swink_core.providers.buffered import BufferedDecoder
from swink_core.vocabulary.prices import Prices
from swink_testing.calls import call_of

JSON = {"Content-Type": "application/json"}
IMAGE = Context([UserMessage([ImageBlock(UrlSource("https://a.example/b.png"))])])


async def error_of(pipe: Pipe | Failure, **options: Any) -> Error:
    """The error that an answer makes."""
    async with client_of(http=PipeClient(pipe), **options) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert types(events) == ["start", "error"]
    error: Error = events[-1]
    return error


def answered(body: bytes, status: int = 200, **headers: str) -> Pipe:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Pipe(body, status=status, headers=named, end=True)


# -- fitting a call ------------------------------------------------------------------------------


async def test_a_text_is_fitted_once_until_more_is_known_and_sent_as_it_is() -> None:
    fitted = []
    known: set[str] = set()

    class Counting(Toy):
        def learned(self, model: swink.Model, options: StreamOptions) -> Any:
            return str(model), options.temperature, len(known)

        def fit(self, model: Any, context: Any, options: Any) -> Any:
            fitted.append(context.messages[0].content)
            return super().fit(model, context, options)

    http = PipeClient(*(Pipe(*HELLO, end=True) for _ in range(7)))
    async with client_of(providers={"toy": Counting}, api_key="k", http=http) as client:
        for said in ("a", "b", "c"):
            await client.complete(MODEL, said, temperature=0.5)
        assert fitted == ["a"]
        await client.complete(MODEL, "d", temperature=0.6)
        known.add("what the server says")
        await client.complete(MODEL, "e", temperature=0.6)
        await client.complete(MODEL, IMAGE, temperature=0.6)
        await client.complete(MODEL, "f", temperature=0.6)
    assert fitted == ["a", "d", "e", IMAGE.messages[0].content]
    bodies = [json.loads(request.body) for request in http.requests]
    assert all(said in json.dumps(body) for said, body in zip("abcde", bodies, strict=False))


async def test_a_plan_is_kept_only_until_more_is_known() -> None:
    known = ["nothing"]

    class Learning(Toy):
        def learned(self, model: swink.Model, options: StreamOptions) -> str:
            return known[-1]

    http = PipeClient(*(Pipe(*HELLO, end=True) for _ in range(3)))
    async with client_of(providers={"toy": Learning}, api_key="k", http=http) as client:
        for fact in ("nothing", "what the server says", "nothing"):
            known.append(fact)
            async with client.stream(MODEL, "Hi") as stream:
                await stream.result()
            assert len(stream.call.attempt.target.remembered) == 1


async def test_every_such_text_mentions_the_omission() -> None:
    class Plain(Toy):
        knobs = frozenset[str]()

    http = PipeClient(Pipe(*HELLO, end=True), Pipe(*HELLO, end=True))
    async with client_of(providers={"toy": Plain}, api_key="k", http=http) as client:
        for said in ("a", "b"):
            events = await collect(client.stream(MODEL, said, temperature=0.5))
            assert [e.code for e in events if isinstance(e, swink.Notice)] == ["option_ignored"]


async def test_the_fields_of_the_chosen_api_are_replaced_by_the_calls_extra() -> None:
    class Nested(Toy):
        knobs: ClassVar[Any] = {"temperature": "config.temperature", "max_tokens": None}
        places: ClassVar[Any] = {"max_tokens": ("config.limits.output",)}

    nested = Nested("toy")

    class Choosing(Toy):
        def api(self, model: swink.Model, options: StreamOptions) -> Any:
            return nested if (str(model), options.transport) == (MODEL, "auto") else self

        def convert(self, model: Any, context: Context, options: StreamOptions) -> Any:
            limits = {"output": options.max_tokens, "input": 9}
            config = {"temperature": options.temperature, "limits": limits}
            return with_extra(options.extra, {"config": config})

    http = PipeClient(Pipe(*HELLO, end=True))
    given: Any = {"max_tokens": 5, "temperature": 0.5}
    async with client_of(providers={"toy": Choosing}, api_key="k", http=http, **given) as client:
        extra = {"config": {"temperature": 0.7, "limits": {"output": 6, "input": 8}}}
        await client.complete(MODEL, "Hi", extra=extra)
    assert json.loads(http.requests[0].body) == {
        "config": {"temperature": 0.7, "limits": {"output": 6, "input": 9}}
    }


async def test_a_provider_reports_what_its_conversion_changes_in_the_fitted_call() -> None:
    class Rounding(Toy):
        knobs = frozenset({"top_p"})

        def notices(self, model: swink.Model, options: StreamOptions) -> tuple[Notice, ...]:
            what = f"{model.id} rounds {options.top_p}, not {options.temperature}"
            return (Notice("option_changed", what, ("options.top_p",)),)

    http = PipeClient(Pipe(*HELLO, end=True))
    async with client_of(providers={"toy": Rounding}, api_key="k", http=http) as client:
        events = await collect(client.stream(MODEL, "Hi", top_p=0.55, temperature=1))
    ignored, changed = (event for event in events if isinstance(event, Notice))
    assert ignored.code == "option_ignored"
    rounded = "large rounds 0.55, not None"
    assert changed == Notice("option_changed", rounded, ("options.top_p",))


async def test_a_provider_is_asked_with_the_options_that_are_left() -> None:
    seen: dict[str, float | None] = {}

    class Plain(Toy):
        knobs = frozenset[str]()

        def buffers(self, model: Any, context: Context, options: StreamOptions) -> bool:
            seen["buffers"] = options.temperature
            return False

        def convert(self, model: Any, context: Context, options: StreamOptions) -> Any:
            seen["convert"] = options.temperature
            return super().convert(model, context, options)

        def request(self, model: Any, payload: Any, options: StreamOptions) -> HTTPRequest:
            seen["request"] = options.temperature
            return super().request(model, payload, options)

    http = PipeClient(Pipe(*HELLO, end=True))
    async with client_of(providers={"toy": Plain}, api_key="k", http=http) as client:
        await client.complete(MODEL, "Hi", temperature=0.5)
    assert seen == {"buffers": None, "convert": None, "request": None}


async def test_a_provider_is_asked_with_the_model_before_the_options() -> None:
    seen: dict[str, set[str]] = {}

    def note(name: str, model: Any, options: Any) -> None:
        seen.setdefault(name, set()).add(f"{model.id} {options.seed}")

    class Asked(Toy):
        knobs = dict.fromkeys(("seed", "temperature"))

        def api(self, model: Any, options: Any) -> Any:
            note("api", model, options)
            return self

        def learned(self, model: Any, options: Any) -> Any:
            note("learned", model, options)

        def notices(self, model: Any, options: Any) -> Any:
            note("notices", model, options)
            return ()

        def buffers(self, model: Any, context: Any, options: Any) -> bool:
            note("buffers", model, options)
            return False

    http = PipeClient(Pipe(*HELLO, end=True))
    given: Any = {"providers": {"toy": Asked}, "api_key": "k", "temperature": 0.5}
    async with client_of(**given, http=http) as client:
        await client.complete(MODEL, "Hi", seed=7, extra={"temperature": 0.7})
    assert {*seen} == {"api", "learned", "notices", "buffers"}
    assert all(said == {"large 7"} for said in seen.values())


# (name, features, what the conversion raises, whether it is asked for, whether it is enough)
ADDRESSES: list[tuple[str, set[str], Kind | None, int, bool]] = [
    ("converted", {"images"}, None, 1, True),
    ("unsupported", {"images"}, Kind.UNSUPPORTED, 1, False),
    ("another failure", {"images"}, Kind.AUTH, 1, True),
    ("no images at all", set(), Kind.UNSUPPORTED, 0, True),
]


@pytest.mark.parametrize(
    ("own", "kind", "times", "takes"), [row[1:] for row in ADDRESSES], ids=[r[0] for r in ADDRESSES]
)
def test_an_api_fetches_media_unless_their_conversion_is_unsupported(
    own: set[str], kind: Kind | None, times: int, takes: bool
) -> None:
    converted = []

    class Strict(Toy):
        features = frozenset(own)

        def convert(self, model: Any, context: Context, options: StreamOptions) -> Any:
            converted.append((model, [message.content for message in context.messages], options))
            if kind is not None:
                raise swink.ProviderFailure(Failure("request", kind=kind))

    model, options = Model("toy", "large"), StreamOptions(seed=7)
    block = ImageBlock(UrlSource("https://a.example/b.png"))
    assert Strict("toy").takes_address(model, block, options) is takes
    assert [(model, content) for model, content, _ in converted] == [(model, [[block]])] * times


# -- features and knobs --------------------------------------------------------------------------

NO_TOOLS = swink.Model("toy", "small", ModelInfo("small", capabilities=frozenset({"images"})))
NO_IMAGES = swink.Model("toy", "blind", ModelInfo("blind", capabilities=frozenset({"tools"})))

# (name, model, context, options, what is lacking)
UNSUPPORTED: list[tuple[str, Any, Any, dict[str, Any], str]] = [
    ("json", MODEL, "Hi", {"response_format": "json"}, "json"),
    ("a_schema", MODEL, "Hi", {"response_format": {}}, "structured output"),
    ("audio", MODEL, Context([UserMessage([swink.AudioBlock(UrlSource("https://a/b.wav"))])]), {},
     "audio"),
    ("tools_of_this_model", NO_TOOLS, Context([UserMessage("Hi")], tools=[Tool("f")]), {}, "tools"),
    ("images_of_this_model", NO_IMAGES, IMAGE, {}, "images"),
    ("a_websocket", MODEL, "Hi", {"transport": "websocket"}, "websocket transport"),
    ("a_whole_answer", "plain/m", "Hi", {"transport": "buffered"}, "buffered transport"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "context", "options", "what"),
    [case[1:] for case in UNSUPPORTED],
    ids=[case[0] for case in UNSUPPORTED],
)
async def test_a_feature_that_is_lacking_fails_before_anything_is_sent(
    model: Any, context: Any, options: dict[str, Any], what: str
) -> None:
    class Plain(Toy):
        buffered = False

    http = PipeClient(Pipe())
    async with client_of(providers={"toy": Toy, "plain": Plain}, http=http) as client:
        events = await collect(client.stream(model, context, api_key="k", **options))
    assert types(events) == ["start", "error"]
    assert events[-1].error_kind is Kind.UNSUPPORTED
    assert f"does not support {what}" in events[-1].error_message
    assert http.requests == []


async def test_features_that_are_there_are_not_refused() -> None:
    async with client_of(http=PipeClient(Pipe(*HELLO, end=True), Pipe(*HELLO, end=True))) as client:
        await client.complete(MODEL, IMAGE, tools=[Tool("f")], stop="x", tool_choice="f")
        await client.complete(NO_TOOLS, IMAGE)


KNOBS = {name: OPTIONS[name].example for name in TUNING} | {
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 0,
    "presence_penalty": 0.0,
    "frequency_penalty": -0.5,
    "user": "u",
    "max_tokens": 5,
    "seed": 1,
    "session_id": "s",
    "thinking": "high",
    "parallel_tool_calls": True,
    "cache": "auto",
}


@pytest.mark.parametrize("name", KNOBS)
async def test_a_knob_that_is_lacking_is_a_notice_and_the_call_goes_on(name: str) -> None:
    async with client_of(http=PipeClient(Pipe(*HELLO, end=True))) as client:
        events = await collect(client.stream(MODEL, "Hi", **{name: KNOBS[name]}))
    notices = [event for event in events if isinstance(event, Notice)]
    expected = [] if name in Toy.knobs else ["option_ignored"]
    assert [notice.code for notice in notices] == expected
    assert all(f"does not support {name};" in notice.detail for notice in notices)
    assert types(events)[-1] == "done"


@pytest.mark.parametrize("name", KNOBS)
async def test_an_api_without_any_knob_says_so_of_each(name: str) -> None:
    bare = type("Bare", (Toy,), {"knobs": frozenset()})
    http = PipeClient(Pipe(*HELLO, end=True))
    async with client_of(providers={"toy": bare}, api_key="k", http=http) as client:
        events = await collect(client.stream(MODEL, "Hi", **{name: KNOBS[name]}))
    detail = f"toy/large does not support {name}; it was not sent"
    assert [e for e in events if isinstance(e, Notice)] == [
        Notice("option_ignored", detail, (f"options.{name}",))
    ]


@pytest.mark.parametrize(
    ("name", "value"), [("thinking", "off"), ("thinking", 0), ("cache", "none")]
)
async def test_a_knob_turned_off_is_not_missed(name: str, value: Any) -> None:
    async with client_of(http=PipeClient(Pipe(*HELLO, end=True))) as client:
        events = await collect(client.stream(MODEL, "Hi", **{name: value}))
    assert "notice" not in types(events)


async def test_thinking_that_this_model_lacks_is_a_notice() -> None:
    class Thinker(Toy):
        knobs = dict.fromkeys((*Toy.knobs, "thinking"))

    async with client_of(
        providers={"toy": Thinker}, http=PipeClient(Pipe(*HELLO, end=True))
    ) as client:
        events = await collect(client.stream(NO_TOOLS, "Hi", thinking="high", api_key="k"))
    assert "thinking" in events[1].detail


@pytest.mark.parametrize(
    ("strict", "own", "said"),
    [(True, (), 1), (True, ("strict",), 0), (False, (), 0), (None, (), 0)],
)
async def test_a_strict_tool_that_cannot_be_is_a_notice(
    strict: bool | None, own: tuple[str, ...], said: int
) -> None:
    context = Context([UserMessage("Hi")], tools=[Tool("f", strict=strict)])
    codes, _ = await _instructed(context, *own)
    assert codes == ["option_ignored"] * said


INSTRUCTED = Context([SystemMessage("First."), UserMessage("Hi"), SystemMessage("Then.")])


async def _instructed(context: Context, *own: str) -> tuple[list[str], list[Any]]:
    class Ruled(Toy):
        features = Toy.features | {*own}

        def convert(self, model: Any, context: Context, options: Any) -> Any:
            said = [context.system_prompt, *(swink.dump(m) for m in context.messages)]
            return {"messages": said}

    http = PipeClient(Pipe(*HELLO, end=True))
    async with client_of(providers={"toy": Ruled}, http=http) as client:
        events = await collect(client.stream(MODEL, context, api_key="k"))
    codes = [event.code for event in events if isinstance(event, Notice)]
    return codes, json.loads(http.requests[0].body)["messages"]


async def test_a_system_message_that_is_moved_is_a_notice() -> None:
    codes, sent = await _instructed(INSTRUCTED)
    assert codes == ["system_message_moved"]
    assert sent[:2] == ["First.", {"role": "user", "content": "Hi"}]


async def test_a_leading_system_message_is_the_prompt_and_no_notice() -> None:
    codes, sent = await _instructed(Context(INSTRUCTED.messages[:2]))
    assert codes == []
    assert sent == ["First.", {"role": "user", "content": "Hi"}]


async def test_system_messages_stay_where_they_are_for_an_api_that_takes_them() -> None:
    codes, sent = await _instructed(INSTRUCTED, "system_messages")
    assert codes == []
    assert sent == [None, *(swink.dump(message) for message in INSTRUCTED.messages)]


# -- credentials and addresses -------------------------------------------------------------------


def test_a_provider_without_a_catalogue_is_known_by_its_name() -> None:
    class Plain(HTTPProvider):
        """A provider that says nothing of itself."""

    plain = Plain("acme")
    assert (plain.name, plain.info) == ("acme", ProviderInfo("acme", "acme"))


def provider_with(**info: Any) -> HTTPProvider:
    provider = HTTPProvider("acme")
    provider.info = ProviderInfo("acme", **info)
    return provider


BOTH = {"A_KEY": "a", "B_KEY": "b"}

# (name, what the provider declares, options, environment, key; an exception's part)
KEYS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, str], str | None]] = [
    ("the_callers", {"api_key_env": ("A_KEY",)}, {"api_key": "own"}, BOTH, "own"),
    ("the_first_variable", {"api_key_env": ("A_KEY", "B_KEY")}, {}, BOTH, "a"),
    ("the_second_variable", {"api_key_env": ("A_KEY", "B_KEY")}, {}, {"B_KEY": "b"}, "b"),
    ("an_empty_variable_is_none", {"api_key_env": ("A_KEY", "B_KEY")}, {},
     {"A_KEY": "", "B_KEY": "b"}, "b"),
    ("space_around_it", {"api_key_env": ("A_KEY",)}, {}, {"A_KEY": " a\n"}, "a"),
    ("the_callers_with_space", {}, {"api_key": "own\n"}, {}, "own"),
    ("none_and_none_needed", {"auth": "none"}, {}, {}, None),
    ("none_and_one_possible", {"auth": "optional", "api_key_env": ("A_KEY",)}, {}, {}, None),
    ("one_where_one_is_possible", {"auth": "optional", "api_key_env": ("A_KEY",)}, {}, BOTH, "a"),
    ("one_where_none_is_needed", {"auth": "none"}, {"api_key": "own"}, {}, "own"),
    ("a_blank_one_is_none", {"auth": "optional", "api_key_env": ("A_KEY",)}, {},
     {"A_KEY": " \n"}, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("info", "options", "environ", "key"), [case[1:] for case in KEYS], ids=[c[0] for c in KEYS]
)
def test_the_key_is_the_callers_or_the_environments(
    info: dict[str, Any], options: dict[str, Any], environ: dict[str, str], key: str | None
) -> None:
    assert provider_with(**info).api_key(StreamOptions(**options), environ) == key


class Placed(HTTPProvider):
    """A provider with a setting in place of one of the variables that it needs."""

    settings_of: ClassVar[Any] = {"A_PLACE": "place", "A_ZONE": "zone"}


def placed(*variables: str) -> Placed:
    provider = Placed("acme")
    provider.info = ProviderInfo("acme", required_env=variables, settings={"place": "string"})
    return provider


# (variables that are needed, settings, environment, the variable that is missed)
NEEDED: list[tuple[tuple[str, ...], dict[str, Any], dict[str, str], str | None]] = [
    ((), {}, {}, None),
    (("A_PLACE",), {}, {"A_PLACE": "x"}, None),
    (("A_PLACE",), {"place": "x"}, {}, None),
    (("A_PLACE",), {"place": ""}, {"A_PLACE": ""}, "A_PLACE"),
    (("A_PLACE", "A_TEAM"), {"place": "x"}, {}, "A_TEAM"),
    (("A_PLACE", "A_TEAM"), {}, {"A_TEAM": "x"}, "A_PLACE"),
    (("A_TEAM",), {"place": "x"}, {"A_PLACE": "x"}, "A_TEAM"),
]


@pytest.mark.parametrize(("variables", "settings", "environ", "missed"), NEEDED)
def test_each_variable_that_a_call_needs_is_set_or_its_setting_is(
    variables: tuple[str, ...],
    settings: dict[str, Any],
    environ: dict[str, str],
    missed: str | None,
) -> None:
    provider, options = placed(*variables), StreamOptions(settings=settings)
    if missed is None:
        provider.require_variables(options, environ)
        return
    with pytest.raises(swink.ProviderFailure, match=f"acme needs {missed}"):
        provider.require_variables(options, environ)


async def test_missing_credentials_fail_before_any_request_and_say_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TOY_API_KEY", raising=False)
    http = PipeClient(Pipe())
    async with client_of(http=http, api_key=None) as client:
        with pytest.raises(swink.AuthenticationError) as caught:
            await client.complete(MODEL, "Hi")
    assert http.requests == []
    assert (caught.value.phase, caught.value.code) == ("request", "no_credentials")
    assert "TOY_API_KEY" in str(caught.value)
    assert "https://toy.invalid/keys" in caught.value.resolution


async def test_a_key_of_the_environment_is_sent_and_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_API_KEY", "sk-canary-environment")
    http = PipeClient(answered(b"bad key sk-canary-environment", 401))
    async with client_of(http=http, api_key=None) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert http.requests[0].headers["Authorization"] == "Bearer sk-canary-environment"
    assert events[-1].error_kind is Kind.AUTH
    assert "canary" not in repr(events)


@pytest.mark.parametrize(
    ("variables", "advice"),
    [
        ((), "pass base_url=…"),
        (("A_URL",), "pass base_url=… or set A_URL"),
        (("A_URL", "B_URL"), "pass base_url=… or set A_URL"),
    ],
)
def test_a_provider_without_an_address_says_how_to_set_one(
    variables: tuple[str, ...], advice: str
) -> None:
    with pytest.raises(swink.ProviderFailure) as caught:
        provider_with(base_url_env=variables).base_url(StreamOptions(), {})
    failure = caught.value.failure
    assert (failure.phase, failure.kind, failure.code) == (
        "request", Kind.INVALID_REQUEST, "no_base_url",
    )  # fmt: skip
    assert failure.message == f"no base URL for acme: {advice}"


OWN = "https://own.example/v1"

# (the provider's own address, the call's, the environment's, the given address, whether at home)
HOMES: list[tuple[str | None, str | None, dict[str, str], str | None, bool]] = [
    (OWN, None, {}, None, True),
    (None, None, {}, None, True),
    (OWN, OWN, {}, OWN, True),
    (OWN, f"{OWN}/", {}, f"{OWN}/", True),
    (f"{OWN}/", OWN, {}, OWN, True),
    (OWN, None, {"A_URL": f"{OWN}/"}, f"{OWN}/", True),
    (OWN, "https://a.example", {}, "https://a.example", False),
    (OWN, OWN, {"A_URL": "https://a.example"}, OWN, True),
    (OWN, None, {"A_URL": "https://a.example"}, "https://a.example", False),
    (None, "https://a.example", {}, "https://a.example", False),
    (OWN, f"{OWN}_", {}, f"{OWN}_", False),
    (f"{OWN}_", OWN, {}, OWN, False),
]


@pytest.mark.parametrize(("own", "calls", "environ", "given", "at_home"), HOMES)
def test_a_call_to_another_address_is_not_at_home(
    own: str | None, calls: str | None, environ: dict[str, str], given: str | None, at_home: bool
) -> None:
    provider = provider_with(base_url=own, base_url_env=("A_URL",))
    options = StreamOptions(base_url=calls)
    assert provider.given_url(options, environ) == given
    assert provider.at_home(options, environ) is at_home
    assert provider.shipped_url == own


def test_the_address_is_the_callers_the_environments_or_the_providers() -> None:
    info = {"base_url": "https://own.example/v1/", "base_url_env": ("A_URL",)}
    provider = provider_with(**info)
    environ = {"A_URL": "https://environment.example/"}
    options = StreamOptions(base_url="https://caller.example/of_//")
    assert provider.base_url(options, environ) == "https://caller.example/of_"
    assert provider.base_url(StreamOptions(), environ) == "https://environment.example"
    assert provider.base_url(StreamOptions(), {}) == "https://own.example/v1"
    with pytest.raises(swink.ProviderFailure, match="pass base_url=… or set A_URL"):
        provider_with(base_url_env=("A_URL",)).base_url(StreamOptions(), {})


def test_a_call_is_at_home_at_the_address_of_the_package() -> None:
    provider = provider_with(base_url="https://own.example/v1", base_url_env=("A_URL",))
    for url, home in (
        (None, True),
        ("https://own.example/v1/", True),
        ("https://own.example", False),
        ("https://caller.example/v1", False),
    ):
        assert provider.at_home(StreamOptions(base_url=url), {}) is home
        assert provider.at_home(StreamOptions(), {"A_URL": url or ""}) is home
    assert provider_with().at_home(StreamOptions(), {}) is True


FREE = Model("acme", "m", ModelInfo("m"))
PRICED = Model("acme", "m", ModelInfo("m", prices=Prices(input=1.0)))

# (name, model, address, whether its answers are free)
FREE_MODELS: list[tuple[str, Model, str, bool]] = [
    ("on_this_machine", FREE, "http://localhost:1", True),
    ("in_a_private_network", FREE, "http://192.168.0.2:1", True),
    ("elsewhere", FREE, "https://acme.example", False),
    ("unknown_on_this_machine", Model("acme", "m"), "http://localhost:1", True),
    ("unknown_elsewhere", Model("acme", "m"), "https://acme.example", False),
    ("with_a_price_on_this_machine", PRICED, "http://localhost:1", False),
]


@pytest.mark.parametrize(
    ("model", "url", "free"), [case[1:] for case in FREE_MODELS], ids=[c[0] for c in FREE_MODELS]
)
def test_a_model_without_a_price_is_free_on_a_machine_of_ones_own(
    model: Model, url: str, free: bool
) -> None:
    assert HTTPProvider("acme").is_free(model, StreamOptions(base_url=url)) is free


@pytest.mark.parametrize(
    ("variables", "named"),
    [((), "api_key"), (("A_KEY",), "A_KEY"), (("A_KEY", "B_KEY"), "A_KEY or B_KEY")],
)
def test_a_missing_key_is_named_by_its_variables(variables: tuple[str, ...], named: str) -> None:
    provider = provider_with(api_key_env=variables)
    with pytest.raises(swink.ProviderFailure) as caught:
        provider.api_key(StreamOptions(), {"A_KEY": " "})
    assert caught.value.failure.message == f"no API key for acme: {named} is not set"


@pytest.mark.parametrize(
    ("known", "message", "resolution"),
    [
        (
            ("project",),
            'acme needs A_PROJECT: neither it nor the setting "project" is set',
            'Set A_PROJECT in the environment, or pass settings={"project": …}.',
        ),
        (
            ("region",),
            "acme needs A_PROJECT, which is not set",
            "Set A_PROJECT in the environment.",
        ),
    ],
)
def test_a_missing_variable_is_named_with_the_setting_that_replaces_it(
    known: tuple[str, ...], message: str, resolution: str
) -> None:
    provider = provider_with(required_env=("A_PROJECT",), settings=known)
    provider.settings_of = {"A_PROJECT": "project"}
    with pytest.raises(swink.ProviderFailure) as caught:
        provider.require_variables(StreamOptions(settings={"other": "x"}), {})
    failure = caught.value.failure
    assert (failure.phase, failure.kind, failure.code) == ("request", Kind.AUTH, "no_variable")
    assert (failure.message, failure.resolution) == (message, resolution)
    provider.require_variables(StreamOptions(settings={"project": "p"}), {})
    provider.require_variables(StreamOptions(), {"A_PROJECT": "p"})


# -- what is sent --------------------------------------------------------------------------------


async def sent(**options: Any) -> HTTPRequest:
    http = PipeClient(Pipe(*HELLO, end=True))
    async with client_of(http=http) as client:
        await client.complete(MODEL, "Hi", **options)
    return http.requests[0]


async def test_a_request_has_address_body_and_headers() -> None:
    request = await sent(base_url="http://localhost:1/v2/", extra={"top_k": 3, "model": "no"})
    assert (request.method, request.url) == ("POST", "http://localhost:1/v2/chat")
    assert json.loads(request.body) == {
        "model": "large",  # a typed field wins over extra
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "top_k": 3,
    }
    assert request.headers == {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Authorization": "Bearer test-key",
    }


# (name, headers of the caller's, headers that differ from the usual)
HEADERS: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("another", {"X-Team": "a"}, {"X-Team": "a"}),
    ("instead_of_the_key", {"Authorization": "Basic x"}, {"Authorization": "Basic x"}),
    ("whatever_the_case", {"authorization": "Basic x"}, {"authorization": "Basic x"}),
    ("instead_of_the_accepted_type", {"ACCEPT": "*/*"}, {"ACCEPT": "*/*"}),
]


@pytest.mark.parametrize(
    ("headers", "differ"), [case[1:] for case in HEADERS], ids=[case[0] for case in HEADERS]
)
async def test_the_callers_headers_win_whatever_their_case(
    headers: dict[str, str], differ: dict[str, str]
) -> None:
    usual = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "authorization": "Bearer test-key",
    }
    request = await sent(headers=headers)
    lower = [name.lower() for name in request.headers]
    assert len(set(lower)) == len(lower)
    expected = {**usual, **{name.lower(): value for name, value in differ.items()}}
    assert {name.lower(): value for name, value in request.headers.items()} == expected


@pytest.mark.parametrize("name", ["Authorization", "authorization", "AUTHORIZATION"])
async def test_the_callers_own_header_is_all_the_credentials_that_are_needed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOY_API_KEY", raising=False)
    http = PipeClient(Pipe(*HELLO, end=True))
    async with swink.Client(host=host_of(toy=Toy), http=http) as client:
        await client.complete(MODEL, "Hi", headers={name: "Basic canary"})
    assert {n: v for n, v in http.requests[0].headers.items() if n.lower() == name.lower()} == {
        name: "Basic canary"
    }


async def test_hooks_may_add_headers_such_as_a_trace_context() -> None:
    class Tracer:
        @swink.hookimpl
        def on_event(self, event: Any, call: swink.Call) -> None:
            if isinstance(event, swink.Start):
                call.headers["traceparent"] = "00-1-2-01"

    http = PipeClient(Pipe(*HELLO, end=True))
    async with client_of(Tracer(), http=http) as client:
        await client.complete(MODEL, "Hi")
    assert http.requests[0].headers["traceparent"] == "00-1-2-01"


class Asked:
    """An observer that stores the requests when a call has ended."""

    @swink.hookimpl
    def on_event(self, event: Any, call: swink.Call) -> None:
        if isinstance(event, swink.Done | Error):
            self.request, self.endpoint = call.attempt.request, call.attempt.endpoint


@pytest.mark.parametrize(
    "pipe", [Pipe(*HELLO, end=True), answered(b"", 400), Failure("connect", kind=Kind.NETWORK)]
)
async def test_observers_get_request_and_address_for_any_outcome(
    pipe: Pipe | Failure,
) -> None:
    asked, http = Asked(), PipeClient(pipe)
    async with client_of(asked, http=http) as client:
        await collect(client.stream(MODEL, "Hi", base_url="https://a:canary@own.example/v2"))
    assert asked.request is http.requests[-1]
    assert asked.endpoint == "https://own.example/v2/chat"


async def test_the_limit_for_connecting_goes_to_the_http_client() -> None:
    http = PipeClient(Pipe(*HELLO, end=True))
    async with client_of(http=http, timeouts=swink.Timeouts(connect=3)) as client:
        await client.complete(MODEL, "Hi")
    assert http.connect_timeouts == [3]


# -- answers that are no stream ------------------------------------------------------------------

# (name, answer, kind, code, part of the message)
NO_STREAM: list[tuple[str, Pipe, Kind, str, str]] = [
    ("a_page", answered(b"<html>Sign in", Content_Type="text/html; charset=utf-8"),
     Kind.PROTOCOL, "content_type", "the answer is text/html, not a stream: '<html>Sign in'"),
    ("json_that_is_no_error", answered(b'{"a": 1}', Content_Type="application/json"),
     Kind.PROTOCOL, "content_type", "the answer is application/json"),
    ("an_error_with_status_200",
     answered(b'{"error": {"code": "busy", "message": "later"}}', Content_Type="application/json"),
     Kind.OVERLOADED, "busy", "later"),
    ("an_unknown_error_with_status_200",
     answered(b'{"error": {"code": "new", "message": "so"}}', Content_Type="application/json"),
     Kind.UNKNOWN, "new", "so"),
    ("a_stream_of_another_type", answered(b"", Content_Type="application/x-ndjson"),
     Kind.PROTOCOL, "content_type", "application/x-ndjson"),
    ("an_unheard_of_encoding",
     answered(b"x", Content_Type="text/event-stream", Content_Encoding="rot13"),
     Kind.PROTOCOL, "encoding", "rot13"),
    ("status_201", answered(b"data: x\n\n", 201, Content_Type="text/event-stream"),
     Kind.PROTOCOL, "content_type", "text/event-stream"),
    ("status_204", answered(b"", 204), Kind.PROTOCOL, "content_type", "of unknown type"),
    ("a_redirect", answered(b"", 307, Location="https://elsewhere.example/"),
     Kind.PROTOCOL, "redirect", "redirected (HTTP 307) to https://elsewhere.example/"),
    ("a_redirect_to_nowhere", answered(b"", 302), Kind.PROTOCOL, "redirect", "unknown address"),
    ("an_error_object", answered(b'{"error": {"message": "no such model", "type": "t"}}', 404),
     Kind.MODEL_NOT_FOUND, "t", "no such model"),
    ("an_error_in_a_list", answered(b'[{"error": {"message": "bad"}}]', 400),
     Kind.INVALID_REQUEST, None, "bad"),
    ("an_error_as_text", answered(b'{"error": "bad"}', 400),
     Kind.INVALID_REQUEST, None, "bad"),
    ("a_message_alone", answered(b'{"message": "bad"}', 400),
     Kind.INVALID_REQUEST, None, "bad"),
    ("a_detail_alone", answered(b'{"detail": "bad"}', 422),
     Kind.INVALID_REQUEST, None, "bad"),
    ("a_details_list", answered(b'{"detail": [{"loc": ["x"]}]}', 422),
     Kind.INVALID_REQUEST, None, "HTTP 422"),
    ("a_providers_code", answered(b'{"error": {"code": "busy"}}', 400),
     Kind.OVERLOADED, "busy", ""),
    ("prose", answered(b"upstream connect error", 503), Kind.OVERLOADED, None,
     "HTTP 503: 'upstream connect error'"),
    ("long_prose", answered(b"x" * 999, 503), Kind.OVERLOADED, None,
     f"HTTP 503: '{'x' * 200}'"),
    ("a_long_page", answered(b"x" * 999, Content_Type="text/html"),
     Kind.PROTOCOL, "content_type", f"not a stream: '{'x' * 80}'"),
    ("nothing", answered(b"", 500), Kind.NETWORK, None, "HTTP 500"),
    ("bytes", answered(b"\xff\xfe\x00", 500), Kind.NETWORK, None, "HTTP 500"),
    ("json_that_is_no_object", answered(b"5", 500), Kind.NETWORK, None, "HTTP 500: '5'"),
    ("an_array_of_nothing", answered(b"[]", 500), Kind.NETWORK, None, "HTTP 500"),
    ("nested_too_deep", answered(b"[" * 60_000, 500), Kind.NETWORK, None, "HTTP 500"),
    ("an_error_that_is_a_list", answered(b'{"error": [1]}', 500), Kind.NETWORK, None, ""),
    ("an_error_of_numbers", answered(b'{"error": {"message": 5, "code": 7}}', 400),
     Kind.INVALID_REQUEST, "7", "5"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pipe", "kind", "code", "message"),
    [case[1:] for case in NO_STREAM],
    ids=[case[0] for case in NO_STREAM],
)
async def test_an_answer_that_is_not_a_stream_is_a_classified_error(
    pipe: Pipe, kind: Kind, code: str | None, message: str
) -> None:
    error = await error_of(pipe)
    assert (error.error_kind, error.code) == (kind, code)
    assert message in error.error_message
    assert error.status == pipe.status
    assert error.phase == "request"
    assert pipe.closed


async def test_the_body_stands_for_a_message_only_where_there_is_none() -> None:
    said = answered(b'{"error": {"message": "bad"}}', 400)
    assert (await error_of(said)).error_message == "bad"
    assert (await error_of(answered(b"oops", 500))).error_message == "HTTP 500: 'oops'"
    assert (await error_of(answered(b"", 500))).error_message == "HTTP 500"


async def test_the_types_are_compared_without_parameters_and_case() -> None:
    pipe = Pipe(*HELLO, headers={"content-type": "Text/Event-Stream; Charset=UTF-8"})
    async with client_of(http=PipeClient(pipe)) as client:
        assert (await client.complete(MODEL, "Hi")).text == "Hello"


async def test_an_answer_without_a_type_is_tried_as_a_stream() -> None:
    async with client_of(http=PipeClient(Pipe(*HELLO, headers={}))) as client:
        assert (await client.complete(MODEL, "Hi")).text == "Hello"


async def test_an_errors_body_that_breaks_off_does_not_hide_its_status() -> None:
    pipe = cut_after(b'{"error": {"mess')
    pipe.status = 429
    error = await error_of(pipe)
    assert error.error_kind is Kind.THROTTLED


async def test_an_errors_body_that_never_ends_does_not_hide_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swink_core.providers.answers.BODY_SECONDS", 0.01)
    error = await error_of(Pipe(b'{"error": {"mess', status=429))
    assert error.error_kind is Kind.THROTTLED


async def test_an_endless_error_body_is_read_up_to_a_bound() -> None:
    pipe = Pipe(*[b"x" * 8192] * 100, status=500)
    error = await error_of(pipe)
    assert error.error_kind is Kind.NETWORK
    assert not pipe._queue.empty()


async def test_the_request_id_is_kept_from_the_answers_headers() -> None:
    pipe = answered(b"", 500, x_request_id="q1")
    error = await error_of(pipe)
    assert error.request_id == "q1"
    async with client_of(http=PipeClient(Pipe(*HELLO, headers={"request-id": "q2"}))) as client:
        assert (await client.complete(MODEL, "Hi")).request_id == "q2"


async def test_the_request_id_may_stand_in_an_errors_body() -> None:
    body = b'{"request_id": "q3", "error": {"message": "bad"}}'
    assert (await error_of(answered(body, 400))).request_id == "q3"
    assert (await error_of(answered(body, 400, x_request_id="q1"))).request_id == "q3"


async def test_a_wait_that_the_server_asks_for_is_on_the_error() -> None:
    error = await error_of(answered(b"", 429, Retry_After="7"))
    assert error.retry_after == 7.0
    assert "7 s" in (error.resolution or "")


# -- credentials that expire ---------------------------------------------------------------------


@define(frozen=True)
class Numbered(Grant):
    """Gives out numbered tokens, each after a turn of the event loop."""

    given: ClassVar[list[str]] = []

    async def fetch(self, http: TokenHTTP) -> Token:
        await asyncio.sleep(0)
        self.given.append(f"token-{len(self.given)}")
        return Token(self.given[-1])


class Renewing(Toy):
    """A provider whose token is renewed after a 401."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        Numbered.given.clear()

    def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
        return Numbered()


async def test_expired_credentials_are_renewed_once_and_the_request_sent_again() -> None:
    expired = answered(b"", 401)
    http = PipeClient(expired, Pipe(*HELLO, end=True))
    async with client_of(providers={"toy": Renewing}, http=http) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert types(events)[-1] == "done"
    assert "retry" not in types(events)
    assert [r.headers["Authorization"] for r in http.requests] == [
        "Bearer token-0",
        "Bearer token-1",
    ]
    assert expired.closed


@define(frozen=True)
class Shut(Numbered):
    async def fetch(self, http: TokenHTTP) -> Token:
        if self.given:
            raise RuntimeError("the vault is shut")
        return await super().fetch(http)


class Unrenewable(Renewing):
    def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
        return Shut()


async def test_a_renewal_that_fails_leaves_no_response_open() -> None:
    expired = answered(b"", 401)
    providers: dict[str, Any] = {"toy": Unrenewable}
    async with client_of(providers=providers, http=PipeClient(expired)) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert (types(events)[-1], expired.closed) == ("error", True)


async def test_credentials_that_nobody_renews_are_not_sent_again() -> None:
    http = PipeClient(answered(b"", 401), Pipe(*HELLO, end=True))
    async with client_of(http=http) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert (events[-1].error_kind, len(http.requests)) == (Kind.AUTH, 1)


async def test_credentials_that_stay_refused_are_an_error() -> None:
    http = PipeClient(answered(b"", 401), answered(b"", 401))
    async with client_of(providers={"toy": Renewing}, http=http, retry=AT_ONCE) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert events[-1].error_kind is Kind.AUTH
    assert len(http.requests) == 2


async def test_calls_that_fail_together_renew_together() -> None:
    http = PipeClient(
        *[answered(b"", 401) for _ in range(5)], *[Pipe(*HELLO, end=True) for _ in range(5)]
    )
    providers: dict[str, Any] = {"toy": Renewing}
    async with client_of(providers=providers, http=http) as client:
        await asyncio.gather(*(client.complete(MODEL, "Hi") for _ in range(5)))
    assert {r.headers["Authorization"] for r in http.requests[5:]} == {"Bearer token-1"}


def test_calls_that_fail_together_in_another_event_loop_renew_together_too() -> None:
    class Taking(PipeClient):
        taken = ""

        async def send(self, request: HTTPRequest, connect_timeout: float | None) -> Any:
            self.requests.append(request)
            is_taken = request.headers["Authorization"] == f"Bearer {self.taken}"
            return Pipe(*HELLO, end=True) if is_taken else answered(b"", 401)

    http = Taking()
    client = client_of(providers={"toy": Renewing}, http=http)

    async def ask_together() -> None:
        await asyncio.gather(*(client.complete(MODEL, "Hi") for _ in range(3)))

    for http.taken in ("token-1", "token-2"):
        asyncio.run(ask_together())
        assert {r.headers["Authorization"] for r in http.requests[-3:]} == {f"Bearer {http.taken}"}
    asyncio.run(client.aclose())
    assert Numbered.given == ["token-0", "token-1", "token-2"]


# -- whole answers -------------------------------------------------------------------------------

WHOLE = json.dumps([{"text": "Hel"}, {"text": "lo"}, {"stop": "stop", "finish": True}]).encode()


async def test_a_whole_answer_is_replayed_through_the_same_events() -> None:
    pipe = Pipe(WHOLE[:7], WHOLE[7:], headers=JSON, end=True)
    async with client_of(http=PipeClient(pipe)) as client:
        events = await collect(client.stream(MODEL, "Hi", transport="buffered"))
    assert types(events) == ["start", "text_start", "text_delta", "text_delta", "text_end", "done"]


async def test_a_whole_answer_that_is_cut_is_a_network_failure() -> None:
    pipe = Pipe(WHOLE[:7], headers=JSON)
    pipe.send(swink.ProviderFailure(Failure("streaming", kind=Kind.NETWORK, code="cut")))
    async with client_of(http=PipeClient(pipe)) as client:
        events = await collect(client.stream(MODEL, "Hi", transport="buffered", retry=False))
    assert types(events) == ["start", "error"]
    assert (events[-1].error_kind, events[-1].code) == (Kind.NETWORK, "cut")


async def test_a_whole_answer_is_asked_for_as_such() -> None:
    http = PipeClient(Pipe(WHOLE, headers=JSON, end=True), Pipe(*HELLO, end=True))
    async with client_of(http=http) as client:
        await client.complete(MODEL, "Hi", transport="buffered")
        await client.complete(MODEL, "Hi")
    accepted = [request.headers["Accept"] for request in http.requests]
    assert accepted == ["application/json", "text/event-stream"]


async def test_a_server_that_streams_what_was_asked_for_whole_is_told_of() -> None:
    pipe = Pipe(b"event: x\ndata: {}\n\n", headers=JSON, end=True)
    async with client_of(http=PipeClient(pipe)) as client:
        events = await collect(client.stream(MODEL, "Hi", transport="buffered"))
    assert events[-1].error_kind is Kind.PROTOCOL
    assert events[-1].error_message.endswith("the server sent a stream for an unstreamed request")


@pytest.mark.parametrize("cut", [0, 1, len(WHOLE) // 2, len(WHOLE) - 1])
async def test_a_whole_answer_that_is_cut_is_no_success(cut: int) -> None:
    pipe = Pipe(*([WHOLE[:cut]] if cut else []), headers=JSON, end=True)
    async with client_of(http=PipeClient(pipe)) as client:
        events = await collect(client.stream(MODEL, "Hi", transport="buffered"))
    assert isinstance(events[-1], Error)


async def test_a_whole_answer_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swink_core.providers.buffered.BUFFERED_LIMIT", len(WHOLE) - 1)
    pipe = Pipe(WHOLE, headers=JSON, end=True)
    async with client_of(http=PipeClient(pipe)) as client:
        events = await collect(client.stream(MODEL, "Hi", transport="buffered"))
    assert (events[-1].error_kind, events[-1].code) == (Kind.PROTOCOL, "frame")
    assert f"an answer is longer than the limit of {len(WHOLE) - 1} bytes" in str(events[-1])


def test_a_whole_answer_may_have_64_mib() -> None:
    decoder = BufferedDecoder()
    assert decoder.feed(bytes(64 * 1024 * 1024)) == []
    with pytest.raises(FrameTooLong):
        decoder.feed(b"x")


async def test_a_provider_may_ask_for_a_whole_answer_itself_and_says_so() -> None:
    asked: list[tuple[str, str]] = []

    class Broken(Toy):
        def buffers(self, model: swink.Model, context: Context, options: StreamOptions) -> bool:
            return (str(model), context.messages[0].content) == (MODEL, "Hi")

        def api(self, model: swink.Model, options: StreamOptions) -> Any:
            asked.append((str(model), options.transport))
            return self

    observer, pipe = Observer(), Pipe(WHOLE, headers=JSON, end=True)
    async with client_of(observer, providers={"toy": Broken}, http=PipeClient(pipe)) as client:
        message = await client.complete(MODEL, "Hi", api_key="k")
    assert message.text == "Hello"
    assert [e.code for e in observer.events if isinstance(e, Notice)] == ["buffered"]
    assert {*asked[:-1]} == {(MODEL, "auto")}
    assert asked[-1] == (MODEL, "buffered")


async def test_a_transport_that_the_caller_chooses_is_kept() -> None:
    broken = type("Broken", (Toy,), {"buffers": lambda *_: True})
    http = PipeClient(Pipe(*HELLO, end=True), Pipe(WHOLE, headers=JSON, end=True))
    async with client_of(providers={"toy": broken}, api_key="k", http=http) as client:
        for transport in ("sse", "buffered"):
            events = await collect(client.stream(MODEL, "Hi", transport=transport))
            assert "notice" not in types(events)
            assert types(events)[-1] == "done"


# -- secrets -------------------------------------------------------------------------------------

CANARY = "sk-canary-ghijklmnopqr"
"""A key, of which no address or id contains six characters in a row by chance."""

# (name, what the server sends that quotes the key)
ECHOES: list[tuple[str, Callable[[], Any]]] = [
    ("an_error_message",
     lambda: answered(json.dumps({"error": {"message": f"bad key {CANARY}"}}).encode(), 401)),
    ("prose", lambda: answered(f"bad key {CANARY}".encode(), 401)),
    *((f"prose_cut_at_{n}", lambda n=n: answered(b"x" * n + CANARY.encode(), 401))
      for n in range(175, 205, 5)),
    *((f"a_page_cut_at_{n}",
       lambda n=n: answered(b"x" * n + CANARY.encode(), Content_Type="text/html"))
      for n in range(60, 85, 5)),
    ("a_redirect", lambda: answered(b"", 307, Location=f"https://a.example/?key={CANARY}")),
    ("an_error_in_the_stream",
     lambda: Pipe(frame(text="a"), frame(error={"code": "x", "message": f"bad {CANARY}"}))),
    ("malformed_frames", lambda: Pipe(*[f"data: {{{CANARY}\n\n".encode()] * 5)),
    *((f"malformed_frames_cut_at_{n}",
       lambda n=n: Pipe(*[b"data: {" + b"x" * n + CANARY.encode() + b"\n\n"] * 5))
      for n in range(95, 125, 5)),
    ("a_failing_connection", lambda: Failure("connect", message=f"cannot send {CANARY}")),
    ("an_exception", lambda: Failure("connect", exception=ValueError(CANARY))),
]  # fmt: skip


@pytest.mark.parametrize("answer", [e[1] for e in ECHOES], ids=[e[0] for e in ECHOES])
async def test_the_key_is_nowhere_even_if_the_server_echoes_it(
    answer: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    observer = Observer()
    async with client_of(observer, http=PipeClient(answer()), api_key=CANARY) as client:
        stream = client.stream(MODEL, "Hi")
        with pytest.raises(swink.StreamError) as caught:
            await stream.result()
    error = caught.value
    shown = [
        repr(observer.events),
        json.dumps(swink.dump(observer.events)),
        caplog.text,
        str(error),
        repr(error),
        repr(vars(error)),
        repr(stream.call),
        repr(stream.message),
        repr(stream),
        repr(client),
    ]
    for n in range(len(CANARY) - 5):
        assert not any(CANARY[n : n + 6] in text for text in shown)


@pytest.mark.parametrize("source", ["the caller", "the environment"])
@pytest.mark.parametrize(
    "where", ["convert", "request", "parser", "classify", "credential", "sign"]
)
async def test_the_key_is_not_logged_with_what_a_provider_raises(
    where: str, source: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_API_KEY", f"{CANARY}\n")
    given = CANARY if source == "the caller" else None

    class Careless(Toy):
        pass

    def fails(*_: Any) -> Any:
        raise ValueError(f"cannot go on with {CANARY}")

    setattr(Careless, where, fails)
    caplog.set_level(logging.DEBUG)
    http = PipeClient(answered(b"", 500))
    async with client_of(providers={"toy": Careless}, http=http) as client:
        with pytest.raises(swink.StreamError) as caught:
            await client.complete(MODEL, "Hi", api_key=given)
    assert "canary" not in caplog.text
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_the_key_is_not_logged_with_what_an_observer_raises(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Careless:
        @swink.hookimpl
        def on_event(self, call: swink.Call) -> None:
            raise ValueError(f"cannot report {call.options.api_key}")

    async with client_of(
        Careless(), http=PipeClient(Pipe(*HELLO, end=True)), api_key=CANARY
    ) as client:
        await client.complete(MODEL, "Hi")
    assert "cannot report [hidden]" in caplog.text
    assert "canary" not in caplog.text


def test_a_request_shows_neither_headers_nor_body() -> None:
    request = HTTPRequest("https://a.example/", b"sk-canary", {"X-Key": "sk-canary"})
    assert "canary" not in repr(request)


class Local(Toy):
    """A provider that answers without a request."""

    async def exchange(self, x: Exchange) -> Any:
        yield b"".join(HELLO)


@pytest.mark.parametrize(("provider", "requests"), [(Toy, 1), (Local, 0)])
async def test_taps_get_an_answer_once_with_or_without_a_request(
    provider: Any, requests: int
) -> None:
    seen: list[bytes] = []
    http = PipeClient(Pipe(*HELLO, end=True))
    async with (
        client_of(providers={"toy": provider}, api_key="k", http=http) as client,
        client.stream(MODEL, "Hi") as stream,
    ):
        stream.call.taps.append(lambda _, __, data: seen.append(data))
        await collect(stream)
    assert b"".join(seen) == b"".join(HELLO)
    assert len(http.requests) == requests


# -- damaged frames ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "asked", "kind", "text"),
    [
        ("skip", None, None, "Hello"),
        ("skip", "fail", Kind.PROTOCOL, ""),
        ("fail", None, Kind.PROTOCOL, ""),
        ("fail", "read_on", Kind.PROTOCOL, "Hello"),
        ("fail", "skip", None, "Hello"),
    ],
)
async def test_the_callers_policy_for_damaged_frames_replaces_the_providers(
    own: str, asked: Any, kind: Kind | None, text: str
) -> None:
    policed = type("Policed", (Toy,), {"malformed": own})
    http = PipeClient(Pipe(b"data: {broken\n\n", *HELLO, end=True))
    async with client_of(providers={"toy": policed}, api_key="k", http=http) as client:
        events = await collect(client.stream(MODEL, "Hi", malformed=asked))
    assert getattr(events[-1], "error_kind", None) is kind
    assert "".join(e.delta for e in events if isinstance(e, swink.TextDelta)) == text


# -- the hooks -----------------------------------------------------------------------------------


def test_the_hooks_of_the_template_are_hooks_and_final() -> None:
    for name in ("stream", "convert_messages", "classify_error"):
        hook = getattr(HTTPProvider, name)
        assert hasattr(hook, "swink_impl")
        assert getattr(hook, "__final__", False)


def test_failures_of_the_cores_own_are_not_the_providers_to_classify() -> None:
    provider = Toy("toy")
    busy = Failure("streaming", code="busy", kind=Kind.PROTOCOL)
    model = swink.Model("toy", "large")
    assert provider.classify_error(model=model, failure=busy) is None
    busy.kind = None
    assert provider.classify_error(model=model, failure=busy) is not None


def test_a_provider_that_says_nothing_has_what_nearly_all_have() -> None:
    assert HTTPProvider.features == {"tools", "tool_choice", "stop"}
    knobs = HTTPProvider.knobs
    assert knobs == {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_tokens"}
    provider = HTTPProvider("plain")
    model, options = swink.Model("plain", "large"), StreamOptions()
    assert provider.buffers(model, IMAGE, options) is False
    assert provider.api(model, options) is provider
    assert provider.speaker(model) is provider
    assert provider.notices(model, options) == ()
    assert provider.learned(model, options) is None
    assert provider.classify(Failure("request")) is None
    assert provider.speaks_http
    assert (provider.buffered, provider.websocket) == (False, False)
    assert provider.content_types == ("text/event-stream",)
    assert (provider.malformed, provider.system_marks) == ("read_on", None)


async def test_errors_are_read_and_classified_as_their_speaker_writes_them() -> None:
    class Upstream(Toy):
        def error_facts(self, failure: Failure) -> None:
            failure.code = "drowned"

        def classify(self, failure: Failure) -> swink.Classification | None:
            return by_tables(failure, {"drowned": Kind.OVERLOADED})

    upstream = Upstream("upstream")

    class Router(Toy):
        def speaker(self, model: swink.Model) -> HTTPProvider:
            return upstream if model.id == "small" else self

    http = PipeClient(answered(b"", 400), answered(b"", 400))
    async with client_of(providers={"toy": Router}, api_key="k", http=http) as client:
        ends = [(await collect(client.stream(f"toy/{id}", "Hi")))[-1] for id in ("small", "large")]
    assert [(end.error_kind, end.code) for end in ends] == [
        (Kind.OVERLOADED, "drowned"),
        (Kind.INVALID_REQUEST, None),
    ]


def test_a_conversation_from_elsewhere_is_fitted_before_it_is_converted() -> None:
    class Plain(Toy):
        knobs = frozenset[str]()

        def convert(self, model: Any, context: Context, options: StreamOptions) -> Any:
            return {"system": context.system_prompt, "temperature": options.temperature}

    context, options = Context(INSTRUCTED.messages[:2]), StreamOptions(temperature=0.5)
    model = swink.Model("toy", "large")
    provider = Plain("toy")
    body = provider.convert_messages(model=model, context=context, options=options)
    assert body == {"system": "First.", "temperature": None}


async def test_a_token_that_needs_no_fetching_is_hidden_even_if_it_only_signs() -> None:
    class Signing(Toy):
        def credential(self, request: HTTPRequest, options: StreamOptions) -> Token:
            return Token(CANARY)

        def sign(self, request: HTTPRequest, credential: str | Token, options: Any) -> None:
            assert isinstance(credential, Token)
            request.headers["Signature"] = str(len(credential.value))

    http = PipeClient(answered(f"bad token {CANARY}".encode(), 401))
    async with client_of(providers={"toy": Signing}, http=http, retry=False) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert [one.headers["Signature"] for one in http.requests] == [str(len(CANARY))]
    assert events[-1].error_kind is Kind.AUTH
    assert "bad token" in events[-1].error_message
    assert "canary" not in repr(events)


@pytest.mark.parametrize("name", ["convert", "parser"])
async def test_a_missing_method_of_a_provider_is_named(name: str) -> None:
    unwritten = type("Unwritten", (Toy,), {name: getattr(HTTPProvider, name)})
    http = PipeClient(Pipe(*HELLO, end=True))
    async with client_of(providers={"toy": unwritten}, api_key="k", http=http) as client:
        *_, end = await collect(client.stream(MODEL, "Hi"))
    assert end.error_kind is Kind.INTERNAL
    assert f"{name}() has to be written" in end.error_message


async def test_a_provider_need_not_know_what_failures_mean() -> None:
    plain = type("Plain", (Toy,), {"classify": HTTPProvider.classify})
    http = PipeClient(answered(b'{"error": {"code": "busy"}}', 429))
    async with client_of(providers={"toy": plain}, api_key="k", http=http) as client:
        *_, end = await collect(client.stream(MODEL, "Hi"))
    assert (end.error_kind, end.code) == (Kind.THROTTLED, "busy")


async def test_a_call_without_an_http_client_is_reported() -> None:
    toy = Toy("toy")
    call = call_of(toy, "large", options=StreamOptions(api_key="key"))
    exchange = Exchange(toy, call.model, call.options, call)
    with pytest.raises(swink.PluginError, match="no HTTP client"):
        await exchange.read(HTTPRequest("http://toy.invalid"))


ACME = """
[provider]
name = "acme"
base_url = "http://shipped.invalid"
auth = "none"
required_env = ["ACME_PROJECT"]
"""


class Acme(HTTPProvider):
    """A provider that a models.toml describes."""

    __module__ = "catalogue_of_acme_calls"
    path = "/chat"
    convert = Toy.convert
    parser = Toy.parser


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that writes the entry of `Acme` in the user's file."""
    folder = tmp_path / Acme.__module__
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "models.toml").write_text(ACME)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ACME_PROJECT", "p")
    file = tmp_path / "mine.toml"
    file.touch()
    monkeypatch.setenv("SWINK_MODELS", str(file))

    def write(line: str) -> None:
        file.write_text(f'[provider]\nname = "acme"\n{line}\n')

    return write


def test_an_address_in_the_users_file_is_given_and_not_the_packages(
    users: Callable[[str], None],
) -> None:
    for line, given in (
        ('base_url = "http://own.invalid"', "http://own.invalid"),
        ('title = "Acme"', None),
    ):
        users(line)
        provider = Acme("acme")
        assert provider.shipped_url == "http://shipped.invalid"
        assert provider.given_url(StreamOptions(), {}) == given
        assert provider.at_home(StreamOptions(), {}) is (given is None)


async def test_the_users_file_sets_the_address_of_the_next_call(
    users: Callable[[str], None],
) -> None:
    http = PipeClient(Pipe(*HELLO, end=True), Pipe(*HELLO, end=True), Pipe(*HELLO, end=True))
    point = entry_point("acme", Acme)
    async with swink.Client(host=swink.Host(entry_points=[point]), http=http) as client:
        await client.complete("acme/a", "Hi")
        users('base_url = "http://own.invalid"')
        await client.complete("acme/a", "Hi")
        users('title = "Acme"')
        await client.complete("acme/a", "Hi")
    assert [request.url for request in http.requests] == [
        "http://shipped.invalid/chat",
        "http://own.invalid/chat",
        "http://shipped.invalid/chat",
    ]


@pytest.mark.usefixtures("users")
async def test_a_call_without_a_required_variable_fails_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    http = PipeClient(Pipe(*HELLO, end=True))
    point = entry_point("acme", Acme)
    async with swink.Client(host=swink.Host(entry_points=[point]), http=http) as client:
        await client.complete("acme/a", "Hi")
        monkeypatch.delenv("ACME_PROJECT")
        with pytest.raises(swink.AuthenticationError) as caught:
            await client.complete("acme/a", "Hi")
    assert len(http.requests) == 1
    assert caught.value.message == "acme needs ACME_PROJECT, which is not set"
    assert caught.value.resolution == "Set ACME_PROJECT in the environment."
    assert (caught.value.kind, caught.value.code) == (Kind.AUTH, "no_variable")
