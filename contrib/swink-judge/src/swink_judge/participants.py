"""The providers for tests that begin a conversation with one provider and continue with another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import define

from swink_core import (
    Host,
    Model,
)
from swink_core.providers import Catalog
from swink_judge.opening_answers import Beginning, beginning

__all__ = ["Participant", "Rules", "participants"]


@define(frozen=True)
class Rules:
    """The requirements of an API, from its documentation or its error messages."""

    tool_ids: str = r".+"
    """A regular expression for the ids of tool calls."""

    alternating: bool = False
    """Turns of the user and of the model must alternate."""

    user_after_result: bool = True
    """A user message may directly follow a tool result."""

    documents_by_address: bool = False
    """Documents can be sent only by URL, not as data."""

    in_words: bool = False
    """The conversation is converted to text, and is not sent over HTTP."""


RULES = {
    "anthropic-messages": Rules(r"[a-zA-Z0-9_-]+", alternating=True),
    "azure": Rules(r".{1,40}"),
    "bedrock-converse": Rules(r"[a-zA-Z0-9_.:-]{1,64}", alternating=True),
    "claude-stream-json": Rules(in_words=True),
    "cohere-chat": Rules(),
    "gemini-generate-content": Rules(alternating=True),
    "mistral": Rules(r"[a-zA-Z0-9]{9}", user_after_result=False),
    "none": Rules(in_words=True),
    "ollama-chat": Rules(),
    "openai": Rules(r".{1,40}"),
    "openai-chat": Rules(),
    "openai-responses": Rules(r".{1,64}"),
    "openrouter": Rules(r".{1,40}"),
    "perplexity-agent": Rules(r".{1,64}"),
    "swink": Rules(),
    "xai-responses": Rules(r".{1,64}", documents_by_address=True),
    "zai": Rules(documents_by_address=True),
}
"""The requirements of each wire format, and of each participant with stricter requirements."""

MODELS = {
    "bedrock": "anthropic.claude-any",
    "gemini": "gemini-3-any",
    "vertex": "gemini-3-any",
}
"""Invented models, which are in no catalogue, so that no rule about a real model applies."""

FAMILIES = {
    "vertex": {
        "claude-any": "anthropic-messages",
        "mistralai/mistral-any": "mistral",
        "meta/any-maas": "openai-chat",
    }
}
"""Models of a provider that use another provider's format, each with its key in `RULES`."""


@define(frozen=True)
class Participant:
    """A provider, or one of several APIs of a provider.

    `wire` is the wire format. `replay` is the field of an assistant message in which the next
    request sends back an answer's reasoning, such as `reasoning_content` (`None`: the API uses no
    such field).
    """

    provider: str
    wire: str
    replay: str | None = None
    chooses: bool = False
    """True if the provider has several APIs and an option selects this one."""

    family: str | None = None
    """The model, from `FAMILIES`, if it uses another provider's format; otherwise `None`."""

    def __str__(self) -> str:
        if self.family is not None:
            return f"{self.provider}-{self.family.rpartition('/')[2].partition('-')[0]}"
        return self.provider if self.wire != "openai-responses" else f"{self.provider}-responses"

    @property
    def model(self) -> Model:
        """A model of the provider."""
        return Model(self.provider, self.family or MODELS.get(self.provider, "any"))

    @property
    def spoken(self) -> str:
        """The key of the API's requirements in `RULES`: a provider's name or a wire format."""
        if self.family is not None:
            return FAMILIES[self.provider][self.family]
        return str(self) if str(self) in RULES else self.wire

    @property
    def options(self) -> dict[str, Any]:
        """The options that select this API, if the provider has several."""
        api = self.wire.removeprefix("openai-")
        return {"settings": {"api": api}} if self.chooses else {}

    @property
    def rules(self) -> Rules:
        """The requirements of the API."""
        return RULES[self.spoken]

    def begins(self) -> Beginning:
        """Return an answer in the format of this provider, including opaque state."""
        replayed = f"{self.wire} {self.replay}" if self.replay else self.wire
        return beginning("mistral" if self.spoken == "mistral" else replayed, self.provider)


def participants(host: Host, everyone: bool = False) -> Iterator[Participant]:
    """Yield one participant for each combination of package, wire format and `replay`.

    With `everyone`, yield one participant for each provider. A provider that also supports the
    Responses API is yielded a second time, with that API. A provider that serves some models in the
    formats of other vendors is yielded once more for each of these formats.
    """
    catalog = Catalog(host)
    seen = set()
    for name in sorted(host.provider_names(), key=lambda name: (name != "openai", name)):
        info, package = catalog.provider(name), host.entry(name).package
        assert info is not None
        chooses, replay = "api" in info.settings, info.dialect.get("replay")
        for family, spoken in FAMILIES.get(name, {}).items():
            wire = "openai-chat" if spoken == "mistral" else spoken
            yield Participant(name, wire, family=family)
        if (key := (package, info.wire_format, replay)) in seen and not everyone:
            continue
        seen.add(key)
        yield Participant(name, info.wire_format, replay, chooses)
        if "websocket" in info.dialect:
            yield Participant(name, "openai-responses", chooses=True)
