"""Display of messages, answers, usage and streams in IPython and Jupyter."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import swink
from swink import notebooks
from swink.notebooks import as_html, as_text
from swink_core import AssistantMessage, Cost, ImageBlock, Usage

PIXEL = swink.Base64Source("image/png", "QUJDRA==")
FACTS = ('<div style="opacity: 0.7; font-size: 0.9em">{}</div>').format
BLOCK = ('<div style="white-space: pre-wrap">{}</div>').format

# (what it is of, message, text, HTML)
MESSAGES: list[tuple[str, AssistantMessage, str, str]] = [
    (
        "text, which is escaped",
        AssistantMessage("<script>x</script>", "acme", "large", stop_reason=swink.StopReason.STOP),
        "<script>x</script>\n[acme/large · stop]",
        BLOCK("&lt;script&gt;x&lt;/script&gt;") + FACTS("acme/large · stop"),
    ),
    (
        "a model that calls itself by markup",
        AssistantMessage([], "<b>", "<i>"),
        "[<b>/<i> · …]",
        FACTS("&lt;b&gt;/&lt;i&gt; · …"),
    ),
    (
        "thinking and a tool call",
        AssistantMessage(
            [
                swink.ThinkingBlock("a < b"),
                swink.ToolCallBlock("c1", "add", {"a": 1}, '{"a": "<"}'),
            ]
        ),
        'add({"a": "<"})\n[…]',
        f"<details><summary>thinking</summary>{BLOCK('a &lt; b')}</details>"
        "<div><code>add({&quot;a&quot;: &quot;&lt;&quot;})</code></div>" + FACTS("…"),
    ),
    (
        "a picture",
        AssistantMessage([ImageBlock(PIXEL)]),
        "[image]\n[…]",
        '<img src="data:image/png;base64,QUJDRA==" style="max-width: 30em">' + FACTS("…"),
    ),
    (
        "a picture of a type that may hold scripts",
        AssistantMessage([ImageBlock(swink.Base64Source("image/svg+xml", "QUJDRA=="))]),
        "[image]\n[…]",
        BLOCK("[image]") + FACTS("…"),
    ),
    (
        "a failure, usage and cost",
        AssistantMessage(
            "Hel",
            usage=Usage(1200, 40, cache_read=900),
            cost=Cost(total=0.00123),
            stop_reason=swink.StopReason.ERROR,
            error_kind=swink.StreamErrorKind.NETWORK,
            error_message="<cut>",
        ),
        "Hel\n[error · 1,200 input, 900 cache read, 40 output tokens · $0.0012 · network: <cut>]",
        BLOCK("Hel")
        + FACTS(
            "error · 1,200 input, 900 cache read, 40 output tokens · $0.0012 · network: &lt;cut&gt;"
        ),
    ),
]


@pytest.mark.parametrize(
    ("message", "text", "html"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES]
)
def test_a_message_has_a_text_and_escaped_html(
    message: AssistantMessage, text: str, html: str
) -> None:
    assert as_text(message) == text
    assert as_html(message) == html


@pytest.mark.parametrize(
    ("total", "line"),
    [(None, "unknown cost"), (0.0, "$0.00"), (0.00123, "$0.0012"), (0.5, "$0.5"), (12.5, "$12.50")],
)
def test_a_cost_is_a_line(total: float | None, line: str) -> None:
    assert notebooks.cost_line(Cost(total=total)) == line


class Notebook:
    """A kernel's display, which keeps each picture of each output."""

    def __init__(self) -> None:
        self.outputs: list[list[str]] = []

    def display(self, html: str, display_id: bool) -> Any:
        assert display_id
        self.outputs.append([html])
        return SimpleNamespace(update=self.outputs[-1].append)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    kept = Notebook()
    shell = SimpleNamespace(kernel=None)
    ipython: Any = ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    shown: Any = ModuleType("IPython.display")
    shown.HTML, shown.display = str, kept.display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    monkeypatch.setattr(notebooks, "FRAME", 0.0)
    return kept


def texts(pictures: list[str]) -> list[str]:
    """The texts of an output, each once, in order."""
    found = [picture.partition('pre-wrap">')[2].partition("<")[0] for picture in pictures]
    return [*dict.fromkeys(filter(None, found))]


def test_a_stream_without_await_is_drawn_while_it_comes(notebook: Notebook) -> None:
    with swink.SyncClient() as client:
        stream = client.stream("echo/echo", "a b c")
        notebooks._show_now(stream)

    assert texts(notebook.outputs[0]) == ["a", "a b", "a b c"]
    assert "stop · 3 input, 3 output tokens" in notebook.outputs[0][-1]
    assert stream.result().text == "a b c"


async def test_a_run_on_display_is_drawn_turn_by_turn_and_result_waits_for_it(
    notebook: Notebook,
) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    async with swink.Client() as client:
        run = client.run("echo/tools", "a b c", tools=[add])
        notebooks._show(run)
        await asyncio.sleep(0)
        message = await run.result()

    assert run.outcome == "done"
    assert run.turns == 2
    [pictures] = notebook.outputs
    assert pictures[-1].count("<code>add(") == 1
    assert message.text.split()[-1] in pictures[-1]


async def test_a_stream_on_display_is_read_by_a_task_and_result_waits_for_it(
    notebook: Notebook,
) -> None:
    async with swink.Client() as client:
        stream = client.stream("echo/echo", "a b c")
        notebooks._show(stream)
        await asyncio.sleep(0)
        message = await stream.result()

    assert message.text == "a b c"
    assert texts(notebook.outputs[0]) == ["a", "a b", "a b c"]


async def test_a_stream_on_display_may_be_read_by_its_cell(notebook: Notebook) -> None:
    async with swink.Client() as client, client.stream("echo/echo", "a b c") as stream:
        notebooks._show(stream)
        pieces = [piece async for piece in stream.text]
        notebooks._draw_all()

    assert pieces == ["a", " b", " c"]
    assert texts(notebook.outputs[0])[-1] == "a b c"


def test_a_failure_is_drawn_with_the_partial_answer(notebook: Notebook) -> None:
    with swink.SyncClient(retry=False) as client:
        notebooks._show_now(client.stream("echo/fail-network-after-2", "a b c"))

    last = notebook.outputs[0][-1]
    assert texts([last]) == ["a b"]
    assert "· network: " in last


def test_each_turn_of_a_run_stays_on_display(notebook: Notebook) -> None:
    def add(a: int) -> int:
        """Add one."""
        return a + 1

    with swink.SyncClient() as client:
        notebooks._show_now(client.run("echo/tool", "one", tools=[add]))

    last = notebook.outputs[0][-1]
    assert last.count("add({&quot;a&quot;: 1})") == 1
    assert last.endswith(FACTS("echo/tool · stop · 6 input, 3 output tokens · $0.00"))
    assert "add returned: 2" in last


TERMINAL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in (
    "import swink",
    "client = swink.SyncClient()",
    "client.complete('echo/echo', 'a b')",
    "client.stream('echo/echo', 'c d')",
    "message = client.complete('echo/echo', 'a b')",
    "message.usage",
    "message.cost",
    "client.answer('echo/echo', 'a b', type=int)",
):
    shell.run_cell(cell).raise_error()
"""


def test_a_terminal_of_ipython_prints_text_and_a_line_of_facts() -> None:
    pytest.importorskip("IPython")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TERMINAL],
        capture_output=True,
        text=True,
        check=True,
    )
    said = done.stdout.replace("Out[0]: ", "")
    lines = [line for line in said.splitlines() if line]

    facts = "[echo/echo · stop · 2 input, 2 output tokens · $0.00]"
    assert lines[:4] == ["a b", facts, "c d", facts]
    assert lines[4:7] == ["2 input, 2 output tokens", "$0.00", "2"]
