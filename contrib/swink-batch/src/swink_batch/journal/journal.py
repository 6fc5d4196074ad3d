"""The stored results of rows by id, as lines of JSON in a storage engine (see `engines`).

    {"job": …}                          the first line: the job
    CHECKGENERATION {"id": …}           an answer; CHECK is a digest of the request, 16 hex digits

Files of several writers have no common order. Each line therefore contains a generation, in hex
digits: 1 + the highest generation that its writer had read. Lines of earlier versions do not have
one; their generation is 0. Of the lines for an id, the last one of the highest generation counts. A
row with a known id but a different check has changed, and is sent again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from swink_batch.answers import Answer, Id
from swink_batch.forms import key_of
from swink_batch.journal.engines import Engine
from swink_batch.journal.index import Index
from swink_core import Charge, SwinkError, UsageError

__all__ = ["Journal", "Kept"]

_FAILED = 1 << 61
"""The bit of an index value that marks a failed row; the lower bits are the line's position + 1."""


class _Error(msgspec.Struct):
    kind: str


class _Head(msgspec.Struct):
    id: Id
    error: _Error | None = None
    cost: float | None = None
    estimated: bool = False
    attempts: int = 1
    usage: dict[str, int] = {}


class _Job(msgspec.Struct):
    job: dict[str, Any]


_encode = msgspec.json.Encoder().encode
_read_head = msgspec.json.Decoder(_Head).decode
_read_job = msgspec.json.Decoder(_Job).decode


class Kept(NamedTuple):
    """A row's stored result: the answer as JSON, and its kind of failure (`None`: success)."""

    line: bytes
    failure: str | None


class Journal:
    """The answers of a job.

    `charge` and `requests` are the cost and the number of requests of all answers that the journal
    contained when it was last read. `job` contains the settings that affect the answers. Opening a
    journal whose first line contains different settings raises UsageError.
    """

    def __init__(self, engine: Engine, job: dict[str, Any]) -> None:
        self.index = Index()
        self._engine = engine
        self._job = _jsonable(job)
        self.charge = Charge()
        self.requests = 0
        self._latest = 0  # the highest generation that was read
        try:
            self._is_begun = bool(self.read())
        except BaseException:
            engine.close()
            raise

    def begin(self) -> None:
        """Write the description of the job, if the journal has none."""
        if not self._is_begun:
            self._engine.append(_encode(_Job(self._job)))
            self._is_begun = True

    def read(self) -> int:
        """Read the lines added since the last call, and return their number."""
        lines = 0
        for place, line in self._engine.lines():
            lines += 1
            try:
                if line.startswith(b"{"):
                    written = _read_job(line).job
                else:
                    written, (_, generation, said) = None, _parts(line)
                    head = _read_head(said)
            except (msgspec.DecodeError, ValueError) as error:
                raise SwinkError(
                    f"{self._engine.where(place)} is no answer: {error}",
                    title="The journal is damaged",
                    resolution="swink writes no such line. Restore the journal, or remove the "
                    "line: its row is then sent again.",
                ) from error
            if written is not None:
                self._expect(written)
                continue
            key = key_of(head.id)
            if generation >= self._latest or generation >= self._generation_of(key):
                self._put(key, place, head.error is not None)
            self._latest = max(self._latest, generation)
            self.charge += Charge(_tokens_in(head.usage), head.cost or 0.0, head.estimated)
            if head.error is None or head.error.kind != "bad_row":
                self.requests += head.attempts
        return lines

    def _expect(self, written: dict[str, Any]) -> None:
        job = self._job
        differ = [name for name in {**written, **job} if written.get(name) != job.get(name)]
        if differ:
            name = differ[0]
            raise UsageError(
                f"{name} was {written.get(name)!r} in the run of the journal, but is "
                f"{job.get(name)!r} now",
                title="The journal belongs to another job",
                resolution="Pass another output or --journal, or delete the journal to send all "
                "rows again.",
            )

    def kept(self, key: int, check: int) -> Kept | None:
        """Return a row's stored result; `None` if the row is new or has changed."""
        if not (known := self.index.get(key)):
            return None
        its_check, _, line = _parts(self._line(known))
        if its_check != check:
            return None
        error = _read_head(line).error if known & _FAILED else None
        return Kept(line, error.kind if error is not None else None)

    def add(self, key: int, check: int, answer: Answer) -> bytes:
        """Store an answer, and return the line that was written."""
        self.begin()
        line = _encode(answer)
        place = self._engine.append(b"%016x%x %b" % (check, self._latest + 1, line))
        self._put(key, place, answer.error is not None)
        return line

    def _put(self, key: int, place: int, failed: bool) -> None:
        self.index.put(key, place + 1 | (_FAILED if failed else 0))

    def _generation_of(self, key: int) -> int:
        """Return the generation of the line that counts for an id; 0 for an unknown id."""
        known = self.index.get(key)
        return _parts(self._line(known))[1] if known else 0

    def _line(self, known: int) -> bytes:
        return self._engine.read((known & ~_FAILED) - 1)

    def close(self) -> None:
        """Flush to disk."""
        self._engine.close()


def _parts(line: bytes) -> tuple[int, int, bytes]:
    """Split a line into the check, the generation, and the answer as JSON."""
    marks, _, answer = line.partition(b" ")
    return int(line[:16], 16), int(marks[16:] or b"0", 16), answer


def _tokens_in(usage: dict[str, int]) -> int:
    parts = usage.get("input", 0) + usage.get("output", 0)
    return max(usage.get("total", 0), parts)


def _jsonable(job: dict[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(job, enc_hook=repr))
    return data
