"""Record which rows were submitted in which batches of a vendor's batch API.

The ledger is a folder beside the journal; its name is the journal's name with `.batches` appended.
Each shard (a process that sends a part of the rows) writes one file in this folder and reads all
files. When a batch is submitted, a line with the names of the batch's rows is written; later lines
contain the names of the rows whose results have been stored in the journal. If a batch has results
for rows that are not part of the current run, a later run that contains these rows stores the
results. The name of a row contains a digest of the row's content, so a changed row has a new name.

Before a batch is submitted, its rows are recorded with a token that the vendor stores with the
batch. If no later line of the ledger contains the token, the outcome of the submission is unknown:
the run was killed before the vendor answered, or the vendor's answer was lost. The next run looks
for the token in the vendor's list of batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from attrs import define, field

from swink_batch.forms import Request
from swink_batch.journal import FileEngine
from swink_core import Charge, SwinkError

__all__ = ["Intent", "Ledger", "id_part", "row_name"]

_ID_PART = len("row-") + 16


def row_name(request: Request) -> str:
    """Return the name under which a row is sent to the vendor: digests of id and content."""
    return f"row-{request.key:016x}-{request.check:016x}"


def id_part(name: str) -> str:
    """Return the part of a row's name that contains the digest of the row's id."""
    return name[:_ID_PART]


@define
class Intent:
    """A submission whose outcome is unknown.

    `at` is the Unix time in seconds at which the submission began; `held` contains the tokens and
    the cost reserved for the rows.
    """

    token: str
    rows: list[str]
    at: float
    held: Charge = field(factory=Charge)
    known: frozenset[str] = field(default=frozenset(), repr=False)
    """The ids of batches that the ledger already assigns to other submissions."""


class _Line(msgspec.Struct, omit_defaults=True):
    """A line of the ledger: it adds rows to a batch, or marks rows of a batch as finished.

    `batch` is empty if the batch has no id yet, or if its submission failed (`ended` is true).
    """

    batch: str
    rows: list[str]
    ended: bool = False
    token: str = ""
    at: float = 0.0
    tokens: int = 0
    cost: float | None = None

    @property
    def held(self) -> Charge:
        """The amount reserved for the rows; zero for a run without limits."""
        return Charge(self.tokens, self.cost, True)


class Ledger:
    """The batches of a job, as recorded by all its shards; `writer` is the name of this shard."""

    def __init__(self, folder: Path, writer: str) -> None:
        self._folder = folder
        self._engine = FileEngine(folder, writer)
        self._read: list[_Line] = []

    def open_batches(self) -> dict[str, list[str]]:
        """Return the unfinished batches: the names of rows without a stored result, by batch id.

        Raises SwinkError for an invalid line.
        """
        begun: dict[str, list[str]] = {}
        ended: dict[str, set[str]] = {}
        for line in self._lines():
            if not line.batch:
                continue
            if line.ended:
                ended.setdefault(line.batch, set()).update(line.rows)
            else:
                begun[line.batch] = line.rows
        left = {
            id: [row for row in rows if row not in ended.get(id, ())] for id, rows in begun.items()
        }
        return {id: rows for id, rows in left.items() if rows}

    def intents(self) -> list[Intent]:
        """Return submissions with an unknown outcome. Raises SwinkError for an invalid line."""
        lines = self._lines()
        settled = {line.token for line in lines if line.batch or line.ended}
        known = frozenset(line.batch for line in lines if line.batch)
        return [
            Intent(line.token, line.rows, line.at, line.held, known)
            for line in lines
            if not line.batch and line.token not in settled
        ]

    def held(self) -> tuple[Charge, int]:
        """Return the charge reserved for the rows without results, and the number of these rows."""
        held, number = Charge(), 0
        left = self.open_batches()
        for line in self._lines():
            if line.batch in left and not line.ended:
                rows = len(left[line.batch])
                cost = None if line.cost is None else line.cost * rows / len(line.rows)
                held += Charge(line.tokens * rows // len(line.rows), cost, True)
                number += rows
        for intent in self.intents():
            held += intent.held
            number += len(intent.rows)
        return held, number

    def intend(self, token: str, rows: Sequence[str], at: float, held: Charge) -> None:
        """Record that a batch of these rows is about to be submitted with a token."""
        line = _Line("", [*rows], token=token, at=at, tokens=held.tokens, cost=held.cost)
        self._write(line)

    def withdraw(self, token: str) -> None:
        """Record that the submission with this token failed."""
        self._write(_Line("", [], ended=True, token=token))

    def begin(self, id: str, rows: Sequence[str], token: str, held: Charge) -> None:
        """Record a batch that was submitted with a token."""
        self._write(_Line(id, [*rows], token=token, tokens=held.tokens, cost=held.cost))

    def end(self, id: str, rows: Sequence[str]) -> None:
        """Record that the journal contains the results of these rows of a batch."""
        self._write(_Line(id, [*rows], ended=True))

    def close(self) -> None:
        """Flush to disk."""
        self._engine.close()

    def _write(self, line: _Line) -> None:
        self._engine.append(msgspec.json.encode(line))

    def _lines(self) -> list[_Line]:
        """Read the lines added since the last call, and return all lines."""
        for _, line in self._engine.lines():
            number = len(self._read) + 1
            try:
                self._read.append(msgspec.json.decode(line, type=_Line))
            except msgspec.DecodeError as error:
                raise SwinkError(
                    f"{self._folder}: line {number} is not a batch: {error}",
                    title="The ledger of batches is damaged",
                    resolution="Restore it, or remove the line: rows that no other line lists "
                    "are submitted again.",
                ) from error
        return self._read
