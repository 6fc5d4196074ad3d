"""The events of a stream: the pieces in which an answer arrives, the same for all providers.

The module `grammar` defines the order of events. For speed, the classes are not frozen, but an
event must not be changed after it has been delivered.
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
    """The base class of all events. `type` is the tag in JSON."""

    type: ClassVar[str] = ""


class Start(AssistantMessageEvent, tag="start"):
    """An attempt begins. This event is delivered before the request is sent."""

    if not TYPE_CHECKING:
        # Code written for another library fails here, at the first event. The helpful error is only
        # on this event, because it would slow down the access to missing attributes on every event.
        def __getattr__(self, name: str) -> Any:
            raise missing_part("event", self, name)


class TextStart(AssistantMessageEvent, tag="text_start"):
    """A text block begins; `content_index` is its position in the message's content."""

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
    """A thinking block begins; `content_index` is its position in the message's content."""

    content_index: int


class ThinkingDelta(AssistantMessageEvent, tag="thinking_delta"):
    """More text of an open thinking block."""

    content_index: int
    delta: str


class ThinkingEnd(AssistantMessageEvent, tag="thinking_end"):
    """A thinking block is complete. `ThinkingBlock` explains `signature` and `redacted`."""

    content_index: int
    signature: str | None = None
    redacted: bool = False
    metadata: dict[str, Any] | None = None


class ToolCallStart(AssistantMessageEvent, tag="tool_call_start"):
    """A tool call begins; `content_index` is its position in the message's content."""

    content_index: int
    id: str
    name: str


class ToolCallDelta(AssistantMessageEvent, tag="tool_call_delta"):
    """More of the arguments of an open tool call, as JSON text."""

    content_index: int
    delta: str


class ToolCallEnd(AssistantMessageEvent, tag="tool_call_end"):
    """A tool call has ended: its arguments are complete, or the rest will not arrive."""

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
    """Information that is not content; callers may ignore it.

    Programs can rely on `code`, which stays the same in later versions; `detail` is text for
    people. If the request leaves out or changes a value of the caller, `paths` contains the path of
    this value: `messages[3].content[1].source`, `system_prompt`, `options.temperature`,
    `tools[2].parameters.properties.x.format`. A path stands for the value with everything inside
    it. The indexes are those in the caller's conversation. In all other notices, `paths` is empty.
    """

    code: str
    detail: str = ""
    paths: tuple[str, ...] = ()


class Retry(AssistantMessageEvent, tag="retry"):
    """An attempt failed, and a new attempt follows. Discard all content since the last `Start`.

    The new attempt begins after `delay` seconds, with `model` (`provider/id`): the same model or
    the next one of the fallback chain. `attempt` counts the attempts with this model, including the
    new one, and `max_attempts` is their maximum number. `error` describes the failure as text, and
    `error_kind` and `code` are as in `Error`.
    """

    attempt: int
    max_attempts: int
    delay: Finite
    error: str
    model: str
    error_kind: StreamErrorKind | None = None
    code: str | None = None


class Done(AssistantMessageEvent, tag="done"):
    """The answer is complete. `usage` and `cost` are `None` if unknown.

    `metadata` contains other information from the provider about the whole answer.
    """

    stop_reason: StopReason
    usage: Usage | None = None
    cost: Cost | None = None
    response_id: str | None = None
    model: str | None = None
    request_id: str | None = None
    metadata: dict[str, Any] | None = None


class Error(ErrorConstructors, AssistantMessageEvent, tag="error"):
    """The stream failed or was aborted. The content before it remains valid.

    `error_kind` is `None` only if a plugin created the event without it. `retry_after` is the wait
    in seconds that the provider requested. `title` and `resolution` tell people what happened and
    what to do. `code` is the provider's error code or, for a failure that the core detected, one of
    the core's codes, such as `no_credentials` (the page on failures lists them). It is `None` if
    the failure has no code. `metadata` is as in `Done`.

    Plugins that produce events themselves can call a constructor for each kind of failure, such as
    `Error.throttled("slow down", 7)`.
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
"""The union of all events of a stream; with it, type checkers verify that a `match` is complete."""
