"""Display messages, answers, usage and streams in IPython and Jupyter.

The formatters are registered when swink is imported in IPython. All text from models is escaped.
Displaying a stream reads the stream: a synchronous stream is read to its end at once, and a stream
of `Client` is read by a task of the running event loop while the cell continues.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from html import escape
from importlib import import_module
from typing import Any

from swink.of_stream import OfStream
from swink_core import (
    AssistantMessage,
    Base64Source,
    Cost,
    EventStream,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
)

__all__ = ["as_html", "as_text", "register"]

FRAME = 0.05
"""The minimum time between two updates of the display, in seconds."""

_PICTURES = ("image/gif", "image/jpeg", "image/png", "image/webp")

_BLOCK = '<div style="white-space: pre-wrap">{}</div>'
_CALL = "<div><code>{}({})</code></div>"
_THOUGHT = "<details><summary>thinking</summary>" + _BLOCK + "</details>"
_FACTS = '<div style="opacity: 0.7; font-size: 0.9em">{}</div>'
_PICTURE = '<img src="data:{};base64,{}" style="max-width: 30em">'


def register(shell: Any) -> None:
    """Register the formatters with a running IPython shell."""
    formatters = shell.display_formatter.formatters
    plain, html = formatters["text/plain"], formatters["text/html"]
    plain.for_type(AssistantMessage, _printing(as_text))
    plain.for_type(Usage, _printing(usage_line))
    plain.for_type(Cost, _printing(cost_line))
    plain.for_type_by_name("swink.answers", "Answer", _printing(_answer_text))
    html.for_type(AssistantMessage, as_html)
    html.for_type_by_name("swink.answers", "Answer", _answer_html)
    live = shell.display_formatter.ipython_display_formatter
    live.for_type(EventStream, _show)
    live.for_type_by_name("swink.answers", "AnswerStream", _show)
    live.for_type_by_name("swink.loop", "Run", _show)
    for name in ("SyncStream", "SyncAnswerStream", "SyncRun"):
        live.for_type_by_name("swink.sync_streams", name, _show_now)
    shell.events.register("post_run_cell", _draw_all)


def _printing(text: Callable[[Any], str]) -> Callable[[Any, Any, bool], None]:
    """Return a formatter for IPython's pretty printer that prints `text(value)`."""
    return lambda value, printer, _: printer.text(text(value))


# -- texts ---------------------------------------------------------------------------------------


def usage_line(usage: Usage) -> str:
    """Return the known token counts, in one line."""
    counts = [
        f"{count:,} {name.replace('_', ' ')}"
        for name in ("input", "cache_read", "cache_write", "output", "reasoning")
        if (count := getattr(usage, name))
    ]
    return f"{', '.join(counts)} tokens" if counts else "unknown tokens"


def cost_line(cost: Cost) -> str:
    """Return the total cost in US dollars, as text."""
    if cost.total is None:
        return "unknown cost"
    return f"${cost.total:.2f}" if cost.total >= 1 or not cost.total else f"${cost.total:.2g}"


def _facts(message: AssistantMessage, usage: Usage | None, cost: Cost | None) -> str:
    model = "/".join(name for name in (message.provider, message.model) if name)
    facts = [model, str(message.stop_reason or "…")]
    if usage is not None:
        facts.append(usage_line(usage))
    if cost is not None and cost.total is not None:
        facts.append(cost_line(cost))
    if message.error_kind is not None:
        facts.append(f"{message.error_kind}: {message.error_message}")
    return " · ".join(fact for fact in facts if fact)


def as_text(message: AssistantMessage) -> str:
    """Return a message's text, followed by a line with its model, stop reason, usage and cost."""
    lines = [_block_text(block) for block in message.content]
    return "\n".join([*filter(None, lines), f"[{_facts(message, message.usage, message.cost)}]"])


def _block_text(block: Any) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ToolCallBlock):
        return f"{block.name}({block.raw_arguments or block.arguments})"
    return "" if isinstance(block, ThinkingBlock) else f"[{block.type}]"


def as_html(message: AssistantMessage) -> str:
    """Return a message as HTML, in which all of the model's text is escaped."""
    facts = _FACTS.format(escape(_facts(message, message.usage, message.cost)))
    return "".join([*map(_block_html, message.content), facts])


def _block_html(block: Any) -> str:
    if isinstance(block, ThinkingBlock):
        return _THOUGHT.format(escape(block.thinking)) if block.thinking else ""
    if isinstance(block, ToolCallBlock):
        arguments = str(block.raw_arguments or block.arguments)
        return _CALL.format(escape(block.name), escape(arguments))
    source = block.source if isinstance(block, ImageBlock) else None
    if isinstance(source, Base64Source) and source.media_type in _PICTURES:
        return _PICTURE.format(source.media_type, escape(source.data))
    return _BLOCK.format(escape(_block_text(block)))


def _answer_text(answer: Any) -> str:
    return f"{answer.parsed!r}\n[{_facts(answer.message, answer.usage, answer.cost)}]"


def _answer_html(answer: Any) -> str:
    facts = _facts(answer.message, answer.usage, answer.cost)
    return _BLOCK.format(escape(repr(answer.parsed))) + _FACTS.format(escape(facts))


# -- streams -------------------------------------------------------------------------------------


class _Screen:
    """Display a stream: in a notebook, redraw the message as text arrives; in a terminal, append
    text.
    """

    def __init__(self, stream: EventStream | OfStream) -> None:
        shown: Any = import_module("IPython.display")
        self._stream = stream
        self._make: Any = shown.HTML
        self._finished = ""  # the HTML of earlier turns
        self._last: AssistantMessage | None = None
        self._call = ""  # the id of the drawn call; each turn of a run is a separate call
        self._printed = ""
        self._drawn_at = time.monotonic()
        self._handle: Any = None
        if hasattr(import_module("IPython").get_ipython(), "kernel"):
            self._handle = shown.display(self._make(""), display_id=True)

    def draw(self, at_once: bool = False) -> None:
        """Draw the message so far, at most once every `FRAME` seconds unless `at_once`."""
        message = self._stream.message
        is_next = self._last is not None and self._stream.call.id != self._call
        if self._handle is None:
            self._print(message, is_next)
        elif is_next or at_once or time.monotonic() - self._drawn_at >= FRAME:
            if is_next and self._last is not None:
                self._finished += as_html(self._last)
            self._drawn_at = time.monotonic()
            self._handle.update(self._make(self._finished + as_html(message)))
        self._last, self._call = message, self._stream.call.id

    def end(self) -> None:
        """Draw the message for the last time."""
        self.draw(at_once=True)
        if self._handle is None:
            message = self._stream.message
            print(f"\n[{_facts(message, message.usage, message.cost)}]")

    def _print(self, message: AssistantMessage, is_next: bool) -> None:
        text = message.text
        is_continued = not is_next and text.startswith(self._printed)
        print("" if is_continued else "\n", end="")
        print(text[len(self._printed) :] if is_continued else text, end="", flush=True)
        self._printed = text


_under_way: dict[asyncio.Task[None], _Screen] = {}
"""The tasks that read displayed streams, kept because asyncio has only weak references to them."""


def _draw_all(*_: object) -> None:
    """Draw all streams when a cell ends, because later updates might appear outside the cell's
    output.
    """
    for screen in _under_way.values():
        screen.draw(at_once=True)


def _show_now(stream: Any) -> None:
    """Read a stream to its end and draw it; close the stream if reading is interrupted."""
    screen = _Screen(stream)
    try:
        for _ in stream:
            screen.draw()
    except BaseException:
        stream.close()
        raise
    finally:
        screen.end()


def _show(stream: Any) -> None:
    """Read a stream in a task of the running loop, and draw it."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # in a terminal, a loop runs only while a cell awaits
        print(f"{as_text(stream.message)}\nawait its result() to read it")
        return
    screen = _Screen(stream)
    task = loop.create_task(_follow(stream, screen))
    _under_way[task] = screen
    task.add_done_callback(_under_way.pop)


async def _follow(stream: Any, screen: _Screen) -> None:
    try:
        async for _ in stream.batches():
            screen.draw()
    except RuntimeError:  # another task reads the stream
        while getattr(stream, "outcome", stream.message.stop_reason) is None:
            await asyncio.sleep(FRAME)
            screen.draw()
    finally:
        screen.end()
