"""Options as fields of the request: https://ai.google.dev/api/generate-content#v1beta.GenerationConfig.

What a model does not take has been left out or changed before, by the rules of models.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import Model, StreamOptions
from swink_core.providers import inlined_schema, rule_of

__all__ = ["FIELDS", "PLACES", "parameters", "tool_config"]

FIELDS = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "max_tokens": "maxOutputTokens",
    "seed": "seed",
}

PLACES = {
    **{name: (f"generationConfig.{field}",) for name, field in FIELDS.items()},
    "thinking": ("generationConfig.thinkingConfig",),
    "stop": ("generationConfig.stopSequences",),
    "response_format": (
        "generationConfig.responseMimeType",
        "generationConfig.responseJsonSchema",
    ),
    "tool_choice": ("toolConfig",),
}
"""The fields in which options go out."""

CHOICES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}


def parameters(model: Model, options: StreamOptions) -> dict[str, Any]:
    """Return `generationConfig`."""
    given = {field: getattr(options, name) for name, field in FIELDS.items()}
    config = {field: value for field, value in given.items() if value is not None}
    if (thinking := _thinking(model, options)) is not None:
        config["thinkingConfig"] = thinking
    if options.stop:
        config["stopSequences"] = list(options.stop)
    if options.response_format is not None:
        config["responseMimeType"] = "application/json"
    if isinstance(options.response_format, Mapping):
        config["responseJsonSchema"] = inlined_schema(options.response_format)
    return config


def tool_config(options: StreamOptions) -> dict[str, Any] | None:
    """Return `toolConfig` for a choice of tools; `None` where none was made."""
    choice = options.tool_choice
    if choice is None:
        return None
    calling: dict[str, Any] = {"mode": CHOICES.get(choice, "ANY")}
    if choice not in CHOICES:
        calling["allowedFunctionNames"] = [choice]
    return {"functionCallingConfig": calling}


def _thinking(model: Model, options: StreamOptions) -> dict[str, Any] | None:
    level, tokens, efforts = options.thinking_level, options.thinking_budget, rule_of(model).efforts
    if level is None or tokens is None:
        return None
    if efforts and tokens and not isinstance(options.thinking, int):
        word = efforts.get(level, level.upper())
        return {"thinkingLevel": word, "includeThoughts": True}
    return {"thinkingBudget": tokens, **({"includeThoughts": True} if tokens else {})}
