"""A provider whose frames are its own is examined as others are, where its decoder writes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from attrs import evolve
from conformance_subjects import FIXTURES, subject_of

from swink_core.providers import EventWriter, SSEDecoder
from swink_testing.chaos_answers import Answer
from swink_testing.conformance import (
    PROVIDER_CHECKS,
    Outcome,
    Subject,
    consistency_line,
    run_checks,
)

SIZE = 4
"""Bytes of a frame that say how many follow, which are MessagePack."""

FURTHER_REQUESTS = {"credentials", "further_requests"}
"""Checks of providers with several requests or with tokens, which this one has not."""


class Lengths:
    binary = True

    def __init__(self) -> None:
        self._partial = b""

    def feed(self, data: bytes) -> list[bytes]:
        self._partial += data
        frames = []
        while (end := SIZE + int.from_bytes(self._partial[:SIZE])) <= len(self._partial):
            frames.append(self._partial[SIZE:end])
            self._partial = self._partial[end:]
        return frames

    def finish(self) -> list[bytes]:
        return []


class Packed(Lengths):
    @staticmethod
    def as_json(frame: bytes) -> bytes:
        return msgspec.json.encode(msgspec.msgpack.decode(frame))

    @staticmethod
    def of_json(text: bytes) -> bytes:
        frame = msgspec.msgpack.encode(msgspec.json.decode(text))
        return len(frame).to_bytes(SIZE) + frame


@pytest.fixture(autouse=True)
def _fixture_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FIXTURES)


def packed(where: str, decoder: type[Lengths], monkeypatch: pytest.MonkeyPatch) -> Subject:
    """Return a provider of the fixtures whose streams come in other frames."""
    subject = subject_of("sound", where)
    made = type(subject.provider)
    parser = type(subject.provider.parser(subject.model))
    feed = parser.feed

    def read(self: Any, frame: bytes, out: EventWriter) -> None:
        feed(self, Packed.as_json(frame), out)

    def buffered(self: Any, body: bytes, out: EventWriter) -> None:
        for frame in msgspec.json.decode(body, type=list[msgspec.Raw]):
            feed(self, bytes(frame), out)

    monkeypatch.setattr(made, "decoder", decoder)
    monkeypatch.setattr(made, "content_types", ("application/x-packed",))
    monkeypatch.setattr(parser, "feed", read)
    monkeypatch.setattr(parser, "buffered", buffered)
    recordings = []
    for each in subject.recordings:
        if each.status == 200:
            body = b"".join(map(Packed.of_json, SSEDecoder().feed(each.body)))
            headers = {"Content-Type": "application/x-packed"}
            each = evolve(each, body=body, chunks=[(0.0, len(body))], headers=headers)
        recordings.append(each)
    monkeypatch.setattr(subject, "recordings", recordings)
    return subject


def test_every_check_applies_but_those_of_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    results = run_checks(PROVIDER_CHECKS, packed("Sound", Packed, monkeypatch))

    assert {r.name: r.detail for r in results if r.outcome is Outcome.FAILED} == {}
    idle = {r.name for r in results if r.outcome is Outcome.DOES_NOT_APPLY}
    assert idle == FURTHER_REQUESTS


@pytest.mark.parametrize(
    ("where", "check"),
    [
        ("broken:InventsReasons", "finish_reasons"),
        ("broken:InventsReasons", "expected_messages"),
        ("broken:IgnoresErrorFrames", "errors"),
        ("broken:KnowsAllFrames", "other_forms"),
        ("careless:StrictFields", "other_forms"),
        ("careless:DropsBlanks", "answers_are_read"),
    ],
)
def test_a_fault_is_found_in_frames_of_its_own(
    where: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = [each for each in PROVIDER_CHECKS if each.name == check]
    [found] = run_checks(checks, packed(where, Packed, monkeypatch))
    assert found.outcome is Outcome.FAILED


class Named(SSEDecoder):
    """Returns events without a name unchanged, as any decoder of events does."""

    @staticmethod
    def as_json(frame: bytes) -> bytes:
        return frame

    @staticmethod
    def of_json(text: bytes) -> bytes:
        return b"event: named\ndata: %s\n\n" % text


def test_a_decoder_that_writes_its_frames_is_asked_to_whatever_else_it_reads() -> None:
    answer = Answer.of_body(b"data: {}\n\n", Named)

    assert answer.frame(b"{}") == b"event: named\ndata: {}\n\n"
    assert answer.payloads(answer.frame(b"{}")) == [b"{}"]


def test_without_a_decoder_that_writes_the_checks_that_need_it_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = run_checks(PROVIDER_CHECKS, packed("Sound", Lengths, monkeypatch))

    why = "its frames are neither SSE nor NDJSON, and its decoder has no as_json and of_json"
    idle = {r.name for r in results if r.outcome is Outcome.DOES_NOT_APPLY and r.detail == why}
    assert {"finish_reasons", "token_counts", "other_forms"} <= idle
    assert consistency_line(results).startswith("consistent: ")
