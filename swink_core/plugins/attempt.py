"""`Attempt`: one try of a call on one model, with its requests, usage and charge.

This module does not import the code that runs an attempt (the event source and the call's driver).
The code that runs an attempt calls the methods of `Attempt` to record what happened.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from inspect import isawaitable, iscoroutine
from operator import length_hint
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from attrs import define, field

from swink_core.failures.redaction import public_url
from swink_core.plugins.binding import Target
from swink_core.vocabulary.charges import (
    completed_usage,
    keeps_long,
    prompt_of,
    reports_terms,
    requested_terms,
    reserved,
    tokens_of,
)
from swink_core.vocabulary.events import Done, Error, Event, Notice
from swink_core.vocabulary.http import HTTPRequest, ResponseHead
from swink_core.vocabulary.messages import Context
from swink_core.vocabulary.models import Model, ProviderInfo
from swink_core.vocabulary.options import StreamOptions
from swink_core.vocabulary.outcome import (
    NOTHING,
    Charge,
    Cost,
    Totals,
    Usage,
    dollars_of,
    valid_dollars,
)
from swink_core.vocabulary.prices import cost_of
from swink_core.vocabulary.structs import replace
from swink_core.vocabulary.tokens import Estimate

log = logging.getLogger(__name__)

_NO_EVENTS: Iterator[Event] = iter(())

TokenCounter: TypeAlias = Callable[[Model, Context], int | Awaitable[int]]
"""A function that counts the tokens of a conversation for a model.

It may use a tokenizer, or be async and query the provider. If it raises an exception, swink logs
the exception and uses its own estimate.
"""


@runtime_checkable
class Gate(Protocol):
    """Allows, delays or refuses attempts: a rate limit, a budget or a circuit breaker."""

    async def enter(self, target: Target) -> None:
        """Wait until the attempt may begin, then return; or raise an exception to refuse it.

        The method may have a further parameter `attempt`, which receives the `Attempt`;
        `await attempt.reserve()` returns the maximum expected charge for the attempt. The method
        `leave` may have this parameter, too.

        To refuse the target (a model with its options), raise ProviderFailure or a StreamError
        (`QuotaExhausted("the budget is spent")`). No request is sent to the refused target, and the
        next target of the chain is tried. The kind and `retry_after` of the exception become those
        of the failed attempt. Any other exception ends the call with an error of kind `internal`
        that names the gate, the file and the line.
        """

    def leave(self, target: Target, terminal: Done | Error, response: ResponseHead | None) -> None:
        """Record how an attempt ended; called once for each attempt that `enter` allowed.

        `response` is the head of the provider's response, or `None` if the provider did not
        respond. This method cannot be async, because it runs while streams close. If it raises an
        exception, the client's next attempt fails with an error of kind `internal` that names the
        gate, the file and the line. The attempts after that one run normally.
        """


@define(eq=False)
class Plan:
    """The conversation, options and tools that an attempt sends, fixed when the attempt begins.

    `context` and `options` are the conversation and the merged options after adaptation to the API
    and the model. `notices` report the changes to the caller's values. `names` maps the names of
    the tools in the request to the caller's names. `request` is the last request that was built,
    without credentials; `None` before the first.
    """

    context: Context = field(repr=False)
    options: StreamOptions = field(repr=False)
    notices: tuple[Notice, ...] = ()
    names: Mapping[str, str] = field(factory=dict)
    request: HTTPRequest | None = field(default=None, repr=False)


LegKind = Literal["stream", "whole", "token", "abandon"]

MOST_LEGS = 1024
"""The maximum number of requests that an attempt records.

An attempt that polls may send more requests; these are not recorded.
"""


@define(eq=False)
class Leg:
    """One HTTP request of an attempt, and the head of the response.

    `kind` is `stream` (the response is streamed), `whole` (the response is read whole), `token`
    (the request fetched a credential) or `abandon` (the caller abandoned the answer, and the
    request told the server to stop generating it). `sent_at` is in seconds of the call's clock.
    `response` is `None` until a response arrives.
    """

    request: HTTPRequest = field(repr=False)
    kind: LegKind = "stream"
    sent_at: float = 0.0
    response: ResponseHead | None = None


_NOTHING_SAID = Context([])
"""The conversation of an attempt until the driver sets it; nothing changes it."""


@define(eq=False)
class Attempt:
    """One attempt of a call with one model, and the data about its answer so far.

    `number` is 1 for the first attempt of a call, 2 for the second, and so on. `legs` are the
    requests in the order of sending, including those that fetch credentials. `leg` records the last
    request for an answer and the head of the response (`None`: no HTTP request was sent). `reads`
    is the number of network reads of the body so far; it is the same for events that arrived
    together. `usage` is the reported usage; `reported_cost` is the cost in US dollars that the
    provider reported (`None`: not reported). `plan` contains the `context`, `options`, tool
    `names`, `notices` and `request` to send. It is `None` before the attempt begins, and for a
    plugin whose `stream` hook does not return an `EventSource`. `voided` lists the partial answers
    that were discarded because the server began the answer again in the same response, each with
    its usage and the cost in US dollars that the provider reported for it (`None`: not reported);
    `usage` and `reported_cost` do not include them. `charge` is the `Charge` of the attempt,
    including the discarded answers; while the attempt runs, it is the maximum expected charge.

    Times are seconds of the call's clock. `started_at` is when the attempt began (`None`: not yet,
    or a gate refused it). `first_event_at` is when its first content arrived: a delta, a tool call
    or an extension (`None`: no content yet). `read_at` is when the latest bytes of the response
    arrived, even if they contained no event (`None`: no bytes yet). `ended_at` is when the attempt
    completed, failed or was closed (`None`: it is running). An observer that receives an event
    finds the time at which the event arrived in `read_at` or, for the last event of an attempt, in
    `ended_at`.
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
    voided: list[tuple[Usage, float | None]] = field(factory=list, repr=False)
    _context: Context = field(default=_NOTHING_SAID, repr=False, init=False)
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
        """The provider's entry in the catalogue; `None` if it has none."""
        return self.target.info or getattr(self.target.binding.provider, "info", None)

    @property
    def request(self) -> HTTPRequest | None:
        """The last request for an answer, including credentials; `None` before the first."""
        return None if self.leg is None else self.leg.request

    @property
    def response(self) -> ResponseHead | None:
        """The status and headers of the response to the last request.

        `None` until the headers have arrived.
        """
        return None if self.leg is None else self.leg.response

    @property
    def endpoint(self) -> str | None:
        """The address of the last request, without secrets; `None` before the first."""
        return None if self.leg is None else public_url(self.leg.request.url)

    def follow(self, plan: Plan) -> None:
        """Set `plan`, the conversation and options that the attempt sends."""
        self.plan = plan

    def build(self, request: HTTPRequest) -> None:
        """Store a request in `plan`; it must not yet contain credentials."""
        if self.plan is not None:
            self.plan.request = request

    def ask(self, request: HTTPRequest, kind: LegKind = "stream", at: float = 0.0) -> Leg:
        """Record that a request is sent at the time `at`, and return its `Leg`."""
        leg = Leg(request, kind, at)
        if len(self.legs) < MOST_LEGS:
            self.legs.append(leg)
        if kind == "stream" or kind == "whole":
            self.leg = leg
        return leg

    def answer(
        self, response: ResponseHead, request_id: str | None = None, leg: Leg | None = None
    ) -> None:
        """Record the head of a response. `leg` is its request (`None`: the last request)."""
        leg = leg or self.leg
        if leg is not None:
            leg.response = response
        self.request_id = request_id or self.request_id

    def learn(self, response_id: str | None, model: str | None, usage: Usage | None) -> None:
        """Store the id, the responding model and the token usage of the answer so far."""
        self.response_id = response_id
        self.response_model = model
        self.usage = usage

    def report_cost(self, cost: float) -> None:
        """Record the cost of the attempt that the provider reports, in US dollars.

        A cost that is negative or not a finite number is ignored, with a notice.
        """
        dollars = valid_dollars(cost)
        if dollars is None:
            self.notice("usage", f"the reported cost is not a valid amount: {cost!r:.40}")
        else:
            self.reported_cost = dollars

    def about(self, context: Context, counter: TokenCounter | None) -> None:
        """Set the conversation and the token counter from which the charge is computed.

        If `counter` is `None`, swink estimates the tokens.
        """
        self._context = context
        self._counter = counter

    @property
    def charge(self) -> Charge:
        """The charge for the attempt; while the attempt runs, its maximum expected charge.

        The charge is zero if the attempt has not begun or if a gate refused it.
        """
        if self._settled is not None:
            return self._settled
        return NOTHING if self.started_at is None else self._reservation()

    async def reserve(self) -> Charge:
        """Return the charge to reserve for the attempt, computed from a high token estimate.

        The client's token counter is called first, if there is one.
        """
        if self._counter is not None and self._prompt is None:
            counted: Any = self._ask_counter()
            self._prompt = await _awaited(counted) if isawaitable(counted) else counted
        return self._reservation()

    def _reservation(self) -> Charge:
        if self._reserved is None:
            most = int(self._estimate().most)
            self._reserved = reserved(most, self.model.info, self._context, self.options)
        return self._reserved

    def _estimate(self) -> Estimate:
        """Return the estimate of the prompt's tokens, which is computed only once.

        The result of an async token counter is used only if `reserve` has already awaited it.
        """
        if self._prompt is None and self._counter is not None:
            counted = self._ask_counter()
            if iscoroutine(counted):
                counted.close()
            if isinstance(counted, Estimate):
                self._prompt = counted
        if self._prompt is None:
            info = self.model.info
            self._prompt = prompt_of(self.provider_info, self._context, self.options, info)
        return self._prompt

    def _ask_counter(self) -> Any:
        """Call the token counter, and return an `Estimate` with its result.

        Return an awaitable if the counter is async, and `None` if it raised an exception.
        """
        assert self._counter is not None
        try:
            counted: Any = self._counter(self.model, self._context)
            return counted if isawaitable(counted) else _counted(counted)
        except Exception:
            log.exception("the token counter failed; the estimate is used")
            return None

    def settle(
        self, usage: Usage | None, cost: Cost | None, seen: int, is_complete: bool, at: datetime
    ) -> Cost | None:
        """Compute the final charge when the attempt has ended, and return the attempt's cost.

        `usage` and `cost` come from the last event. The prices at the time `at` apply. `seen` is
        the number of output tokens that arrived; `is_complete` says whether the answer is complete.
        """
        whole = usage is not None and usage.input is not None and usage.output is not None
        if whole and is_complete:
            taken = usage
        else:
            seconds = (self.ended_at or 0.0) - (self.started_at or 0.0)
            prompt = int(self._estimate().tokens)
            info = self.model.info
            taken = completed_usage(
                usage, prompt, seen, seconds, is_complete, info, self.options, self._context
            )
        is_known = cost is not None or self.reported_cost is not None
        assert taken is not None
        paid = self.price(taken, cost, at)
        estimated = taken is not usage
        if paid is not None and estimated and not is_known:
            paid = self._by_requested_terms(taken, paid, at)
            paid.estimated = True
        self._charge(taken, paid, estimated)
        return paid

    def _by_requested_terms(self, taken: Usage, paid: Cost, at: datetime) -> Cost:
        """Return the higher of `paid` and the price for the service tier and speed in the request.

        If the usage shows which tier or speed was billed, return `paid`.
        """
        terms = requested_terms(self.options)
        if not terms or reports_terms(taken):
            return paid
        requested = self.price(replace(taken, extra={**taken.extra, **terms}), None, at)
        return max(paid, requested or paid, key=lambda cost: dollars_of(cost) or 0.0)

    def take_charge(self, usage: Usage | None, cost: Cost | None) -> None:
        """Set the charge to the reported usage and cost.

        If the cost is unknown, the charge is an estimate at the model's prices, so that limits
        count the attempt.
        """
        if usage is None:
            dollars = 0.0 if cost is None else dollars_of(cost)
            self._settled = Charge(0, dollars, cost is not None and cost.estimated)
        else:
            self._charge(usage, cost, cost is not None and cost.estimated)

    def _charge(self, usage: Usage, cost: Cost | None, estimated: bool) -> None:
        if cost is None:
            cost = self._by_catalogue(usage, None)
            estimated = estimated or cost is not None
        self._settled = Charge(tokens_of(usage), dollars_of(cost), estimated)

    def charge_voided(self, at: datetime) -> Totals:
        """Add the answers in `voided` to the final charge, and return their usage and cost.

        The prices at the time `at` apply.
        """
        totals = Totals()
        for usage, reported in self.voided:
            cost = self._price(usage, None, reported, at)
            totals.add(usage, cost)
            self._settled = self.charge + Charge(tokens_of(usage), dollars_of(cost))
        return totals

    def price(
        self, usage: Usage | None, cost: Cost | None = None, at: datetime | None = None
    ) -> Cost | None:
        """Return the cost of the attempt: `cost`, or else the usage at the catalogue's prices.

        If the provider reported a cost, it becomes the `total` of the result. The prices at the
        time `at` apply (`None`: now).
        """
        return self._price(usage, cost, self.reported_cost, at)

    def _price(
        self, usage: Usage | None, cost: Cost | None, reported: float | None, at: datetime | None
    ) -> Cost | None:
        if cost is None:
            cost = self._by_catalogue(usage, at)
        elif cost.known is None and reported is None:
            return None  # the provider knows that these prices do not apply
        if reported is not None:
            cost = cost or Cost()
            cost.total = reported
        return cost

    def _by_catalogue(self, usage: Usage | None, at: datetime | None) -> Cost | None:
        info = self.model.info
        prices = info.prices if info else None
        return cost_of(usage, prices, at, keeps_long(self.options))

    def begin(self, at: float) -> None:
        """Record the start of the attempt; `at` is in seconds of the call's clock."""
        self.started_at = at

    def hear(self, at: float) -> None:
        """Set the time at which the latest data from the provider arrived."""
        self.read_at = at

    def show_content(self, now: float) -> None:
        """Set the time of the first content to `read_at`, or to `now` if no bytes were read."""
        self.first_event_at = now if self.read_at is None else self.read_at

    def end(self, at: float) -> None:
        """Record the end of the attempt."""
        self.ended_at = at

    def count_read(self) -> None:
        """Count one network read."""
        self.reads += 1

    def hand_out(self, batch: Sequence[Event]) -> Iterator[Event]:
        """Yield the events of a network read one by one; see `has_rest`."""
        self._rest = iter(batch)
        return self._rest

    @property
    def has_rest(self) -> bool:
        """Whether events of the last network read have not been handed out yet."""
        return length_hint(self._rest) > 0

    def notice(self, code: str, detail: str, *paths: str) -> None:
        """Add a notice that observers receive with the next events.

        `paths` becomes the field `paths` of the `Notice`.
        """
        self.notices.append(Notice(code, detail, paths))

    def tell_changes(self, notices: Sequence[Notice]) -> None:
        """Add notices about values that the conversion changed, except those already added."""
        new = [notice for notice in notices if notice not in self._changes]
        self._changes += new
        self.notices += new

    def take_notices(self) -> list[Notice]:
        """Return the pending notices, and clear them."""
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
