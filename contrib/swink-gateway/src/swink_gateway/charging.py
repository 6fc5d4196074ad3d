"""What the owner of a key may take, held against a ledger around each call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attrs import define

from swink_core import (
    Context,
    Cost,
    Error,
    EventStream,
    ModelInfo,
    StopReason,
    StreamErrorKind,
    Usage,
)  # fmt: skip
from swink_gateway.config import Key
from swink_gateway.counting import estimated_tokens
from swink_gateway.limits import Allowance, Ledger, Refusal
from swink_gateway.protocols import Asked
from swink_gateway.reading import Refused
from swink_gateway.routing import Chain

__all__ = ["Charge", "allowance_of", "charged", "most_of"]

TOO_MANY = 429

TOKENS_UNSAID = 4096
"""Of an answer, where neither the client nor the catalogue says how long it may be."""


@define
class Charge:
    """A call that is charged for; `stream` is there from when it is made."""

    stream: EventStream | None = None

    def taken(self) -> tuple[int, float]:
        """Return the tokens and US dollars that the call took.

        Of an answer that did not come to its end nobody says; what came of it is estimated, since
        whoever hangs up has had that.
        """
        if self.stream is None:
            return 0, 0.0
        call, message = self.stream.call, self.stream.message
        usage, cost = call.usage or Usage(), call.cost or Cost()
        tokens = usage.total or (usage.input or 0) + (usage.output or 0)
        dollars = cost.total or 0.0
        if message.content and message.stop_reason in _CUT:
            prompt = estimated_tokens(call.context)
            answer = estimated_tokens(Context([message]))
            tokens = max(tokens, prompt + answer)
            dollars = max(dollars, _price(call.model.info, prompt, answer))
        return tokens, dollars


_CUT = (StopReason.ABORTED, StopReason.ERROR)


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
    """Charge a key with the most that a call may take, and put that right when it has ended.

    Raises Refused where a limit of the key is reached.
    """
    ticket = await ledger.admit(owner, allowance_of(key), *most_of(chain, asked))
    if isinstance(ticket, Refusal):
        raise Refused(_failure(owner, ticket), TOO_MANY)
    charge = Charge()
    try:
        yield charge
    finally:
        await asyncio.shield(ledger.settle(ticket, *charge.taken()))


def most_of(chain: Chain, asked: Asked) -> tuple[int, float]:
    """Return the tokens and US dollars that a call may take at most, as far as can be told."""
    prompt = estimated_tokens(asked.context)
    found = [_most(model.info, prompt, {**asked.options, **own}) for model, own in chain]
    return max(tokens for tokens, _ in found), max(dollars for _, dollars in found)


def _most(info: ModelInfo | None, prompt: int, options: dict[str, object]) -> tuple[int, float]:
    said = options.get("max_tokens") or (info.max_output if info else None)
    answer = said if isinstance(said, int) else TOKENS_UNSAID
    return prompt + answer, _price(info, prompt, answer)


def _price(info: ModelInfo | None, prompt: int, answer: int) -> float:
    prices = info.prices if info else None
    if prices is None:
        return 0.0
    return (prompt * (prices.input or 0.0) + answer * (prices.output or 0.0)) / 1e6


def _failure(owner: str, refusal: Refusal) -> Error:
    kind = StreamErrorKind.QUOTA_EXHAUSTED if refusal.spent else StreamErrorKind.THROTTLED
    error = Error(error_message=f"the key {owner!r} has taken what it may: {refusal.what}")
    error.error_kind, error.retry_after = kind, refusal.retry_after
    return error
