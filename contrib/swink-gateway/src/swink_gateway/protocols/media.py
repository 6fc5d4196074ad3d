"""URLs of media in requests, including data URLs; nothing is fetched here."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import unquote_to_bytes

from swink_core import Base64Source, UrlSource
from swink_gateway.protocols import BadRequest

__all__ = ["source_of"]


def source_of(url: str, place: str, media_type: str | None = None) -> Base64Source | UrlSource:
    """Convert a URL to a source: `data:` (RFC 2397) is inline, `http:` and `https:` are remote.

    Raises BadRequest for any other URL, which could name a file on this machine.
    """
    scheme, _, rest = url.partition(":")
    if scheme.lower() == "data":
        head, comma, data = rest.partition(",")
        kind, *words = head.split(";")
        if not comma:
            raise BadRequest(f"{place} is a data: URL without data")
        if "base64" not in words:
            data = b64encode(unquote_to_bytes(data)).decode()
        return Base64Source(kind or media_type or "text/plain", data)
    if scheme.lower() in ("http", "https"):
        return UrlSource(url, media_type)
    raise BadRequest(f"{place} is not a URL that begins with http:, https: or data:")
