"""The vendor's prompt cache, one for each account and model.

Where an API caches by itself, prefixes are kept in steps of 128 tokens, from the model's smallest
size on. Where requests mark what is to be cached, a marked prefix is written, and the longest one
that was written before, at most 20 segments before a mark, is read. Reading renews it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from lab.vendor import tokens
from lab.vendor.ask import Ask
from lab.vendor.bill import Usage
from lab.vendor.clock import Clock

__all__ = ["PromptCache"]

SHORT = 300.0
LONG = 3600.0
_STEP = 128
_LOOK_BACK = 20


class PromptCache:
    """Prefixes of prompts that the vendor remembers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, str], dict[bytes, tuple[float, float]]] = {}

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

    def look_up(self, ask: Ask) -> Usage:
        """Read and write the cache for a request; return its usage before any output."""
        prompt = ask.prompt_tokens
        if ask.cached:
            return Usage(prompt=prompt, cached=ask.cached)
        kept = self._kept.setdefault((ask.account, ask.model.id), {})
        if ask.caching == "automatic":
            return self._automatic(ask, prompt, kept)
        if ask.caching == "marked":
            return self._marked(ask, prompt, kept)
        return Usage(prompt=prompt)

    def _automatic(self, ask: Ask, prompt: int, kept: dict[bytes, tuple[float, float]]) -> Usage:
        cached = 0
        longest = 0
        if prompt >= ask.model.cache_from:
            prefixes = [each for each in _steps(ask) if each[0] >= ask.model.cache_from]
            for size, key in prefixes:
                if self._is_kept(kept, key):
                    cached = size
                longest = size
                kept[key] = (self._clock.now() + SHORT, SHORT)
        written = longest - cached if ask.model.write else 0
        return Usage(prompt=prompt, cached=cached, written=written)

    def _marked(self, ask: Ask, prompt: int, kept: dict[bytes, tuple[float, float]]) -> Usage:
        ends = list(_ends(ask))
        marks = [at for at, segment in enumerate(ask.segments) if segment.cache is not None]
        marks = [at for at in marks if ends[at][0] >= ask.model.cache_from]
        if not marks:
            return Usage(prompt=prompt)
        read_at = -1
        for mark in reversed(marks):
            nearest = range(mark, max(mark - _LOOK_BACK, -1), -1)
            found = next((at for at in nearest if self._is_kept(kept, ends[at][1])), None)
            if found is not None:
                read_at = found
                break
        cached = ends[read_at][0] if read_at >= 0 else 0
        if read_at >= 0:
            key = ends[read_at][1]
            seconds = kept[key][1]
            kept[key] = (self._clock.now() + seconds, seconds)
        written = {"short": 0, "long": 0}
        upto = cached
        for mark in marks:
            size, key = ends[mark]
            if size <= upto:
                continue
            cache = ask.segments[mark].cache or "short"
            written[cache] += size - upto
            seconds = LONG if cache == "long" else SHORT
            kept[key] = (self._clock.now() + seconds, seconds)
            upto = size
        return Usage(
            prompt=prompt, cached=cached, written=written["short"], written_long=written["long"]
        )

    def _is_kept(self, kept: dict[bytes, tuple[float, float]], key: bytes) -> bool:
        until, _ = kept.get(key, (0.0, 0.0))
        return until > self._clock.now()


def _steps(ask: Ask) -> Iterator[tuple[int, bytes]]:
    """Yield the size and the digest of each prefix of a multiple of 128 tokens."""
    digest = hashlib.sha256()
    size = 0
    due = _STEP
    for segment in ask.segments:
        digest.update(f"\0{segment.role}\0{segment.media}\0".encode())
        size += segment.media + segment.overhead
        for piece, number in tokens.pieces(segment.text):
            while size >= due:
                yield due, digest.digest()
                due += _STEP
            digest.update(piece.encode("utf-8", "surrogatepass"))
            size += number
    while size >= due:
        yield due, digest.digest()
        due += _STEP


def _ends(ask: Ask) -> Iterator[tuple[int, bytes]]:
    """Yield the size and the digest of the prefix that ends with each segment."""
    digest = hashlib.sha256()
    size = 0
    for segment in ask.segments:
        size += segment.tokens
        digest.update(f"\0{segment.role}\0{segment.media}\0{segment.text}".encode())
        yield size, digest.digest()
