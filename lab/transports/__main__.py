"""Compare the clients, print the counts, and fail for a difference without a reason."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter

from attrs import define, evolve, field

import lab.transports
from lab.transports.damaged import Case, case_of
from lab.transports.explained import EXPLAINED, explanation_of
from lab.transports.readings import Outcome, in_memory, outcome_of
from swink_core.providers import AiohttpClient
from swink_transport_httptools import HttptoolsClient


@define
class Comparison:
    """Counts of equal outcomes and explained differences, and the unexplained differences."""

    equal: int = 0
    explained: Counter[str] = field(factory=Counter)
    ends: Counter[str] = field(factory=Counter)
    unexplained: list[tuple[Case, Outcome, Outcome]] = field(factory=list)


async def compare(number: int, seed: int) -> Comparison:
    """Compare the clients with this many responses drawn from a seed."""
    found = Comparison()
    with in_memory() as server:
        theirs, ours = AiohttpClient(), HttptoolsClient()
        for each in range(number):
            case = case_of(seed, each)
            one = await outcome_of(theirs, server, case)
            other = await outcome_of(ours, server, case)
            found.ends[one.end] += 1
            if one == other:
                found.equal += 1
                continue
            cut = evolve(case, reads=tuple(bytes([byte]) for byte in case.data))
            bytewise = await outcome_of(theirs, server, cut)
            row = explanation_of(case, one, other, bytewise)
            if row is not None:
                found.explained[row.name] += 1
            else:
                found.unexplained.append((case, one, other))
        await theirs.aclose()
        await ours.aclose()
    return found


def main() -> int:
    """Compare, print the counts, and fail for an unexplained difference."""
    parser = argparse.ArgumentParser(description=str(lab.transports.__doc__).partition("\n")[0])
    parser.add_argument("--number", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5, help="unexplained differences to print")
    given = parser.parse_args()
    found = asyncio.run(compare(given.number, given.seed))
    print(f"{given.number:,} responses, seed {given.seed}: {found.equal:,} with equal outcomes")
    print("ends with aiohttp:")
    for end, count in found.ends.most_common():
        print(f"{count:9,}  {end}")
    print("explained differences:")
    reasons = {row.name: row.reason for row in EXPLAINED}
    for name, count in found.explained.most_common():
        print(f"{count:9,}  {name}: {reasons[name]}")
    print(f"unexplained differences: {len(found.unexplained)}")
    for case, theirs, ours in found.unexplained[: given.show]:
        print(f"\ncase {case.number}, {len(case.reads)} reads, {case.ending}: {case.data!r}")
        print(f"  aiohttp   {theirs}\n  httptools {ours}")
    return 1 if found.unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
