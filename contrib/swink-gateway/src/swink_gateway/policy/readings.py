"""Read a text as its readers see it: without escapes, invisible characters and encodings.

A language model understands a text that is written with full-width letters, invisible characters or
the escapes of JSON, and a vendor decodes a document in base64. The functions return such readings,
in which guards search too.
"""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Iterator
from sys import getsizeof

from attrs import define

from swink_core import UsageError
from swink_gateway.policy.text_search import PIECE, in_pieces
from swink_gateway.policy.unicode_forms import compatible

__all__ = ["documents", "has_one_form", "other_forms", "plain_forms", "unescaped"]

_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\ufff0-\ufffc"
    r"\ufffe\uffff\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)
"""Matches control characters, and characters that Unicode defines as ignorable."""

_EMPTY = re.compile(r"[\x1c-\x1f\u115f\u1160\u2800]")
"""Matches characters that are invisible, or look like a space, depending on the font."""

_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
"""An escaped character in a text that is itself JSON."""

_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]")
"""The beginning of two escapes that stand for one character."""

_ESCAPES = (*((f"\\{letter}", " ") for letter in "bfnrt"), ('\\"', '"'), ("\\/", "/"))
"""JSON escapes of other characters than a backslash, each with the text that a reader sees."""

MOST_READ_BYTES = 12 * 1024 * 1024
"""The most memory that a text with other readings may take.

Eight copies exist at a time, and one character beyond U+FFFF makes all others take four bytes.
"""

MOST_UNESCAPED = 3
"""The maximum number of levels of JSON escapes to decode: a JSON text may contain another one."""

_BLANK = re.compile(r"\s+")

_MEDIA = frozenset({"bytes", "data"})
"""Fields with media in base64."""

_URL_SAFE = str.maketrans("-_", "+/")

_DATA_URL = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
"""Matches the beginning of media in the form of a URL."""

_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The marks with which texts in other encodings begin; the longer ones first."""

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a]")
"""Matches bytes that occur in binary data, but not in text in encodings for Western languages."""


@define
class Document:
    """The decoded text of a document in base64; `start` is the part of the URL before the data."""

    start: str = ""
    text: str = ""
    encoding: str = "utf-8"


_PDF = b"%PDF"
"""The first bytes of a PDF document. It may consist mostly of ASCII."""

_COMMON = bytes([9, 10, 13, *range(32, 127)])
"""The bytes of white space and of printable ASCII characters."""

MOST_UNCOMMON = 0.4
"""The largest share of other bytes in a text; compressed data has about 0.6."""


def documents(name: str, text: str) -> list[Document]:
    """Decode the base64 text of a field; return nothing if the data is not text.

    The gateway encodes text documents for vendors whose API accepts only base64. Text that begins
    with the mark of another encoding has two readings, because a reader may not heed the mark.
    """
    found = _DATA_URL.match(text) if text[:5].lower() == "data:" else None
    if found is None and name not in _MEDIA:
        return []
    start = found[0] if found is not None else ""
    data = in_pieces(text[len(start) :], lambda piece: "".join(piece.split()))
    data = data.translate(_URL_SAFE).rstrip("=")
    try:
        raw = base64.b64decode(data + "=" * (-len(data) % 4), validate=True)
    except ValueError:
        return []
    del data
    for mark, encoding in _MARKS.items():
        if raw.startswith(mark):  # a reader passes over what is no character
            return [
                Document(start, raw.decode(encoding, "replace"), encoding),
                Document(start, raw.decode("latin-1"), "latin-1"),
            ]
    for encoding in _encodings(raw, start.lower().startswith("data:text/")):
        try:
            return [Document(start, raw.decode(encoding), encoding)]
        except UnicodeDecodeError:
            continue
    return []


def _encodings(raw: bytes, is_text: bool) -> Iterator[str]:
    """Yield the possible encodings of a document without a mark; only UTF-8 if it may be binary."""
    yield "utf-8"
    if is_text or _CONTROL.search(raw) is None or not _is_binary(raw):
        yield "latin-1"


def _is_binary(raw: bytes) -> bool:
    """Return True if data with control characters is probably not a text."""
    others = raw.translate(None, _COMMON)
    return raw.startswith(_PDF) or len(others) > MOST_UNCOMMON * len(raw)


def other_forms(text: str) -> Iterator[str]:
    """Yield other readings of a text: its visible characters, and the text without JSON escapes."""
    visible = text
    _check_size(text)
    if not (text.isascii() and text.isprintable()):
        for visible in _visible_forms(text):
            if visible != text:
                yield visible
    for plain in unescaped(visible):
        yield from _visible_forms(plain)


def _check_size(text: str) -> None:
    """Raise UsageError for a text whose readings would take too much memory."""
    if getsizeof(text) > MOST_READ_BYTES:
        raise UsageError("a text is too long to be searched in all its readings")


def has_one_form(text: str) -> bool:
    """Return True if `other_forms` yields nothing; most texts are of this kind."""
    return text.isascii() and "\\" not in text and text.isprintable()


def unescaped(text: str) -> Iterator[str]:
    """Replace JSON escapes in a text repeatedly, until none are left, and yield each result.

    The text need not be JSON: each backslash is read as the beginning of an escape.
    """
    for _ in range(MOST_UNESCAPED):
        if "\\" not in text:
            return
        _check_size(text)
        before = text
        text = text.replace("\\\\", "\0")
        for escape, shown in _ESCAPES:
            text = text.replace(escape, shown)
        if "\\u" in text:
            text = "".join(map(_characters, _between_escapes(text)))
        text = text.replace("\0", "\\")
        if text == before:
            return
        yield text


def _between_escapes(text: str) -> Iterator[str]:
    """Divide a text before escapes, but not within a pair of surrogates."""
    at = 0
    while at < len(text):
        end = text.find("\\", at + PIECE)
        if end < 0:
            end = len(text)
        elif _PAIR.match(text, end - 6):
            end += 6
        yield text[at:end]
        at = end


def _characters(text: str) -> str:
    """Replace escapes of characters; the result has no surrogates."""
    text = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def plain_forms(text: str) -> Iterator[str]:
    """Normalise a text: unify equivalent characters and white space, drop invisible ones.

    Yield two texts if it has characters that may be invisible or look like a space.
    """
    if text.isascii() and text.isprintable():
        yield _folded(text)
        return
    _check_size(text)
    for visible in _visible_forms(text):
        yield _folded(visible)


def _folded(text: str) -> str:
    """Unify letters of both cases, and white space."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.casefold().strip()
    return in_pieces(text, lambda piece: _BLANK.sub(" ", piece).casefold()).strip()


def _visible_forms(text: str) -> Iterator[str]:
    visible = in_pieces(compatible(text), lambda piece: _INVISIBLE.sub("", piece))
    without = in_pieces(visible, lambda piece: _EMPTY.sub("", piece))
    yield without
    if len(without) < len(visible):
        yield in_pieces(visible, lambda piece: _EMPTY.sub(" ", piece))
