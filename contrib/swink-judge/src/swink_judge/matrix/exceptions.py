"""Findings that are accepted: no rule covers them, but a source confirms that they are correct."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import msgspec

__all__ = ["Excuse", "excuses"]


class Excuse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An accepted deviation: findings to ignore, with the reason and the source.

    `provider` contains names, separated by `|`; `what` is searched in the finding's text, and
    `model` in the model's id.
    """

    kind: str
    provider: str
    what: str
    why: str
    source: str
    model: str = ""

    def covers(self, kind: str, provider: str, what: str, model: str) -> bool:
        """Return True if this exception applies to such a finding."""
        return (
            kind == self.kind
            and provider in self.provider.split("|")
            and re.search(self.what, what) is not None
            and re.search(self.model, model) is not None
        )


@cache
def excuses() -> tuple[Excuse, ...]:
    """Return the exceptions in this package."""
    file = files(__package__) / "exceptions.jsonl"
    return tuple(msgspec.json.Decoder(Excuse).decode_lines(file.read_bytes()))
