"""Plain text as a stream: every network read is a frame, cut between characters."""

from __future__ import annotations

import codecs

from swink_core.framing.frame import FrameError


class TextDecoder:
    """Decodes an answer that is text and nothing else, in UTF-8.

    Frames have the text of the answer in order, and no character is split over two; where they
    begin and end depends on how the network cut the answer. The text may hold anything, so
    `EventSource` does not take it for JSON.
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
        """Return nothing: half a character is left out."""
        return []
