"""Extract code from an answer, and copy text to the clipboard."""

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
"""The clipboard programs, each with the environment variable that must be set."""

MOST_CHARACTERS = 74_994
"""The maximum length of text to copy through a terminal; every terminal accepts this many."""

SECONDS = 5.0
"""How many seconds a clipboard program may take."""


def code_blocks(text: str) -> list[str]:
    """Return the fenced code blocks of Markdown, each with its final newline."""
    from markdown_it import MarkdownIt

    return [token.content for token in MarkdownIt().parse(text) if token.type == "fence"]


def code_in(text: str) -> str | None:
    """Return the first fenced code block of Markdown, or `None`."""
    return next(iter(code_blocks(text)), None)


def extracted(text: str) -> str:
    """Return the first code block of an answer. Without one, print a notice and return the whole
    answer.
    """
    code = code_in(text)
    if code is None:
        say("notice: the answer has no code block; showing the whole answer")
        return text
    return code


def copy_text(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Copy text to the clipboard, with a program or through the terminal; return which was used.

    Over SSH, the terminal sets the clipboard of the local machine (OSC 52, one of xterm's control
    sequences). Raises SwinkError if neither a program nor such a terminal is available.
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
        "no clipboard available: no clipboard tool was found, and the terminal has none",
        title="Nothing was copied",
        resolution=f"Install one of {', '.join(name for name, *_ in TOOLS)}.",
    )


def _hand_over(command: list[str], text: str) -> None:
    try:
        # Discard the output: the program keeps running to serve the clipboard, and would keep a
        # pipe open.
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
            resolution="Check that it works, or remove it from the PATH.",
        ) from error
