"""Convert options to fields of the request.

Source: https://ai.google.dev/api/generate-content#v1beta.GenerationConfig. The rules in models.toml
have already removed or changed options that the model does not support.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import Model, StreamOptions
from swink_core.providers import Knobs, inlined_schema, rule_of, sent_options

__all__ = ["KNOBS", "PLACES", "parameters", "tool_config"]

PLACES = {
    "thinking": ("generationConfig.thinkingConfig",),
    "stop": ("generationConfig.stopSequences",),
    "response_format": (
        "generationConfig.responseMimeType",
        "generationConfig.responseJsonSchema",
    ),
    "tool_choice": ("toolConfig",),
}
"""The request fields of options that a function converts. `KNOBS` names all other fields."""

CHOICES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}


def parameters(
    knobs: Knobs, model: Model, options: StreamOptions, known: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a dict with the request field `generationConfig`, which contains the options.

    `generationConfig` also includes the fields in `known`; it is left out if it would be empty.
    """
    answer: dict[str, Any] = {**known}
    if options.stop:
        answer["stopSequences"] = list(options.stop)
    if options.response_format is not None:
        answer["responseMimeType"] = "application/json"
    if isinstance(options.response_format, Mapping):
        answer["responseJsonSchema"] = inlined_schema(options.response_format)
    fields = sent_options(knobs, model, options)
    if answer:
        fields["generationConfig"] = {**fields.get("generationConfig", {}), **answer}
    return fields


def tool_config(options: StreamOptions) -> dict[str, Any] | None:
    """Return `toolConfig` for the option `tool_choice`; `None` if the call does not set it."""
    choice = options.tool_choice
    if choice is None:
        return None
    calling: dict[str, Any] = {"mode": CHOICES.get(choice, "ANY")}
    if choice not in CHOICES:
        calling["allowedFunctionNames"] = [choice]
    return {"functionCallingConfig": calling}


def _thinking(model: Model, options: StreamOptions) -> dict[str, Any]:
    level, tokens, efforts = options.thinking_level, options.thinking_budget, rule_of(model).efforts
    if level is None or tokens is None:
        return {}
    config: dict[str, Any] = {"thinkingBudget": tokens}
    if efforts and tokens and not isinstance(options.thinking, int):
        config = {"thinkingLevel": efforts.get(level, level.upper())}
    if tokens:
        config["includeThoughts"] = True
    return {"generationConfig": {"thinkingConfig": config}}


KNOBS: Knobs = {
    "temperature": "generationConfig.temperature",
    "top_p": "generationConfig.topP",
    "top_k": "generationConfig.topK",
    "presence_penalty": "generationConfig.presencePenalty",
    "frequency_penalty": "generationConfig.frequencyPenalty",
    "max_tokens": "generationConfig.maxOutputTokens",
    "seed": "generationConfig.seed",
    "thinking": _thinking,
}
"""Maps sampling and output options to fields of the request."""
