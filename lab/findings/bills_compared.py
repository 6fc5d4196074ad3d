"""The comparison of a ledger with the vendor's bill: the facts that `bills` prints."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from lab.findings.gateways import verdict
from lab.vendor.record import Exchange
from swink_core import Context, StreamOptions
from swink_core.providers import prompt_of
from swink_gateway.policy.limits import Entry
from swink_gateway.policy.limits.rows import RESERVED

SHOWN = 5
"""Differing calls that are printed."""

SAME = 1e-6
"""Relative difference of two sums of the same prices."""

LOST_SECONDS = 1.0
"""For which a killed process may have lost rows, where the ledger is beside the store."""

OUTPUT_RATE = 150.0
"""Output tokens that are charged for a second without usage."""

TYPICAL_OUTPUT = 4_096
"""Output tokens that are reserved without `max_tokens`."""


@dataclass(slots=True)
class Made:
    """A call that was made, and the result for its client: a status, or `left`.

    `leaves` are the seconds after which the client hangs up, by a reset if it `resets`.
    """

    tag: str
    key: str
    kind: str
    text: str
    at: float = 0.0
    body: dict[str, Any] = field(repr=False, default_factory=dict)
    path: str = ""
    leaves: float | None = None
    resets: bool = False
    status: int | str | None = None


@dataclass
class Books:
    """Exchanges of the vendor and rows of the ledger, by the tags of calls."""

    calls: dict[str, Made]
    exchanges: dict[str, list[Exchange]]
    rows: dict[str, list[Entry]]
    killed: list[float]
    loses_rows: bool

    def settled(self) -> Iterator[tuple[str, list[Entry], float]]:
        """Yield calls with their rows and the vendor's bill."""
        for tag in self.calls:
            charges = [e.charge for e in self.exchanges[tag] if e.charge is not None]
            yield tag, self.rows[tag], float(sum(charge.cost for charge in charges))

    def near_a_kill(self, tag: str) -> bool:
        """Tell whether a worker was killed while a call was under way, or just after."""
        began = self.calls[tag].at
        ends = [each.until or began for each in self.exchanges[tag]]
        end = max([began, *ends]) + LOST_SECONDS
        return any(began <= at <= end for at in self.killed)


@dataclass
class Overcharges:
    """Charges and bills of calls without reported usage, by class of prompt and by outcome."""

    pairs: dict[str, dict[str, list[tuple[float, float]]]] = field(
        default_factory=lambda: {"prompts": defaultdict(list), "outcomes": defaultdict(list)}
    )

    def add(self, kind: str, rows: Sequence[Entry], charge: float, bill: float) -> None:
        """Add a call."""
        self.pairs["prompts"][kind].append((charge, bill))
        outcome = next(row.outcome for row in rows if row.estimated)
        self.pairs["outcomes"][outcome].append((charge, bill))

    def show(self) -> None:
        """Print a line for each class."""
        for what, classes in self.pairs.items():
            for name, pairs in sorted(classes.items()):
                ratios = sorted(charge / bill for charge, bill in pairs)
                whole = sum(charge for charge, _ in pairs) / sum(bill for _, bill in pairs)
                low, high = ratios[len(ratios) // 20], ratios[-1 - len(ratios) // 20]
                print(
                    f"{what} {name}: {len(pairs)} calls, charge / bill in all {whole:.2f}, median "
                    f"{statistics.median(ratios):.2f}, 5 % below {low:.2f}, 5 % above {high:.2f}, "
                    f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
                    flush=True,
                )


def tag_of(exchange: Exchange) -> str | None:
    """Return the tag of the call that an exchange of the vendor's belongs to."""
    at = exchange.body.find(b"call-")
    if at < 0:
        return None
    return exchange.body[at : at + 20].split(b" ")[0].decode()


def explain(rows: Sequence[Entry], exchanges: Sequence[Exchange]) -> str:
    """Describe a call whose charge is not the bill."""
    ours = [f"{row.model} {row.outcome} {row.input}+{row.output} ${row.cost}" for row in rows]
    theirs = []
    for each in exchanges:
        usage = each.charge.usage if each.charge is not None else None
        bill = f"{usage.prompt}+{usage.output} ${each.charge.cost}" if usage and each.charge else ""
        theirs.append(f"{each.model} {each.status} {each.ended} {each.fault} {bill}")
    return f"{'; '.join(ours)} | {'; '.join(theirs)}"


def compare(books: Books, overcharges: Overcharges) -> None:
    """Print whether reported usage is charged as billed, and whether rows are missing."""
    reported = wrong = under = lost = dead = damaged = 0
    worst = 0.0
    missing_far: list[str] = []
    differing: list[str] = []
    for tag, rows, bill in books.settled():
        cost = sum(row.cost or 0.0 for row in rows)
        billed = [e for e in books.exchanges[tag] if e.charge is not None and e.charge.cost]
        if any(row.outcome == RESERVED for row in rows):
            dead += 1
            if cost < bill * (1 - SAME):
                under += 1
                differing.append(explain(rows, books.exchanges[tag]))
            if bill:
                overcharges.add(books.calls[tag].kind, rows, cost, bill)
            continue
        if len(billed) > len([row for row in rows if row.cost]):
            lost += 1
            if not (books.loses_rows and books.near_a_kill(tag)):
                missing_far.append(tag)
            continue
        if any(each.fault and each.fault["kind"] == "damaged" for each in books.exchanges[tag]):
            damaged += 1  # the bit may be one of the usage
        elif not any(row.estimated for row in rows):
            reported += 1
            difference = abs(cost - bill) / max(bill, 1e-9)
            worst = max(worst, difference)
            if difference > SAME:
                wrong += 1
                differing.append(explain(rows, books.exchanges[tag]))
        elif bill:
            overcharges.add(books.calls[tag].kind, rows, cost, bill)
    print(f"       {damaged} calls whose answers were changed on the way are not compared")
    text = f"{reported} calls with reported usage: {wrong} differ from the bill ({worst:.1e})"
    verdict(wrong == 0, text)
    for line in differing[:SHOWN]:
        print(f"       {line}", flush=True)
    verdict(under == 0, f"{dead} calls of killed workers: {under} charged less than the bill")
    text = f"{lost} calls lost a row, {len(missing_far)} of them without a kill {missing_far[:5]}"
    verdict(not missing_far, text)


def check_estimates(
    rows: Sequence[Entry], exchanges: Sequence[Exchange], calls: dict[str, Made]
) -> None:
    """Compare estimated rows with the estimate of the prompt, and with the vendor's tokens."""
    few = [
        row.tags
        for row in rows
        if row.estimated and row.cost and row.outcome != RESERVED and row.input is None
        and row.tags in calls
        and row.tokens < prompt_of(None, Context.of(calls[row.tags].text), StreamOptions()).tokens
    ]  # fmt: skip
    verdict(not few, f"{len(few)} estimated rows have fewer tokens than the estimated prompt")
    by_id = {each.request_id: each for each in exchanges if each.request_id}
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        exchange = by_id.get(row.request_id or "")
        if row.estimated and exchange is not None and exchange.charge is not None:
            usage = exchange.charge.usage
            if usage.total and row.outcome != RESERVED:
                found[row.outcome].append(row.tokens / usage.total)
    for outcome, ratios in sorted(found.items()):
        text = f"estimated rows that ended with {outcome}: tokens / vendor's {min(ratios):.2f} to"
        print(f"       {len(ratios)} {text} {max(ratios):.2f}", flush=True)


def check_output(books: Books) -> None:
    """Compare the output of estimated rows with the seconds and tokens of the vendor's record.

    The vendor notes when a request came, when it ended and the output tokens that it had written;
    the client notes when it left. Only calls with one request and one row are compared, without
    media, because the estimated prompt is taken from the tokens of the row.
    """
    short: list[str] = []
    by_time: list[float] = []
    by_tokens: list[float] = []
    for tag, made in books.calls.items():
        rows, exchanges = books.rows[tag], books.exchanges[tag]
        if len(rows) != 1 or len(exchanges) != 1 or made.kind == "media":
            continue
        [row], [exchange] = rows, exchanges
        if not row.estimated or row.outcome == RESERVED or row.input is not None or not row.cost:
            continue
        prompt = prompt_of(None, Context.of(made.text), StreamOptions()).tokens
        output = row.tokens - prompt
        ends = [exchange.until or exchange.at]
        if made.status == "left" and made.leaves is not None:
            ends.append(made.at + made.leaves)
        most = made.body.get("max_tokens") or TYPICAL_OUTPUT
        due = min(ceil(OUTPUT_RATE * max(0.0, min(ends) - exchange.at)), most)
        if output + 1 < due:  # the estimated prompt is a whole number in the row
            short.append(f"{tag}: {output:.0f} of {due}, {row.outcome}, {exchange.ended}")
        if due:
            by_time.append(output / due)
        if made.status != "left" and exchange.sent_tokens:
            by_tokens.append(output / exchange.sent_tokens)
    text = (
        f"{len(by_time)} estimated outputs: {len(short)} below the vendor's seconds times the rate"
    )
    verdict(not short, f"{text} {short[:3]}")
    if by_tokens:
        middle = statistics.median(by_tokens)
        text = f"{len(by_tokens)} outputs that the vendor cut: charged / tokens that it wrote"
        found = f"{min(by_tokens):.2f} to {max(by_tokens):.2f}, median {middle:.2f}"
        print(f"       {text} {found}", flush=True)


def check_budgets(
    rows: Sequence[Entry],
    spent: Mapping[str, float],
    budgets: Mapping[str, float],
    lost: Sequence[float],
    processes: int,
) -> None:
    """Check that no key exceeds its budget by more than the documented sum.

    Where the store was lost, that is one more reservation for each process, and the charges of the
    second before the loss.
    """
    worst = 0.0
    exceeded = reached = 0
    for key, budget in budgets.items():
        own = sorted((row for row in rows if row.key == key), key=lambda row: row.at)
        total = sum(row.cost or 0.0 for row in own)
        if not own:
            continue
        last = max((row for row in own if row.reserved), key=lambda row: row.at)
        under_way = [row for row in own if row.at + (row.latency or 1e9) + 2.0 >= last.at]
        error = sum(max(0.0, (row.cost or 0.0) - (row.reserved or 0.0)) for row in under_way)
        largest = max(row.reserved or 0.0 for row in own)
        allowed = largest + error + largest * processes * len(lost)
        allowed += sum(
            row.cost or 0.0
            for row in own
            if any(row.at <= at <= row.at + (row.latency or 0.0) + 1.5 for at in lost)
        )
        reached += total >= budget
        exceeded += total > budget + allowed + 1e-9
        worst = max(worst, (total - budget) / allowed)
    text = (
        f"{reached} of {len(budgets)} budgets reached, {exceeded} exceeded by more than one "
        f"reservation and the errors of the estimates; at most {worst:.2f} of that sum"
    )
    verdict(exceeded == 0 and reached > 0, text)
    agree = max(
        abs(spent[key] - sum(row.cost or 0.0 for row in rows if row.key == key)) for key in spent
    )
    print(f"       budgets and rows differ by at most ${agree:.9f}", flush=True)
