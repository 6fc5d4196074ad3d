"""Misfits with the types of an SDK that are sent all the same, each with its reason."""

from __future__ import annotations

import re

__all__ = ["is_accepted"]

ACCEPTED: tuple[tuple[str, str, str], ...] = (
    (
        "anthropic",
        r"^\.(temperature|top_p|top_k) is not declared",
        "the newest types leave out what the newest models refuse; older models take it, by rules",
    ),
    (
        "ollama",
        r"^(truncate|shift) is not declared",
        "fields of the server's API (api/types.go, ChatRequest) that its SDK does not have",
    ),
)
"""The SDK, an expression for the fault, and why the request is right."""


def is_accepted(sdk: str, fault: str) -> bool:
    """Tell whether a misfit has a reason."""
    return any(each == sdk and re.search(pattern, fault) for each, pattern, _ in ACCEPTED)
