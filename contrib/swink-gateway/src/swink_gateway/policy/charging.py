"""Charge the owner of a key for each call.

A call reserves the charge that its dearest model is expected to cost, and is settled with what the
core charges for its attempts: see `Attempt.charge`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from attrs import define

from swink_core import Client, Error, EventStream, StreamErrorKind, StreamOptions
from swink_core.providers import reservation
from swink_gateway.policy.config import Key
from swink_gateway.policy.limits import Allowance, Ledger, Refusal
from swink_gateway.policy.routing import Chain
from swink_gateway.protocols import Asked
from swink_gateway.protocols.failures import Refused

__all__ = ["Account", "allowance_of", "charged", "most_of"]

TOO_MANY = 429

_PRICED = ("max_tokens", "response_format", "extra")


@define
class Account:
    """The stream of a call whose charge a key owes; it is set when the call is made."""

    stream: EventStream | None = None

    def settled(self) -> tuple[int, float]:
        """Return the tokens and US dollars of all attempts of the call, which has ended."""
        if self.stream is None:
            return 0, 0.0
        charge = self.stream.call.charge
        return charge.tokens, charge.cost or 0.0


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
    client: Client, ledger: Ledger, owner: str, key: Key, chain: Chain, asked: Asked
) -> AsyncIterator[Account]:
    """Charge a key with the most that a call may cost, and settle the charge when it has ended.

    Raises Refused where a limit of the key is reached.
    """
    ticket = await ledger.admit(owner, allowance_of(key), *most_of(client, chain, asked))
    if isinstance(ticket, Refusal):
        raise Refused(_failure(owner, ticket), TOO_MANY)
    account = Account()
    try:
        yield account
    finally:
        await asyncio.shield(ledger.settle(ticket, *account.settled()))


def most_of(client: Client, chain: Chain, asked: Asked) -> tuple[int, float]:
    """Return the tokens and US dollars to reserve for a call: those of its dearest model."""
    charges = [
        reservation(
            model.info,
            client.catalog.provider(model.provider),
            asked.context,
            _options({**asked.options, **own}),
        )
        for model, own in chain
    ]
    return max(each.tokens for each in charges), max(each.cost or 0.0 for each in charges)


def _options(given: Mapping[str, Any]) -> StreamOptions:
    """Return the options that a reservation depends on."""
    found = {name: given[name] for name in _PRICED if given.get(name) is not None}
    return StreamOptions(**found)


def _failure(owner: str, refusal: Refusal) -> Error:
    kind = StreamErrorKind.QUOTA_EXHAUSTED if refusal.spent else StreamErrorKind.THROTTLED
    error = Error(error_message=f"the key {owner!r} has taken what it may: {refusal.what}")
    error.error_kind, error.retry_after = kind, refusal.retry_after
    return error
