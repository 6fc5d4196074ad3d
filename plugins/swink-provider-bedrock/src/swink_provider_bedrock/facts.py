"""What ConverseStream says of the whole answer, and what a guardrail did to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swink_core.providers import EventWriter
from swink_provider_bedrock.wire import Facts

__all__ = ["note_facts", "note_guardrail"]

KEPT = ("metrics", "performanceConfig", "serviceTier", "additionalModelResponseFields")
"""What is said of the whole answer and goes to the message as it is."""


def note_facts(data: Facts, out: EventWriter) -> None:
    """Keep what is said of the whole answer."""
    said = {name: value for name in KEPT if (value := getattr(data, name))}
    out.response(metadata=said)


def note_guardrail(trace: dict[str, Any], out: EventWriter) -> None:
    """Keep what a guardrail found, and tell why it acted, or which of its policies did."""
    why = trace.get("actionReason") or "; ".join(_acts(trace))
    out.notice("guardrail", str(why))
    out.response(metadata={"guardrail": trace})


def _acts(data: Any, name: str = "") -> Iterator[str]:
    """Say what a guardrail's policies did, from wherever in its assessments that stands."""
    if isinstance(data, list):
        for item in data:
            yield from _acts(item, name)
    elif isinstance(data, dict):
        action = data.get("action")
        if isinstance(action, str) and action != "NONE":
            what = data.get("name") or data.get("type") or ""  # never what it matched
            yield f"{name} {what}: {action}".replace(" :", ":")
        for inner, item in data.items():
            yield from _acts(item, inner)
