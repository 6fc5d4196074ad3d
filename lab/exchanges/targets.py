"""The models, by provider, and their addresses at the vendor."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["TARGETS", "Target", "drawn"]


@dataclass(frozen=True, slots=True)
class Target:
    """A model of a provider.

    `api` names the API in the vendor's record, `base` is the path of the address at the
    vendor. `tiers` are names of service tiers.
    """

    provider: str
    model: str
    api: str
    base: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    tiers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name by which swink knows the model."""
        return f"{self.provider}/{self.model}"

    def options(self, url: str, key: str) -> dict[str, Any]:
        """Return the provider's options: address, key and settings."""
        made: dict[str, Any] = {"base_url": url + self.base, "api_key": key}
        if self.settings:
            made["settings"] = dict(self.settings)
        return made

    def extra(self, tier: str | None) -> dict[str, Any]:
        """Return the fields that ask for a service tier."""
        if tier is None:
            return {}
        if self.api == "converse":
            return {"serviceTier": {"type": tier}}
        return {"service_tier": tier}


_GPT = (
    "gpt-5.4-mini", "gpt-6.1-sol", "gpt-6-luna", "gpt-4.1", "gpt-4o-mini", "gpt-5-mini", "o3",
    "gpt-5.5",
)  # fmt: skip
_CLAUDE = (
    "claude-sonnet-5-5", "claude-haiku-4-5", "claude-opus-4-6", "claude-haiku-5-5",
    "claude-sonnet-4-5", "claude-opus-5-5",
)  # fmt: skip
_GEMINI = ("gemini-3.8-flash", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-3.6-flash")
_BEDROCK = (
    "amazon.nova-lite-v1:0", "us.anthropic.claude-haiku-4-5-20251001-v1:0", "amazon.nova-pro-v1:0",
)  # fmt: skip
_OLLAMA = ("llama3.2", "qwen3", "gpt-oss")
_COHERE = ("command-a-03-2025", "command-a-reasoning-08-2025", "command-r7b-12-2024")
_MISTRAL = ("mistral-large-latest", "mistral-small-latest", "mistral-medium-latest")
_TIERS = ("flex", "priority", "default")
_WITHOUT_FLEX = ("priority", "default")


def _tiers(model: str) -> tuple[str, ...]:
    return _WITHOUT_FLEX if model.startswith("gpt-4") else _TIERS


TARGETS: dict[str, tuple[Target, ...]] = {
    "openai": tuple(
        Target("openai", model, "responses", "/v1", {"api": "responses"}, _tiers(model))
        for model in _GPT
    ),
    "openai-chat": tuple(
        Target("openai", model, "chat", "/v1", {"api": "chat"}, _tiers(model)) for model in _GPT
    ),
    "anthropic": tuple(Target("anthropic", model, "messages") for model in _CLAUDE),
    "gemini": tuple(Target("gemini", model, "generateContent") for model in _GEMINI),
    "bedrock": tuple(
        Target("bedrock", model, "converse", "", {"region": "us-east-1"}) for model in _BEDROCK
    ),
    "ollama": tuple(Target("ollama", model, "ollama") for model in _OLLAMA),
    "cohere": tuple(Target("cohere", model, "cohere") for model in _COHERE),
    "mistral": tuple(Target("mistral", model, "mistral", "/mistral/v1") for model in _MISTRAL),
}
"""The models of each API that the vendor speaks."""


def drawn(chance: random.Random) -> Target:
    """Return the model of an exchange: each API is as likely as any other."""
    return chance.choice(TARGETS[chance.choice(sorted(TARGETS))])
