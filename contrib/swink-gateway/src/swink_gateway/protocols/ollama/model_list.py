"""What is served, as Ollama's clients list it.

https://github.com/ollama/ollama/blob/main/docs/api.md: `/api/tags`, `/api/show`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from swink_core import Model
from swink_gateway.protocols.model_list import EPOCH

__all__ = ["ollama_model", "ollama_models", "ollama_version"]

API_VERSION = "0.12.0"
"""The version of Ollama whose API is spoken; clients refuse to talk to older ones."""

_CAPABILITIES = {"tools": "tools", "images": "vision", "thinking": "thinking"}
"""Ollama's words for what a model can do; every model completes."""

_DETAILS = {
    "parent_model": "", "format": "", "family": "", "families": [], "parameter_size": "",
    "quantization_level": "",
}  # fmt: skip
"""What is known of files of weights, of which there are none here."""


def ollama_models(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rows of `listed_models` as `/api/tags` lists them."""
    facts = {"modified_at": EPOCH, "size": 0, "digest": "", "details": _DETAILS}
    return {"models": [{"name": row["id"], "model": row["id"], **facts} for row in rows]}


def ollama_version(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the answer of `/api/version`, whatever models there are."""
    return {"version": API_VERSION}


def ollama_model(model: Model) -> dict[str, Any]:
    """Return a model as `/api/show` describes it."""
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
