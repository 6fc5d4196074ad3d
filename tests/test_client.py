"""What callers hold: models and chains, options and defaults, conversations, connections."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fakes import (
    AT_ONCE,
    HELLO,
    MODEL,
    NO_RETRY,
    Observer,
    Pipe,
    PipeClient,
    Server,
    Toy,
    client_of,
    collect,
    entry_point,
    frame,
    host_of,
    says,
    sends,
    serving,
    settled,
    types,
)

import swink_core as swink
from swink_core import (
    InvalidContext,
    InvalidModel,
    InvalidOption,
    ModelInfo,
    RetryPolicy,
    UnknownProvider,
    UsageError,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import (
    Catalog,
    with_extra,
)
from swink_core.vocabulary.habits import CONTEXT_WORDS, HABITS
from swink_testing.calls import client_with

# -- mistakes of the caller's --------------------------------------------------------------------

# (name, model, context, options, exception, part of its text)
MISTAKES: list[tuple[str, Any, Any, dict[str, Any], type[Exception], str]] = [
    ("no_slash", "large", "Hi", {}, InvalidModel, "'large' is not a model name"),
    ("no_name", 5, "Hi", {}, InvalidModel, "not int"),
    ("half_a_character", "toy/\ud800", "Hi", {}, InvalidModel, "surrogates not allowed"),
    ("nothing", None, "Hi", {}, InvalidModel, "No model given"),
    ("an_empty_chain", [], "Hi", {}, InvalidModel, "the list of models is empty"),
    ("a_chain_in_a_chain", [["toy/a"]], "Hi", {}, InvalidModel, "not list"),
    ("two_names_for_one", [("toy/a", "toy/b")], "Hi", {}, InvalidModel, "a pair of a model name"),
    ("a_triple_in_a_chain", [("toy/a", {}, 5)], "Hi", {}, InvalidModel, "a pair of a model name"),
    ("an_unknown_provider", "tyo/large", "Hi", {}, UnknownProvider, 'did you mean "toy"?'),
    ("an_unknown_second_provider", [MODEL, "x/y"], "Hi", {}, UnknownProvider, 'no provider "x"'),
    ("an_unknown_option", MODEL, "Hi", {"temprature": 1}, InvalidOption,
     "no option 'temprature'; did you mean 'temperature'?"),
    ("what_another_library_calls_it", MODEL, "Hi", {"max_retries": 1}, InvalidOption,
     "no option 'max_retries'\nTemporary failures are retried"),
    ("tools_by_half", MODEL, "Hi", {"tool": []}, InvalidOption,
     "no option 'tool'; did you mean 'tools'?"),
    ("the_system_prompt_by_half", MODEL, "Hi", {"sys": "Be brief."}, InvalidOption,
     "no option 'sys'"),
    ("the_system_prompt_twice", MODEL, "Hi", {"system": "a", "system_prompt": "b"}, InvalidOption,
     "system and system_prompt are the same option"),
    ("the_system_prompt_misspelt", MODEL, "Hi", {"sistem_prompt": "x"}, InvalidOption,
     "did you mean 'system_prompt'?"),
    ("a_word_for_a_number", MODEL, "Hi", {"max_tokens": "ten"}, InvalidOption,
     "max_tokens='ten': expected `int"),
    ("a_limit_of_no_number", MODEL, "Hi", {"timeout": "soon"}, InvalidOption,
     "timeout='soon': expected `float"),
    ("a_limit_of_a_word_of_ours", MODEL, "Hi", {"timeout": "total"}, InvalidOption,
     "timeout='total': expected `float"),
    ("a_limit_said_twice", MODEL, "Hi", {"timeout": 3, "timeouts": swink.Timeouts()}, InvalidOption,
     "timeout and timeouts"),
    ("tools_as_a_number", MODEL, "Hi", {"tools": 3}, InvalidContext, "tools are of type int"),
    ("a_message_of_no_role", MODEL, [{"content": "Hi"}], {}, InvalidContext, "unknown role None"),
    ("a_message_of_others", MODEL,
     [swink.UserMessage("Hi"), {"role": "user", "content": "a", "nick": "f"}], {}, InvalidContext,
     "part 1 of the prompt: extra fields found (nick)"),
    ("another_name_of_an_address", MODEL, "Hi", {"api_base": "a"}, InvalidOption,
     "base_url='a': expected an address"),
    ("a_message_that_names_a_file", MODEL,
     [{"role": "user", "content": [{"type": "image", "source": {"type": "file", "path": "/x"}}]}],
     {}, InvalidContext, "allow_files=True"),
    ("a_bad_option", MODEL, "Hi", {"max_tokens": 0}, InvalidOption, "max_tokens=0: expected"),
    ("limits_as_a_number", MODEL, "Hi", {"limits": 5}, UsageError, "limits is of type int"),
    ("a_bad_option_in_a_chain", [MODEL, ("toy/b", {"seed": "x"})], "Hi", {}, InvalidOption,
     "seed='x': expected `int"),
    ("no_conversation", MODEL, 5, {}, InvalidContext, "the prompt is of type int"),
    ("an_empty_conversation", MODEL, [], {}, InvalidContext, "the conversation is empty"),
    ("tools_as_one_tool", MODEL, "Hi", {"tools": swink.Tool("f")}, InvalidContext, "tools"),
    ("a_tool_of_a_provider", MODEL, "Hi", {"tools": [{"type": "web_search"}]}, InvalidContext,
     "a tool of type 'web_search' has neither a name nor a schema"),
    ("a_tool_of_a_provider_with_a_name", MODEL, "Hi",
     {"tools": [{"type": "web_search_1", "name": "web_search"}]}, InvalidContext,
     "a tool of type 'web_search_1' has neither a name nor a schema"),
    ("a_tool_with_a_field_of_no_tool", MODEL, "Hi", {"tools": [{"name": "f", "x": 1}]},
     InvalidContext, "tool 'f': extra fields found (x)"),
    ("a_system_prompt_of_another_type", MODEL, "Hi", {"system_prompt": 5}, InvalidContext,
     "the system prompt is of type int"),
    ("a_missing_file", MODEL,
     [swink.UserMessage([swink.ImageBlock(swink.FileSource("/no/such.png"))])], {},
     swink.MediaError, "no/such.png"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "context", "options", "error", "text"),
    [case[1:] for case in MISTAKES],
    ids=[case[0] for case in MISTAKES],
)
async def test_a_mistake_raises_before_anything_happens(
    model: Any, context: Any, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    observer, http = Observer(), PipeClient(Pipe())
    async with client_of(observer, http=http) as client:
        with pytest.raises(error) as caught:
            client.stream(model, context, **options)
    assert text in str(caught.value)
    assert isinstance(caught.value, UsageError)
    assert observer.events == []
    assert http.requests == []


TYPED = "tyo"
"""Near to a name that is installed: whoever owns a package of that name waits for it."""

PLACES_OF_NAMES: dict[str, Callable[[Any], Any]] = {
    "a call's model": lambda client: client.stream(f"{TYPED}/large", "Hi"),
    "a model without a provider": lambda client: client.stream(TYPED, "Hi"),
    "a chain": lambda client: client.stream([MODEL, f"{TYPED}/large"], "Hi"),
    "a client's default": lambda client: client_of(default=f"{TYPED}/large").stream(None, "Hi"),
    "options of a provider": lambda client: swink.Client(host=host_of(), providers={TYPED: {}}),
    "the catalogue": lambda client: Catalog(host_of(), {}).resolve(f"{TYPED}/large"),
    "the catalogue's list": lambda client: Catalog(host_of(), {}).models(TYPED),
    "the host": lambda client: host_of().bind(TYPED),
}


@pytest.mark.parametrize("name", PLACES_OF_NAMES)
async def test_no_message_installs_a_name_from_user_input(name: str) -> None:
    async with client_of(http=PipeClient(Pipe())) as client:
        with pytest.raises(UsageError) as caught:
            PLACES_OF_NAMES[name](client)
    text = f"{caught.value}\n{caught.value.resolution}"
    assert TYPED in text
    assert not re.search(rf"\b(pip|uv|install)\b.*{TYPED}", text)


def test_a_mistake_in_the_clients_defaults_raises_when_it_is_made() -> None:
    with pytest.raises(InvalidOption, match="no option 'api_kye'; did you mean 'api_key'"):
        swink.Client(host=host_of(), api_kye="k")


@pytest.mark.parametrize("name", ["system_prompt", "tools"])
@pytest.mark.parametrize(
    "give",
    [
        lambda given: swink.Client(host=host_of(), **given),
        lambda given: client_of().target(MODEL, **given),
        lambda given: client_of().stream([(MODEL, given)], "Hi"),
    ],
    ids=["client", "target", "chain"],
)
def test_a_part_of_the_conversation_can_only_be_set_for_a_call(
    give: Callable[[dict[str, Any]], Any], name: str
) -> None:
    with pytest.raises(InvalidOption, match=f"^{name} can only be set for a call") as caught:
        give({name: []})
    assert caught.value.resolution == "Pass it to each call."


LISTED = """
[[providers]]
name = "toy"
api_key_env = ["TOY_API_KEY"]

[[providers]]
name = "spare"
api_key_env = ["SPARE_API_KEY"]

[[models]]
id = "large"

[[models]]
id = "meta/small"

[[models]]
id = "large"
provider = "spare"
"""
TWO = {"toy": Toy, "spare": Toy}


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Two providers, of which both list `large` and one `meta/small`."""
    file = tmp_path / "mine.toml"
    file.write_text(LISTED)
    monkeypatch.setenv("SWINK_MODELS", str(file))
    for name in ("TOY_API_KEY", "SPARE_API_KEY", "SWINK_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def asked(model: Any, **given: Any) -> str:
    return str(client_of(providers=TWO, **given).stream(model, "Hi").call.model)


@pytest.mark.usefixtures("listed")
def test_a_bare_id_is_that_of_the_only_provider_that_lists_it() -> None:
    assert asked("meta/small") == "toy/meta/small"
    assert asked("toy/new") == "toy/new"


def test_a_bare_id_that_several_list_is_that_of_the_one_with_a_key(
    listed: pytest.MonkeyPatch,
) -> None:
    listed.setenv("SPARE_API_KEY", "k")
    assert asked("large") == "spare/large"
    listed.setenv("TOY_API_KEY", "k")
    with pytest.raises(InvalidModel) as caught:
        asked("large")
    assert caught.value.resolution == "Write spare/large or toy/large."


@pytest.mark.usefixtures("listed")
def test_a_bare_id_that_several_list_without_a_key_is_answered_with_the_candidates() -> None:
    with pytest.raises(InvalidModel) as caught:
        asked("large")
    assert caught.value.resolution == "Write spare/large or toy/large."
    with pytest.raises(InvalidModel, match="write provider/id"):
        asked("nobody-lists-it")


def test_a_call_that_names_no_model_is_made_on_the_default(listed: pytest.MonkeyPatch) -> None:
    assert asked(None, default="toy/new") == "toy/new"
    assert asked(None, default=["spare/a", "toy/b"]) == "spare/a"
    listed.setenv("SWINK_MODEL", "meta/small spare/a")
    assert asked(None) == "toy/meta/small"
    assert asked(None, default="toy/new") == "toy/new"


# (another library's name, its value, swink's option, what becomes of the value)
UNDERSTOOD: list[tuple[str, Any, str, Any]] = [
    ("api_base", "http://a/v1", "base_url", "http://a/v1"),
    ("budget_tokens", 2000, "thinking", 2000),
    ("extra_body", {"a": 1}, "extra", {"a": 1}),
    ("extra_headers", {"a": "1"}, "headers", {"a": "1"}),
    ("max_completion_tokens", 5, "max_tokens", 5),
    ("max_new_tokens", 5, "max_tokens", 5),
    ("max_output_tokens", 5, "max_tokens", 5),
    ("max_retries", 0, "retry", RetryPolicy.none()),
    ("max_tokens_to_sample", 5, "max_tokens", 5),
    ("num_retries", 0, "retry", RetryPolicy.none()),
    ("random_seed", 7, "seed", 7),
    ("reasoning", {"effort": "low"}, "thinking", swink.ThinkingLevel.LOW),
    ("reasoning", {"max_tokens": 2000}, "thinking", 2000),
    ("reasoning_effort", "none", "thinking", swink.ThinkingLevel.OFF),
    ("reasoning_effort", "xhigh", "thinking", swink.ThinkingLevel.EXTRA_HIGH),
    ("retries", 0, "retry", RetryPolicy.none()),
    ("stop_sequences", ["END"], "stop", ("END",)),
    ("thinking", {"type": "enabled", "budget_tokens": 2000}, "thinking", 2000),
    ("thinking", {"type": "disabled"}, "thinking", swink.ThinkingLevel.OFF),
    ("thinking_budget", 0, "thinking", 0),
    ("tool_choice", {"type": "any"}, "tool_choice", "required"),
    ("tool_choice", {"type": "tool", "name": "f"}, "tool_choice", "f"),
    ("tool_choice", {"type": "function", "name": "f"}, "tool_choice", "f"),
    ("tool_choice", {"type": "function", "function": {"name": "f"}}, "tool_choice", "f"),
    ("n", 1, "temperature", None),
]


@pytest.mark.parametrize(("theirs", "given", "ours", "value"), UNDERSTOOD)
def test_an_option_that_another_library_calls_otherwise_is_understood(
    theirs: str, given: Any, ours: str, value: Any
) -> None:
    options: dict[str, Any] = {"tools": [swink.Tool("f")], theirs: given}
    assert getattr(client_of().stream(MODEL, "Hi", **options).call.options, ours) == value


@pytest.mark.parametrize("name", ["instructions", "system", "system_instruction"])
def test_an_instruction_that_another_library_calls_otherwise_is_understood(name: str) -> None:
    options: dict[str, Any] = {name: "Be brief."}
    assert client_of().stream(MODEL, "Hi", **options).call.context.system_prompt == "Be brief."


def test_every_name_of_another_library_is_understood_or_answered() -> None:
    understood = {row[0] for row in UNDERSTOOD} | {"instructions", "system", "system_instruction"}
    for name, habit in HABITS.items():
        assert (name in understood) == (habit.option is not None or name == "n"), name


ANSWERED = sorted({*HABITS, *CONTEXT_WORDS} - {row[0] for row in UNDERSTOOD if row[0] != "n"})


@pytest.mark.parametrize(
    "name", [name for name in ANSWERED if name not in HABITS or HABITS[name].option is None]
)
def test_another_name_of_another_library_is_answered_with_what_to_write(name: str) -> None:
    options: dict[str, Any] = {name: object()}
    with pytest.raises(InvalidOption, match=f"no option '{name}'") as caught:
        client_of().stream(MODEL, "Hi", **options)
    assert re.search(r"Write|Pass|Put|Call|Leave|write", caught.value.resolution)


# (name, a tool as another API has it)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
FOREIGN_TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("chat_completions", {"type": "function", "function": {
        "name": "f", "description": "F.", "parameters": PARAMETERS, "strict": True}}),
    ("responses", {"type": "function", "name": "f", "description": "F.", "parameters": PARAMETERS,
                   "strict": True}),
    ("messages", {"name": "f", "description": "F.", "input_schema": PARAMETERS, "strict": True}),
    ("our_own", {"name": "f", "description": "F.", "parameters": PARAMETERS, "strict": True}),
]  # fmt: skip


@pytest.mark.parametrize(
    "tool", [row[1] for row in FOREIGN_TOOLS], ids=[row[0] for row in FOREIGN_TOOLS]
)
def test_a_tool_as_another_api_writes_it_is_a_tool(tool: dict[str, Any]) -> None:
    options: dict[str, Any] = {"tools": [tool]}
    call = client_of().stream(MODEL, "Hi", **options).call
    assert call.context.tools == [swink.Tool("f", "F.", PARAMETERS, True)]


PICTURE = swink.ImageBlock(swink.UrlSource("https://a.example/b.png"))
LOOK = [swink.UserMessage([swink.TextBlock("Look"), PICTURE])]

# (name, prompt, messages)
PROMPTS: list[tuple[str, Any, list[swink.Message]]] = [
    ("a_string", "Hi", [swink.UserMessage("Hi")]),
    ("a_message", swink.UserMessage("Hi"), [swink.UserMessage("Hi")]),
    ("a_mapping", {"role": "user", "content": "Hi"}, [swink.UserMessage("Hi")]),
    ("a_block", PICTURE, [swink.UserMessage([PICTURE])]),
    ("a_string_and_a_block", ["Look", PICTURE], LOOK),
    ("blocks_as_mappings", ["Look", swink.dump(PICTURE)], LOOK),
    ("a_message_of_a_string_and_a_block", swink.UserMessage(["Look", PICTURE]), LOOK),
    ("a_conversation_as_a_mapping", swink.dump(swink.Context(LOOK)), LOOK),
    (
        "messages_between_strings",
        ["Hi", swink.AssistantMessage("Yes?"), {"role": "user", "content": "Wait."}, "Look"],
        [
            swink.UserMessage([swink.TextBlock("Hi")]),
            swink.AssistantMessage("Yes?"),
            swink.UserMessage("Wait."),
            swink.UserMessage([swink.TextBlock("Look")]),
        ],
    ),
]


@pytest.mark.parametrize(
    ("prompt", "messages"), [row[1:] for row in PROMPTS], ids=[row[0] for row in PROMPTS]
)
def test_a_prompt_is_a_string_a_message_or_a_list_of_parts(
    prompt: Any, messages: list[swink.Message]
) -> None:
    assert client_of().stream(MODEL, prompt).call.context.messages == messages


# (a prompt, the fault, what to do)
NO_PROMPTS: list[tuple[Any, str, str]] = [
    (None, "the prompt is of type NoneType", "Pass a string"),
    (Path("a.png"), "the prompt is of type PosixPath", "image(path)"),
    (["Look", Path("a.png")], "part 1 of the prompt is of type PosixPath", "image(path)"),
    ([b"Hi"], "part 0 of the prompt is of type bytes", "Decode text"),
    ([("human", "Hi")], "part 0 of the prompt is of type tuple", '"role": "user"'),
    ([{"role": "human", "content": "Hi"}], "unknown role 'human'", "Write messages as"),
    ([{"type": "image_url", "image_url": {}}], "unknown type 'image_url'", "image(…)"),
    ({"Hi"}, "the prompt is of type set", "Pass a string"),
]


@pytest.mark.parametrize(("prompt", "fault", "remedy"), NO_PROMPTS)
def test_an_invalid_prompt_is_refused_with_advice(prompt: Any, fault: str, remedy: str) -> None:
    with pytest.raises(InvalidContext, match=re.escape(fault)) as caught:
        client_of().stream(MODEL, prompt)
    assert remedy in caught.value.resolution


async def test_a_closed_client_makes_no_calls() -> None:
    client = client_of()
    await client.aclose()
    await client.aclose()
    with pytest.raises(swink.UsageError, match="closed"):
        client.stream("toy/large", "Hi")


# -- what a call is made of ----------------------------------------------------------------------


async def sent(*models: Any, context: Any = "Hi", client: Any = None, **options: Any) -> Any:
    http = PipeClient(Pipe(*HELLO))
    made = client_of(http=http) if client is None else client(http)
    async with made as opened:
        await opened.complete(models[0] if models else MODEL, context, **options)
    return http.requests[0]


async def test_options_of_the_call_win_over_the_clients_defaults() -> None:
    def client(http: Any) -> Any:
        return client_of(http=http, extra={"a": 1}, headers={"X-A": "client", "X-B": "client"})

    request = await sent(client=client, headers={"X-A": "call"})
    assert json.loads(request.body)["a"] == 1
    assert request.headers["X-A"] == "call"
    assert request.headers["X-B"] == "client"


async def test_a_conversation_is_completed_without_being_changed() -> None:
    seen: list[swink.Context] = []

    class Seeing:
        @swink.hookimpl
        def on_event(self, call: swink.Call) -> None:
            seen.append(call.context)

    given = swink.Context([swink.UserMessage("Hi")], "old", [swink.Tool("old")])
    async with client_of(Seeing(), http=PipeClient(Pipe(*HELLO, end=True))) as client:
        await client.complete(MODEL, given, system_prompt="new", tools=[swink.Tool("new")])
    assert seen[0] == swink.Context([swink.UserMessage("Hi")], "new", [swink.Tool("new")])
    assert given == swink.Context([swink.UserMessage("Hi")], "old", [swink.Tool("old")])


async def test_mappings_in_a_conversation_are_messages() -> None:
    said = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        swink.UserMessage("Bye"),
    ]
    async with client_of() as client:
        stream = client.stream(MODEL, said)
    assert stream.call.context.messages == [
        swink.UserMessage("Hi"),
        swink.AssistantMessage([swink.TextBlock("Hello.")]),
        swink.UserMessage("Bye"),
    ]


SHORT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"timeout": 30}, {"timeouts": swink.Timeouts(total=30)}),
    ({"timeout": None}, {}),
    ({"retry": False}, {"retry": swink.RetryPolicy.none()}),
    ({"retry": True}, {"retry": swink.RetryPolicy()}),
]


@pytest.mark.parametrize(("short", "full"), SHORT)
@pytest.mark.parametrize("place", ["call", "client", "provider", "chain"])
async def test_a_shorthand_stands_for_the_whole_wherever_options_are_given(
    place: str, short: dict[str, Any], full: dict[str, Any]
) -> None:
    given: dict[str, dict[str, Any]] = {place: short}
    model: Any = (MODEL, short) if place == "chain" else MODEL
    provider = {"providers": {"toy": short}} if place == "provider" else {}
    client = swink.Client(host=host_of(toy=Toy), **given.get("client", {}), **provider)
    async with client:
        asked = client.stream(model, "Hi", **given.get("call", {})).call.options
    assert asked == swink.StreamOptions(**full)


async def test_a_model_may_be_given_as_an_object_that_says_more() -> None:
    info = ModelInfo("large", capabilities=frozenset())
    async with client_of(http=PipeClient(Pipe(*HELLO, end=True))) as client:
        stream = client.stream(swink.Model("toy", "large", info), "Hi", tools=[swink.Tool("f")])
        events = await collect(stream)
    assert events[-1].error_kind is Kind.UNSUPPORTED


@pytest.mark.parametrize(
    ("first", "second"), [(1, 1.0), (0.0, 0), (1, None)], ids=["whole", "none", "unset"]
)
async def test_options_that_are_equal_are_not_taken_for_each_other(first: Any, second: Any) -> None:
    async with client_of() as client:
        for value in (first, second, first):
            given = client.stream(MODEL, "Hi", temperature=value).call.options.temperature
            assert (type(given), given) == (type(value), value)


async def test_a_mistake_is_found_after_a_call_that_is_equal_to_it() -> None:
    async with client_of() as client:
        client.stream(MODEL, "Hi", seed=1)
        with pytest.raises(InvalidOption, match="seed=True"):
            client.stream(MODEL, "Hi", seed=True)


async def test_changes_between_two_calls_are_noticed() -> None:
    stop = ["a"]
    more = swink.Model("toy", "large", ModelInfo("large", max_output=5))
    async with client_of() as client:
        calls = [client.stream(MODEL, "Hi", stop=stop).call]
        stop.append("b")
        calls.append(client.stream(MODEL, "Hi", stop=stop).call)
        assert [call.options.stop for call in calls] == [("a",), ("a", "b")]
        client.stream(swink.Model("toy", "large"), "Hi")
        assert client.stream(more, "Hi").call.model.info is more.info


# -- fallback chains -----------------------------------------------------------------------------


def chain_client(http: PipeClient, **given: Any) -> Any:
    given.setdefault("retry", NO_RETRY)
    return client_with(host=host_of(one=Toy, two=Toy), http=http, **given)


def gone() -> Pipe:
    return Pipe(b"{}", status=404, end=True)


@pytest.mark.parametrize("chain", [list, tuple])
async def test_the_next_model_of_a_chain_is_tried_when_the_first_is_out(chain: Any) -> None:
    http = PipeClient(gone(), Pipe(*HELLO, end=True))
    async with chain_client(http) as client:
        models = chain([("one/a", {"api_key": "key-1"}), ("two/b", {"api_key": "key-2"})])
        message = await client.complete(models, "Hi")
    assert (message.provider, message.text) == ("two", "Hello")


async def test_a_pair_of_a_name_and_options_is_one_model() -> None:
    http = PipeClient(Pipe(*HELLO, end=True))
    async with chain_client(http) as client:
        await client.complete(("one/a", {"api_key": "key-1"}), "Hi")
    assert http.requests[0].headers["Authorization"] == "Bearer key-1"


CANARY = "sk-canary-of-the-first"
FIRST_ONLY = {
    "api_key": CANARY,
    "headers": {"X-Secret": CANARY},
    "extra": {"secret": CANARY},
}

# (name, defaults of the client, options of the call, options of the first model alone)
PLACES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("of_the_client", FIRST_ONLY, {}, {}),
    ("of_the_call", {}, FIRST_ONLY, {}),
    ("of_the_first_model", {}, {}, FIRST_ONLY),
]


@pytest.mark.parametrize(
    ("defaults", "options", "own"), [case[1:] for case in PLACES], ids=[c[0] for c in PLACES]
)
async def test_nothing_of_the_firsts_credentials_reaches_the_second(
    defaults: dict[str, Any], options: dict[str, Any], own: dict[str, Any]
) -> None:
    async with Server(says(404, b"{}", {})) as first, Server(sends(*HELLO)) as second:

        def at_first(given: dict[str, Any]) -> dict[str, Any]:
            return {**given, "base_url": first.url} if given else {}

        host = host_of(one=Toy, two=Toy)
        given = {"one": at_first(defaults)}
        async with swink.Client(host=host, retry=NO_RETRY, providers=given) as client:
            chain = [
                ("one/a", at_first(own)),
                ("two/b", {"api_key": "key-of-the-second", "base_url": second.url}),
            ]
            message = await client.complete(chain, "Hi", **at_first(options))
    assert message.provider == "two"
    sent_first, sent_second = first.exchanges[0], second.exchanges[0]
    assert CANARY in sent_first.headers["authorization"]
    assert sent_first.headers["x-secret"] == CANARY
    assert sent_second.headers["authorization"] == "Bearer key-of-the-second"
    assert CANARY not in repr(sent_second.headers)
    assert CANARY.encode() not in sent_second.body


async def test_without_credentials_of_its_own_the_second_is_not_asked_with_the_firsts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TOY_API_KEY", raising=False)
    http = PipeClient(gone(), Pipe(*HELLO, end=True))
    async with swink.Client(
        host=host_of(one=Toy, two=Toy), http=http, retry=NO_RETRY, providers={"one": FIRST_ONLY}
    ) as client:
        events = await collect(client.stream(["one/a", "two/b"], "Hi"))
    assert events[-1].error_kind is Kind.AUTH
    assert len(http.requests) == 1


@pytest.mark.parametrize("name", ["api_key", "base_url", "headers", "extra"])
def test_options_of_one_provider_are_passed_to_a_client_by_its_name(name: str) -> None:
    with pytest.raises(swink.UsageError, match=name) as raised:
        swink.Client(host=host_of(one=Toy), **{name: CANARY})
    assert 'providers={"' in raised.value.resolution
    assert CANARY not in str(raised.value)


class Misspelt:
    """A budget that would guard nothing."""

    async def entre(self, target: object) -> None: ...

    def leave(self, *told: object) -> None: ...


# (a client's argument, what the error names)
NO_PARTS: list[tuple[dict[str, Any], str]] = [
    ({"plugins": 5}, "plugins is of type int"),
    ({"host": 5}, "host is of type int"),
    ({"http": 5}, "http is of type int"),
    ({"clock": 5}, "clock is of type int"),
    ({"breaker": "no"}, "breaker is of type str"),
    ({"limits": 5}, "limits is of type int"),
    ({"providers": 5}, "providers is of type int"),
    ({"gates": 5}, "gates is of type int"),
    ({"gates": [5]}, "a gate is of type int"),
    ({"gates": [Misspelt()]}, "a gate is of type Misspelt"),
]


@pytest.mark.parametrize(("given", "named"), NO_PARTS, ids=[named for _, named in NO_PARTS])
def test_a_client_takes_no_part_that_could_not_do_its_work(
    given: dict[str, Any], named: str
) -> None:
    with pytest.raises(swink.UsageError, match=named) as raised:
        swink.Client(**{"host": host_of(one=Toy), **given})
    assert raised.value.resolution


# (what stands in providers=…, what the error names)
NO_PROVIDERS = [
    ({"oen": {"api_key": CANARY}}, 'did you mean "one"'),
    ({"one": CANARY}, "'one' are of type str"),
    ({"one": {"api_kye": CANARY}}, "did you mean 'api_key'"),
    ({"one": {"temperature": "warm"}}, "temperature"),
]


@pytest.mark.parametrize(("providers", "named"), NO_PROVIDERS, ids=[r[1] for r in NO_PROVIDERS])
def test_a_mistake_in_the_options_of_a_provider_is_reported_at_once(
    providers: Any, named: str
) -> None:
    with pytest.raises(swink.SwinkError, match=named) as raised:
        swink.Client(host=host_of(one=Toy), providers=providers)
    assert CANARY not in str(raised.value)


async def test_settings_are_laid_over_one_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.toml"
    settings = '{ region = "string", project = "string" }'
    file.write_text(f'[[providers]]\nname = "one"\nsettings = {settings}\n')
    monkeypatch.setenv("SWINK_MODELS", str(file))
    given = {"one": {"region": "eu", "project": "blue"}}
    async with swink.Client(host=host_of(one=Toy), providers=given) as client:
        stream = client.stream("one/a", "Hi", settings={"region": "us"})
        assert stream.call.options.settings == {"region": "us", "project": "blue"}


async def test_options_are_laid_over_one_another() -> None:
    http = PipeClient(Pipe(*HELLO, end=True))
    providers = {
        "one": {
            "api_key": "k",
            "temperature": 0.1,
            "headers": {"X-A": "1", "X-B": "1"},
            "extra": {"a": {"b": 1, "c": 1}},
        }
    }
    async with swink.Client(
        host=host_of(one=Toy), http=http, retry=NO_RETRY, providers=providers, temperature=0.9
    ) as client:
        stream = client.stream("one/a", "Hi", headers={"x-b": "2"}, extra={"a": {"c": 2}})
        assert stream.call.options.temperature == 0.1
        await collect(stream)
    [request] = http.requests
    sent = {name.lower(): value for name, value in request.headers.items()}
    assert len(sent) == len(request.headers)  # none twice, in another case
    assert (sent["x-a"], sent["x-b"]) == ("1", "2")
    assert json.loads(request.body)["a"] == {"b": 1, "c": 2}


async def test_a_key_that_was_given_with_an_address_is_for_no_other() -> None:
    http = PipeClient(Pipe(*HELLO, end=True), Pipe(*HELLO, end=True))
    given = {"one": {"api_key": CANARY, "headers": {"X-Key": CANARY}, "base_url": "https://a.test"}}
    async with swink.Client(
        host=host_of(one=Toy), http=http, retry=NO_RETRY, providers=given
    ) as client:
        await client.complete("one/a", "Hi", base_url="https://b.test", api_key="other")
        await client.complete("one/a", "Hi")
    elsewhere, there = http.requests
    assert [each.url for each in http.requests] == ["https://b.test/chat", "https://a.test/chat"]
    assert CANARY not in repr(elsewhere.headers)
    assert elsewhere.headers["Authorization"] == "Bearer other"
    assert there.headers["Authorization"] == f"Bearer {CANARY}"


# (what a call says beside the client's key for https://a.test/v1, what is sent; `None`: refused)
OF_ANOTHER: list[tuple[dict[str, Any], str | None]] = [
    ({"base_url": "https://a.test/v1"}, CANARY),
    ({"base_url": "https://a.test/v1/"}, CANARY),
    ({"base_url": "https://A.test:443/v1"}, CANARY),
    ({"base_url": "https://@a.test/v1"}, CANARY),
    ({"base_url": "https://a.test/v2"}, None),
    ({"base_url": "http://a.test/v1"}, None),
    ({"base_url": "https://a.test:444/v1"}, None),
    ({"base_url": "https://b.test/v1"}, None),
    ({"base_url": None}, None),
    ({"base_url": "https://b.test/v1", "headers": {"X-Team": "blue"}}, None),
    ({"base_url": "https://b.test/v1", "headers": {"Authorization": "Bearer own"}}, "own"),
    ({"base_url": "https://b.test/v1", "api_key": "own"}, "own"),
]


@pytest.mark.parametrize(("options", "sent"), OF_ANOTHER, ids=[str(o) for o, _ in OF_ANOTHER])
@pytest.mark.parametrize("secret", [{"api_key": CANARY}, {"headers": {"authorization": CANARY}}])
async def test_who_gave_a_key_for_an_address_is_not_served_with_the_environments_at_another(
    secret: dict[str, Any],
    options: dict[str, Any],
    sent: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOY_API_KEY", "of-the-environment")
    http = PipeClient(Pipe(*HELLO, end=True))
    given = {"one": {**secret, "base_url": "https://a.test/v1"}}
    async with swink.Client(host=host_of(one=Toy), http=http, providers=given) as client:
        if sent is None:
            with pytest.raises(
                swink.InvalidOption, match=r"are only for https://a\.test/v1"
            ) as raised:
                client.stream("one/a", "Hi", **options)
            assert "api_key" in raised.value.resolution
            assert CANARY not in str(raised.value)
            return
        await client.complete("one/a", "Hi", **options)
    headers = {name.lower(): value for name, value in http.requests[0].headers.items()}
    assert headers["authorization"].removeprefix("Bearer ") == sent


async def test_the_key_of_a_chains_own_address_is_the_callers_too() -> None:
    given = {"one": {"api_key": CANARY, "base_url": "https://a.test"}}
    async with swink.Client(host=host_of(one=Toy), providers=given) as client:
        with pytest.raises(swink.InvalidOption, match=r"are only for https://a\.test"):
            client.stream(["one/a", ("one/b", {"base_url": "https://b.test"})], "Hi")


@pytest.mark.parametrize("url", ["http://[S3CRET", "http://[S3CRET]/v1"])
def test_an_invalid_address_is_refused_at_once(url: str) -> None:
    client = swink.Client(host=host_of(one=Toy))
    for refused in (
        lambda: swink.Client(host=host_of(one=Toy), providers={"one": {"base_url": url}}),
        lambda: client.stream("one/a", "Hi", base_url=url),
    ):
        with pytest.raises(swink.InvalidOption, match="invalid base_url") as raised:
            refused()
        assert "S3CRET" not in str(raised.value)


async def test_a_client_sums_what_all_attempts_of_its_calls_took() -> None:
    http = PipeClient(Pipe(*HELLO, end=True), gone(), Pipe(*HELLO, end=True))
    async with chain_client(http, api_key="k") as client:
        assert (client.usage, client.cost) == (None, None)
        first = await client.complete("one/a", "Hi")
        second = await client.complete(["one/a", "two/b"], "Hi")
    assert first.total_usage == first.usage != client.usage
    assert client.usage == sum([first.total_usage, second.total_usage])


async def test_another_model_of_the_same_provider_has_the_same_credentials() -> None:
    http = PipeClient(gone(), Pipe(*HELLO, end=True))
    async with chain_client(http, api_key="key-1", headers={"X-A": "1"}) as client:
        await client.complete(["one/a", "one/b"], "Hi")
    assert [r.headers["Authorization"] for r in http.requests] == ["Bearer key-1"] * 2
    assert http.requests[1].headers["X-A"] == "1"


async def test_tuning_travels_along_the_chain() -> None:
    seen: list[Any] = []

    class Seeing(Toy):
        def convert(self, model: Any, context: Any, options: swink.StreamOptions) -> Any:
            seen.append((str(model), options.temperature))
            return super().convert(model, context, options)

    host = host_of(one=Seeing, two=Seeing)
    http = PipeClient(gone(), Pipe(*HELLO, end=True))
    async with swink.Client(host=host, http=http, retry=NO_RETRY) as client:
        chain = [("one/a", {"api_key": "k"}), ("two/b", {"api_key": "k", "temperature": 1})]
        await client.complete(chain, "Hi", temperature=0.5)
    assert seen == [("one/a", 0.5), ("two/b", 1)]


# (kind, whether the next model is tried)
FALLS_BACK = [
    (Kind.THROTTLED, True),
    (Kind.OVERLOADED, True),
    (Kind.NETWORK, True),
    (Kind.EMPTY_RESPONSE, True),
    (Kind.TIMEOUT, True),
    (Kind.QUOTA_EXHAUSTED, True),
    (Kind.MODEL_NOT_FOUND, True),
    (Kind.UNSUPPORTED, True),
    (Kind.RESOURCE, True),
    (Kind.PROTOCOL, True),
    (Kind.AUTH, False),
    (Kind.CONTEXT_WINDOW_EXCEEDED, False),
    (Kind.CONTENT_FILTERED, False),
    (Kind.INVALID_REQUEST, False),
    (Kind.PROTOCOL, True),
    (Kind.INTERNAL, False),
    (Kind.UNKNOWN, False),
    (Kind.OUTPUT_TOO_LARGE, False),
]


@pytest.mark.parametrize(("kind", "falls_back"), FALLS_BACK)
async def test_the_kind_decides_whether_the_next_model_is_tried(
    kind: Kind, falls_back: bool
) -> None:
    http = PipeClient(Pipe(frame(error={"kind": kind})), Pipe(*HELLO, end=True))
    async with chain_client(http) as client:
        chain = [("one/a", {"api_key": "k"}), ("two/b", {"api_key": "k"})]
        events = await collect(client.stream(chain, "Hi"))
    assert (types(events)[-1] == "done") is falls_back
    assert len(http.requests) == 1 + falls_back


@pytest.mark.parametrize("kind", [kind for kind, falls_back in FALLS_BACK if not falls_back])
async def test_a_kind_that_ends_a_chain_may_be_let_through(kind: Kind) -> None:
    policy = swink.RetryPolicy(retries=dict.fromkeys(Kind, 0), fall_back_on={kind})
    http = PipeClient(Pipe(frame(error={"kind": kind})), Pipe(*HELLO, end=True))
    async with chain_client(http) as client:
        chain = [("one/a", {"api_key": "k"}), ("two/b", {"api_key": "k"})]
        events = await collect(client.stream(chain, "Hi", retry=policy))
    assert types(events)[-1] == "done"


async def test_a_rate_limit_beyond_the_cap_falls_back_without_a_wait() -> None:
    limited = Pipe(b"{}", status=429, end=True, headers={"Retry-After": "7200"})
    http = PipeClient(limited, Pipe(*HELLO, end=True))
    async with chain_client(http) as client:
        chain = [("one/a", {"api_key": "k"}), ("two/b", {"api_key": "k"})]
        events = await collect(client.stream(chain, "Hi", retry=swink.RetryPolicy()))
    assert [e.error_kind for e in events if e.type == "retry"] == [Kind.THROTTLED]
    assert types(events)[-1] == "done"


@pytest.mark.parametrize(
    ("own", "travels"), [({}, True), ({"base_url": "http://b.invalid"}, False)]
)
async def test_an_address_of_its_own_gets_nothing_that_was_given_for_another(
    own: dict[str, Any], travels: bool
) -> None:
    http = PipeClient(Pipe(frame(error={"kind": Kind.OVERLOADED})), Pipe(*HELLO, end=True))
    async with chain_client(http) as client:
        await client.complete(
            ["one/a", ("one/b", {"api_key": "own", **own} if own else {})], "Hi",
            base_url="http://a.invalid", api_key="key-of-a", headers={"X-Sec": "canary"},
        )  # fmt: skip
    first, second = http.requests
    assert (first.headers["Authorization"], first.headers["X-Sec"]) == ("Bearer key-of-a", "canary")
    assert ("X-Sec" in second.headers) is travels
    assert (second.headers["Authorization"] == "Bearer key-of-a") is travels
    assert second.url.startswith("http://a.invalid" if travels else "http://b.invalid")


@pytest.mark.parametrize(
    ("own", "travels"),
    [
        ({}, True),
        ({"base_url": "http://A.invalid/"}, True),
        ({"base_url": "http://b.invalid"}, False),
        ({"base_url": "http://b.invalid", "api_key": "own"}, False),
    ],
)
async def test_a_target_with_its_own_address_gets_nothing_that_was_given_for_another(
    own: dict[str, Any], travels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_API_KEY", "key-of-b")
    http = PipeClient(Pipe(frame(error={"kind": Kind.OVERLOADED})), Pipe(*HELLO, end=True))
    async with chain_client(http) as client:
        target = client.target("one/b", **own)
        await client.complete(
            ["one/a", target], "Hi",
            base_url="http://a.invalid", api_key="key-of-a", headers={"X-Sec": "canary"},
        )  # fmt: skip
    second = http.requests[1]
    assert ("X-Sec" in second.headers) is travels
    assert (second.headers.get("Authorization") == "Bearer key-of-a") is travels
    assert second.url.startswith("http://a.invalid" if travels else "http://b.invalid")


@pytest.mark.parametrize("is_target", [False, True])
async def test_what_is_given_for_a_first_model_at_an_address_of_its_own_stays_there(
    is_target: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_API_KEY", "key-of-environment")
    http = PipeClient(Pipe(frame(error={"kind": Kind.OVERLOADED})), Pipe(*HELLO, end=True))
    async with chain_client(http) as client:
        own = {"base_url": "http://a.invalid"}
        first = client.target("one/a", **own) if is_target else ("one/a", own)
        await client.complete([first, "one/b"], "Hi", api_key="given", headers={"X-Sec": "canary"})
    at_first, at_default = http.requests
    assert at_first.headers["Authorization"] == "Bearer given"
    assert at_default.headers["Authorization"] == "Bearer key-of-environment"
    assert "X-Sec" not in at_default.headers
    assert not at_default.url.startswith("http://a.invalid")


# (name, the client's options, the call's, what is sent)
LAYERS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("nothing", {}, {}, {"n": 1}),
    ("the_clients_extra", {"extra": {"n": 2, "a": {"b": 1}}}, {}, {"n": 2, "a": {"b": 1}}),
    (
        "the_clients_options_over_its_extra",
        {"extra": {"temperature": 1}, "temperature": 0.5}, {},
        {"n": 1, "temperature": 0.5},
    ),
    (
        "the_calls_extra_over_the_clients_options",
        {"temperature": 0.5, "top_p": 0.9}, {"extra": {"temperature": 1}},
        {"n": 1, "temperature": 1, "top_p": 0.9},
    ),
    (
        "the_calls_options_over_its_extra",
        {"temperature": 0.5}, {"extra": {"temperature": 1}, "temperature": 0.5},
        {"n": 1, "temperature": 0.5},
    ),
    (
        "both_extras_merge_at_every_depth",
        {"extra": {"a": {"b": 1, "c": 1}}}, {"extra": {"a": {"c": 2}}},
        {"n": 1, "a": {"b": 1, "c": 2}},
    ),
    (
        "tools_of_both_are_joined",
        {"extra": {"tools": [{"type": "a"}]}}, {"extra": {"tools": [{"type": "b"}]}},
        {"n": 1, "tools": [{"type": "b"}, {"type": "a"}]},
    ),
    (
        "other_lists_are_replaced",
        {"extra": {"words": ["a"]}}, {"extra": {"words": ["b"]}}, {"n": 1, "words": ["b"]},
    ),
    (
        "none_removes_whatever_came_before",
        {"extra": {"a": 1}, "temperature": 0.5},
        {"extra": {"a": None, "n": None, "temperature": None}}, {},
    ),
    (
        "only_the_named_part_of_an_object_gives_way",
        {"max_tokens": 7, "seed": 3}, {"extra": {"config": {"seed": 4}}},
        {"n": 1, "config": {"limit": 7, "seed": 4}},
    ),
]  # fmt: skip


class Merging(Toy):
    """A provider with a default option, and with options that are nested in an object."""

    knobs: ClassVar[Any] = {**Toy.knobs, "max_tokens": "config.limit", "seed": "config.seed"}

    def convert(self, model: Any, context: Any, options: swink.StreamOptions) -> Any:
        said = {"temperature": options.temperature, "top_p": options.top_p}
        config = {"limit": options.max_tokens, "seed": options.seed}
        fields = {name: value for name, value in said.items() if value is not None}
        if any(config.values()):
            fields["config"] = {name: value for name, value in config.items() if value}
        return with_extra(options.extra, fields, {"n": 1})


@pytest.mark.parametrize(
    ("given", "asked", "sent"), [row[1:] for row in LAYERS], ids=[row[0] for row in LAYERS]
)
async def test_later_facts_override_earlier_ones(
    given: dict[str, Any], asked: dict[str, Any], sent: dict[str, Any]
) -> None:
    http = PipeClient(Pipe(*HELLO, end=True))
    async with client_with(host=host_of(toy=Merging), http=http, api_key="k", **given) as client:
        await client.complete("toy/a", "Hi", **asked)
    assert json.loads(http.requests[0].body) == sent


@pytest.mark.parametrize("place", ["the client", "the call"])
def test_settings_are_checked_before_anything_is_sent(place: str) -> None:
    host = host_of(toy=Toy)

    def ask() -> object:
        if place == "the client":
            return swink.Client(host=host, providers={"toy": {"region": "eu"}})
        return swink.Client(host=host).stream("toy/a", "Hi", settings={"region": "eu"})

    with pytest.raises(swink.UsageError, match="toy has no setting 'region'"):
        ask()


# -- connections ---------------------------------------------------------------------------------


async def test_closing_a_client_closes_its_connections() -> None:
    http = PipeClient(Pipe(*HELLO))
    async with client_of(http=http):
        assert not http.closed
    assert http.closed


@pytest.mark.parametrize("how", ["events", "result", "result without retries"])
async def test_closing_a_client_ends_its_running_calls_with_what_has_arrived(how: str) -> None:
    client = client_of(http=PipeClient(Pipe(*HELLO[:3])))  # the answer does not end
    stream = client.stream(MODEL, "Hi", **({"retry": False} if "without" in how else {}))
    reading = asyncio.create_task(collect(stream) if how == "events" else stream.result())
    await settled()
    assert stream.message.text == "Hello"
    await client.aclose()
    async with asyncio.timeout(10):
        if how == "events":
            assert [event.stop_reason for event in (await reading)[-1:]] == ["aborted"]
        else:
            with pytest.raises(swink.StreamAborted) as caught:
                await reading
            assert caught.value.partial.text == "Hello"
    await stream.aclose()


async def test_closing_a_client_ends_a_call_that_nobody_reads_at_the_moment() -> None:
    client = client_of(http=PipeClient(Pipe(*HELLO[:3])))
    stream = client.stream(MODEL, "Hi")
    events = aiter(stream)
    assert (await anext(events)).type == "start"
    await client.aclose()
    async with asyncio.timeout(10):
        assert [event.type async for event in events][-1:] == ["error"]
    await stream.aclose()


async def test_closing_a_client_ends_its_calls_in_other_event_loops() -> None:
    client = client_of(http=PipeClient(Pipe(*HELLO[:3])))

    has_begun = threading.Event()

    async def read() -> list[Any]:
        events = []
        async for event in client.stream(MODEL, "Hi"):
            events.append(event)
            if event.type == "text_delta":
                has_begun.set()
        return events

    reading = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(read())))
    await asyncio.to_thread(has_begun.wait)
    await client.aclose()
    async with asyncio.timeout(10):
        assert (await reading)[-1].type == "error"


async def test_one_client_serves_many_calls_at_a_time_over_real_connections() -> None:
    async with serving(sends(*HELLO)) as (client, server):
        messages = await asyncio.gather(*(client.complete(MODEL, "Hi") for _ in range(50)))
    assert [message.text for message in messages] == ["Hello"] * 50
    assert len(server.exchanges) == 50


async def test_idle_connections_are_closed_when_descriptors_run_out() -> None:
    failure = swink.Failure("connect", kind=Kind.RESOURCE, code="no_descriptors")
    http = PipeClient(failure, Pipe(*HELLO, end=True))
    async with client_of(http=http, retry=AT_ONCE) as client:
        assert (await client.complete(MODEL, "Hi")).text == "Hello"
    assert http.idle_closed == 1


# -- the functions without a client --------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy provider, as if it were the only one installed."""
    monkeypatch.setattr("swink_core.plugins.host._installed", lambda: [entry_point("toy", Toy)])


@pytest.mark.usefixtures("installed")
async def test_stream_opens_a_client_for_the_call_and_closes_it_with_the_stream() -> None:
    async with Server(sends(*HELLO)) as server:
        options = {"api_key": "k", "base_url": server.url}
        async with swink.stream(MODEL, "Hi", **options) as stream:
            events = await collect(stream)
        assert types(events)[-1] == "done"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert types(await collect(swink.stream(MODEL, "Hi", **options)))[-1] == "done"
        assert (await swink.complete(MODEL, "Hi", **options)).text == "Hello"
        assert len(server.exchanges) == 3
        async with asyncio.timeout(10):  # the server sees it a little later
            while server._connections:  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.001)


@pytest.mark.usefixtures("installed")
async def test_stream_left_early_closes_its_client_too() -> None:
    async with Server(sends(*HELLO[:2], end=False)) as server:
        async with swink.stream(MODEL, "Hi", api_key="k", base_url=server.url) as stream:
            async for event in stream:
                if isinstance(event, swink.TextDelta):
                    break
        await server.exchanges[0].disconnected()


@pytest.mark.usefixtures("installed")
async def test_a_call_that_is_refused_closes_the_client_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[swink.Client] = []
    close = swink.Client.aclose

    async def closing(client: swink.Client) -> None:
        closed.append(client)
        await close(client)

    monkeypatch.setattr(swink.Client, "aclose", closing)
    with pytest.raises(InvalidOption):
        await swink.complete(MODEL, "Hi", temperature="hot")  # type: ignore[arg-type]  # refused
    assert len(closed) == 1


@pytest.mark.usefixtures("installed")
def test_complete_sync_works_where_there_is_no_loop() -> None:
    with Server(sends(*HELLO)) as server:
        message = swink.complete_sync(MODEL, "Hi", api_key="k", base_url=server.url)
    assert message.text == "Hello"


async def test_complete_sync_refuses_to_block_a_running_loop() -> None:
    with pytest.raises(UsageError, match="inside a running event loop") as caught:
        swink.complete_sync(MODEL, "Hi")
    assert "await swink.complete" in caught.value.resolution
