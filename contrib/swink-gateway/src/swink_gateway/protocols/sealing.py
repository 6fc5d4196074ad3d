"""Sealing: storing opaque provider data in the one opaque field of a client's protocol.

Signatures, encrypted reasoning and other opaque data belong to one provider. A client that uses
another vendor's protocol can store them only in one string: `signature`, `encrypted_content` or
`thoughtSignature`. `seal` writes the provider and the data into such a string; `unsealed` reads it
when the client sends it back. A string that `seal` did not write came from the vendor that defined
the client's protocol. Other providers with this protocol have different keys, so their strings are
sealed as well (see `held_for`). Sealing is an encoding, not encryption.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from swink_core import Block, CodecError, TextBlock, ToolCallBlock, load
from swink_gateway.protocols.bodies import check_sealed

__all__ = [
    "Key", "Numbers", "Sealed", "held_for", "opaque_in", "opened", "seal", "seal_beside",
    "unsealed", "vendor_of", "with_sealed",
]  # fmt: skip

T = TypeVar("T")

_MARK = "swink1."


class Sealed(NamedTuple):
    """Sealed data and the provider that it belongs to."""

    provider: str
    data: dict[str, Any]


def seal(provider: str, **data: Any) -> str:
    """Seal data of `provider` into a string, without the fields that are `None`."""
    held = {name: value for name, value in data.items() if value is not None}
    return _MARK + urlsafe_b64encode(msgspec.json.encode([provider, held])).decode()


def unsealed(text: str | None) -> Sealed | None:
    """Return the data that `seal` put into a string; `None` for any other string.

    Raises BadRequest for data that would take too much memory; no provider sends such data.
    """
    if text is None or not text.startswith(_MARK):
        return None
    try:
        data = urlsafe_b64decode(text[len(_MARK) :])
    except ValueError:
        return None
    check_sealed(data)
    try:
        return msgspec.json.decode(data, type=Sealed)
    except (ValueError, msgspec.DecodeError):
        return None


def vendor_of(wire_format: str) -> str:
    """Return the provider that defined a wire format; the format's name begins with its name."""
    return wire_format.partition("-")[0]


def held_for(provider: str, wire_format: str, opaque: str) -> str:
    """Return an opaque string of a provider with this wire format, for the client.

    The string is unchanged if the provider is the format's vendor; otherwise it is sealed.
    """
    return opaque if provider == vendor_of(wire_format) else seal(provider, opaque=opaque)


def opaque_in(sealed: Sealed) -> str | None:
    """Return the string that `held_for` sealed; `None` for other sealed data."""
    opaque = sealed.data.get("opaque")
    return opaque if isinstance(opaque, str) else None


def opened(kind: type[T], data: Any) -> T | None:
    """Return the block that was sealed as `data`; `None` if the data is not a sealed block."""
    try:
        return load(kind, data)
    except CodecError:
        return None


# -- data of calls and texts without an opaque field -----------------------------------------------

Key = tuple[str | None, int]
"""The key of a tool call or text: its id, and the number of earlier ones with the same id.

Some providers repeat ids. The id of a text is `None`.
"""


class Numbers:
    """Creates a key for each tool call and each text of one answer."""

    def __init__(self) -> None:
        self._seen: Counter[str | None] = Counter()

    def next(self, id: str | None) -> Key:
        """Return the key of the next tool call with this id; of the next text if `id` is `None`."""
        self._seen[id] += 1
        return id, self._seen[id] - 1


def seal_beside(
    provider: str, key: Key, metadata: Mapping[str, Any], is_wordless: bool = False
) -> str:
    """Return the sealed metadata of a tool call or a text, for an item next to it.

    `is_wordless` means that the item replaces an empty text.
    """
    return seal(provider, of=key, metadata=metadata, wordless=is_wordless or None)


def with_sealed(content: Sequence[Block], beside: Sequence[Sealed]) -> None:
    """Add the sealed metadata to the tool calls and texts of an answer."""
    encode = msgspec.json.encode  # a client may send any value, even an unhashable one
    held = {encode(one.data["of"]): one.data.get("metadata") for one in beside}
    numbers = Numbers()
    for block in content:
        if isinstance(block, TextBlock | ToolCallBlock):
            key = numbers.next(block.id if isinstance(block, ToolCallBlock) else None)
            if isinstance(metadata := held.get(encode(key)), dict):
                block.metadata = metadata
