"""What goes wrong, as facts, as a kind, and as an exception.

SwinkError                       title, message, resolution
├── UsageError (ValueError)      the caller's mistake; raised before the first event
│   ├── UnknownProvider, InvalidModel, InvalidOption, InvalidContext
│   └── MediaError               a file that cannot be read
├── PluginError                  a plugin that cannot be loaded, or breaks its contract
└── StreamError                  a call that failed; raised by result() and complete()
    ├── NetworkError, StreamTimeout, ModelThrottled, ModelOverloaded, EmptyResponse,
    │   ProtocolError, ResourceExhausted, OutputTooLarge
    ├── AuthenticationError, QuotaExhausted, ModelNotFound, InvalidRequest, Unsupported,
    │   ContextWindowExceeded, ContentFiltered
    └── StreamAborted, PluginFault, UnknownFailure
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from swink_core.failures.failure import Failure
from swink_core.vocabulary.outcome import StreamErrorKind

if TYPE_CHECKING:
    from swink_core.vocabulary.messages import AssistantMessage


class SwinkError(Exception):
    """The base of all exceptions of this library: what happened, to what, what to do."""

    title = "Something went wrong"

    def __init__(self, message: str, *, title: str | None = None, resolution: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.resolution = resolution
        if title is not None:
            self.title = title

    def __str__(self) -> str:
        return f"{self.message}\n{self.resolution}" if self.resolution else self.message


class UsageError(SwinkError, ValueError):
    """A mistake of the caller's, found before anything was sent."""

    title = "This call cannot be made"


class UnknownProvider(UsageError):
    """No installed plugin has this provider name."""

    title = "Unknown provider"


class InvalidModel(UsageError):
    """The model is not written `provider/id`."""

    title = "Not a model name"


class InvalidOption(UsageError):
    """An option does not exist or has a value that no provider could take."""

    title = "Invalid option"


class InvalidContext(UsageError):
    """A conversation that no provider accepts."""

    title = "Invalid conversation"


class MediaError(UsageError):
    """A file of the conversation that cannot be read."""

    title = "Cannot read the file"


class PluginError(SwinkError):
    """A plugin cannot be loaded or breaks its contract."""

    title = "Broken plugin"


class ProviderFailure(SwinkError):
    """Raised by a plugin's own code to end the attempt with `failure`; never seen by callers."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(
            failure.message or "the provider failed",
            title=failure.title,
            resolution=failure.resolution or "",
        )
        self.failure = failure


class StreamError(SwinkError):
    """A call that failed. What had arrived is in `partial`.

    `attempts` counts all attempts made, `elapsed` is in seconds. `retryable` says whether the
    same call may succeed later without a change.
    """

    title = "The call failed"
    kind = StreamErrorKind.UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        title: str | None = None,
        resolution: str = "",
        kind: StreamErrorKind | None = None,
        phase: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        attempts: int = 1,
        elapsed: float | None = None,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        retryable: bool = False,
        rule: str | None = None,
        partial: AssistantMessage | None = None,
    ) -> None:
        super().__init__(message, title=title, resolution=resolution)
        if kind is not None:
            self.kind = kind
        self.phase = phase
        self.provider = provider
        self.model = model
        self.attempts = attempts
        self.elapsed = elapsed
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after
        self.retryable = retryable
        self.rule = rule
        self.partial = partial

    def __str__(self) -> str:
        facts = [f"{self.title}: {self.message}"]
        if self.attempts > 1:
            took = f" in {self.elapsed:.1f} s" if self.elapsed is not None else ""
            facts.append(f"({self.attempts} attempts{took})")
        if self.request_id:
            facts.append(f"[request {self.request_id}]")
        line = " ".join(facts)
        return f"{line}\n{self.resolution}" if self.resolution else line

    @classmethod
    def for_kind(cls, kind: StreamErrorKind | None) -> type[StreamError]:
        """Return the subclass that bears the name of a kind."""
        return _BY_KIND.get(kind or StreamErrorKind.UNKNOWN, StreamError)


class NetworkError(StreamError):
    """The connection or the server failed."""

    kind = StreamErrorKind.NETWORK


class StreamTimeout(StreamError):
    """A time limit passed."""

    kind = StreamErrorKind.TIMEOUT


class ModelThrottled(StreamError):
    """The provider limits the rate of requests."""

    kind = StreamErrorKind.THROTTLED


class ModelOverloaded(StreamError):
    """The provider has no capacity."""

    kind = StreamErrorKind.OVERLOADED


class EmptyResponse(StreamError):
    """The answer had neither text nor a tool call."""

    kind = StreamErrorKind.EMPTY_RESPONSE


class ProtocolError(StreamError):
    """What came is not what the wire format allows."""

    kind = StreamErrorKind.PROTOCOL


class ResourceExhausted(StreamError):
    """The machine ran out of something."""

    kind = StreamErrorKind.RESOURCE


class OutputTooLarge(StreamError):
    """The answer passed the call's size limit."""

    kind = StreamErrorKind.OUTPUT_TOO_LARGE


class AuthenticationError(StreamError):
    """Credentials are missing, invalid or not enough."""

    kind = StreamErrorKind.AUTH


class QuotaExhausted(StreamError):
    """The account has no quota left."""

    kind = StreamErrorKind.QUOTA_EXHAUSTED


class ModelNotFound(StreamError):
    """The model does not exist, is retired or is closed to this account."""

    kind = StreamErrorKind.MODEL_NOT_FOUND


class InvalidRequest(StreamError):
    """The provider does not accept the request."""

    kind = StreamErrorKind.INVALID_REQUEST


class Unsupported(StreamError):
    """The provider or model lacks a feature that was asked for."""

    kind = StreamErrorKind.UNSUPPORTED


class ContextWindowExceeded(StreamError):
    """The conversation is longer than the model's context window."""

    kind = StreamErrorKind.CONTEXT_WINDOW_EXCEEDED


class ContentFiltered(StreamError):
    """The provider refused the request for its content."""

    kind = StreamErrorKind.CONTENT_FILTERED


class StreamAborted(StreamError):
    """The caller closed or cancelled the stream before its end."""

    kind = StreamErrorKind.CANCELLED


class PluginFault(StreamError):
    """A plugin raised during the call."""

    kind = StreamErrorKind.INTERNAL


class UnknownFailure(StreamError):
    """A failure that nothing recognised."""

    kind = StreamErrorKind.UNKNOWN


_BY_KIND: dict[StreamErrorKind, type[StreamError]] = {
    cls.kind: cls for cls in StreamError.__subclasses__()
}
