"""Each program of the READMEs and of every documentation page runs alone, without a vendor.

Python blocks run as written, and are checked by mypy in strict mode. Providers on a page are local
strict servers: their addresses and keys are in the environment, as a reader's would be.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from documents import (
    COMPARED,
    MOVING,
    PAGES,
    ROOT,
    name_of,
    programs_of,
    python_blocks,
    python_programs,
    vendors,
)
from hypothesis import given
from hypothesis import strategies as st

import swink_core as swink
from swink_gateway.policy.config import Source
from swink_gateway.policy.routing import usable
from swink_gateway.protocols.table import PROTOCOLS

RUNNABLE = [page for page in PAGES if page not in (*MOVING, COMPARED) and python_blocks(page)]


def module_of(title: str) -> str:
    """Return the name of the module that a file of a page is: `a.b` for `src/a/b.py`."""
    packaged = re.fullmatch(r"src/(.+)\.py", title)
    return packaged[1].replace("/", ".") if packaged else "documentation_page"


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_each_program_of_a_page_runs_alone_and_the_page_prints_something(
    page: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)  # where pages write their files
    programs = python_programs(page)
    environment: dict[str, str] = {}
    with vendors("".join(programs.values()), environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        for title, source in programs.items():
            module = ModuleType(module_of(title))
            monkeypatch.setitem(sys.modules, module.__name__, module)  # classes look it up
            exec(compile(source, str(page), "exec"), module.__dict__)
    assert capsys.readouterr().out.strip()


@pytest.mark.heavy
def test_mypy_finds_nothing_in_the_blocks_of_the_pages_and_in_the_examples(tmp_path: Path) -> None:
    for page in RUNNABLE:
        name = re.sub(r"\W", "_", name_of(page).removesuffix(".md"))
        programs = python_programs(page)
        packaged = {title for title in programs if title.startswith("src/")}
        for title in packaged:
            file = tmp_path / title.removeprefix("src/")
            file.parent.mkdir()
            file.write_text(programs.pop(title), "utf-8")
        (tmp_path / f"{name}.py").write_text("\n".join(programs.values()), "utf-8")
    for page in MOVING:
        for number, (_, program) in enumerate(programs_of(page).values()):
            name = f"{page.stem.replace('-', '_')}_{number}"
            (tmp_path / f"{name}.py").write_text(program, "utf-8")
    quiet = ["--strict", "--follow-imports=silent", "--disable-error-code=no-redef"]
    quiet.append("--explicit-package-bases")  # files of packages stand beside the pages
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'docs'}"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *quiet, cache, ".", str(ROOT / "examples")],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("Success"), done.stdout + done.stderr


FRONT_PAGE = {"swink", "swink_cli", "swink_core", "swink_recorder"}
"""Our modules that the front page's install line brings."""

BROUGHT = {"aiohttp", "attrs", "click", "msgspec"}
"""What these need."""

BROUGHT_BY = {
    "opentelemetry": "swink-observer-otel",
    "prometheus_client": "swink-observer-prometheus",
}
"""Names of packages that differ from their module."""


@pytest.mark.parametrize("page", [p for p in RUNNABLE if ROOT / "docs" in p.parents], ids=name_of)
def test_a_page_says_what_to_install_for_its_programs(page: Path) -> None:
    blocks = "".join(python_blocks(page))
    named = set(re.findall(r"^(?:from|import) (\w+)", blocks, re.MULTILINE))
    written = {module_of(title).partition(".")[0] for title in python_programs(page)}
    beside = named - written - FRONT_PAGE - BROUGHT - sys.stdlib_module_names
    said = " ".join(re.findall(r"pip install (.*)", page.read_text("utf-8")))
    assert [n for n in beside if BROUGHT_BY.get(n, n).replace("_", "-") not in said] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{name_of(page)} -> {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def rows(page: Path) -> dict[str, list[str]]:
    """Return the rows of a page's tables of faults, without marks, by their first cells."""
    lines = [line for line in page.read_text("utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip(" *`✓✗") for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: [re.split(",| of ", cell)[0] for cell in row[1:]] for row in cells}


FAULTS = (
    "the stream ends in the middle, cleanly",
    "the body is shorter than its `Content-Length",
    "the server sends only keep-alive comments, forever",
)


def test_the_readme_says_of_faults_what_the_scoreboard_says() -> None:
    board = {
        name: row[1:] for name, row in rows(ROOT / "docs/reference/fault-scoreboard.md").items()
    }
    said = rows(ROOT / "README.md")
    assert said.pop(f"faults handled correctly, of {len(board) - 3}") == board[""]
    assert {name: said[name] for name in FAULTS} == {name: board[name] for name in FAULTS}
    index = (ROOT / "docs/index.md").read_text("utf-8")
    assert f"a server that produces {board[''][0]} kinds" in " ".join(index.split())


GATEWAYS_FILES = [
    text
    for page in ("run-a-teams-gateway.md", "gateway-budgets.md")
    for text in re.findall(
        r"^```toml\n(.*?)^```",
        (ROOT / "docs" / "how-to" / page).read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    )
]


@pytest.mark.parametrize("text", GATEWAYS_FILES)
async def test_a_gateway_would_take_the_files_that_its_pages_show(text: str) -> None:
    known = {name: f"value-of-{name}" for name in re.findall(r"\$\{(\w+)\}", text)}
    routes = "" if "[routes.best]" in text else '[routes.best]\ntiers = "echo/echo"\n'
    async with swink.Client() as client:
        usable(client, Source("the page", text + routes), known)


def test_models_that_pages_name_are_not_about_to_retire() -> None:
    providers = "|".join(swink.Host(environ={}).provider_names())
    named = re.compile(rf"\b({providers})/([\w./:@-]*\w)")
    catalog, known, retiring = swink.Client().catalog, set(), []
    for page in PAGES:
        for provider, model in named.findall(page.read_text("utf-8")):
            info = catalog.model(provider, model)
            if info is not None:
                known.add(model)
                retiring += [f"{name_of(page)}: {model}"] * (info.status != "active")
    assert retiring == []
    assert len(known) > 20


def pages_of(nav: list[Any]) -> Iterator[str]:
    """Yield the pages of a navigation, section by section."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for entries in entry.values():
                yield from pages_of(entries)


TABLES = {
    "explanation/command-lines-compared.md",
    "explanation/programs-compared.md",
    "reference/benchmarks.md",
    "reference/fault-scoreboard.md",
    "reference/providers.md",
    "reference/real-clients.md",
    "reference/requests-under-the-judge.md",
    "reference/what-the-gateway-carries.md",
}
"""Large tables, which other pages link to, and which are not in the navigation."""


def test_every_page_but_tables_and_those_of_one_provider_is_in_the_navigation_once() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    listed = list(pages_of(site["project"]["nav"]))
    folder = ROOT / site["project"]["docs_dir"]
    written = {page.relative_to(folder).as_posix() for page in folder.rglob("*.md")}
    unlisted = TABLES | {
        page for page in written if re.match("providers/", page) and page != "providers/index.md"
    }
    assert sorted(listed) == sorted(written - unlisted)
    linked = {
        (page.parent / target).resolve()
        for page in folder.rglob("*.md")
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8"))
    }
    assert [page for page in unlisted if (folder / page).resolve() not in linked] == []


def test_at_most_sixty_pages_are_written_by_hand() -> None:
    generated = re.compile("^<!-- Generated by", re.MULTILINE)
    pages = (ROOT / "docs").rglob("*.md")
    written = [name_of(p) for p in pages if not generated.search(p.read_text("utf-8"))]
    assert len(written) <= 60


async def test_the_endpoint_of_the_page_stops_when_the_browser_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "swink_core.streaming.observers")
    page: dict[str, Any] = {"__name__": "page"}
    source = python_blocks(ROOT / "docs/how-to/web-endpoint.md")[0]
    exec(source.replace('"echo/echo"', '"echo/stall"'), page)
    app, said = page["app"], asyncio.Event()

    async def receive() -> dict[str, Any]:
        await said.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message.get("body"):
            said.set()

    scope = {"type": "http", "asgi": {"version": "3.0"}, "method": "GET", "path": "/ask"}
    scope |= {"query_string": b"q=Why+is+it", "headers": [], "app": app}
    async with app.router.lifespan_context(app):
        await app(scope, receive, send)
        assert "cancelled: closed by the caller" in caplog.text


def test_the_pages_of_the_gateway_show_every_protocol() -> None:
    addresses = (ROOT / "docs" / "reference" / "gateway.md").read_text("utf-8")
    guide = (ROOT / "docs" / "how-to" / "run-the-gateway.md").read_text("utf-8")
    for row in PROTOCOLS.values():
        assert row.setup is None or f"export {row.setup.address}=" in guide, row.name
        for endpoint in row.endpoints:
            path = endpoint.path.replace("{version:v1|v1beta}", "{v1,v1beta}")
            start = path.replace("{model:.+}", "MODEL").partition("{method:")[0]
            assert start in addresses, endpoint.path


@pytest.mark.parametrize("limit", [("--max-total-tokens", "1"), ("--max-requests", "0")])
def test_the_command_of_the_page_obeys_limits(limit: tuple[str, str]) -> None:
    page: dict[str, Any] = {"__name__": "page"}
    program = python_programs(ROOT / "docs/how-to/add-a-command.md")["count.py"]
    exec(program.partition("command.main(")[0], page)
    with pytest.raises(swink.LimitReached, match="limit"):
        page["command"].main(["-m", "echo/echo", *limit, "One two"], standalone_mode=False)


SECRETS = st.lists(st.sampled_from(["sk-1234567", "sk-", "s", "k-12", "sk-sk-abcdef", " ", "word"]))
CUTS = st.lists(st.integers(0, 40), max_size=12)


@given(SECRETS, CUTS, st.booleans())
def test_the_redactor_of_the_page_finds_a_key_wherever_deltas_cut_it(
    words: list[str], cuts: list[int], is_tool_call: bool
) -> None:
    page = _redactors()
    said = "".join(words)
    places = sorted({0, len(said), *(cut for cut in cuts if cut < len(said))})
    deltas = [said[start:end] for start, end in pairwise(places)]
    start, delta, end = (
        (swink.ToolCallStart(0, "c1", "look"), swink.ToolCallDelta, swink.ToolCallEnd(0))
        if is_tool_call
        else (swink.TextStart(0), swink.TextDelta, swink.TextEnd(0))
    )
    events = [swink.Start(), start, *(delta(0, piece) for piece in deltas), end]
    events.append(swink.Done(swink.StopReason.STOP))

    async def come() -> AsyncIterator[swink.AssistantMessageEvent]:
        for event in events:
            yield event

    async def redacted() -> list[Any]:
        return [event async for event in page["AnswerRedactor"]()._redacted(come())]

    found = asyncio.run(redacted())
    assert "".join(e.delta for e in found if isinstance(e, delta)) == page["without_secrets"](said)
    assert [e for e in found if not isinstance(e, delta)] == [
        event for event in events if not isinstance(event, delta)
    ]
    assert [type(event) for event in found[-2:]] == [type(end), swink.Done]


@pytest.mark.parametrize("after", ["Ab1" * 16, "proj-" + "Ab1_" * 30, "ant-api03-" + "Ab1-" * 25])
def test_the_redactor_of_the_page_finds_keys_of_every_form(after: str) -> None:
    assert _redactors()["without_secrets"](f"Use sk-{after}, please.") == "Use [secret], please."


@given(st.text("sk-12", max_size=300))
def test_the_redactor_of_the_page_holds_back_no_more_than_a_key_has(text: str) -> None:
    page = _redactors()
    said, held = page["ready"](text)
    assert len(held) < page["LONGEST"]
    assert said + page["without_secrets"](held) == page["without_secrets"](text)


@cache
def _redactors() -> dict[str, Any]:
    page: dict[str, Any] = {"__name__": "page", "swink": swink, "asyncio": asyncio}
    for block in python_blocks(ROOT / "docs/how-to/observe.md")[1:]:
        exec(block.partition("asyncio.run(")[0], page)
    return page
