"""The examples work offline: programs as written, the page in a browser."""

from __future__ import annotations

import asyncio
import io
import logging
import re
import runpy
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer
from documents import ROOT

import swink_core as swink
from swink_gateway.serving.server import Gateway
from swink_judge import Judge
from swink_judge.strict import StrictServer
from swink_test_helpers.browser import CHROMIUM, Page, browser
from swink_testing.command_line import clean_environment

EXAMPLES = ROOT / "examples"

PROGRAMS = [
    ("chat.py", "Hello\nAnd you?\n", ["> Hello > And you? >", "took Usage(input=5"]),
    ("chat.py", "\nHello\n \n", ["> > Hello > >", "took Usage(input=1"]),
    ("chat.py echo/fail-quota-exhausted-after-1", "a b\nc d\n", ["> a [", "> c ["]),
    ("tool_loop.py", "y\n", ["-> count(", "<- 12", "on their way", "2 turns"]),
    ("tool_loop.py", "n\n", ["-> order(", "<- The user does not want that.", "2 turns"]),
    ("typed_answers.py", "", ["so far: {'customer': 'One lamp", "Complaint(customer='One lamp"]),
    ("fan_out.py", "", ["echo/slow stop", "echo/flaky stop", "quota-exhausted quota_exhau"]),
    ("fan_out.py ech/echo echo/echo", "", ["ech/echo Unknown prov", "echo/echo stop"]),
    ("observer.py", "", ['"stop", "attempts": 1', '"attempts": 2', '"content_filtered"']),
]


@pytest.mark.parametrize(("typed", "answers", "printed"), PROGRAMS)
def test_a_program_prints_what_it_is_for(
    typed: str,
    answers: str,
    printed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program, *arguments = typed.split()
    monkeypatch.setattr(sys, "argv", [program, *arguments])
    monkeypatch.setattr(sys, "stdin", io.StringIO(answers))
    runpy.run_path(str(EXAMPLES / program), run_name="__main__")
    output = " ".join(capsys.readouterr().out.split())
    assert [text for text in printed if text not in output] == []


NEEDED = {"tools", "structured_output"}

ASKED = [
    ("chat.py", "Hello\nAnd you?\n", r"> Understood\. > Understood\. >"),
    ("tool_loop.py", "", r"Understood\. 1 turns"),
    ("typed_answers.py", "", r"Understood\."),  # which is no value of the type, and said to be none
    ("fan_out.py", "", r" stop \d+\.\d s Understood\."),
    ("observer.py", "", '"outcome": "stop"'),
]


def services() -> Iterator[tuple[str, Any]]:
    """Yield each service for a live run: name, model, the variables of its key and address."""
    catalog = swink.Client().catalog
    for provider in sorted(Judge().providers):
        models = [row for row in catalog.models(provider) if {*row.capabilities} >= NEEDED]
        known = catalog.provider(provider)
        if models and known is not None and known.base_url_env and known.api_key_env:
            yield f"{provider}/{models[0].id}", known


SERVED = [(*service, *asked) for service, asked in zip(services(), cycle(ASKED), strict=False)]


@pytest.mark.parametrize(
    ("model", "known", "program", "answers", "printed"),
    SERVED,
    ids=[f"{program}-{model}" for model, _, program, *_ in SERVED],
)
def test_a_program_sends_a_service_a_request_that_it_accepts(
    model: str,
    known: Any,
    program: str,
    answers: str,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with StrictServer(known.name) as server:
        monkeypatch.setenv(known.base_url_env[0], server.url)
        monkeypatch.setenv(known.api_key_env[0], "sesame")
        monkeypatch.setattr(sys, "argv", [program, model])
        monkeypatch.setattr(sys, "stdin", io.StringIO(answers))
        try:
            runpy.run_path(str(EXAMPLES / program), run_name="__main__")
        except SystemExit as error:
            print(error)
    assert re.search(printed, " ".join(capsys.readouterr().out.split()))
    assert server.asked
    assert (server.refused, server.ignored) == ([], [])
    assert all("sesame" in str(asked.headers) for asked in server.exchanges)


def test_an_interrupt_stops_an_answer_of_the_chat_and_not_the_chat(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "chat.py"), "echo/stall"],
        env=clean_environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as chat:
        assert chat.stdin is not None
        assert chat.stdout is not None
        chat.stdin.write(b"one two\n")
        chat.stdin.flush()
        assert chat.stdout.read(len("> one")) == b"> one"
        chat.send_signal(signal.SIGINT)
        said = b" [stopped]\n> "
        assert chat.stdout.read(len(said)) == said
        rest, _ = chat.communicate()
    assert rest.startswith(b"\ntook")
    assert chat.returncode == 0


def test_on_a_terminal_the_table_is_drawn_over_and_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fan_out.py", "echo/slow", "echo/echo"])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    runpy.run_path(str(EXAMPLES / "fan_out.py"), run_name="__main__")
    first, *others = capsys.readouterr().out.split("\033[2A")
    assert first.count(" waits ") == 2
    assert others[-1].count(" stop ") == 2


def test_the_readme_names_every_example() -> None:
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    named = set(re.findall(r"^\| \[([^]]+)\]\(([^)]+)\)", readme, re.MULTILINE))
    assert all((EXAMPLES / target).exists() for _, target in named)
    programs = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("*.py")}
    programs |= {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("web_page/*.py")}
    packages = {path.parent.name for path in EXAMPLES.glob("*/pyproject.toml")}
    assert {name for name, _ in named} == programs | packages


PACKAGES = [
    ("company_provider", "hooli: consistent: ", "demo hooli --speed 50", "from Hooli!"),
    ("job_provider", "kiln: consistent", "replay --fast {recordings}/hello", "scattering."),
    ("token_provider", "tarn: consistent", "replay --fast {recordings}/hello", "scattering."),
    ("result_provider", "loom: consistent", "replay --fast {recordings}/hello", "scattering."),
]


def run_module(
    *arguments: str, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds the example providers, which pip has installed."""
    folder = tmp_path_factory.mktemp("installed")
    environment = clean_environment(folder)
    pip = ["pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    site = str(folder / "site")
    run_module(
        *(*pip, "--target", site, *(f"./{name}" for name, *_ in PACKAGES)),
        folder=EXAMPLES,
        environment={**environment, "PYTHONWARNINGS": ""},  # pip's own
    )
    return {**environment, "PYTHONPATH": site}


@pytest.mark.heavy
def test_providers_install_and_their_tests_pass(installed: dict[str, str]) -> None:
    """One process runs the tests of all of them: each would import the same libraries."""
    files = [EXAMPLES / name / "pyproject.toml" for name, *_ in PACKAGES]
    projects = [tomllib.loads(file.read_text("utf-8")) for file in files]
    options = [project["tool"]["pytest"]["ini_options"] for project in projects]
    assert options == options[:1] * len(files)  # so that the first file configures all the tests
    folders = [str(file.parent / part) for file in files for part in options[0]["testpaths"]]
    output = run_module(
        *("pytest", "-q", "-p", "no:cacheprovider", "-c", str(files[0])),
        *("--rootdir", str(EXAMPLES), *folders),
        folder=EXAMPLES,
        environment=installed,
    ).stdout
    assert [passed for _, passed, *_ in PACKAGES if passed not in output] == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "command", "shown"), [(name, *others) for name, _, *others in PACKAGES]
)
def test_an_installed_provider_plays_its_recordings(
    name: str, command: str, shown: str, installed: dict[str, str]
) -> None:
    [package] = (EXAMPLES / name / "src").iterdir()
    arguments = command.format(recordings=package / "recordings").split()
    done = run_module("swink_cli", *arguments, folder=EXAMPLES / name, environment=installed)
    assert shown in done.stdout
    problems = ("not recorded", "recorded request", "not asked for")
    assert [word for word in problems if word in done.stderr] == []


@asynccontextmanager
async def on_aiohttp(model: str) -> AsyncIterator[str]:
    app = runpy.run_path(str(EXAMPLES / "web_page/on_aiohttp.py"))["application"](model)
    async with TestServer(app) as server:  # which cancels handlers, as the example's own does
        yield str(server.make_url("/"))


@asynccontextmanager
async def on_starlette(model: str) -> AsyncIterator[str]:
    app = runpy.run_path(str(EXAMPLES / "web_page/on_starlette.py"))["application"](model)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
    listener = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        await serving


class Left(logging.Handler):
    """Hears which models' calls were left by whoever made them."""

    def __init__(self) -> None:
        super().__init__()
        self.models: asyncio.Queue[str] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        if left := re.search(r"(\S+) failed: cancelled", record.getMessage()):
            self.models.put_nowait(left[1])


Serving = Callable[[str], AbstractAsyncContextManager[str]]

ASK = """
new Promise((done) => {
  document.getElementById("question").value = QUESTION;
  const state = document.getElementById("state"), answer = document.getElementById("answer");
  new MutationObserver(() => {
    if (STOP && answer.textContent) document.getElementById("stop").click();
    if (state.textContent) done([answer.textContent, state.textContent]);
  }).observe(document.body, {childList: true, subtree: true});
  document.getElementById("form").requestSubmit();
})
"""


async def ask(page: Page, url: str, question: str, stop: bool = False) -> Any:
    """Return the answer and how it ended, as the page shows them."""
    await page.go(url)
    return await page.run(
        ASK.replace("QUESTION", repr(question)).replace("STOP", str(stop).lower())
    )


@pytest.mark.parametrize("serve", [on_aiohttp, on_starlette])
@pytest.mark.parametrize("query", ["", "?question="])
async def test_an_unsupported_request_is_an_error_of_the_browser(
    serve: Serving, query: str
) -> None:
    async with (
        serve("echo/echo") as url,
        ClientSession() as session,
        session.get(f"{url}answer{query}") as response,
    ):
        assert (response.status, response.content_type) == (400, "text/plain")
        assert "the conversation is empty" in await response.text()


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
async def test_the_page_streams_and_its_stop_button_stops_the_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("DEBUG", "swink_core.streaming.observers")
    log = logging.getLogger("swink_core.streaming.observers")
    async with browser(tmp_path) as page, swink.Client() as beyond, Gateway(beyond) as upstream:
        monkeypatch.setenv("SWINK_PROXY_URL", upstream.url)
        for serve in (on_aiohttp, on_starlette):
            log.addHandler(left := Left())
            try:
                async with serve("proxy/echo/slow") as url:
                    assert await ask(page, url, "one two") == ["one two", "stop"]
                    assert left.models.empty()
                    said, state = await ask(page, url, "a " * 1000, stop=True)
                    assert state == "stopped"
                    assert 0 < len(said) < 1000
                    both = {await left.models.get(), await left.models.get()}
                    assert both == {"proxy/echo/slow", "echo/slow"}
                async with serve("echo/fail-quota-exhausted-after-1") as url:
                    said, state = await ask(page, url, "one two")
                    assert said == "one"
                    assert "quota" in state
            finally:
                log.removeHandler(left)
