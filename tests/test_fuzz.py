"""For any bytes from a provider's server, a stream ends in one documented terminal event.

`make fuzz` feeds a million of the same streams, half of them over HTTP; see lab/fuzz.py.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lab import fuzz
from swink_core.providers import AiohttpClient
from swink_test_helpers.mutated_answers import Mutated, Stream, mutated, refusal, stream
from swink_testing.chunking import byte_by_byte, random_cuts
from swink_testing.driver import comparable_events

NUMBERS = st.integers(min_value=0, max_value=2**48)


@given(number=NUMBERS)
async def test_broken_answers_end_in_one_terminal_event(number: int) -> None:
    fuzz.check(await fuzz.feed(stream(number)))


@pytest.mark.parametrize("subject", mutated(), ids=lambda s: str(s.model))
@given(body=st.binary(max_size=400), seed=NUMBERS)
async def test_any_bytes_at_all_end_in_one_terminal_event(
    subject: Mutated, body: bytes, seed: int
) -> None:
    pieces = random_cuts(body, seed)
    fuzz.check(await fuzz.feed(Stream(subject, pieces, framed=False)))
    fuzz.check(await fuzz.feed(Stream(subject, [body], framed=True)))


@given(number=NUMBERS)
async def test_broken_refusals_end_in_one_error(number: int) -> None:
    fuzz.check_refused(await fuzz.be_refused(refusal(number)))


@settings(max_examples=20)  # each takes as long as ten without a network
@given(number=NUMBERS)
async def test_broken_answers_over_http_end_in_one_terminal_event(number: int) -> None:
    given = stream(number)
    assume(given.subject.kit.speaks_http)
    async with fuzz.Server() as server:
        loopback = fuzz.Loopback(server, AiohttpClient())
        fuzz.check(await fuzz.ask(given, number, loopback))
        await loopback.http.aclose()


@given(number=NUMBERS)
async def test_broken_answers_mean_the_same_however_they_are_cut(number: int) -> None:
    broken = stream(number)
    if broken.framed:
        return
    body = b"".join(broken.pieces)
    cuts = [[body], byte_by_byte(body), random_cuts(body, number, 12)]
    found = [comparable_events(await fuzz.feed(broken._replace(pieces=pieces))) for pieces in cuts]
    assert found[0] == found[1] == found[2]


def test_a_stream_is_made_of_its_number_alone() -> None:
    numbers = random.Random(0).sample(range(10**6), 50)
    assert [stream(n).pieces for n in numbers] == [stream(n).pieces for n in numbers]


def test_all_kinds_of_damage_are_done_to_all_providers() -> None:
    streams = [stream(number) for number in range(600)]
    assert {(s.subject.model, s.framed) for s in streams} == {
        (subject.model, framed) for subject in mutated() for framed in (True, False)
    }


def test_changed_values_reach_the_parser_whatever_the_framing() -> None:
    streams = [s for s in map(stream, range(1200)) if s.framed and s.subject.writer is not None]
    recorded = {frame for s in streams for body in s.subject.bodies for frame in body}
    changed = [(s, frame) for s in streams for frame in s.pieces if frame not in recorded]
    assert changed
    for broken, frame in changed:
        assert broken.subject.writer is not None
        broken.subject.writer.as_json(frame)
