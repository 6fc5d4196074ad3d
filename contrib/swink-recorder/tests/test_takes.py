"""The form of cassettes and stored calls, and what never gets into it, for any bytes."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import swink_core as swink
from swink_core.providers import HTTPProvider, HTTPRequest
from swink_recorder.canonical import canonical_request, differences, digest_of
from swink_recorder.capture import Tape
from swink_recorder.cassette import Cassette
from swink_recorder.plugin import CassettePlugin
from swink_recorder.recording import Recording
from swink_recorder.takes import Take, TakeFailure, read_takes, write_takes
from swink_test_helpers.canary_credentials import SONG, environment_of, given_to
from swink_testing.calls import call_of
from swink_testing.conformance import Subject
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

SECONDS = st.floats(0, 1e6, allow_nan=False).map(lambda seconds: round(seconds, 6))
READS = st.lists(st.tuples(SECONDS, st.binary() | st.text().map(str.encode)))
WORDS = st.text()
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


def take(reads: list[tuple[float, bytes]], **facts: Any) -> Take:
    recording = Recording(
        "acme",
        "large",
        b"".join(data for _, data in reads),
        [(at, len(data)) for at, data in reads],
        status=200,
        headers={"Content-Type": "text/event-stream"},
    )
    return Take({"model": "acme/large"}, recording, **facts)


@settings(max_examples=50)
@given(
    READS,
    st.lists(st.tuples(SECONDS, st.dictionaries(WORDS, DATA, max_size=3)), max_size=3),
    st.none() | st.builds(TakeFailure, st.sampled_from(swink.StreamErrorKind), WORDS),
    st.none() | st.floats(0, 10, allow_nan=False),
)
def test_written_documents_are_read_again(
    reads: Any, events: Any, failure: TakeFailure | None, charged: float | None
) -> None:
    written = take(reads, events=events, failure=failure, charged=charged, request_id="r")
    [read], _ = read_takes(write_takes([written]), "here")
    assert read.recording.pieces() == [(at, data) for at, data in reads]
    assert (read.asked, read.events, read.failure, read.charged, read.request_id) == (
        written.asked, events, failure, charged, "r",
    )  # fmt: skip


def test_a_line_of_an_answer_and_an_event_are_a_line_of_the_file() -> None:
    reads = [(0.5, "data: é\n\ndata: two\n".encode()), (1.0, b"data: \xff")]
    lines = write_takes([take(reads, events=[(2.0, {"type": "start"})])]).decode().splitlines()
    shown = [line.strip() for line in lines]
    for line in (
        "[0.5,",
        '"data: é\\n",',
        '"\\n",',
        '"data: two\\n"],',
        '[2.0,{"type":"start"}]',
    ):
        assert line in shown


def test_of_several_answers_within_an_attempt_all_are_kept_and_the_last_one_counts() -> None:
    call = call_of(object(), swink.Model("acme", "large"))
    tape, attempt = Tape(call), call.attempt
    for status, data in ((404, b"not here"), (200, b"here")):
        attempt.ask(HTTPRequest("http://acme.invalid/chat"))
        attempt.answer(swink.ResponseHead(status, {}, call.clock.time()))
        call.tap(data)
    recording = tape.recording()
    assert (recording.status, recording.body, len(recording.chunks)) == (200, b"here", 1)
    assert [leg.body for leg in recording.legs] == [b"not here", b"here"]


SECRET = "sk-Canary+/=0123456789"


@given(
    st.lists(st.integers(1, len(SECRET) - 1), max_size=4, unique=True).map(sorted),
    st.lists(st.integers(0, 400), max_size=4, unique=True).map(sorted),
    st.sampled_from(["delta", "text", "content"]),
)
def test_a_secret_is_nowhere_however_a_model_and_a_network_cut_it(
    frames: list[int], network: list[int], name: str
) -> None:
    ends = [0, *frames, len(SECRET)]
    words = [SECRET[a:b] for a, b in pairwise(ends)]
    body = b"".join(b'data: {"%s": "%s"}\n\n' % (name.encode(), word.encode()) for word in words)
    cuts = [0, *[cut for cut in network if cut < len(body)], len(body)]
    reads = [(0.0, body[a:b]) for a, b in pairwise(cuts)]
    events = [(0.0, {"type": "text_delta", "content_index": 0, "delta": word}) for word in words]
    written = write_takes([take(reads, events=events)], secrets={SECRET})
    [read], _ = read_takes(written, "here")
    said = "".join(json.loads(f)[name] for f in read.recording.body.decode().split("data: ")[1:])
    assert said == "".join(event["delta"] for _, event in read.events) == "*" * len(SECRET)
    assert SECRET.encode() not in written


# -- the canonical request -------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.dictionaries(WORDS, DATA, max_size=5))
def test_the_order_of_fields_does_not_count(data: dict[str, Any]) -> None:
    turned = dict(reversed(data.items()))
    assert digest_of(turned) == digest_of(data)
    assert differences(turned, data) == []


@settings(max_examples=100)
@given(st.dictionaries(WORDS, DATA, min_size=1, max_size=4), st.data())
def test_any_change_is_a_difference_and_another_digest(data: dict[str, Any], draw: Any) -> None:
    name = draw.draw(st.sampled_from(sorted(data)))
    other = {**data, name: draw.draw(DATA)}
    same = json.dumps(other, sort_keys=True) == json.dumps(data, sort_keys=True)
    assert (digest_of(other) == digest_of(data)) is same
    if not {"body"} & {*data}:
        assert (differences({**other, "body": 1}, {**data, "body": 1}) == []) is same


SUBJECTS = [Subject.find(name) for name in swink.Host(environ={}).provider_names()]
ASKED = [subject for subject in SUBJECTS if isinstance(subject.provider, HTTPProvider)]


@pytest.mark.parametrize("subject", ASKED, ids=lambda subject: subject.name)
def test_a_canonical_request_is_data_without_a_credential_and_the_same_every_time(
    subject: Subject,
) -> None:
    options = swink.StreamOptions(**given_to(subject.name))
    one, other = (
        canonical_request(call_of(subject.binding, subject.model, options=options))
        for _ in range(2)
    )
    assert one == other == json.loads(json.dumps(one))
    assert [s[0] for s in SONG.finditer(json.dumps(one)) if s[1] not in PUBLIC] == []


PUBLIC = ("header", "address")
"""Secret values in the options of canaries whose names do not show it."""


@pytest.mark.parametrize("subject", ASKED, ids=lambda subject: subject.name)
async def test_no_canary_sings_in_a_cassette(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment_of(subject.catalog, [subject.name]).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SWINK_CLAUDE_COMMAND", "/no/such/command")
    host = swink.Host([CassettePlugin()], entry_points=[_Point(subject)], environ={})
    given = given_to(subject.name)
    key = given["api_key"]
    refusal = MemoryResponse.of_json({"error": {"message": f"no such key: {key}"}}, 401)
    with Cassette(tmp_path / "case.json"):
        async with swink.Client(
            host=host, http=MemoryHTTPClient(*[refusal] * 2), retry=swink.RetryPolicy.none()
        ) as client:
            stream = client.stream(subject.model, f"Is it {key}?", **given)
            async with stream:
                [*_] = [event async for event in stream]
    text = (tmp_path / "case.json").read_text()
    assert [song[0] for song in SONG.finditer(text) if song[1] not in PUBLIC] == []


class _Point:
    dist = None

    def __init__(self, subject: Subject) -> None:
        entry = subject.entry
        self.name, self.group, self.value = entry.name, entry.group, entry.value
        self.load = entry.load
