"""What hooks and observers get: a request of a caller's, and each try that was made at it.

`Call` holds the facts of the whole call, `Attempt` what changes with each try. Neither knows who
drives them: a source says to the attempt what it learns, the driver to the call.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from inspect import isawaitable, iscoroutine
from operator import length_hint
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from attrs import define, evolve, field

from swink_core.failures.advice import advise
from swink_core.failures.classification import classify_default
from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Classification, Failure
from swink_core.failures.faults import not_a_body
from swink_core.failures.kinds import CODES
from swink_core.failures.redaction import credentials_in, public_url, redact
from swink_core.plugins.binding import Target
from swink_core.plugins.changes import gather_changes, gathered_notices
from swink_core.plugins.client_tasks import ClientTasks
from swink_core.vocabulary.charges import (
    completed_usage,
    dollars_of,
    keeps_long,
    prompt_of,
    reserved,
    tokens_of,
)
from swink_core.vocabulary.clock import Clock
from swink_core.vocabulary.events import Done, Error, Event, Notice
from swink_core.vocabulary.http import HTTPClient, HTTPRequest, ResponseHead
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
from swink_core.vocabulary.prices import cost_of
from swink_core.vocabulary.tokens import Estimate

log = logging.getLogger(__name__)

MOST_CODE = 100
"""Characters of a provider's error code that are kept."""

_NO_EVENTS: Iterator[Event] = iter(())

TokenCounter: TypeAlias = Callable[[Model, Context], int | Awaitable[int]]
"""Counts the tokens of a conversation for a model: a tokenizer, or a provider's own count.

A plain function or an async one. What it raises is logged, and the estimate used.
"""


@runtime_checkable
class Gate(Protocol):
    """Has a say before each attempt: a rate limit, a budget, a circuit breaker."""

    async def enter(self, target: Target) -> None:
        """Return to let an attempt begin, after as long a wait as it takes.

        With a second parameter `attempt`, it gets the attempt as well: `await attempt.reserve()`
        returns the most that it is expected to cost. `leave` may have such a parameter, too.

        Raises ProviderFailure or a StreamError (`QuotaExhausted("the budget is spent")`) to
        refuse the target with that kind and `retry_after`: the next target of the chain is
        tried, without a request to this one. Any other exception ends the call with an error of
        kind `internal` that names the gate, the file and the line.
        """

    def leave(self, target: Target, terminal: Done | Error, response: ResponseHead | None) -> None:
        """Learn how the attempt ended; called once for each `enter` that returned.

        `response` is what the provider answered, `None` where no answer came. A plain function,
        because it runs while streams close. If it raises, the client's next attempt fails with an
        error of kind `internal` that names the gate, the file and the line; that attempt reports
        the exception, and the attempts after it are made again.
        """


@define(eq=False)
class Plan:
    """How an attempt goes out, made once when it begins.

    `context` and `options` are the conversation and the merged options as the API and the model
    take them. `notices` report what differs from what the caller gave. `names` maps each name under
    which a tool goes out to the caller's name for it. `request` is the last one that was built,
    without credentials; `None` before.
    """

    context: Context = field(repr=False)
    options: StreamOptions = field(repr=False)
    notices: tuple[Notice, ...] = ()
    names: Mapping[str, str] = field(factory=dict)
    request: HTTPRequest | None = field(default=None, repr=False)


LegKind = Literal["stream", "whole", "token", "abandon"]

MOST_LEGS = 1024
"""Requests of an attempt that are kept; later ones of a long poll are not."""


@define(eq=False)
class Leg:
    """A request of an attempt, and its answer's head.

    `kind` is `stream` (its answer is streamed), `whole` (its answer is read whole), `token` (it
    fetched a credential) or `abandon` (it ended work that was abandoned). `sent_at` is in seconds
    of the call's clock. `response` is `None` until an answer comes, or where none came.
    """

    request: HTTPRequest = field(repr=False)
    kind: LegKind = "stream"
    sent_at: float = 0.0
    response: ResponseHead | None = None


@define(eq=False)
class Attempt:
    """One try of a call on one model, and what is known of its answer so far.

    `number` counts from 1 over all models. `legs` are the requests in the order in which they were
    sent, credentials and all, those for tokens included. `leg` is the last one of those for an
    answer, `request` and `response` its two halves (`None` where no HTTP request was made). `reads`
    counts the network reads of its body, so that what came together can be told from what came
    one by one. `usage` is what has been reported; `reported_cost` is in US dollars, where the
    provider says it. `plan` has the `context`, `options`, tool `names`, `notices` and `request`
    that go out; `None` before the attempt begins, and for a hand-written `stream` hook.
    `charge` is the `Charge` for it: the reservation while it is under way.

    Times are seconds of the call's clock. `started_at`: the attempt began (`None`: it has not, or a
    gate refused it). `first_event_at`: its first content came: a delta, a tool call or an
    extension (`None`: no content yet). `read_at`: the latest input came, whether or not it held
    events (`None`: no input yet). `ended_at`: it completed, failed or was closed (`None`: it is
    under way). An event that the network brought came at `read_at`, the last event of an attempt
    at `ended_at`.
    """

    target: Target
    number: int = 1
    options: StreamOptions = field(kw_only=True, repr=False)
    plan: Plan | None = None
    legs: list[Leg] = field(factory=list, repr=False)
    leg: Leg | None = field(default=None, repr=False)
    response_id: str | None = None
    response_model: str | None = None
    request_id: str | None = None
    usage: Usage | None = None
    reads: int = 0
    reported_cost: float | None = None
    started_at: float | None = None
    first_event_at: float | None = None
    read_at: float | None = None
    ended_at: float | None = None
    notices: list[Notice] = field(factory=list, repr=False)
    _context: Context | None = field(default=None, repr=False, init=False)
    _counter: TokenCounter | None = field(default=None, repr=False, init=False)
    _prompt: Estimate | None = field(default=None, repr=False, init=False)
    _reserved: Charge | None = field(default=None, repr=False, init=False)
    _settled: Charge | None = field(default=None, repr=False, init=False)
    _rest: Iterator[Event] = field(default=_NO_EVENTS, repr=False, init=False)
    _changes: list[Notice] = field(factory=list, repr=False, init=False)

    @options.default
    def _options_of_the_target(self) -> StreamOptions:
        return self.target.options

    @property
    def model(self) -> Model:
        """The model of the attempt."""
        return self.target.model

    @property
    def provider_info(self) -> ProviderInfo | None:
        """The catalogue's row of the provider; `None` if it has none."""
        return self.target.info or getattr(self.target.binding.provider, "info", None)

    @property
    def request(self) -> HTTPRequest | None:
        """The last request for an answer, credentials and all; `None` before."""
        return None if self.leg is None else self.leg.request

    @property
    def response(self) -> ResponseHead | None:
        """Status and headers of the answer to the last request; `None` before they have come."""
        return None if self.leg is None else self.leg.response

    @property
    def endpoint(self) -> str | None:
        """The address of the last request, without secrets; `None` before."""
        return None if self.leg is None else public_url(self.leg.request.url)

    def follow(self, plan: Plan) -> None:
        """Go out by this plan."""
        self.plan = plan

    def build(self, request: HTTPRequest) -> None:
        """Keep a request that was built, without credentials, as the plan's."""
        if self.plan is not None:
            self.plan.request = request

    def ask(self, request: HTTPRequest, kind: LegKind = "stream", at: float = 0.0) -> Leg:
        """Take note of a request that is sent now."""
        leg = Leg(request, kind, at)
        if len(self.legs) < MOST_LEGS:
            self.legs.append(leg)
        if kind == "stream" or kind == "whole":
            self.leg = leg
        return leg

    def answer(
        self, response: ResponseHead, request_id: str | None = None, leg: Leg | None = None
    ) -> None:
        """Take note of the head of an answer, to the last request unless a leg is given."""
        leg = leg or self.leg
        if leg is not None:
            leg.response = response
        self.request_id = request_id or self.request_id

    def learn(self, response_id: str | None, model: str | None, usage: Usage | None) -> None:
        """Take note of what the answer says of itself so far: its id, who answers, its tokens."""
        self.response_id = response_id
        self.response_model = model
        self.usage = usage

    def report_cost(self, cost: float) -> None:
        """Take note of what the provider says that the attempt costs, in US dollars."""
        self.reported_cost = cost

    def about(self, context: Context, counter: TokenCounter | None) -> None:
        """Set the conversation to send, and the counter of prompt tokens."""
        self._context = context
        self._counter = counter

    @property
    def charge(self) -> Charge:
        """The charge for the attempt: the reservation while it is under way.

        An attempt that has not begun, or that a gate refused, is charged nothing.
        """
        if self._settled is not None:
            return self._settled
        return NOTHING if self.started_at is None else self._reservation()

    async def reserve(self) -> Charge:
        """Return the most that the attempt is expected to cost, with the prompt's upper bound.

        The client's token counter runs first, if there is one.
        """
        if self._counter is not None and self._prompt is None:
            counted: Any = self._ask_counter()
            self._prompt = await _awaited(counted) if isawaitable(counted) else counted
        return self._reservation()

    def _reservation(self) -> Charge:
        if self._reserved is None:
            most = int(self._estimate().most)
            self._reserved = reserved(most, self.model.info, self.options)
        return self._reserved

    def _estimate(self) -> Estimate:
        """Estimate the prompt once; a counter that has to be awaited is not asked here."""
        if self._prompt is None and self._counter is not None:
            counted = self._ask_counter()
            if iscoroutine(counted):
                counted.close()
            if isinstance(counted, Estimate):
                self._prompt = counted
        if self._prompt is None:
            context = self._context if self._context is not None else Context([])
            self._prompt = prompt_of(self.provider_info, context, self.options)
        return self._prompt

    def _ask_counter(self) -> Any:
        """Return an estimate, an awaitable of a number, or `None` for a counter that failed."""
        assert self._counter is not None
        try:
            counted: Any = self._counter(self.model, self._context or Context([]))
            return counted if isawaitable(counted) else _counted(counted)
        except Exception:
            log.exception("the token counter failed; the estimate is used")
            return None

    def settle(
        self, usage: Usage | None, cost: Cost | None, seen: int, is_complete: bool, at: datetime
    ) -> Cost | None:
        """Settle the charge of an attempt that left, and return its cost.

        `usage` and `cost` are what its last event reports; `seen` are the tokens of output that
        came, of an answer that `is_complete` or not.
        """
        whole = usage is not None and usage.input is not None and usage.output is not None
        if whole and is_complete:
            taken = usage
        else:
            seconds = (self.ended_at or 0.0) - (self.started_at or 0.0)
            prompt = int(self._estimate().tokens)
            info = self.model.info
            taken = completed_usage(usage, prompt, seen, seconds, is_complete, info, self.options)
        is_known = cost is not None or self.reported_cost is not None
        paid = self.price(taken, cost, at)
        estimated = taken is not usage
        if paid is not None and estimated and not is_known:
            paid.estimated = True
        assert taken is not None
        self._settled = Charge(tokens_of(taken), dollars_of(paid), estimated)
        return paid

    def take_charge(self, usage: Usage | None, cost: Cost | None) -> None:
        """Charge the usage and the cost that were reported, and no estimate."""
        tokens = 0 if usage is None else tokens_of(usage)
        dollars = dollars_of(cost)
        self._settled = Charge(tokens, 0.0 if usage is None and cost is None else dollars)

    def price(
        self, usage: Usage | None, cost: Cost | None = None, at: datetime | None = None
    ) -> Cost | None:
        """Return what the attempt cost: by the catalogue's prices, unless `cost` is known.

        The total is the provider's own figure where it says one. `at` is when (`None`: now).
        """
        info = self.model.info
        prices = info.prices if info else None
        cost = cost or cost_of(usage, prices, at, keeps_long(self.options))
        if self.reported_cost is not None:
            cost = cost or Cost()
            cost.total = self.reported_cost
        return cost

    def begin(self, at: float) -> None:
        """Set when the attempt began, in seconds of the call's clock."""
        self.started_at = at

    def hear(self, at: float) -> None:
        """Set when the latest input came."""
        self.read_at = at

    def show_content(self, now: float) -> None:
        """Set when the first content came: with the latest input, or else `now`."""
        self.first_event_at = now if self.read_at is None else self.read_at

    def end(self, at: float) -> None:
        """Set when the attempt ended."""
        self.ended_at = at

    def count_read(self) -> None:
        """Take note of a network read."""
        self.reads += 1

    def hand_out(self, batch: Sequence[Event]) -> Iterator[Event]:
        """Return the events of a network read one by one, and know whether any are left."""
        self._rest = iter(batch)
        return self._rest

    @property
    def has_rest(self) -> bool:
        """Whether events of the last network read are still to be handed out."""
        return length_hint(self._rest) > 0

    def notice(self, code: str, detail: str, *paths: str) -> None:
        """Have observers told, with the next events, of something that is not content.

        `paths` are those of `Notice`.
        """
        self.notices.append(Notice(code, detail, paths))

    def tell_changes(self, notices: Sequence[Notice]) -> None:
        """Have observers told what the conversion changed, each change once."""
        new = [notice for notice in notices if notice not in self._changes]
        self._changes += new
        self.notices += new

    def take_notices(self) -> list[Notice]:
        """Return what is to be told, once."""
        notices = self.notices
        self.notices = []
        return notices


def _counted(tokens: int) -> Estimate:
    if type(tokens) is not int or tokens < 0:
        raise TypeError(f"a token counter returned {tokens!r}; a number of tokens is expected")
    return Estimate(tokens, tokens)


async def _awaited(counting: Awaitable[int]) -> Estimate | None:
    try:
        return _counted(await counting)
    except Exception:
        log.exception("the token counter failed; the estimate is used")
        return None


@define(eq=False)
class Call:
    """A call and what is known of it so far.

    `attempt` is the try under way, or the last one; `attempts` is how many have begun; `model`,
    `options` and what else names the provider answer for it. `started_at` and
    `ended_at` (`None`: it has not ended) are seconds of `clock`; further times are the attempt's.
    `totals` sums all attempts, `shared_totals` those of all calls of the client. `counter` counts
    the tokens of prompts, see `TokenCounter`; `None`: they are estimated. `gates` admit its
    attempts after those of the client.
    `size` is about how many characters of text and media `context` has, files included; 0 before
    the first attempt.
    `tenant` names whose call it is, where one client serves several: caches keep their answers
    apart. `headers` go out with every request of the call and may be changed (trace context); each
    of `taps` is called as `tap(attempt, leg, data)` with every piece of an answer's body as it was
    read, and with an HTTP error's body once it was; `leg` is `None` for bytes that came over no
    HTTP. `http` sends requests, `clock` tells the time and sleeps. `convert()` and `classify()` ask
    the hooks.
    """

    attempt: Attempt
    context: Context = field(repr=False)
    id: str = field(factory=lambda: os.urandom(6).hex())
    clock: Clock = field(kw_only=True, repr=False)
    http: HTTPClient | None = field(default=None, repr=False)
    counter: TokenCounter | None = field(default=None, repr=False)
    gates: Sequence[Any] = field(default=(), repr=False)
    attempts: int = 0
    size: int = 0
    tenant: str = ""
    started_at: float = 0.0
    ended_at: float | None = None
    totals: Totals = field(factory=Totals, repr=False)
    shared_totals: Totals = field(factory=Totals, repr=False)
    headers: dict[str, str] = field(factory=dict, repr=False)
    taps: list[Callable[[Attempt, Leg | None, bytes], None]] = field(factory=list, repr=False)
    secrets: set[str] = field(factory=set, repr=False)
    tasks: ClientTasks = field(factory=ClientTasks, repr=False)

    @property
    def usage(self) -> Usage | None:
        """What all attempts took, the voided ones too; `None` while nothing is known."""
        return self.totals.usage

    @property
    def cost(self) -> Cost | None:
        """What all attempts cost, as far as is known; `None` while nothing is.

        It contains the estimates for attempts without final usage, and is then `estimated`.
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
        """The catalogue's row of the provider; `None` if it has none."""
        return self.attempt.provider_info

    @property
    def endpoint(self) -> str | None:
        """The address of the last request, without secrets; `None` before."""
        return self.attempt.endpoint

    @property
    def response_id(self) -> str | None:
        """The provider's id of the response."""
        return self.attempt.response_id

    @property
    def response_model(self) -> str | None:
        """The model that answers, in the provider's words."""
        return self.attempt.response_model

    @property
    def request_id(self) -> str | None:
        """The provider's id of the request."""
        return self.attempt.request_id

    # -- for plugins -------------------------------------------------------------------------

    def notice(self, code: str, detail: str, *paths: str) -> None:
        """Tell observers something of the current attempt that is not content.

        `paths` are those of `Notice`.
        """
        self.attempt.notice(code, detail, *paths)

    def convert(self) -> dict[str, Any]:
        """Return the whole JSON body of the request, through the hook `convert_messages`.

        The hook gets conversation and options as the attempt's plan has them, if there is one.
        Values that the conversion leaves out or changes are reported to observers.
        Raises ProviderFailure (`internal`) if the result is not a dict, and whatever the hook's
        implementations raise, such as wrappers that refuse the call.
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
        return body

    def tap(self, data: bytes, leg: Leg | None = None) -> None:
        """Show the taps what was read in answer to a request: the last one, unless `leg` is given.

        A tap that raises is left out of the rest of the call.
        """
        for tap in [*self.taps]:
            try:
                tap(self.attempt, leg or self.attempt.leg, data)
            except Exception as error:
                log.error("a tap raised; it is left out of this call:\n%s", self.trace(error))
                self.taps.remove(tap)

    def classify(self, failure: Failure) -> Classification:
        """Say what a failure means, through the hook."""
        try:
            binding = self.attempt.target.binding
            result = binding.first_result("classify_error", model=self.model, failure=failure)
            if not isinstance(result, Classification):
                raise TypeError(f"a classify_error hook returned a {type(result).__name__}")
        except Exception as error:
            log.error("a classify_error hook failed; defaults are used:\n%s", self.trace(error))
            result = classify_default(failure)
        return evolve(result, code=self._code(result.code, failure))

    def _code(self, code: str | None, failure: Failure) -> str | None:
        """Check a provider's code: it may not pass for one of the core's, nor hold a secret."""
        if code is None or failure.kind is not None:
            return code
        return None if code in CODES else redact(code, self.secrets)[:MOST_CODE]

    def error(self, failure: Failure, usage: Usage | None = None) -> Error:
        """Make the terminal event for a failure: classified, explained, redacted."""
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
        """Add title and resolution, which an error that a plugin made lacks, and hide secrets."""
        failure = failure or Failure("streaming")
        kind = error.error_kind or StreamErrorKind.UNKNOWN
        wait = error.retry_after
        title, resolution = advise(
            kind, failure, self.model, self.provider_info, self.endpoint, wait
        )
        error.error_message = redact(error.error_message or title, self.secrets)
        error.title = error.title or title
        error.resolution = error.resolution or redact(resolution, self.secrets)

    def trace(self, error: BaseException) -> str:
        """Return an exception's traceback for the log, without secrets that it quotes."""
        return redact("".join(traceback.format_exception(error)), self.secrets)

    def hide(self, headers: Mapping[str, str], url: str = "") -> None:
        """Keep what credential headers and an address hold out of every text for people."""
        self.secrets |= credentials_in(headers, url)

    # -- for whoever drives it ---------------------------------------------------------------

    def turn_to(self, attempt: Attempt) -> None:
        """Answer for this attempt from now on."""
        self.attempt = attempt
        info = attempt.provider_info or ProviderInfo(attempt.model.provider)
        keys = (attempt.options.api_key, *map(os.environ.get, info.api_key_env))
        self.secrets.update(key.strip() for key in keys if key)
        options = attempt.options
        if options.headers or options.base_url:
            self.hide(options.headers, options.base_url or "")
        if options.extra:
            self.hide({name: v for name, v in options.extra.items() if isinstance(v, str)})

    def add(self, usage: Usage | None, cost: Cost | None = None, charge: Charge = NOTHING) -> None:
        """Add what an attempt took, and what it is charged, to the sums."""
        self.totals.add(usage, cost, charge)
        self.shared_totals.add(usage, cost, charge)
