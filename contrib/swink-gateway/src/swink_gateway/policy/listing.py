"""What is served, as one object that the SDKs of all vendors read.

OpenAI's wants `object` and a list of `id`, `object`, `created`, `owned_by`; Anthropic's `has_more`,
`first_id`, `last_id` and, of each model, `type`, `display_name`, `created_at`; Google's a list
`models` of `name`, `displayName`, `inputTokenLimit`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import define

from swink_core import Model, ModelInfo, SwinkError
from swink_gateway.policy.routing import Routing

__all__ = ["Offer", "listed_models"]

EPOCH = "1970-01-01T00:00:00Z"
"""A date is wanted of every model, and nobody says one."""


@define(frozen=True)
class Offer:
    """What the owner of a key may ask for."""

    routing: Routing
    owner: str

    def names(self) -> list[str]:
        """Return the gateway's own names."""
        return [name for name in self.routing.names if self.routing.allows(self.owner, name)]

    def providers(self) -> list[str]:
        """Return the names of all providers."""
        return self.routing.client.host.provider_names()

    def models(self) -> Iterator[ModelInfo]:
        """Yield the models of installed providers, as far as they list any."""
        for provider in self.providers():
            try:
                for info in self.routing.client.catalog.models(provider):
                    if self.routing.allows(self.owner, f"{provider}/{info.id}"):
                        yield info
            except SwinkError:
                continue  # a plugin whose data cannot be read is told of when it is asked

    def model(self, name: str) -> Model | None:
        """Return the model that a name stands for first; `None` for one that nobody has."""
        try:
            return self.routing.models(name)[0] if self.routing.allows(self.owner, name) else None
        except SwinkError:
            return None


def listed_models(offer: Offer) -> dict[str, Any]:
    """Return all models: the gateway's own names first, then `provider/id` of each known one."""
    rows = [_row(name, "swink", name) for name in offer.names()]
    rows += [
        _row(f"{info.provider}/{info.id}", info.provider, info.name or info.id, info)
        for info in offer.models()
        if info.status == "active"
    ]
    ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {}
    return {"object": "list", "data": rows, "has_more": False, **ends, "models": rows}


def _row(id: str, owner: str, name: str, info: ModelInfo | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": id, "object": "model", "created": 0, "owned_by": owner,
        "type": "model", "display_name": name, "created_at": EPOCH,
        "name": f"models/{id}", "displayName": name,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
    }  # fmt: skip
    if info is not None and info.context_window:
        row["inputTokenLimit"] = row["max_input_tokens"] = info.context_window
    if info is not None and info.max_output:
        row["outputTokenLimit"] = row["max_tokens"] = info.max_output
    return row
