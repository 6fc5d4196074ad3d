"""Names of tools in protocols with namespaces or free-text tools.

A tool in a namespace is sent to the provider under one flat name; its calls are sent to the client
with namespace and name. A free-text tool is sent as a tool with a single argument, `input`, which
contains the text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["FREE_TEXT", "Known", "flat_name", "free_text_schema"]

JOINT = "__"

FREE_TEXT = "custom_tool_call"
"""The metadata type of a call with free text."""


class Known(NamedTuple):
    """A tool as the client names it; `namespace` is empty for a tool outside a namespace."""

    name: str
    namespace: str = ""
    is_free_text: bool = False


def flat_name(namespace: str, name: str) -> str:
    """Return the name under which a tool is sent to the provider."""
    return f"{namespace}{JOINT}{name}" if namespace else name


def free_text_schema() -> dict[str, Any]:
    """Return the schema of the arguments of a free-text tool."""
    return {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
