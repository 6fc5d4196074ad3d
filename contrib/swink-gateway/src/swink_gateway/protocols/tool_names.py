"""Names of tools that a client groups or calls in another way than others do.

A namespace's tools go out under one flat name each, and come back under both; a tool that is called
with free text goes out as one whose only argument, `input`, is that text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["FREE_TEXT", "Known", "flat_name", "free_text_schema"]

JOINT = "__"

FREE_TEXT = "custom_tool_call"
"""What a call with free text says of itself in its metadata."""


class Known(NamedTuple):
    """A tool as its client knows it; `namespace` is empty for one that stands by itself."""

    name: str
    namespace: str = ""
    is_free_text: bool = False


def flat_name(namespace: str, name: str) -> str:
    """Return the name under which a tool goes out."""
    return f"{namespace}{JOINT}{name}" if namespace else name


def free_text_schema() -> dict[str, Any]:
    """Return the schema of a tool's arguments that are one text."""
    return {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
