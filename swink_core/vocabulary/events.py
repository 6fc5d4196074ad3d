"""What a stream is made of: provider-neutral increments, in the order that `protocol` states.

Events are slotted and, for speed, not frozen (a frozen attrs class takes three times as long
to make); nobody changes one after it was handed out.
"""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import define

from swink_core.vocabulary.outcome import Cost, StopReason, StreamErrorKind, Usage


@define
class AssistantMessageEvent:
    """The base of all events. `type` is the tag in JSON."""

    type: ClassVar[str] = ""

    @staticmethod
    def error(message: str) -> Error:
        """Make an error of no stated kind."""
        return Error(error_message=message)

    @staticmethod
    def error_throttled(message: str, retry_after: float | None = None) -> Error:
        """Make a rate-limit error; `retry_after` is in seconds."""
        return _error(StreamErrorKind.THROTTLED, message, retry_after)

    @staticmethod
    def error_overloaded(message: str, retry_after: float | None = None) -> Error:
        """Say that the provider has no capacity just now."""
        return _error(StreamErrorKind.OVERLOADED, message, retry_after)

    @staticmethod
    def error_network(message: str) -> Error:
        """Make a connection or server error, which is worth another try."""
        return _error(StreamErrorKind.NETWORK, message)

    @staticmethod
    def error_empty_response(message: str) -> Error:
        """Say that the answer had neither text nor a tool call."""
        return _error(StreamErrorKind.EMPTY_RESPONSE, message)

    @staticmethod
    def error_timeout(message: str) -> Error:
        """Say that a time limit passed."""
        return _error(StreamErrorKind.TIMEOUT, message)

    @staticmethod
    def error_protocol(message: str) -> Error:
        """Say that what came is not what the wire format allows."""
        return _error(StreamErrorKind.PROTOCOL, message)

    @staticmethod
    def error_auth(message: str) -> Error:
        """Make an authentication or authorisation error."""
        return _error(StreamErrorKind.AUTH, message)

    @staticmethod
    def error_quota_exhausted(message: str) -> Error:
        """Say that the account has no quota left."""
        return _error(StreamErrorKind.QUOTA_EXHAUSTED, message)

    @staticmethod
    def error_context_overflow(message: str) -> Error:
        """Say that the conversation is longer than the model's context window."""
        return _error(StreamErrorKind.CONTEXT_WINDOW_EXCEEDED, message)

    @staticmethod
    def error_content_filtered(message: str) -> Error:
        """Say that the provider refused the request for its content."""
        return _error(StreamErrorKind.CONTENT_FILTERED, message)

    @staticmethod
    def error_model_not_found(message: str) -> Error:
        """Say that the model does not exist or is closed to this account."""
        return _error(StreamErrorKind.MODEL_NOT_FOUND, message)

    @staticmethod
    def error_invalid_request(message: str) -> Error:
        """Say that the provider does not accept the request."""
        return _error(StreamErrorKind.INVALID_REQUEST, message)

    @staticmethod
    def error_unsupported(message: str) -> Error:
        """Say that the provider or model lacks a feature that was asked for."""
        return _error(StreamErrorKind.UNSUPPORTED, message)

    @staticmethod
    def error_output_too_large(message: str) -> Error:
        """Say that the answer passed the call's size limit."""
        return _error(StreamErrorKind.OUTPUT_TOO_LARGE, message)

    @staticmethod
    def error_resource(message: str) -> Error:
        """Say that this machine ran out of something."""
        return _error(StreamErrorKind.RESOURCE, message)

    @staticmethod
    def error_cancelled(message: str) -> Error:
        """Say that the caller gave up; a core stream ends with `aborted` instead."""
        return _error(StreamErrorKind.CANCELLED, message)

    @staticmethod
    def error_internal(message: str) -> Error:
        """Report a fault in a plugin."""
        return _error(StreamErrorKind.INTERNAL, message)

    @staticmethod
    def error_unknown(message: str) -> Error:
        """Report a failure that nothing recognised."""
        return _error(StreamErrorKind.UNKNOWN, message)


@define
class Start(AssistantMessageEvent):
    """An attempt begins; sent before its request is."""

    type: ClassVar[str] = "start"


@define
class TextStart(AssistantMessageEvent):
    """A text block opens at `content_index`."""

    type: ClassVar[str] = "text_start"
    content_index: int


@define
class TextDelta(AssistantMessageEvent):
    """More text of an open text block."""

    type: ClassVar[str] = "text_delta"
    content_index: int
    delta: str


@define
class TextEnd(AssistantMessageEvent):
    """A text block is complete."""

    type: ClassVar[str] = "text_end"
    content_index: int
    metadata: dict[str, Any] | None = None


@define
class ThinkingStart(AssistantMessageEvent):
    """A thinking block opens at `content_index`."""

    type: ClassVar[str] = "thinking_start"
    content_index: int


@define
class ThinkingDelta(AssistantMessageEvent):
    """More visible reasoning of an open thinking block."""

    type: ClassVar[str] = "thinking_delta"
    content_index: int
    delta: str


@define
class ThinkingEnd(AssistantMessageEvent):
    """A thinking block is complete; see `ThinkingBlock` for `signature` and `redacted`."""

    type: ClassVar[str] = "thinking_end"
    content_index: int
    signature: str | None = None
    redacted: bool = False
    metadata: dict[str, Any] | None = None


@define
class ToolCallStart(AssistantMessageEvent):
    """A tool call opens at `content_index`."""

    type: ClassVar[str] = "tool_call_start"
    content_index: int
    id: str
    name: str


@define
class ToolCallDelta(AssistantMessageEvent):
    """More of the JSON text of an open tool call's arguments."""

    type: ClassVar[str] = "tool_call_delta"
    content_index: int
    delta: str


@define
class ToolCallEnd(AssistantMessageEvent):
    """A tool call has got all the arguments that it will get."""

    type: ClassVar[str] = "tool_call_end"
    content_index: int
    metadata: dict[str, Any] | None = None


@define
class Extension(AssistantMessageEvent):
    """A whole opaque block of `provider`'s own `kind`."""

    type: ClassVar[str] = "extension"
    content_index: int
    provider: str
    kind: str
    data: Any
    metadata: dict[str, Any] | None = None


@define
class Notice(AssistantMessageEvent):
    """Something that is not content; callers may ignore it. `code` is stable, `detail` is prose."""

    type: ClassVar[str] = "notice"
    code: str
    detail: str = ""


@define
class Retry(AssistantMessageEvent):
    """Everything since the last `Start` is void; the call is made again.

    `attempt` is the number of the attempt that follows, counted from 1 on its model, of
    `max_attempts`; it begins after `delay` seconds, on `model` (`provider/id`, the same one or
    the next of the fallback chain). `error` is why.
    """

    type: ClassVar[str] = "retry"
    attempt: int
    max_attempts: int
    delay: float
    error: str  # type: ignore[assignment]  # the design's name; shadows the helper on purpose
    model: str
    error_kind: StreamErrorKind | None = None


@define
class Done(AssistantMessageEvent):
    """The provider completed its answer. `usage` and `cost` are `None` where unknown."""

    type: ClassVar[str] = "done"
    stop_reason: StopReason
    usage: Usage | None = None
    cost: Cost | None = None
    response_id: str | None = None
    model: str | None = None
    request_id: str | None = None


@define
class Error(AssistantMessageEvent):
    """The stream failed, or was aborted; what came before stays valid.

    `error_kind` is `None` only where an adapter did not say. `retry_after` is in seconds, as the
    provider asked. `title` and `resolution` are for people; `rule` names what matched.
    """

    type: ClassVar[str] = "error"
    stop_reason: StopReason = StopReason.ERROR
    error_message: str = ""
    usage: Usage | None = None
    error_kind: StreamErrorKind | None = None
    retry_after: float | None = None
    cost: Cost | None = None
    response_id: str | None = None
    model: str | None = None
    request_id: str | None = None
    status: int | None = None
    phase: str | None = None
    title: str | None = None
    resolution: str | None = None
    rule: str | None = None


def _error(kind: StreamErrorKind, message: str, retry_after: float | None = None) -> Error:
    return Error(error_message=message, error_kind=kind, retry_after=retry_after)
