"""The vendor's bill: what each attempt cost, computed from what the vendor did itself.

* The prompt is billed once generation begins, whatever becomes of the answer, and once for all of
  `n` choices. A request that is refused costs nothing.
* Each output token is billed when it is produced, thoughts included, shown or not. A client that
  hangs up stops production at the next token.
* Cached tokens, cache writes and long prompts have their own prices (`catalog.Model`). A service
  tier multiplies the sum, and a batch halves it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from lab.vendor.catalog import Model

__all__ = ["TIERS", "Charge", "Usage", "charge", "total"]

TIERS = {"default": "1", "flex": "0.5", "priority": "2", "batch": "0.5", "standard": "1"}
"""By what a service tier multiplies the price."""

_PRIORITY: tuple[tuple[str, Decimal], ...] = (
    ("gpt-5.5", Decimal("2.5")),
    ("gpt-5-mini", Decimal("1.8")),
    ("gpt-4.1", Decimal("1.75")),
    ("o3", Decimal("1.75")),
    ("gpt-4o-mini", Decimal(5) / Decimal(3)),
    ("gpt-4o", Decimal("1.7")),
)
"""By what the priority tier multiplies the price of some models, by the beginnings of their ids."""

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one attempt.

    `prompt` is the whole prompt; `cached`, `written` and `written_long` are parts of it. `output`
    is the whole output; `reasoning` is a part of it.
    """

    prompt: int = 0
    cached: int = 0
    written: int = 0
    written_long: int = 0
    output: int = 0
    reasoning: int = 0

    @property
    def uncached(self) -> int:
        """Return the prompt tokens that were neither read from the cache nor written to it."""
        return self.prompt - self.cached - self.written - self.written_long

    @property
    def total(self) -> int:
        """Return prompt and output together."""
        return self.prompt + self.output


@dataclass(frozen=True, slots=True)
class Charge:
    """The price of one attempt in USD; `prompt_cost` is the part of `cost` for its prompt.

    `tier` is the service tier that was used.
    """

    account: str
    provider: str
    model: str
    usage: Usage
    tier: str
    cost: Decimal
    prompt_cost: Decimal

    def as_json(self) -> dict[str, Any]:
        """Return the charge as JSON data; the cost is a decimal number as text."""
        return {
            "account": self.account,
            "provider": self.provider,
            "model": self.model,
            "tier": self.tier,
            "usage": asdict(self.usage),
            "cost": format(self.cost, "f"),
        }


def charge(account: str, provider: str, model: Model, usage: Usage, tier: str) -> Charge:
    """Price an attempt."""
    long = model.long_from is not None and usage.prompt > model.long_from
    input_factor = Decimal(str(model.long_input)) if long else Decimal(1)
    output_factor = Decimal(str(model.long_output)) if long else Decimal(1)
    prompt = (
        usage.uncached * Decimal(str(model.input))
        + usage.cached * Decimal(str(model.cached))
        + usage.written * Decimal(str(model.write))
        + usage.written_long * Decimal(str(model.write_long))
    )
    output = usage.output * Decimal(str(model.output))
    factor = Decimal(TIERS.get(tier, "1"))
    if tier == "priority":
        known = (each for prefix, each in _PRIORITY if model.id.startswith(prefix))
        factor = next(known, factor)
    prompt_cost = prompt * input_factor * factor / _MILLION
    cost = prompt_cost + output * output_factor * factor / _MILLION
    return Charge(account, provider, model.id, usage, tier, cost, prompt_cost)


def total(charges: Iterable[Charge]) -> dict[str, Any]:
    """Add charges up, as JSON data: the count, the cost and the tokens of each kind."""
    count = 0
    cost = Decimal(0)
    tokens = dict.fromkeys(asdict(Usage()), 0)
    for each in charges:
        count += 1
        cost += each.cost
        for kind, number in asdict(each.usage).items():
            tokens[kind] += number
    return {"attempts": count, "cost": format(cost, "f"), "usage": tokens}
