"""The shipped recordings are those that can be read in bedrock_recordings.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from bedrock_recordings import SHIPPED, recordings

from swink_recorder.recording import Recording, find_recordings


@pytest.mark.parametrize("recording", list(recordings()), ids=lambda recording: recording.name)
def test_a_recording_is_as_it_is_written_down(recording: Recording, tmp_path: Path) -> None:
    recording.save(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    shipped = {path.name: path.read_bytes() for path in (SHIPPED / recording.name).iterdir()}
    assert shipped == written


def test_no_other_recording_is_shipped() -> None:
    names = sorted(recording.name for recording in recordings())
    assert [folder.name for folder in find_recordings(SHIPPED)] == names
