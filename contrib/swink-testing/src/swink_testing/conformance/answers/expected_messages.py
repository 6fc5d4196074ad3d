"""Check that answers are parsed to the expected messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from swink_core import (
    AssistantMessage,
    CodecError,
    Cost,
    Done,
    Error,
    Event,
    Model,
    Notice,
    StopReason,
    load,
    replace,
)
from swink_recorder.recording import Recording
from swink_testing.calls import call_of
from swink_testing.conformance.answers.recorded_answers import writer
from swink_testing.conformance.check import fail, independent_part, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse, comparable, fold, source_of_call

__all__ = [
    "LISTED_ANSWERS",
    "check_expected_messages",
    "message_difference",
    "notice_difference",
]

LISTED_ANSWERS = "answers.jsonl"
"""The name of a package's file with answers and their expected messages, one pair on each line."""


class Listed(msgspec.Struct):
    """An answer and the expected message.

    `frames` are the frames of a stream, each as JSON data or as text. `whole` is the JSON data of
    an answer that was not streamed. `message` is the expected message in the format that `dump`
    writes. `notices` contains a part of each expected notice's text, `code: detail (path)`.
    `model` is an id (`None`: the first model in the catalogue). `provider` is the only provider of
    the package to which the row applies (`None`: the row applies to all). If `message` does not
    name a provider, the message is expected to name the provider under test. `options` are the
    options of the call, such as `max_output_chars`. The cost is compared only if `message` contains
    one; for a stream, only the total cost that the API reports is compared.
    """

    about: str
    message: dict[str, Any]
    frames: list[Any] = []
    whole: Any = None
    notices: list[str] = []
    model: str | None = None
    provider: str | None = None
    options: dict[str, Any] = {}


def check_expected_messages(subject: Subject) -> None:
    """Each recorded or listed answer is parsed to the expected message and notices.

    The answers are in `recordings/`, in `whole_answers/` and in the rows of `answers.jsonl`. If an
    answer from `whole_answers/` is cut in half, the call must fail.
    """
    subject.require_parser()
    rows = subject.rows(LISTED_ANSWERS, Listed) if writer(subject).is_data else []
    is_whole = subject.speaks_http and subject.provider.buffered
    whole_answers = subject.whole_answers if is_whole else []
    recordings = subject.answers() if subject.recordings or not (rows or whole_answers) else []

    async def compare() -> None:
        for recording in recordings:
            with independent_part():
                await _require_recorded(subject, recording)
        for recording in whole_answers:
            with independent_part():
                await _require_whole(subject, recording)
        for where, row in rows:
            with independent_part():
                await _require_listed(subject, f"{where} ({row.about})", row)

    asyncio.run(compare())


async def _require_recorded(subject: Subject, recording: Recording) -> None:
    several = subject.speaks_http and len(recording.legs) > 1
    events = await (subject.played_events if several else subject.parse)(recording)
    where, message = f"recording {recording.name}", recording.message
    assert message is not None  # answers() returns only those that have a message
    expected = replace(message, provider=subject.name)
    found = fold(events, subject.name, recording.model)
    _compare(where, found, expected, recording.body)
    _compare_notices(f"{where} (notices.json)", events, recording.notices, recording.body)
    is_named = f'"{message.model}"'.encode() in recording.body
    is_told = fold(events).model is not None or not is_named
    require(is_told, f"{where}: the model that the answer names is not told")


async def _require_whole(subject: Subject, recording: Recording) -> None:
    """Check that an unstreamed answer is parsed to its message, and that half of it fails."""
    where = f"whole answer {recording.name}"
    if recording.message is None:
        fail(f"{where} has no message.json")
    made: list[list[Event]] = []
    for body in (recording.body, recording.body[: -len(recording.body) // 2]):
        http = subject.http(MemoryResponse.of_recording(recording, [body]))
        model = subject.model_of(recording)
        made.append(await subject.events_of_call(http, model, transport="buffered"))
    found = fold(made[0], subject.name, recording.model)
    _compare(where, found, replace(recording.message, provider=subject.name), None)
    require(isinstance(made[1][-1], Error), f"half of {where} is no error")


async def _require_listed(subject: Subject, where: str, row: Listed) -> None:
    model = subject.listed_model(row.model)
    try:
        expected = load(AssistantMessage, row.message)
    except CodecError as error:
        fail(f"{where}: its message cannot be read: {error}")
    provider = expected.provider or model.provider
    expected = replace(expected, provider=provider, model=expected.model or model.id)
    events = await _events(subject, row, model)
    found = fold(events, model.provider, model.id)
    sent = row.frames if row.whole is None else row.whole
    if found.stop_reason is StopReason.ERROR and expected.stop_reason is StopReason.ERROR:
        said = expected.error_message or ""
        told = found.error_message or ""
        require(said in told, f"{where} should say {said!r}: {told}", sent, said)
        found, expected = (replace(each, stop_reason=None) for each in (found, expected))
    _compare(where, found, expected, sent)
    cost = expected.cost or found.cost
    require(found.cost == cost, f"{where}: it costs {found.cost}, expected {cost}", sent, cost)
    _compare_notices(where, events, row.notices, sent)


async def _events(subject: Subject, row: Listed, model: Model) -> list[Event]:
    if row.whole is not None:
        http = subject.http(MemoryResponse.of_json(row.whole))
        return await subject.events_of_call(http, model, transport="buffered", **row.options)
    answer = writer(subject)
    texts = (each if isinstance(each, str) else json.dumps(each) for each in row.frames)
    frames = [answer.frame(text.encode()) for text in texts]
    if row.options:
        http = subject.http(MemoryResponse(frames, headers=subject.answers()[0].headers))
        return await subject.events_of_call(http, model, **row.options)
    call = call_of(subject.provider, model, id="memory")
    events = [event async for event in source_of_call(subject.provider, call, [b"".join(frames)])]
    if isinstance(events[-1], Done) and (total := call.attempt.reported_cost) is not None:
        events[-1].cost = Cost(total=total)
    return events


def _compare(where: str, found: AssistantMessage, expected: AssistantMessage, sent: Any) -> None:
    if (difference := message_difference(found, expected)) is not None:
        fail(f"{where}: {difference}", sent, expected)


def _compare_notices(
    where: str, events: Iterable[Event], expected: Sequence[str], sent: Any
) -> None:
    notices = [event for event in events if isinstance(event, Notice)]
    if (difference := notice_difference(notices, expected)) is not None:
        fail(f"{where}: {difference}", sent, expected)


_NOT_COMPARED = frozenset({"cost", "request_id", "error_message", "total_usage", "total_cost"})
"""Fields of a message that come from prices, headers, the core or the whole call, not from the
body.
"""


def message_difference(found: AssistantMessage, expected: AssistantMessage) -> str | None:
    """Describe how a message differs from the expected one; `None` if it does not."""
    found, expected = comparable(found), comparable(expected)
    if found.stop_reason is StopReason.ERROR:
        return f"it fails ({found.error_kind}): {found.error_message}"
    for name in AssistantMessage.__struct_fields__:
        is_, should = getattr(found, name), getattr(expected, name)
        if name not in _NOT_COMPARED and is_ != should:
            return f"{name} is {is_!r:.300}, expected {should!r:.300}"
    return None


def notice_difference(notices: Sequence[Notice], expected: Sequence[str]) -> str | None:
    """Describe how notices differ from the expected ones; `None` if they do not.

    An expected notice is any part of the notice's text, `code: detail (path, path)`.
    """
    told = [_told(notice) for notice in notices]
    same = len(told) == len(expected) and all(map(str.__contains__, told, expected))
    return None if same else f"the notices are {told}, expected {[*expected]}"


def _told(notice: Notice) -> str:
    paths = f" ({', '.join(notice.paths)})" if notice.paths else ""
    return f"{notice.code}: {notice.detail}{paths}"
