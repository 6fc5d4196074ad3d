"""A wrapper around `convert_messages` sees, changes and refuses the requests of every provider."""

from __future__ import annotations

import json
from collections.abc import Generator
from copy import deepcopy
from typing import Any

import pytest

import swink_core as swink
from swink_core import Host
from swink_core.providers import HTTPProvider
from swink_judge.request_readers import strings_of
from swink_test_helpers.capture import CaptureServer
from swink_testing.clock import DatedClock
from swink_testing.conformance import Subject
from swink_testing.driver import MemoryHTTPClient

NAMES = Host(environ={}).provider_names()

EVERY = [Subject.find(name) for name in NAMES]
BY_HTTP = pytest.mark.parametrize(
    "subject", [s for s in EVERY if s.speaks_http], ids=lambda subject: subject.name
)

ADDED = "by a wrapper"

CONTEXT = swink.Context([swink.UserMessage("said-by-the-user")], "said-by-the-system")
SCHEMA = {"type": "string", "description": "told-in-a-schema"}
TOOL = swink.Tool(
    "look_it_up", parameters={"type": "object", "properties": {"named_in_a_schema": SCHEMA}}
)

OPTIONS: dict[str, Any] = {"temperature": 0.25, "max_tokens": 4321, "stop": ["stops-here"]}

SHOWN: dict[str, list[Any]] = {
    "temperature": [0.25],
    "max_tokens": [4321],
    "stop": ["stops-here"],
    "tools": ["look_it_up", "named_in_a_schema", "told-in-a-schema"],
    "extra": ["given-in-extra"],
    "system": ["said-by-the-system"],
    "messages": ["said-by-the-user"],
}
"""Values by which each part of a call can be found in the body."""


class Wrapper:
    """Keeps each body and adds a field to it, or refuses the call."""

    def __init__(self, refuses: bool = False) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.refuses = refuses

    @swink.hookimpl(wrapper=True)
    def convert_messages(self) -> Generator[None, dict[str, Any], dict[str, Any]]:
        body = yield
        self.bodies.append(deepcopy(body))
        if self.refuses:
            raise swink.UsageError("this may not be sent")
        return {**body, "swink_added": ADDED}


def given(subject: Subject) -> tuple[swink.Context, dict[str, Any]]:
    """Return a call that has all of what the provider takes."""
    asked = swink.StreamOptions(**subject.call_options())
    api = subject.provider
    if isinstance(api, HTTPProvider):
        api = api.api(subject.model, asked)
    context = swink.replace(CONTEXT, tools=[TOOL] if "tools" in api.features else [])
    taken = {*api.features, *api.knobs}
    options = {name: value for name, value in OPTIONS.items() if name in taken}
    return context, subject.call_options(extra={"swink_extra": "given-in-extra"}, **options)


def client_of(subject: Subject, wrapper: Wrapper, **more: Any) -> swink.Client:
    host = Host([wrapper], entry_points=[Host(environ={}).entry(subject.name)], environ={})
    return swink.Client(host=host, clock=DatedClock(), retry=swink.RetryPolicy.none(), **more)


def shown_in(body: dict[str, Any]) -> list[Any]:
    data = json.loads(json.dumps(body))
    return [*strings_of(data), *_numbers(data), *_names(data)]


def _numbers(data: Any) -> list[Any]:
    if isinstance(data, dict):
        data = [*data.values()]
    if isinstance(data, list):
        return [number for item in data for number in _numbers(item)]
    return [data] if isinstance(data, int | float) else []


def _names(data: Any) -> list[str]:
    if isinstance(data, dict):
        return [*data, *(name for value in data.values() for name in _names(value))]
    return [name for item in data for name in _names(item)] if isinstance(data, list) else []


@BY_HTTP
async def test_a_wrapper_sees_the_whole_body_and_what_it_changes_is_sent(subject: Subject) -> None:
    wrapper = Wrapper()
    context, options = given(subject)
    with subject.environment():
        server = CaptureServer(b"{}", 400, "application/json")
        async with server, client_of(subject, wrapper) as client:
            options["base_url"] = server.url
            async with client.stream(subject.model, context, **options) as stream:
                events = [event async for event in stream]
    assert [event.status for event in events if isinstance(event, swink.Error)] == [400]
    sent = [exchange for exchange in server.exchanges if exchange.body][-1]
    assert sent.json == {**json.loads(json.dumps(wrapper.bodies[-1])), "swink_added": ADDED}
    _require_shown(subject, wrapper.bodies[-1], events, context, options)


@pytest.mark.parametrize(
    "subject", [s for s in EVERY if not s.speaks_http], ids=lambda subject: subject.name
)
async def test_what_goes_elsewhere_than_by_http_is_seen_as_well(subject: Subject) -> None:
    wrapper = Wrapper()
    context, options = given(subject)
    async with (
        client_of(subject, wrapper) as client,
        client.stream(subject.model, context, **options) as stream,
    ):
        body = stream.call.convert()
    assert body == {**wrapper.bodies[-1], "swink_added": ADDED}
    options.pop("extra")  # of a request's body, which there is none of
    _require_shown(subject, body, [], context, options)


def _require_shown(
    subject: Subject, body: dict[str, Any], events: Any, context: Any, options: Any
) -> None:
    shown = shown_in(body)
    told = " ".join(event.detail for event in events if isinstance(event, swink.Notice))
    parts = {"system", "messages", *options.keys() & SHOWN.keys()}
    parts |= {"tools"} if context.tools else set()
    parts -= {name for name in OPTIONS if name in told}  # the model does not take it
    missing = {part: value for part in parts for value in SHOWN[part] if not _is_in(value, shown)}
    assert not missing, subject.name


def _is_in(value: Any, shown: list[Any]) -> bool:
    if isinstance(value, str):
        return any(isinstance(each, str) and value in each for each in shown)
    return value in shown


@BY_HTTP
async def test_nothing_is_sent_of_a_call_that_a_wrapper_refuses(subject: Subject) -> None:
    wrapper, http = Wrapper(refuses=True), MemoryHTTPClient()
    context, options = given(subject)
    with subject.environment():
        async with (
            client_of(subject, wrapper, http=http) as client,
            client.stream(subject.model, context, **options) as stream,
        ):
            *_, end = [event async for event in stream]
    assert (end.error_kind, end.error_message) == (
        swink.StreamErrorKind.INVALID_REQUEST, "this may not be sent",
    )  # fmt: skip
    assert http.requests == []
    assert len(wrapper.bodies) == 1
