"""The cases: pairs of conversations and options, for each model."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any

from attrs import define, field

from swink_core import CacheStrategy
from swink_judge.matrix.conversations import conversation_names
from swink_judge.matrix.models import AskedModel
from swink_judge.matrix.options import alone, beside_tools, pairs

__all__ = ["Case", "cases_of", "combination"]


@define(frozen=True)
class Case:
    """A call to `provider/model`: the name of a conversation, and options."""

    provider: str
    model: AskedModel
    conversation: str
    options: dict[str, Any] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.provider}/{self.model.id} {self.combination}"

    @property
    def combination(self) -> str:
        """A description of the case without its model."""
        return combination(self.conversation, self.options)


def combination(conversation: str, given: dict[str, Any]) -> str:
    """Return a text that describes a conversation (by its name) together with options."""
    options = ", ".join(f"{name}={_short(value)}" for name, value in given.items())
    return f"[{conversation}] {options}".rstrip()


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:40]}… ({len(text)} characters)"


def cases_of(provider: str, models: list[AskedModel], share: int = 1) -> Iterator[Case]:
    """Yield the cases of a provider's models.

    For each model, only one of every `share` combinations is selected, always the same ones.
    """
    for model in models:
        begun = zlib.crc32(f"{provider}/{model.id}".encode())
        for conversation, options, said in _combinations():
            if zlib.crc32(said, begun) % share == 0:
                yield Case(provider, model, conversation, options)


@cache
def _combinations() -> list[tuple[str, dict[str, Any], bytes]]:
    """Return a tuple for each combination: a conversation's name, options, and a unique key."""
    made = [("plain", options) for options in (*alone(), *pairs())]
    made += [("tools", options) for options in beside_tools()]
    made += [("tool used", options) for options in ({"tool_choice": "required"}, {"seed": 0})]
    for name in ("marks for the cache", "four marks for the cache"):
        made += [(name, {"cache": cache}) for cache in ("auto", CacheStrategy("auto", 3600))]
    for name in conversation_names():
        for options in ({}, {"thinking": "high"}, {"thinking": "off"}, {"transport": "buffered"}):
            if name not in ("plain", "tools") or not options:
                made.append((name, options))
    unique = {f"{name} {options!r}": (name, options) for name, options in made}
    return [(*each, f" {combination(*each)}".encode()) for each in unique.values()]
