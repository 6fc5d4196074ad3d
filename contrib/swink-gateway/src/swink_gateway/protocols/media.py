"""Addresses of media that clients send, data in them included; none is fetched here."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import unquote_to_bytes

from swink_core import Base64Source, UrlSource
from swink_gateway.protocols import BadRequest

__all__ = ["source_of"]


def source_of(url: str, place: str, media_type: str | None = None) -> Base64Source | UrlSource:
    """Return the source that an address is: `data:` (RFC 2397) is here, `http` elsewhere.

    Raises BadRequest for any other, which could name what this machine alone can read.
    """
    scheme, _, rest = url.partition(":")
    if scheme.lower() == "data":
        head, comma, data = rest.partition(",")
        kind, *words = head.split(";")
        if not comma:
            raise BadRequest(f"{place} is a data address without data")
        if "base64" not in words:
            data = b64encode(unquote_to_bytes(data)).decode()
        return Base64Source(kind or media_type or "text/plain", data)
    if scheme.lower() in ("http", "https"):
        return UrlSource(url, media_type)
    raise BadRequest(f"{place} is no address that begins with http:, https: or data:")
