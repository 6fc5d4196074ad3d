"""Entries for lists of calls and conversations in stores, and retention limits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
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
    "with_words",
]

PRIVATE = 0o600
"""The file mode: only the owner can read the files."""

Buffer: TypeAlias = bytes | memoryview
"""A part of the document in which a call is stored."""

Written: TypeAlias = "tuple[Entry, Sequence[Buffer]]"
"""A call's entry for lists, with the parts of the document in which the call is stored."""


class _Kept(msgspec.Struct, kw_only=True):
    id: str
    at: str

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.at)  # raises ValueError for a file of another kind


class Entry(_Kept, kw_only=True, omit_defaults=True):
    """The entry of a call in a list of calls.

    `at` is its start (ISO 8601, UTC); `outcome` is `done` or the error kind; `cost` is in US
    dollars, and `estimated` is true if the provider did not report the final usage of some attempt;
    `conversation` is the id of the call's conversation, if any.
    """

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
    """The entry of a conversation in a list of conversations.

    `at` is the time of the last message (ISO 8601, UTC), `models` are the models of the last call,
    `messages` is the number of messages, `title` is the beginning of the conversation.
    """

    models: list[str]
    messages: int
    title: str = ""


class FirstLine(msgspec.Struct):
    """The first line of the document in which a call is stored."""

    call: Entry


@define(frozen=True)
class Keep:
    """The retention limits of a store; `None`: unlimited. The oldest calls are deleted first."""

    days: float | None = 30.0
    megabytes: float | None = 1000.0
    calls: int | None = None

    @classmethod
    def of(cls, words: str) -> Keep:
        """Parse limits such as `30d 500MB 10000`: days, megabytes, a number of calls.

        A quantity that is not mentioned is unlimited. Raises UsageError for other words.
        """
        given: dict[str, Any] = {"days": None, "megabytes": None, "calls": None}
        for word in words.replace(",", " ").split():
            units = (("d", "days", float), ("MB", "megabytes", float), ("", "calls", int))
            unit, name, number = next(u for u in units if word.endswith(u[0]))
            try:
                given[name] = number(word.removesuffix(unit))
            except ValueError:
                raise UsageError(
                    f"invalid limit {word!r}",
                    resolution="Write days, megabytes and a number of calls: 30d 500MB 10000",
                ) from None
        return cls(**given)

    def is_over(self, rank: int, size: int, at: float) -> bool:
        """Return True if a call exceeds the limits.

        `rank` is the number of newer calls, `size` the total bytes of this call and the newer ones,
        `at` the Unix time of the call in seconds.
        """
        old = self.days is not None and at < time.time() - timedelta(days=self.days).total_seconds()
        many = self.calls is not None and rank >= self.calls
        return old or many or (self.megabytes is not None and size > self.megabytes * 1e6)


def with_words(entries: Iterable[Entry], words: Sequence[str]) -> Iterator[Entry]:
    """Yield the entries that have all `words` in prompt or answer; case does not matter."""
    wanted = [word.lower() for word in words]
    for entry in entries:
        said = f"{entry.prompt}\n{entry.answer}".lower()
        if all(word in said for word in wanted):
            yield entry


def now_text() -> str:
    """Return the current time in the format of entries."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
