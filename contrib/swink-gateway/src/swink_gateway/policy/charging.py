"""Charge the owner of a key for each call.

A call reserves the most that it may cost before it begins, and is settled when it has ended. The
provider's reported usage settles an attempt. An attempt that was sent and reported no usage is
charged the estimated prompt plus the output that was seen, because a vendor charges for a prompt
even if the client hangs up before the first word. Attempts that the vendor refused with an HTTP
error, or that never reached it, cost nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, field

from swink_core import (
    Cost,
    Done,
    Error,
    EventStream,
    ModelInfo,
    Retry,
    Start,
    StopReason,
    StreamErrorKind,
    Usage,
    replace,
)
from swink_core.providers import CODES, Attempt, cost_of, kept_of
from swink_gateway.policy.config import Key
from swink_gateway.policy.limits import Allowance, Ledger, Refusal
from swink_gateway.policy.routing import Chain
from swink_gateway.policy.token_counting import estimated_tokens, tokens_of
from swink_gateway.protocols import Asked
from swink_gateway.protocols.failures import Refused

__all__ = ["Charge", "allowance_of", "charged", "most_of"]

TOO_MANY = 429

TOKENS_UNSAID = 4096
"""Of an answer, where neither the client nor the catalogue says how long it may be."""

NEVER_SENT = frozenset(code for code, row in CODES.items() if row.unsent)
"""The codes of failures after which the provider has not seen the request."""

REFUSED_FROM = 300
"""HTTP statuses from here on mean that no answer began (RFC 9110 section 15)."""


@define
class Charge:
    """The tokens and US dollars that a call owes for all its attempts.

    `stream` is set when the call is made. `hear` must get every batch of the stream, in order and
    before the stream goes on.
    """

    stream: EventStream | None = None
    _tokens: int = field(default=0, init=False)
    _dollars: float = field(default=0.0, init=False)
    _attempt: Attempt | None = field(default=None, init=False)
    _end: Retry | Done | Error | None = field(default=None, init=False)
    _seen: int = field(default=0, init=False)

    def hear(self, batch: Sequence[Any]) -> None:
        """Record what a batch of events shows about the attempt under way."""
        for event in batch:
            if isinstance(event, Start):
                self._begin()
            elif isinstance(event, Retry | Done | Error):
                self._end = event
            else:
                self._seen += kept_of(event)

    def settled(self) -> tuple[int, float]:
        """Return the tokens and US dollars of the call, which has ended."""
        if self.stream is None:
            return 0, 0.0
        self._settle()
        self._attempt = None
        call = self.stream.call
        usage, cost = call.usage or Usage(), call.cost or Cost()
        tokens = max(usage.total or 0, (usage.input or 0) + (usage.output or 0))
        return tokens + self._tokens, (cost.total or 0.0) + self._dollars

    def _begin(self) -> None:
        """Settle the attempt before this one; an answer may also begin again within an attempt."""
        assert self.stream is not None
        attempt = self.stream.call.attempt
        if attempt is not self._attempt:
            self._settle()
            self._attempt = attempt
            self._seen = 0
        self._end = None

    def _settle(self) -> None:
        """Add the estimates for what an attempt took and did not report."""
        attempt, end = self._attempt, self._end
        if attempt is None or self.stream is None:
            return
        if not (self._seen or _may_have_been_sent(attempt, end)):
            return
        reported = getattr(end, "usage", None) or attempt.usage or Usage()
        prompt, output = reported.input, reported.output
        if prompt is None:
            prompt = estimated_tokens(self.stream.call.context)
        if output is None or not isinstance(end, Done):
            output = max(output or 0, tokens_of(self._seen))
        more = prompt + output - (reported.input or 0) - (reported.output or 0)
        if more > 0:
            whole = replace(reported, input=prompt, output=output)
            charged = attempt.price(reported) or Cost()  # whose total the call's cost contains
            self._tokens += more
            self._dollars += max(0.0, _dollars_of(attempt.price(whole)) - (charged.total or 0.0))


def _may_have_been_sent(attempt: Attempt, end: Retry | Done | Error | None) -> bool:
    """Tell whether a provider may charge for an attempt; `end` is `None` for an abandoned one."""
    if attempt.response is not None:
        return attempt.response.status < REFUSED_FROM
    if isinstance(end, Retry) or (isinstance(end, Error) and end.stop_reason is StopReason.ERROR):
        return attempt.request is not None and end.code not in NEVER_SENT
    return True


def _dollars_of(cost: Cost | None) -> float:
    """Return the total of a cost, or the sum of its known parts where the total is unknown."""
    if cost is None:
        return 0.0
    if cost.total is not None:
        return cost.total
    parts = (cost.input, cost.output, cost.cache_read, cost.cache_write, cost.fees)
    return sum(part or 0.0 for part in parts)


def allowance_of(key: Key) -> Allowance:
    """Return what a configuration lets a key take."""
    return Allowance(
        requests=key.requests_per_minute,
        tokens=key.tokens_per_minute,
        streams=key.streams,
        dollars_a_day=key.dollars_per_day,
        dollars_a_month=key.dollars_per_month,
    )


@asynccontextmanager
async def charged(
    ledger: Ledger, owner: str, key: Key, chain: Chain, asked: Asked
) -> AsyncIterator[Charge]:
    """Charge a key with the most that a call may cost, and settle the charge when it has ended.

    Raises Refused where a limit of the key is reached.
    """
    ticket = await ledger.admit(owner, allowance_of(key), *most_of(chain, asked))
    if isinstance(ticket, Refusal):
        raise Refused(_failure(owner, ticket), TOO_MANY)
    charge = Charge()
    try:
        yield charge
    finally:
        await asyncio.shield(ledger.settle(ticket, *charge.settled()))


def most_of(chain: Chain, asked: Asked) -> tuple[int, float]:
    """Return the tokens and US dollars that a call may take at most, as far as can be told."""
    prompt = estimated_tokens(asked.context)
    found = [_most(model.info, prompt, {**asked.options, **own}) for model, own in chain]
    return max(tokens for tokens, _ in found), max(dollars for _, dollars in found)


def _most(info: ModelInfo | None, prompt: int, options: dict[str, object]) -> tuple[int, float]:
    said = options.get("max_tokens") or (info.max_output if info else None)
    answer = said if isinstance(said, int) else TOKENS_UNSAID
    usage = Usage(prompt, answer)
    return prompt + answer, _dollars_of(cost_of(usage, info.prices if info else None))


def _failure(owner: str, refusal: Refusal) -> Error:
    kind = StreamErrorKind.QUOTA_EXHAUSTED if refusal.spent else StreamErrorKind.THROTTLED
    error = Error(error_message=f"the key {owner!r} has taken what it may: {refusal.what}")
    error.error_kind, error.retry_after = kind, refusal.retry_after
    return error
