"""The interface of all decoders.

A decoder is pure and sans-IO: bytes go in as the network delivered them, payloads come out.
However the bytes are cut, the frames are the same. A frame is the payload's `bytes` and nothing
more, so that a parser hands it to its JSON decoder without another object in between.
"""

from __future__ import annotations

from typing import Protocol

DEFAULT_FRAME_LIMIT = 8 * 1024 * 1024
"""The longest frame, in bytes, that a decoder holds unless told otherwise."""


class FrameError(ValueError):
    """Bytes that make the rest of the stream unreadable, such as a wrong checksum.

    `frames` are those that the same `feed` had completed before it, so that nothing is lost. The
    decoder must not be fed again.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.frames: list[bytes] = []


class FrameTooLong(FrameError):
    """A frame that outgrew its decoder's limit.

    `what` names the kind of frame; `limit` is in bytes.
    """

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(what, limit)
        self.what = what
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.what} is longer than the limit of {self.limit} bytes"


class Decoder(Protocol):
    """Split a byte stream into frames, for any chunking.

    A decoder may have two further attributes. `binary`: true if its frames are not UTF-8 text;
    then its parser checks the text inside them. `reports`: a list of notices, each with the number
    of the frame of this `feed` that it precedes, a code and a detail; `EventSource` empties it.
    """

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that `data` completes, in order.

        Raises `FrameTooLong` when a frame, complete or not, exceeds the decoder's limit, and
        `FrameError` where the bytes make no frames at all.
        """

    def finish(self) -> list[bytes]:
        """Return the frame without a terminator at the end of input: at most one.

        Such a frame is incomplete by definition; whether it is of use is the caller's decision.
        """
