"""The events of the Responses API, with the fields that swink reads.

Source: OpenAI's API reference, "Streaming events" of Responses, and recorded streams of OpenAI,
Azure, xAI and OpenRouter. One struct covers all events: they share a few fields, whose meaning
depends on `type`. Every field may be absent or null. Items stay plain JSON data, because they are
sent back whole.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

__all__ = ["TERMINAL", "Event", "Response"]

TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})
"""The types of events after which no more content follows."""


class Event(Struct, gc=False):
    """One event of any type. In the events that swink reads, `delta` is a piece of text."""

    type: str | None = None
    delta: Any = None
    output_index: int | float | None = None
    content_index: int | float | None = None
    summary_index: int | float | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: Any = None
    input: str | None = None
    part: dict[str, Any] | None = None
    item: dict[str, Any] | None = None
    response: Raw = Raw()
    error: Any = None
    code: str | int | None = None
    message: str | None = None
    status: int | str | None = None


class Response(Struct, gc=False):
    """A response. In the first events of a stream, the response is not yet complete."""

    id: str | int | None = None
    model: str | None = None
    status: str | None = None
    error: Any = None
    incomplete_details: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    output: Raw = Raw()
    service_tier: Any = None
    system_fingerprint: Any = None
    moderation: Any = None
    provider: Any = None
    content_filters: Any = None
    conversation: Any = None
    metadata: Any = None
    prompt_cache_options: Any = None
