"""Determine the file of a model from the model's id, and read the settings of the engine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swink_core import Failure, Model, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_provider_local.hub import HubFile

__all__ = [
    "CACHE_RAM", "CACHE_TYPES", "cache_type", "engine_numbers", "file_of", "whole_number",
]  # fmt: skip

DEFAULT = "default"
MODEL_ENV = "SWINK_LOCAL_MODEL"
CONTEXT = 8192
"""The default context in tokens, if neither the caller nor the catalogue sets one.

The default is not the model's maximum, which may need more memory than the machine has.
"""

CACHE_RAM = 512
"""The default memory for caches, in MiB: enough for a few conversations with a small model."""

CACHE_TYPES = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
"""Number formats of the KV cache, with the size of one value in bytes."""

CACHE_TYPE_ENV = "SWINK_LOCAL_CACHE_TYPE"

ENGINE_OPTIONS: dict[str, tuple[str, int]] = {
    "context": ("SWINK_LOCAL_CONTEXT", 1),
    "gpu_layers": ("SWINK_LOCAL_GPU_LAYERS", 0),
    "threads": ("SWINK_LOCAL_THREADS", 1),
    "cache_ram": ("SWINK_LOCAL_CACHE_RAM", 0),
}
"""Numeric settings of the engine, with their environment variables and minimum values."""


def file_of(model: Model, environ: Mapping[str, str]) -> Path | HubFile:
    """Return the file for a model's id.

    An id is the id of a catalogue entry, `repo:file.gguf`, or the path of a GGUF file. Raises
    ProviderFailure (`model_not_found`) for another id, or if the file does not exist.
    """
    name, known = model.id, dict(model.info.extra) if model.info is not None else {}
    if name == DEFAULT and environ.get(MODEL_ENV):
        name, known = environ[MODEL_ENV], {}
    if "repo" in known and "file" in known:
        return HubFile(known["repo"], known["file"])
    if (file := HubFile.parse(name)) is not None:
        return file
    path = Path(os.path.expanduser(name))  # `~` of an unknown user is not replaced
    if path.is_file():
        return path
    looks_like_path = path.suffix.lower() == ".gguf"
    message = (
        f"{path}: no such file"
        if looks_like_path
        else f'"{name}" is neither a known model nor a file'
    )
    raise ProviderFailure(
        Failure(
            "request",
            kind=Kind.MODEL_NOT_FOUND,
            code="file",
            message=message,
            resolution="`swink models local` lists known models; others are a path, or "
            "owner/repository:file.gguf.",
        )
    )


def engine_numbers(
    model: Model, settings: Mapping[str, Any], environ: Mapping[str, str]
) -> dict[str, int | None]:
    """Return the values of `ENGINE_OPTIONS`, from the call, the environment or the catalogue.

    Raises ProviderFailure (`invalid_request`) if a value is not a whole number, or is too small.
    """
    known = model.info.extra if model.info is not None else {}
    found: dict[str, int | None] = {}
    for key, (variable, least) in ENGINE_OPTIONS.items():
        number = whole_number(settings, key, least)
        if number is None:
            number = whole_number(environ, variable, least)
        found[key] = known.get(key) if number is None else number
    if found["cache_ram"] is None:
        found["cache_ram"] = CACHE_RAM
    return {**found, "context": found["context"] or CONTEXT}


def cache_type(settings: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Return the data type of the KV cache, from the call or the environment.

    Raises ProviderFailure (`invalid_request`) for an unknown data type.
    """
    name = settings.get("cache_type") or environ.get(CACHE_TYPE_ENV) or "f16"
    if name not in CACHE_TYPES:
        raise _wrong(f"{CACHE_TYPE_ENV} must be one of {', '.join(CACHE_TYPES)}, not {name!r}")
    return str(name)


def whole_number(values: Mapping[str, object], name: str, least: int) -> int | None:
    """Convert a number or its text to an integer; return `None` for `None`.

    Raises ProviderFailure (`invalid_request`) if the value is not a whole number or is less than
    `least`.
    """
    given = values.get(name)
    if given is None or given == "":
        return None
    try:
        number = int(str(given))
    except ValueError:
        number = least - 1
    if number < least:
        raise _wrong(f"{name} must be a whole number of at least {least}, not {given!r}")
    return number


def _wrong(what: str) -> ProviderFailure:
    kind = Kind.INVALID_REQUEST
    return ProviderFailure(Failure("request", kind=kind, code="option", message=what))
