"""The finish reasons of Chat Completions, including the additional names of other services."""

from __future__ import annotations

from swink_core import Failure, StopReason
from swink_core.providers import EventWriter
from swink_provider_openai.wire import AnyChoice, Delta

__all__ = ["BROKEN_OFF", "ERROR_FINISH", "FINISH", "REFUSAL"]
__all__ += ["announce_refusal", "error_finish", "reason_of"]

FINISH: dict[str, StopReason] = {
    "stop": StopReason.STOP,
    "eos": StopReason.STOP,  # Together
    "eos_token": StopReason.STOP,  # Text Generation Inference
    "stop_sequence": StopReason.STOP,
    "end_turn": StopReason.STOP,
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "model_length": StopReason.LENGTH,  # Mistral
    "max_output_tokens": StopReason.LENGTH,  # Responses, through OpenRouter
    "tool_calls": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "content_filter": StopReason.CONTENT_FILTER,
    "safety": StopReason.CONTENT_FILTER,
    "refusal": StopReason.CONTENT_FILTER,
}

BROKEN_OFF = frozenset({"error", "insufficient_system_resource", "abort"})
"""Finish reasons of incomplete answers.

Mistral and OpenRouter send `error`, DeepSeek `insufficient_system_resource`, and vLLM `abort`.
"""

ERROR_FINISH = "error_finish"
"""The finish reason of a chunk or a whole answer whose text is an error message (Qwen)."""

REFUSAL = "refusal"
"""The metadata key of a text in which the model refuses, and the code of the refusal's notice."""


def announce_refusal(out: EventWriter) -> None:
    """Add a notice, before the text of a refusal, that the model refuses to answer."""
    out.notice(REFUSAL, "the model refuses to answer")


def reason_of(choice: AnyChoice) -> str:
    """Return the finish reason.

    If the token limit cuts off a tool call, OpenRouter's finish reason is `tool_calls`. In this
    case, return the finish reason of OpenRouter's upstream, which is in a separate field.
    """
    given, native = choice.finish_reason or "", choice.native_finish_reason or ""
    return native if FINISH.get(native.lower()) is StopReason.LENGTH else given


def error_finish(delta: Delta | None) -> Failure:
    """Return the failure for a delta or a message with the finish reason `ERROR_FINISH`."""
    said = delta.content if delta is not None and isinstance(delta.content, str) else None
    message = said or "the provider stopped the answer early"
    return Failure("streaming", code=ERROR_FINISH, message=message)
