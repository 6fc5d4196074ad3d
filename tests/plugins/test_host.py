"""Plugins: found by metadata, loaded when addressed, kept apart."""

from __future__ import annotations

import copy
import importlib
import logging
import os
import shutil
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import importlib_metadata
import pluggy
import pytest
from fakes import HELLO, MODEL, Observer, Pipe, PipeClient, Toy, client_of, collect, entry_point
from hypothesis import given
from hypothesis import strategies as st

import swink_core as swink
from swink_core import Host, PluginError, UnknownProvider, hookimpl
from swink_core import StreamErrorKind as Kind
from swink_core.failures.classification import classify_default
from swink_core.plugins import hookspecs
from swink_core.plugins import level as levels
from swink_core.plugins.host import bind_hooks, check_plugin
from swink_testing.calls import client_with


def host_with(*points: Any, plugins: tuple[Any, ...] = (), **environ: str) -> Host:
    return Host(plugins, entry_points=points, environ=environ)


class Counting:
    """A plugin module that counts how often it is loaded."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, name: str) -> Toy:
        self.made.append(name)
        return Toy(name)


# -- providers -----------------------------------------------------------------------------------


def test_a_provider_is_made_once_per_host_with_its_entrys_name() -> None:
    factory = Counting()
    host = host_with(entry_point("one", factory), entry_point("two", factory))
    assert factory.made == []
    first = host.bind("one")
    assert host.bind("one") is first
    assert factory.made == ["one"]
    assert host.bind("two").provider.name == "two"


def test_a_provider_is_made_anew_when_its_entry_in_the_users_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory, file = Counting(), tmp_path / "mine.toml"
    host = host_with(entry_point("one", factory), entry_point("two", factory))
    monkeypatch.setenv("SWINK_MODELS", str(file))
    for second, url in enumerate(("http://a.invalid", "http://b.invalid")):
        file.write_text(f'[provider]\nname = "one"\nbase_url = "{url}"\n')
        os.utime(file, (second, second))
        bound = [(host.bind("one"), host.bind("two")) for _ in range(2)]
        assert bound[0] == bound[1]
    assert factory.made == ["one", "two", "one"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("broken", "Correct its entry in the file that SWINK_MODELS names. Otherwise: Reinstall"),
        ("another", "Reinstall or upgrade swink-broken, or correct it if it is yours."),
    ],
)
def test_a_broken_provider_in_the_users_file_may_be_corrected_there(
    name: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'[provider]\nname = "{name}"\n')
    monkeypatch.setenv("SWINK_MODELS", str(file))
    with pytest.raises(PluginError) as caught:
        host_with(entry_point("broken", failing)).bind("broken")
    assert (caught.value.resolution or "").startswith(advice)


def test_an_unknown_provider_is_answered_with_what_is_installed() -> None:
    host = host_with(entry_point("groq", Toy), entry_point("anthropic", Toy))
    with pytest.raises(UnknownProvider) as caught:
        host.bind("grok")
    assert caught.value.message == (
        'no provider "grok"; installed: anthropic, groq; did you mean "groq"?'
    )
    assert "swink providers" in caught.value.resolution
    assert "swink doctor" in caught.value.resolution
    assert "grok" not in caught.value.resolution  # anybody may have published that
    with pytest.raises(UnknownProvider, match=r'"anthropics"; .* did you mean "anthropic"'):
        host.entry("anthropics")
    with pytest.raises(UnknownProvider, match="installed: none"):
        host_with().entry("x")


def test_two_distributions_that_claim_a_name_are_both_named() -> None:
    host = host_with(
        entry_point("toy", Toy, distribution="toy-a"), entry_point("toy", Toy, distribution="toy-b")
    )
    with pytest.raises(PluginError, match=r"toy-a 1\.0 and toy-b 1\.0"):
        host.bind("toy")


def test_one_distribution_found_twice_on_the_path_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path / "checkout", tmp_path / "installed"):
        install(folder, "toy")
        monkeypatch.syspath_prepend(str(folder))
    host = Host()
    assert host.bind("toy").name == "toy"
    found = [entry for entry in host.entries() if entry.name == "toy"]
    assert [(entry.distribution, entry.version) for entry in found] == [("toy", "1.0")]


def install(folder: Path, name: str) -> Path:
    """Put the metadata of a distribution with one provider into a folder."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[swink.providers]\n{name} = fakes:Toy\n", "utf-8")
    return info


@pytest.mark.parametrize("name_on_path", ["its own", ""])
def test_installs_and_removals_during_a_process_are_noticed(
    name_on_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def toys() -> list[str]:
        return [name for name in Host().provider_names() if name.startswith("toy")]

    def folder(name: str) -> Path:
        made = tmp_path / name
        made.mkdir()
        if name_on_path:
            monkeypatch.syspath_prepend(str(made))
        else:
            monkeypatch.chdir(made)
        return made

    if not name_on_path:
        monkeypatch.setattr(sys, "path", ["", *sys.path])
    first = folder("first")
    os.utime(first, (0, 0))  # nothing was installed there for a while
    assert toys() == []
    info = install(first, "toy")
    os.utime(first, (1, 1))
    assert toys() == ["toy"]
    shutil.rmtree(info)
    assert toys() == []
    install(folder("second"), "toy-of-another-folder")
    assert toys() == ["toy-of-another-folder"]


def test_installed_plugins_are_read_once_for_all_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Host().provider_names()
    monkeypatch.setattr(importlib_metadata, "entry_points", None)
    assert Host().provider_names() == names


@pytest.mark.parametrize("of_the_path", [True, False])
def test_damaged_metadata_on_the_path_concern_a_host_that_reads_them(
    of_the_path: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = install(tmp_path, "toy") / "entry_points.txt"
    file.write_text("[swink.providers]\ntoy\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    host = Host(environ={}) if of_the_path else host_with()
    assert [damage.file for damage in host.damaged()] == ([str(file)] if of_the_path else [])
    with pytest.raises(UnknownProvider) as caught:
        host.bind("toy")
    assert (str(file) in caught.value.resolution) is of_the_path


def misspelt(name: str) -> Any:
    class Misspelt:
        @hookimpl
        def strean(self) -> None: ...

    return Misspelt()


def wrong_argument(name: str) -> Any:
    class Wrong:
        @hookimpl
        def stream(self, modle: Any) -> None: ...

    return Wrong()


def from_the_future(name: str) -> Any:
    return SimpleNamespace(api_level=99)


def failing(name: str) -> Any:
    raise RuntimeError("no licence")


# (name, what is installed, part of the message)
BROKEN: list[tuple[str, Any, str]] = [
    ("an_import_error", ImportError("No module named 'acme_sdk'"), "No module named 'acme_sdk'"),
    ("a_syntax_error", SyntaxError("invalid syntax"), "invalid syntax"),
    ("a_factory_that_raises", failing, "no licence"),
    ("a_factory_of_other_arguments", lambda: None, "positional argument"),
    ("no_factory", 5, "not callable"),
    ("a_misspelt_hook", misspelt, "strean"),
    ("a_misspelt_argument", wrong_argument, "modle"),
    ("another_api_level", from_the_future, "level 99"),
]


@pytest.mark.parametrize(
    ("load", "message"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_a_broken_provider_breaks_nothing_until_it_is_addressed_and_then_says_why(
    load: Any, message: str
) -> None:
    host = host_with(entry_point("broken", load), entry_point("toy", Toy))
    assert host.provider_names() == ["broken", "toy"]
    assert host.bind("toy").name == "toy"
    assert [entry.error for entry in host.entries()] == [None, None]
    for _ in range(2):
        with pytest.raises(PluginError) as caught:
            host.bind("broken")
        assert message in caught.value.message
        assert '"broken"' in caught.value.message
        assert caught.value.resolution
    assert message in (host.entry("broken").error or "")
    assert host.bind("toy").name == "toy"


@pytest.mark.parametrize("file", ["__init__", "parts"])
def test_where_in_its_package_a_provider_broke_is_named(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = f"no_such_package_raising_in_{file}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("")
    text = "import json\ndef Plugin(name):\n    return json.loads(name)\n"
    (tmp_path / package / f"{file}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = package if file == "__init__" else f"{package}.{file}"
    point = entry_point("raising", None)
    point.value = f"{module}:Plugin"
    point.load = lambda: importlib.import_module(module).Plugin
    place = rf"\({package}/{file}\.py:3\)"
    host = host_with(point)
    with pytest.raises(PluginError, match=rf"cannot be loaded: JSONDecodeError.* {place}"):
        host.bind("raising")
    assert (host.entry("raising").error or "").startswith("JSONDecodeError: Expecting value")


@pytest.mark.parametrize("why", [ImportError("no sdk"), SystemExit("no sdk")])
async def test_a_broken_provider_raises_before_the_first_event(why: BaseException) -> None:
    client = swink.Client(host=host_with(entry_point("broken", why)))
    with pytest.raises(PluginError, match="no sdk"):
        client.stream("broken/m", "Hi")


def test_a_level_that_the_package_states_is_checked_before_its_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "no_such_package_new"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "models.toml").write_text('[provider]\nname = "new"\napi_level = 99\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    factory = Counting()
    host = host_with(entry_point("new", factory))
    with pytest.raises(PluginError, match=r'provider "new" \(swink-new\).* level 99'):
        host.bind("new")
    assert factory.made == []
    assert "level 99" in (host.entry("new").error or "")


@pytest.mark.parametrize("level", ["1", 1.0, True, None])
def test_a_level_is_a_whole_number(level: Any) -> None:
    with pytest.raises(PluginError, match="is not a whole number"):
        host_with(entry_point("odd", lambda name: SimpleNamespace(api_level=level))).bind("odd")


# (level, the levels that a core offers, what is said of them, whose turn it is)
OTHER_LEVELS = [
    (3, (1, 2), "offers levels 1 to 2", "Upgrade swink-core"),
    (2, (3, 4), "offers levels 3 to 4", "Upgrade the plugin"),
    (2, (3, 3), "offers level 3", "Upgrade the plugin"),
]


@pytest.mark.parametrize(("level", "offered", "said", "resolution"), OTHER_LEVELS)
def test_a_plugin_of_another_level_is_refused_with_whose_turn_it_is(
    level: int,
    offered: tuple[int, int],
    said: str,
    resolution: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(levels, "OLDEST_API_LEVEL", offered[0])
    monkeypatch.setattr(levels, "API_LEVEL", offered[1])
    with pytest.raises(PluginError, match=rf"plugin API level {level}; .* {said}\n") as caught:
        levels.check_level(level, "acme")
    assert (caught.value.resolution or "").startswith(resolution)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_plugin_of_any_level_that_is_offered_is_taken(
    level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels, "API_LEVEL", 3)
    levels.check_level(level, "acme")


# -- which plugins may load ----------------------------------------------------------------------

POINTS = [
    entry_point("a", Toy),
    entry_point("b", Toy),
    entry_point("log", Observer, group="swink.plugins"),
]

# (SWINK_PLUGINS, SWINK_DISABLE_PLUGINS, what is left)
ALLOWED: list[tuple[str | None, str | None, list[str]]] = [
    (None, None, ["a", "b", "log"]),
    ("a,log", None, ["a", "log"]),
    (" a , log ", None, ["a", "log"]),
    ("", None, []),
    (None, "b", ["a", "log"]),
    (None, "", ["a", "b", "log"]),
    ("a,b", "b,log", ["a"]),
]


@pytest.mark.parametrize(("allow", "block", "left"), ALLOWED)
def test_the_environment_governs_what_may_load(
    allow: str | None, block: str | None, left: list[str]
) -> None:
    environ = {"SWINK_PLUGINS": allow, "SWINK_DISABLE_PLUGINS": block}
    host = host_with(*POINTS, **{name: v for name, v in environ.items() if v is not None})
    assert [entry.name for entry in host.entries()] == left


# -- shared plugins ------------------------------------------------------------------------------


async def events_with(*points: Any, plugins: tuple[Any, ...] = ()) -> list[Any]:
    host = host_with(entry_point("toy", Toy), *points, plugins=plugins)
    async with client_with(
        host=host, http=PipeClient(Pipe(*HELLO, end=True)), api_key="k"
    ) as client:
        return await collect(client.stream(MODEL, "Hi"))


@pytest.mark.parametrize("as_class", [True, False])
async def test_an_installed_plugin_is_a_class_or_an_object(as_class: bool) -> None:
    observer = Observer()

    class Made(Observer):
        def __new__(cls) -> Any:
            return observer

    point = entry_point("log", Made if as_class else observer, group="swink.plugins")
    assert observer.events == []
    assert await events_with(point) == observer.events


@pytest.mark.parametrize("configured", [True, False])
async def test_an_installed_plugin_may_be_a_function_that_makes_one_where_it_is_configured(
    configured: bool,
) -> None:
    observer = Observer()

    def make() -> Observer | None:
        return observer if configured else None

    points = (entry_point("toy", Toy), entry_point("watch", make, group="swink.plugins"))
    host = host_with(*points)
    async with client_with(
        host=host, http=PipeClient(Pipe(*HELLO, end=True)), api_key="k"
    ) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert observer.events == (events if configured else [])
    assert [entry.error for entry in host.entries()] == [None, None]


async def test_plugins_given_by_hand_are_asked_before_installed_ones() -> None:
    order: list[str] = []

    def plugin(name: str) -> Any:
        class Plugin:
            @hookimpl
            def on_event(self, event: Any) -> None:
                order.append(name)

        return Plugin()

    point = entry_point("installed", plugin("installed"), group="swink.plugins")
    await events_with(point, plugins=(plugin("given"),))
    assert order[:2] == ["given", "installed"]


async def test_a_plugin_may_bear_a_providers_name_and_two_may_share_one() -> None:
    first, second, third = Observer(), Observer(), Observer()
    points = [
        entry_point("toy", first, group="swink.plugins"),
        entry_point("log", second, group="swink.plugins", distribution="log-a"),
        entry_point("log", third, group="swink.plugins", distribution="log-b"),
    ]
    events = await events_with(*points)
    assert first.events == second.events == third.events == events


async def test_a_host_closes_what_it_loaded_with_its_last_client_and_makes_it_anew() -> None:
    made: list[Any] = []

    class Plugin(Observer):
        closed = False

        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        async def aclose(self) -> None:
            self.closed = True

    given = Plugin()
    point = entry_point("log", Plugin, group="swink.plugins")
    host = host_with(entry_point("toy", Toy), point, plugins=(given,))
    for number in (1, 2):
        async with client_with(
            host=host, http=PipeClient(Pipe(*HELLO, end=True)), api_key="k"
        ) as client:
            events = await collect(client.stream(MODEL, "Hi"))
            assert (len(made), made[number].events, made[number].closed) == (
                number + 1, events, False
            )  # fmt: skip
        assert made[number].closed
    assert not given.closed  # which is its owner's to close


async def test_the_same_object_given_twice_is_one_plugin() -> None:
    observer = Observer()
    events = await events_with(plugins=(observer, observer))
    assert observer.events == events


class AsyncStream:
    @hookimpl(tryfirst=True)
    async def stream(self) -> Any:
        yield swink.Start()


class AsyncWrapper:
    @hookimpl(wrapper=True)
    async def stream(self) -> Any:
        yield


class WrappingObserver:
    @hookimpl(wrapper=True)
    def on_event(self) -> Any:
        yield


class AsyncObserver:
    @hookimpl
    async def on_event(self, event: Any) -> None: ...


class Misspelt:
    @hookimpl
    def on_evnet(self) -> None: ...


class Old:
    api_level = 0

    @hookimpl
    def on_event(self) -> None: ...


UNIMPORTABLE = [(ImportError("no sdk"), "no sdk"), (SystemExit("bye"), "bye")]

# (plugin, part of the message, part of what to do)
REFUSED = [
    (AsyncStream, "implements stream as an async generator function",
     "a plain function that returns an async iterator or None"),
    (AsyncWrapper, "but function is not a generator function", "Hooks are stream,"),
    (WrappingObserver, "implements on_event as a wrapper", "a plain function"),
    (AsyncObserver, "implements on_event as a coroutine function, which is never awaited",
     "a plain function that starts a task for longer work"),
    (Misspelt, "on_evnet", "Hooks are stream,"),
    (Old, "level 0", "Upgrade"),
]  # fmt: skip


@pytest.mark.parametrize(("plugin", "message", "instead"), REFUSED)
def test_a_plugin_given_by_hand_that_would_break_every_call_is_refused(
    plugin: Any, message: str, instead: str
) -> None:
    with pytest.raises(PluginError, match=message) as caught:
        host_with(entry_point("toy", Toy), plugins=(plugin(),))
    assert plugin.__name__ in caught.value.message
    assert caught.value.resolution
    assert instead in caught.value.resolution


class Plain:
    def on_event(self, event: Any) -> None: ...


NO_PLUGINS = [
    (None, "NoneType"),
    ("a", "str"),
    (Observer, "type"),
    (Plain(), "Plain"),
    (SimpleNamespace(name="mine"), "mine"),
]


@pytest.mark.parametrize(("given", "name"), NO_PLUGINS)
def test_an_invalid_plugin_is_refused_when_the_client_is_created(given: Any, name: str) -> None:
    with pytest.raises(PluginError, match=f'plugin "{name}" implements no hook') as caught:
        swink.Client(plugins=[given])
    assert "pass an instance, not a class" in str(caught.value.resolution)


@pytest.mark.parametrize(
    ("plugin", "message"),
    [*((plugin, message) for plugin, message, _ in REFUSED), *UNIMPORTABLE],
)
async def test_an_installed_plugin_that_is_broken_is_logged_recorded_and_left_out(
    plugin: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    observer = Observer()
    host = host_with(
        entry_point("toy", Toy),
        entry_point("bad", plugin, group="swink.plugins"),
        entry_point("good", observer, group="swink.plugins"),
    )
    async with client_with(
        host=host, http=PipeClient(Pipe(*HELLO, end=True)), api_key="k"
    ) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert observer.events == events
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert "plugin bad is disabled" in record.getMessage()
    (entry,) = [entry for entry in host.entries() if entry.name == "bad"]
    assert message in (entry.error or "")


async def test_an_installed_plugin_may_have_no_hook_where_it_is_not_configured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = host_with(entry_point("toy", Toy), entry_point("idle", Plain, group="swink.plugins"))
    host.bind("toy")
    assert [entry.error for entry in host.entries()] == [None, None]
    assert caplog.records == []


def test_an_async_wrapper_of_a_stream_is_an_ordinary_wrapper() -> None:
    class Wrapping:
        @hookimpl(wrapper=True)
        def stream(self) -> Any:
            return (yield)

    host_with(entry_point("toy", Toy), plugins=(Wrapping(),)).bind("toy")


# -- hooks between plugins -----------------------------------------------------------------------


class Marked:
    """Implements a hook as a method."""

    @hookimpl
    def on_event(self, event: Any, call: Any) -> None: ...

    def other(self) -> None: ...


class Overridden(Marked):
    """Replaces the hook by a method without a mark."""

    def on_event(self, event: Any, call: Any) -> None: ...


class Renamed:
    """Implements a hook under another name."""

    @hookimpl(specname="on_event")
    def seen(self, event: Any, call: Any) -> None: ...


class MarkedOutside:
    """Marks the static method, not the function in it."""

    @hookimpl
    @staticmethod
    def on_event(event: Any, call: Any) -> None: ...


class OfTheClass:
    """Implements a hook for the whole class."""

    @classmethod
    @hookimpl
    def on_event(cls, event: Any, call: Any) -> None: ...


class OfTheInstance(Overridden):
    """Sets a hook on the instance, over the class's unmarked method of that name."""

    def __init__(self) -> None:
        self.on_event = Marked().on_event


class Slotted:
    """Keeps a hook in a slot."""

    __slots__ = ("on_event",)

    def __init__(self) -> None:
        self.on_event = Marked().on_event


def module() -> Any:
    """Return a module with a hook."""
    made = ModuleType("a_module")
    vars(made)["on_event"] = hookimpl(lambda event, call: None)
    return made


FORMS = [
    Marked, Overridden, Renamed, MarkedOutside, OfTheClass, OfTheInstance, Slotted, module,
    lambda: MarkedOutside, lambda: OfTheClass, SimpleNamespace,
]  # fmt: skip


@pytest.mark.parametrize("make", FORMS)
def test_the_hooks_of_a_plugin_are_those_that_pluggy_finds(make: Any) -> None:
    plugin, plain = make(), pluggy.PluginManager(hookspecs.PROJECT)
    plain.add_hookspecs(hookspecs)
    plain.register(plugin, "given")

    ours = bind_hooks("toy", Toy("toy"), [("given", plugin)]).manager

    def found(manager: pluggy.PluginManager) -> list[str]:
        return [caller.name for caller in manager.get_hookcallers(plugin) or ()]

    assert found(ours) == found(plain)
    assert bool(found(plain)) is (make not in (Overridden, SimpleNamespace))


async def test_a_provider_sees_only_calls_of_its_own() -> None:
    seen: list[str] = []

    class Watching(Toy):
        @hookimpl
        def on_event(self, event: Any) -> None:
            seen.append(self.name)

    providers = {"one": Watching, "two": Watching}
    async with client_of(providers=providers, http=PipeClient(Pipe(*HELLO, end=True))) as client:
        await client.complete("one/m", "Hi", api_key="k")
    assert set(seen) == {"one"}


def test_the_cores_own_classifier_is_asked_last() -> None:
    class Mine:
        @hookimpl
        def classify_error(self, failure: swink.Failure) -> Any:
            return swink.Classification(Kind.OVERLOADED) if failure.status == 418 else None

    binding = host_with(entry_point("toy", Toy), plugins=(Mine(),)).bind("toy")

    def classified(status: int) -> Any:
        failure = swink.Failure("request", status)
        return binding.hook.classify_error(model=swink.Model("toy", "m"), failure=failure)

    assert classified(418).kind is Kind.OVERLOADED
    assert classified(429) == classify_default(swink.Failure("request", 429))


def _implementation(number: int, seen: list[str], answers: bool, order: str) -> Any:
    """Return a plugin with one implementation of `convert_messages`."""

    def plain(self: Any, options: Any) -> Any:
        seen.append(f"{number} {options}")
        return number if answers else None

    def wrapping(self: Any, context: Any) -> Any:
        seen.append(f"{number} before {context}")
        result = yield
        seen.append(f"{number} after {result}")
        return result

    marks = {} if order == "plain" else {order: True}
    function = wrapping if order == "wrapper" else plain
    hook = hookimpl(**marks)(function)
    return type(f"Plugin{number}", (), {"convert_messages": hook})()


PLUGINS = st.tuples(st.booleans(), st.sampled_from(["plain", "tryfirst", "trylast", "wrapper"]))


@given(at_once=st.lists(PLUGINS, max_size=4), later=st.lists(PLUGINS, max_size=2))
def test_a_first_result_is_that_of_pluggy_whoever_is_registered_and_when(
    at_once: list[tuple[bool, str]], later: list[tuple[bool, str]]
) -> None:
    seen: list[str] = []
    made = [_implementation(n, seen, *how) for n, how in enumerate([*at_once, *later])]
    shared = [(f"plugin {n}", plugin) for n, plugin in enumerate(made[: len(at_once)])]
    binding = bind_hooks("toy", _implementation(-1, seen, True, "plain"), shared)
    arguments = {"model": "m", "context": "c", "options": "o"}
    for added in (None, *made[len(at_once) :]):
        if added is not None:
            binding.manager.register(added)
        seen.clear()
        expected = binding.hook.convert_messages(**arguments)
        by_pluggy = [*seen]
        seen.clear()
        assert binding.first_result("convert_messages", **arguments) == expected
        assert seen == by_pluggy


class Later:
    """A plugin that adds another plugin to its hosts on demand."""

    def __init__(self, raises: bool = False) -> None:
        self.hosts: list[Host] = []
        self.raises = raises

    def loaded(self, host: Host) -> None:
        self.hosts.append(host)
        if self.raises:
            raise OSError("no disk")


class Heard:
    def __init__(self) -> None:
        self.types: list[str] = []

    @swink.hookimpl
    def on_event(self, event: Any) -> None:
        self.types.append(event.type)


@pytest.mark.parametrize("is_installed", [True, False], ids=["installed", "given"])
async def test_a_plugin_can_add_and_remove_hooks_while_clients_are_open(is_installed: bool) -> None:
    later, heard = Later(), Heard()
    point = entry_point("later", lambda: later)
    point.group = "swink.plugins"
    host = host_with(
        entry_point("toy", Toy),
        *([point] if is_installed else []),
        entry_point("other", Toy),
        entry_point("third", Toy),
        plugins=() if is_installed else (later,),
    )
    async with swink.Client(host=host) as client:

        async def shown(model: str) -> list[str]:
            """Return the types of a call's events, as the client and the added plugin saw them."""
            heard.types.clear()
            seen = [event.type async for event in client.stream(model, "Hi")]
            assert seen[-1] == "error"  # no key is set
            assert heard.types in ([], seen)
            return heard.types

        assert (await shown("toy/m"), later.hosts) == ([], [host])
        for _ in range(2):  # adding it again has no effect
            host.add(heard, "heard")
        assert await shown("toy/m")
        assert await shown("other/m"), "a provider that is loaded later"
        for _ in range(2):
            host.remove(heard)
        assert not await shown("toy/m")
        assert not await shown("other/m")
        assert not await shown("third/m"), "a provider that is loaded after the plugin was removed"


def test_a_provider_that_is_loaded_later_has_the_plugins_that_were_not_removed() -> None:
    host = host_with(entry_point("toy", Toy))
    kept, removed = Heard(), Heard()
    host.add(kept, "kept")
    host.add(removed, "removed")
    host.remove(removed)
    manager = host.bind("toy").manager
    assert (manager.is_registered(kept), manager.is_registered(removed)) == (True, False)


def test_a_plugin_with_invalid_hooks_is_not_added() -> None:
    host = host_with(entry_point("toy", Toy))
    with pytest.raises(PluginError, match='plugin "hookless" implements no hook to call'):
        host.add(SimpleNamespace(), "hookless")
    assert host.bind("toy").manager.get_plugin("hookless") is None


def test_a_plugin_that_many_hosts_add_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def check(plugin: Any, name: str) -> None:
        checked.append(name)
        check_plugin(plugin, name)

    monkeypatch.setattr("swink_core.plugins.host.check_plugin", check)
    for heard in (Heard(), Heard()):
        for _ in range(2):
            host = host_with(entry_point("toy", Toy))
            host.add(heard, "heard")
            assert host.bind("toy").manager.is_registered(heard)
    assert checked == ["heard", "heard"]


def test_an_installed_plugin_that_raises_when_it_is_loaded_is_disabled() -> None:
    point = entry_point("later", lambda: Later(raises=True))
    point.group = "swink.plugins"
    host = host_with(point, entry_point("toy", Toy))
    host.bind("toy")
    [entry] = [each for each in host.entries() if each.name == "later"]
    assert entry.error == "OSError: no disk"


def test_a_given_plugin_that_raises_when_it_is_loaded_fails_every_call() -> None:
    host = host_with(entry_point("toy", Toy), plugins=(Later(raises=True),))
    for _ in range(2):
        with pytest.raises(OSError, match="no disk"):
            host.bind("toy")


# -- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", ["toy", "other"], ids=["the same provider", "another provider"])
def test_a_thread_that_binds_while_another_one_loads_the_plugins_gets_all_of_them(
    second: str,
) -> None:
    factory, given, installed, added = Counting(), Observer(), Observer(), Heard()
    bound: list[Any] = []
    thread = threading.Thread(target=lambda: bound.append(host.bind(second)))

    def slow() -> Any:
        host.add(added, "added")
        thread.start()
        thread.join(0.2)  # time enough to bind, if nothing makes the thread wait
        return installed

    point = entry_point("slow", slow)
    point.group = "swink.plugins"
    host = host_with(
        entry_point("toy", factory), entry_point("other", factory), point, plugins=(given,)
    )
    first = host.bind("toy")
    thread.join()
    for binding in (first, *bound):
        for plugin in (given, installed, added):
            assert binding.manager.is_registered(plugin)
    assert (bound == [first]) is (second == "toy")
    assert factory.made == [*dict.fromkeys(["toy", second])]


def test_a_host_can_be_copied_and_the_copy_creates_its_own_providers() -> None:
    host = host_with(entry_point("toy", Toy), plugins=(Heard(),))
    copied = copy.deepcopy(host)
    assert copied.bind("toy") is not host.bind("toy")
