"""Check those arguments of runs and batches that are not options of a call."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from swink_core import InvalidOption, UsageError
from swink_core.providers import OPTIONS

__all__ = ["check_called", "check_names", "check_number", "refuse_type"]

NEAR = 0.75
"""The minimum similarity, from 0 to 1, at which an unknown name counts as misspelt.

Option names of other libraries are less similar, so they are not taken for misspelt ones.
"""


def check_names(given: Iterable[str], *own: str) -> None:
    """Raise InvalidOption for an unknown option that resembles one of the parameters `own`.

    Other unknown options are reported later, when the call is made.
    """
    for name in {*given} - {*OPTIONS}:
        if near := get_close_matches(name, own, 1, NEAR):
            raise InvalidOption(
                f"no option {name!r}; did you mean {near[0]!r}?",
                resolution="In addition to the options of a call, this function accepts "
                f"{' and '.join(sorted(own))}.",
            )


def refuse_type(given: Iterable[str]) -> None:
    """Raise InvalidOption for `type`, which only calls for typed answers accept."""
    if "type" in given:
        raise InvalidOption(
            "no option 'type': the result of this call is a message",
            resolution="Call answer(…), stream_answer(…) or gather_answers(…) with a type.",
        )


def check_number(name: str, value: object, advice: str, *, least: int = 1) -> None:
    """Raise UsageError for a value that is not a whole number, or is below `least`."""
    if not isinstance(value, int):
        raise UsageError(f"{name} is not a whole number: {value!r}", resolution=advice)
    if value < least:
        raise UsageError(f"{name} is less than {least}", resolution=advice)


def check_called(name: str, value: object, advice: str) -> None:
    """Raise UsageError for a value that is neither `None` nor callable."""
    if value is not None and not callable(value):
        kind = type(value).__name__
        raise UsageError(f"{name} is of type {kind}, which is not callable", resolution=advice)
