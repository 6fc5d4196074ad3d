"""Options as fields of the request, and what models make of them.

https://ai.google.dev/api/generate-content#v1beta.GenerationConfig. What a model cannot do is told
in a notice, never silently. Models differ by what the catalogue says of them in `extra`:

    levels      how much it thinks is said in a word, and which words it knows
    budget      how much it thinks is said in tokens, between these two
    never_off   it cannot be told not to think
    sampling    false: it takes no temperature, top_p, top_k and penalties

Of a model outside the catalogue its generation is read from its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from swink_core import Model, StreamOptions, ThinkingLevel

__all__ = ["generation", "parameters", "tool_config"]

FIRST_WITH_LEVELS = 3

LEVELS = {
    ThinkingLevel.MINIMAL: ("MINIMAL", "LOW"),
    ThinkingLevel.LOW: ("LOW",),
    ThinkingLevel.MEDIUM: ("MEDIUM", "HIGH"),
    ThinkingLevel.HIGH: ("HIGH",),
    ThinkingLevel.EXTRA_HIGH: ("XHIGH", "HIGH"),
}
"""What a level is called here, first the better fit. Not every model has every word."""

COMMON_LEVELS = ("LOW", "MEDIUM", "HIGH")
COMMON_BUDGET = (0, 24_576)

SAMPLING = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}

CHOICES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}

_GENERATION = re.compile(r"gemini-(\d+)")


def generation(model: Model) -> int | None:
    """Read 3 in `gemini-3.5-flash`; `None` in names that state none."""
    found = _GENERATION.search(model.id)
    return int(found[1]) if found else None


def parameters(model: Model, options: StreamOptions) -> tuple[dict[str, Any], list[str]]:
    """Return `generationConfig`, and in words what was left out or changed."""
    facts: Mapping[str, Any] = model.info.extra if model.info else {}
    config: dict[str, Any] = {}
    changed = _think(config, model, options, facts)
    for name, field in SAMPLING.items():
        value = getattr(options, name)
        if value is not None and facts.get("sampling") is False:
            changed.append(f"{name}: this model has none; left out")
        elif value is not None:
            config[field] = value
    if options.max_tokens is not None:
        config["maxOutputTokens"] = options.max_tokens
    if options.seed is not None:
        config["seed"] = options.seed
    if options.stop:
        config["stopSequences"] = list(options.stop)
    if options.response_format is not None:
        config["responseMimeType"] = "application/json"
    if isinstance(options.response_format, Mapping):
        config["responseJsonSchema"] = options.response_format
    return config, changed


def tool_config(options: StreamOptions) -> dict[str, Any] | None:
    """Return `toolConfig` for a choice of tools; `None` where none was made."""
    choice = options.tool_choice
    if choice is None:
        return None
    calling: dict[str, Any] = {"mode": CHOICES.get(choice, "ANY")}
    if choice not in CHOICES:
        calling["allowedFunctionNames"] = [choice]
    return {"functionCallingConfig": calling}


def _think(
    config: dict[str, Any], model: Model, options: StreamOptions, facts: Mapping[str, Any]
) -> list[str]:
    budget, level = options.thinking_budget, options.thinking_level
    if budget is None or level is None or model.lacks("thinking"):
        return []
    levels = facts.get("levels")
    if levels is None and "budget" not in facts:
        levels = COMMON_LEVELS if (generation(model) or 0) >= FIRST_WITH_LEVELS else None
    least, most = facts.get("budget", COMMON_BUDGET)
    if budget > 0:
        how = (
            {"thinkingLevel": next((w for w in LEVELS[level] if w in levels), levels[0])}
            if levels
            else {"thinkingBudget": min(max(budget, least), most)}
        )
        config["thinkingConfig"] = {**how, "includeThoughts": True}
        return []
    if levels:
        config["thinkingConfig"] = {"thinkingLevel": levels[0]}
        return [f"thinking: this model cannot be told not to think; {levels[0]} is its least"]
    if facts.get("never_off"):
        config["thinkingConfig"] = {"thinkingBudget": least}
        return [f"thinking: this model cannot be told not to think; {least} tokens is its least"]
    config["thinkingConfig"] = {"thinkingBudget": 0}
    return []
