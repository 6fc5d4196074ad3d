"""Collect the metadata of an answer and the actions of a guardrail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swink_core.providers import EventWriter
from swink_provider_bedrock.wire import Facts

__all__ = ["note_facts", "note_guardrail"]

KEPT = ("metrics", "performanceConfig", "serviceTier", "additionalModelResponseFields")
"""Fields about the whole answer that become metadata of the message, unchanged."""


def note_facts(data: Facts, out: EventWriter) -> None:
    """Store the metadata of the whole answer in the message."""
    said = {name: value for name in KEPT if (value := getattr(data, name))}
    out.response(metadata=said)


def note_guardrail(trace: dict[str, Any], out: EventWriter) -> None:
    """Store the findings of a guardrail, and add a notice with its reason or its actions."""
    why = trace.get("actionReason") or "; ".join(_acts(trace))
    out.notice("guardrail", str(why))
    out.response(metadata={"guardrail": trace})


def _acts(data: Any, name: str = "") -> Iterator[str]:
    """Yield the actions that a guardrail took, from its assessments of each policy."""
    if isinstance(data, list):
        for item in data:
            yield from _acts(item, name)
    elif isinstance(data, dict):
        action = data.get("action")
        if isinstance(action, str) and action != "NONE":
            what = data.get("name") or data.get("type") or ""  # never the user's matched text
            yield f"{name} {what}: {action}".replace(" :", ":")
        for inner, item in data.items():
            yield from _acts(item, inner)
