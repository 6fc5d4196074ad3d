"""What the owner of a key may take, held against a ledger around each call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attrs import define

from swink_core import Call, Error, ModelInfo, StreamErrorKind
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
    """A call that is charged for; `call` is there from when it is made."""

    call: Call | None = None


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
        usage = charge.call.usage if charge.call else None
        cost = charge.call.cost if charge.call else None
        tokens, dollars = usage.total if usage else None, cost.total if cost else None
        await asyncio.shield(ledger.settle(ticket, tokens or 0, dollars or 0.0))


def most_of(chain: Chain, asked: Asked) -> tuple[int, float]:
    """Return the tokens and US dollars that a call may take at most, as far as can be told."""
    prompt = estimated_tokens(asked.context)
    found = [_most(model.info, prompt, {**asked.options, **own}) for model, own in chain]
    return max(tokens for tokens, _ in found), max(dollars for _, dollars in found)


def _most(info: ModelInfo | None, prompt: int, options: dict[str, object]) -> tuple[int, float]:
    said = options.get("max_tokens") or (info.max_output if info else None)
    answer = said if isinstance(said, int) else TOKENS_UNSAID
    prices = info.prices if info else None
    if prices is None:
        return prompt + answer, 0.0
    return prompt + answer, (prompt * (prices.input or 0) + answer * (prices.output or 0)) / 1e6


def _failure(owner: str, refusal: Refusal) -> Error:
    kind = StreamErrorKind.QUOTA_EXHAUSTED if refusal.spent else StreamErrorKind.THROTTLED
    error = Error(error_message=f"the key {owner!r} has taken what it may: {refusal.what}")
    error.error_kind, error.retry_after = kind, refusal.retry_after
    return error
