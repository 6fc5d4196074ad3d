"""The promises of every installed provider."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from swink_core import (
    AssistantMessage,
    CacheStrategy,
    Context,
    Host,
    Model,
    StreamOptions,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UsageError,
    UserMessage,
    replace,
)
from swink_core.providers.fields import layered_extra
from swink_core.providers.knobs import fields_of
from swink_test_helpers.outgoing import leaving
from swink_testing.conformance import Subject
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

EVERY = [Subject.find(name) for name in Host(environ={}).provider_names()]
ASKED_BY_HTTP = pytest.mark.parametrize(
    "subject", [s for s in EVERY if s.speaks_http], ids=lambda subject: subject.name
)


# -- a model's name cannot make an address another ------------------------------------------------


async def _address(subject: Subject, name: str) -> str | None:
    """Return where a call to a model of this name goes; `None` where it goes nowhere."""
    http = MemoryHTTPClient(MemoryResponse(status=500))
    try:
        stream = subject.client(http).stream(
            Model(subject.name, name), "Hi", **subject.call_options()
        )
    except UsageError:
        return None
    async with stream:
        async for _ in stream:
            pass
    return http.requests[0].url if http.requests else None


@ASKED_BY_HTTP
@pytest.mark.parametrize("name", ["../../x", "..", "a/../../x", "\ud800"], ids=ascii)
async def test_nothing_is_sent_to_where_a_models_name_leads(
    subject: Subject, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)  # the test runner cannot pass such names on
    with subject.environment():
        assert await _address(subject, name) in (None, await _address(subject, "plain"))


# -- extra is fields of the body ------------------------------------------------------------------

CONTEXT = Context([UserMessage("Hi")], tools=[Tool("look_it_up", "", {"type": "object"})])


def _body(subject: Subject, **options: Any) -> dict[str, Any]:
    wanted: dict[str, Any] = {"temperature": 1, "max_tokens": 9000, "thinking": "low"}
    if "structured_output" in subject.provider.features:
        wanted["response_format"] = {"type": "object"}
    given = StreamOptions(**subject.call_options(**wanted, **options))
    with subject.environment():
        plugin, model = subject.provider, subject.model
        request = plugin.request(model, plugin.convert(model, CONTEXT, given), given)
    body: dict[str, Any] = msgspec.json.decode(request.body)
    return body


def _place_of_tools(value: Any) -> tuple[str, ...] | None:
    """Return the names that lead to the list in which the tool stands."""
    for name, inner in value.items():
        if isinstance(inner, list) and "look_it_up" in repr(inner):
            return (name,)
        if isinstance(inner, dict) and (place := _place_of_tools(inner)) is not None:
            return (name, *place)
    return None


def _at(body: dict[str, Any], place: tuple[str, ...]) -> Any:
    found: Any = body
    for name in place:
        found = found[name]
    return found


def _is_handed_on(subject: Subject) -> bool:
    """Whether `extra` is sent unchanged, to a server that calls the provider with it."""
    return _body(subject, extra={"kept": False}).get("options", {}).get("extra") == {"kept": False}


@ASKED_BY_HTTP
def test_tools_of_the_service_come_beside_ones_own(subject: Subject) -> None:
    plain = _body(subject)
    place = _place_of_tools(plain)
    if place is None:
        assert "tools" not in subject.provider.features
        return
    if _is_handed_on(subject):
        return
    hosted: Any = [{"type": "hosted_search"}]
    for name in reversed(place):
        hosted = {name: hosted}
    both = _at(_body(subject, extra=hosted), place)
    assert both == [*_at(plain, place), {"type": "hosted_search"}]


STRICT = Tool(
    "look_it_up",
    "",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    strict=True,
)


OPTIONS: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 3,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "max_tokens": 30000,
    "seed": 4,
    "session_id": "session-of-the-client",
    "user": "user-of-the-client",
    "thinking": "low",
    "parallel_tool_calls": False,
    "cache": CacheStrategy(ttl=86400),
    "stop": ("never",),
    "response_format": {"type": "object", "properties": {"a": {"type": "string"}}},
}


def _changed(before: Any, after: Any) -> Iterator[tuple[str, ...]]:
    """Yield the place of each field that is new or another."""
    for name, value in after.items():
        known = before.get(name)
        if isinstance(value, dict) and isinstance(known, dict | None):
            yield from ((name, *place) for place in _changed(known or {}, value))
        elif value != known:
            yield (name,)


@ASKED_BY_HTTP
@pytest.mark.parametrize("option", OPTIONS)
def test_extra_of_a_call_replaces_every_field_of_an_option_of_the_client(
    subject: Subject, option: str
) -> None:
    if _is_handed_on(subject):
        return
    plugin = subject.provider
    models = [subject.model]
    if subject.name in RESPONSES:
        models.append(Model(subject.name, RESPONSES[subject.name]))

    def body(model: Model, extra: Mapping[str, Any], **options: Any) -> Any:
        given = StreamOptions(**subject.call_options(extra=extra, **options))
        request = plugin.request(model, plugin.convert(model, CONTEXT, given), given)
        return msgspec.json.decode(request.body)

    with subject.environment():
        for model in models:
            given = {option: OPTIONS[option]}
            options = StreamOptions(**subject.call_options(**given))
            api = plugin.api(model, options)
            places = {**fields_of(api.knobs), **getattr(api, "places", {})}
            conversation = plugin.convert(model, CONTEXT, options)
            for place in _changed(body(model, {}), body(model, {}, **given)):
                if place[0] in conversation:
                    continue
                extra: Any = "of the call"
                for name in reversed(place):
                    extra = {name: extra}
                layered = layered_extra(extra, extra, [option], places)
                assert _at(body(model, layered, **given), place) == "of the call", place


RESPONSES = {"openai": "gpt-5.6-terra", "azure": "gpt-5.6-terra", "xai": "grok-4.7"}


@pytest.mark.parametrize(
    "subject", [s for s in EVERY if s.name in RESPONSES], ids=lambda subject: subject.name
)
def test_the_result_of_a_strict_tool_follows_a_previous_response_beside_the_services_own(
    subject: Subject,
) -> None:
    hosted = {"type": "web_search"}
    extra = {"previous_response_id": "resp_1", "store": True, "tools": [hosted]}
    context = Context([ToolResultMessage("call_1", "look_it_up", "42")], tools=[STRICT])
    model = f"{subject.name}/{RESPONSES[subject.name]}"

    left = leaving(subject.provider, model, context, settings={"api": "responses"}, extra=extra)

    assert left.body["previous_response_id"] == "resp_1"
    [result] = left.body["input"]
    assert (result["type"], result["call_id"], result["output"]) == (
        "function_call_output", "call_1", "42",
    )  # fmt: skip
    own, after = left.body["tools"]
    assert (own["name"], own["strict"], after) == ("look_it_up", True, hosted)
    assert (left.notices, left.refusal, left.refused_by) == ([], None, [])


@ASKED_BY_HTTP
def test_objects_are_added_to(subject: Subject) -> None:
    plain = _body(subject)
    if _is_handed_on(subject):
        return
    for name, value in plain.items():
        if isinstance(value, dict):
            assert _body(subject, extra={name: {"added": 1}})[name] == {**value, "added": 1}


@ASKED_BY_HTTP
def test_nothing_is_a_field_that_is_not_sent(subject: Subject) -> None:
    extra = {"added": None, "kept": False}
    if _is_handed_on(subject):
        return
    assert _body(subject, extra=extra) == {**_body(subject), "kept": False}


# -- a text is not read by the character ----------------------------------------------------------

LONG = "word " * 2_000


@ASKED_BY_HTTP
async def test_a_long_text_is_not_converted_by_the_character(subject: Subject) -> None:
    steps: Counter[str] = Counter()
    called = [ToolCallBlock("call00001", "look_it_up", {})]
    said = [UserMessage(LONG), AssistantMessage(called)]
    said.append(ToolResultMessage("call00001", "look_it_up", LONG))
    context = replace(CONTEXT, messages=said, system_prompt=LONG)
    http = MemoryHTTPClient(MemoryResponse(status=500))
    with subject.environment():
        options = subject.call_options()
        stream = subject.client(http).stream(subject.model, context, retry=False, **options)

        def count(frame: Any, event: str, of: Any) -> None:
            name = of.__name__ if event == "c_call" else frame.f_code.co_name
            steps[f"{event} {name}"] += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            async for _ in stream:
                pass
        finally:
            sys.setprofile(None)
    assert http.requests or _is_handed_on(subject)
    [(most, number)] = steps.most_common(1)
    assert number < len(LONG) // 2, most
