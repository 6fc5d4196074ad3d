"""Whatever a provider's server sends, a stream ends in one documented terminal event.

`make fuzz` feeds a million of the same streams; see tools/fuzz.py.
"""

from __future__ import annotations

import random

import fuzz
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_testing.chunking import byte_by_byte, random_cuts
from swink_testing.driver import comparable_events

NUMBERS = st.integers(min_value=0, max_value=2**48)


@given(number=NUMBERS)
async def test_broken_answers_end_in_one_terminal_event(number: int) -> None:
    fuzz.check(await fuzz.feed(fuzz.stream(number)))


@pytest.mark.parametrize("subject", fuzz.subjects(), ids=lambda s: str(s.model))
@given(body=st.binary(max_size=400), seed=NUMBERS)
async def test_any_bytes_at_all_end_in_one_terminal_event(
    subject: fuzz.Subject, body: bytes, seed: int
) -> None:
    pieces = random_cuts(body, seed)
    fuzz.check(await fuzz.feed(fuzz.Stream(subject, pieces, framed=False)))
    fuzz.check(await fuzz.feed(fuzz.Stream(subject, [body], framed=True)))


@given(number=NUMBERS)
async def test_broken_answers_mean_the_same_however_they_are_cut(number: int) -> None:
    broken = fuzz.stream(number)
    if broken.framed:
        return
    body = b"".join(broken.pieces)
    cuts = [[body], byte_by_byte(body), random_cuts(body, number, 12)]
    found = [comparable_events(await fuzz.feed(broken._replace(pieces=pieces))) for pieces in cuts]
    assert found[0] == found[1] == found[2]


def test_a_stream_is_made_of_its_number_alone() -> None:
    numbers = random.Random(0).sample(range(10**6), 50)
    assert [fuzz.stream(n).pieces for n in numbers] == [fuzz.stream(n).pieces for n in numbers]


def test_all_kinds_of_damage_are_done_to_all_providers() -> None:
    streams = [fuzz.stream(number) for number in range(600)]
    assert {(s.subject.model, s.framed) for s in streams} == {
        (subject.model, framed) for subject in fuzz.subjects() for framed in (True, False)
    }
