"""Draw what `swink demo` prints as docs/pictures/demo.svg: `draw_demo.py`.

The command runs in a separate terminal, as wide as the picture. The live part is redrawn
continually; the picture shows the last lines, the table.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "demo.svg"
WIDTH = 84
"""Columns of the terminal."""

SHOW_CURSOR = "\x1b[?25h"
"""The control sequence that ends the live part."""


def run_in_terminal(*command: str) -> str:
    """Return the output of a command that runs on a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(WIDTH))
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 60, WIDTH, 0, 0))
    read = bytearray()
    try:
        while piece := os.read(terminal, 65536):
            read += piece
    except OSError:  # Linux's way to say that the other side has closed
        pass
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed:\n{read.decode()}")
    return read.decode()


def draw(printed: str) -> str:
    """Return a picture of a terminal, in the reader's own font: none is fetched."""
    _, _, table = printed.rpartition(SHOW_CURSOR)
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\x1b[1m$ swink demo\x1b[0m\n" + table.replace("\r", "").rstrip()))
    without_fonts = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    svg = console.export_svg(title="swink demo", code_format=without_fonts, unique_id="demo")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(run_in_terminal(sys.executable, "-m", "swink_cli", "demo")), "utf-8")
