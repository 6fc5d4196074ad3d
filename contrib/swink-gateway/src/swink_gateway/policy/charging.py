"""Charge clients' keys for the attempts of calls.

The core computes all amounts: `Attempt.reserve()` before an attempt, and `Attempt.charge` after it.
The attempt with the first model is admitted before the call begins, so that a refusal can still be
sent as an HTTP status. The core calls `KeyCharge`, one of the call's gates, before and after each
attempt: `KeyCharge` admits retries and attempts with other models, and completes the ledger's row
of every attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, evolve, field

from swink_core import (
    Charge,
    Client,
    Done,
    Error,
    Failure,
    Model,
    ProviderFailure,
    ResponseHead,
    StreamErrorKind,
    StreamOptions,
    Target,
)
from swink_core.providers import Attempt, reservation, with_extra
from swink_gateway.policy.config import Key
from swink_gateway.policy.config.values import TAG
from swink_gateway.policy.guards import GUARD_TAG, CallGuards
from swink_gateway.policy.limits import (
    Allowance,
    Entry,
    Ledger,
    Refusal,
    StoreUnavailable,
    Ticket,
)
from swink_gateway.policy.limits.rows import NOT_SENT, TAG_SEPARATOR
from swink_gateway.policy.routing import Chain
from swink_gateway.protocols import Asked
from swink_gateway.protocols.bodies import MUCH_MEMORY_BYTES
from swink_gateway.protocols.failures import LIMIT, Refused, of_bad_request

__all__ = ["KeyCharge", "Payer", "allowance_of", "charged", "most_of", "stated_tags"]

log = logging.getLogger(__name__)

TOO_MANY = 429

BAD_REQUEST = 400

TAGS_HEADER = "x-swink-tags"
"""The request header with a client's tags for the ledger, separated by commas."""

MOST_TAGS = 8
"""The maximum number of tags of a request."""

AGAIN_SECONDS = 5.0
"""How many seconds to wait between two attempts to store a charge."""

_SETTLING: set[asyncio.Task[None]] = set()
"""The tasks that try again to store a charge.

The event loop keeps only weak references to tasks, so this set keeps strong ones.
"""

MOST_TOKENS = 2**53
"""The maximum number of tokens reserved for a call, so that totals fit in 64 bits."""

_PRICED = ("max_tokens", "response_format", "extra", "cache")


def allowance_of(key: Key) -> Allowance:
    """Return the limits of a key."""
    return Allowance(
        requests=key.requests_per_minute,
        tokens=key.tokens_per_minute,
        streams=key.streams,
        dollars_a_day=key.dollars_per_day,
        dollars_a_month=key.dollars_per_month,
    )


def stated_tags(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tags in a request's header, for the ledger. Raises Refused for invalid tags."""
    given = headers.get(TAGS_HEADER, "")
    tags = tuple(tag.strip() for tag in given.split(TAG_SEPARATOR)) if given.strip() else ()
    if len(tags) > MOST_TAGS or not all(map(TAG.fullmatch, tags)):
        why = f"{TAGS_HEADER}: at most {MOST_TAGS} words of letters, digits and -_.:/@ are expected"
        raise Refused(of_bad_request(why), BAD_REQUEST)
    if any(tag.casefold().startswith(GUARD_TAG) for tag in tags):
        why = f"{TAGS_HEADER}: tags that begin with {GUARD_TAG!r} are reserved for guards"
        raise Refused(of_bad_request(why), BAD_REQUEST)
    return tags


@define(frozen=True)
class Payer:
    """The key that pays for a call, and the facts about the call for rows of the ledger.

    `account` returns the name of the account that a target uses at its provider; `heard` is called
    with each row of the ledger once its final charge is known.
    """

    owner: str
    key: Key
    tags: tuple[str, ...] = ()
    account: Callable[[Target], str] = lambda target: target.model.provider
    heard: Callable[[Entry], None] = lambda entry: None

    def entry(self) -> Entry:
        """Return a new row for the ledger, with the team and the tags."""
        tags = dict.fromkeys((*self.key.tags, *self.tags))
        return Entry(team=self.key.team, tags=TAG_SEPARATOR.join(tags))


@define(eq=False)
class KeyCharge:
    """A gate that charges a key for the attempts of one call.

    `call` is the id of the call, `first` is its first target, whose cost `begin` reserves, and
    `guards` are the call's guards, if any; these three are set when the call is created. The tags
    of guards that changed or refused a request are added to the call's rows in the ledger.
    """

    _ledger: Ledger
    _payer: Payer
    call: str = ""
    first: Target | None = None
    guards: CallGuards | None = None
    _most: Charge = field(factory=Charge)
    _ticket: Ticket | None = None
    _is_used: bool = False
    _charge: Charge = field(factory=Charge)
    _ended: tuple[Attempt, Done | Error] | None = None
    _settled: Ticket | None = None
    _admitting: asyncio.Future[Ticket | Refusal] | None = field(default=None, init=False)
    _settling: asyncio.Future[None] | None = field(default=None, init=False)

    async def begin(self, most: Charge, model: Model) -> None:
        """Admit the call and reserve `most` for its first attempt.

        Raises Refused if a limit of the key is reached.
        """
        self._most = most
        refusal = await self._admit(most, model, begins=True)
        if refusal is not None:
            raise Refused(_failure(self._payer.owner, refusal), TOO_MANY)

    async def enter(self, target: Target, attempt: Attempt) -> None:
        """Reserve the cost of an attempt.

        Raises ProviderFailure if the budget is spent, or if the key has a budget and the price of
        the request is unknown.
        """
        is_reserved = target is self.first and self._ticket is not None and not self._is_used
        most = self._most if is_reserved else await attempt.reserve()
        if self._payer.key.has_budget and most.cost is None:
            raise ProviderFailure(_limited(_no_price(self._payer.owner, [target.model])))
        if not is_reserved:
            try:
                self._settling = asyncio.ensure_future(self._settle(ends=False))
                await asyncio.shield(self._settling)
                refusal = await self._admit(most, target.model, begins=False)
            except StoreUnavailable as error:
                log.error("an attempt is refused: %s", error)
                raise ProviderFailure(_limited(_unchecked())) from error
            if refusal is not None:
                raise ProviderFailure(_limited(_failure(self._payer.owner, refusal)))
        self._is_used = True
        assert self._ticket is not None
        self._describe(self._ticket.entry, target)

    def leave(
        self,
        target: Target,
        terminal: Done | Error,
        response: ResponseHead | None,
        attempt: Attempt,
    ) -> None:
        """Remember the charge of an ended attempt; the next `enter`, or `end`, settles it."""
        if self._ticket is None:
            return
        self._charge = attempt.charge
        self._ended = attempt, terminal

    async def end(self) -> None:
        """Settle the last attempt and mark the call as ended."""
        if self._admitting is not None:  # the task that waited for admission was cancelled
            try:
                found = await self._admitting
            except Exception:
                log.debug("a cancelled call was not admitted", exc_info=True)
            else:
                if isinstance(found, Ticket):
                    self._hold(found)
            self._admitting = None
        if self._settling is not None:  # it may not have ended if the call was cancelled
            await asyncio.wait([self._settling])
        try:
            await self._settle(ends=True)
        except StoreUnavailable as error:  # the client gets its answer all the same
            log.error("a charge of %r cannot be stored yet: %s", self._payer.owner, error)
            task = asyncio.ensure_future(self._settle_later())
            _SETTLING.add(task)
            task.add_done_callback(_SETTLING.discard)

    async def _settle_later(self) -> None:
        """Retry until the charge is stored; until then, the reserved amount counts as spent."""
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            try:
                await self._settle(ends=True)
            except StoreUnavailable:
                continue
            return

    async def _admit(self, most: Charge, model: Model, begins: bool) -> Refusal | None:
        payer = self._payer
        entry = payer.entry()
        entry.model, entry.account, entry.call = str(model), model.provider, self.call
        admit = self._ledger.admit(
            payer.owner, allowance_of(payer.key), most.tokens, most.cost, entry, begins=begins
        )
        self._admitting = asyncio.ensure_future(admit)
        found = await asyncio.shield(self._admitting)
        self._admitting = None
        if isinstance(found, Refusal):
            return found
        self._hold(found)
        return None

    def _hold(self, ticket: Ticket) -> None:
        """Remember the ticket (the reservation) of an attempt that is about to begin."""
        self._ticket = ticket
        self._is_used = False
        self._charge = Charge()

    async def _settle(self, ends: bool) -> None:
        ticket = self._ticket or self._settled
        if ticket is None or (ticket is self._settled and not ends):
            return
        if not self._is_used:
            ticket.entry.outcome = NOT_SENT
        if self._ended is not None:  # fill in the row and charge it in one step
            _fill(ticket.entry, *self._ended)
            if self.guards is not None:
                tags = [ticket.entry.tags, *self.guards.tags()]
                ticket.entry.tags = TAG_SEPARATOR.join(filter(None, tags))
            self._ended = None
        charge = self._charge
        await self._ledger.settle(ticket, charge.tokens, charge.cost, ends=ends)
        if ticket is not self._settled and ticket.entry.outcome != NOT_SENT:
            self._payer.heard(ticket.entry)
        self._ticket = None
        # a later settlement replaces this charge instead of the reservation
        self._settled = evolve(ticket, tokens=charge.tokens, dollars=charge.cost or 0.0)

    def _describe(self, entry: Entry, target: Target) -> None:
        entry.model, entry.account = str(target.model), self._payer.account(target)
        entry.call = self.call


@asynccontextmanager
async def charged(
    client: Client, ledger: Ledger, payer: Payer, chain: Chain, asked: Asked
) -> AsyncIterator[KeyCharge]:
    """Admit a call of the owner of a key, and settle the call's attempts at the end of the block.

    Raises Refused if a limit of the key is reached, or if the key has a budget and the price of the
    request is unknown for all models of the chain.
    """
    if asked.memory > MUCH_MEMORY_BYTES:
        most = await asyncio.to_thread(most_of, client, *chain[0], asked)
    else:
        most = most_of(client, *chain[0], asked)
    if payer.key.has_budget and most.cost is None:
        others = (most_of(client, *each, asked) for each in chain[1:])
        if all(other.cost is None for other in others):
            raise Refused(_no_price(payer.owner, [model for model, _ in chain]), BAD_REQUEST)
    charge = KeyCharge(ledger, payer)
    try:
        await charge.begin(most, chain[0][0])
        yield charge
    finally:
        await asyncio.shield(charge.end())


def most_of(client: Client, model: Model, own: Mapping[str, Any], asked: Asked) -> Charge:
    """Return the amount to reserve for an attempt with `model`; `own` are the model's options.

    Fields that are passed unchanged to a provider count as well: they may be long, or change the
    price.
    Raises Refused for a call with a larger number of tokens than a store can represent.
    """
    passed = (
        asked.options.get("extra") or {},
        asked.own,
        asked.extra if asked.inherited and "extra" not in own else {},  # otherwise it is not sent
        own.get("extra") or {},
    )
    options = _options({**asked.options, **own}, *passed)
    provider = client.catalog.provider(model.provider)
    try:
        charge = reservation(model.info, provider, asked.context, options)
    except OverflowError:
        charge = Charge(MOST_TOKENS + 1)
    if charge.tokens > MOST_TOKENS:
        raise Refused(of_bad_request("the request is for too many tokens"), BAD_REQUEST)
    return charge


def _options(given: Mapping[str, Any], *extra: Mapping[str, Any]) -> StreamOptions:
    """Return the options that affect the reserved amount.

    The dictionaries in `extra` are merged in the same way as in the request to the provider. Raises
    Refused for an invalid value.
    """
    merged: dict[str, Any] = {}
    for layer in filter(None, extra):
        merged = with_extra(layer, {}, merged)
    given = {**given, "extra": merged}
    found = {name: given[name] for name in _PRICED if given.get(name) is not None}
    try:
        return StreamOptions(**found)
    except (TypeError, ValueError) as error:
        raise Refused(of_bad_request(str(error)), BAD_REQUEST) from error


def _no_price(owner: str, models: Sequence[Model]) -> Error:
    names = ", ".join(dict.fromkeys(map(str, models)))
    return of_bad_request(
        f"the price of {names} is unknown (of its tokens, or of the requested service tier or "
        f"search), and the budget of the key {owner!r} is limited; the gateway's owner can give "
        "prices in the table [prices] of its file"
    )


def _unchecked() -> Error:
    error = Error(error_message="the limits of this key cannot be checked now")
    error.error_kind = StreamErrorKind.OVERLOADED
    return error


def _limited(error: Error) -> Failure:
    return Failure(
        "connect",
        kind=error.error_kind,
        code=LIMIT,
        message=error.error_message or "",
        retry_after=error.retry_after,
    )


def _fill(entry: Entry, attempt: Attempt, terminal: Done | Error) -> None:
    """Fill in the row of an attempt that has ended."""
    entry.estimated = int(attempt.charge.estimated)
    entry.request_id = attempt.request_id
    usage = terminal.usage
    if usage is not None:
        entry.input = usage.input
        entry.output = usage.output
        entry.cache_read = usage.cache_read
        entry.cache_write = usage.cache_write
        entry.reasoning = usage.reasoning
    began = attempt.started_at
    if began is None:  # another gate refused it
        entry.outcome = NOT_SENT
        return
    entry.outcome = _outcome(terminal)
    if attempt.ended_at is not None:
        entry.latency = round(attempt.ended_at - began, 6)
    if attempt.first_event_at is not None:
        entry.first_token = round(attempt.first_event_at - began, 6)


def _outcome(terminal: Done | Error) -> str:
    if isinstance(terminal, Error) and terminal.error_kind is not None:
        return str(terminal.error_kind)
    return str(terminal.stop_reason)


def _failure(owner: str, refusal: Refusal) -> Error:
    kind = StreamErrorKind.QUOTA_EXHAUSTED if refusal.spent else StreamErrorKind.THROTTLED
    error = Error(error_message=f"the key {owner!r} has reached its limit: {refusal.what}")
    error.error_kind, error.retry_after = kind, refusal.retry_after
    return error
