"""The documents in which stores save calls, in a format that is fast to write.

    {"call": facts for lists}
    {"swink_call": 2, "attempts": [{as in a cassette, but
      "legs": [{…, "response": {…, "chunks": [[seconds since the response's head, bytes], …]}}, …],
      "texts": {the block's index: all of its deltas, …},
      "events": [[seconds since the attempt began, event],
                 [seconds, type, the block's index, [characters of each delta, …]], …]}, …]}
    the bytes of all reads, one after the other

Because most events of an answer are deltas, all deltas of a block are stored as one text, and each
network read with deltas as one row with the lengths of the deltas. The bytes are stored unchanged,
except that each character of a credential in a stream is replaced by an asterisk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from swink_recorder.capture import AttemptTape, KeptDeltas
from swink_recorder.entries import Buffer, Entry, FirstLine
from swink_recorder.recording import RecordingError, other_version
from swink_recorder.scrub import hidden, hidden_text
from swink_recorder.sources import Sources
from swink_recorder.takes import Body, Take, TakeHead, take_from, take_head, take_of, to_json

__all__ = ["read_document", "write_document"]

VERSION = 2

PART = 256 * 1024
"""The chunk size for processing a body, in bytes, small enough for the processor's cache."""


class _Attempt(TakeHead, kw_only=True):
    texts: dict[int, str]
    events: list[list[Any]]


class _Version(msgspec.Struct):
    swink_call: int


class _Head(msgspec.Struct):
    swink_call: int
    attempts: list[_Attempt]


def write_document(
    entry: Entry, asked: Sequence[tuple[AttemptTape, dict[str, Any]]], secrets: Iterable[str]
) -> list[Buffer]:
    """Return the document of a call, in parts.

    `asked` contains the tape of each attempt with the attempt's canonical request.
    """
    every = {*secrets}
    attempts: list[dict[str, Any]] = []
    bodies: list[Buffer] = []
    for tape, request in asked:
        take = take_of(tape, request, with_events=False)
        legs = take.recording.legs
        sources = Sources(legs, every, entry.model)
        every |= sources.secrets
        rows = []
        for leg in legs:
            body, chunks = sources.body(leg)
            row = sources.row(leg, chunks=[(round(at, 6), size) for at, size in chunks])
            rows += [row] if row else []
            whole = memoryview(body)
            bodies += [whole[start : start + PART] for start in range(0, len(whole), PART)]
        columns = _columns(tape, sources.secrets)
        attempts.append({**take_head(take), "legs": _marked(rows, sources), **columns})
    lines = FirstLine(entry), {"swink_call": VERSION, "attempts": attempts}
    return [*(hidden(to_json(line).encode() + b"\n", every) for line in lines), *bodies]


def _marked(rows: list[dict[str, Any]], sources: Sources) -> Any:
    text = to_json(rows).encode()
    marked = sources.mark(text)
    return rows if marked == text else json.loads(marked)


def read_document(data: bytes, path: str | Path, id: str = "") -> tuple[list[Take], dict[str, Any]]:
    """Return the takes (recorded attempts) of a document, and the description of the call.

    `path` is the file with the document, and `id` the id of the call if the file is a store of
    calls. Raises RecordingError, which names both and the problem.
    """
    part = f", call {id}" if id else ""
    try:
        first, second, body = data.split(b"\n", 2)
        told = json.loads(second)
        version = msgspec.convert(told, _Version).swink_call
        if version == VERSION:
            head = msgspec.convert(told, _Head, str_keys=True)
            takes = []
            for attempt in head.attempts:
                bodies, body = _bodies(attempt, body)
                takes.append(take_from(attempt, bodies, [*_events(attempt)]))
            return takes, json.loads(first)["call"]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise RecordingError(
            f"{path}{part}: {error}",
            title="Broken recording",
            resolution="Delete it with `swink log delete`, or restore it.",
        ) from error
    raise other_version(path, version, VERSION, part)


def _bodies(attempt: _Attempt, data: bytes) -> tuple[list[Body], bytes]:
    """Return an attempt's response bodies, with their chunks, and the data that follow them.

    Raises ValueError if data are missing.
    """
    bodies: list[Body] = []
    for leg in attempt.legs:
        chunks = leg.response.chunks if leg.response else []
        size = sum(size for _, size in chunks)
        if size > len(data):
            raise ValueError("the answer is truncated")
        bodies.append((data[:size], chunks))
        data = data[size:]
    return bodies, data


def _columns(tape: AttemptTape, secrets: Iterable[str]) -> dict[str, Any]:
    texts: dict[int, list[str]] = {}
    events: list[Any] = []
    for kept in tape.kept:
        if isinstance(kept, KeptDeltas):
            texts.setdefault(kept.index, []).extend(kept.texts)
            sizes = [*map(len, kept.texts)]
            events.append((round(kept.seconds, 6), kept.type, kept.index, sizes))
        else:
            events += [(round(at, 6), event) for at, event in kept.data()]
    joined = {index: hidden_text("".join(pieces), secrets) for index, pieces in texts.items()}
    return {"texts": joined, "events": events}


def _events(attempt: _Attempt) -> Iterator[tuple[float, Any]]:
    places = dict.fromkeys(attempt.texts, 0)
    for at, event, *deltas in attempt.events:
        if not deltas:
            yield at, event
            continue
        index, sizes = deltas
        for size in sizes:
            start = places[index]
            places[index] += size
            delta = attempt.texts[index][start : start + size]
            yield at, {"type": event, "content_index": index, "delta": delta}
