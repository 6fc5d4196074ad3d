"""The frames of Chat Completions, with the fields that swink reads.

Source: OpenAI's API reference, "The chat completion chunk object", and recorded streams of the
services with this format. Every field may be absent or null here, even if the API reference
requires a value. msgspec skips all fields that are not named here. Fields that swink passes to the
caller unchanged have the type `Any`, so that parsing does not fail if a service changes their form.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

__all__ = [
    "Answer", "AnyChoice", "Audio", "Choice", "Chunk", "Custom", "Delta", "Facts", "FirstChunk",
    "Function", "Part", "ToolCall",
]  # fmt: skip


class Part(Struct, gc=False):
    """An element of the content, if the content is an array (Mistral).

    The element has one of these fields: `text`; `thinking`, a text or a list of elements; or
    `reference_ids`, the sources of the preceding text.
    """

    text: str | None = None
    thinking: str | list[Part] | None = None
    reference_ids: list[Any] | None = None


class Function(Struct, gc=False):
    """The called function. `arguments` is a piece of JSON text; some servers send an object."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class Custom(Struct, gc=False):
    """A fragment of a free-text tool call: the tool's name, and a piece of the text."""

    name: str | None = None
    input: str | None = None


class ToolCall(Struct, gc=False):
    """A fragment of a tool call.

    `extra_content` is data of the service that the next request sends back unchanged.
    """

    index: int | float | None = None
    id: str | int | None = None
    type: str | None = None
    function: Function | None = None
    custom: Custom | None = None
    extra_content: Any = None


class Audio(Struct, gc=False):
    """A piece of audio in base64, its transcript, and the time until which its id is valid."""

    id: str | None = None
    data: str | None = None
    transcript: str | None = None
    expires_at: int | float | None = None


class Delta(Struct, gc=False):
    """The delta of a message; a complete message has the same fields."""

    content: str | list[Part] | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    thinking: str | None = None
    refusal: str | None = None
    annotations: Any = None
    executed_tools: Any = None
    function_call: Function | None = None
    audio: Audio | None = None
    images: list[Any] | None = None
    provider_metadata: Any = None


class AnyChoice(Struct, gc=False):
    """One of the `n` requested answers, without its content."""

    finish_reason: str | None = None
    native_finish_reason: str | None = None
    index: int | float | None = None
    logprobs: Any = None
    content_filter_results: Raw = Raw()
    stop_reason: Any = None
    seed: Any = None


class Choice(AnyChoice, gc=False):
    """A piece of one of the answers."""

    delta: Delta | None = None


class Chunk(Struct, gc=False):
    """A frame of a stream. `error` may be present together with other fields (OpenRouter)."""

    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: dict[str, Any] | None = None
    citations: Any = None
    search_results: Any = None


class FirstChunk(Chunk, gc=False):
    """A frame that is read while the answer's id and model are not known yet."""

    id: str | int | None = None
    model: str | None = None


class WholeChoice(AnyChoice, gc=False):
    """One of the answers in a response that is not streamed."""

    message: Delta | None = None


class Answer(Struct, gc=False):
    """A response that is not streamed ("The chat completion object")."""

    id: str | int | None = None
    model: str | None = None
    choices: list[WholeChoice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class Facts(Struct, gc=False, omit_defaults=True):
    """Response metadata of interest to callers, from a frame or a response.

    The first three fields are OpenAI's; `prompt_filter_results` is Azure's, `provider`
    OpenRouter's, and the next five are Perplexity's. The remaining fields contain timings and
    prices; `x_groq` is Groq's.
    """

    service_tier: Any = None
    system_fingerprint: Any = None
    moderation: Any = None
    prompt_filter_results: Any = None
    provider: Any = None
    citations: Any = None
    search_results: Any = None
    images: Any = None
    videos: Any = None
    related_questions: Any = None
    timings: Any = None
    latency_checkpoint: Any = None
    time_info: Any = None
    sla_metrics: Any = None
    copilot_usage: Any = None
    cost: Any = None
    x_groq: dict[str, Any] | None = None
