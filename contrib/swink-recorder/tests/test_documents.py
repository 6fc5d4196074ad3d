"""The form of stored calls: every call can be read again, and contains no credential."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import swink_core as swink
from swink_core.providers import HTTPRequest
from swink_recorder.capture import Tape
from swink_recorder.documents import read_document, write_document
from swink_recorder.recording import RecordingError
from swink_recorder.scrub import scrubbed
from swink_recorder.store import Entry
from swink_testing.calls import call_of

TEXTS = st.text(st.characters(exclude_categories=[]))  # halves of surrogate pairs, too
BLOCKS = st.integers(0, 2)
EVENTS = st.one_of(
    st.builds(swink.TextDelta, BLOCKS, TEXTS),
    st.builds(swink.ThinkingDelta, BLOCKS, TEXTS),
    st.builds(swink.ToolCallDelta, BLOCKS, TEXTS),
    st.builds(swink.TextStart, BLOCKS),
    st.builds(swink.Notice, st.text(), st.text()),
)
READS = st.lists(st.tuples(st.binary(), st.lists(EVENTS, max_size=6)), max_size=5)

SECRET = "sk-Canary+/=0123456789"


def tape_of(reads: list[tuple[bytes, list[Any]]], network: bool = True) -> Tape:
    call = call_of(object(), swink.Model("acme", "large"))
    tape, attempt = Tape(call), call.attempt
    attempt.ask(HTTPRequest("http://acme.invalid/chat"))
    attempt.answer(swink.ResponseHead(200, {}, call.clock.time()))
    tape.feed(swink.Start(), attempt)
    for data, events in reads:
        if network:
            attempt.count_read()
        call.tap(data)
        for event in events:
            tape.feed(event, attempt)
    return tape


def document_of(tape: Tape, *secrets: str) -> bytes:
    entry = Entry(id="a", at="2026-01-01T00:00:00", model="acme/large", outcome="done")
    asked = {"model": "acme/large"}
    return b"".join(write_document(entry, [(one, asked) for one in tape.attempts], secrets))


@given(READS, st.booleans())
def test_written_documents_are_read_again(reads: Any, network: bool) -> None:
    tape = tape_of(reads, network)
    [take], call = read_document(document_of(tape), "here")
    [kept] = tape.attempts
    assert take.events == [(round(at, 6), event) for at, event in kept.events()]
    assert [event["type"] for _, event in take.events[1:]] == [
        event.type for _, events in reads for event in events
    ]
    assert [data for _, data in take.recording.pieces()] == [data for data, _ in reads]
    assert (take.asked, call["id"]) == ({"model": "acme/large"}, "a")


def test_deltas_that_came_with_one_read_are_one_row() -> None:
    document = document_of(tape_of([(b"x", [swink.TextDelta(0, "ab"), swink.TextDelta(0, "c")])]))
    assert b'"texts":{"0":"abc"}' in document
    assert b'"text_delta",0,[2,1]]' in document


@given(
    st.lists(st.integers(1, len(SECRET) - 1), max_size=4, unique=True).map(sorted),
    st.sampled_from([b"delta", b"ignored"]),
)
def test_a_secret_is_nowhere_however_a_model_cut_it(cuts: list[int], name: bytes) -> None:
    words = [SECRET[a:b] for a, b in pairwise([0, *cuts, len(SECRET)])]
    frames = [b'data: {"%s": "%s"}\n\n' % (name, word.encode()) for word in words]
    tape = tape_of([(f, [swink.TextDelta(0, w)]) for f, w in zip(frames, words, strict=True)])
    document = document_of(tape, SECRET)
    [take], _ = read_document(document, "here")
    said = "".join(event["delta"] for _, event in take.events[1:])
    assert said == "*" * len(SECRET)
    assert take.recording.body.count(b"*") == len(SECRET)
    assert SECRET.encode() not in document


@pytest.mark.parametrize(
    ("body", "hidden"),
    [
        (b'{"a": "sk-Canary+/=0123456789"}', b'{"a": "**********************"}'),
        (b'{"a": "sk-Can"} {"a": ""} {"a": "ary+/=0123456789"}',
         b'{"a": "******"} {"a": ""} {"a": "****************"}'),
        (b'{"a": "sk-Can"} {"b": "ary+/=0123456789"}', None),
    ],
)  # fmt: skip
def test_a_body_is_searched_only_where_a_secret_may_be(body: bytes, hidden: bytes | None) -> None:
    assert scrubbed(body, [SECRET]) == (hidden or body)
    harmless = b"It is about the sky and the sea. " * 9
    assert scrubbed(harmless, [SECRET]) is harmless


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[:-1], "the answer is truncated"),
        (lambda data: data.replace(b'"swink_call":2', b'"swink_call":3'), "version 3"),
        (lambda data: data.partition(b"\n")[0], "not enough values"),
        (lambda data: b"{}\n{\n", "here"),
        (lambda data: data.replace(b'{"call":', b'{"caul":'), "call"),
        (lambda data: data.replace(b'"texts":{"0"', b'"texts":{"1"'), "here"),
        (lambda data: data.replace(b'"text_delta",0,[2]', b'"text_delta",0,["2"]'), "here"),
        (lambda data: data.replace(b'"text_delta",0,[2]', b'"text_delta",0,2'), "here"),
    ],
)
def test_a_broken_document_is_named(change: Any, said: str) -> None:
    with pytest.raises(RecordingError, match=said):
        read_document(change(document_of(tape_of([(b"xyz", [swink.TextDelta(0, "ab")])]))), "here")
