"""Completion inside the calls of every entry point, by pyright's server and by Jedi."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jedi
import pytest

import swink
import swink_core
from swink.client import RunOptions
from swink_core import ClientOptions, Options
from swink_core.providers import OPTIONS as TABLE
from swink_core.providers import TargetOptions

PROGRAM = """
import swink
import swink_core
core, client, sync = swink_core.Client(), swink.Client(), swink.SyncClient()
tools, prompts = [len], ["Hi"]
"""

OPTIONS = {*Options.__annotations__}
TYPED = {*OPTIONS, "type"}
RUN = {*RunOptions.__annotations__, "max_turns", "approve"}
BATCH = {*OPTIONS, "limit", "on_progress"}

# (a call, up to where its next argument is written; what is offered there)
# A list stands in a variable: after `]` pyright offers nothing, of no function's.
OFFERED: list[tuple[str, set[str]]] = [
    ("swink_core.Client(", {*ClientOptions.__annotations__, "providers", "plugins"}),
    ('core.target("a/b", ', {*TargetOptions.__annotations__}),
    ('core.stream("a/b", "Hi", ', OPTIONS),
    ('core.complete("a/b", "Hi", ', OPTIONS),
    ('swink_core.stream("a/b", "Hi", ', OPTIONS),
    ('swink_core.complete("a/b", "Hi", ', OPTIONS),
    ('swink_core.complete_sync("a/b", "Hi", ', OPTIONS),
    ("swink.Client(", {*ClientOptions.__annotations__, "providers", "plugins"}),
    ("swink.SyncClient(", {*ClientOptions.__annotations__}),
    ('client.stream("a/b", "Hi", ', OPTIONS),
    ('client.stream_answer("a/b", "Hi", ', TYPED),
    ('client.complete("a/b", "Hi", ', OPTIONS),
    ('client.answer("a/b", "Hi", ', TYPED),
    ('client.answer("a/b", "Hi", type=int, ', OPTIONS),
    ('client.run("a/b", "Hi", tools=tools, ', RUN),
    ('client.gather("a/b", prompts, ', BATCH),
    ('client.gather_answers("a/b", prompts, ', {*BATCH, "type"}),
    ('sync.stream("a/b", "Hi", ', OPTIONS),
    ('sync.stream_answer("a/b", "Hi", ', TYPED),
    ('sync.complete("a/b", "Hi", ', OPTIONS),
    ('sync.answer("a/b", "Hi", ', TYPED),
    ('sync.run("a/b", "Hi", tools=tools, ', RUN),
    ('sync.gather("a/b", prompts, ', BATCH),
    ('sync.gather_answers("a/b", prompts, ', {*BATCH, "type"}),
    ('swink.stream("a/b", "Hi", ', OPTIONS),
    ('swink.stream_answer("a/b", "Hi", ', TYPED),
    ('swink.complete("a/b", "Hi", ', OPTIONS),
    ('swink.answer("a/b", "Hi", ', TYPED),
    ('swink.complete_sync("a/b", "Hi", ', OPTIONS),
    ('swink.answer_sync("a/b", "Hi", ', TYPED),
    ('swink.gather("a/b", prompts, ', BATCH),
    ('swink.gather_answers("a/b", prompts, ', {*BATCH, "type"}),
]

OFFERED_BY_PYRIGHT = [
    *OFFERED,
    ("@swink.tool(", {"name", "description", "timeout", "strict"}),
    ('client.stream(("a/b", {"', {*ClientOptions.__annotations__, "api_key", "base_url"}),
]


class Server:
    """A language server, spoken to in the way of editors."""

    def __init__(self, folder: Path) -> None:
        settings = {"venvPath": str(Path(sys.prefix).parent), "venv": Path(sys.prefix).name}
        (folder / "pyrightconfig.json").write_text(json.dumps(settings))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pyright.langserver", "--stdio"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._count = 0
        root = folder.as_uri()
        self.ask("initialize", processId=None, rootUri=root, capabilities={},
                 workspaceFolders=[{"uri": root, "name": folder.name}])  # fmt: skip
        self.tell("initialized")

    def _write(self, **message: Any) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name == b"Content-Length" else length
        return dict(json.loads(self._process.stdout.read(length)))

    def tell(self, method: str, **params: Any) -> None:
        self._write(method=method, params=params)

    def ask(self, method: str, **params: Any) -> Any:
        self._count += 1
        self._write(id=self._count, method=method, params=params)
        while True:
            message = self._read()
            if "method" not in message and message["id"] == self._count:
                return message["result"]
            if "id" in message:  # the server asks: nothing is configured, nothing is refused
                self._write(id=message["id"], result=None)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    server = Server(tmp_path_factory.mktemp("project"))
    yield server
    server.close()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("call", "offered"), OFFERED_BY_PYRIGHT, ids=[call for call, _ in OFFERED_BY_PYRIGHT]
)
def test_an_editor_completes_the_options_of_every_entry_point(
    server: Server, call: str, offered: set[str], tmp_path: Path
) -> None:
    text = PROGRAM + call
    document = {"uri": (tmp_path / "program.py").as_uri()}
    server.tell(
        "textDocument/didOpen",
        textDocument={**document, "languageId": "python", "version": 1, "text": text},
    )
    where = {"line": text.count("\n"), "character": len(call)}
    found = server.ask("textDocument/completion", textDocument=document, position=where)
    labels = [item["label"] for item in found["items"]]
    named = {label.strip('"=') for label in labels if label[-1:] in '"='}  # keywords, and keys
    assert offered - named == set()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    cache = jedi.settings.cache_directory
    jedi.settings.cache_directory = str(tmp_path_factory.mktemp("jedi"))
    yield jedi.InterpreterEnvironment()
    jedi.settings.cache_directory = cache


@pytest.mark.heavy
@pytest.mark.parametrize(("call", "offered"), OFFERED, ids=[call for call, _ in OFFERED])
def test_jedi_completes_the_options_of_every_entry_point_in_a_script(
    environment: Any, call: str, offered: set[str]
) -> None:
    text = PROGRAM + call
    script = jedi.Script(text, environment=environment)
    found = script.complete(text.count("\n") + 1, len(call))
    named = {each.name.removesuffix("=") for each in found if each.name.endswith("=")}
    assert offered - named == set()
    assert (named & TABLE.keys()) - offered <= {"tools"}


# (a function, the parameters that its signature names beside a conversation)
SIGNATURES: list[tuple[Callable[..., Any], set[str]]] = [
    (swink_core.Client, {*ClientOptions.__annotations__, "providers", "plugins"}),
    (swink_core.Client.stream, {*Options.__annotations__}),
    (swink_core.Client.complete, {*Options.__annotations__}),
    (swink_core.stream, {*Options.__annotations__}),
    (swink_core.complete, {*Options.__annotations__}),
    (swink_core.complete_sync, {*Options.__annotations__}),
    (swink.Client, {*ClientOptions.__annotations__, "providers", "plugins"}),
    (swink.SyncClient, {*ClientOptions.__annotations__, "providers", "plugins"}),
    *(
        (getattr(client, name), named)
        for client in (swink.Client, swink.SyncClient)
        for name, named in (
            ("stream", OPTIONS),
            ("stream_answer", TYPED),
            ("complete", OPTIONS),
            ("answer", TYPED),
            ("run", {*RUN, "tools"}),
            ("gather", BATCH),
            ("gather_answers", {*BATCH, "type"}),
        )
    ),
    (swink.stream, OPTIONS),
    (swink.stream_answer, TYPED),
    (swink.complete, OPTIONS),
    (swink.answer, TYPED),
    (swink.complete_sync, OPTIONS),
    (swink.answer_sync, TYPED),
    (swink.gather, BATCH),
    (swink.gather_answers, {*BATCH, "type"}),
]


@pytest.mark.parametrize(
    ("function", "named"), SIGNATURES, ids=[each.__qualname__ for each, _ in SIGNATURES]
)
def test_a_signature_names_every_option(function: Callable[..., Any], named: set[str]) -> None:
    parameters = inspect.signature(function).parameters
    assert named - {*parameters} == set()
    assert not [p for p in parameters.values() if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    for name in parameters.keys() & TABLE.keys() - {"tools"}:
        assert parameters[name].annotation == TABLE[name].type


def test_a_signature_shows_defaults() -> None:
    gather = inspect.signature(swink.gather).parameters
    assert gather["limit"].default == 10
    assert inspect.signature(swink.Client.run).parameters["max_turns"].default == 10
    assert gather["max_output_chars"].default == swink.StreamOptions().max_output_chars
    assert gather["temperature"].default is None
