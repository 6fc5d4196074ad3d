"""What has become of each row, by its id, on top of an engine's lines.

    {"job": …}                          the first line: what the answers are of
    CHECK {"id": …, "text": …}          an answer; CHECK, 16 hex digits, stands for what was asked

A later line of an id replaces an earlier one. A row whose id is known and whose check differs says
something else now, and is asked again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from swink_batch.answers import Answer
from swink_batch.forms import digest
from swink_batch.journal.engines import Engine
from swink_batch.journal.index import Index
from swink_core import SwinkError, UsageError

__all__ = ["Journal"]

_FAILED = 1 << 63
"""The bit of a place that says that the row failed."""


class _Error(msgspec.Struct):
    kind: str


class _Head(msgspec.Struct):
    id: str
    error: _Error | None = None
    cost: float | None = None
    usage: dict[str, int] = {}


class _Job(msgspec.Struct):
    job: dict[str, Any]


_encode = msgspec.json.Encoder().encode
_read_head = msgspec.json.Decoder(_Head).decode
_read_job = msgspec.json.Decoder(_Job).decode


class Journal:
    """The answers of a job. `cost` is what those cost that were there when it was opened, and
    `dearest` the most that one of them did.

    `job` says what the answers are of: another job's journal is refused with a UsageError.
    """

    def __init__(self, engine: Engine, job: dict[str, Any]) -> None:
        self._engine = engine
        self._index = Index()
        self.cost = self.dearest = 0.0
        try:
            self._open(_jsonable(job))
        except BaseException:
            engine.close()
            raise

    def _open(self, job: dict[str, Any]) -> None:
        lines = 0
        for place, line in self._engine.lines():
            lines += 1
            if line.startswith(b"{"):
                self._expect(job, line)
                continue
            try:
                head, check = _read_head(line[17:]), int(line[:16], 16)
            except (msgspec.DecodeError, ValueError) as error:
                raise SwinkError(
                    f"line {lines} is no answer: {error}",
                    title="The journal is damaged",
                    resolution="Nothing that swink writes looks so. Restore the journal, or take "
                    "the line out: its row is asked again.",
                ) from error
            key, bad = digest(head.id.encode()), head.error is not None
            self._index.put(key, place | (_FAILED if bad else 0), check)
            self.cost += head.cost or 0.0
            self.dearest = max(self.dearest, head.cost or 0.0)
        if not lines:
            self._engine.append(_encode(_Job(job)))

    def _expect(self, job: dict[str, Any], line: bytes) -> None:
        written = _read_job(line).job
        differ = [name for name in {**written, **job} if written.get(name) != job.get(name)]
        if differ:
            name = differ[0]
            raise UsageError(
                f"{name} was {written.get(name)!r} in the run that the journal is of, and is "
                f"{job.get(name)!r} now",
                title="The journal is another job's",
                resolution="Name another output or --journal, or delete the journal to ask all "
                "rows anew.",
            )

    def has(self, id: str, check: int, retry_failed: bool = False) -> bool:
        """Tell whether a row that says this needs no asking: it was answered, or it failed and is
        not to be tried again."""
        known = self._index.get(digest(id.encode()))
        if known is None or known[1] != check & 0xFFFFFFFF:
            return False
        return not (retry_failed and known[0] & _FAILED)

    def add(self, answer: Answer, check: int) -> bytes:
        """Keep an answer, and return its line."""
        line = _encode(answer)
        place = self._engine.append(b"%016x %b" % (check, line))
        failed = _FAILED if answer.error is not None else 0
        self._index.put(digest(answer.id.encode()), place | failed, check)
        return line

    def line(self, id: str) -> bytes | None:
        """Return the line of an id's answer; `None` where there is none."""
        known = self._index.get(digest(id.encode()))
        return None if known is None else self._engine.read(known[0] & ~_FAILED)[17:]

    def close(self) -> None:
        """Have all written to the disk."""
        self._engine.close()


def _jsonable(job: dict[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(job, enc_hook=repr))
    return data
