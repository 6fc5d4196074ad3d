"""Options as fields of the request, and what the API's rules make of them.

Some options exclude each other or are limited, by model: https://platform.claude.com/docs/en/
build-with-claude/thinking. What the rules leave out or change is told in a notice, never silently.
Models differ by what the catalogue says of them in `extra`:

    thinking      "adaptive": the model decides how much to think, guided by an effort;
                  otherwise it wants a budget in tokens
    efforts       the efforts that it takes
    thinking_off  how it is told not to think where it would: "disabled", "between_tools", or
                  "never", where it cannot be told
    sampling      false: it takes neither temperature nor top_p
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import Model, StreamOptions, ThinkingLevel
from swink_core.providers import closed_schema

__all__ = ["parameters"]

DEFAULT_MAX_TOKENS = 4096
LEAST_BUDGET = 1024
LEAST_TOP_P_WITH_THINKING = 0.95

EFFORTS = {
    ThinkingLevel.MINIMAL: ("low",),
    ThinkingLevel.LOW: ("low",),
    ThinkingLevel.MEDIUM: ("medium",),
    ThinkingLevel.HIGH: ("high",),
    ThinkingLevel.EXTRA_HIGH: ("xhigh", "max"),
}
"""What a level is called here, first the better fit. Not every model has every effort."""

CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def parameters(model: Model, options: StreamOptions) -> tuple[dict[str, Any], list[str]]:
    """Return fields of the request, and in words what was left out or changed."""
    facts: Mapping[str, Any] = model.info.extra if model.info else {}
    most = model.info.max_output if model.info else None
    body: dict[str, Any] = {"max_tokens": options.max_tokens or most or DEFAULT_MAX_TOKENS}
    if (choice := _tool_choice(options)) is not None:
        body["tool_choice"] = choice
    changed = [*_think(body, model, options, facts), *_sample(body, options, facts)]
    if isinstance(options.response_format, Mapping):
        form = {"type": "json_schema", "schema": closed_schema(options.response_format)}
        body["output_config"] = {**body.get("output_config", {}), "format": form}
    if options.stop:
        body["stop_sequences"] = list(options.stop)
    if options.session_id is not None:
        body["metadata"] = {"user_id": options.session_id}
    return body, changed


def _tool_choice(options: StreamOptions) -> dict[str, Any] | None:
    if options.tool_choice is None and options.parallel_tool_calls is None:
        return None
    name = options.tool_choice or "auto"
    choice: dict[str, Any] = {"type": CHOICES.get(name, "tool")}
    if choice["type"] == "tool":
        choice["name"] = name
    if options.parallel_tool_calls is not None and name != "none":
        choice["disable_parallel_tool_use"] = not options.parallel_tool_calls
    return choice


def _think(
    body: dict[str, Any], model: Model, options: StreamOptions, facts: Mapping[str, Any]
) -> list[str]:
    budget, level = options.thinking_budget, options.thinking_level
    if budget is None or level is None or model.lacks("thinking"):
        return []
    if budget == 0:
        off = facts.get("thinking_off")
        if off == "never":
            return ["thinking: this model cannot be told not to think"]
        if off is not None:
            body["thinking"] = {"type": off}
        return []
    if facts.get("thinking") == "adaptive":
        effort = next((e for e in EFFORTS[level] if e in facts.get("efforts", ())), "high")
        # newer models leave the text of their thinking out unless it is asked for
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        body["output_config"] = {"effort": effort}
        return []
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        return ["thinking: not together with a tool_choice that forces a call; it was left out"]
    budget = min(max(budget, LEAST_BUDGET), body["max_tokens"] - 1)
    if budget < LEAST_BUDGET:
        return [f"thinking: max_tokens leaves less than {LEAST_BUDGET} for it; it was left out"]
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return []


def _sample(body: dict[str, Any], options: StreamOptions, facts: Mapping[str, Any]) -> list[str]:
    temperature, top_p = options.temperature, options.top_p
    given = {"temperature": temperature, "top_p": top_p}
    if facts.get("sampling") is False:
        return [f"{n}: this model has none; left out" for n, v in given.items() if v is not None]
    changed = []
    if body.get("thinking", {}).get("type") in ("enabled", "adaptive"):
        if temperature not in (None, 1):
            changed.append("temperature: with thinking it is 1")
        temperature = 1
        if top_p is not None and top_p < LEAST_TOP_P_WITH_THINKING:
            changed.append(f"top_p: with thinking at least {LEAST_TOP_P_WITH_THINKING}; left out")
            top_p = None
        elif top_p is not None:
            temperature = None  # 1 unless said, and newer models refuse both at once
    elif temperature is not None and top_p is not None:
        changed.append("top_p: not together with temperature; left out")
        top_p = None
    for name, value in (("temperature", temperature), ("top_p", top_p)):
        if value is not None:
            body[name] = value
    return changed
