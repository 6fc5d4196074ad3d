"""Encode and decode cached answers: lists of events, one list for each network read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from swink_cache.source import Batch
from swink_core import (
    Cost,
    Done,
    Event,
    Notice,
    Start,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
    dump,
    load,
    replace,
)

__all__ = ["CACHE_HIT", "METADATA", "decode", "encode"]

CACHE_HIT = "cache_hit"
"""The code of the notice that an answer came from the cache."""

METADATA = "swink_cache"
"""The metadata key for the time and the cost of the original answer."""

_DELTAS: dict[str, Any] = {kind.type: kind for kind in (TextDelta, ThinkingDelta, ToolCallDelta)}


class _Answer(msgspec.Struct):
    at: str
    batches: list[list[Any]]


def encode(batches: Sequence[Sequence[Event]]) -> bytes:
    """Encode a complete answer as bytes."""
    rows = [[_data(event) for event in batch] for batch in batches if batch]
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return msgspec.json.encode(_Answer(at, rows))


def decode(data: bytes) -> list[Batch]:
    """Decode the events of a cached answer, add a `cache_hit` notice, and set the cost to 0.

    Raises ValueError for invalid data.
    """
    answer = msgspec.json.decode(data, type=_Answer)
    batches = [[_event(row) for row in batch] for batch in answer.batches]
    first, done = batches[0], batches[-1][-1]
    if not (isinstance(first[0], Start) and isinstance(done, Done)):
        raise ValueError("an answer that was kept has no beginning or no end")
    batches[0] = [first[0], Notice(CACHE_HIT, f"given first at {answer.at}"), *first[1:]]
    batches[-1][-1] = _at_no_cost(done, answer.at)
    return batches


def _at_no_cost(done: Done, at: str) -> Done:
    known = {"usage": dump(done.usage), "cost": dump(done.cost), "request_id": done.request_id}
    once = {"at": at, **{name: value for name, value in known.items() if value is not None}}
    return replace(
        done,
        usage=Usage(input=0, output=0, total=0, reported=True),
        cost=Cost(input=0.0, output=0.0, total=0.0),
        request_id=None,
        metadata={**(done.metadata or {}), METADATA: once},
    )


def _data(event: Any) -> Any:
    if event.type in _DELTAS:  # most events are deltas
        return [event.type, event.content_index, event.delta]
    return dump(event)


def _event(row: Any) -> Event:
    if isinstance(row, list):
        made: Event = _DELTAS[row[0]](row[1], row[2])
        return made
    return load(Event, row)
