"""Create images, documents and audio for a conversation, from files, URLs and objects."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import Any, Protocol, TypeAlias

from swink_core import (
    AudioBlock,
    Base64Source,
    DocumentBlock,
    FileSource,
    ImageBlock,
    MediaError,
    UrlSource,
    UsageError,
)
from swink_core.providers import Source, media_type_of

__all__ = ["MediaInput", "PILImage", "audio", "begins_as", "document", "image"]


class PILImage(Protocol):
    """The attributes and the method of a Pillow image that `image` uses."""

    format: str | None
    mode: str

    def save(self, fp: Any, format: str | None = None) -> None:
        """Write the image to a file object `fp` in the given format, for example "PNG"."""


MediaInput: TypeAlias = str | PurePath | bytes
"""A path, a URL (`https:`, `data:`), or bytes."""

_MAGIC = [
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"(?s)RIFF....WEBP", "image/webp"),
    (rb"%PDF-", "application/pdf"),
    (rb"(?s)RIFF....WAVE", "audio/wav"),
    (rb"ID3|\xff[\xfb\xf3\xf2]", "audio/mpeg"),
    (rb"OggS", "audio/ogg"),
    (rb"fLaC", "audio/flac"),
]
"""Patterns of the first bytes of a file, each with the file's media type."""

_DATA = re.compile(r"data:([\w.+/-]+)(?:;[\w.=-]+)*;base64,", re.IGNORECASE)

_CHARSET = re.compile(r";charset=[\w.-]+", re.IGNORECASE)

_ADDRESS = re.compile(r"data:|[a-z][a-z0-9+.-]*://", re.IGNORECASE)
"""Matches the beginning of a URL of any kind."""

_SAVED_AS = {"JPEG": "image/jpeg", "PNG": "image/png", "GIF": "image/gif", "WEBP": "image/webp"}


def image(given: MediaInput | PILImage, media_type: str | None = None) -> ImageBlock:
    """Return an image block for a path, a URL, bytes, or an image object of the library Pillow.

    `media_type` sets the type (`None`: detect it from the suffix or first bytes). Raises MediaError
    if the file cannot be read, UsageError if the data is not an image.
    """
    if hasattr(given, "save") and hasattr(given, "format"):
        given, media_type = _saved(given)
    return ImageBlock(_source(given, media_type, "image", ("image/",)))


def document(
    given: MediaInput, media_type: str | None = None, *, name: str | None = None
) -> DocumentBlock:
    """Return a document block for a path, a URL or bytes; `name` is sent to the model.

    Raises MediaError if the file cannot be read, UsageError if the data is not a document.
    """
    source = _source(given, media_type, "document", ("application/", "text/"))
    if name is None and isinstance(source, FileSource):
        name = PurePath(source.path).name
    return DocumentBlock(source, name)


def audio(given: MediaInput, media_type: str | None = None) -> AudioBlock:
    """Return an audio block for a path, a URL or bytes.

    Raises MediaError if the file cannot be read, UsageError if the data is not audio.
    """
    return AudioBlock(_source(given, media_type, "audio", ("audio/",)))


def begins_as(data: bytes) -> str | None:
    """Detect a file's media type from its first bytes; return `None` if it is unknown."""
    return next((kind for magic, kind in _MAGIC if re.match(magic, data)), None)


def _source(given: object, media_type: str | None, what: str, kinds: tuple[str, ...]) -> Source:
    if not isinstance(media_type, str | None):
        raise UsageError(
            f"media_type={media_type!r} is not a string",
            resolution=f'Write it as in "{kinds[0]}…".',
        )
    source = _read(given, media_type, what)
    found = media_type_of(source)
    if found is None and not isinstance(source, UrlSource):
        raise UsageError(
            f"cannot detect the type of this {what}",
            resolution=f'Pass the type: {what}(…, "{kinds[0]}…").',
        )
    if found is not None and not found.startswith(kinds):
        raise UsageError(
            f"{found} is not a type of {what}", resolution="Use image(), document() or audio()."
        )
    return source


def _read(given: object, media_type: str | None, what: str) -> Source:
    match given:
        case bytes():
            kind = media_type or begins_as(given) or ""
            if not kind:
                raise UsageError(
                    f"these bytes are not a known type of {what}",
                    resolution=f'Pass the type: {what}(…, "…/…").',
                )
            return Base64Source(kind, base64.b64encode(given).decode())
        case str() if match := _DATA.match(given):
            charset = _CHARSET.search(match[0]) if match[1].lower().startswith("text/") else None
            kind = match[1] + (charset[0] if charset else "")
            return Base64Source(media_type or kind, given[match.end() :])
        case str() if re.match("https?://", given, re.IGNORECASE):
            return UrlSource(given, media_type)
        case str() if match := _ADDRESS.match(given):
            raise UsageError(
                f"an address of this kind cannot be used for {what}: {match[0]}",
                resolution="Pass a path, https://…, data:TYPE;base64,…, or bytes.",
            )
        case str() | PurePath():
            _check_file(Path(given))
            return FileSource(given, media_type)
    raise UsageError(
        f"cannot create {what} from a value of type {type(given).__name__}",
        resolution="Pass a path, an address or bytes.",
    )


def _check_file(path: Path) -> None:
    try:
        is_regular = S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        raise MediaError(f"{path}: no such file", resolution="Check the path.") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise MediaError(f"{str(path)[:80]}: {why}", resolution="Check the path.") from error
    if not is_regular:
        raise MediaError(
            f"{path}: not a regular file",
            resolution="Name one, or read it and pass the bytes.",
        )


def _saved(picture: Any) -> tuple[bytes, str]:
    kind = picture.format if picture.format in _SAVED_AS else "PNG"
    file = io.BytesIO()
    picture.save(file, format=kind)
    return file.getvalue(), _SAVED_AS[kind]
