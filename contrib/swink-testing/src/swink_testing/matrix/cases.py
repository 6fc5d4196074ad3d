"""The cases: which conversation goes to which model with which options."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any

from attrs import define, field

from swink_core import CacheStrategy
from swink_testing.matrix.conversations import conversation_names
from swink_testing.matrix.ids import AskedModel
from swink_testing.matrix.options import alone, beside_tools, pairs

__all__ = ["Case", "cases_of", "sampled"]


@define(frozen=True)
class Case:
    """A call: to `provider/model`, of a conversation by its name, with options."""

    provider: str
    model: AskedModel
    conversation: str
    options: dict[str, Any] = field(hash=False)

    def __str__(self) -> str:
        options = ", ".join(f"{name}={_short(value)}" for name, value in self.options.items())
        return f"{self.provider}/{self.model.id} [{self.conversation}] {options}".rstrip()

    @property
    def combination(self) -> str:
        """The case without its model."""
        return str(self).partition(" ")[2]


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:40]}… ({len(text)} characters)"


def cases_of(provider: str, models: list[AskedModel]) -> Iterator[Case]:
    """Yield the cases of a provider's models: every combination for each."""
    for model in models:
        for conversation, options in _combinations():
            yield Case(provider, model, conversation, options)


@cache
def _combinations() -> list[tuple[str, dict[str, Any]]]:
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
    return list(unique.values())


def sampled(cases: Iterator[Case], share: int) -> Iterator[Case]:
    """Yield one case in `share`, the same ones every time."""
    for case in cases:
        if share <= 1 or zlib.crc32(str(case).encode()) % share == 0:
            yield case
