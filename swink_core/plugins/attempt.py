"""`Attempt`: one try of a call on one model, with its plan, requests, usage and charge.

It does not know who drives it: the source and the driver report to it.
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
    dollars_of,
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
from swink_core.vocabulary.outcome import NOTHING, Charge, Cost, Usage
from swink_core.vocabulary.prices import cost_of
from swink_core.vocabulary.structs import replace
from swink_core.vocabulary.tokens import Estimate

log = logging.getLogger(__name__)

_NO_EVENTS: Iterator[Event] = iter(())

TokenCounter: TypeAlias = Callable[[Model, Context], int | Awaitable[int]]
"""Counts the tokens of a conversation for a model: a tokenizer, or a provider's own count.

A plain function or an async one. Its exceptions are logged, and the estimate is used.
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
    """One attempt of a call with one model, and the facts about its answer so far.

    `number` counts from 1 over all models. `legs` are the requests in the order of sending,
    including credentials and token requests. `leg` is the last request for an answer, with its
    parts `request` and `response` (`None` without an HTTP request). `reads` counts the network
    reads of its body, which shows which events arrived together. `usage` is the reported usage;
    `reported_cost` is the provider's own figure in US dollars, if it reports one. `plan` contains
    the `context`, `options`, tool `names`, `notices` and `request` to send; it is `None` before the
    attempt begins and for a hand-written `stream` hook. `charge` is the `Charge` of the attempt:
    the reservation until it ends.

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
        """Store the id, the responding model and the token usage of the answer so far."""
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
            self._prompt = prompt_of(self.provider_info, context, self.options, self.model.info)
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
        assert taken is not None
        paid = self.price(taken, cost, at)
        estimated = taken is not usage
        if paid is not None and estimated and not is_known:
            paid = self._by_requested_terms(taken, paid, at)
            paid.estimated = True
        self._settled = Charge(tokens_of(taken), dollars_of(paid), estimated)
        return paid

    def _by_requested_terms(self, taken: Usage, paid: Cost, at: datetime) -> Cost:
        """Return the higher of `paid` and the cost by requested terms, unless some are reported."""
        terms = requested_terms(self.options)
        if not terms or reports_terms(taken):
            return paid
        requested = self.price(replace(taken, extra={**taken.extra, **terms}), None, at)
        return max(paid, requested or paid, key=lambda cost: dollars_of(cost) or 0.0)

    def take_charge(self, usage: Usage | None, cost: Cost | None) -> None:
        """Charge the usage and the cost that were reported, and no estimate."""
        tokens = 0 if usage is None else tokens_of(usage)
        dollars = dollars_of(cost)
        self._settled = Charge(tokens, 0.0 if usage is None and cost is None else dollars)

    def price(
        self, usage: Usage | None, cost: Cost | None = None, at: datetime | None = None
    ) -> Cost | None:
        """Return the cost of the attempt: `cost`, or a computation with the catalogue's prices.

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
