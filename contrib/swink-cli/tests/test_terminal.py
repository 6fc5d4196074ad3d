"""Answers as a user sees them on a terminal."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from chat_service import CUT, ChatService, Gate
from screen import seen

from swink_cli import terminal

KEY = "sk-canary-0123456789"
TERMINAL = (60, 20)

MARKDOWN = """# Title

Some *words* that are **strong**.

- one
- two

```python
print(1)
```

Last."""


def to(service: ChatService, *more: str) -> tuple[str, ...]:
    """The arguments that ask a service of the Chat Completions shape."""
    return ("ask", "-m", "openai/any", "--base-url", service.base_url, "--api-key", KEY, *more)


def shown(running: Any) -> list[str]:
    """The lines that are left at the end, without blanks around them."""
    return [line.strip() for line in seen(running.output, TERMINAL[0])]


def test_markdown_is_rendered_while_it_comes(start: Any) -> None:
    gates = [Gate() for _ in range(3)]
    first, second, third = MARKDOWN[:30], MARKDOWN[30:70], MARKDOWN[70:]
    with ChatService([first, gates[0], second, gates[1], third, gates[2]]) as service:
        running = start(*to(service, "Hi"), size=TERMINAL)
        running.wait_for("Some")
        gates[0].open()
        running.wait_for("two")
        gates[1].open()
        running.wait_for("Last.")
        gates[2].open()
        assert running.finish() == 0
    lines = shown(running)
    end = lines.index("Last.") + 1
    assert lines[:end] == [
        "Title", "", "Some words that are strong.", "", "• one", "• two", "",
        "```python", "print(1)", "", "Last.",
    ]  # fmt: skip
    assert lines[end + 1].startswith("openai/any (any-2) · 3 tokens in, 5 out")


def test_visible_text_never_disappears_temporarily(start: Any) -> None:
    """The terminal's content between two changes; within one, it shows the earlier content."""
    gates = [Gate() for _ in range(4)]
    steps = ["# One\n\ntwo", "\n\n- three\n", "- four\n\n", "```\nfive\n```\n\nsix"]
    words = ["One", "two", "three", "four", "five", "six"]
    with ChatService([part for pair in zip(steps, gates, strict=True) for part in pair]) as service:
        running = start(*to(service, "Hi"), size=TERMINAL)
        for gate, word in zip(gates, ("two", "three", "four", "six"), strict=True):
            running.wait_for(word)
            gate.open()
        assert running.finish() == 0
    changes = running.output.split(b"\x1b[?2026l")
    moments = [b"".join(changes[: end + 1]) for end in range(len(changes))]
    shown_at = [[word in " ".join(seen(moment)) for word in words] for moment in moments]
    for before, after in pairwise(shown_at):
        assert all(now for was, now in zip(before, after, strict=True) if was)
    outside = b"".join(change.partition(b"\x1b[?2026h")[0] for change in changes[1:])
    assert b"\x1b[2K" not in outside  # nothing is wiped but as a part of a change


def test_each_line_of_a_long_answer_is_left_once(start: Any) -> None:
    paragraphs = [f"Paragraph {number}.\n\n" for number in range(40)]
    items = [f"- item {number}\n" for number in range(40)]
    with ChatService([*paragraphs, *items]) as service:
        running = start(*to(service, "Hi"), size=TERMINAL)
        assert running.finish() == 0
    lines = shown(running)
    for number in range(40):
        assert lines.count(f"Paragraph {number}.") == 1
        assert lines.count(f"• item {number}") == 1


def test_of_a_block_taller_than_the_screen_the_end_is_seen(start: Any) -> None:
    gate = Gate()
    items = "".join(f"- item {number}\n" for number in range(40))
    with ChatService([items, gate]) as service:
        running = start(*to(service, "Hi"), size=TERMINAL)
        running.wait_for("item 39")
        lines = shown(running)
        gate.open()
        assert running.finish() == 0
    assert "• item 30" in lines
    assert "• item 3" not in lines
    assert shown(running).count("• item 3") == 1


def test_thinking_comes_first_and_dim(start: Any) -> None:
    running = start("ask", "-m", "echo/think", "Hi", size=TERMINAL)
    assert running.finish() == 0
    lines = shown(running)
    assert lines[:3] == ["I was told 1 word. I shall say it again.", "", "Hi"]
    assert b"\x1b[2m\x1b[3mI" in running.output


def test_text_discarded_by_a_restart_is_erased(start: Any) -> None:
    gate = Gate()
    with ChatService(["First *try*\n\nmore", gate, CUT], ["Second try"]) as service:
        running = start(*to(service, "--restart", "-o", "retry.base=0", "Hi"), size=TERMINAL)
        running.wait_for("more")
        gate.open()
        assert running.finish() == 0
    lines = shown(running)
    assert "Second try" in lines
    assert not any(line in ("First try", "more") for line in lines)
    assert "trying openai/any now (attempt 2 of 4)" in " ".join(lines)


def test_plain_text_is_discarded_with_a_notice(start: Any) -> None:
    gate = Gate()
    with ChatService(["First", gate, CUT], ["Second"]) as service:
        arguments = to(service, "--plain", "-o", "retry.restart_after_output=true")
        running = start(*arguments, "-o", "retry.base=0", "Hi", size=TERMINAL)
        running.wait_for("First")
        gate.open()
        assert running.finish() == 0
    lines = shown(running)
    assert lines[0] == "First"
    assert lines[1] == "discard the text above"
    assert "Second" in lines


def test_ctrl_c_leaves_what_arrived_on_the_screen_once(start: Any) -> None:
    with ChatService(["So *far*", Gate()]) as service:
        running = start(*to(service, "Hi"), size=TERMINAL)
        running.wait_for("far")
        running.interrupt()
        assert running.finish() == 130
    lines = shown(running)
    assert lines.count("So far") == 1
    assert "stopped" in lines
    assert running.output.count(b"\x1b[?25h") == 1  # the cursor is seen again


@pytest.mark.parametrize("plain", [(), ("--plain",)])
def test_the_wait_line_shows_reason_and_duration(start: Any, plain: tuple[str, ...]) -> None:
    gate = Gate()
    with ChatService([gate, "Here."]) as service:
        running = start(*to(service, *plain, "Hi"), size=TERMINAL)
        running.wait_for("waiting for openai/any · ")  # a busy machine may miss the first second
        running.wait_for(" s\x1b[0m")
        assert re.fullmatch(r"waiting for openai/any · \d+ s", shown(running)[0])
        gate.open()
        assert running.finish() == 0
    lines = shown(running)
    assert lines[0] == "Here."
    assert not any("waiting" in line for line in lines)


def test_a_wait_is_shown_once_on_a_terminal_that_cannot_erase_lines(start: Any) -> None:
    gate = Gate()
    with ChatService([gate, "Here."]) as service:
        running = start(*to(service, "--plain", "Hi"), size=TERMINAL, TERM="dumb", NO_COLOR="1")
        running.wait_for("waiting for openai/any")
        gate.open()
        assert running.finish() == 0
    assert running.output.count(b"waiting") == 1
    assert b"\x1b" not in running.output


def test_an_interrupt_while_waiting_leaves_a_clean_line(start: Any) -> None:
    with ChatService([Gate()]) as service:
        running = start(*to(service, "Hi"), size=TERMINAL)
        running.wait_for("waiting for")
        running.interrupt()
        assert running.finish() == 130
    assert [line for line in shown(running) if line] == ["stopped"]


def test_an_answer_cannot_control_the_terminal(start: Any) -> None:
    with ChatService(["a\x1b]0;title\x07b\x1b[2Jc\x9b1Ad"]) as service:
        for more in ((), ("--plain",)):
            running = start(*to(service, *more, "Hi"), size=TERMINAL)
            assert running.finish() == 0
            assert r"a\x1b]0;title\x07b\x1b[2Jc\x9b1Ad" in shown(running)
            assert b"\x1b]0;" not in running.output


HOSTILE = "read\u202efile\x1b[2J"
ESCAPED = r"read\u202efile\x1b[2J"


def test_hidden_characters_are_escapes_wherever_a_model_or_server_can_write(start: Any) -> None:
    call = {"index": 0, "id": "c", "function": {"name": HOSTILE, "arguments": '{"a": "\u202e"}'}}
    with ChatService([f"{HOSTILE} `{HOSTILE}`", {"tool_calls": [call]}]) as service:
        running = start(*to(service, "Hi"), size=(200, 20))
        running.finish()
    lines = shown(running)
    assert f"{ESCAPED} {ESCAPED}" in lines
    assert any(ESCAPED in line and r'{"a": "\u202e"}' in line for line in lines if "tool" in line)
    assert HOSTILE not in running.output.decode()
    running = start("ask", "-m", f"echo/{HOSTILE}", "-o", f"{HOSTILE}=1", "Hi", size=(200, 20))
    running.finish()
    assert "\u202e" not in running.output.decode()
    assert ESCAPED in running.output.decode()


@pytest.mark.parametrize(
    "line",
    [
        ("ask", "-m", "echo/think", "*Hi*"), ("demo", "echo", "--speed", "50"), ("providers",),
        ("--help",), ("ask", "--nonsense"), ("ask", "-m", "echo/fail-auth", "Hi"),
    ],
    ids=lambda line: " ".join(line[:2]),
)  # fmt: skip
def test_a_dumb_terminal_gets_text_alone(start: Any, line: tuple[str, ...]) -> None:
    running = start(*line, size=TERMINAL, TERM="dumb")
    running.finish()
    assert running.output.strip()
    assert b"\x1b" not in running.output


def test_no_color_is_respected(start: Any) -> None:
    running = start("ask", "-m", "echo/think", "*Hi*", size=TERMINAL, NO_COLOR="1")
    assert running.finish() == 0
    assert b"\x1b[2m" not in running.output


def test_a_redirected_answer_is_plain_though_a_person_watches_stderr(
    start: Any, tmp_path: Path
) -> None:
    """As `swink ask … > file`: the answer is unformatted, the text beside it is styled."""
    file = tmp_path / "answer.md"
    with file.open("wb") as out:
        running = start("ask", "-m", "echo/think", "**Hi**", size=TERMINAL, stdout=out)
        assert running.finish() == 0
    assert file.read_text() == "**Hi**\n"
    assert b"\x1b[2m\x1b[3mI" in running.output


# (rows, columns of the terminal, lines)
WIDE_TABLES: list[tuple[list[tuple[str, ...]], int, list[str]]] = [
    (
        [("漢字", "a", "x"), ("name", "bc", "y"), ("👩\u200d💻", "d", "z")],
        40,
        ["漢字  a   x", "name  bc  y", "👩\u200d💻    d   z"],
    ),
    (
        [("한국어", "표의 마지막 열은 아래로 내려간다"), ("ab", "c")],
        28,
        ["한국어  표의 마지막 열은 아", "        래로 내려간다", "ab      c"],
    ),
]


@pytest.mark.parametrize(("rows", "columns", "lines"), WIDE_TABLES)
def test_columns_of_wide_characters_are_aligned(
    rows: list[tuple[str, ...]], columns: int, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(terminal, "is_terminal", lambda file: True)
    assert terminal.table(rows) == lines
