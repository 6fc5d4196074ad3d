"""Thirty mistakes of plugin authors: each gives a message that names the fault and its place.

The place is the line that is marked with `# here`; where a mistake has no line, its plugin,
distribution or file is named.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
import warnings
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from textwrap import dedent, indent
from types import SimpleNamespace

import pytest
from attrs import define

from swink_cli.commands.doctor.plugins import examine
from swink_core import Client, Error, Host, RetryPolicy, SwinkError
from swink_test_helpers.installed import catalogue, install
from swink_testing.conformance import PROVIDER_CHECKS, Subject, run_check
from swink_testing.conformance.diagnosis import explain

PACKAGE = "mistaken_acme"

HOOK = """
from time import sleep

import swink_core
from swink_core import Done, Start, StopReason, TextDelta, TextEnd, TextStart, hookimpl


class Acme:
    def __init__(self, name):
        self.name = name

    @hookimpl
    def stream(self):
        return self.events()
"""

SPOKEN = """
import swink_core
from swink_core import Failure, ProviderFailure
from swink_core.providers import HTTPProvider


class Parser:
    def feed(self, frame, out):
        pass


class Acme(HTTPProvider):
    def convert(self, model, context, options):
        raise ProviderFailure(Failure("connect", message="no"))

    def request(self, model, payload, options):
        return self.json_request("http://127.0.0.1:9/", payload)

    def parser(self, model):
        return Parser()
"""


def yielding(*lines: str) -> str:
    return f"{HOOK}\n    async def events(self):\n{indent(dedent(chr(10).join(lines)), ' ' * 8)}\n"


def without(source: str, method: str) -> str:
    return re.sub(rf"    def {method}\(.*\n.*\n", "", source)


@define
class Mistake:
    """Mistakes of plugin authors, and the message for each."""

    name: str
    words: str
    source: str = HOOK
    told_by: str = "the call"
    rows: str = catalogue("acme")
    group: str = "swink.providers"
    asked: str = "acme/large"


OPEN = ("yield Start()", "yield TextStart(0)")
GRAMMAR = 'plugin "acme" violated the event protocol: '
NO_ITERATOR = (
    'plugin "acme" .*the stream hook must return an async iterator, not {}; .*def with @hookimpl'
)
NOT_LOADED = r'provider "acme" \(swink-provider-acme 1.0\) cannot be loaded: '

MISTAKES = [
    # before a call: what is no plugin
    Mistake(
        "an argument that a hook does not have",
        r"plugin \"acme\" does not match the hook specifications: (.|\n)*stream\(modle\)",
        HOOK.replace("stream(self)", "stream(self, modle)"),
    ),
    Mistake(
        "a hook that there is not",
        "unknown hook 'clasify_error'(.|\n)*Hooks are stream, .*classify_error",
        f"{HOOK}\n    @hookimpl\n    def clasify_error(self):\n        pass\n",
    ),
    Mistake(
        "a level of tomorrow",
        'plugin "acme" is written for plugin API level 9; .* offers level 1',
        f"{HOOK}\n    api_level = 9\n",
    ),
    Mistake(
        "a level in words",
        "plugin \"acme\" states the plugin API level '1', which is not a whole number",
        f"{HOOK}\n    api_level = '1'\n",
    ),
    Mistake(
        "an entry point to nothing",
        f"{NOT_LOADED}.*module '{PACKAGE}' has no attribute 'Acme'",
        HOOK.replace("class Acme", "class Acne"),
    ),
    Mistake(
        "an import that fails",
        f"{NOT_LOADED}.*'no_such_module'.*HERE",
        "import no_such_module  # here",
    ),
    Mistake(
        "a module that does not parse", f"{NOT_LOADED}SyntaxError.*__init__.py', 1,", "def f(:\n"
    ),
    Mistake(
        "a factory that raises",
        f"{NOT_LOADED}KeyError.*HERE",
        HOOK.replace("self.name = name", "self.name = {}[name]  # here"),
    ),
    Mistake("data that do not parse", r"models\.toml: .*line 1", rows="[provider\nname = 'acme'"),
    Mistake(
        "a group that is misspelt",
        '"swink.provider", which swink does not read',
        group="swink.provider",
        told_by="doctor",
    ),
    Mistake(
        "a name that is misspelt", 'no provider "acem".*did you mean "acme"', asked="acem/large"
    ),
    Mistake(
        "a row of another name",
        r'models.toml of mistaken_acme.*the provider "acme" has no row; it has acmee',
        yielding("yield Start()"),
        told_by="doctor",
        rows=catalogue("acmee"),
    ),
    # the hook
    Mistake(
        "a hook without its mark",
        "HERE.*stream has no @hookimpl, so it is never called",
        HOOK.replace("    @hookimpl\n", "").replace("stream(self):", "stream(self):  # here"),
        told_by="doctor",
    ),
    Mistake("no hook", NO_ITERATOR.format("NoneType"), HOOK.replace("    @hookimpl\n", "")),
    Mistake(
        "a hook that returns nothing",
        NO_ITERATOR.format("NoneType"),
        HOOK.replace("return ", "") + "\n    def events(self):\n        pass\n",
    ),
    Mistake(
        "a hook that is a coroutine",
        NO_ITERATOR.format("coroutine"),
        HOOK.replace("def stream", "async def stream"),
    ),
    Mistake(
        "a hook that is a generator",
        NO_ITERATOR.format("generator"),
        HOOK.replace("return self.events()", "yield Start()"),
    ),
    Mistake(
        "a hook that returns a list",
        NO_ITERATOR.format("list"),
        HOOK.replace("self.events()", "[Start()]"),
    ),
    # the events
    Mistake("no end", f"{GRAMMAR}the stream ended without Done or Error", yielding(*OPEN)),
    Mistake("no start", f"{GRAMMAR}text_start before start", yielding("yield TextStart(0)")),
    Mistake(
        "dictionaries", f"{GRAMMAR}dict is not an event", yielding("yield Start()", "yield {}")
    ),
    Mistake("texts", f"{GRAMMAR}str is not an event", yielding("yield 'Hello'")),
    Mistake(
        "bytes in a delta",
        f"{GRAMMAR}text_delta whose delta is of type bytes",
        yielding(*OPEN, "yield TextDelta(0, b'x')"),
    ),
    Mistake(
        "an index that is not next",
        f"{GRAMMAR}text_start with content_index 1, expected 0",
        yielding("yield Start()", "yield TextStart(1)"),
    ),
    Mistake(
        "a fault in the middle",
        r'plugin "acme" raised KeyError: .x. \(HERE\)',
        yielding(*OPEN, "{}['x']  # here"),
    ),
    Mistake(
        "a wait that holds the event loop",
        r"(?s)never_blocks: .*time.sleep[^\n]*HERE",
        yielding("yield Start()", "sleep(0.001)  # here", "yield Done(StopReason.STOP)"),
        told_by="never_blocks",
        rows=catalogue("acme").replace('"lines"', '"none"'),
    ),
    # HTTPProvider
    Mistake(
        "no convert",
        r'plugin "acme" raised NotImplementedError: convert\(\) has to be written',
        without(SPOKEN, "convert"),
    ),
    Mistake(
        "no parser",
        r'plugin "acme" raised NotImplementedError: parser\(\) has to be written',
        without(SPOKEN, "parser"),
    ),
    Mistake(
        "a message that is no text",
        r"^\['the', 'end'\]$",
        SPOKEN.replace('"no"', "['the', 'end']"),
    ),
    Mistake(
        "a method that overrides nothing",
        "HERE.*Acme.classify_errors overrides nothing.*classify_error",
        f"{SPOKEN}\n    def classify_errors(self, failure):  # here\n        return None\n",
        told_by="doctor",
    ),
]


def hosted(folder: Path, mistake: Mistake) -> tuple[Host, list[Distribution]]:
    entry = {mistake.group: {"acme": f"{PACKAGE}:Acme"}}
    files = {f"{PACKAGE}/__init__.py": mistake.source, f"{PACKAGE}/models.toml": mistake.rows}
    install(folder, "swink-provider-acme", entry, files)
    found: list[Distribution] = [PathDistribution(path) for path in folder.glob("*.dist-info")]
    points = [
        SimpleNamespace(name=p.name, group=p.group, value=p.value, load=p.load, dist=dist)
        for dist in found
        for p in dist.entry_points
    ]
    return Host(entry_points=points, environ={}), found


async def told_by_the_call(host: Host, model: str) -> str:
    async with Client(host=host, retry=RetryPolicy.none()) as client:
        try:
            async with client.stream(model, "Hello", api_key="test") as stream:
                events = [event async for event in stream]
        except SwinkError as error:
            return str(error)
    assert isinstance(events[-1], Error)
    assert isinstance(events[-1].error_message, str)
    return events[-1].error_message


def told_by_a_check(host: Host, name: str) -> str:
    subject = Subject("acme", host)
    [check] = [check for check in PROVIDER_CHECKS if check.name == name]
    return "\n".join(explain(subject, check, run_check(check, subject)))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    importlib.invalidate_caches()
    return tmp_path


def test_there_are_thirty() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == 30


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_named_with_its_place(mistake: Mistake, site: Path) -> None:
    host, installed = hosted(site, mistake)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of coroutines that nobody awaited
        if mistake.told_by == "the call":
            told = asyncio.run(told_by_the_call(host, mistake.asked))
        elif mistake.told_by == "doctor":
            told = "\n".join(" ".join(finding) for finding in examine(host, installed))
        else:
            told = told_by_a_check(host, mistake.told_by)

    lines = mistake.source.splitlines()
    line = next((n for n, text in enumerate(lines, 1) if text.endswith("# here")), 0)
    words = mistake.words.replace("HERE", rf"{PACKAGE}/__init__\.py:{line}\b")
    assert re.search(words, told), told
