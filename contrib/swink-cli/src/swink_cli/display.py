"""Show a stream to a person: the answer goes to a sink, everything else to standard error.

Standard output contains only the answer, so that it can be piped. On a terminal, stdout and stderr
share one screen: the sink moves to a new line before anything is written to stderr, and an
unfinished line of one stream is ended before the other stream is written.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, Self

import click

import swink_core as swink
from swink_cli.terminal import (
    ECHO,
    PrintableStream,
    is_dumb,
    is_terminal,
    one_screen,
    printable,
    say,
    stdout,
    styled,
)

__all__ = [
    "Display",
    "HeldText",
    "LastText",
    "PlainText",
    "Sink",
    "Waiting",
    "describe_retry",
    "make_sink",
]

ARGUMENTS_SHOWN = 2000
"""The maximum number of characters of a tool call's arguments to print."""


class Sink(Protocol):
    """The interface of an object that shows the text of the answer."""

    def write(self, text: str) -> None:
        """Show more text of the answer."""

    def flush(self) -> None:
        """Make the text written so far visible."""

    def step_aside(self) -> None:
        """Move the cursor to the start of a line, so that stderr can be written."""

    def end_block(self) -> None:
        """Mark a block of text as complete."""

    def end_turn(self) -> None:
        """Mark the end of a turn, after which tools run: a retry can no longer discard the text."""

    def discard(self) -> bool:
        """Discard the text, and return whether all of it was removed."""

    def close(self) -> None:
        """Finish, with a line break."""


class PlainText:
    """Prints text as it arrives."""

    def __init__(self) -> None:
        self._out = stdout()
        self._shared = one_screen()
        self._printable = PrintableStream() if is_terminal(stdout()) else None
        self._in_line = False
        self._written = False

    def write(self, text: str) -> None:
        """Write text at once."""
        self._write(text if self._printable is None else self._printable.feed(text))

    def flush(self) -> None:
        """Flush standard output."""
        self._out.flush()

    def step_aside(self) -> None:
        """Write a line break to stderr, which ends the line on the screen but not in stdout."""
        if self._in_line and self._shared:
            self.flush()
            click.echo(err=True)
            self._in_line = False

    def end_block(self) -> None:
        """Do nothing: the blocks of an answer form one text."""

    def end_turn(self) -> None:
        """End the last line; a later retry does not discard the text of this turn."""
        self.close()
        self._written = False

    def discard(self) -> bool:
        """Return False if text was printed, because printed text cannot be removed."""
        written, self._written = self._written, False
        return not written

    def close(self) -> None:
        """End the last line."""
        if self._printable is not None:
            self._write(self._printable.close())
        if self._in_line:
            self._write("\n")
        self.flush()

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._in_line, self._written = not text.endswith("\n"), True


class HeldText:
    """A sink that prints the text when the answer is complete.

    The text is held because a retry may discard it, or because the function `made` converts the
    whole text.
    """

    def __init__(self, made: Callable[[str], str] = str) -> None:
        self._made = made
        self._parts: list[str] = []

    def write(self, text: str) -> None:
        """Collect text."""
        self._parts.append(text)

    def flush(self) -> None:
        """Do nothing: nothing is printed yet."""

    def step_aside(self) -> None:
        """Do nothing: nothing is printed yet."""

    def end_block(self) -> None:
        """Do nothing: the blocks of an answer form one text."""

    def end_turn(self) -> None:
        """Print the text of the turn."""
        self.close()
        self._parts.clear()

    def discard(self) -> bool:
        """Discard the collected text."""
        self._parts.clear()
        return True

    def close(self) -> None:
        """Print all text."""
        if self._parts:
            text = PlainText()
            text.write(self._made("".join(self._parts)))
            text.close()


class LastText(HeldText):
    """A sink for the final answer of a tool loop; text before tool calls goes to stderr.

    This sink is used if stdout must contain a single document, such as JSON.
    """

    def end_turn(self) -> None:
        """Print the text of this turn to stderr: it is not the final answer."""
        if self._parts:
            say(f"text before the answer: {''.join(self._parts)}")
        self._parts.clear()


def make_sink(*, plain: bool = False, held: bool = False) -> Sink:
    """Create the sink for an answer: formatted Markdown on a terminal, otherwise plain text.

    With `held`, plain text is printed only when the answer is complete, because printed text cannot
    be removed.
    """
    if not plain and is_terminal(stdout()) and not is_dumb():
        from swink_cli.live_markdown import LiveMarkdown

        return LiveMarkdown()
    return HeldText() if held else PlainText()


log = logging.getLogger(__name__)

SHOWN_FOR_DEBUGGING = frozenset({"thinking_left_out", "metadata_left_out"})
"""Codes of frequent notices, which only `--debug` shows."""


class Display:
    """Shows the events of one call. `terminal` is the terminal event once it has arrived.

    `first_token_at` and `ended_at` are the times (of `time.monotonic()`) of the first token and of
    the end; each is `None` before that time.
    """

    def __init__(self, sink: Sink) -> None:
        self.terminal: swink.Done | swink.Error | None = None
        self.first_token_at: float | None = None
        self.ended_at: float | None = None
        self._sink = sink
        self._shared = one_screen()
        self._thinking: PrintableStream | None = None
        self._calls: dict[int, tuple[str, list[str]]] = {}

    def feed(self, batch: Sequence[swink.AssistantMessageEvent]) -> None:
        """Show the events of one network read."""
        for event in batch:
            show = _SHOW.get(type(event))
            if show is not None:
                show(self, event)
        self._sink.flush()

    def close(self) -> None:
        """Finish the output, however the stream ended."""
        self._end_thinking()
        self._sink.close()

    def _note(self, text: str, **style: Any) -> None:
        self._end_thinking()
        self._sink.step_aside()
        say(text, **style)

    def _token(self) -> None:
        if self.first_token_at is None:
            self.first_token_at = time.monotonic()

    def _text(self, event: swink.TextDelta) -> None:
        self._token()
        self._end_thinking()
        self._sink.write(event.delta)

    def _text_end(self, _: swink.TextEnd) -> None:
        self._sink.end_block()

    def _think(self, event: swink.ThinkingDelta) -> None:
        self._token()
        if self._thinking is None:
            self._sink.step_aside()
            self._thinking = PrintableStream()
        text = styled(self._thinking.feed(event.delta), dim=True, italic=True)
        click.echo(text, err=True, nl=False)

    def _think_end(self, _: swink.ThinkingEnd) -> None:
        self._end_thinking()

    def _end_thinking(self) -> None:
        if self._thinking is not None:
            rest = styled(self._thinking.close(), dim=True, italic=True)
            self._thinking = None
            click.echo(rest + "\n" * self._shared, err=True)

    def _call_start(self, event: swink.ToolCallStart) -> None:
        self._token()
        self._calls[event.content_index] = (event.name, [])

    def _call_delta(self, event: swink.ToolCallDelta) -> None:
        self._calls[event.content_index][1].append(event.delta)

    def _call_end(self, event: swink.ToolCallEnd) -> None:
        name, parts = self._calls.pop(event.content_index)
        arguments = "".join(parts).strip() or "{}"
        if len(arguments) > ARGUMENTS_SHOWN:
            arguments = arguments[:ARGUMENTS_SHOWN] + "…"
        self._note(f"tool call: {name} {arguments}", fg="cyan")

    def _extension(self, event: swink.Extension) -> None:
        self._note(f"[{event.provider}: {event.kind}]")

    def _notice(self, event: swink.Notice) -> None:
        if event.code not in SHOWN_FOR_DEBUGGING or log.isEnabledFor(logging.DEBUG):
            self._note(f"notice: {event.detail or event.code}")

    def _retry(self, event: swink.Retry) -> None:
        self._end_thinking()
        gone = self._sink.discard()
        self.first_token_at = None
        self._calls.clear()
        if not gone:
            self._note("discard the text above", fg="yellow")
        self._note(describe_retry(event), fg="yellow")

    def _finish(self, event: swink.Done | swink.Error) -> None:
        self.terminal = event
        self.ended_at = time.monotonic()


def describe_retry(event: swink.Retry) -> str:
    """Describe in one line why and when a call is retried."""
    when = f"in {event.delay:.1f} s" if event.delay >= 0.05 else "now"
    return (
        f"{event.error.rstrip('.')}; trying {event.model} {when} "
        f"(attempt {event.attempt} of {event.max_attempts})"
    )


_SHOW: dict[type, Callable[[Display, Any], None]] = {
    swink.TextDelta: Display._text,
    swink.TextEnd: Display._text_end,
    swink.ThinkingDelta: Display._think,
    swink.ThinkingEnd: Display._think_end,
    swink.ToolCallStart: Display._call_start,
    swink.ToolCallDelta: Display._call_delta,
    swink.ToolCallEnd: Display._call_end,
    swink.Extension: Display._extension,
    swink.Notice: Display._notice,
    swink.Retry: Display._retry,
    swink.Done: Display._finish,
    swink.Error: Display._finish,
}


# -- while a model says nothing --------------------------------------------------------------------

MOMENT = 0.15
"""How many seconds a wait lasts before the indicator appears."""

TICK = 0.1


class Waiting:
    """Shows on standard error what the program is waiting for, described by `what`.

    The line is visible only while nothing else is written: `pause` removes it, and `go_on` shows it
    again. On a terminal that cannot erase a line (TERM=dumb), it is written once.
    """

    def __init__(self, what: Callable[[], str]) -> None:
        self._what = what
        self._since: float | None = time.monotonic()
        self._shown = ""
        self._fixed = is_dumb()
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if is_terminal(sys.stderr):
            self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.pause()
        if self._ticking is not None:
            self._ticking.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticking

    def pause(self) -> None:
        """Remove the line."""
        self._since = None
        if self._shown and not self._fixed:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._shown = ""

    def go_on(self, since: float) -> None:
        """Show the waiting line again; its wait began at `since` (`time.monotonic()`)."""
        self._since = since

    async def _tick(self) -> None:
        await asyncio.sleep(MOMENT)
        while True:
            if self._since is not None:
                self._show(time.monotonic() - self._since)
            await asyncio.sleep(TICK)

    def _show(self, seconds: float) -> None:
        text = printable(self._what())
        if self._fixed:
            if not self._shown:
                self._shown = text
                say(text)
            return
        text += f" · {seconds:.0f} s" if seconds >= 1 else ""
        text = text[: shutil.get_terminal_size().columns - ECHO]
        if text != self._shown:
            self._shown = text
            click.echo("\r\x1b[K" + styled(text, dim=True), nl=False, err=True)
