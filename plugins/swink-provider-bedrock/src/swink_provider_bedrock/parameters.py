"""Options as fields of the request, and what the models' rules make of them.

Converse has one form for what all models share and passes the rest on to the model as
`additionalModelRequestFields`; how to ask for thinking is among the rest. What a model wants is in
the `extra` of its catalogue row, or follows from its family, whose name is part of its id:

    thinking      "budget": Claude that takes a number of tokens; "adaptive": Claude that takes an
                  effort; "nova": Amazon Nova's reasoningConfig; "effort": reasoning_effort
    efforts       the efforts that an adaptive Claude takes
    thinking_off  how it is told not to think where it would: "disabled", "between_tools", or
                  "never", where it cannot be told
    sampling      false: it takes neither temperature nor top_p
    cache         where it takes cache points: among "tools", "system" and "messages"
    cache_ttl     false: it takes no ttl

Sources: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html,
…/bedrock/latest/userguide/claude-messages-extended-thinking.html and prompt-caching.html,
…/nova/latest/nova2-userguide/extended-thinking.html. What is left out or changed is told in a
notice, never silently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from swink_core import Model, StreamOptions, ThinkingLevel
from swink_core.providers import closed_schema

__all__ = ["facts_of", "parameters"]

FIELDS = "additionalModelRequestFields"
CLAUDE = ("adaptive", "budget")
NOVA_HIGH = {"type": "enabled", "maxReasoningEffort": "high"}
"""With it Nova refuses limits and sampling."""

NOT_TO_BE_TOLD = "thinking: this model cannot be told not to think"

LEAST_BUDGET = 1024
ROOM_TO_ANSWER = 4096
"""Tokens left for the answer where neither the caller nor the catalogue limits it."""

LEAST_TOP_P_WITH_THINKING = 0.95

_EVERYWHERE = ("tools", "system", "messages")
_NOVA = {"cache": ("system", "messages"), "cache_ttl": False}

FAMILIES: tuple[tuple[re.Pattern[str], Mapping[str, Any]], ...] = (
    (
        re.compile(r"anthropic\.claude-(3-|(opus|sonnet|haiku)-4-(1-|2|5))"),
        {"thinking": "budget", "cache": _EVERYWHERE},
    ),
    (re.compile(r"anthropic\.claude"), {"thinking": "adaptive", "cache": _EVERYWHERE}),
    (re.compile(r"amazon\.nova-2"), {"thinking": "nova", **_NOVA}),
    (re.compile(r"amazon\.nova"), _NOVA),
    (re.compile(r"openai\.gpt|moonshotai\.kimi"), {"thinking": "effort"}),
)
"""By a part of the id; the first that fits. For older models, those of regions that are not in
the catalogue, and new ones, which are taken to be like the newest."""

EFFORTS = {
    ThinkingLevel.MINIMAL: ("low",),
    ThinkingLevel.LOW: ("low",),
    ThinkingLevel.MEDIUM: ("medium",),
    ThinkingLevel.HIGH: ("high",),
    ThinkingLevel.EXTRA_HIGH: ("xhigh", "max", "high"),
}
"""What a level is called, first the best fit. Only some models go beyond "high"."""

COMMON_EFFORTS = ("low", "medium", "high")


def facts_of(model: Model) -> Mapping[str, Any]:
    """Return what is known of the model's rules: its family's, and its own over them."""
    family = next((facts for part, facts in FAMILIES if part.search(model.id)), {})
    return {**family, **(model.info.extra if model.info else {})}


def parameters(model: Model, options: StreamOptions) -> tuple[dict[str, Any], list[str]]:
    """Return fields of the request, and in words what was left out or changed."""
    facts = facts_of(model)
    inference: dict[str, Any] = {}
    if options.max_tokens is not None:
        inference["maxTokens"] = options.max_tokens
    if options.stop:
        inference["stopSequences"] = list(options.stop)
    body: dict[str, Any] = {"inferenceConfig": inference}
    changed = [*_think(body, model, options, facts), *_sample(body, options, facts)]
    changed += _cache(options, facts)
    if not inference:
        del body["inferenceConfig"]
    if isinstance(options.response_format, Mapping):
        # the API wants the schema as text
        schema = json.dumps(closed_schema(options.response_format), ensure_ascii=False)
        form = {"type": "json_schema", "structure": {"jsonSchema": {"schema": schema}}}
        body["outputConfig"] = {**body.get("outputConfig", {}), "textFormat": form}
    return body, changed


def _think(
    body: dict[str, Any], model: Model, options: StreamOptions, facts: Mapping[str, Any]
) -> list[str]:
    level = options.thinking_level
    if level is None or model.lacks("thinking"):
        return []
    match facts.get("thinking"):
        case "adaptive" | "budget" if level is ThinkingLevel.OFF:
            return _off(body, facts)
        case "adaptive":
            body["outputConfig"] = {"effort": _effort(level, facts.get("efforts", COMMON_EFFORTS))}
            # newer models leave the text of their thinking out unless it is asked for
            body[FIELDS] = {"thinking": {"type": "adaptive", "display": "summarized"}}
            return []
        case "budget":
            return _think_within_budget(body, model, options)
        case "nova":
            return _think_as_nova(body, level)
        case "effort" if level is ThinkingLevel.OFF:
            return [NOT_TO_BE_TOLD]
        case "effort":
            body[FIELDS] = {"reasoning_effort": _effort(level)}
            return []
    if level is ThinkingLevel.OFF:
        return []
    return ["thinking: how to ask this model for it is not known; left out"]


def _effort(level: ThinkingLevel, known: Iterable[str] = COMMON_EFFORTS) -> str:
    return next((effort for effort in EFFORTS[level] if effort in known), "high")


def _off(body: dict[str, Any], facts: Mapping[str, Any]) -> list[str]:
    off = facts.get("thinking_off")
    if off == "never":
        return [NOT_TO_BE_TOLD]
    if off is not None:
        body[FIELDS] = {"thinking": {"type": off}}
    return []


def _think_as_nova(body: dict[str, Any], level: ThinkingLevel) -> list[str]:
    if level is ThinkingLevel.OFF:
        body[FIELDS] = {"reasoningConfig": {"type": "disabled"}}
        return []
    effort = _effort(level)
    body[FIELDS] = {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": effort}}
    if effort == "high" and body["inferenceConfig"].pop("maxTokens", None) is not None:
        return ["max_tokens: not together with the highest effort; left out"]
    return []


def _think_within_budget(body: dict[str, Any], model: Model, options: StreamOptions) -> list[str]:
    if options.tool_choice not in (None, "auto", "none"):
        return ["thinking: not together with a tool_choice that forces a call; left out"]
    budget = max(options.thinking_budget or 0, LEAST_BUDGET)
    most = model.info.max_output if model.info else None
    limit = body["inferenceConfig"].setdefault("maxTokens", most or budget + ROOM_TO_ANSWER)
    if limit <= LEAST_BUDGET:
        return [f"thinking: max_tokens leaves less than {LEAST_BUDGET} for it; left out"]
    budget = min(budget, limit - 1)
    body[FIELDS] = {"thinking": {"type": "enabled", "budget_tokens": budget}}
    return []


def _sample(body: dict[str, Any], options: StreamOptions, facts: Mapping[str, Any]) -> list[str]:
    temperature, top_p = options.temperature, options.top_p
    fields = body.get(FIELDS, {})
    changed = []
    if facts.get("sampling") is False or fields.get("reasoningConfig") == NOVA_HIGH:
        given = {"temperature": temperature, "top_p": top_p}
        return [f"{n}: not with this model; left out" for n, v in given.items() if v is not None]
    if fields.get("thinking", {}).get("type") in ("enabled", "adaptive"):
        if temperature not in (None, 1):
            changed.append("temperature: with thinking it is 1")
        temperature = None
        if top_p is not None and top_p < LEAST_TOP_P_WITH_THINKING:
            changed.append(f"top_p: with thinking at least {LEAST_TOP_P_WITH_THINKING}; left out")
            top_p = None
    elif facts.get("thinking") in CLAUDE and None not in (temperature, top_p):
        changed.append("top_p: not together with temperature; left out")
        top_p = None
    for name, value in (("temperature", temperature), ("topP", top_p)):
        if value is not None:
            body["inferenceConfig"][name] = value
    return changed


def _cache(options: StreamOptions, facts: Mapping[str, Any]) -> list[str]:
    cache = options.cache
    if cache is None or cache.mode == "none":
        return []
    if not facts.get("cache"):
        return ["cache: this model takes no cache points; left out"]
    if cache.ttl is not None and facts.get("cache_ttl") is False:
        return ["cache: this model keeps caches as long as it does; the ttl was left out"]
    return []
