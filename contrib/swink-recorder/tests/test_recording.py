"""The recording format: what is written can be read, and nothing secret is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_core import AssistantMessage, StopReason, StreamErrorKind, SwinkError, TextBlock
from swink_recorder import recording as recordings
from swink_recorder.legs import RecordedRequest, body_file_for
from swink_recorder.recording import (
    Recording,
    RecordingError,
    bundled_recordings,
    find_recordings,
)
from swink_recorder.scrub import scrub_headers, scrub_url

KEY = "sk-canary-1234567890"


def recording(**changes: Any) -> Recording:
    facts: dict[str, Any] = {
        "provider": "acme",
        "model": "large",
        "body": b"data: a\n\ndata: b\n\n",
        "chunks": [(0.0, 9), (0.25, 9)],
        "wire_format": "acme-chat",
        "note": "two frames",
        "request": RecordedRequest("POST", "/v1/chat?alt=sse", {"X-Trace": "1"}, {"stream": True}),
        "headers": {"Content-Type": "text/event-stream"},
        "message": AssistantMessage([TextBlock("ab")], stop_reason=StopReason.STOP),
        "name": "case",
    }
    return Recording(**{**facts, **changes})


SAVED = [
    ("a stream", recording()),
    ("one without an expected message", recording(message=None)),
    ("one without a body", recording(body=b"", chunks=[])),
    (
        "a failure",
        recording(
            body=b"{}",
            chunks=[(0.0, 2)],
            status=429,
            headers={"Content-Type": "application/json"},
            message=AssistantMessage(
                [], stop_reason=StopReason.ERROR, error_kind=StreamErrorKind.THROTTLED
            ),
        ),
    ),
    ("a binary body", recording(body=bytes(range(256)), chunks=[(0.5, 256)], headers={})),
    ("a request without a body", recording(request=RecordedRequest("GET", "/"))),
    ("reads of no bytes", recording(chunks=[(0.0, 0), (0.0, 18), (1.0, 0)])),
]


@pytest.mark.parametrize("saved", [row[1] for row in SAVED], ids=[row[0] for row in SAVED])
def test_a_saved_recording_can_be_loaded(saved: Recording, tmp_path: Path) -> None:
    saved.save(tmp_path / "case")

    assert Recording.load(tmp_path / "case") == saved


@given(st.lists(st.tuples(st.floats(0, 9), st.binary(max_size=5)), max_size=9))
def test_pieces_are_the_reads_and_join_to_the_body(reads: list[tuple[float, bytes]]) -> None:
    body = b"".join(data for _, data in reads)

    pieces = recording(body=body, chunks=[(at, len(data)) for at, data in reads]).pieces()

    assert pieces == reads


@pytest.mark.parametrize(
    ("content_type", "file"),
    [
        ("text/event-stream", "body.sse"),
        ("Text/Event-Stream; charset=utf-8", "body.sse"),
        ("application/x-ndjson", "body.ndjson"),
        ("application/json", "body.json"),
        ("application/vnd.amazon.eventstream", "body.bin"),
        ("", "body.bin"),
    ],
)
def test_the_body_is_named_after_its_media_type(content_type: str, file: str) -> None:
    assert body_file_for({"content-type": content_type}) == file


# -- secrets ---------------------------------------------------------------------------------

HEADERS = [
    ("Authorization", True),
    ("x-api-key", True),
    ("api-key", True),
    ("x-goog-api-key", True),
    ("X-Amz-Security-Token", True),
    ("Set-Cookie", True),
    ("openai-organization", True),
    ("Content-Type", False),
    ("x-ratelimit-remaining-tokens", False),
    ("anthropic-ratelimit-tokens-reset", False),
    ("retry-after", False),
    ("request-id", False),
]


@pytest.mark.parametrize(("name", "hidden"), HEADERS)
def test_headers_are_hidden_by_their_names(name: str, hidden: bool) -> None:
    assert scrub_headers({name: "value"}) == {name: "[hidden]" if hidden else "value"}


URLS = [
    ("/v1/chat?key=abc&alt=sse", "/v1/chat?key=[hidden]&alt=sse"),
    ("/v1/chat?alt=sse&api_key=abc", "/v1/chat?alt=sse&api_key=[hidden]"),
    ("/v1/chat?X-Amz-Signature=abc", "/v1/chat?X-Amz-Signature=[hidden]"),
    ("/v1/chat?sig=a%2Bb", "/v1/chat?sig=[hidden]"),
    ("/v1/chat?design=flat", "/v1/chat?design=flat"),
    ("/openai?api-version=2024-10-21", "/openai?api-version=2024-10-21"),
    ("/a%20b?x=%20&empty=&key=", "/a%20b?x=%20&empty=&key=[hidden]"),
    ("https://user:pass@example.org/v1", "https://example.org/v1"),
    ("https://example.org:8080/v1?a=1#top", "https://example.org:8080/v1?a=1#top"),
    ("/v1/chat", "/v1/chat"),
]


@pytest.mark.parametrize(("url", "scrubbed"), URLS)
def test_credentials_are_removed_from_urls(url: str, scrubbed: str) -> None:
    assert scrub_url(url) == scrubbed


def test_nothing_secret_is_written_wherever_it_occurs(tmp_path: Path) -> None:
    secret = recording(
        body=f"data: {KEY}\n\n".encode(),
        chunks=[(0.0, 10), (0.1, 18)],
        note=f"recorded with {KEY}",
        request=RecordedRequest(
            "POST", f"/{KEY}?key={KEY}", {"X-Custom": KEY, "Cookie": KEY}, {"user": KEY}
        ),
        headers={"X-Echo": KEY},
        message=AssistantMessage([TextBlock(KEY)]),
    )

    secret.save(tmp_path, secrets=[KEY])

    for file in tmp_path.iterdir():
        assert KEY.encode() not in file.read_bytes()
    assert Recording.load(tmp_path).body == b"data: " + b"*" * len(KEY) + b"\n\n"


def _said(*pieces: str) -> bytes:
    return b"".join(
        b'data: {"id":"r1","delta":{"content":"%s"}}\n\n' % piece.encode() for piece in pieces
    )


@pytest.mark.parametrize("size", [1, 3, len(KEY) - 1])
def test_a_secret_that_came_in_pieces_is_hidden(tmp_path: Path, size: int) -> None:
    pieces = [KEY[at : at + size] for at in range(0, len(KEY), size)]
    body = _said("it is ", *pieces, " I think")

    recording(body=body, chunks=[(0.0, len(body))]).save(tmp_path, secrets=[KEY])

    hidden = Recording.load(tmp_path).body
    assert hidden == _said("it is ", *("*" * len(piece) for piece in pieces), " I think")


def test_a_secret_that_contains_another_is_hidden_whole(tmp_path: Path) -> None:
    recording(body=b"secret-and-more", chunks=[(0.0, 15)]).save(
        tmp_path, secrets=["secret", "secret-and-more"]
    )

    assert Recording.load(tmp_path).body == b"*" * 15


def test_a_text_too_short_for_a_secret_is_kept(tmp_path: Path) -> None:
    recording().save(tmp_path, secrets=["", "d", "data"])

    assert Recording.load(tmp_path).body == recording().body


def test_a_repr_shows_no_headers_and_no_content() -> None:
    shown = repr(recording(headers={"X-Echo": KEY}, body=KEY.encode(), chunks=[(0.0, 20)]))

    assert KEY not in shown


# -- what is broken --------------------------------------------------------------------------


def without(file: str) -> Any:
    return lambda folder: (folder / file).unlink()


def with_text(file: str, text: str) -> Any:
    return lambda folder: (folder / file).write_text(text)


def with_field(name: str, value: Any) -> Any:
    def change(folder: Path) -> None:
        head = json.loads((folder / "recording.json").read_text())
        leg = head["legs"][0]
        for place in (head, leg, leg["response"]):
            if name in place:
                place[name] = value
        (folder / "recording.json").write_text(json.dumps(head))

    return change


def as_pipe(file: str) -> Any:
    def change(folder: Path) -> None:
        (folder / file).unlink()
        os.mkfifo(folder / file)

    return change


BROKEN = [
    ("a body that is a pipe", as_pipe("body.sse"), "body.sse: it is not a regular file"),
    ("a head that is a pipe", as_pipe("recording.json"), "it is not a regular file"),
    ("a header beyond Latin-1", with_field("headers", {"X-A": "日"}), "the header 'X-A' has"),
    ("a header name beyond Latin-1", with_field("headers", {"日": "a"}), "the header '日' has"),
    ("a header of two lines", with_field("headers", {"X-A": "a\r\nX-B: b"}), "a line break"),
    ("no recording.json", without("recording.json"), "recording.json: No such file"),
    ("no body", without("body.sse"), "body.sse: No such file"),
    ("not JSON", with_text("recording.json", "{"), "recording.json: Input data was truncated"),
    ("not an object", with_text("recording.json", "[]"), "recording.json: Expected `object`"),
    ("a field is missing", with_text("recording.json", '{"version": 2}'), "`provider`"),
    ("a field of the wrong type", with_field("status", "ok"), "response.status"),
    ("another version", with_field("version", 3), "unsupported format version 3"),
    ("no legs", with_field("legs", []), "the recording has no legs"),
    ("a body elsewhere", with_field("body", "../body.sse"), "is not a file name"),
    ("a body that is a folder", with_field("body", ".."), "is not a file name"),
    (
        "a body that grew",
        with_text("body.sse", "x" * 19),
        "add up to 18 bytes, but the body has 19",
    ),
    ("a chunk too few", with_field("chunks", [[0.0, 9]]), "add up to 9 bytes, but the body has 18"),
    ("a negative size", with_field("chunks", [[0.0, 19], [0.1, -1]]), "negative"),
    ("a negative time", with_field("chunks", [[-1.0, 18]]), "negative"),
    ("time that runs backwards", with_field("chunks", [[1.0, 9], [0.5, 9]]), "backwards"),
    ("a message that is no JSON", with_text("message.json", "{"), "message.json: Input data"),
    ("no assistant's message", with_text("message.json", "{}"), "message.json: "),
]


@pytest.mark.parametrize(
    ("damage", "said"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_a_broken_recording_says_what_is_wrong(damage: Any, said: str, tmp_path: Path) -> None:
    recording().save(tmp_path)
    damage(tmp_path)

    with pytest.raises(RecordingError) as caught:
        Recording.load(tmp_path)

    assert isinstance(caught.value, SwinkError)
    assert str(tmp_path) in caught.value.message
    assert said in caught.value.message
    assert caught.value.title == "Broken recording"
    assert caught.value.resolution


def test_sizes_that_do_not_add_up_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="add up to 1 bytes, but the body has 18"):
        recording(chunks=[(0.0, 1)]).save(tmp_path / "case")

    assert not (tmp_path / "case").exists()


# -- where they are --------------------------------------------------------------------------


def test_recordings_are_found_at_any_depth_in_order(tmp_path: Path) -> None:
    for name in ("b", "a/deep/er", "a"):
        recording().save(tmp_path / name)
    (tmp_path / "c").mkdir()

    found = find_recordings(tmp_path)

    assert [str(path.relative_to(tmp_path)) for path in found] == ["a", "a/deep/er", "b"]


def test_a_missing_folder_has_no_recordings(tmp_path: Path) -> None:
    assert find_recordings(tmp_path / "absent") == []


def test_a_package_is_not_imported_for_its_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "acme_that_breaks"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    recording().save(package / recordings.BUNDLE / "case")
    monkeypatch.syspath_prepend(tmp_path)

    found = bundled_recordings("acme_that_breaks")

    assert [path.name for path in found] == ["case"]


@pytest.mark.parametrize("package", ["acme_that_is_absent", "acme.that.is.absent", "json.decoder"])
def test_a_name_that_is_not_a_package_has_no_recordings(package: str) -> None:
    assert bundled_recordings(package) == []


def test_the_testing_modules_import_no_test_tools() -> None:
    code = (
        "import sys, swink_testing, swink_recorder.recording, "
        "swink_testing.chunking, swink_testing.driver, swink_recorder.replay, "
        "swink_testing.clock; "
        "print(*{'pytest', 'hypothesis', 'aiohttp'} & set(sys.modules))"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()

    assert loaded == []


@pytest.mark.parametrize("name", ["recording.json", "body.sse", "message.json"])
def test_a_recording_reads_and_writes_nothing_outside_its_folder(tmp_path: Path, name: str) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "case"
    recording().save(folder)
    outside.write_bytes((folder / name).read_bytes())
    (folder / name).unlink()
    (folder / name).symlink_to(outside)
    before = outside.read_bytes()

    with pytest.raises(RecordingError, match="a link that leaves the recording"):
        Recording.load(folder)
    with pytest.raises(RecordingError, match="a link that leaves the recording"):
        recording(note="another").save(folder)
    assert outside.read_bytes() == before


def test_a_recording_in_a_folder_that_is_a_link_is_read(tmp_path: Path) -> None:
    recording().save(tmp_path / "case")
    (tmp_path / "link").symlink_to(tmp_path / "case")
    assert Recording.load(tmp_path / "link").body == recording().body
