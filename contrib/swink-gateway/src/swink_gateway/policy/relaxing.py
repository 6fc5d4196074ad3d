"""Replace option values that a model does not support, with a notice.

A `tool_choice` that forces a call becomes `auto`. JSON mode becomes an instruction in the system
prompt. It does not become a schema, because Anthropic's schemas forbid properties that they do not
name, so that no schema fits every JSON object. Clients that prefer a refusal send the header
`x-swink-strict: true`.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from swink_core import Client, Context, Model, StreamOptions, TextBlock, replace
from swink_core.providers import HTTPProvider
from swink_gateway.policy.passthrough import names_none
from swink_gateway.policy.routing import Chain
from swink_gateway.protocols import Asked

__all__ = ["STRICT", "relaxed"]

STRICT = "x-swink-strict"
"""With this request header, unsupported option values are refused and not replaced."""

_CHOICE = "tool_choice"
_FORMAT = "response_format"

_BY_CODE = {"tool_choice": _CHOICE, "json": _FORMAT}
"""The options, by the error code with which the core refuses their values."""

_RELAXED: dict[str, Any] = {_CHOICE: "auto", _FORMAT: None}
"""The values that replace unsupported values, by the name of the option."""

_JSON = "Answer with one JSON object and nothing else: no code fence, no words around it."
_NOTICES = {
    _CHOICE: "{} does not support tool_choice {!r}: auto was sent",
    _FORMAT: "{} has no JSON mode without a schema: the system prompt asks for a JSON object",
}


def relaxed(client: Client, chain: Chain, asked: Asked) -> tuple[Chain, Asked]:
    """Replace the options that a model of the chain does not support, for this model only."""
    options = asked.options
    moved = {}
    if options.get(_CHOICE) not in (None, "auto", "none"):
        moved[_CHOICE] = options[_CHOICE]
    if options.get(_FORMAT) == "json":
        moved[_FORMAT] = options[_FORMAT]
    if not moved or asked.is_strict:
        return chain, asked
    left = {name: value for name, value in options.items() if name not in moved}
    if "tools" in asked.own and names_none(moved.get(_CHOICE), asked.context.tools):
        left[_CHOICE] = moved.pop(_CHOICE)  # `addressed` removes it together with its tool
    found: Chain = []
    notices: dict[str, None] = {}
    asks_for_json = False
    for model, own in chain:
        given = {**moved, **own}
        for name in _refused(client, model, asked, {**left, **given}):
            notices[_NOTICES[name].format(model, options.get(name))] = None
            given[name] = _RELAXED[name]
            asks_for_json = asks_for_json or name == _FORMAT
        found.append((model, {n: v for n, v in given.items() if v is not None}))
    if not notices:
        return chain, asked
    changed = evolve(asked, options=left, notices=[*asked.notices, *notices])
    if asks_for_json:
        changed.context = _asking_for_json(asked.context)
    return found, changed


def _asking_for_json(context: Context) -> Context:
    prompt = context.system_prompt
    if isinstance(prompt, list):
        return replace(context, system_prompt=[*prompt, TextBlock(_JSON)])
    return replace(context, system_prompt="\n\n".join(filter(None, [prompt, _JSON])))


def _refused(client: Client, model: Model, asked: Asked, options: dict[str, Any]) -> list[str]:
    """Return the names of the options whose values the model does not support."""
    provider: Any = client.host.bind(model.provider).provider
    if not isinstance(provider, HTTPProvider):
        return []
    target = client.target(model, **options)
    left: StreamOptions = target.options
    found: list[str] = []
    for _ in _BY_CODE:
        failure = provider.fit(target.model, asked.context, left).failure
        name = _BY_CODE.get(str(failure.code)) if failure is not None else None
        if name is None or name in found:
            break
        found.append(name)
        left = evolve(left, **{name: _RELAXED[name]})
    return found
