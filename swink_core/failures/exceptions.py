"""The exceptions that callers catch, with one class for each kind of failure.

SwinkError                       title, message, resolution
├── UsageError (ValueError)      the caller's mistake; raised before the first event
│   ├── UnknownProvider, InvalidModel, InvalidOption, InvalidContext
│   └── MediaError               a file that cannot be read
├── PluginError                  a plugin that cannot be loaded, or breaks its contract
├── CodecError (ValueError)      JSON data that `load` cannot read
└── StreamError                  a call that failed; raised by result() and complete()
    ├── NetworkError, StreamTimeout, ModelThrottled, ModelOverloaded, EmptyResponse,
    │   ProtocolError, ResourceExhausted, OutputTooLarge
    ├── AuthenticationError, QuotaExhausted, ModelNotFound, InvalidRequest, Unsupported,
    │   ContextWindowExceeded, ContentFiltered
    └── StreamAborted, PluginFault, UnknownFailure

`LimitReached`, a subclass of `QuotaExhausted`, is raised for limits that the caller set (`limits`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

from swink_core.failures.failure import Failure
from swink_core.vocabulary.errors import SwinkError
from swink_core.vocabulary.outcome import StreamErrorKind as Kind
from swink_core.vocabulary.outcome import for_every_kind

if TYPE_CHECKING:
    from swink_core.vocabulary.messages import AssistantMessage


class UsageError(SwinkError, ValueError, title="This call cannot be made"):
    """A mistake in the caller's code, found before anything was sent."""


class UnknownProvider(UsageError, title="Unknown provider"):
    """No installed plugin has this provider name."""


class InvalidModel(UsageError, title="Not a model name"):
    """No model is given, the name is ambiguous or invalid, or the model is not allowed."""


class InvalidOption(UsageError, title="Invalid option"):
    """An option does not exist or has a value that no provider could accept."""


class InvalidContext(UsageError, title="Invalid conversation"):
    """No provider accepts the conversation."""


class MediaError(UsageError, title="Cannot read the file"):
    """A file of the conversation cannot be read."""


class PluginError(SwinkError, title="Broken plugin"):
    """A plugin cannot be loaded or breaks its contract."""


class ProviderFailure(SwinkError):
    """Raised by the code of a plugin to end the attempt with `failure`.

    Callers never see it: they get the `StreamError` of the failure's kind.
    """

    def __init__(self, failure: Failure) -> None:
        what = failure.message or "the provider failed"
        super().__init__(what, title=failure.title, resolution=failure.resolution or "")
        self.failure = failure

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copying and pickling.

        The inherited method would create the copy from the message instead of the failure.
        """
        return type(self), (self.failure,), self.__dict__


@define(slots=False, eq=False, repr=False, auto_exc=False)
class StreamError(SwinkError):
    """A call failed. `partial` contains the partial message.

    `attempts` is the number of attempts made, and `elapsed` the duration of the call in seconds.
    `retryable` says whether the same call may succeed later without a change. `code` is the
    provider's error code, or one of the core's own codes, as in the event `Error`; it is `None` if
    neither has one.
    """

    message: str
    title: str = field(default="The call failed", kw_only=True)
    resolution: str = field(default="", kw_only=True)
    kind: Kind = field(kw_only=True)
    phase: str | None = field(default=None, kw_only=True)
    provider: str | None = field(default=None, kw_only=True)
    model: str | None = field(default=None, kw_only=True)
    attempts: int = field(default=1, kw_only=True)
    elapsed: float | None = field(default=None, kw_only=True)
    status: int | None = field(default=None, kw_only=True)
    request_id: str | None = field(default=None, kw_only=True)
    retry_after: float | None = field(default=None, kw_only=True)
    retryable: bool = field(default=False, kw_only=True)
    code: str | None = field(default=None, kw_only=True)
    partial: AssistantMessage | None = field(default=None, kw_only=True)

    @kind.default
    def _kind_of_the_class(self) -> Kind:
        return getattr(type(self), "kind", Kind.UNKNOWN)

    def __attrs_post_init__(self) -> None:
        self.args = (self.message,)  # pickle stores the other attributes from `__dict__`

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
    def for_kind(cls, kind: Kind | None) -> type[StreamError]:
        """Return the subclass of `StreamError` for a kind of failure."""
        return _BY_KIND[kind or Kind.UNKNOWN]


class NetworkError(StreamError, kind=Kind.NETWORK):
    """The connection failed, or the server reported an internal error."""


class StreamTimeout(StreamError, kind=Kind.TIMEOUT):
    """A time limit was exceeded."""


class ModelThrottled(StreamError, kind=Kind.THROTTLED):
    """The provider's rate limit was exceeded."""


class ModelOverloaded(StreamError, kind=Kind.OVERLOADED):
    """The provider has no capacity at the moment."""


class EmptyResponse(StreamError, kind=Kind.EMPTY_RESPONSE):
    """The answer contained neither text nor a tool call."""


class ProtocolError(StreamError, kind=Kind.PROTOCOL):
    """The response violates the wire format."""


class ResourceExhausted(StreamError, kind=Kind.RESOURCE):
    """A resource of this machine, such as memory or open files, was used up."""


class OutputTooLarge(StreamError, kind=Kind.OUTPUT_TOO_LARGE):
    """The answer exceeded the call's size limit."""


class AuthenticationError(StreamError, kind=Kind.AUTH):
    """Credentials are missing, invalid or lack a permission."""


class QuotaExhausted(StreamError, kind=Kind.QUOTA_EXHAUSTED):
    """The quota of the account is used up."""


class LimitReached(QuotaExhausted):
    """The next attempt would exceed a limit of the client, the call or the batch (`Limits`)."""


class ModelNotFound(StreamError, kind=Kind.MODEL_NOT_FOUND):
    """The model does not exist, is retired, or is not available to this account."""


class InvalidRequest(StreamError, kind=Kind.INVALID_REQUEST):
    """The provider rejected the request as invalid."""


class Unsupported(StreamError, kind=Kind.UNSUPPORTED):
    """The provider or model does not support a feature that the request uses."""


class ContextWindowExceeded(StreamError, kind=Kind.CONTEXT_WINDOW_EXCEEDED):
    """The conversation exceeds the model's context window."""


class ContentFiltered(StreamError, kind=Kind.CONTENT_FILTERED):
    """The provider refused the request because of the content."""


class StreamAborted(StreamError, kind=Kind.CANCELLED):
    """The caller closed or cancelled the stream before its end."""


class PluginFault(StreamError, kind=Kind.INTERNAL):
    """The code of a plugin raised an exception during the call."""


class UnknownFailure(StreamError, kind=Kind.UNKNOWN):
    """A failure that could not be classified."""


_BY_KIND: dict[Kind, type[StreamError]] = for_every_kind(
    "subclasses of StreamError", {cls.kind: cls for cls in StreamError.__subclasses__()}
)
