"""Asks the person at the terminal before a tool call is carried out."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress

import click

import swink_core as swink
from swink_cli.display import Sink
from swink_cli.terminal import is_terminal, say

__all__ = ["Approval"]

REFUSED = "The user does not allow this call."

SHOWN = 2000
"""Characters of the arguments that are shown."""


class Approval:
    """Whether tool calls may be carried out: all of them (`yes`), or those that a person allows.

    Calls of a turn are asked about one after the other. Without a terminal nobody could be asked,
    so that making one raises UsageError, before anything is sent.
    """

    def __init__(self, *, yes: bool) -> None:
        if not yes and not (_asks() and is_terminal(sys.stderr)):
            raise swink.UsageError(
                "tools would be carried out, and nobody can be asked whether they may be",
                title="Nobody to ask",
                resolution="Run it on a terminal, or pass --yes to allow every call.",
            )
        self.sink: Sink | None = None
        self._yes = yes
        self._always: set[str] = set()
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, call: swink.ToolCallBlock) -> bool | str:
        """Return whether a call may be carried out; a string is for the model, and refuses it."""
        if self._yes:
            return True
        async with self._one_at_a_time:
            return call.name in self._always or await self._ask(call)

    async def _ask(self, call: swink.ToolCallBlock) -> bool | str:
        whole = shown = _in_sight(json.dumps(call.arguments, ensure_ascii=False))
        if len(whole) > SHOWN:
            shown = f"{whole[:SHOWN]}… ({len(whole):,} characters)"
        if self.sink is not None:
            self.sink.step_aside()
        _forget_what_was_typed()
        while True:
            say(f"Run {call.name} {shown}?", fg="yellow")
            more = "" if shown is whole else "[w]hole, "
            click.echo(f"[y]es, [n]o, [a]lways, {more}or why not: ", nl=False, err=True)
            answer = (await _line()).strip()
            match answer.lower():
                case "w" | "whole" if more:
                    shown = whole
                case "y" | "yes":
                    return True
                case "a" | "always":
                    self._always.add(call.name)
                    return True
                case "n" | "no":
                    return REFUSED
                case "":
                    say("Say y, n or a; words are told to the model, and refuse the call.")
                case _:
                    return f"{REFUSED} They say: {answer}"


def _in_sight(text: str) -> str:
    """Write as escapes what would hide a part of JSON, or show it in another order than it has."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _forget_what_was_typed() -> None:
    """Have no answer that was typed before its question: nobody saw what it would allow."""
    with suppress(ImportError):  # Windows
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _asks() -> bool:
    return is_terminal(sys.stdin)


async def _line() -> str:
    """Read a line from the terminal, without a thread that nobody could stop."""
    loop = asyncio.get_running_loop()
    file = sys.stdin.fileno()
    ready = asyncio.Event()
    try:
        loop.add_reader(file, ready.set)
    except NotImplementedError:  # an event loop of Windows
        return await asyncio.to_thread(sys.stdin.readline) or "n"
    try:
        await ready.wait()
    except asyncio.CancelledError:
        click.echo(err=True)  # the cursor stands behind the question
        raise
    finally:
        loop.remove_reader(file)
    # a terminal hands on whole lines; none is the end of input, which allows nothing
    return os.read(file, 65536).decode("utf-8", "replace") or "n"
