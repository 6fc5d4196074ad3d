"""`extra` means the same to every provider, whatever the options and the conversation say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swink_core import Context, Host, Model, StreamOptions, Tool, UserMessage
from swink_core.providers import HTTPProvider

CONTEXT = Context([UserMessage("Hi")], tools=[Tool("look", "", {"type": "object"})])

# where a provider keeps its tools, and an object of its body that options fill as well
PLACES: dict[str, tuple[tuple[str, ...], str]] = {
    "anthropic": (("tools",), "thinking"),
    "bedrock": (("toolConfig", "tools"), "inferenceConfig"),
    "deepseek": (("tools",), "thinking"),
    "gemini": (("tools",), "generationConfig"),
    "groq": (("tools",), "response_format"),
    "mistral": (("tools",), "response_format"),
    "ollama": (("tools",), "options"),
    "openai": (("tools",), "response_format"),
    "openrouter": (("tools",), "reasoning"),
    "proxy": (("tools",), "options"),
    "vertex": (("tools",), "generationConfig"),
    "xai": (("tools",), "response_format"),
}


def _body(provider: str, **options: Any) -> dict[str, Any]:
    plugin = Host().bind(provider).provider
    assert isinstance(plugin, HTTPProvider)
    model = Model(provider, "claude-like" if provider == "bedrock" else "any")
    chosen = StreamOptions(
        base_url="https://example.com", max_tokens=9000, thinking="low", temperature=1,
        response_format={"type": "object"}, **options,
    )  # fmt: skip
    request = plugin.request(model, plugin.convert(model, CONTEXT, chosen), chosen)
    body: dict[str, Any] = msgspec.json.decode(request.body)
    return body


def _at(body: dict[str, Any], place: tuple[str, ...]) -> Any:
    found: Any = body
    for name in place:
        found = found[name]
    return found


@pytest.mark.parametrize("provider", sorted(PLACES))
def test_tools_of_the_service_come_beside_ones_own(provider: str) -> None:
    place, _ = PLACES[provider]
    hosted: Any = [{"type": "hosted_search"}]
    for name in reversed(place):
        hosted = {name: hosted}
    alone, both = _at(_body(provider), place), _at(_body(provider, extra=hosted), place)
    assert both == [*alone, {"type": "hosted_search"}]


@pytest.mark.parametrize("provider", sorted(PLACES))
def test_objects_are_added_to(provider: str) -> None:
    _, name = PLACES[provider]
    plain = _body(provider)
    assert isinstance(plain[name], dict)
    assert _body(provider, extra={name: {"added": 1}})[name] == {**plain[name], "added": 1}


@pytest.mark.parametrize("provider", sorted(PLACES))
def test_nothing_is_a_field_that_is_not_sent(provider: str) -> None:
    assert _body(provider, extra={"added": None, "kept": False}) == {
        **_body(provider),
        "kept": False,
    }
