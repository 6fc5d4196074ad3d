"""Render the output of a terminal program, with the part of ECMA-48 that swink uses."""

from __future__ import annotations

import re

__all__ = ["seen"]

_CONTROL = re.compile(r"\x1b\[(\??)([\d;]*)([@-~])|\x1b\].*?(?:\x07|\x1b\\)|\x1b.", re.DOTALL)


def seen(output: bytes, columns: int = 80) -> list[str]:
    """Return all lines, those that scrolled off too, without what was wiped."""
    lines: list[list[str]] = [[]]
    row = column = 0
    text = output.decode("utf-8", "replace")
    at = 0
    while at < len(text):
        character = text[at]
        if character == "\x1b" and (match := _CONTROL.match(text, at)):
            at = match.end()
            count = int(match[2]) if match[2] and match[2].isdecimal() else 0
            match match[3]:
                case "A" | "F":
                    row = max(0, row - max(1, count))
                    column = 0 if match[3] == "F" else column
                case "K":
                    lines[row] = [] if count == 2 else lines[row][:column]
                case "J":
                    lines[row] = lines[row][:column]
                    del lines[row + 1 :]
            continue
        at += 1
        if character == "\r":
            column = 0
        elif character == "\n":
            row, column = row + 1, column
        elif character >= " ":
            if column >= columns:
                row, column = row + 1, 0
            while row >= len(lines):
                lines.append([])
            line = lines[row]
            line.extend(" " * (column - len(line)))
            line[column : column + 1] = [character]
            column += 1
        while row >= len(lines):
            lines.append([])
    return ["".join(line).rstrip() for line in lines]
