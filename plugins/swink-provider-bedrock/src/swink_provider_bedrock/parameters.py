"""Convert options to fields of the request.

Converse has fields for the options that all models share. It passes `additionalModelRequestFields`,
which contains the thinking parameters, to the model unchanged. The rules in models.toml have
already removed or changed unsupported options; the `facts` of the rules describe each model's
thinking parameters.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from swink_core import Model, StreamOptions, ThinkingLevel
from swink_core.providers import Knobs, closed_schema, rule_of, sent_options
from swink_provider_anthropic import claude
from swink_provider_anthropic.schemas import structured

__all__ = ["KNOBS", "PLACES", "is_claude", "parameters"]

NATIVE = "additionalModelRequestFields"

PLACES = {
    "max_tokens": ("inferenceConfig.maxTokens",),
    "stop": ("inferenceConfig.stopSequences",),
    "top_k": (f"{NATIVE}.top_k", f"{NATIVE}.inferenceConfig.topK"),
    "thinking": (
        "outputConfig.effort",
        f"{NATIVE}.thinking",
        f"{NATIVE}.reasoning",
        f"{NATIVE}.reasoningConfig",
        f"{NATIVE}.reasoning_effort",
    ),
    "response_format": ("outputConfig.textFormat",),
}
"""The request fields for options that functions in `KNOBS` convert.

For other options, `KNOBS` itself names the field.
"""

ROOM_TO_ANSWER = 4096
"""The default number of tokens for the answer, in addition to those for thinking."""


def parameters(knobs: Knobs, model: Model, options: StreamOptions) -> dict[str, Any]:
    """Return the fields of the request for the options."""
    body = sent_options(knobs, model, options)
    if options.stop:
        body.setdefault("inferenceConfig", {})["stopSequences"] = list(options.stop)
    if isinstance(options.response_format, Mapping):
        # the API requires the schema as text
        made = structured(options) if is_claude(model) else closed_schema(options.response_format)
        schema = json.dumps(made, ensure_ascii=False)
        structure = {"jsonSchema": {"schema": schema}}
        text_format = {"type": "json_schema", "structure": structure}
        body.setdefault("outputConfig", {})["textFormat"] = text_format
    return body


def _max_tokens(model: Model, options: StreamOptions) -> dict[str, Any]:
    """Return the field for the token limit. A request with a thinking budget must have a limit."""
    budget = _thinking(model, options)[0].get("thinking", {}).get("budget_tokens")
    limit = options.max_tokens or (budget and _limit(model, budget))
    return {"inferenceConfig": {"maxTokens": limit}} if limit else {}


def _top_k(model: Model, options: StreamOptions) -> dict[str, Any]:
    if options.top_k is None:
        return {}
    if rule_of(model).facts.get("top_k") == "nova":
        return {NATIVE: {"inferenceConfig": {"topK": options.top_k}}}
    return {NATIVE: {"top_k": options.top_k}}


def _thought(model: Model, options: StreamOptions) -> dict[str, Any]:
    native, effort = _thinking(model, options)
    fields: dict[str, Any] = {NATIVE: native} if native else {}
    return {**fields, "outputConfig": {"effort": effort}} if effort else fields


KNOBS: Knobs = {
    "temperature": "inferenceConfig.temperature",
    "top_p": "inferenceConfig.topP",
    "top_k": _top_k,
    "max_tokens": _max_tokens,
    "thinking": _thought,
    "cache": None,
}
"""Maps options to request fields.

For the option `cache`, the provider's `convert` adds cache points to the conversation.
"""


def is_claude(model: Model) -> bool:
    """Return True for a Claude model.

    The id contains `claude`, or, for an inference profile, the rules identify a Claude model.
    """
    return "claude" in model.id or rule_of(model).facts.get("thinking") == "claude"


def _limit(model: Model, budget: int) -> int:
    most: Any = (model.info.max_output if model.info else None) or rule_of(model).most.get(
        "max_tokens"
    )
    return int(most or budget + ROOM_TO_ANSWER)


def _thinking(model: Model, options: StreamOptions) -> tuple[dict[str, Any], str | None]:
    """Return the model-specific thinking fields and the effort for `outputConfig`."""
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
