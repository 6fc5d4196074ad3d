"""Print which parts of an answer the terminal display of `swink ask` hides.

    python -m lab.findings.terminal_display

Every visible character of an answer has to be on the screen.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import tempfile
from pathlib import Path

from lab.findings.upstreams import KEY, verdict
from lab.vendor import Vendor
from lab.vendor.writer import Script
from swink_testing.command_line import clean_environment, swink_command

WORD = "KEYWORD"

ANSWERS = {
    "HTML block": f"A\n\n<div>\n{WORD} delete everything\n</div>\n\nB",
    "details": f"A\n\n<details><summary>More</summary>\n{WORD}\n</details>\n\nB",
    "type argument": f"Use Vec<{WORD}> here",
    "placeholder": f"run: git push <{WORD}> main",
    "link definition": f"A\n\n[note]: {WORD}\n\nB",
    "deep quotation": "> " * 21 + WORD,
    "deep list": "".join("  " * depth + f"- l{depth}\n" for depth in range(13)) + f"\n{WORD}",
    "comparison": f"if a < {WORD} && b > c",
    "processing instruction": f"A\n\n<?php {WORD} ?>\n\nB",
    "link target": f"[t](http://{WORD}.example)",
    "script": f"A\n\n<script>{WORD}</script>\n\nB",
    "unknown tag": f"<answer>{WORD}</answer>",
    "thought between tags": f"<think>\n{WORD}\n</think>\n\nB",
    "surplus cell of a table": f"|a|\n|--|\n|x|{WORD}|\n",
    "address between brackets": f"write to <{WORD}@example.org>",
    "comment": f"A <!-- {WORD} --> B",
}

SECONDS = 60


def terminal_output(command: list[str], environment: dict[str, str]) -> bytes:
    """Run a command in a new terminal, and return its output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    output = b""
    try:
        while piece := os.read(ours, 65536):
            output += piece
    except OSError:
        pass  # Linux reports the end of a terminal as an error
    finally:
        os.close(ours)
        process.wait(SECONDS)
    return output


def screen(command: list[str], environment: dict[str, str]) -> str:
    """Run a command in a new terminal, and return its output without control sequences."""
    output = terminal_output(command, environment)
    return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", output).decode(errors="replace")


def main() -> None:
    """Print one line for each construct."""
    with Vendor() as vendor, tempfile.TemporaryDirectory() as folder:
        environment = {
            **clean_environment(Path(folder)),
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{vendor.url}/v1",
        }
        command = swink_command("ask", "-m", "openai/gpt-5.4-mini", "Hi")
        for name, answer in ANSWERS.items():
            vendor.state.scripts.append(Script((({"text": answer},),)))
            shown = re.sub(r"\s", "", screen(command, environment))
            verdict(WORD in shown, f"{name} is shown")


if __name__ == "__main__":
    main()
