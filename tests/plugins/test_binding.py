"""Targets describe a call without sending it, and bindings find the plugin at fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from attrs import evolve, fields

from swink_core import (
    Context,
    Failure,
    Model,
    ProviderFailure,
    ProviderInfo,
    StreamOptions,
    hookimpl,
)
from swink_core.plugins.binding import Binding, Target
from swink_core.plugins.host import bind_hooks
from swink_core.vocabulary.models import Rule


class Acme:
    """A provider without hooks and without an address."""

    credential_headers = ("authorization", "x-acme-key")


def target_of(
    provider: Any = None,
    info: ProviderInfo | None = None,
    facts: dict[str, Any] | None = None,
    **options: Any,
) -> Target:
    rules = () if facts is None else (Rule(), Rule(facts=facts))
    binding = bind_hooks("acme", provider or Acme())
    return Target(Model("acme", "large", rules=rules), StreamOptions(**options), binding, info)


STORING = ProviderInfo("acme", continues=("thread", "previous"))

# (name, the provider's entry, options, whether a stored conversation is continued)
CONTINUED: list[tuple[str, ProviderInfo | None, dict[str, Any], bool]] = [
    ("no_options", STORING, {}, False),
    ("a_field_of_extra", STORING, {"extra": {"previous": "r1"}}, True),
    ("a_setting", STORING, {"settings": {"thread": "t1"}}, True),
    ("both", STORING, {"extra": {"thread": "t1"}, "settings": {"region": "eu"}}, True),
    ("other_fields", STORING, {"extra": {"user": "u1"}, "settings": {"region": "eu"}}, False),
    ("an_empty_field", STORING, {"extra": {"thread": ""}}, False),
    ("fields_of_another_provider", ProviderInfo("acme"), {"extra": {"thread": "t1"}}, False),
    ("no_entry", None, {"extra": {"thread": "t1"}}, False),
]


@pytest.mark.parametrize(
    ("info", "options", "continues"), [r[1:] for r in CONTINUED], ids=[r[0] for r in CONTINUED]
)
def test_a_target_continues_a_conversation_that_its_options_name(
    info: ProviderInfo | None, options: dict[str, Any], continues: bool
) -> None:
    assert target_of(info=info, **options).continues is continues


@pytest.mark.parametrize(
    ("facts", "has_prompt"),
    [
        (None, False),
        ({}, False),
        ({"stored_prompt": False}, False),
        ({"stored_prompt": True}, True),
    ],
)
def test_a_model_has_a_prompt_if_a_rule_says_so(
    facts: dict[str, Any] | None, has_prompt: bool
) -> None:
    assert target_of(facts=facts).has_prompt is has_prompt


class Located(Acme):
    """A provider that decides on the address, if the options name a place."""

    def base_url(self, options: StreamOptions) -> str:
        if (place := options.extra.get("place")) is None:
            raise ProviderFailure(Failure("request", message="no place"))
        return f"https://user:word@{place}.invalid/v2?key=k"


LISTED = ProviderInfo("acme", base_url="https://u@listed.invalid/", base_url_env=("A_URL", "B_URL"))

# (name, provider, its entry, options, a variable that is set, the address)
ADDRESSES: list[tuple[str, Any, ProviderInfo | None, dict[str, Any], str, str | None]] = [
    ("unknown", Acme(), None, {}, "C_URL", None),
    ("not_listed", Acme(), ProviderInfo("acme"), {}, "C_URL", None),
    ("listed", Acme(), LISTED, {}, "C_URL", "https://listed.invalid/"),
    ("of_a_variable", Acme(), LISTED, {}, "A_URL", "https://set.invalid/"),
    ("of_the_next_variable", Acme(), LISTED, {}, "B_URL", "https://set.invalid/"),
    ("an_option", Acme(), LISTED, {"base_url": "https://a.invalid/"}, "A_URL",
     "https://a.invalid/"),
    ("of_the_provider", Located(), LISTED, {"extra": {"place": "eu"}}, "A_URL",
     "https://eu.invalid/v2"),
    ("of_no_place", Located(), LISTED, {}, "A_URL", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "info", "options", "variable", "address"),
    [row[1:] for row in ADDRESSES],
    ids=[row[0] for row in ADDRESSES],
)
def test_an_address_is_the_base_url_of_requests_without_secrets(
    provider: Any,
    info: ProviderInfo | None,
    options: dict[str, Any],
    variable: str,
    address: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("A_URL", "B_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "https://me@set.invalid/?key=k")
    assert target_of(provider, info, **options).address == address


KEYED = ProviderInfo("acme", base_url="https://acme.invalid/v1", api_key_env=("A_KEY", "B_KEY"))

# (name, two targets' options, whether they share limits)
SHARED: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    ("other_options", {"temperature": 0.5}, {"headers": {"X-Team": "a"}}, True),
    ("keys", {"api_key": "one"}, {"api_key": "two"}, False),
    ("a_key_and_the_variable", {"api_key": "set"}, {}, True),
    ("another_key_than_the_variable", {"api_key": "one"}, {}, False),
    ("headers", {"headers": {"Authorization": "one"}}, {"headers": {"authorization": "two"}},
     False),
    ("one_header", {"headers": {"Authorization": "one"}}, {"headers": {"authorization": "one"}},
     True),
    ("a_header_before_keys", {"headers": {"Authorization": "one"}, "api_key": "x"},
     {"headers": {"Authorization": "one"}}, True),
    ("queries_of_addresses", {"base_url": "https://acme.invalid/v1?key=one"},
     {"base_url": "https://acme.invalid/v1?key=two"}, False),
    ("the_listed_address", {"base_url": "https://acme.invalid/v1"}, {}, True),
    ("another_address", {"base_url": "https://acme.invalid/v2"}, {}, False),
    ("a_header_of_the_provider", {"headers": {"X-Acme-Key": "one"}},
     {"headers": {"X-Acme-Key": "two"}}, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "shared"), [row[1:] for row in SHARED], ids=[row[0] for row in SHARED]
)
def test_targets_of_the_same_address_and_credentials_have_one_key(
    one: dict[str, Any], other: dict[str, Any], shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("A_KEY", raising=False)
    monkeypatch.setenv("B_KEY", "set")
    keys = [target_of(info=KEYED, **options).key for options in (one, other)]
    assert (keys[0] == keys[1]) is shared
    assert all(re.fullmatch(r"acme/large https://acme\.invalid/v\d [0-9a-f]{16}", k) for k in keys)


@pytest.mark.parametrize(
    ("api_key", "digest"),
    [("one", "0993745e3cd45e84"), ("one \ud800", "81dd7a1b8199ac7f")],
    ids=ascii,
)
def test_a_key_is_the_same_in_every_process(api_key: str, digest: str) -> None:
    key = target_of(info=KEYED, api_key=api_key).key
    assert key == f"acme/large https://acme.invalid/v1 {digest}"


def test_a_target_for_another_call_has_all_that_the_first_has() -> None:
    target = Target(
        Model("acme", "large"),
        StreamOptions(seed=1),
        bind_hooks("acme", Acme()),
        KEYED,
        is_last=False,
        inherited=frozenset({"seed"}),
        extra={"a": 1},
        given={"seed": 1},
        remembered={"b": 2},
    )
    again = target.again()
    assert again is not target
    for each in fields(Target):
        assert getattr(again, each.name) is getattr(target, each.name), each.name


class Fitting(Acme):
    """A provider that refuses a conversation whose options have a seed."""

    def fit(self, model: Model, context: Context, options: StreamOptions) -> Any:
        text = f"{model.id}: {context.messages[-1].content}"
        failure = Failure("request", code="seed", message=text)
        if options.seed == 1:
            raise ProviderFailure(failure)
        return SimpleNamespace(failure=failure if options.seed else None)


# (name, provider, options of the target, arguments, the message of the refusal)
REFUSED: list[tuple[str, Any, dict[str, Any], tuple[Any, ...], str | None]] = [
    ("nothing_is_checked", Acme(), {"seed": 2}, (), None),
    ("taken", Fitting(), {}, (), None),
    ("refused", Fitting(), {"seed": 2}, (), "large: Hi"),
    ("refused_by_an_exception", Fitting(), {"seed": 1}, ("Bye",), "large: Bye"),
    ("a_conversation", Fitting(), {"seed": 2}, (Context.of("Bye"),), "large: Bye"),
    ("refused_for_other_options", Fitting(), {}, ("Bye", StreamOptions(seed=2)), "large: Bye"),
    ("taken_for_other_options", Fitting(), {"seed": 2}, ("Bye", StreamOptions()), None),
]


@pytest.mark.parametrize(
    ("provider", "options", "arguments", "message"),
    [row[1:] for row in REFUSED],
    ids=[row[0] for row in REFUSED],
)
def test_a_conversation_is_checked_without_sending_it(
    provider: Any, options: dict[str, Any], arguments: tuple[Any, ...], message: str | None
) -> None:
    failure = target_of(provider, **options).refusal(*arguments)
    assert (failure and failure.message) == message


# -- who is named for a fault --------------------------------------------------------------------


HOOKS = """
from swink_core import hookimpl
from PACKAGE.parts import events, work

@hookimpl
def stream(model):
    return events(model)

@hookimpl(wrapper=True)
def convert_messages(model):
    yield
    if model == "again":
        yield
    return work(model)
"""

PARTS = """
import json

def work(text):
    if text == "stop":
        raise StopIteration
    return json.loads(text)

async def events(text):
    yield json.loads(text)

def listed(text):
    yield json.loads(text)

class Events:
    pass
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Import a package whose modules are a plugin."""
    folder = tmp_path_factory.mktemp("site")
    name = "plugin_of_test_binding"
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(HOOKS.replace("PACKAGE", name), "utf-8")
    (folder / name / "parts.py").write_text(PARTS, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield import_module(name)


class Converting(Acme):
    @hookimpl
    def convert_messages(self) -> Any:
        return {}

    @hookimpl
    def stream(self) -> Any:
        return iter([])


class AlsoConverting(Converting):
    """A shared plugin with the hooks of the provider."""


# (name, module, the plugin that it belongs to)
OWNERS = [
    ("its_package", "plugin_of_test_binding", "log"),
    ("its_submodule", "plugin_of_test_binding.parts.more", "log"),
    ("another_package", "plugin_of_test_binding_2", None),
    ("the_core", "swink_core.failures.classification", None),
    ("the_module_of_a_class", Acme.__module__, "acme"),
    ("no_module", "", None),
]


@pytest.mark.parametrize(
    ("module", "owner"), [row[1:] for row in OWNERS], ids=[row[0] for row in OWNERS]
)
def test_a_module_belongs_to_the_plugin_of_its_package(
    log: ModuleType, module: str, owner: str | None
) -> None:
    assert bind_hooks("acme", Converting(), [("log", log)]).owner(module) == owner


# (name, the model, what is said of the plugin `log`)
BLAMED = [
    ("an_exception", "no json", r"JSONDecodeError: .* \(plugin_of_test_binding/parts\.py:7\)"),
    ("a_stop", "stop", r"RuntimeError: .* \(plugin_of_test_binding/parts\.py:6\)"),
    ("a_second_yield", "again", r"RuntimeError: .*__init__\.py:9 has second yield"),
]


@pytest.mark.parametrize(
    ("model", "said"), [row[1:] for row in BLAMED], ids=[row[0] for row in BLAMED]
)
def test_a_plugin_that_raises_is_named_with_the_innermost_place_in_its_code(
    log: ModuleType, model: str, said: str
) -> None:
    binding = bind_hooks("acme", Converting(), [("log", log)])
    with pytest.raises((RuntimeError, ValueError)) as caught:
        binding.first_result("convert_messages", model=model, context=None, options=None)
    assert re.fullmatch(f'plugin "log" raised {said}', binding.blame(caught.value), re.DOTALL)


def test_an_exception_that_no_plugin_raised_is_one_of_the_provider() -> None:
    error = KeyError("lost")
    assert bind_hooks("acme", Acme()).blame(error) == "plugin \"acme\" raised KeyError: 'lost'"


async def test_events_are_of_the_plugin_whose_code_makes_them(log: ModuleType) -> None:
    binding = bind_hooks("acme", Converting(), [("log", log), ("other", AlsoConverting())])
    made = log.stream("5")
    assert binding.maker(made) == "log"
    assert await anext(made) == 5
    await made.aclose()
    assert binding.maker(log.parts.Events()) == "log"
    assert binding.maker(log.parts.listed("5")) == "log"
    assert binding.maker(iter([])) == 'other" or "log" or "acme'
    assert bind_hooks("acme", Acme()).maker(None) == "acme"


# (name, the provider, shared plugins, who may have converted)
CONVERTERS: list[tuple[str, Any, list[str], str]] = [
    ("no_hook", Acme(), [], "acme"),
    ("the_provider", Converting(), [], "acme"),
    ("another_too", Converting(), ["other"], 'other" or "acme'),
    ("a_wrapper", Converting(), ["log", "other"], "log"),
]


@pytest.mark.parametrize(
    ("provider", "shared", "named"), [row[1:] for row in CONVERTERS], ids=[r[0] for r in CONVERTERS]
)
def test_plugins_that_may_have_converted_are_named_wrappers_alone(
    log: ModuleType, provider: Any, shared: list[str], named: str
) -> None:
    plugins = {"log": log, "other": AlsoConverting()}
    binding = bind_hooks("acme", provider, [(name, plugins[name]) for name in shared])
    assert binding.converters() == named


def test_the_repr_of_a_binding_and_a_target_shows_no_options() -> None:
    target = target_of(info=STORING, api_key="canary", extra={"a": "canary"})
    assert "canary" not in repr(target)
    shown = {each.name for each in fields(Target) if each.repr}
    assert shown == {"model", "is_last", "inherited"}
    assert {each.name for each in fields(Binding) if each.repr} == {"name", "provider"}
    other = evolve(target)
    assert other != target
    assert len({other, target, target.binding, evolve(target.binding)}) == 4


class Sharing:
    """A provider whose request body contains an object that other calls use, too."""

    def __init__(self) -> None:
        self.tool = {"parameters": {"properties": {"x": {}}}}

    @hookimpl
    def convert_messages(self) -> dict[str, Any]:
        return {"tools": [self.tool]}


class Adding:
    """A wrapper that adds a property to each tool."""

    @hookimpl(wrapper=True)
    def convert_messages(self) -> Iterator[Any]:
        body = yield
        body["tools"][0]["parameters"]["properties"]["y"] = {}
        return body


class AddingLast(Adding):
    """The same, inside all other wrappers."""

    @hookimpl(wrapper=True, trylast=True)
    def convert_messages(self) -> Iterator[Any]:
        return (yield from super().convert_messages())


@pytest.mark.parametrize("wrappers", [[Adding()], [AddingLast()], [Adding(), AddingLast()]])
def test_a_wrapper_that_changes_the_body_changes_no_other_request(wrappers: list[Any]) -> None:
    provider = Sharing()
    binding = bind_hooks("acme", provider, [(f"w{at}", each) for at, each in enumerate(wrappers)])
    about = {"model": Model("acme", "large"), "context": Context([]), "options": StreamOptions()}
    body = binding.first_result("convert_messages", **about)
    assert body["tools"][0]["parameters"]["properties"].keys() == {"x", "y"}
    assert provider.tool == {"parameters": {"properties": {"x": {}}}}
    assert "swink" not in binding.converters()
