"""Requests, independent of the protocol."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

from lab.vendor import tokens
from lab.vendor.catalog import Model

__all__ = ["Ask", "Caching", "Segment", "Tool"]

Caching = Literal["automatic", "marked", "none"]


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the prompt: a tool's definition, a message, or a block of one.

    `media` are tokens of images and documents. `cache` marks the end of a prefix that is to be
    cached: `short` or `long`.
    """

    role: str
    text: str
    media: int = 0
    overhead: int = tokens.PER_MESSAGE
    cache: Literal["short", "long"] | None = None

    @property
    def tokens(self) -> int:
        """Return the number of prompt tokens of the segment."""
        return tokens.count(self.text) + self.media + self.overhead


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call; `schema` describes the arguments as a JSON schema."""

    name: str
    schema: dict[str, Any]


@dataclass(slots=True)
class Ask:
    """A request for an answer.

    `choice` is `auto`, `none`, `any` or the name of one tool in `tool`. `steps` counts the
    assistant's turns since the last text of the user, which is `user_text`: more than 0 within a
    loop of tool calls. `limit` bounds output with its reasoning, in tokens. `schema` is that of a
    structured answer, `{}` for any JSON object, `None` for plain text. `cached` are
    prompt tokens from a cache that the request names. `own` is what a protocol keeps for its
    encoder.
    """

    provider: str
    api: str
    model: Model
    account: str
    segments: list[Segment] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    choice: Literal["auto", "none", "any", "tool"] = "auto"
    tool: str = ""
    parallel: bool = True
    user_text: str = ""
    last_role: str = ""
    steps: int = 0
    thinking: bool = False
    shown: bool = True
    limit: int | None = None
    stops: list[str] = field(default_factory=list)
    count: int = 1
    schema: dict[str, Any] | None = None
    streamed: bool = False
    tier: str = "default"
    caching: Caching = "automatic"
    cached: int = 0
    own: dict[str, Any] = field(default_factory=dict)

    def prefix(self, segments: int | None = None) -> str:
        """Return a digest of the first `segments` of the prompt (`None`: of all)."""
        digest = hashlib.sha256()
        for segment in self.segments[:segments]:
            digest.update(f"\0{segment.role}\0{segment.media}\0{segment.text}".encode())
        return digest.hexdigest()[:32]

    @property
    def prompt_tokens(self) -> int:
        """Return the size of the whole prompt."""
        return sum(segment.tokens for segment in self.segments)
