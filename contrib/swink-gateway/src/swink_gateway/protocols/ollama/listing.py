"""What is served, as Ollama's clients list it.

https://github.com/ollama/ollama/blob/main/docs/api.md: `/api/tags`, `/api/show`.
"""

from __future__ import annotations

from typing import Any

from swink_gateway.policy.listing import EPOCH, Offer, listed_models

__all__ = ["API_VERSION", "ollama_model", "ollama_models"]

API_VERSION = "0.12.0"
"""The version of Ollama whose API is spoken; clients refuse to talk to older ones."""

_CAPABILITIES = {"tools": "tools", "images": "vision", "thinking": "thinking"}
"""Ollama's words for what a model can do; every model completes."""

_DETAILS = {
    "parent_model": "", "format": "", "family": "", "families": [], "parameter_size": "",
    "quantization_level": "",
}  # fmt: skip
"""What is known of files of weights, of which there are none here."""


def ollama_models(offer: Offer) -> list[dict[str, Any]]:
    """Return all models as `/api/tags` lists them."""
    names = [row["id"] for row in listed_models(offer)["data"]]
    facts = {"modified_at": EPOCH, "size": 0, "digest": "", "details": _DETAILS}
    return [{"name": name, "model": name, **facts} for name in names]


def ollama_model(offer: Offer, name: str) -> dict[str, Any] | None:
    """Return what `/api/show` tells of a model; `None` for one that nobody has."""
    model = offer.model(name)
    if model is None:
        return None
    info = model.info
    known = (info.capabilities if info is not None else None) or _CAPABILITIES
    told = [word for ours, word in _CAPABILITIES.items() if ours in known]
    about: dict[str, Any] = {"general.architecture": model.provider}
    if info is not None and info.context_window:
        about[f"{model.provider}.context_length"] = info.context_window
    texts = {"license": "", "modelfile": "", "parameters": "", "template": ""}
    return {
        **texts,
        "details": _DETAILS,
        "model_info": about,
        "capabilities": ["completion", *told],
        "modified_at": EPOCH,
    }
