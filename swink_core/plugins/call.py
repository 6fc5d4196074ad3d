"""One request of a caller's, over all its attempts; hooks and observers get it."""

from __future__ import annotations

import logging
import secrets as _secrets
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attrs import define, field

from swink_core.failures.advice import Advice, advise
from swink_core.failures.classification import classify_default
from swink_core.failures.failure import Classification, Failure
from swink_core.failures.redaction import redact
from swink_core.vocabulary.clock import Clock
from swink_core.vocabulary.events import Error
from swink_core.vocabulary.messages import Context
from swink_core.vocabulary.models import Model, ProviderInfo
from swink_core.vocabulary.options import StreamOptions
from swink_core.vocabulary.outcome import Cost, StreamErrorKind, Usage

if TYPE_CHECKING:
    from swink_core.vocabulary.http import HTTPClient


log = logging.getLogger(__name__)


@define(eq=False)
class Call:
    """A call and what is known of it so far.

    `model`, `options`, `provider`, `provider_info` and `endpoint` are those of the current
    attempt; `attempt` counts from 1 over all models. Times are the clock's seconds. `usage` and
    `cost` sum all attempts, the voided ones too; `None` while nothing is known. `headers` go out
    with every request of the call and may be changed (trace context); each of `taps` is called
    with every piece of the response body as it was read. `convert()` and `classify()` ask the
    hooks.
    """

    model: Model
    context: Context = field(repr=False)
    options: StreamOptions = field(repr=False)
    id: str = field(factory=lambda: _secrets.token_hex(6))
    attempt: int = 0
    clock: Clock = field(kw_only=True, repr=False)
    started_at: float = 0.0
    first_event_at: float | None = None
    ended_at: float | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    response_id: str | None = None
    response_model: str | None = None
    request_id: str | None = None
    provider_info: ProviderInfo | None = field(default=None, repr=False)
    provider: Any = field(default=None, repr=False)
    endpoint: str | None = None
    reported_cost: float | None = None
    http: HTTPClient | None = field(default=None, repr=False)
    headers: dict[str, str] = field(factory=dict, repr=False)
    taps: list[Callable[[bytes], None]] = field(factory=list, repr=False)
    secrets: set[str] = field(factory=set, repr=False)
    convert_hook: Callable[..., Any] | None = field(default=None, repr=False)
    price_hook: Callable[[Model, Usage | None], Cost | None] | None = field(
        default=None, repr=False
    )
    classify_hook: Callable[..., Any] | None = field(default=None, repr=False)
    notice_hook: Callable[[str, str], None] | None = field(default=None, repr=False)

    def notice(self, code: str, detail: str) -> None:
        """Tell observers something of the current attempt that is not content."""
        if self.notice_hook is not None:
            self.notice_hook(code, detail)

    def convert(self) -> Any:
        """Return the conversation as the provider's JSON data, through the hook."""
        assert self.convert_hook is not None
        return self.convert_hook(model=self.model, context=self.context, options=self.options)

    def classify(self, failure: Failure) -> Classification:
        """Say what a failure means, through the hook."""
        try:
            assert self.classify_hook is not None
            result = self.classify_hook(model=self.model, failure=failure)
            if not isinstance(result, Classification):
                raise TypeError(f"a classify_error hook returned a {type(result).__name__}")
        except Exception as error:
            log.error("a classify_error hook failed; defaults are used:\n%s", self.trace(error))
            return classify_default(failure)
        return result

    def error(
        self,
        failure: Failure,
        *,
        usage: Usage | None = None,
        response_id: str | None = None,
        model: str | None = None,
    ) -> Error:
        """Make the terminal event for a failure: classified, explained, redacted."""
        meaning = self._within_cap(self.classify(failure))
        advice = self._advice(meaning.kind, failure, meaning.retry_after)
        what = failure.message
        if not what and failure.exception is not None:
            error = failure.exception
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if not what and failure.status is not None:
            what = f"HTTP {failure.status}"
        return Error(
            error_message=redact(what or advice.title, self.secrets),
            error_kind=meaning.kind,
            retry_after=meaning.retry_after,
            usage=usage,
            response_id=response_id or self.response_id,
            model=model or self.response_model,
            request_id=failure.request_id or self.request_id,
            status=failure.status,
            phase=failure.phase,
            title=advice.title,
            resolution=redact(advice.resolution, self.secrets),
            rule=meaning.rule,
        )

    def explain(self, error: Error) -> None:
        """Add to an error that a plugin made what errors from `error()` have."""
        kind = error.error_kind or StreamErrorKind.UNKNOWN
        advice = self._advice(kind, Failure("streaming", error.status), error.retry_after)
        error.error_message = redact(error.error_message or advice.title, self.secrets)
        error.title = error.title or advice.title
        error.resolution = error.resolution or redact(advice.resolution, self.secrets)

    def _advice(self, kind: StreamErrorKind, failure: Failure, wait: float | None) -> Advice:
        return advise(kind, failure, self.model, self.provider_info, self.endpoint, wait)

    def _within_cap(self, meaning: Classification) -> Classification:
        """Turn a rate limit that asks for more patience than the call has into a quota used up."""
        wait, cap = meaning.retry_after or 0.0, self.options.retry.retry_after_cap
        if meaning.kind is not StreamErrorKind.THROTTLED or wait <= cap:
            return meaning
        return Classification(StreamErrorKind.QUOTA_EXHAUSTED, wait, f"{meaning.rule} beyond cap")

    def trace(self, error: BaseException) -> str:
        """Return an exception's traceback for the log, without secrets that it quotes."""
        return redact("".join(traceback.format_exception(error)), self.secrets)

    def hide(self, headers: Mapping[str, str]) -> None:
        """Keep the values of credential headers out of every text for people."""
        for name, value in headers.items():
            if _is_credential(name):
                self.secrets.update(value.split()[-1:])


_CREDENTIAL_WORDS = ("auth", "key", "token", "secret", "cookie", "password")


@lru_cache(maxsize=256)
def _is_credential(header: str) -> bool:
    name = header.lower()
    return any(word in name for word in _CREDENTIAL_WORDS)
