"""Which rows a vendor's batch API has been handed, in which batches, and whose results are kept.

A folder beside the journal, named after it and `.batches`, in which each shard writes a file and
reads those of all. A batch that was begun has a line with its rows, and later one or more with
those of them whose results are in the journal: what is left waits for a run that has the row.
A row's name says what it asks: one that says something else than before has another.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from swink_batch.forms import Request
from swink_batch.journal import FileEngine
from swink_core import SwinkError

__all__ = ["Ledger", "id_part", "row_name"]

_ID_PART = len("row-") + 16


def row_name(request: Request) -> str:
    """Return what a vendor knows a row by: its id and all that it says."""
    return f"row-{request.key:016x}-{request.check:016x}"


def id_part(name: str) -> str:
    """Return the part of a row's name that stands for its id alone."""
    return name[:_ID_PART]


class _Line(msgspec.Struct, omit_defaults=True):
    """A batch was begun with these rows, or the results of these are in."""

    batch: str
    rows: list[str]
    ended: bool = False


class Ledger:
    """The batches of a job, as all its shards write them down; this one's `writer` is its name."""

    def __init__(self, folder: Path, writer: str) -> None:
        self._folder = folder
        self._engine = FileEngine(folder, writer)

    def open_batches(self) -> dict[str, list[str]]:
        """Return the rows of each batch whose results are not in. Raises SwinkError for a line
        that is none."""
        begun: dict[str, list[str]] = {}
        ended: dict[str, set[str]] = {}
        for number, (_, line) in enumerate(self._engine.lines(), 1):
            try:
                said = msgspec.json.decode(line, type=_Line)
            except msgspec.DecodeError as error:
                raise SwinkError(
                    f"{self._folder}: line {number} is no batch: {error}",
                    title="The ledger of batches is damaged",
                    resolution="Restore it, or take the line out: rows that nothing else there "
                    "names are handed over again.",
                ) from error
            if said.ended:
                ended.setdefault(said.batch, set()).update(said.rows)
            else:
                begun[said.batch] = said.rows
        left = {
            id: [row for row in rows if row not in ended.get(id, ())] for id, rows in begun.items()
        }
        return {id: rows for id, rows in left.items() if rows}

    def begin(self, id: str, rows: Sequence[str]) -> None:
        """Write down a batch that was begun."""
        self._engine.append(msgspec.json.encode(_Line(id, [*rows])))

    def end(self, id: str, rows: Sequence[str]) -> None:
        """Write down that the results of these rows of a batch are in the journal."""
        self._engine.append(msgspec.json.encode(_Line(id, [*rows], ended=True)))

    def close(self) -> None:
        """Have all written to the disk."""
        self._engine.close()
