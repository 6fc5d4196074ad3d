"""A provider whose parser wrote its expected messages: the kit reads the bytes of the answer."""

from __future__ import annotations

import asyncio
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest
from attrs import evolve

from swink_core import Host, StopReason
from swink_recorder.recording import Recording
from swink_testing.conformance import PROVIDER_CHECKS, Result, Subject, run_check
from swink_testing.driver import fold
from swink_testing.mutants import edited

EXAMPLE = Path(__file__).parents[2] / "examples/job_provider/src"
PACKAGE = "swink_provider_kiln"

LEFT = EXAMPLE / PACKAGE / "recordings/left"
"""An abandoned call, which shows where the job is cancelled."""

COUNTS = "out.usage(data.input, data.output)"
TEXT = "out.text(data.add)"
HELD = "held = self.__dict__.setdefault('held', [])\n                held.append(data.add)\n"

FAULTS = [
    # what is wrong, the code that is changed, what stands there instead
    ("the usage is dropped", COUNTS, "pass"),
    ("the counts are swapped", COUNTS, "out.usage(data.output, data.input)"),
    ("one output token more", COUNTS, "out.usage(data.input, (data.output or 0) + 1)"),
    ("line ends alone are lost", TEXT, "out.text(data.add if data.add.strip() else '')"),
    ("lines are joined", TEXT, "out.text(data.add.replace('\\n', ''))"),
    (
        "the last text is lost",
        TEXT,
        f"{HELD}                out.text(held.pop(0) if held[1:] else '')",
    ),
    (
        "the first two texts are swapped",
        TEXT,
        f"{HELD}                out.text('' if len(held) == 1 else held.pop() + ''.join(held))\n"
        "                held[:] = held[:1] if len(held) == 1 else ['']",
    ),
]


@pytest.fixture(autouse=True)
def _example_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))


def subject(*recordings: Path) -> Subject:
    point = EntryPoint("kiln", f"{PACKAGE}:Kiln", "swink.providers")
    entry = SimpleNamespace(
        name="kiln",
        group=point.group,
        value=point.value,
        load=point.load,
        dist=SimpleNamespace(name="swink-provider-kiln", version="1.0"),
    )
    return Subject("kiln", Host(entry_points=[entry], environ={}), recording_paths=recordings)


def result_of(name: str, *recordings: Path) -> Result:
    [check] = [check for check in PROVIDER_CHECKS if check.name == name]
    return run_check(check, subject(LEFT, *recordings))


def recorded(body: bytes | None, folder: Path) -> Path:
    """Save an answer with the message that the installed parser makes of it."""
    recording = Recording.load(EXAMPLE / PACKAGE / "recordings/hello")
    if body is not None:
        recording = evolve(recording, body=body, chunks=[(0.0, len(body))])
    message = fold(asyncio.run(subject().parse(recording)), "kiln", recording.model)
    evolve(recording, message=message).save(folder)
    return folder


def test_what_is_right_passes(tmp_path: Path) -> None:
    result = result_of("answers_are_read", recorded(None, tmp_path / "hello"))

    assert not result.is_fault, result.detail


@pytest.mark.parametrize(("name", "was", "now"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_found_although_it_is_expected(
    name: str, was: str, now: str, tmp_path: Path
) -> None:
    with edited(name, PACKAGE, was, now).installed():
        folder = recorded(None, tmp_path / "hello")
        expected = result_of("expected_messages", folder)
        read = result_of("answers_are_read", folder)

    assert not expected.is_fault, expected.detail
    assert read.is_fault


def test_a_fault_of_a_further_request_is_not_tried_on_an_answer_that_failed(
    tmp_path: Path,
) -> None:
    body = b'event: broken\ndata: {"slug": "kiln_full", "say": "Full."}\n\n'
    failed = recorded(body, tmp_path / "a")
    assert Recording.load(failed).message.stop_reason is StopReason.ERROR  # type: ignore[union-attr]  # it was saved with one

    result = result_of("further_requests", failed, recorded(None, tmp_path / "b"))

    assert not result.is_fault, result.detail
    assert result.applied
