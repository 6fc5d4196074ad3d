"""`Call`: a caller's request over all its attempts, as hooks and observers see it.

This module does not import the driver, which runs a call: the driver calls the methods of `Call` to
record what happened.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field

from swink_core.failures.advice import advise
from swink_core.failures.classification import classify_default
from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Classification, Failure
from swink_core.failures.faults import ends_program, not_a_body
from swink_core.failures.kinds import CODES
from swink_core.failures.redaction import credentials_in, credentials_in_body, redact
from swink_core.plugins.attempt import Attempt, Leg, Plan, TokenCounter
from swink_core.plugins.changes import gather_changes, gathered_notices
from swink_core.plugins.client_tasks import ClientTasks
from swink_core.vocabulary.clock import Clock
from swink_core.vocabulary.events import Error
from swink_core.vocabulary.http import HTTPClient
from swink_core.vocabulary.messages import Context
from swink_core.vocabulary.models import Model, ProviderInfo
from swink_core.vocabulary.options import StreamOptions
from swink_core.vocabulary.outcome import (
    NOTHING,
    Charge,
    Cost,
    StopReason,
    StreamErrorKind,
    Totals,
    Usage,
)

log = logging.getLogger(__name__)

MOST_CODE = 100
"""Longer error codes of providers are cut to this many characters."""


@define(eq=False)
class Call:
    """A call, with its current attempt, and its usage and cost so far.

    `attempt` is the current or last attempt, and `attempts` is the number of attempts so far.
    `model`, `options`, `provider_info` and the ids that the provider reports belong to `attempt`.
    `started_at` and `ended_at` (`None` while the call runs) are times of `clock`, in seconds.
    `totals` sums the usage and charges of all attempts of this call, and `shared_totals` those of
    all calls of the client. `counter` counts the tokens of prompts, see `count_tokens` of `Client`
    (`None`: swink estimates them). Each gate in `gates` is called before every attempt of this
    call, after the gates of the client. Each function in `guards` is called with the request body.
    It returns the body to send, or raises an exception to refuse the call. A guard is called in a
    thread unless its attribute `is_quick` is true. `size` is the approximate number of characters
    of text and base64 data in `context`; it is 0 before the first attempt. If one client serves
    several users, `tenant` identifies the user who makes the call; caches do not share answers
    between tenants. `headers` are sent with every request of the call; observers may add headers,
    for example a trace context. Each function in `taps` is called as `tap(attempt, leg, data)` with
    every piece of a response body, and with the body of an HTTP error. Its argument `leg` is the
    `Leg` of the HTTP request, or `None` for bytes that do not come over HTTP. `room` is called with
    the length of the answer so far, in characters, and returns the maximum length that the answer
    may have for now. It is called again when the answer becomes longer, and ends the call if it
    returns less than the length. If `may_restart` is false, an attempt that has delivered output is
    never retried, because the caller cannot discard the output. `http` is the HTTP client, `clock`
    the clock. `convert()` and `classify()` call the hooks.
    """

    attempt: Attempt
    context: Context = field(repr=False)
    id: str = field(factory=lambda: os.urandom(6).hex())
    clock: Clock = field(kw_only=True, repr=False)
    http: HTTPClient | None = field(default=None, repr=False)
    counter: TokenCounter | None = field(default=None, repr=False)
    gates: Sequence[Any] = field(default=(), repr=False)
    guards: Sequence[Callable[[dict[str, Any]], dict[str, Any]]] = field(default=(), repr=False)
    attempts: int = 0
    size: int = 0
    tenant: str = ""
    started_at: float = 0.0
    ended_at: float | None = None
    totals: Totals = field(factory=Totals, repr=False)
    shared_totals: Totals = field(factory=Totals, repr=False)
    headers: dict[str, str] = field(factory=dict, repr=False)
    taps: list[Callable[[Attempt, Leg | None, bytes], None]] = field(factory=list, repr=False)
    room: Callable[[int], float] | None = field(default=None, repr=False)
    may_restart: bool = field(default=True, repr=False)
    secrets: set[str] = field(factory=set, repr=False)
    tasks: ClientTasks = field(factory=ClientTasks, repr=False)

    @property
    def usage(self) -> Usage | None:
        """The usage of all attempts, including discarded ones; `None` if it is unknown."""
        return self.totals.usage

    @property
    def cost(self) -> Cost | None:
        """The known cost of all attempts; `None` if nothing is known.

        It includes estimates for attempts that ended without a usage report; its field `estimated`
        is then true.
        """
        return self.totals.cost

    @property
    def charge(self) -> Charge:
        """The charge for all attempts that have ended, in tokens and US dollars."""
        return self.totals.charge

    @property
    def model(self) -> Model:
        """The model of the attempt."""
        return self.attempt.model

    @property
    def options(self) -> StreamOptions:
        """The options of the attempt."""
        return self.attempt.options

    @property
    def provider_info(self) -> ProviderInfo | None:
        """The provider's entry in the catalogue; `None` if it has none."""
        return self.attempt.provider_info

    @property
    def endpoint(self) -> str | None:
        """The address of the last request, without secrets; `None` before the first."""
        return self.attempt.endpoint

    @property
    def response_id(self) -> str | None:
        """The provider's id of the response."""
        return self.attempt.response_id

    @property
    def response_model(self) -> str | None:
        """The name of the responding model, as the provider reports it."""
        return self.attempt.response_model

    @property
    def request_id(self) -> str | None:
        """The provider's id of the request."""
        return self.attempt.request_id

    # -- for plugins -------------------------------------------------------------------------

    def notice(self, code: str, detail: str, *paths: str) -> None:
        """Add a notice to the current attempt; observers receive it with the next events.

        `paths` becomes the field `paths` of the `Notice`.
        """
        self.attempt.notice(code, detail, *paths)

    def convert(self) -> dict[str, Any]:
        """Return the JSON body of the request, from the hook `convert_messages`.

        The hook receives the conversation and options of the attempt's plan, if it has one. Values
        that the conversion leaves out or changes are reported to observers. Raises ProviderFailure
        (`internal`) if the result is not a dict. Exceptions of the hook's implementations are
        passed on, for example those of wrappers that refuse the call.
        """
        target = self.attempt.target
        plan = self.attempt.plan
        if plan is None:
            plan = Plan(self.context, self.options)
        gathering = gather_changes()
        try:
            body = target.binding.first_result(
                "convert_messages", model=target.model, context=plan.context, options=plan.options
            )
        finally:
            notices = gathered_notices(gathering, self.model)
        if notices:
            self.attempt.tell_changes(notices)
        if not isinstance(body, dict):
            raise ProviderFailure(not_a_body(target.binding.converters(), body))
        checked: dict[str, Any] = body
        for guard in self.guards:
            checked = guard(checked)
        return checked

    def tap(self, data: bytes, leg: Leg | None = None) -> None:
        """Pass a piece of a response body to the functions in `taps`.

        `leg` is the request of this response (`None`: the last request). A tap that raises an
        exception is not called again during the call.
        """
        for tap in [*self.taps]:
            try:
                tap(self.attempt, leg or self.attempt.leg, data)
            except Exception as error:
                log.error(
                    "a tap raised an exception and is disabled for this call:\n%s",
                    self.trace(error),
                )
                self.taps.remove(tap)

    def classify(self, failure: Failure) -> Classification:
        """Classify a failure with the hook `classify_error`.

        An implementation that raises an exception or returns another value is left out, and the
        next one is called.
        """
        for names, may_pass, classify in self.attempt.target.binding.ways("classify_error"):
            try:
                result = classify(model=self.model, failure=failure)
                if isinstance(result, Classification):
                    break
                if result is not None or not may_pass:
                    raise TypeError(f"a classify_error hook returned a {type(result).__name__}")
            except (Exception, SystemExit) as error:
                if isinstance(error, SystemExit) and ends_program(error):
                    raise
                log.error(
                    'plugin "%s": classify_error failed and is left out:\n%s',
                    names,
                    self.trace(error),
                )
        else:
            result = classify_default(failure)
        return evolve(result, code=self._code(result.code, failure))

    def _code(self, code: str | None, failure: Failure) -> str | None:
        """Return the error code to report for a failure.

        Secrets in a provider's code are replaced. If a provider's code equals one of the core's own
        codes, return `None`.
        """
        if code is None or failure.kind is not None:
            return code
        return None if code in CODES else self.redact(code)[:MOST_CODE]

    def error(self, failure: Failure, usage: Usage | None = None) -> Error:
        """Classify a failure, and return its `Error` event with advice and without secrets."""
        meaning = self.classify(failure)
        what = failure.message
        if not what and (error := failure.exception) is not None:
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if not what and failure.status is not None:
            what = f"HTTP {failure.status}"
        event = Error(
            error_message=what or "",
            error_kind=meaning.kind,
            retry_after=meaning.retry_after,
            usage=usage,
            response_id=self.response_id,
            model=self.response_model,
            request_id=failure.request_id or self.request_id,
            status=failure.status,
            phase=failure.phase,
            code=meaning.code,
        )
        if meaning.kind is StreamErrorKind.CANCELLED:
            event.stop_reason = StopReason.ABORTED
        self.explain(event, failure)
        return event

    def explain(self, error: Error, failure: Failure | None = None) -> None:
        """Add title and resolution if an error of a plugin lacks them, and hide secrets."""
        failure = failure or Failure("streaming")
        kind = error.error_kind or StreamErrorKind.UNKNOWN
        wait = error.retry_after
        title, resolution = advise(
            kind, failure, self.model, self.provider_info, self.endpoint, wait
        )
        error.error_message = self.redact(error.error_message or title)
        error.title = error.title or title
        error.resolution = error.resolution or self.redact(resolution)

    def trace(self, error: BaseException) -> str:
        """Return the traceback of an exception as text for the log, without secrets."""
        return self.redact("".join(traceback.format_exception(error)))

    def redact(self, text: str) -> str:
        """Remove the secrets of the call from a text for people or logs."""
        return redact(text, self.secrets)

    def hide(self, headers: Mapping[str, str], url: str = "") -> None:
        """Add the credentials in headers and a URL to the secrets that `redact` removes."""
        self.secrets |= credentials_in(headers, url)

    # -- called by the driver ----------------------------------------------------------------

    def turn_to(self, attempt: Attempt) -> None:
        """Make `attempt` the current attempt of the call."""
        self.attempt = attempt
        info = attempt.provider_info or ProviderInfo(attempt.model.provider)
        keys = (attempt.options.api_key, *map(os.environ.get, info.api_key_env))
        self.secrets.update(key.strip() for key in keys if key)
        options = attempt.options
        if options.headers or options.base_url:
            self.hide(options.headers, options.base_url or "")
        if options.extra:
            self.hide({name: v for name, v in options.extra.items() if isinstance(v, str)})
            self.secrets |= credentials_in_body(options.extra)

    def add(self, usage: Usage | None, cost: Cost | None = None, charge: Charge = NOTHING) -> None:
        """Add the usage, cost and charge of an attempt to the totals."""
        self.totals.add(usage, cost, charge)
        self.shared_totals.add(usage, cost, charge)
