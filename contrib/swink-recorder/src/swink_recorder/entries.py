"""What stores keep of a call beside its document, and how much they keep."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec
from attrs import define

from swink_core import UsageError

__all__ = [
    "PRIVATE",
    "Buffer",
    "Entry",
    "FirstLine",
    "Keep",
    "KeptConversation",
    "Written",
    "now_text",
]

PRIVATE = 0o600
"""The mode of files: nobody but their owner can read them."""

Buffer: TypeAlias = bytes | memoryview
"""Part of a document."""

Written: TypeAlias = "tuple[Entry, Sequence[Buffer]]"
"""A call, with its document."""


class _Kept(msgspec.Struct, kw_only=True):
    id: str
    at: str

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.at)  # or else it is none of ours: a ValueError refuses it


class Entry(_Kept, kw_only=True, omit_defaults=True):
    """What a list shows of a call. `at` is when it began (ISO 8601, UTC); `outcome` is `done`, or
    the kind of its failure; `cost` is in US dollars, and `estimated` if the provider reported no
    final usage of a part; `conversation` is the id of the one that it is part of, if it is part of
    one."""

    model: str
    outcome: str
    seconds: float = 0.0
    attempts: int = 1
    input: int | None = None
    output: int | None = None
    cost: float | None = None
    estimated: bool = False
    notices: list[str] = []
    prompt: str = ""
    answer: str = ""
    conversation: str = ""


class KeptConversation(_Kept, kw_only=True):
    """What a list shows of a conversation. `at` is when it was last said something in (ISO 8601,
    UTC), `models` are those that were asked last, `messages` how many there are, `title` is how it
    began."""

    models: list[str]
    messages: int
    title: str = ""


class FirstLine(msgspec.Struct):
    """The first line of a call's document."""

    call: Entry


@define(frozen=True)
class Keep:
    """What a store keeps at most; `None` is no limit. The oldest calls go first."""

    days: float | None = 30.0
    megabytes: float | None = 1000.0
    calls: int | None = None

    @classmethod
    def of(cls, words: str) -> Keep:
        """Return what words such as `30d 500MB 10000` say: days, megabytes, a number of calls.

        A limit that is not named is none. Raises UsageError for other words.
        """
        given: dict[str, Any] = {"days": None, "megabytes": None, "calls": None}
        for word in words.replace(",", " ").split():
            units = (("d", "days", float), ("MB", "megabytes", float), ("", "calls", int))
            unit, name, number = next(u for u in units if word.endswith(u[0]))
            try:
                given[name] = number(word.removesuffix(unit))
            except ValueError:
                raise UsageError(
                    f"{word!r} is nothing to keep calls by",
                    resolution="Write days, megabytes and a number of calls: 30d 500MB 10000",
                ) from None
        return cls(**given)

    def is_over(self, rank: int, size: int, at: float) -> bool:
        """Tell whether a call is too much: `rank` are newer, `size` is what they and it take in
        bytes, `at` is when it was made (seconds since 1970)."""
        old = self.days is not None and at < time.time() - timedelta(days=self.days).total_seconds()
        many = self.calls is not None and rank >= self.calls
        return old or many or (self.megabytes is not None and size > self.megabytes * 1e6)


def now_text() -> str:
    """Return the present moment as an entry has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
