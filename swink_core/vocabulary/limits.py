"""Spending limits of a client, a call or a tool loop."""

from __future__ import annotations

from math import isfinite
from typing import Any

from attrs import define, field


def _check(limits: Any, attribute: Any, value: Any) -> None:
    if value is None:
        return
    whole = attribute.name != "cost"
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or value < 0:
        kind = "a whole number" if whole else "US dollars"
        raise ValueError(f"{attribute.name} is {value!r}; {kind} of at least 0 is expected")


@define(frozen=True, kw_only=True)
class Limits:
    """Maximum amounts that may be spent; `None` means no limit.

    `cost` is in US dollars, and `tokens` is the sum of prompt and output tokens; both include
    retries and fallbacks. `requests` limits the number of attempts, except those that a cache
    answers. `turns` and `tool_calls` limit the numbers of turns and of tool calls in a tool loop.
    Before each attempt, the highest cost and token count that are expected for this attempt are
    added to the amounts so far; if the sum exceeds a limit, the attempt is refused. Raises
    ValueError if a limit is negative or not a number.
    """

    cost: float | None = field(default=None, validator=_check)
    tokens: int | None = field(default=None, validator=_check)
    requests: int | None = field(default=None, validator=_check)
    turns: int | None = field(default=None, validator=_check)
    tool_calls: int | None = field(default=None, validator=_check)
