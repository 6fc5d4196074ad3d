"""URLs of media in requests, including data URLs; nothing is fetched here."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import unquote_to_bytes

from swink_core import Base64Source, UrlSource
from swink_gateway.protocols import BadRequest

__all__ = ["source_of"]

PIECE = 65_536
"""The number of bytes decoded at a time.

This limits the memory, because the decoder creates an object for each escaped byte.
"""


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
        if "base64" not in map(str.lower, words):
            data = b64encode(_unquoted(data, place)).decode()
        kind = kind or media_type or "text/plain"
        charset = [word for word in words if word.lower().startswith("charset=")]
        if charset and kind.lower().startswith("text/"):
            kind = f"{kind};{charset[0]}"
        return Base64Source(kind, data)
    if scheme.lower() in ("http", "https"):
        return UrlSource(url, media_type)
    raise BadRequest(f"{place} is not a URL that begins with http:, https: or data:")


def _unquoted(data: str, place: str) -> bytes:
    """Decode percent-encoded data. Raises BadRequest for text that is not valid Unicode."""
    try:
        left = data.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{place} is a data: URL with an incomplete character") from None
    pieces, at = [], 0
    while at < len(left):
        end = min(at + PIECE, len(left))
        if end < len(left) and (escape := left.rfind(b"%", end - 2, end)) > at:
            end = escape
        pieces.append(unquote_to_bytes(left[at:end]))
        at = end
    return b"".join(pieces)
