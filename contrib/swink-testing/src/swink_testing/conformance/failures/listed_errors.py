"""Unstreamed answers, and listed errors."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec

from swink_core import Error, Event, Model, StreamErrorKind, replace
from swink_testing.conformance.answers.recorded_answers import writer
from swink_testing.conformance.answers.streaming import message_difference
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.played import PlayedClient
from swink_testing.conformance.subject import WHOLE_ANSWERS, Subject
from swink_testing.driver import MemoryResponse, drive_bytes, fold

__all__ = ["check_listed_errors", "check_whole_answers", "events_of_call"]

LISTED = "errors.jsonl"
"""The file of a package that says what its API's errors mean, a row a line."""


def check_whole_answers(subject: Subject) -> None:
    """An unstreamed answer becomes its message, and half of it is an error."""
    if not (subject.speaks_http and subject.provider.buffered):
        raise DoesNotApply("it asks for no whole answers")
    if not subject.whole_answers:
        raise DoesNotApply(f"its package has no {WHOLE_ANSWERS}/")

    async def read() -> None:
        for recording in subject.whole_answers:
            where, model = f"whole answer {recording.name}", subject.model_of(recording)
            require(recording.message is not None, f"{where} has no message.json")
            assert recording.message is not None
            http = subject.http(MemoryResponse.of_recording(recording))
            found = fold(
                await events_of_call(subject, http, model, transport="buffered"),
                subject.name,
                recording.model,
            )
            expected = replace(recording.message, provider=subject.name)
            if (difference := message_difference(found, expected)) is not None:
                fail(f"{where}: {difference}")
            half = MemoryResponse.of_recording(
                recording, [recording.body[: -len(recording.body) // 2]]
            )
            events = await events_of_call(subject, subject.http(half), model, transport="buffered")
            require(isinstance(events[-1], Error), f"half of {where} is no error")

    asyncio.run(read())


class Listed(msgspec.Struct):
    """An error and its meaning.

    `status`, `headers` and `body` are of an HTTP answer, `frame` is of a stream: JSON data, or its
    text as it is. `says` is in the message that people see, `code` is the error code that is
    expected (`None`: any), `provider` the one of the package that it is of (`None`: whichever is
    checked), `model` an id (`None`: the one that is checked). `retry_after` is in seconds, `None`
    where the API says nothing of it.
    """

    kind: StreamErrorKind
    status: int = 200
    headers: dict[str, str] = {}
    body: Any = None
    frame: Any = None
    says: str = ""
    code: str | None = None
    retry_after: float | None = None
    provider: str | None = None
    model: str | None = None


def check_listed_errors(subject: Subject) -> None:
    """Each row of the package's `errors.jsonl` becomes its error."""
    listed = subject.shipped(LISTED, msgspec.json.Decoder(Listed).decode_lines)
    rows = [*enumerate(listed or (), 1)]
    rows = [(number, row) for number, row in rows if row.provider in (None, subject.name)]
    if not rows:
        raise DoesNotApply(f"its package does not ship {LISTED}")
    if not subject.parses:
        raise DoesNotApply("it has no parser: no bytes can be put through it")
    if not writer(subject).is_data:
        rows = [each for each in rows if each[1].frame is None]  # which nobody could write

    async def read() -> None:
        for number, row in rows:
            terminal = (await _events_of(subject, row))[-1]
            where = f"{LISTED}, line {number}"
            if not isinstance(terminal, Error):
                fail(f"{where} ends in {terminal.type}, expected Error({row.kind})")
            require(
                terminal.error_kind is row.kind,
                f"{where} is Error({terminal.error_kind}), expected {row.kind}: "
                f"{terminal.error_message}",
                row.body if row.frame is None else row.frame,
                row.kind,
            )
            wait = terminal.retry_after
            require(
                wait == row.retry_after, f"{where} says to wait {wait} s", None, row.retry_after
            )
            code = terminal.code
            require(row.code in (None, code), f"{where} has the code {code}, expected {row.code}")
            require(
                row.says in terminal.error_message,
                f"{where} should say {row.says!r}: {terminal.error_message}",
            )
            whole = isinstance(row.body, dict) and f"HTTP {row.status}: "
            require(
                not whole or row.says.startswith(whole) or whole not in terminal.error_message,
                f"{where} should say {row.says!r}, without the body around it: "
                f"{terminal.error_message}",
            )

    asyncio.run(read())


async def _events_of(subject: Subject, row: Listed) -> list[Event]:
    said = row.body if row.frame is None else row.frame
    data = said.encode() if isinstance(said, str) else json.dumps(said).encode()
    model = subject.model
    if row.model is not None:
        model = subject.catalog.resolve(Model(subject.name, row.model))
    if row.frame is not None:
        return await drive_bytes(subject.provider, model, [writer(subject).frame(data)])
    headers = {"Content-Type": "application/json", **row.headers}
    refused = [MemoryResponse([data], row.status, headers) for _ in range(2)]
    http = subject.http(*refused)  # the second for who asks another way then
    return await events_of_call(subject, http, model)


async def events_of_call(
    subject: Subject, http: PlayedClient, model: Model, **more: Any
) -> list[Event]:
    """Return the events of a call that is answered from memory; `more` are options."""
    options = subject.call_options(**more)
    async with subject.client(http).stream(model, "Hello", **options) as stream:
        return [event async for event in stream]
