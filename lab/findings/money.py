"""Print what the vendor charged and what the gateway charged: hang-ups, retries, missing prices.

    python -m lab.findings.money

A key with a budget must not spend more than it by leaving early, by asking at once, or by a model
without a price.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal

from lab.findings.gateways import MODEL, Gateway, gateway, key_of, owner, verdict
from lab.vendor import Fault, Vendor

BUDGET = Decimal("0.01")

LIMITED = owner("tiny", dollars_per_day=float(BUDGET)) + owner("bob")

AT_ONCE = 24

SOME = Decimal("0.9")
"""The part of the vendor's charge that the gateway has to charge at least."""


@contextmanager
def served(first_token: float = 0.0, pace: float | None = None) -> Iterator[tuple[Vendor, Gateway]]:
    """Run a new vendor and a new gateway before it."""
    with (
        Vendor(first_token=first_token, tokens_per_second=pace) as vendor,
        gateway(vendor, LIMITED) as running,
    ):
        yield vendor, running


def charges(vendor: Vendor, running: Gateway, name: str) -> tuple[int, Decimal, Decimal]:
    """Return the vendor's attempts, its charge and the gateway's, once both are settled."""
    time.sleep(1)
    total = vendor.state.bill()["total"]
    spent = Decimal(str(running.spending(name)["dollars_today"]))
    return total["attempts"], Decimal(total["cost"]), spent


def report(what: str, vendor: Vendor, running: Gateway, name: str, replies: Counter[str]) -> None:
    """Print both charges; the gateway's may be higher, and not lower."""
    attempts, billed, spent = charges(vendor, running, name)
    text = f"{what}: {dict(replies)}, {attempts} attempts billed ${billed:.6f}, charged"
    verdict(spent >= billed * SOME, f"{text} ${spent:.6f}")


def left_early() -> None:
    """Send long prompts, and hang up before the first word."""
    text = "many words here " * 4000
    for model in (MODEL, "anthropic/claude-haiku-4-5"):
        for stream in (False, True):
            with served(first_token=3.0) as (vendor, running):
                replies: Counter[str] = Counter()
                for _ in range(3):
                    reply = running.chat("tiny", model, text, seconds=1.0, stream=stream)
                    replies[str(reply.status)] += 1
                what = f"hang up before the first word of {model}, stream={stream}"
                report(what, vendor, running, "tiny", replies)


def broken_upstream() -> None:
    """Break the vendor's answers, so that the gateway retries."""
    for stream in (False, True):
        with served() as (vendor, running):
            vendor.state.faults.add(Fault("cut", after=5, times=3))
            reply = running.chat("bob", MODEL, "Tell a story. " * 300, stream=stream, seconds=60)
            what = f"three answers are cut, stream={stream}"
            report(what, vendor, running, "bob", Counter([str(reply.status)]))


def no_price() -> None:
    """Ask for a model that the catalogue does not price, with a key that has a budget."""
    with served() as (vendor, running):
        reply = running.chat("tiny", "openai/gpt-5.4-2026-09-09-preview", "Hi")
        asked = len(vendor.state.record.of())
        text = f"a model without a price, under a budget: {reply.status}, {asked} requests sent"
        verdict(asked == 0, text)


def at_once() -> None:
    """Send many requests at once; only the last call may go beyond the budget."""
    kinds: dict[str, tuple[str, dict[str, object]]] = {
        "Chinese": ("漢字" * 2000, {"max_tokens": 16}),
        "English": ("word " * 1500, {"max_tokens": 100}),
        "no max_tokens": ("word " * 1500, {}),
    }
    for name, (text, more) in kinds.items():
        with served(first_token=0.5) as (vendor, running):

            def ask(
                _: int, running: Gateway = running, text: str = text, more: dict[str, object] = more
            ) -> str:
                return str(running.chat("tiny", MODEL, text, seconds=60, **more).status)

            with ThreadPoolExecutor(AT_ONCE) as pool:
                replies = Counter(pool.map(ask, range(AT_ONCE)))
            attempts, billed, spent = charges(vendor, running, "tiny")
            most = max((each.cost for each in vendor.state.record.charges()), default=Decimal(0))
            text = f"{AT_ONCE} at once, {name}: {dict(replies)}, {attempts} attempts billed"
            verdict(
                billed <= BUDGET + most, f"{text} ${billed:.4f} of ${BUDGET}, charged ${spent:.4f}"
            )


def many_choices() -> None:
    """Ask for many choices, by an extra option that the gateway may not know."""
    with served() as (vendor, running):
        body = {
            "model": MODEL,
            "stream": False,
            "messages": [{"role": "user", "content": "Hi"}],
            "options": {"extra": {"n": 50}},
        }
        reply = running.ask("/v1/stream", key_of("tiny"), body)
        replies = Counter([str(reply.status)])
        report("50 choices through /v1/stream", vendor, running, "tiny", replies)


def main() -> None:
    """Print one line for each way to spend."""
    left_early()
    broken_upstream()
    no_price()
    at_once()
    many_choices()


if __name__ == "__main__":
    main()
