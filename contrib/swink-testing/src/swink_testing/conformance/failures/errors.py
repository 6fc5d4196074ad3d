"""Checks of errors, in HTTP responses and in streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from attrs import define, field

from swink_core import Error, Event, Model, Notice
from swink_core import StreamErrorKind as Kind
from swink_core.providers.answers import is_answer
from swink_recorder.recording import Recording
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.answers.recorded_answers import writer
from swink_testing.conformance.answers.streaming import broken_rule
from swink_testing.conformance.check import DoesNotApply, fail, independent_part, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse, drive_bytes
from swink_testing.expected_faults import STATUS_KINDS
from swink_testing.quiet import quiet

__all__ = ["LISTED_ERRORS", "OWN_CODES", "ListedError", "check_errors"]

LISTED_ERRORS = "errors.jsonl"
"""The name of the file in which a package lists errors. Each line has one error and its kind."""

_WAITS = (429, 503, 529)
"""Statuses that the check sends with a Retry-After header."""

_RETRY_AFTER = 7

_SAID = "nonce of a refusal"

_ODD: tuple[Any, ...] = (
    None, True, 1, "", [], {}, [None], [[]], {"error": None}, {"error": []}, {"error": 1},
    {"error": {}}, {"error": {"message": None, "code": None, "type": None}},
    {"error": {"message": {"a": [1]}, "code": 7, "type": []}}, {"message": 5, "code": {}},
    {"detail": None}, {"errors": [1]},
)  # fmt: skip
"""JSON bodies without a message, of unexpected types."""

_NO_JSON = (
    b"", b" ", b"<html><head><title>Away</title></head></html>", b"\xff\xfe\x00", b"\xef\xbb\xbf{}",
    b'{"error": {"mess', b"NaN",
)  # fmt: skip
"""Error bodies that are not JSON: from proxies, or truncated."""

_TELLING: tuple[Any, ...] = (
    {"error": {"message": _SAID}}, {"error": _SAID}, {"message": _SAID}, {"detail": _SAID},
    {"detail": [{"loc": ["body", "seed"], "msg": _SAID, "type": "extra_forbidden"}]},
    {"errors": [{"message": _SAID}]}, [{"error": {"message": _SAID}}], _SAID,
)  # fmt: skip
"""JSON bodies that state the reason, in the formats of several APIs and of proxies."""

_WORDINGS: tuple[tuple[int, str, tuple[Kind, ...]], ...] = (
    (400, "The maximum number of images is exceeded.", ()),
    (400, "stop: at most 4 items are allowed", ()),
    (400, "tools.0.name: the length exceeds 64 characters", ()),
    (400, "max_tokens: must be at least 1", ()),
    (400, "max_tokens is above the limit of this model", (Kind.CONTEXT_WINDOW_EXCEEDED,)),
    (400, "The field `model` is required.", (Kind.MODEL_NOT_FOUND,)),
    (400, "response_format: the schema is invalid", ()),
    (400, "tool_choice: no tool of this name was found", ()),
    (400, "sample_rate: not supported for this audio", ()),
    (400, "timeout: not a positive number", ()),
    (400, "metadata.key: unknown field", ()),
    (400, "metadata.access: unexpected value", ()),
    (400, "context: unknown field", ()),
    (400, "priority: flex capacity is not available here", ()),
    (400, "service_tier: not available in this region", ()),
    (400, "user: must not be blank", ()),
    (400, "The content of message 3 must be a string.", ()),
    (400, "safety_settings: unknown category", ()),
    (400, "The tokens of logit_bias are not numbers.", ()),
    (401, "The token has expired.", ()),
    (401, "No access to this model: the key is invalid.", (Kind.MODEL_NOT_FOUND,)),
    (422, "Too many stop sequences", ()),
    (429, "Rate limit exceeded", ()),
    (429, "Too many requests: the limit is 60 a minute.", ()),
    (429, "Maximum number of tokens per minute exceeded for this model", ()),
    (429, "Too many concurrent requests for this key.", ()),
    (500, "Internal error: the context of the request is lost.", ()),
    (500, "The request could not be processed: invalid state.", (Kind.OVERLOADED,)),
    (503, "The service is unavailable: its limit is reached.", ()),
)  # fmt: skip
"""Errors whose message could be taken for another kind than that of the status: the status, the
message, and other kinds that are accepted too.
"""


class ListedError(msgspec.Struct):
    """An error and its meaning.

    `status`, `headers` and `body` are those of an HTTP response; `frame` is a frame of a stream.
    Each of `body` and `frame` is JSON data, or a string with the exact text. The error's message
    must contain `says`. `code` is the expected error code (`None`: any), `provider` is the name of
    the provider to which the row applies (`None`: to all of the package), and `model` is an id
    (`None`: the model under test). `retry_after` is in seconds; `None` means that the API does not
    state how long to wait.
    """

    kind: Kind
    status: int = 200
    headers: dict[str, str] = {}
    body: Any = None
    frame: Any = None
    says: str = ""
    code: str | None = None
    retry_after: float | None = None
    provider: str | None = None
    model: str | None = None


@define
class _Refusal:
    """An HTTP error response, and the kinds of error that are accepted for it.

    The error's message must contain `says`. If `waits` is true, the error's `retry_after` must
    equal this `retry_after`.
    """

    where: str
    status: int
    body: bytes
    kinds: tuple[Kind, ...]
    headers: Mapping[str, str] = field(factory=dict)
    says: str = ""
    waits: bool = False
    retry_after: float | None = None


def check_errors(subject: Subject) -> None:
    """Each error of the API is reported with the right kind, message and retry delay.

    This applies to HTTP responses and to errors in a stream, recorded or listed in `errors.jsonl`.
    If the body of an HTTP error has an unexpected type or contains no reason, the status determines
    the kind, even if the body contains words that usually mean another error. The Retry-After
    header is read.
    """
    subject.require_parser()
    rows = subject.rows(LISTED_ERRORS, ListedError)
    if not writer(subject).is_data:
        rows = [each for each in rows if each[1].frame is None]  # which nobody could write
    in_stream = [recording for recording in subject.failures() if _is_stream(subject, recording)]
    if not (subject.speaks_http or rows or in_stream):
        raise DoesNotApply("it does not speak HTTP, and no error inside a stream is known")

    async def ask() -> None:
        for recording in in_stream:
            with independent_part():
                await _require_in_stream(subject, recording)
        if subject.speaks_http:
            client = _Client(subject)
            for refusal in (*_refusals(), *_recorded(subject)):
                with independent_part():
                    await client.require(refusal)
        for where, row in rows:
            with independent_part():
                await _require_listed(subject, where, row)

    with quiet():
        asyncio.run(ask())


async def _require_in_stream(subject: Subject, recording: Recording) -> None:
    """Check the kind of a recorded error, also if the error follows the beginning of an answer."""
    where, events = f"recording {recording.name}", await subject.parse(recording)
    if (broken := broken_rule(events)) is not None:
        fail(f"{where}: {broken}")
    kinds = _kinds_of(recording)
    _require_kind(where, events[-1], kinds, recording.body)
    answer = Answer.of_recording(recording, type(subject.provider).decoder)
    for frame in [*answer.frames, recording.body[sum(map(len, answer.frames)) :]]:
        terminal = (await subject.parse(recording, [frame]))[-1]
        if getattr(terminal, "code", "cut") not in OWN_CODES:
            await _require_late(subject, where, frame, kinds, recording.wire_format)


async def _require_late(
    subject: Subject, where: str, frame: bytes, kinds: tuple[Kind, ...], wire_format: str
) -> None:
    """Check the kind of an error whose frame follows the beginning of an answer."""
    alike = [a for a in subject.answers() if a.wire_format == wire_format]
    for other in alike[:1]:
        begun = Answer.of_recording(other, type(subject.provider).decoder).frames
        for number in sorted({1, len(begun) // 2} & {*range(len(begun) - 1)}):
            body = b"".join([*begun[:number], frame])
            events = await subject.parse(other, [body])
            _require_kind(f"{where}, after {number} frames", events[-1], kinds, body)


OWN_CODES = ("cut", "empty_response")
"""Error codes that the core uses when an answer is truncated or empty but contains no error."""


def _kinds_of(recording: Recording) -> tuple[Kind]:
    assert recording.message is not None  # only such are called failures
    assert recording.message.error_kind is not None
    return (recording.message.error_kind,)


def _refusals() -> Iterator[_Refusal]:
    def refusal(status: int, data: Any, *others: Kind, **more: Any) -> _Refusal:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        where = f"HTTP {status} with the body {body.decode('utf-8', 'replace')!r:.120}"
        return _Refusal(where, status, body, (STATUS_KINDS[status], *others), **more)

    for status in STATUS_KINDS:
        headers = {"Retry-After": str(_RETRY_AFTER)} if status in _WAITS else {}
        wait = _RETRY_AFTER if headers else None
        body = {"error": {"message": "a check of the conformance kit"}}
        is_wait = bool(headers)
        yield refusal(status, body, headers=headers, waits=is_wait, retry_after=wait)
    statuses = [status for status in STATUS_KINDS if status != 404]  # another API may be asked then
    for number, data in enumerate([*_ODD, *_NO_JSON]):
        for status in (400, 503, statuses[number % len(statuses)]):
            yield refusal(status, json.dumps(data).encode() if number < len(_ODD) else data)
    for data in _TELLING:
        yield refusal(400, data, says=_SAID)
    for status, said, others in _WORDINGS:
        yield refusal(status, {"error": {"message": said}}, *others)
        yield refusal(status, {"message": said}, *others)


def _is_stream(subject: Subject, recording: Recording) -> bool:
    """Return True if a recorded response is a stream: the core decides by its content type."""
    response = MemoryResponse.of_recording(recording)
    types = getattr(subject.provider, "content_types", None)
    return recording.status == 200 and (types is None or is_answer(response, types))


def _recorded(subject: Subject) -> Iterator[_Refusal]:
    for recording in subject.failures():
        if not _is_stream(subject, recording):
            where, kinds = f"recording {recording.name}", _kinds_of(recording)
            yield _Refusal(where, recording.status, recording.body, kinds, recording.headers)


class _Client:
    """A client whose calls all receive HTTP errors."""

    def __init__(self, subject: Subject) -> None:
        self._http = subject.http()
        self._client, self._options = subject.client(self._http), subject.call_options()
        self._model = subject.model

    async def require(self, refusal: _Refusal) -> None:
        """Answer a call with an HTTP error, and compare the call's error with the expected one."""
        headers = dict(refusal.headers)
        if "content-type" not in map(str.lower, headers):
            headers["Content-Type"] = "application/json"
        refused = [MemoryResponse([refusal.body], refusal.status, headers) for _ in range(3)]
        self._http.answer(*refused)  # the others if credentials are renewed, or another API is used
        async with self._client.stream(self._model, "Hello", **self._options) as stream:
            events = [event async for event in stream]
        where, body = refusal.where, refusal.body
        types = [event.type for event in events if not isinstance(event, Notice)]
        require(types == ["start", "error"], f"{where} arrives as {', '.join(types)}", body)
        error = _require_kind(where, events[-1], refusal.kinds, body)
        status, wait = error.status, error.retry_after
        require(status == refusal.status, f"{where} is reported as {status}", body)
        is_told = refusal.says in error.error_message
        said = f"{where}: its message is not reported, but: {error.error_message}"
        require(is_told, said, body, refusal.says)
        waits = f"{where}: Retry-After: {refusal.retry_after} is read as {wait}"
        require(wait == refusal.retry_after or not refusal.waits, waits)


def _require_kind(where: str, terminal: Event, kinds: tuple[Kind, ...], sent: Any) -> Error:
    """Check that a call ended in an error of one of `kinds`, with a message, and return it."""
    if not isinstance(terminal, Error):
        fail(f"{where} ends in {terminal.type}, expected Error({kinds[0]})", sent, kinds[0])
    kind, message = terminal.error_kind, terminal.error_message
    wrong = f"{where} is Error({kind}), expected {kinds[0]}: {message}"
    require(kind in kinds, wrong, sent, kinds[0])
    require(message, f"{where}: the error has no message", sent)
    return terminal


async def _require_listed(subject: Subject, where: str, row: ListedError) -> None:
    said = row.body if row.frame is None else row.frame
    terminal = (await _events_of(subject, row, said))[-1]
    is_own = getattr(terminal, "code", None) in OWN_CODES
    if row.frame is not None and subject.info is not None and not is_own:
        frame = writer(subject).frame(_data(said))
        await _require_late(subject, where, frame, (row.kind,), subject.info.wire_format)
    error = _require_kind(where, terminal, (row.kind,), said)
    wait, code, message = error.retry_after, error.code, error.error_message
    require(wait == row.retry_after, f"{where} says to wait {wait} s", None, row.retry_after)
    require(row.code in (None, code), f"{where} has the code {code}, expected {row.code}")
    require(row.says in message, f"{where} should say {row.says!r}: {message}")
    whole = isinstance(row.body, dict) and f"HTTP {row.status}: "
    require(
        not whole or row.says.startswith(whole) or whole not in message,
        f"{where} should say {row.says!r}, without the body around it: {message}",
    )


def _data(said: Any) -> bytes:
    return said.encode() if isinstance(said, str) else json.dumps(said).encode()


async def _events_of(subject: Subject, row: ListedError, said: Any) -> list[Event]:
    data = _data(said)
    model = subject.model
    if row.model is not None:
        model = subject.catalog.resolve(Model(subject.name, row.model))
    if row.frame is not None:
        return await drive_bytes(subject.provider, model, [writer(subject).frame(data)])
    headers = {"Content-Type": "application/json", **row.headers}
    refused = [MemoryResponse([data], row.status, headers) for _ in range(2)]
    return await subject.events_of_call(subject.http(*refused), model)
