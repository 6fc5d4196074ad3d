"""Read the rows of a JSONL, CSV or Parquet file, or of any iterable, one at a time.

Only a part of a file is in memory at a time. An invalid line does not end a run: it becomes a
`BadRow`.
"""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import length_hint
from pathlib import Path
from typing import IO, Any, TypeAlias

import msgspec
from attrs import define

from swink_core import MediaError, UsageError

__all__ = ["BadRow", "Row", "Rows", "count_rows", "read_rows"]

Row: TypeAlias = Mapping[str, Any] | str
"""A row: a mapping of fields, or a prompt."""

Rows: TypeAlias = str | Path | Iterable[Row]
"""The rows of a run: the path of a file, or an iterable."""

PARQUET_ROWS = 1024
"""How many rows of a Parquet file are read at a time."""

MOST_FIELD = 2**31 - 1
"""The maximum length of a CSV field: the largest value that Python accepts on every platform.

The default of Python's csv module, 131,072, is too short for long documents.
"""

_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".parquet")


@define(frozen=True)
class BadRow:
    """A row that could not be read, with the reason."""

    why: str


def read_rows(source: Rows) -> Iterator[Row | BadRow]:
    """Yield the rows of a file or an iterable. Raises UsageError for a file that cannot be read."""
    if not isinstance(source, str | Path):
        for number, row in enumerate(source, 1):
            is_row = isinstance(row, Mapping | str)
            yield row if is_row else BadRow(f"row {number} is neither a mapping nor a string")
        return
    path = _checked(Path(source))
    if path.suffix == ".csv":
        yield from _csv_rows(path)
    elif path.suffix == ".parquet":
        with _parquet(path) as file:
            for batch in file.iter_batches(PARQUET_ROWS):
                yield from batch.to_pylist()
    else:
        yield from _json_lines(path)


def count_rows(source: Rows) -> int | None:
    """Return the approximate number of rows; `None` if it is unknown until all rows are read."""
    if not isinstance(source, str | Path):
        return length_hint(source) or None
    path = _checked(Path(source))
    if path.suffix == ".parquet":
        with _parquet(path) as file:
            return int(file.metadata.num_rows)
    if path.suffix == ".csv":  # a row may span several lines
        with _csv_file(path) as text:
            return max(0, sum(1 for row in csv.reader(text) if row) - 1)
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            lines, last = lines + part.count(b"\n"), part[-1:]
    return lines + (last != b"\n")


def _checked(path: Path) -> Path:
    if path.suffix not in _SUFFIXES:
        raise UsageError(
            f"{path} is not a supported file of rows",
            resolution=f"Its name must end in one of {', '.join(_SUFFIXES)}.",
        )
    if not path.is_file():
        raise MediaError(f"{path}: no such file", resolution="Pass the file of requests.")
    return path


def _csv_rows(path: Path) -> Iterator[Row | BadRow]:
    with _csv_file(path) as file:
        rows = csv.DictReader(file)
        names = rows.fieldnames or ()
        if not _is_utf8(names):
            raise MediaError(
                f"{path}: its first line is not UTF-8", resolution="Save the file as UTF-8."
            )
        if twice := [name for name in names if name and names.count(name) > 1]:
            raise MediaError(
                f"{path}: the header names {twice[0]!r} twice",
                resolution="Give each column a unique name.",
            )
        named = len(names)
        for row in rows:
            if None in row:
                many = named + len(row[None])  # where DictReader stores surplus fields
                yield BadRow(
                    f"line {rows.line_num} has {many} fields, but the header {named}: put values "
                    'that contain commas in "quotes"'
                )
            elif None in row.values():
                few = named - [*row.values()].count(None)
                yield BadRow(f"line {rows.line_num} has {few} fields, but the header {named}")
            elif not _is_utf8(row.values()):
                yield _not_utf8(rows.line_num)
            else:
                yield row


def _csv_file(path: Path) -> IO[str]:
    csv.field_size_limit(MOST_FIELD)
    return path.open(newline="", encoding="utf-8-sig", errors="surrogateescape")


def _not_utf8(number: int) -> BadRow:
    return BadRow(f"line {number} is not UTF-8: save the file as UTF-8")


def _is_utf8(fields: Iterable[str]) -> bool:
    """Return True if all fields can be encoded as UTF-8."""
    try:
        "".join(fields).encode()
    except UnicodeEncodeError:
        return False
    return True


def _json_lines(path: Path) -> Iterator[Row | BadRow]:
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number == 1:
                line = line.removeprefix(BOM_UTF8)
            if not line.strip():
                continue
            try:
                row = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                is_text = _is_utf8([line.decode(errors="surrogateescape")])
                no_json = BadRow(f"line {number} is not JSON: {error}")
                yield no_json if is_text else _not_utf8(number)
                continue
            is_row = isinstance(row, dict | str)
            yield row if is_row else BadRow(f"line {number} is neither an object nor a string")


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file. Raises MediaError for a damaged file or another format."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise UsageError(
            f"{path} cannot be read: pyarrow is not installed",
            resolution="pip install 'swink-batch[parquet]', or write the rows as JSONL.",
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        raise MediaError(
            f"{path} cannot be read as Parquet: {error}", resolution="Create the file again."
        ) from error
