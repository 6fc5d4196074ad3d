"""Decode plain text as a stream: every network read becomes a frame of whole characters."""

from __future__ import annotations

import codecs

from swink_core.framing.frame import FrameError


class TextDecoder:
    """Decodes an answer that consists of UTF-8 text only.

    The frames contain the text of the answer in order, and no character is split over two frames.
    Where a frame begins and ends depends on how the network delivered the answer. Because `binary`
    is true, `EventSource` does not treat the frames as JSON.
    """

    binary = True

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the characters that `data` completes. Raises FrameError for invalid UTF-8."""
        try:
            text = self._decoder.decode(data)
        except UnicodeDecodeError as error:
            raise FrameError(f"the text is not UTF-8: {error.reason}") from None
        return [text.encode()] if text else []

    def finish(self) -> list[bytes]:
        """Return an empty list: an incomplete last character is dropped."""
        return []
