"""What a process owes the shared ledger, which it takes down so that a sudden end loses nothing.

Processes of one machine share a folder: what one that died owed is paid by whoever comes first.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from msgspec import json

__all__ = ["Debts", "is_running"]

Debt = tuple[str, int, int, int, float]
"""A key, the second of it, requests, tokens and dollars."""


class Debts:
    """Debts of this process, and of those of the same `folder` that died; `None`: in memory."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file = folder and folder / f"owed-{os.getpid()}"
        self._owed: list[Debt] = []

    def add(self, debt: Debt) -> None:
        """Take down a debt."""
        self._owed.append(debt)
        if self._file is not None:
            with self._file.open("ab") as file:
                file.write(json.encode(debt) + b"\n")

    def take(self) -> list[Debt]:
        """Return all debts, of which this process now knows no more."""
        taken, self._owed = self._owed, []
        if self._file is not None:
            self._file.unlink(missing_ok=True)
            for file in self._file.parent.glob("owed-*"):
                if not is_running(file.name.removeprefix("owed-")):
                    taken += _claimed(file, self._file.with_name(f"claimed-{os.getpid()}"))
        return taken

    def __bool__(self) -> bool:
        return bool(self._owed)


def is_running(process: str) -> bool:
    """Tell whether a process of this machine is still there, by its id."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _claimed(file: Path, mine: Path) -> list[Debt]:
    with suppress(FileNotFoundError):  # another one was first
        file.rename(mine)
        lines = mine.read_bytes().splitlines(keepends=True)
        mine.unlink()
        return [json.decode(line, type=Debt) for line in lines if line.endswith(b"\n")]
    return []
