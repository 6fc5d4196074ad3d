"""The interface of all decoders.

A decoder does no I/O: its caller passes in bytes as the network delivered them, and receives
frames. The frames are the same however the bytes are split into reads. A frame is a `bytes` object
with the payload, so that a parser can pass it directly to its JSON decoder.
"""

from __future__ import annotations

from typing import Protocol

DEFAULT_FRAME_LIMIT = 8 * 1024 * 1024
"""The default limit for the length of a frame, in bytes."""


class FrameError(ValueError):
    """Raised for bytes that make the rest of the stream unreadable, such as a wrong checksum.

    `frames` contains the frames that the same call of `feed` completed before the error, because
    `feed` cannot return them. The decoder must not be fed again.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.frames: list[bytes] = []


class FrameTooLong(FrameError):
    """Raised for a frame that is longer than the decoder's limit.

    `what` names the type of frame; `limit` is in bytes.
    """

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(what, limit)
        self.what = what
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.what} is longer than the limit of {self.limit} bytes"


class Decoder(Protocol):
    """Splits a byte stream into frames; the sizes of the reads do not affect the frames.

    A decoder may have two further attributes. `binary` is true if its frames are not UTF-8 text;
    the parser then checks the text inside them. `reports` is a list to which `feed` appends notices
    about the input. A notice is a tuple `(number, code, detail)`. `number` is the position of the
    reported input: the number of frames before it in the result of this call of `feed`.
    `EventSource` removes the notices from the list.
    """

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that `data` completes, in order.

        Raises `FrameTooLong` when a frame, complete or not, exceeds the decoder's limit, and
        `FrameError` for bytes that cannot be split into frames.
        """

    def finish(self) -> list[bytes]:
        """Return a list with the unterminated frame at the end of the input, or an empty list.

        Such a frame may be incomplete; the caller decides whether to use it.
        """
