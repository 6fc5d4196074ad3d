"""Level 1 of the plugin API is kept: a plugin of that time works, and what it used is there.

The plugin is unchanging text, installed into a separate folder as by pip.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import swink_core as swink
from swink_core import ModelInfo, ProviderInfo, providers
from swink_core.plugins import catalog, hookspecs, level
from swink_core.providers import (
    EventWriter,
    Exchange,
    Grant,
    HTTPProvider,
    TokenHTTP,
)
from swink_core.vocabulary.prices import Prices
from swink_testing.calls import client_with
from swink_testing.conformance import PROVIDER_CHECKS, Subject, Waivers, run_checks
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, fold

FIXTURE = Path(__file__).parent / "fixtures" / "level1_plugin"
PROMISE = tomllib.loads((FIXTURE / "promise.toml").read_text("utf-8"))

FROZEN = {
    "models.toml.txt": "ab56a91648d9071e83445b8db7857158f56d35791bcc103b2ed8464323aea9c7",
    "plugin.py.txt": "996f52a260132abe69621580645ed22b53b083811af6c4d9b01687cd7673b2f9",
}
"""SHA-256 of what must not change: a level is kept for plugins that are out of our hands."""

NDJSON = {"Content-Type": "application/x-ndjson"}

ANSWER = b"""\
{"t": "id", "text": "r1"}
{"t": "think", "text": "Why?", "id": "signature"}
{"t": "say", "text": "Hello "}
{"t": "bad", "text": "not what it should be"}
{"t": "say", "text": "there."}
{"t": "card", "text": "ace"}
{"t": "call", "id": "c1", "text": "{\\"word\\": \\"x\\"}"}
{"t": "end", "n": [7, 9], "text": "stop"}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The plugin, installed."""
    package = tmp_path / "level_one_plugin"
    package.mkdir()
    shutil.copy(FIXTURE / "plugin.py.txt", package / "__init__.py")
    shutil.copy(FIXTURE / "models.toml.txt", package / "models.toml")
    info = tmp_path / "level_one_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: level-one-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[swink.providers]\n"
        "level-one = level_one_plugin:LevelOne\n"
        "level-one-own = level_one_plugin:LevelOneOwn\n"
        "[swink.plugins]\n"
        "level-one-watcher = level_one_plugin:Watcher\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("level_one_plugin", None)


def client_of(http: MemoryHTTPClient | None = None, **options: Any) -> swink.Client:
    names = "level-one,level-one-own,level-one-watcher"
    host = swink.Host(environ={"SWINK_PLUGINS": names})
    options = {"api_key": "key", "retry": swink.RetryPolicy.none(), **options}
    return client_with(host=host, http=http or MemoryHTTPClient(), **options)


async def events_of(client: swink.Client, model: str, **options: Any) -> list[Any]:
    async with client.stream(model, "Hello", **options) as stream:
        return [event async for event in stream]


# -- the plugin works ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FROZEN)
def test_the_plugin_is_as_it_was(name: str) -> None:
    assert hashlib.sha256((FIXTURE / name).read_bytes()).hexdigest() == FROZEN[name]


async def test_an_answer_becomes_the_same_events(site: Path) -> None:
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers=NDJSON))

    events = await events_of(client_of(http), "level-one/large")

    message = fold(events)
    assert [event.type for event in events] == [
        "start", "thinking_start", "thinking_delta", "thinking_end", "text_start", "text_delta",
        "notice", "text_delta", "text_end", "extension", "tool_call_start", "tool_call_delta",
        "tool_call_end", "done",
    ]  # fmt: skip
    assert (message.thinking, message.text) == ("Why?", "Hello there.")
    assert message.tool_calls == [
        swink.ToolCallBlock("c1", "look_up", {"word": "x"}, '{"word": "x"}')
    ]
    assert events[-1].stop_reason is swink.StopReason.TOOL_USE
    assert (events[-1].usage.total, events[-1].cost.total) == (16, 0.25)
    assert (events[-1].response_id, events[-1].model) == ("r1", "one-large")


async def test_a_request_says_what_was_asked(site: Path) -> None:
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers=NDJSON))

    await events_of(client_of(http), "level-one/large", temperature=1, extra={"own": True})

    (request,) = http.requests
    assert request.url == "https://one.example/v1/talk"
    assert request.headers["X-Key"] == "key"
    assert request.headers["X-One"] == "1"
    assert http.bodies[0] == {
        "own": True,
        "system": None,
        "turns": [{"user": "Hello", "images": []}],
        "tools": [],
        "model": "large",
        "stream": True,
        "temperature": 1,
        "max_tokens": 4096,
        "stop": [],
    }


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"code": "busy", "message": "x"}}, "overloaded"),
        (400, {"error": {"message": "too many words"}}, "context_window_exceeded"),
        (418, {}, "invalid_request"),
        (503, {}, "overloaded"),
    ],
)
async def test_its_errors_are_classified_by_its_tables(
    site: Path, status: int, body: Any, kind: str
) -> None:
    answer = MemoryResponse.of_json(body, status, {"x-one-id": "req-1"})

    events = await events_of(client_of(MemoryHTTPClient(answer)), "level-one/large")

    assert [event.type for event in events] == ["start", "error"]
    assert (events[-1].error_kind, events[-1].request_id) == (kind, "req-1")


@pytest.mark.parametrize("key", ["session-form", "session-json"])
async def test_a_token_is_fetched_kept_and_renewed_once_it_is_refused(site: Path, key: str) -> None:
    answers = [MemoryResponse([ANSWER], headers=NDJSON) for _ in range(2)]
    over = MemoryResponse.of_json({"error": {"code": "over"}}, 403)
    tokens = [MemoryResponse.of_json({"token": t, "seconds": 3600}) for t in ("one", "two")]
    http = MemoryHTTPClient(tokens[0], answers[0], over, tokens[1], answers[1])
    client = client_of(http, api_key=key)

    events = [(await events_of(client, "level-one/large"))[-1] for _ in range(2)]

    assert [event.type for event in events] == ["done", "done"]
    sent = [request.headers.get("X-Token") for request in http.requests]
    assert sent == [None, "one", "one", None, "two"]


async def test_a_token_that_is_not_given_is_explained_in_its_words(site: Path) -> None:
    refusal = MemoryResponse.of_json({"error": {"code": "x", "message": "unknown"}}, 400)

    client = client_of(MemoryHTTPClient(refusal), api_key="session-x")

    last = (await events_of(client, "level-one/large"))[-1]

    assert (last.error_kind, last.error_message) == ("auth", "One issued no token: (unknown)")


async def test_a_whole_answer_is_read_as_a_streamed_one(site: Path) -> None:
    body = ANSWER.replace(b'{"t": "bad", "text": "not what it should be"}\n', b"")
    whole = MemoryResponse([body], headers={"Content-Type": "application/json"})
    http = MemoryHTTPClient(whole)

    events = await events_of(client_of(http), "level-one/never-streams")

    assert fold(events).text == "Hello there."
    assert http.bodies[0]["stream"] is False


async def test_notices_of_its_own_come_with_the_start(site: Path) -> None:
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers=NDJSON))

    events = await events_of(client_of(http), "level-one/large", temperature=2, seed=1)

    assert [e.code for e in events[:4] if isinstance(e, swink.Notice)] == ["option_ignored", "one"]


async def test_a_stream_hook_of_its_own_works(site: Path) -> None:
    client = client_of()

    answer = await events_of(client, "level-one-own/any")
    tired = await events_of(client, "level-one-own/tired")

    assert fold(answer).text == "1 turns"
    assert (tired[-1].error_kind, tired[-1].retry_after) == ("overloaded", 3.0)


async def test_its_observer_and_its_wrappers_are_asked(site: Path) -> None:
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers=NDJSON))

    events = await events_of(client_of(http), "level-one/large")

    (watcher,) = sys.modules["level_one_plugin"].Watcher.made
    assert [kind for _, _, kind in watcher.seen] == [event.type for event in events]
    assert watcher.asked == [1]


NEWER = {
    "nothing_dropped": {
        "[image by URL] fails": "it does not support images by URL, and raises an exception",
        "[metadata that no API knows]": "the check of block metadata is newer than the plugin",
    },
    "calls_are_apart": {
        "a call with a X-Key": "the check of a caller's own header is newer than the plugin",
    },
}


@pytest.mark.parametrize(("name", "faults"), [("level-one", NEWER), ("level-one-own", {})])
def test_todays_kit_finds_no_other_fault_in_it(site: Path, name: str, faults: Waivers) -> None:
    results = run_checks(PROVIDER_CHECKS, Subject.find(name), faults)

    # recordings are what the kit asks for since; they are no part of the plugin API
    assert [r for r in results if r.is_fault and r.name != "recordings"] == []


# -- what is promised is there -------------------------------------------------------------------


@pytest.mark.parametrize("module", PROMISE["names"])
def test_promised_names_can_be_imported(module: str) -> None:
    found = importlib.import_module(module)

    assert [name for name in PROMISE["names"][module] if not hasattr(found, name)] == []


def parameters(function: Any) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(function).parameters.values() if p.name != "self"]


@pytest.mark.parametrize(
    ("owner", "name", "promised"),
    [
        *((hookspecs, name, names) for name, names in PROMISE["hooks"].items()),
        *((HTTPProvider, name, names) for name, names in PROMISE["http_provider"].items()),
        *((Exchange, name, names) for name, names in PROMISE["exchange"].items()),
        *((Grant, name, names) for name, names in PROMISE["grant"].items()),
        *((TokenHTTP, name, names) for name, names in PROMISE["token_http"].items()),
        *((EventWriter, name, names) for name, names in PROMISE["writer"].items()),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_promised_parameters_come_first_and_others_may_be_left_out(
    owner: Any, name: str, promised: list[str]
) -> None:
    found = parameters(getattr(owner, name))

    assert [p.name for p in found[: len(promised)]] == promised
    if owner is not hookspecs:  # hooks are called by name: an implementation takes what it names
        assert [p.name for p in found[len(promised) :] if p.default is p.empty] == []


def test_promised_attributes_of_http_providers_are_there() -> None:
    promised = PROMISE["http_provider_attributes"]["names"]

    assert [name for name in promised if not hasattr(HTTPProvider, name)] == []


@pytest.mark.parametrize("name", PROMISE["fields"])
def test_promised_fields_are_there(name: str) -> None:
    owner = getattr(swink, name, None) or getattr(providers, name)
    own = attrs.fields_dict(owner) if attrs.has(owner) else getattr(owner, "__annotations__", ())
    found = {*own, *dir(owner)}

    assert [field for field in PROMISE["fields"][name] if field not in found] == []


def test_promised_keys_of_the_catalogue_are_read(site: Path) -> None:
    found = catalog.package_catalog("level_one_plugin")

    assert found.providers["level-one"] == ProviderInfo(
        "level-one", "Level One", "one-lines", "https://one.example/v1",
        ("ONE_API_KEY", "ONE_KEY"), ("ONE_BASE_URL",), "key", 1, "https://one.example/docs",
        "https://one.example/keys", {"shouts": True},
    )  # fmt: skip
    assert found.models["level-one", "large"] == ModelInfo(
        "large", "level-one", "One Large", 64_000, 4_096, frozenset({"tools", "images"}),
        "active", Prices(1.0, 2.0, 0.1, 1.25), "talk", "2026-11-01", {"family": "one"},
    )  # fmt: skip


# -- other levels --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "message", "resolution"),
    [
        (2, "is written for plugin API level 2; this swink-core offers level 1", "Upgrade swink"),
        (0, "is written for plugin API level 0; this swink-core offers level 1", "Upgrade the pl"),
        ("1", "states the plugin API level '1', which is not a whole number", "Write the number"),
        (True, "states the plugin API level True, which is not a whole number", "Write the number"),
    ],
)
def test_another_level_is_refused_with_what_to_do(
    stated: object, message: str, resolution: str
) -> None:
    with pytest.raises(swink.PluginError) as caught:
        level.check_level(stated, 'plugin "acme"')

    assert caught.value.message == f'plugin "acme" {message}'
    assert caught.value.resolution.startswith(resolution)


def test_older_levels_that_are_kept_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level, "API_LEVEL", 3)
    monkeypatch.setattr(level, "OLDEST_API_LEVEL", 2)

    level.check_level(2, "acme")
    level.check_level(3, "acme")
    with pytest.raises(swink.PluginError, match="offers levels 2 to 3"):
        level.check_level(1, "acme")


def restate(site: Path, **facts: object) -> None:
    rows = ["[provider]", 'name = "level-one"', *(f"{k} = {v}" for k, v in facts.items())]
    (site / "level_one_plugin" / "models.toml").write_text("\n".join(rows))


def test_a_newer_plugin_is_refused_before_its_import(site: Path) -> None:
    restate(site, api_level=2)
    (site / "level_one_plugin" / "__init__.py").write_text("from swink_core import Tomorrow")

    with pytest.raises(swink.PluginError, match="written for plugin API level 2"):
        swink.Host(environ={}).bind("level-one")


def test_a_newer_catalogue_is_refused_for_its_level_not_for_its_form(site: Path) -> None:
    restate(site, api_level=2, moods='["cheerful"]')

    with pytest.raises(swink.PluginError, match="written for plugin API level 2"):
        swink.Host(environ={}).bind("level-one")


def test_a_plugin_that_states_no_level_was_written_for_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Mute:
        @swink.hookimpl
        def on_event(self) -> None: ...

    swink.Host([Mute()], entry_points=[])
    monkeypatch.setattr(level, "OLDEST_API_LEVEL", 2)
    monkeypatch.setattr(level, "API_LEVEL", 2)
    with pytest.raises(swink.PluginError, match="written for plugin API level 1"):
        swink.Host([Mute()], entry_points=[])
