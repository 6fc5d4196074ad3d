"""The answers that a package lists, and their messages."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec

from swink_core import (
    AssistantMessage,
    CodecError,
    Cost,
    Done,
    Event,
    Model,
    Notice,
    StopReason,
    load,
    replace,
)
from swink_testing.calls import call_of
from swink_testing.conformance.answers.recorded_answers import UNWRITTEN, writer
from swink_testing.conformance.answers.streaming import message_difference, notice_difference
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.failures.listed_errors import events_of_call
from swink_testing.conformance.requests.listed_requests import listed_model
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse, fold, source_of_call

__all__ = ["LISTED_ANSWERS", "check_listed_answers"]

LISTED_ANSWERS = "answers.jsonl"
"""The file of a package that says what answers become, a row a line."""


class Listed(msgspec.Struct):
    """An answer, and what becomes of it.

    `frames` are of a stream: the JSON data or the text of each; `whole` is the JSON
    data of an answer that was not streamed. `message` is as `dump` writes one, `notices` are
    those that are told, as `code: detail` or the beginning of it. `model` is an id (`None`: the
    first of the catalogue), and `provider` the one of the package that it is of (`None`: whichever
    is checked), as the message is, unless it names another. `options` are of the call that it
    answers, such as `max_output_chars`. The cost is compared if the message has one:
    of a stream, the total that the stream itself reports.
    """

    about: str
    message: dict[str, Any]
    frames: list[Any] = []
    whole: Any = None
    notices: list[str] = []
    model: str | None = None
    provider: str | None = None
    options: dict[str, Any] = {}


def check_listed_answers(subject: Subject) -> None:
    """Each row of the package's `answers.jsonl` becomes its message."""
    listed = subject.shipped(LISTED_ANSWERS, msgspec.json.Decoder(Listed).decode_lines)
    rows = [*enumerate(listed or (), 1)]
    rows = [(number, row) for number, row in rows if row.provider in (None, subject.name)]
    if not rows:
        raise DoesNotApply(f"its package does not ship {LISTED_ANSWERS}")
    if not subject.parses or not writer(subject).is_data:
        raise DoesNotApply(UNWRITTEN)

    async def read() -> None:
        for number, row in rows:
            where = f"{LISTED_ANSWERS}, line {number} ({row.about})"
            model = listed_model(subject, row.model)
            _compare(where, row, model, await _events(subject, row, model))

    asyncio.run(read())


async def _events(subject: Subject, row: Listed, model: Model) -> list[Event]:
    if row.whole is not None:
        http = subject.http(MemoryResponse.of_json(row.whole))
        return await events_of_call(subject, http, model, transport="buffered", **row.options)
    answer = writer(subject)
    texts = (each if isinstance(each, str) else json.dumps(each) for each in row.frames)
    frames = [answer.frame(text.encode()) for text in texts]
    if row.options:
        http = subject.http(MemoryResponse(frames, headers=subject.answers()[0].headers))
        return await events_of_call(subject, http, model, **row.options)
    call = call_of(subject.provider, model, id="memory")
    events = [event async for event in source_of_call(subject.provider, call, [b"".join(frames)])]
    if isinstance(events[-1], Done) and (total := call.attempt.reported_cost) is not None:
        events[-1].cost = Cost(total=total)
    return events


def _compare(where: str, row: Listed, model: Model, events: list[Event]) -> None:
    try:
        expected = load(AssistantMessage, row.message)
    except CodecError as error:
        fail(f"{where}: its message cannot be read: {error}")
    provider = expected.provider or model.provider
    expected = replace(expected, provider=provider, model=expected.model or model.id)
    found = fold(events, model.provider, model.id)
    sent = row.frames if row.whole is None else row.whole
    if found.stop_reason is StopReason.ERROR and expected.stop_reason is StopReason.ERROR:
        said = expected.error_message or ""
        told = found.error_message or ""
        require(said in told, f"{where} should say {said!r}: {told}", sent, said)
        found, expected = (replace(m, stop_reason=None) for m in (found, expected))
    if (difference := message_difference(found, expected)) is not None:
        fail(f"{where}: {difference}", sent, row.message)
    cost = expected.cost or found.cost
    require(found.cost == cost, f"{where}: it costs {found.cost}, expected {cost}", sent, cost)
    notices = [event for event in events if isinstance(event, Notice)]
    if (difference := notice_difference(notices, row.notices)) is not None:
        fail(f"{where}: {difference}", sent, row.notices)
