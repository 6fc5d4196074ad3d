"""Accepted findings: for each of them, a source confirms that swink's behaviour is correct."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import msgspec

__all__ = ["Excuse", "excuses"]


class Excuse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Findings that are accepted, with the reason and the source.

    `provider` contains names, separated by `|`. `what` and `model` are regular expressions, which
    are searched for in the text of a finding and in the id of the model.
    """

    kind: str
    provider: str
    what: str
    why: str
    source: str
    model: str = ""

    def covers(self, kind: str, provider: str, what: str, model: str) -> bool:
        """Return True if a finding with these properties is accepted."""
        return (
            kind == self.kind
            and provider in self.provider.split("|")
            and re.search(self.what, what) is not None
            and re.search(self.model, model) is not None
        )


@cache
def excuses() -> tuple[Excuse, ...]:
    """Return the accepted findings that are listed in this package."""
    file = files(__package__) / "exceptions.jsonl"
    return tuple(msgspec.json.Decoder(Excuse).decode_lines(file.read_bytes()))
