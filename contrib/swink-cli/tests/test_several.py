"""One question to several models; the code in an answer; the clipboard."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
from chat_service import ChatService, HTTPError
from screen import seen

import swink_core as library
from swink_cli.extraction import code_in, copy_text

PROMPT = ">\x1b[0m "


def test_answers_are_blocks_in_the_order_of_the_models(swink: Any) -> None:
    slow = ("-o", "settings.script.delay=0.05")
    done = swink("ask", "-m", "echo/think", "-m", "echo/echo", *slow, "one two")
    assert (done.returncode, done.stdout) == (
        0, "## echo/think\n\none two\n\n## echo/echo\n\none two\n\n",
    )  # fmt: skip
    assert done.stderr.count(" tokens in, ") == 2
    kept = swink("log", "conversations").stdout
    assert (kept.count("echo/think"), kept.count("echo/echo")) == (1, 1)


def test_a_failed_model_does_not_affect_the_others(swink: Any) -> None:
    done = swink(
        "ask", "-m", "echo/fail-auth", "-m", "echo/fail-auth,echo/echo", "-m", "echo/echo", "Hi"
    )
    assert (done.returncode, done.stdout) == (
        1, "## echo/fail-auth\n\n## echo/fail-auth, echo/echo\n\n## echo/echo\n\nHi\n\n",
    )  # fmt: skip
    assert "does not accept the credentials" in done.stderr


def test_a_key_stays_with_the_provider_it_was_given_for(swink: Any) -> None:
    with ChatService(["one"]) as first, ChatService(["two"]) as second:
        given = ("--base-url", first.base_url, "--api-key", "sk-canary-0123456789")
        there = {"GROQ_BASE_URL": second.base_url, "GROQ_API_KEY": "gsk-canary-9876543210"}
        done = swink("ask", "-m", "openai/any", "-m", "groq/other", *given, "Hi", **there)
    assert done.returncode == 0
    assert second.exchanges[0].headers["authorization"] == "Bearer gsk-canary-9876543210"


def test_an_error_of_one_model_is_shown_in_its_row(start: Any) -> None:
    with ChatService(HTTPError(400, "\x1b]0;title\x07bad\nquestion")) as service:
        there = ("--base-url", service.base_url, "--api-key", "sk-canary-0123456789")
        models = ("-m", "openai/any", "-m", "echo/stall")
        running = start("ask", *models, *there, "alpha", size=(80, 24))
        running.wait_for("bad question")
        running.interrupt()
        assert running.finish() == 130
    assert b"\x1b]" not in running.output


def test_a_terminal_shows_a_table_and_then_the_answers(start: Any) -> None:
    models = ("-m", "echo/echo", "-m", "echo/stall")
    running = start("ask", *models, "alpha beta", size=(80, 24))
    running.wait_for("alpha")
    screen = seen(running.output)
    assert any(line.startswith("echo/echo") and "alpha" in line for line in screen), screen
    assert any(line.startswith("echo/stall") for line in screen), screen
    running.interrupt()
    assert running.finish() == 130
    assert any(line == "echo/echo" for line in seen(running.output))


@pytest.mark.parametrize("more", [["--copy"], ["-y", "--functions", "def f(): ..."]])
def test_options_for_a_single_answer_are_refused(swink: Any, more: list[str]) -> None:
    done = swink("ask", "-m", "echo/echo", "-m", "echo/think", *more, "Hi")
    assert (done.returncode, "-m A,B" in done.stderr) == (2, True)


def test_a_chat_is_with_one_model(swink: Any) -> None:
    done = swink("chat", "-m", "echo/echo", "-m", "echo/think", stdin="Hi\n")
    assert (done.returncode, "-m A,B" in done.stderr) == (2, True)


# -- code, and the clipboard ---------------------------------------------------------------------

ANSWERS = [
    ("a block", "Here:\n\n```python\nprint(1)\n```\nDone.", "print(1)\n"),
    ("the first of two", "```\n1\n```\n```\n2\n```", "1\n"),
    ("tildes, and a fence within", "~~~~\n```\n1\n~~~~", "```\n1\n"),
    ("one in a list", "- do\n\n  ```\n  1\n  ```", "1\n"),
    ("one that is not closed", "```sh\nls", "ls"),
    ("none", "`code` in a line", None),
]


@pytest.mark.parametrize(
    ("answer", "code"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS]
)
def test_the_first_code_block_is_found(answer: str, code: str | None) -> None:
    assert code_in(answer) == code


def test_code_alone_is_written(swink: Any) -> None:
    assert swink("ask", "-m", "echo/echo", "-x", "See:\n```\nls\n```").stdout == "ls\n"
    done = swink("ask", "-m", "echo/echo", "-x", "no code")
    assert (done.stdout, "the answer has no code block" in done.stderr) == ("no code\n", True)


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clipboard's tool that keeps what it is given, and the file that it keeps it in."""
    kept = tmp_path / "kept"
    program = tmp_path / "bin" / "xsel"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {kept}; cat >> {kept}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return kept


def test_a_clipboard_tool_copies(tool: Path) -> None:
    assert copy_text("Grüße", {"DISPLAY": ":0"}) == "xsel"
    assert tool.read_text() == "--clipboard --input\nGrüße"
    with pytest.raises(library.SwinkError, match="no clipboard"):
        copy_text("Hi", {})  # a tool without a display, and no terminal


def test_an_answer_that_cannot_be_copied_has_failed(swink: Any) -> None:
    done = swink("ask", "-m", "echo/echo", "--copy", "Hi", PATH="/nowhere")
    assert (done.returncode, done.stdout) == (1, "Hi\n")
    assert "Error: Nothing was copied" in done.stderr


def test_the_output_is_copied(swink: Any, tool: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "DISPLAY": ":0"}
    done = swink("ask", "-m", "echo/echo", "-x", "--copy", "```\nls\n```", **environment)
    assert (done.returncode, "copied by xsel" in done.stderr) == (0, True)
    assert tool.read_text().endswith("\nls\n")


def test_a_chat_counts_copies_and_opens_an_editor(start: Any, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "from the editor" >> "$1"\n')
    editor.chmod(0o755)
    variables = {"EDITOR": str(editor), "PATH": "/usr/bin:/bin", "SSH_TTY": "/dev/pts/0"}
    running = start("chat", "-m", "echo/echo", size=(80, 24), **variables)
    running.wait_for(PROMPT)
    running.type("one two\n")
    running.wait_for("so far: 2 tokens in, 2 out · $0")
    running.wait_for(PROMPT)
    running.type("/copy\n")
    running.wait_for("\x1b]52;c;" + base64.b64encode(b"one two").decode())
    running.wait_for(PROMPT)
    running.type("/edit\n")
    running.wait_for("from the editor")
    running.wait_for("so far: ")
    running.wait_for(PROMPT)
    running.type("/tokens\n")
    running.wait_for("4 messages · ")
    running.wait_for("the next question begins at ")
    running.wait_for(PROMPT)
    running.type("\x04")
    assert running.finish() == 0
