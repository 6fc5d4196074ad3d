"""The list of models in Ollama's format.

https://github.com/ollama/ollama/blob/main/docs/api.md: `/api/tags`, `/api/show`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from swink_core import Model
from swink_gateway.protocols.model_list import EPOCH

__all__ = ["ollama_model", "ollama_models", "ollama_version"]

API_VERSION = "0.12.0"
"""The version of Ollama whose API is implemented; clients refuse older versions."""

_CAPABILITIES = {"tools": "tools", "images": "vision", "thinking": "thinking"}
"""Ollama's names for capabilities; every model has `completion`."""

_DETAILS = {
    "parent_model": "", "format": "", "family": "", "families": [], "parameter_size": "",
    "quantization_level": "",
}  # fmt: skip
"""The details of a model's weight files; all are empty, because the gateway has no such files."""


def ollama_models(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Convert the rows of `listed_models` to the format of `/api/tags`."""
    facts = {"modified_at": EPOCH, "size": 0, "digest": "", "details": _DETAILS}
    return {"models": [{"name": row["id"], "model": row["id"], **facts} for row in rows]}


def ollama_version(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the response of `/api/version`; the rows are ignored."""
    return {"version": API_VERSION}


def ollama_model(model: Model) -> dict[str, Any]:
    """Return a model in the format of `/api/show`."""
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
