"""What a provider wants back, in the one opaque field that a client's protocol has for it.

Signatures, encrypted reasoning and other opaque data of a provider mean nothing to another, and a
client that speaks a third one's protocol has one string to keep them in: `signature`,
`encrypted_content`, `thoughtSignature`. `seal` writes whose they are and what they are into such a
string; `unsealed` reads it when the client sends it back. A string that nobody sealed is the
protocol's own: it came from a provider that speaks it.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from swink_core import Block, CodecError, TextBlock, ToolCallBlock, load

__all__ = [
    "Key", "Numbers", "Sealed", "opened", "seal", "seal_beside", "unsealed", "with_sealed",
]  # fmt: skip

T = TypeVar("T")

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


def opened(kind: type[T], data: Any) -> T | None:
    """Return the block that was sealed as `data`; `None` where nobody sealed one."""
    try:
        return load(kind, data)
    except CodecError:
        return None


# -- what belongs to a call or a text, where these have no opaque field --------------------------

Key = tuple[str | None, int]
"""A call of an answer: its id, and how many before it had the same, since some repeat theirs. A
text has none (`None`), and as many before it."""


class Numbers:
    """Tells the calls and texts of one answer apart."""

    def __init__(self) -> None:
        self._seen: Counter[str | None] = Counter()

    def next(self, id: str | None) -> Key:
        """Return the key of the call, or the text, that comes next."""
        self._seen[id] += 1
        return id, self._seen[id] - 1


def seal_beside(
    provider: str, key: Key, metadata: Mapping[str, Any], is_wordless: bool = False
) -> str:
    """Return a string that holds the metadata of a call or a text, to stand beside it.

    `is_wordless` says that it stands for an empty text, and beside nothing.
    """
    return seal(provider, of=key, metadata=metadata, wordless=is_wordless or None)


def with_sealed(content: Sequence[Block], beside: Sequence[Sealed]) -> None:
    """Give the calls and texts of an answer what was sealed beside them."""
    encode = msgspec.json.encode  # what a client sends may be anything, and no key of a table
    held = {encode(one.data["of"]): one.data.get("metadata") for one in beside}
    numbers = Numbers()
    for block in content:
        if isinstance(block, TextBlock | ToolCallBlock):
            key = numbers.next(block.id if isinstance(block, ToolCallBlock) else None)
            if isinstance(metadata := held.get(encode(key)), dict):
                block.metadata = metadata
