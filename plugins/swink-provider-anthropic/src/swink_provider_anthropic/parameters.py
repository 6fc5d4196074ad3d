"""Options as fields of the request, and what the API's rules make of them.

Some options exclude each other or are limited, by model: https://platform.claude.com/docs/en/
build-with-claude/thinking. What the rules leave out or change is told in a notice, never silently.
Models differ by what the catalogue says of them in `extra`:

    thinking      "adaptive": the model decides how much to think, guided by an effort;
                  otherwise it wants a budget in tokens
    efforts       the efforts that it takes
    thinking_off  how it is told not to think where it would: "disabled", "between_tools", or
                  "never", where it cannot be told
    sampling      false: it takes neither temperature nor top_p nor top_k
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import Model, StreamOptions
from swink_core.providers import closed_schema
from swink_provider_anthropic import claude

__all__ = ["parameters"]

DEFAULT_MAX_TOKENS = 4096

CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def parameters(model: Model, options: StreamOptions) -> tuple[dict[str, Any], list[str]]:
    """Return fields of the request, and in words what was left out or changed."""
    facts: Mapping[str, Any] = model.info.extra if model.info else claude.facts_of(model.id)
    most = model.info.max_output if model.info else None
    said = options.extra.get("max_tokens")  # above the model's most, which nobody asked for
    limit = options.max_tokens or (said if isinstance(said, int) else None) or most
    body: dict[str, Any] = {"max_tokens": limit or DEFAULT_MAX_TOKENS}
    if (choice := _tool_choice(options)) is not None:
        body["tool_choice"] = choice
    changed = [*_think(body, model, options, facts), *_sample(body, options, facts)]
    if isinstance(options.response_format, Mapping):
        form = {"type": "json_schema", "schema": closed_schema(options.response_format)}
        body["output_config"] = {**body.get("output_config", {}), "format": form}
    if options.stop:
        body["stop_sequences"] = list(options.stop)
    if (user := options.user if options.user is not None else options.session_id) is not None:
        body["metadata"] = {"user_id": user}
    if options.user is not None and options.session_id is not None:
        changed.append("session_id: its place is taken by user; left out")
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
    changed: list[str] = []
    how: dict[str, Any] | None = claude.ADAPTIVE
    if budget == 0:
        how, changed = claude.thinking_off(facts)
    elif facts.get("thinking") == "adaptive":
        body["output_config"] = {"effort": claude.effort(level, facts)}
    else:
        how, changed = claude.thinking(options, body["max_tokens"])
    if how is not None:
        body["thinking"] = how
    return changed


def _sample(body: dict[str, Any], options: StreamOptions, facts: Mapping[str, Any]) -> list[str]:
    thinks = body.get("thinking", {}).get("type") in ("enabled", "adaptive")
    wanted, changed = claude.sampling(options, facts, thinks)
    body.update(wanted)
    return changed
