"""The code in an answer, and the way to the clipboard."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

import click

import swink_core as swink
from swink_cli.terminal import is_terminal, say

__all__ = ["code_blocks", "code_in", "copy_text", "extracted"]

TOOLS = (
    ("pbcopy", (), ""),
    ("wl-copy", (), "WAYLAND_DISPLAY"),
    ("xclip", ("-selection", "clipboard"), "DISPLAY"),
    ("xsel", ("--clipboard", "--input"), "DISPLAY"),
    ("clip.exe", (), ""),
)
"""What puts text on a clipboard, and the variable without which it has none to put it on."""

MOST_CHARACTERS = 74_994
"""What terminals take of a text that is sent to their clipboard, at least."""

SECONDS = 5.0
"""How long a clipboard's tool may take."""


def code_blocks(text: str) -> list[str]:
    """Return the fenced code blocks of Markdown, each with its final newline."""
    from markdown_it import MarkdownIt

    return [token.content for token in MarkdownIt().parse(text) if token.type == "fence"]


def code_in(text: str) -> str | None:
    """Return the first fenced code block of Markdown; `None` without one."""
    return next(iter(code_blocks(text)), None)


def extracted(text: str) -> str:
    """Return the first code block of an answer, or all of it where there is none, and say so."""
    code = code_in(text)
    if code is None:
        say("notice: there is no code block in the answer; this is all of it")
        return text
    return code


def copy_text(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Put text on the clipboard and say by what: a tool of this machine's, or the terminal.

    A terminal over SSH has a clipboard where the person sits (OSC 52, xterm's control sequences).
    Raises SwinkError where there is neither.
    """
    environ = os.environ if environ is None else environ
    terminal = is_terminal(sys.stderr) and environ.get("TERM") != "dumb"
    if not (terminal and "SSH_TTY" in environ):
        for name, arguments, variable in TOOLS:
            if shutil.which(name) and (not variable or environ.get(variable)):
                _hand_over([name, *arguments], text)
                return name
    if terminal and len(text) <= MOST_CHARACTERS:
        data = base64.b64encode(text.encode("utf-8", "replace")).decode()
        click.echo(f"\x1b]52;c;{data}\x07", nl=False, err=True)
        return "the terminal"
    raise swink.SwinkError(
        "there is no clipboard: none of its tools was found, and no terminal that has one",
        title="Nothing was copied",
        resolution=f"Install one of {', '.join(name for name, *_ in TOOLS)}.",
    )


def _hand_over(command: list[str], text: str) -> None:
    try:
        # what it says goes nowhere: it stays to serve the clipboard, and would hold a pipe open
        subprocess.run(
            command,
            input=text.encode("utf-8", "replace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise swink.SwinkError(
            f"{command[0]}: {error}",
            title="Nothing was copied",
            resolution="Check that it works, or take it out of the PATH.",
        ) from error
