"""The vendor's streams have the shape of recorded ones."""

from __future__ import annotations

import asyncio

import pytest

from lab.tests.vendor_requests import PROTOCOLS, send
from lab.tests.vendor_shapes import CORPUS, Shape, events_of, recorded_streams
from lab.vendor import Vendor

CALLS = [{"call": "add", "arguments": {"a": 1}}, {"call": "add", "arguments": {"a": 2}}]
SCRIPTS = (
    {"parts": [{"thought": "Hm, let me see"}, {"text": "Hello there"}, *CALLS]},
    {"parts": [{"thought": "Hm"}, {"text": "Hello there, world"}]},
    {"parts": [{"text": "Hello"}], "stop": "length"},
    {"parts": [{"call": "add", "arguments": {}}]},
    {"parts": [{"refusal": "I cannot help"}]},
    {"parts": [{"redacted": "Hm"}, {"text": "Hello"}]},
)

ENOUGH = 4
"""Streams from which on a field that all of them have counts as one that is always there."""

UNRECORDED = {
    "openai-chat": {
        # documented: a message may have content and tool_calls
        "content then call opens",
    },
    "openai-responses": {
        # documented: output is a list of items of any kind, in any order
        "response.output_item.done message then response.output_item.added function_call",
        # no recording of a cut answer without a limit, or with a summary of its reasoning
        "response.incomplete .response.max_output_tokens null",
        "response.incomplete .response.reasoning.summary string",
    },
    "ollama-chat": {
        # a model that calls a tool without a word or a thought before
        "start then tool_calls",
    },
    "cohere-chat": {
        # documented: a plan follows a thought, and is optional
        "content-end then tool-plan-delta",
        "message-start then tool-call-start",
    },
}
"""Differences from all recordings, with the reason."""


def shape_of_vendor(protocol: str) -> Shape:
    async def stream() -> Shape:
        shape = Shape()
        async with Vendor() as vendor:
            for script in SCRIPTS:
                answer = await send(vendor, protocol, script=script)
                assert answer.status == 200, answer.body
                shape.add(events_of(protocol, answer.body))
        return shape

    return asyncio.run(stream())


def shape_of_recordings(protocol: str) -> Shape:
    shape = Shape()
    for _, body in recorded_streams(protocol):
        shape.add(events_of(protocol, body))
    return shape


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_fields_that_every_recording_has_are_there(protocol: str) -> None:
    mine = shape_of_vendor(protocol)
    real = shape_of_recordings(protocol)
    kinds = {kind for kind in mine.counts if real.streams[kind] >= ENOUGH}
    assert kinds or not CORPUS.exists()
    lacking = {kind: real.always(kind) - mine.always(kind) for kind in kinds}
    assert {kind: fields for kind, fields in lacking.items() if fields} == {}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_fields_have_recorded_types(protocol: str) -> None:
    mine = shape_of_vendor(protocol)
    real = shape_of_recordings(protocol)
    for kind in mine.counts.keys() & real.counts.keys():
        for path, types in mine.types[kind].items():
            known = real.types[kind].get(path, types)
            odd = types - known
            unknown = {f"{kind} {path} {each}" for each in odd} - UNRECORDED.get(protocol, set())
            # the recordings of the checkout are few: null is common where they have a value
            assert not unknown or (not CORPUS.exists() and odd <= {"null"})


@pytest.mark.skipif(not CORPUS.exists(), reason="needs many recordings of real servers")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_streamed_that_no_recording_shows(protocol: str) -> None:
    mine = shape_of_vendor(protocol)
    real = shape_of_recordings(protocol)
    found = {kind for kind in mine.counts if kind not in real.counts}
    found |= {f"{before} then {after}" for before, after in mine.order - real.order}
    for kind in mine.counts.keys() & real.counts.keys():
        for path, types in mine.types[kind].items():
            known = real.types[kind].get(path, set())
            found |= {f"{kind} {path} {each}" for each in types - known}
    assert found == UNRECORDED.get(protocol, set())
