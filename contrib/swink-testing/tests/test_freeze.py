"""The cost of large input grows linearly, and how that is measured.

That nothing large holds it at all is a check of the kit, `large_input`.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from conformance_subjects import FIXTURES, subject_of

from swink_core import Host
from swink_test_helpers.growing_work import LINEAR, by_parser, growing_frames, growth
from swink_testing import freeze
from swink_testing.conformance import Subject
from swink_testing.freeze import FREEZE, HOSTILE_SIZE, cpu_seconds, large_frames
from swink_testing.oversized_json import NESTING, WHOLE, inflated

EVERY = [Subject.find(name) for name in Host(environ={}).provider_names()]
BY_PARSER = pytest.mark.parametrize(
    "subjects", by_parser(EVERY), ids=lambda group: "-".join(dict.fromkeys(s.name for s in group))
)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)  # what is kept of the log is no part of the step


@pytest.mark.heavy
@BY_PARSER
def test_a_byte_of_a_large_frame_costs_what_one_of_a_small_frame_does(
    subjects: list[Subject],
) -> None:
    assert list(growing_frames(subjects)) == []


def test_work_that_grows_faster_than_a_frame_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock counts the bytes that a parser looks at, so that no other program matters."""
    monkeypatch.syspath_prepend(str(FIXTURES))
    subject = subject_of()
    parser = type(subject.provider.parser(subject.model))
    looked_at = [0]

    class LooksAgain(parser):  # type: ignore[misc,valid-type]
        """Reads as it did, and looks for a frame's end from the first byte at every read."""

        def feed(self, frame: bytes, out: Any) -> None:
            looked_at[0] += len(frame) + sum(range(0, len(frame), 1 << 14))
            super().feed(frame, out)

    monkeypatch.setattr(type(subject.provider), "parser", lambda *_: LooksAgain())
    monkeypatch.setattr("swink_testing.freeze.thread_time", lambda: looked_at[0])
    [told] = growing_frames([subject], most=1)

    assert "times as much by the byte" in told


# -- the meter itself -----------------------------------------------------------------------------


def test_time_that_others_have_is_not_counted() -> None:
    assert cpu_seconds(lambda: time.sleep(FREEZE / 3), 0.0, 3) < FREEZE / 3


# (name, times that the processor is as slow as usual, measured seconds, seconds at usual speed)
SPEEDS = [
    ("usual", 1.0, 0.18, 0.18),
    ("slow", 2.0, 0.18, 0.09),
    ("fast", 0.5, 0.18, 0.18),
    ("short_times_are_not_compared", 2.0, 0.08, 0.08),
]


@pytest.mark.parametrize(
    ("slow", "seconds", "expected"), [case[1:] for case in SPEEDS], ids=[case[0] for case in SPEEDS]
)
def test_a_long_time_on_a_slow_processor_is_shortened(
    slow: float, seconds: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(freeze, "thread_time", lambda: now[0])
    monkeypatch.setattr(freeze, "_usual_work", lambda: takes(slow * freeze.USUAL_SECONDS))

    def takes(seconds: float) -> None:
        now[0] += seconds

    assert cpu_seconds(lambda: takes(seconds)) == pytest.approx(expected)


def test_a_processor_that_is_slow_in_most_runs_does_not_make_work_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([0.18] * (freeze._RUNS - 1) + [0.08])
    monkeypatch.setattr(freeze.UsualSpeed, "seconds", lambda self, seconds, enough: next(times))

    assert cpu_seconds(lambda: None) == 0.08


def test_work_that_is_certainly_slow_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.51, 0.08])
    monkeypatch.setattr(freeze.UsualSpeed, "seconds", lambda self, seconds, enough: next(times))

    assert cpu_seconds(lambda: None) == 0.51


def test_the_higher_of_the_speeds_before_and_after_a_run_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slowness = iter([2.0, 4.0, 1.0])
    monkeypatch.setattr(freeze, "_once", lambda work: next(slowness) * freeze.USUAL_SECONDS)
    speed = freeze.UsualSpeed()

    assert [speed.seconds(1.0) for _ in range(3)] == [1.0, 0.5, 1.0]


def test_quadratic_work_is_told_from_linear() -> None:
    assert growth(lambda n: lambda: [0] * (n * n), 500) > LINEAR
    assert growth(lambda n: lambda: sum(range(n)), 100_000) < LINEAR


def test_a_nested_value_in_place_of_a_frame_is_tried_once() -> None:
    made = [where for where, *_ in large_frames([Subject.find("anthropic")], HOSTILE_SIZE)]

    assert sum(where.endswith(f"{WHOLE}: {NESTING}") for where in made) == 1
    assert sum(where.endswith(NESTING) for where in made) > 10


def test_every_place_is_made_large_in_every_way_that_its_value_allows() -> None:
    data = {"text": "Hi", "index": 1, "cites": [{"type": "cite", "url": "a"}], "none": None}
    made = dict(inflated(data, HOSTILE_SIZE, ["x"]))

    assert {where.partition(":")[0] for where in made} == {
        "all of it", "text", "index", "cites", "cites.0", "cites.0.type", "cites.0.url", "none",
    }  # fmt: skip
    large = [frame for where, frame in made.items() if not where.endswith(NESTING)]
    assert all(HOSTILE_SIZE / 2 < len(frame) < HOSTILE_SIZE * 2 for frame in large)
    assert len(made["all of it: nesting"]) > HOSTILE_SIZE / 2
    assert made["cites: with other texts"].startswith(
        b'{"text":"Hi","index":1,"cites":[{"type":"cite","url":"a0"},{"type":"cite","url":"a1"}'
    )
