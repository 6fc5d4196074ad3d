"""Ways to split a body into network reads; a provider must handle all of them in the same way.

A chunking is a list of chunks whose concatenation is the body. `frame_ends` uses the provider's own
decoder to find the offset in the body at which each frame ends.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from swink_core.providers import Decoder, NDJSONDecoder, SSEDecoder

__all__ = [
    "Truncation",
    "byte_by_byte",
    "chunkings",
    "cut_at",
    "every_cut",
    "frame_ends",
    "per_frame",
    "random_cuts",
    "truncations",
    "whole",
]

TRUNCATIONS = 64
"""A body with at most this many frames is truncated after every frame. A longer body is truncated
after this many of its frames.
"""

_LINE = re.compile(rb"[^\r\n]*[\r\n]")
_BYTE = re.compile(rb".", re.DOTALL)


class Truncation(NamedTuple):
    """A body that ends after a number of complete frames."""

    frames: int
    body: bytes


def cut_at(body: bytes, offsets: Iterable[int]) -> list[bytes]:
    """Split a body at the offsets; empty pieces are left out."""
    bounds = [0, *sorted(offsets), len(body)]
    return [body[start:end] for start, end in pairwise(bounds) if start < end]


def whole(body: bytes) -> list[bytes]:
    """Return a list with the body as its only piece; the list is empty if the body is empty."""
    return cut_at(body, ())


def byte_by_byte(body: bytes) -> list[bytes]:
    """Split the body into pieces of one byte."""
    return cut_at(body, range(len(body)))


def every_cut(body: bytes) -> Iterator[list[bytes]]:
    """Yield every way to split the body into two pieces."""
    for offset in range(1, len(body)):
        yield [body[:offset], body[offset:]]


def random_cuts(body: bytes, seed: int, cuts: int = 8) -> list[bytes]:
    """Cut the body at up to `cuts` random offsets, which `seed` determines."""
    places = range(1, len(body))
    return cut_at(body, random.Random(seed).sample(places, min(cuts, len(places))))


def per_frame(body: bytes, ends: Iterable[int]) -> list[bytes]:
    """Cut the body after each frame."""
    return cut_at(body, ends)


def chunkings(
    body: bytes, decoder: Callable[[], Decoder], seeds: Iterable[int] = range(8)
) -> Iterator[tuple[str, list[bytes]]]:
    """Yield named chunkings: whole, byte by byte, per frame and seeded random cuts."""
    yield "whole", whole(body)
    yield "byte by byte", byte_by_byte(body)
    yield "per frame", per_frame(body, frame_ends(body, decoder))
    for seed in seeds:
        yield f"random cuts, seed {seed}", random_cuts(body, seed, 1 + len(body) // 40)


def frame_ends(body: bytes, decoder: Callable[[], Decoder]) -> list[int]:
    """Return the offset in the body at which each frame ends, according to the decoder."""
    made = decoder()
    # if frames are lines, a frame ends only where a line ends
    pieces = _LINE if isinstance(made, SSEDecoder | NDJSONDecoder) else _BYTE
    ends = [piece.end() for piece in pieces.finditer(body) if made.feed(piece[0])]
    # a decoder ends a line at CR already; the LF that may follow belongs to it
    return [end + (body[end - 1 : end + 1] == b"\r\n") for end in ends]


def truncations(body: bytes, ends: Iterable[int], seed: int = 0) -> Iterator[Truncation]:
    """Yield the body cut before its first frame and after every frame.

    For a body with more than `TRUNCATIONS` frames, only this many cuts are yielded: after each of
    the last two frames, because most streams are complete after one of them, and after frames that
    `seed` chooses.
    """
    offsets = [0, *ends]
    chosen: Iterable[int] = range(len(offsets))
    if len(offsets) > TRUNCATIONS + 1:
        earlier = range(len(offsets) - 2)
        last = range(len(offsets) - 2, len(offsets))
        chosen = [*sorted(random.Random(seed).sample(earlier, TRUNCATIONS - 2)), *last]
    for count in chosen:
        yield Truncation(count, body[: offsets[count]])
