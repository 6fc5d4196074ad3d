"""The programs of the pages of moving to swink, in pairs: each pair prints the same.

All of them ask one gateway on loopback, whose models are `swink-provider-echo`'s: it speaks
OpenAI's and Anthropic's protocols, and its address is in the environment, where each vendor's SDK
looks.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from documents import COMPARED, MOVING, ROOT, programs_by_library, programs_of

import swink_core as swink
from swink_core.vocabulary.habits import HABITS
from swink_gateway.serving.server import Gateway
from swink_testing.command_line import clean_environment

ROUTES = {
    "gpt-5.4-mini": ["echo/echo"],  # repeats what it is told, or makes JSON if asked for it
    "claude-haiku-4-5": ["echo/echo"],
    "gpt-6-sol": ["echo/tool"],  # calls what is on offer
    "claude-sonnet-5-5": ["echo/tool"],
    # the first model of a fallback; nobody waits to ask it again
    "gpt-4o": ["echo/fail-quota-exhausted"],
}

HERE = {"openai", "anthropic"}
"""Whose SDKs are among the tools for development."""

SUBJECTS = ["First answer", "Streaming", "A tool", "A typed answer", "When it fails", "Async"]


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    """Serve in a thread, and give the address."""
    address: list[str] = []
    listening, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with swink.Client() as client, Gateway(client, routes=ROUTES) as served:
            address.append(served.url)
            listening.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    listening.wait(60)
    yield address[0]
    over.set()
    thread.join()


def run(python: str, programs: list[str], gateway: str, home: Path) -> list[str]:
    """Return the output of each program."""
    keys = {"OPENAI_API_KEY": "test", "ANTHROPIC_API_KEY": "test"}
    urls = {"OPENAI_BASE_URL": f"{gateway}/v1", "ANTHROPIC_BASE_URL": gateway}
    done = subprocess.run(
        [python, str(ROOT / "tests/support/run_programs.py")],
        input=json.dumps(programs),
        env={**clean_environment(home), **keys, **urls},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said: list[str] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.fixture(scope="module")
def ours(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, list[str]]:
    """Return the output of swink's programs, by page."""
    home = tmp_path_factory.mktemp("swink")
    programs = {page: [pair[1] for pair in programs_of(page).values()] for page in MOVING}
    flat = run(sys.executable, [one for each in programs.values() for one in each], gateway, home)
    said = iter(flat)
    return {page: [next(said) for _ in each] for page, each in programs.items()}


@pytest.mark.heavy
@pytest.mark.parametrize("page", MOVING, ids=lambda page: page.stem.removeprefix("move-from-"))
def test_both_programs_of_a_pair_print_the_same(
    page: Path, gateway: str, ours: dict[Path, list[str]], tmp_path: Path
) -> None:
    pairs = programs_of(page)
    assert [subject for subject in SUBJECTS if subject not in pairs] == []
    peer = page.stem.removeprefix("move-from-")
    python = sys.executable if peer in HERE else str(ROOT / ".venv-peers" / peer / "bin" / "python")
    printed = dict(zip(pairs, ours[page], strict=True))
    failed = [said for said in printed.values() if "Traceback" in said or not said.strip()]
    assert failed == []
    if not Path(python).exists():
        pytest.skip(f"{peer} is not installed; `make moving` installs it")
    theirs = run(python, [old for old, _ in pairs.values()], gateway, tmp_path)
    assert dict(zip(pairs, theirs, strict=True)) == printed


LIBRARIES = ("swink", "pydantic-ai", "llm", "openai")


@pytest.fixture(scope="module")
def compared(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The output of swink's programs on the page that compares libraries, by section."""
    programs = [each["swink"] for each in programs_by_library(COMPARED).values()]
    return run(sys.executable, programs, gateway, tmp_path_factory.mktemp("compared"))


@pytest.mark.heavy
@pytest.mark.parametrize("library", LIBRARIES[1:])
def test_the_compared_programs_print_the_same(
    library: str, gateway: str, compared: list[str], tmp_path: Path
) -> None:
    assert [said for said in compared if "Traceback" in said or not said.strip()] == []
    own = ROOT / ".venv-peers" / library / "bin" / "python"
    python = sys.executable if library in HERE else str(own)
    if not Path(python).exists():
        pytest.skip(f"{library} is not installed; `make moving` installs it")
    programs = [each[library] for each in programs_by_library(COMPARED).values()]
    assert run(python, programs, gateway, tmp_path) == compared


def lines_of(program: str) -> int:
    """Count the lines of a program, without blank ones."""
    return sum(bool(line.strip()) for line in program.splitlines())


def test_the_table_of_compared_programs_has_their_lines() -> None:
    counts = {
        title: [lines_of(programs[name]) for name in LIBRARIES]
        for title, programs in programs_by_library(COMPARED).items()
    }
    counts["All"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    rows = re.findall(
        r"^\| \[?([^|\]]+?)(?:\]\([^)]*\))? \|((?: \d+ \|)+)$", COMPARED.read_text("utf-8"), re.M
    )
    assert {title: [*map(int, re.findall(r"\d+", row))] for title, row in rows} == counts


# (page, options of the library that its table must show)
SHOWN: dict[str, set[str]] = {
    "openai": {
        "max_completion_tokens", "max_output_tokens", "reasoning_effort", "reasoning",
        "instructions", "extra_body", "extra_headers", "n", "max_retries", "logprobs",
    },
    "anthropic": {"system", "stop_sequences", "extra_body", "extra_headers", "max_retries"},
    "litellm": {
        "api_base", "max_completion_tokens", "reasoning_effort", "num_retries", "extra_body",
        "extra_headers", "mock_response", "fallbacks", "n",
    },
    "langchain": {"stop_sequences", "max_tokens_to_sample", "max_retries"},
    "llm": {"system", "attachments", "schema"},
}  # fmt: skip


@pytest.mark.parametrize("page", MOVING, ids=lambda page: page.stem.removeprefix("move-from-"))
def test_a_page_shows_the_options_that_are_understood_or_answered(page: Path) -> None:
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", page.read_text("utf-8"), re.MULTILINE)
    shown = {}
    for theirs, ours in rows:
        for name in re.findall(r"`(\w+)(?==|`)", theirs):
            if name in HABITS:
                shown[name] = ours
    assert SHOWN[page.stem.removeprefix("move-from-")] <= shown.keys()
    assert {
        name: ours
        for name, ours in shown.items()
        if (option := HABITS[name].option) is not None and f"`{option}" not in ours
    } == {}
