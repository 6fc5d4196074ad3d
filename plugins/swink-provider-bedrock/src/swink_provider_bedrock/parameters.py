"""Options as fields of the request.

Converse has one form for what all models share and passes the rest on to the model as
`additionalModelRequestFields`; how to ask for thinking is among the rest. What a model does not
take has been left out or changed before, by the rules of models.toml, whose `facts` say how it is
asked.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from swink_core import Model, StreamOptions, ThinkingLevel
from swink_core.providers import closed_schema, rule_of
from swink_provider_anthropic import claude
from swink_provider_anthropic.schemas import structured

__all__ = ["PLACES", "is_claude", "parameters"]

_NATIVE = "additionalModelRequestFields"

PLACES = {
    "max_tokens": ("inferenceConfig.maxTokens",),
    "stop": ("inferenceConfig.stopSequences",),
    "temperature": ("inferenceConfig.temperature",),
    "top_p": ("inferenceConfig.topP",),
    "top_k": (f"{_NATIVE}.top_k", f"{_NATIVE}.inferenceConfig.topK"),
    "thinking": (
        "outputConfig.effort",
        f"{_NATIVE}.thinking",
        f"{_NATIVE}.reasoning",
        f"{_NATIVE}.reasoningConfig",
        f"{_NATIVE}.reasoning_effort",
    ),
    "response_format": ("outputConfig.textFormat",),
}
"""The fields in which options go out."""

ROOM_TO_ANSWER = 4096
"""Tokens left for the answer where neither the caller nor the catalogue limits it."""


def parameters(model: Model, options: StreamOptions) -> dict[str, Any]:
    """Return fields of the request."""
    native, effort = _thinking(model, options)
    budget = native.get("thinking", {}).get("budget_tokens")
    inference = {
        "maxTokens": options.max_tokens or (budget and _limit(model, budget)),
        "stopSequences": list(options.stop) or None,
        "temperature": options.temperature,
        "topP": options.top_p,
    }
    if options.top_k is not None:
        nova = rule_of(model).facts.get("top_k") == "nova"
        native |= {"inferenceConfig": {"topK": options.top_k}} if nova else {"top_k": options.top_k}
    output: dict[str, Any] = {"effort": effort} if effort else {}
    if isinstance(options.response_format, Mapping):
        # the API wants the schema as text
        made = structured(options) if is_claude(model) else closed_schema(options.response_format)
        schema = json.dumps(made, ensure_ascii=False)
        structure = {"jsonSchema": {"schema": schema}}
        output["textFormat"] = {"type": "json_schema", "structure": structure}
    body = {
        "inferenceConfig": {name: value for name, value in inference.items() if value is not None},
        "additionalModelRequestFields": native,
        "outputConfig": output,
    }
    return {name: value for name, value in body.items() if value}


def is_claude(model: Model) -> bool:
    """Tell whether a model is a Claude, by its id or, for a profile, by the rules."""
    return "claude" in model.id or rule_of(model).facts.get("thinking") == "claude"


def _limit(model: Model, budget: int) -> int:
    most: Any = (model.info.max_output if model.info else None) or rule_of(model).most.get(
        "max_tokens"
    )
    return int(most or budget + ROOM_TO_ANSWER)


def _thinking(model: Model, options: StreamOptions) -> tuple[dict[str, Any], str | None]:
    """Return how the model is asked to think in its own fields, and the effort in Converse's."""
    level, rule = options.thinking_level, rule_of(model)
    if level is None:
        return {}, None
    if is_claude(model):
        how, effort = claude.thinking(options, rule.efforts)
        return {"thinking": how}, effort
    off = level is ThinkingLevel.OFF
    word = rule.efforts.get(level, "none" if off else level)
    match rule.facts.get("thinking"):
        case "nova" if off:
            return {"reasoningConfig": {"type": word}}, None
        case "nova":
            return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": word}}, None
        case "reasoning":
            return {"reasoning": {"effort": word}}, None
    return {"reasoning_effort": word}, None
