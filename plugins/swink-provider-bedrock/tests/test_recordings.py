"""The shipped recordings are those that can be read in bedrock_recordings.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from bedrock_recordings import SHIPPED, recordings, whole_answers

from swink_recorder.recording import Recording, find_recordings

WRITTEN = {"recordings": list(recordings()), "whole_answers": list(whole_answers())}


@pytest.mark.parametrize(
    ("folder", "recording"),
    [(folder, recording) for folder, found in WRITTEN.items() for recording in found],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_recording_is_as_it_is_written_down(
    folder: str, recording: Recording, tmp_path: Path
) -> None:
    recording.save(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    there = SHIPPED / folder / recording.name
    assert {path.name: path.read_bytes() for path in there.iterdir()} == written


@pytest.mark.parametrize(("folder", "written"), WRITTEN.items(), ids=list(WRITTEN))
def test_no_other_recording_is_shipped(folder: str, written: list[Recording]) -> None:
    names = sorted(recording.name for recording in written)
    assert [place.name for place in find_recordings(SHIPPED / folder)] == names
