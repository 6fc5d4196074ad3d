"""Blocks that are being received, and the size of their content that is kept in memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import msgspec
from attrs import define, field

from swink_core.failures.failure import MalformedFrame
from swink_core.providers.intact import TOO_DEEP
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.depth import is_too_deep


def measured(data: Any) -> int:
    """Return the size of provider data, approximately in characters.

    Raises MalformedFrame for data nested deeper than `MAX_DEPTH`.
    """
    try:
        text = msgspec.json.encode(data)
    except RecursionError:
        raise MalformedFrame(TOO_DEEP) from None
    except (TypeError, ValueError, OverflowError):
        return len(repr(data))
    if is_too_deep(text):
        raise MalformedFrame(TOO_DEEP)
    return len(text)


@define
class Metadata:
    """Collects the metadata of a block or an answer; later values replace earlier ones.

    When a list such as the citations grows, a parser passes the whole list again. Only the new
    items are then added to the measured size.
    """

    data: dict[str, Any] = field(factory=dict)
    _counted: dict[str, tuple[int, int]] = field(factory=dict)
    """Maps each metadata key to its size in characters and, for a list, the number of items."""

    def merge(self, more: Mapping[str, Any]) -> int:
        """Merge more metadata, and return the growth of the total size in characters."""
        growth = 0
        for name, value in more.items():
            before, items = self._counted.get(name, (0, 0))
            if items and value is self.data[name]:
                size = before + measured(value[items:])
            else:
                size = len(name) + measured(value)
            self._counted[name] = size, len(value) if isinstance(value, list) else 0
            growth += size - before
        self.data.update(more)
        return growth


@define(eq=False)
class OpenBlock:
    """A block that is being received.

    `key` is the key by which the provider identifies the block. `index` is the block's index in the
    message, or negative until the index is known.
    """

    key: Hashable
    index: int = -1
    _metadata: Metadata | None = None

    @property
    def metadata(self) -> dict[str, Any] | None:
        """The metadata of the block, or `None`."""
        return None if self._metadata is None else self._metadata.data

    def note(self, metadata: Mapping[str, Any]) -> int:
        """Add metadata to the block, and return the growth of the block's size in characters."""
        if self._metadata is None:
            self._metadata = Metadata()
        return self._metadata.merge(metadata)


TEXT = "text"
THINKING = "thinking"


@define(eq=False)
class Run(OpenBlock):
    """The open block of text or thinking, to which deltas are added."""

    kind: str = field(kw_only=True)
    signature: str | None = None
    redacted: bool = False

    def start(self) -> ev.Event:
        """Return the event that opens the block."""
        return ev.TextStart(self.index) if self.kind is TEXT else ev.ThinkingStart(self.index)

    def end(self) -> ev.Event:
        """Return the event that closes the block."""
        if self.kind is TEXT:
            return ev.TextEnd(self.index, self.metadata)
        return ev.ThinkingEnd(self.index, self.signature, self.redacted, self.metadata)
