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

    `cost` is in US dollars and `tokens` counts prompts and outputs; both include retries and
    fallbacks. `requests` counts attempts. `turns` counts the turns and `tool_calls` the tool calls
    of a tool loop. The limits are checked before each attempt, with the highest cost and token
    count that are expected for the attempt. Raises ValueError if a limit is negative or not a
    number.
    """

    cost: float | None = field(default=None, validator=_check)
    tokens: int | None = field(default=None, validator=_check)
    requests: int | None = field(default=None, validator=_check)
    turns: int | None = field(default=None, validator=_check)
    tool_calls: int | None = field(default=None, validator=_check)
