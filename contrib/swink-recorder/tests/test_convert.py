"""Older recordings become those of today, byte for byte, and today's are left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swink_recorder.convert import convert, main
from swink_recorder.documents import read_document
from swink_recorder.recording import Recording, RecordingError
from swink_recorder.store import Entry, open_store
from swink_recorder.takes import read_takes

BODY = b'data: {"text": "Hello"}\n\n'
REQUEST = {
    "method": "POST",
    "path": "/v1/chat",
    "headers": {"authorization": "[hidden]"},
    "body": {"stream": True},
}
ANSWER = {"status": 200, "headers": {"Content-Type": "text/event-stream"}}
NAMES = {"provider": "acme", "model": "large", "wire_format": "lines"}
FOLDER = {
    "version": 1, **NAMES, "note": "older", "request": REQUEST, **ANSWER, "body": "body.sse",
    "chunks": [[0.5, 10], [1.0, 15]],
}  # fmt: skip
TAKE = {"asked": {"model": "acme/large"}, **NAMES, "request": REQUEST, **ANSWER}


def folder_of(path: Path, head: dict[str, Any] = FOLDER) -> Path:
    path.mkdir()
    (path / "recording.json").write_text(json.dumps(head))
    (path / "body.sse").write_bytes(BODY)
    return path


def check(recording: Recording) -> None:
    [leg] = recording.legs
    assert (recording.provider, recording.model, recording.wire_format) == (
        "acme",
        "large",
        "lines",
    )
    assert (leg.body, leg.status, leg.headers) == (BODY, 200, ANSWER["headers"])
    assert leg.chunks == [(0.5, 10), (1.0, 15)]
    asked = leg.request
    assert {
        "method": asked.method,
        "path": asked.path,
        "headers": asked.headers,
        "body": asked.body,
    } == REQUEST


def test_a_folder_is_refused_with_the_remedy_and_converted(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "case")
    with pytest.raises(RecordingError) as caught:
        Recording.load(folder)
    assert f"python -m swink_recorder.convert {folder}" in str(caught.value)

    assert main([str(tmp_path)]) == 0

    recording = Recording.load(folder)
    check(recording)
    assert (recording.note, recording.body_file) == ("older", "body.sse")
    written = (folder / "recording.json").read_bytes()
    assert [*convert(tmp_path)] == []
    assert (folder / "recording.json").read_bytes() == written


def test_a_cassette_is_converted(tmp_path: Path) -> None:
    reads = [[0.5, 'data: {"te'], [1.0, 'xt": "Hello"}\n', "\n"]]
    events = [[0.0, {"type": "start"}]]
    unread = {"asked": {"model": "acme/large"}, **NAMES, "events": events}
    path = tmp_path / "case.json"
    attempts = [{**TAKE, "reads": reads, "charged": 0.5}, unread]
    path.write_text(json.dumps({"swink_cassette": 1, "attempts": attempts}))

    assert [*convert(path)] == [str(path)]

    [take, other], _ = read_takes(path.read_bytes(), path)
    check(take.recording)
    assert (take.asked, take.charged) == ({"model": "acme/large"}, 0.5)
    assert (other.recording.status, other.events) == (0, [(0.0, {"type": "start"})])


@pytest.mark.parametrize("name", ["calls", "calls.sqlite"])
def test_kept_calls_are_converted(tmp_path: Path, name: str) -> None:
    store = open_store(tmp_path / name)
    entry = Entry(id="a", at="2026-01-01T00:00:00", model="acme/large", outcome="done")
    first = {"call": {"id": "a", "at": entry.at, "model": entry.model, "outcome": "done"}}
    events = [[0.0, {"type": "start"}], [0.5, "text_delta", 0, [5]]]
    attempt = {**TAKE, "reads": [[0.5, 10], [1.0, 15]], "texts": {"0": "Hello"}, "events": events}
    lines = [first, {"swink_call": 1, "attempts": [attempt]}]
    store.add([(entry, [*(json.dumps(line).encode() + b"\n" for line in lines), BODY])])

    assert [*convert(tmp_path / name)] == [f"{tmp_path / name}: a"]
    assert [*convert(tmp_path / name)] == []

    [take], call = read_document(store.read("a"), "here")
    check(take.recording)
    assert call["id"] == "a"
    assert take.events[1] == (0.5, {"type": "text_delta", "content_index": 0, "delta": "Hello"})
    assert [kept.id for kept in store.entries()] == ["a"]


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_an_invalid_recording_is_named(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "case.json"
    path.write_text(text)

    assert main([str(path)]) == 1

    assert str(path) in capsys.readouterr().err
    assert path.read_text() == text
