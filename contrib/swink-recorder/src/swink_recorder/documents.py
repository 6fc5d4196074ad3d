"""Documents of calls, as stores keep them: quick to write, since a call's end waits for nobody.

    {"call": what a list shows of it}
    {"swink_call": 1, "attempts": [{as in a cassette, but
      "reads": [[seconds since the answer began, bytes], …],
      "texts": {the block's index: all of its deltas, …},
      "events": [[seconds since the attempt began, event],
                 [seconds, type, the block's index, [characters of each delta, …]], …]}, …]}
    the bytes of all reads, one after the other

Most of an answer are its deltas: those of a block are one text, and those that came with one
network read are one row. Bytes are kept as they came. What is hidden of a stream stays as long as
it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from swink_recorder.capture import AttemptTape, KeptDeltas
from swink_recorder.entries import Buffer, Entry, FirstLine
from swink_recorder.recording import RecordingError
from swink_recorder.scrub import hidden, hidden_text
from swink_recorder.takes import Take, TakeHead, take_from, take_head, take_of, to_json

__all__ = ["read_document", "write_document"]

VERSION = 1

PART = 256 * 1024
"""Bytes in which a body is handed on: what a store copies of it stays near the processor."""


class _Attempt(TakeHead, kw_only=True):
    reads: list[tuple[float, int]]
    texts: dict[int, str]
    events: list[list[Any]]


class _Head(msgspec.Struct):
    swink_call: int
    attempts: list[_Attempt]


def write_document(
    entry: Entry, asked: Sequence[tuple[AttemptTape, dict[str, Any]]], secrets: Iterable[str]
) -> list[Buffer]:
    """Return a call's document, in parts: of its tapes, each with what was asked."""
    secrets = {*secrets}
    attempts, bodies = [], list[Buffer]()
    for tape, request in asked:
        take = take_of(tape, request, with_events=False)
        body, chunks = take.recording.without(secrets)
        reads = [(round(at, 6), size) for at, size in chunks]
        attempts.append({**take_head(take), "reads": reads, **_columns(tape, secrets)})
        whole = memoryview(body)
        bodies += [whole[start : start + PART] for start in range(0, len(whole), PART)]
    lines = FirstLine(entry), {"swink_call": VERSION, "attempts": attempts}
    return [*(hidden(to_json(line).encode() + b"\n", secrets) for line in lines), *bodies]


def read_document(data: bytes, where: str | Path) -> tuple[list[Take], dict[str, Any]]:
    """Return the takes of a document, and what it says of their call.

    Raises RecordingError, which names `where` and says what is wrong.
    """
    try:
        first, second, body = data.split(b"\n", 2)
        head = msgspec.convert(json.loads(second), _Head, str_keys=True)
        if head.swink_call != VERSION:
            raise ValueError(f"version {head.swink_call}; this swink-recorder reads {VERSION}")
        takes = []
        for attempt in head.attempts:
            size = sum(size for _, size in attempt.reads)
            if size > len(body):
                raise ValueError("the answer is cut off")
            events = [*_events(attempt)]
            takes.append(take_from(attempt, body[:size], attempt.reads, events))
            body = body[size:]
        return takes, json.loads(first)["call"]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise RecordingError(
            f"{where}: {error}",
            title="Broken recording",
            resolution="Delete it with `swink log delete`, or restore it.",
        ) from error


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
