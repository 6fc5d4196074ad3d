"""Server-sent events, exactly as the WHATWG defines them, with a fast path for common input.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, sections 9.2.5 (parsing) and
9.2.6 (interpretation).

The algorithm: only new bytes are normalised (CR and CRLF become LF) and split into lines. An
unterminated line is kept in a bytearray that is never searched again; the payload of the current
frame is collected in another bytearray. Each byte is therefore processed a constant number of
times, however small the reads are.

The fast path runs first. It decodes frames that consist of one `data:` line, perhaps after one
`event:` line; nearly all frames of providers have this form. A single `findall` in C finds all such
frames that directly follow one another. If the input contains anything else, the pattern matches
the rest of the input from there, and the payload of this match is empty. Therefore, if the last
payload is not empty, the whole input consists of such frames, and no second check is needed. The
pattern's quantifiers are possessive or confined to one line, so matching takes linear time on any
input. All other input is decoded by the algorithm above.

A blank line always ends a frame. Therefore, even if a read begins or ends inside a frame, the part
between its first and its last blank line consists of whole frames, and only the rest of the read is
decoded by the slower algorithm.

The size of a frame, which is limited, is the sum of its lines without their terminators. Comments
do not count, and they are not stored, even if they have no terminator yet.
"""

from __future__ import annotations

import json
import re
from typing import ClassVar

from swink_core.framing.frame import DEFAULT_FRAME_LIMIT, FrameTooLong

UNKNOWN_FIELD = "unknown_field"
"""The code of a notice about a line that was ignored."""

MAX_REPORTS = 10

MAX_NAME = 40
"""The maximum number of bytes of a field name that a notice quotes."""

_FIELDS = frozenset({b"event", b"id", b"retry"})

_BOM = b"\xef\xbb\xbf"

# An int, because `in` with bytes first tries to convert them to one, which costs 80 ns per read.
_CR = 0x0D

# Providers write event names with these characters alone. A line with any other character is left
# to the algorithm above: it may contain a line of data, and a notice must report that.
_find_plain_lf = re.compile(rb"(?:event: [A-Za-z0-9_.-]*+\n)?+data: ?+(.*+)\n\n|(?s:.+)").findall

# The pattern has no `event:` line here: a lone CR inside the name would not be noticed.
_find_plain_crlf = re.compile(rb"data: ?+(.*)\r\n\r\n|(?s:.+)").findall


class SSEDecoder:
    """Decodes an event stream into the `data` payload of each dispatched event.

    `limit` is the longest frame in bytes. Event names and ids are dropped, because providers repeat
    them in the payload. Frames without a `data` line are not dispatched (section 9.2.6 of the HTML
    standard).

    A line with an unknown field name is ignored, as section 9.2.6 requires. A notice reports it,
    because the line may be a damaged `data` line. A notice also reports `data:` in the value of
    another field, because a damaged line break can join two lines. A subclass lists in
    `extra_fields` the further field names that its provider uses.
    """

    __slots__ = (
        "_between_frames", "_data", "_head", "_limit", "_partial", "_size", "_skip_lf",
        "_unknown", "reports",
    )  # fmt: skip

    extra_fields: ClassVar[tuple[str, ...]] = ()
    """Further field names, not in the specification, that are ignored without a notice."""

    def __init__(self, limit: int = DEFAULT_FRAME_LIMIT) -> None:
        self._limit = limit
        self._unknown = 0
        self.reports: list[tuple[int, str, str]] = []
        """Notices as (frame, code, detail), at most `MAX_REPORTS` in total.

        `frame` is the number of frames that this call of `feed` completed before the notice. The
        caller removes the notices from the list.
        """
        self._between_frames = False  # the next byte begins a frame, and no bytes are stored
        # The first bytes of the stream while they may still become a byte order mark, then None.
        self._head: bytes | None = b""
        self._skip_lf = False
        self._partial = bytearray()
        self._size = 0
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads that `data` completes, in order.

        Raises `FrameTooLong` when a frame, complete or not, exceeds the limit.
        """
        if self._between_frames:
            frames = self._plain(data, 0, len(data))
            if frames:
                return frames
        if self._head == b"" and data and data[0] != _BOM[0]:
            self._head = None
            self._between_frames = True
            return self.feed(data)
        return self._feed_piecewise(data)

    @classmethod
    def named(cls) -> SSEDecoder:
        """Return a decoder that keeps the names of events, for events whose data are JSON.

        Its frames have the form `{"type": NAME, "data": DATA}`. An event without a name has the
        name `message` (section 9.2.6).
        """
        return _NamedEvents()

    @classmethod
    def named_text(cls) -> SSEDecoder:
        """Return a decoder that keeps the names of events, for events whose data are plain text.

        Its frames have the form `{"type": NAME, "data": TEXT}`, where TEXT is always a JSON string,
        even if the data could be parsed as JSON.
        """
        return _NamedTexts()

    def finish(self) -> list[bytes]:
        """Return a list with the last payload if the input ended without a blank line after it.

        An unterminated last line is part of the payload if it is a `data` line, and is otherwise
        dropped.
        """
        if self._partial.partition(b":")[0] == b"data":
            self._take_line(bytes(self._partial), 0)
        self._partial.clear()
        frames: list[bytes] = []
        self._end_frame(frames)
        return frames

    def _plain(self, data: bytes, start: int, stop: int) -> list[bytes]:
        """Return the payloads of a range if the fast path can decode it, else an empty list."""
        if stop - start > self._limit:
            return []
        if _CR not in data:
            frames: list[bytes] = _find_plain_lf(data, start, stop)
            return frames if frames and frames[-1] else []
        frames = _find_plain_crlf(data, start, stop)
        return frames if frames and frames[-1] and _CR not in b"".join(frames) else []

    def _feed_piecewise(self, data: bytes) -> list[bytes]:
        blank = b"\r\n\r\n" if _CR in data else b"\n\n"
        last = data.rfind(blank)
        frames: list[bytes] = []
        try:
            if last < 0:
                self._feed_slowly(data, frames)
            else:
                start = 0 if self._between_frames else data.find(blank) + len(blank)
                stop = last + len(blank)
                self._feed_slowly(data[:start], frames)
                if plain := self._plain(data, start, stop):
                    frames += plain
                else:
                    self._feed_slowly(data[start:stop], frames)
                self._feed_slowly(data[stop:], frames)
        except FrameTooLong as error:
            error.frames = frames
            raise
        held = self._size or self._partial or self._skip_lf or self._head is not None
        self._between_frames = not held
        return frames

    def _feed_slowly(self, data: bytes, frames: list[bytes]) -> None:
        if self._head is not None:
            data = self._head + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._head = data
                return
            self._head = None
            data = data.removeprefix(_BOM)
        if not data:
            return
        if self._skip_lf:
            data = data.removeprefix(b"\n")
        self._skip_lf = data.endswith(b"\r")
        if _CR in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._partial:
            lines[0] = bytes(self._partial) + lines[0]
            self._partial.clear()
        for line in lines:
            if line:
                self._take_line(line, len(frames))
            else:
                self._end_frame(frames)
        self._partial += rest
        if self._partial.startswith(b":"):
            del self._partial[1:]
        elif self._size + len(self._partial) > self._limit:
            raise FrameTooLong("an SSE frame", self._limit)

    def _take_line(self, line: bytes, number: int) -> None:
        name, _, value = line.partition(b":")
        if not name:
            return
        self._size += len(line)
        if self._size > self._limit:
            raise FrameTooLong("an SSE frame", self._limit)
        if name == b"data":
            self._data += value.removeprefix(b" ")
            self._data += b"\n"
        elif name not in _FIELDS:
            if name not in map(str.encode, self.extra_fields):
                text = ascii(name[:MAX_NAME].decode("latin-1"))
                self._report(f"a line has the unknown field name {text}", number)
        elif b"data:" in value:  # two lines were joined by a damaged line break
            self._report(f"a line of data is part of the field '{name.decode()}'", number)

    def _report(self, detail: str, number: int) -> None:
        if self._unknown < MAX_REPORTS:
            self._unknown += 1
            self.reports.append((number, UNKNOWN_FIELD, detail))

    def _end_frame(self, frames: list[bytes]) -> None:
        if self._data:
            frames.append(bytes(self._data[:-1]))
            self._data.clear()
        self._size = 0


class _NamedEvents(SSEDecoder):
    __slots__ = ("_name",)

    def __init__(self, limit: int = DEFAULT_FRAME_LIMIT) -> None:
        super().__init__(limit)
        self._name = b""

    def _plain(self, data: bytes, start: int, stop: int) -> list[bytes]:
        return []  # the plain frames of the fast path have no names

    def _take_line(self, line: bytes, number: int) -> None:
        name, _, value = line.partition(b":")
        if name == b"event":
            self._name = value.removeprefix(b" ")
        super()._take_line(line, number)

    def _end_frame(self, frames: list[bytes]) -> None:
        if self._data:
            name = _as_text(self._name or b"message")
            data = self._value(bytes(self._data[:-1]))
            self._data = bytearray(b'{"type":%s,"data":%s}\n' % (name, data))
        self._name = b""
        super()._end_frame(frames)

    @staticmethod
    def _value(data: bytes) -> bytes:
        return data or b"null"

    @staticmethod
    def as_json(frame: bytes) -> bytes:
        """Return a frame as JSON; the frame is returned unchanged, because it already is JSON."""
        return frame

    @staticmethod
    def of_json(text: bytes) -> bytes:
        """Return the server-sent event that the decoder turns into the frame `text`."""
        event = json.loads(text)
        data = json.dumps(event.get("data"), ensure_ascii=False)
        return f"event: {event.get('type', '')}\ndata: {data}\n\n".encode()


class _NamedTexts(_NamedEvents):
    __slots__ = ()

    @staticmethod
    def _value(data: bytes) -> bytes:
        return _as_text(data)

    @staticmethod
    def of_json(text: bytes) -> bytes:
        """Return the server-sent event that the decoder turns into the frame `text`."""
        event = json.loads(text)
        lines = "".join(f"data: {line}\n" for line in str(event.get("data")).split("\n"))
        return f"event: {event.get('type', '')}\n{lines}\n".encode()


def _as_text(data: bytes) -> bytes:
    """Return text as a JSON string.

    Bytes that are not UTF-8 are written unchanged, so that the parser reports the frame as
    malformed.
    """
    try:
        return json.dumps(data.decode(), ensure_ascii=False).encode()
    except UnicodeDecodeError:
        return b'"%s"' % data
