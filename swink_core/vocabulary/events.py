"""The events of a stream: provider-neutral increments, in the order defined by `grammar`.

Events are not frozen, for speed; do not change an event after delivery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from swink_core.vocabulary.habits import missing_part
from swink_core.vocabulary.outcome import (
    Cost,
    ErrorConstructors,
    StopReason,
    StreamErrorKind,
    Usage,
)
from swink_core.vocabulary.structs import Finite, Record


class AssistantMessageEvent(Record):
    """The base of all events. `type` is the tag in JSON."""

    type: ClassVar[str] = ""


class Start(AssistantMessageEvent, tag="start"):
    """An attempt begins; sent before its request is."""

    if not TYPE_CHECKING:
        # a loop written for another library fails here, at the first event; on every event, a
        # missing attribute would cost observers a microsecond
        def __getattr__(self, name: str) -> Any:
            raise missing_part("event", self, name)


class TextStart(AssistantMessageEvent, tag="text_start"):
    """A text block opens at `content_index`."""

    content_index: int


class TextDelta(AssistantMessageEvent, tag="text_delta"):
    """More text of an open text block."""

    content_index: int
    delta: str


class TextEnd(AssistantMessageEvent, tag="text_end"):
    """A text block is complete."""

    content_index: int
    metadata: dict[str, Any] | None = None


class ThinkingStart(AssistantMessageEvent, tag="thinking_start"):
    """A thinking block opens at `content_index`."""

    content_index: int


class ThinkingDelta(AssistantMessageEvent, tag="thinking_delta"):
    """More visible reasoning of an open thinking block."""

    content_index: int
    delta: str


class ThinkingEnd(AssistantMessageEvent, tag="thinking_end"):
    """A thinking block is complete; see `ThinkingBlock` for `signature` and `redacted`."""

    content_index: int
    signature: str | None = None
    redacted: bool = False
    metadata: dict[str, Any] | None = None


class ToolCallStart(AssistantMessageEvent, tag="tool_call_start"):
    """A tool call opens at `content_index`."""

    content_index: int
    id: str
    name: str


class ToolCallDelta(AssistantMessageEvent, tag="tool_call_delta"):
    """More of the JSON text of an open tool call's arguments."""

    content_index: int
    delta: str


class ToolCallEnd(AssistantMessageEvent, tag="tool_call_end"):
    """A tool call has got all the arguments that it will get."""

    content_index: int
    metadata: dict[str, Any] | None = None


class Extension(AssistantMessageEvent, tag="extension"):
    """An opaque block of a `kind` that only `provider` understands."""

    content_index: int
    provider: str
    kind: str
    data: Any
    metadata: dict[str, Any] | None = None


class Notice(AssistantMessageEvent, tag="notice"):
    """Something that is not content; callers may ignore it. `code` is stable, `detail` is prose.

    If the request leaves out or changes a value, `paths` names it:
    `messages[3].content[1].source`, `system_prompt`, `options.temperature`,
    `tools[2].parameters.properties.x.format`. A path stands for everything below it. Indexes count
    the call's own messages, blocks and tools. Of other notices `paths` is empty.
    """

    code: str
    detail: str = ""
    paths: tuple[str, ...] = ()


class Retry(AssistantMessageEvent, tag="retry"):
    """Everything since the last `Start` is void; the call is made again.

    `attempt` is the number of the attempt that follows, counted from 1 on its model, of
    `max_attempts`; it begins after `delay` seconds, on `model` (`provider/id`, the same one or
    the next of the fallback chain). `error` says why; `error_kind` and `code` are those of the
    failed attempt's `Error`.
    """

    attempt: int
    max_attempts: int
    delay: Finite
    error: str
    model: str
    error_kind: StreamErrorKind | None = None
    code: str | None = None


class Done(AssistantMessageEvent, tag="done"):
    """The provider completed its answer. `usage` and `cost` are `None` where unknown.

    `metadata` is the provider's own: facts of the whole answer that fit nowhere else.
    """

    stop_reason: StopReason
    usage: Usage | None = None
    cost: Cost | None = None
    response_id: str | None = None
    model: str | None = None
    request_id: str | None = None
    metadata: dict[str, Any] | None = None


class Error(ErrorConstructors, AssistantMessageEvent, tag="error"):
    """The stream failed, or was aborted; what came before stays valid.

    `error_kind` is `None` only where an adapter did not say. `retry_after` is in seconds, as the
    provider asked. `title` and `resolution` are for people. `code` is the provider's own error
    code, or one of the core's for what the core found itself (`no_credentials`; the page on
    failures lists them); `None` without a code. `metadata` is as on `Done`.

    `Error.throttled("slow down", 7)` makes an error of that kind, for adapters that yield events
    themselves. There is such a constructor for each kind.
    """

    stop_reason: StopReason = StopReason.ERROR
    error_message: str = ""
    usage: Usage | None = None
    error_kind: StreamErrorKind | None = None
    retry_after: Finite | None = None
    cost: Cost | None = None
    response_id: str | None = None
    model: str | None = None
    request_id: str | None = None
    status: int | None = None
    phase: str | None = None
    title: str | None = None
    resolution: str | None = None
    code: str | None = None
    metadata: dict[str, Any] | None = None


Event: TypeAlias = (
    Start
    | TextStart | TextDelta | TextEnd
    | ThinkingStart | ThinkingDelta | ThinkingEnd
    | ToolCallStart | ToolCallDelta | ToolCallEnd
    | Extension | Notice | Retry
    | Done | Error
)  # fmt: skip
"""All events of a stream, as a union: type checkers can verify that a `match` is exhaustive."""
