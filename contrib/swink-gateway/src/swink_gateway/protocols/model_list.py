"""The list of models, as one object that the SDKs of all vendors can read.

OpenAI's SDKs expect `object` and a list of `id`, `object`, `created`, `owned_by`. Anthropic's SDKs
expect `has_more`, `first_id`, `last_id` and, for each model, `type`, `display_name`, `created_at`,
`lifecycle`, with null for unknown facts. Google's SDKs expect a list `models` of `name`,
`displayName`, `inputTokenLimit`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from swink_core import ModelInfo

__all__ = ["EPOCH", "listed_models"]

EPOCH = "1970-01-01T00:00:00Z"
"""The creation date of every model: the field is required, and the real date is unknown."""


def listed_models(names: Iterable[str], models: Iterable[ModelInfo]) -> dict[str, Any]:
    """Return all models: first the gateway's own names, then `provider/id` of each active model."""
    rows = [_row(name, "swink", name) for name in names]
    rows += [
        _row(f"{info.provider}/{info.id}", info.provider, info.name or info.id, info)
        for info in models
        if info.status == "active"
    ]
    ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {}
    return {"object": "list", "data": rows, "has_more": False, **ends, "models": rows}


def _row(id: str, owner: str, name: str, info: ModelInfo | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": id, "object": "model", "created": 0, "owned_by": owner,
        "type": "model", "display_name": name, "created_at": EPOCH,
        "lifecycle": "active", "deprecated_at": None, "retires_at": None, "line": None,
        "capabilities": None, "max_input_tokens": None, "max_tokens": None,
        "name": f"models/{id}", "displayName": name,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
    }  # fmt: skip
    if info is not None and info.context_window:
        row["inputTokenLimit"] = row["max_input_tokens"] = info.context_window
    if info is not None and info.max_output:
        row["outputTokenLimit"] = row["max_tokens"] = info.max_output
    return row
