"""What a provider wants back, in the one opaque field that a client's protocol has for it.

Signatures, encrypted reasoning and other opaque data of a provider mean nothing to another, and a
client that speaks a third one's protocol has one string to keep them in: `signature`,
`encrypted_content`, `thoughtSignature`. `seal` writes whose they are and what they are into such a
string; `unsealed` reads it when the client sends it back. A string that nobody sealed is the
protocol's own: it came from a provider that speaks it.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, NamedTuple

import msgspec

__all__ = ["Sealed", "seal", "unsealed"]

_MARK = "swink1."


class Sealed(NamedTuple):
    """What was sealed: whose, and the data."""

    provider: str
    data: dict[str, Any]


def seal(provider: str, **data: Any) -> str:
    """Return a string that holds what is said of `provider`; what is `None` is left out."""
    held = {name: value for name, value in data.items() if value is not None}
    return _MARK + urlsafe_b64encode(msgspec.json.encode([provider, held])).decode()


def unsealed(text: str | None) -> Sealed | None:
    """Return what `seal` was given; `None` for any other string."""
    if text is None or not text.startswith(_MARK):
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(text[len(_MARK) :]), type=Sealed)
    except (ValueError, msgspec.DecodeError):
        return None
