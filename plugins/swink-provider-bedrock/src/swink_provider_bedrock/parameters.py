"""Options as fields of the request, and what the models' rules make of them.

Converse has one form for what all models share and passes the rest on to the model as
`additionalModelRequestFields`; how to ask for thinking is among the rest. What a model wants is in
the `extra` of its catalogue row, or follows from its family, whose name is part of its id:

    thinking      "budget": Claude that takes a number of tokens; "adaptive": Claude that takes an
                  effort; "nova": Amazon Nova's reasoningConfig; "effort": reasoning_effort
    efforts       the efforts that an adaptive Claude takes
    thinking_off  how it is told not to think where it would: "disabled", "between_tools", or
                  "never", where it cannot be told
    sampling      false: it takes neither temperature nor top_p nor top_k
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
from collections.abc import Mapping
from typing import Any

from swink_core import Model, StreamOptions, ThinkingLevel
from swink_core.providers import closed_schema
from swink_provider_anthropic import claude

__all__ = ["facts_of", "parameters"]

FIELDS = "additionalModelRequestFields"
CLAUDE = ("adaptive", "budget")
NOVA_HIGH = {"type": "enabled", "maxReasoningEffort": "high"}
"""With it Nova refuses limits and sampling."""

ROOM_TO_ANSWER = 4096
"""Tokens left for the answer where neither the caller nor the catalogue limits it."""

_EVERYWHERE = ("tools", "system", "messages")
_NOVA = {"cache": ("system", "messages"), "cache_ttl": False}

FAMILIES: tuple[tuple[re.Pattern[str], Mapping[str, Any]], ...] = (
    (re.compile(r"anthropic\.claude"), {"cache": _EVERYWHERE}),
    (re.compile(r"amazon\.nova-2"), {"thinking": "nova", **_NOVA}),
    (re.compile(r"amazon\.nova"), _NOVA),
    (re.compile(r"openai\.gpt|moonshotai\.kimi"), {"thinking": "effort"}),
)
"""By a part of the id; the first that fits. For older models, those of regions that are not in
the catalogue, and new ones, which are taken to be like the newest."""


def facts_of(model: Model) -> Mapping[str, Any]:
    """Return what is known of the model's rules: its family's, and its own over them."""
    family = next((facts for part, facts in FAMILIES if part.search(model.id)), {})
    vendor = claude.facts_of(model.id) if "anthropic.claude" in model.id else {}
    return {**vendor, **family, **(model.info.extra if model.info else {})}


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
        case "adaptive" | "budget":
            how, changed = _think_as_claude(body, level, model, options, facts)
            if how is not None:
                body[FIELDS] = {"thinking": how}
            return changed
        case "nova":
            return _think_as_nova(body, level)
        case "effort" if level is ThinkingLevel.OFF:
            return ["thinking: this model cannot be told not to think"]
        case "effort":
            body[FIELDS] = {"reasoning_effort": claude.effort(level, {})}
            return []
    if level is ThinkingLevel.OFF:
        return []
    return ["thinking: how to ask this model for it is not known; left out"]


def _think_as_claude(
    body: dict[str, Any],
    level: ThinkingLevel,
    model: Model,
    options: StreamOptions,
    facts: Mapping[str, Any],
) -> tuple[dict[str, Any] | None, list[str]]:
    if level is ThinkingLevel.OFF:
        return claude.thinking_off(facts)
    if facts["thinking"] == "adaptive":
        body["outputConfig"] = {"effort": claude.effort(level, facts)}
        return claude.ADAPTIVE, []
    most = model.info.max_output if model.info else None
    limit = options.max_tokens or most or (options.thinking_budget or 0) + ROOM_TO_ANSWER
    how, changed = claude.thinking(options, limit)
    if how is not None:
        body["inferenceConfig"]["maxTokens"] = limit
    return how, changed


def _think_as_nova(body: dict[str, Any], level: ThinkingLevel) -> list[str]:
    if level is ThinkingLevel.OFF:
        body[FIELDS] = {"reasoningConfig": {"type": "disabled"}}
        return []
    effort = claude.effort(level, {})
    body[FIELDS] = {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": effort}}
    if effort == "high" and body["inferenceConfig"].pop("maxTokens", None) is not None:
        return ["max_tokens: not together with the highest effort; left out"]
    return []


def _sample(body: dict[str, Any], options: StreamOptions, facts: Mapping[str, Any]) -> list[str]:
    fields = body.get(FIELDS, {})
    if fields.get("reasoningConfig") == NOVA_HIGH:
        facts = {**facts, "sampling": False}
    if facts.get("thinking") in CLAUDE or facts.get("sampling") is False:
        thinks = fields.get("thinking", {}).get("type") in ("enabled", "adaptive")
        wanted, changed = claude.sampling(options, facts, thinks)
    else:
        given = {name: getattr(options, name) for name in ("temperature", "top_p", "top_k")}
        wanted, changed = {n: v for n, v in given.items() if v is not None}, []
    top_k = wanted.pop("top_k", None)
    for name, value in wanted.items():
        body["inferenceConfig"]["topP" if name == "top_p" else name] = value
    if top_k is not None and facts.get("thinking") in CLAUDE:
        body.setdefault(FIELDS, {})["top_k"] = top_k
    elif top_k is not None:
        changed.append("top_k: how to ask this model for it is not known; left out")
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
