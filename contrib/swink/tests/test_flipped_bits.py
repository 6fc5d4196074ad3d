"""One flipped bit in a recorded answer is reported, or changes nothing that a caller reads.

`make fuzz` flips every bit of every byte.
"""

from __future__ import annotations

from typing import Any

import pytest

from swink_test_helpers.flipped_bits import RecordedBody, flips, recorded_bodies

SAMPLE = 12
"""Bytes of each recording that are flipped, bit by bit."""


@pytest.mark.parametrize("body", recorded_bodies(), ids=lambda body: body.name)
async def test_no_flipped_bit_changes_a_completed_answer_unnoticed(body: RecordedBody) -> None:
    faults = [
        (place, bit, fault)
        for place, bit in flips(body, SAMPLE, seed=len(body.body))
        if (fault := await body.fault(place, bit)) is not None
    ]
    assert faults == []


class _DeafParser:
    """A parser that ignores frames that do not parse."""

    def __init__(self, parser: Any) -> None:
        self._feed = parser.feed

    def feed(self, frame: bytes, out: Any) -> None:
        try:
            self._feed(frame, out)
        except ValueError:
            return


async def test_a_parser_that_ignores_damaged_frames_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = next(body for body in recorded_bodies() if body.model.provider == "deepseek")
    parser_of = body.provider.parser
    monkeypatch.setattr(body.provider, "parser", lambda model: _DeafParser(parser_of(model)))
    faults = [await body.fault(place, bit) for place, bit in flips(body, 100, seed=1)]
    assert any(fault is not None and "damaged frame" in fault for fault in faults)
