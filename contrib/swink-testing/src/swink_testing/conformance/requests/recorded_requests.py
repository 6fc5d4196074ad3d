"""A check that repeats recorded calls and compares the requests with the recorded requests.

If a recording contains the arguments of the call, the whole request is compared. Otherwise a plain
question is sent, and only the address, the headers and the model's name are compared.

A request may contain values that no later request repeats: a signature, the time, or the value of a
required environment variable. To find them, the call is repeated at another time, with another key
and with other variables.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, urlsplit

from attrs import evolve

from swink_core import (
    AssistantMessage,
    Context,
    EventStream,
    Host,
    StopReason,
    StreamOptions,
    load,
)
from swink_core.providers import HTTPRequest
from swink_core.vocabulary.grammar import CONTENT
from swink_recorder.legs import RecordedLeg
from swink_recorder.recording import Recording
from swink_recorder.scrub import is_secret
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.lifecycle.signing import LATER, states_time
from swink_testing.conformance.played import Played, PlayedClient, text_pattern
from swink_testing.conformance.subject import CANARY_KEY, Subject
from swink_testing.driver import MemoryResponse
from swink_testing.quiet import quiet

__all__ = ["check_recorded_requests"]

_HERE = "http://conformance.invalid"

_OTHER_KEY = "sk-swink-of-the-repeated-call-c4"

_OTHER_VALUE = "conformance-again"

_IGNORED = ("accept-encoding", "connection", "content-length", "host", "user-agent")
"""Headers of the connection, which do not depend on the call."""

_DIGEST = "sha256:"
"""Prefix of the digest that replaces an image or file in a recording.

A call with such a digest is not repeated.
"""


def check_recorded_requests(subject: Subject) -> None:
    """Requests have the methods, URLs, headers and bodies of the recorded requests, in order."""
    subject.require_http()
    own = [r for r in subject.recordings if r.provider == subject.name]
    recordings = [r for r in own if _can_be_asked(r)]
    if not recordings:
        raise DoesNotApply("no recording has a request that can be made again")
    with quiet():
        for recording in recordings:
            first = asyncio.run(_requests(subject, recording))
            again = asyncio.run(_requests(subject, recording, is_other=True))
            marks = _marks(recording, subject.key(CANARY_KEY))
            for fault in _differences(recording, marks, first, again):
                require(False, f"recording {recording.name}: {fault}")


def _can_be_asked(recording: Recording) -> bool:
    asked = json.dumps(recording.asked or {})
    over_http = recording.request.method and recording.status not in (0, 101)
    return bool(over_http and recording.request.headers) and _DIGEST not in asked


async def _requests(subject: Subject, recording: Recording, is_other: bool = False) -> list[Played]:
    """Repeat a recorded call with a provider that has no access token yet.

    If `is_other` is true, the key, the time and the required variables are different.
    """
    subject = evolve(subject, host=Host(entry_points=[subject.entry], environ={}))
    context, options = _asked(recording)
    address = (recording.asked or {}).get("address") or (subject.info and subject.info.base_url)
    options["base_url"] = _HERE + urlsplit(address or "").path.rstrip("/")
    answer = MemoryResponse.of_recording(recording)
    http = subject.http(answer, answer, recording=recording)
    is_left = (recording.message or AssistantMessage([])).stop_reason is StopReason.ABORTED
    options = subject.call_options(**options)
    environ: dict[str, str] = {}
    if is_other:
        options["api_key"] = f"x{subject.key(_OTHER_KEY)}"  # also its first part is another
        environ = dict.fromkeys(subject.info.required_env if subject.info else (), _OTHER_VALUE)
    with patch.dict(os.environ, environ):
        async with subject.client(http, clock=LATER if is_other else None) as client:
            await _read(client.stream(subject.model_of(recording), context, **options), is_left)
    return _in_order(http)


async def _read(stream: EventStream, is_left: bool) -> None:
    async with stream:
        async for event in stream:
            if is_left and type(event) in CONTENT:
                break


def _asked(recording: Recording) -> tuple[Context, dict[str, Any]]:
    asked = recording.asked
    if asked is None:
        return Context.of("Hello"), {}
    names = StreamOptions.names()
    options = {name: value for name, value in asked["options"].items() if name in names}
    headers = {n: v for n, v in asked.get("headers", {}).items() if not is_secret(n)}
    if headers:
        options["headers"] = headers
    return load(Context, asked["context"]), options


def _in_order(http: PlayedClient) -> list[Played]:
    return [each for each in http.played if each.leg is not None or not http.plays]


def _differences(
    recording: Recording, marks: Mapping[str, str], first: list[Played], again: list[Played]
) -> Iterator[str]:
    recorded = [leg for leg in recording.legs if leg.kind != "token"]
    tokens = [leg for leg in recording.legs if leg.kind == "token"]
    for leg, each in zip(tokens, [each for each in first if each.token], strict=False):
        yield from _request_differences(recording, marks, leg, each.request, None)
    today = [each for each in first if not each.token]
    repeated = [each for each in again if not each.token]
    for number, leg in enumerate(recorded):
        name = f"{leg.request.method} {leg.request.path.partition('?')[0]}"
        if number >= len(today):
            yield f"the request {name} is not sent"
            continue
        other = repeated[number].request if number < len(repeated) else None
        yield from _request_differences(recording, marks, leg, today[number].request, other)
    for each in today[len(recorded) :]:
        yield f"a further request is sent: {each.request.method} {each.request.url}"


def _request_differences(
    recording: Recording,
    marks: Mapping[str, str],
    leg: RecordedLeg,
    request: HTTPRequest,
    again: HTTPRequest | None,
) -> Iterator[str]:
    """Describe the differences between a request and the recorded one.

    `again` is the request when the call is repeated at another time with another key. Values in
    which `request` and `again` differ are not compared, unless they contain the key itself.
    """
    asked = leg.request
    name = f"{asked.method} {asked.path.partition('?')[0]}"
    here, there = urlsplit(request.url), urlsplit(asked.path)
    if recording.asked is None and not here.path.endswith(there.path):
        return  # an option that is not recorded chose the address
    if request.method != asked.method:
        yield f"{name}: the method is {request.method}"
    origin = f"{here.scheme}://{here.netloc}"
    expected = recording.origins[asked.origin] if asked.origin else _HERE
    if origin != expected and recording.origins:
        yield f"{name}: it goes to {origin}, recorded {expected}"
    path = text_pattern(there.path, marks)
    if recording.asked is not None and not path.fullmatch(here.path):
        yield f"{name}: the path is {here.path}"
    sent, recorded = dict(parse_qsl(here.query, True)), dict(parse_qsl(there.query, True))
    yield from _map_differences(f"{name}: the query", recorded, sent, marks, both=True)
    headers = {n.lower(): v for n, v in request.headers.items() if n.lower() not in _IGNORED}
    recorded = {n.lower(): v for n, v in asked.headers.items() if n.lower() not in _IGNORED}
    later = {n.lower(): v for n, v in again.headers.items()} if again is not None else headers
    lasting = {
        n: v
        for n, v in recorded.items()
        if n not in headers or not _passes(v, headers[n], later.get(n), marks)
    }
    yield from _map_differences(f"{name}: the header", lasting, headers, marks)
    for header in headers.keys() - recorded.keys():
        if is_secret(header) and recording.asked is not None:
            yield f"{name}: the header {header} is sent, which has a credential"
    body = _body(request, asked.form is not None)
    other = body if again is None else _body(again, asked.form is not None)
    recorded_body = asked.form if asked.form is not None else asked.body
    if recording.asked is None and asked.form is None:
        model = recording.model
        for field, value in recorded_body.items() if isinstance(recorded_body, dict) else ():
            if value == model and not (isinstance(body, dict) and body.get(field) == model):
                yield f"{name}: {field} is not the model's name, {model}"
        return
    yield from (
        f"{name}: {line}" for line in _data_differences(recorded_body, body, other, marks, "body")
    )


def _passes(recorded: str, sent: str, later: str | None, marks: Mapping[str, str]) -> bool:
    """Return True if a header's value is different in each call, as a signature or a time is."""
    if states_time(recorded) and states_time(sent):
        return True
    return sent != later and re.search(marks["[key]"], sent) is None


def _marks(recording: Recording, key: str) -> dict[str, str]:
    """Map each placeholder for a credential to a pattern that matches the credential."""
    issued = r"swink-token-\d+"
    marks = {"[key]": rf"(?:{re.escape(key)}|{CANARY_KEY}|{issued}-[\w.-]+)"}
    for number, leg in enumerate(recording.legs):
        if leg.kind == "token":
            for place in _places(leg.body):
                marks[f"[{number}.{place}]"] = f"{issued}-{place}"
    return marks


def _places(body: bytes) -> Iterator[str]:
    try:
        data = json.loads(body)
    except ValueError:
        return
    stack = [("", data)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, str):
            yield place
        inner = value.items() if isinstance(value, dict) else ()
        stack += [(f"{place}.{name}" if place else name, each) for name, each in inner]


def _map_differences(
    what: str,
    recorded: Mapping[str, str],
    sent: Mapping[str, str],
    marks: Mapping[str, str],
    both: bool = False,
) -> Iterator[str]:
    for name, value in recorded.items():
        if name not in sent:
            yield f"{what} {name} is missing, recorded {value}"
        elif not text_pattern(value, marks).fullmatch(sent[name]):
            yield f"{what} {name} is {sent[name]}, recorded {value}"
    for name in sent.keys() - recorded.keys() if both else ():
        yield f"{what} {name} is new: {sent[name]}"


def _data_differences(
    recorded: Any, sent: Any, again: Any, marks: Mapping[str, str], place: str
) -> Iterator[str]:
    has_key = isinstance(sent, str) and re.search(marks["[key]"], sent)
    if sent != again and not (isinstance(sent, dict | list) or has_key):
        return  # it differs from call to call
    if isinstance(recorded, dict) and isinstance(sent, dict):
        for name in {**recorded, **sent}:
            where = f"{place}.{name}"
            if name not in sent:
                yield f"{where} is missing, recorded {json.dumps(recorded[name])[:200]}"
            elif name not in recorded:
                yield f"{where} is new: {json.dumps(sent[name])[:200]}"
            else:
                other = again.get(name) if isinstance(again, dict) else None
                yield from _data_differences(recorded[name], sent[name], other, marks, where)
    elif isinstance(recorded, list) and isinstance(sent, list) and len(recorded) == len(sent):
        others = again if isinstance(again, list) and len(again) == len(sent) else sent
        for number, (one, other, third) in enumerate(zip(recorded, sent, others, strict=True)):
            yield from _data_differences(one, other, third, marks, f"{place}[{number}]")
    elif isinstance(recorded, str) and isinstance(sent, str):
        if not text_pattern(recorded, marks).fullmatch(sent):
            yield f"{place} is {sent!r:.200}, recorded {recorded!r:.200}"
    elif recorded != sent or type(recorded) is not type(sent):
        yield f"{place} is {json.dumps(sent)[:200]}, recorded {json.dumps(recorded)[:200]}"


def _body(request: HTTPRequest, is_form: bool) -> Any:
    if is_form:
        return dict(parse_qsl(request.body.decode("latin-1"), keep_blank_values=True))
    try:
        return json.loads(request.body) if request.body else None
    except ValueError:
        return request.body.decode("utf-8", "replace")
