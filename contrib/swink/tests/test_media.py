"""Images, documents and sound from what a program has of them."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest

import swink

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 8

# (function, bytes, media type)
BYTES: list[tuple[Any, bytes, str]] = [
    (swink.image, PNG, "image/png"),
    (swink.image, b"\xff\xd8\xff\xe0", "image/jpeg"),
    (swink.image, b"GIF89a", "image/gif"),
    (swink.image, b"RIFF1234WEBPVP8 ", "image/webp"),
    (swink.document, b"%PDF-1.7", "application/pdf"),
    (swink.audio, b"RIFF\n234WAVEfmt ", "audio/wav"),
    (swink.audio, b"ID3\x04", "audio/mpeg"),
    (swink.audio, b"OggS", "audio/ogg"),
    (swink.audio, b"fLaC", "audio/flac"),
]


@pytest.mark.parametrize(("make", "data", "media_type"), BYTES, ids=[row[2] for row in BYTES])
def test_the_type_of_bytes_is_detected(make: Any, data: bytes, media_type: str) -> None:
    assert make(data).source == swink.Base64Source(media_type, base64.b64encode(data).decode())


def test_a_file_is_named_by_its_path(tmp_path: Path) -> None:
    picture, page = tmp_path / "cat.png", tmp_path / "page.txt"
    picture.write_bytes(PNG)
    page.write_text("Hello")
    assert swink.image(picture) == swink.ImageBlock(swink.FileSource(str(picture)))
    assert swink.image(str(picture)) == swink.image(picture)
    assert swink.document(page) == swink.DocumentBlock(swink.FileSource(str(page)), "page.txt")
    assert swink.document(page, name="Notes").name == "Notes"


def test_an_address_is_left_to_the_provider() -> None:
    for address in ("https://example.com/cat", "HTTPS://example.com/cat"):
        assert swink.image(address).source == swink.UrlSource(address)
    for begins in ("data:image/png;base64,", "DATA:image/png;name=cat.png;base64,"):
        data = begins + base64.b64encode(PNG).decode()
        assert swink.image(data) == swink.image(PNG)


def test_a_text_in_an_address_keeps_its_charset() -> None:
    text = swink.document("data:text/csv;header=present;charset=windows-1252;base64,6Q==")
    assert text.source == swink.Base64Source("text/csv;charset=windows-1252", "6Q==")


class Picture:
    """The part of Pillow's image interface that is needed here."""

    mode = "RGB"

    def __init__(self, format: str | None) -> None:
        self.format = format

    def save(self, fp: io.BytesIO, format: str | None = None) -> None:
        fp.write(f"as {format}".encode())


@pytest.mark.parametrize(
    ("format", "saved", "media_type"),
    [("JPEG", "JPEG", "image/jpeg"), ("BMP", "PNG", "image/png"), (None, "PNG", "image/png")],
)
def test_an_image_in_memory_is_saved_as_apis_take_it(
    format: str | None, saved: str, media_type: str
) -> None:
    data = base64.b64encode(f"as {saved}".encode()).decode()
    assert swink.image(Picture(format)).source == swink.Base64Source(media_type, data)


# (function, what it is given, exception, part of its text)
MISTAKES: list[tuple[Any, Any, type[Exception], str]] = [
    (swink.image, "no-such.png", swink.MediaError, "no-such.png: no such file"),
    (swink.image, "/", swink.MediaError, "/: not a regular file"),
    (swink.image, "a" * 5000, swink.MediaError, f"{'a' * 80}: File name too long"),
    (swink.image, "a\0b", swink.MediaError, "null"),
    (
        swink.image,
        "file:///cat.png",
        swink.UsageError,
        "an address of this kind cannot be used for image: file://",
    ),
    (swink.image, "data:image/svg+xml,<svg/>", swink.UsageError, "cannot be used for image: data:"),
    (swink.image, 5, swink.UsageError, "cannot create image from a value of type int"),
    (swink.document, 5, swink.UsageError, "cannot create document from a value of type int"),
    (swink.image, b"hello", swink.UsageError, "are not a known type of image"),
    (swink.image, b"%PDF-1.7", swink.UsageError, "application/pdf is not a type of image"),
    (swink.document, PNG, swink.UsageError, "image/png is not a type of document"),
    (
        swink.audio,
        "https://example.com/cat.png",
        swink.UsageError,
        "image/png is not a type of audio",
    ),
]


@pytest.mark.parametrize(("make", "given", "error", "said"), MISTAKES)
def test_invalid_values_are_refused(
    make: Any, given: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        make(given)
    assert said in str(caught.value)


def test_a_media_type_is_a_string() -> None:
    given: Any = 5
    with pytest.raises(swink.UsageError, match="media_type=5 is not a string"):
        swink.image(PNG, given)


def test_a_file_of_no_known_type_wants_one(tmp_path: Path) -> None:
    file = tmp_path / "cat"
    file.write_bytes(PNG)
    with pytest.raises(swink.UsageError, match="cannot detect the type"):
        swink.image(file)
    assert swink.image(file, "image/png").source == swink.FileSource(str(file), "image/png")


def test_a_conversation_with_an_image_goes_out() -> None:
    said = swink.UserMessage([swink.TextBlock("What is this?"), swink.image(PNG)])
    assert "[image image/png 16 bytes]" in swink.complete_sync("echo/echo", [said]).text
