"""One flipped bit in an answer is reported, or leaves the text unchanged.

The exception is a bit that leaves the frame valid JSON in valid UTF-8: it cannot be detected.
"""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from swink_core import Done, Notice
from swink_test_helpers.mutated_answers import Mutated, mutated
from swink_testing.driver import fold, run_bytes

SAMPLE = 16
"""Bytes of each provider's shortest recording that are flipped, bit by bit."""


def frames_of(subject: Mutated, body: bytes) -> list[bytes]:
    decoder = subject.decoder()
    try:
        return [*decoder.feed(body), *decoder.finish()]
    except ValueError:
        return []


def is_json(frame: bytes) -> bool:
    try:
        json.loads(frame.decode())
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("subject", mutated(), ids=lambda subject: str(subject.model))
def test_no_flipped_bit_changes_a_completed_answer_unnoticed(subject: Mutated) -> None:
    body = min(map(b"".join, subject.bodies), key=len)
    frames = Counter(frames_of(subject, body))
    text = fold(run_bytes(subject.provider, subject.model, [body])).text
    rng = random.Random(len(body))
    for place in rng.sample(range(len(body)), min(SAMPLE, len(body))):
        for bit in range(8):
            flipped = bytearray(body)
            flipped[place] ^= 1 << bit
            events = run_bytes(subject.provider, subject.model, [bytes(flipped)])
            if not isinstance(events[-1], Done) or fold(events).text == text:
                continue
            if any(isinstance(e, Notice) and e.code == "unknown_field" for e in events):
                continue
            changed = Counter(frames_of(subject, bytes(flipped))) - frames
            assert changed, (place, bit)
            assert all(map(is_json, changed)), (place, bit, changed)
