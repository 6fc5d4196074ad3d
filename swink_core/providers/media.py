"""Media of a conversation."""

from __future__ import annotations

import base64
import mimetypes
from pathlib import Path
from urllib.parse import urlsplit

from swink_core.failures.exceptions import MediaError
from swink_core.vocabulary.messages import Base64Source, FileSource, Source


def media_type_of(source: Source) -> str | None:
    """Return a source's media type, for a file or address by its suffix if need be."""
    if source.media_type or isinstance(source, Base64Source):
        return source.media_type
    name = source.path if isinstance(source, FileSource) else urlsplit(source.url).path
    return mimetypes.guess_type(name)[0]


def media_base64(source: Source) -> Base64Source | None:
    """Return media as base64, reading a file; `None` for an address.

    Raises MediaError for a file that cannot be read or whose type is unknown.
    """
    if isinstance(source, Base64Source):
        return source
    if not isinstance(source, FileSource):
        return None
    try:
        data = Path(source.path).read_bytes()
    except OSError as error:
        raise MediaError(
            f"{source.path}: {error.strerror or error}",
            resolution="Check that the file exists and may be read.",
        ) from error
    media_type = media_type_of(source)
    if media_type is None:
        raise MediaError(
            f"{source.path}: the kind of media cannot be told from the name",
            resolution="Pass media_type=…, for example image/png.",
        )
    return Base64Source(media_type, base64.b64encode(data).decode())
