"""Judge swink by recorded traffic: `python -m lab.reality FOLDER [FOLDER …]`.

Each folder is searched for cassettes of VCR (YAML or JSON) and HAR files, such as a checkout of a
project that keeps them. Exit 1 if a difference has no explanation in `lab.reality.explained`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections import Counter
from pathlib import Path

from attrs import define, field

from lab.agreement import Agreement
from lab.reality.addresses import asked
from lab.reality.cassettes import Exchange, exchanges_in
from lab.reality.explained import reason_of
from lab.reality.readings import read_answer
from lab.reality.replay import VARIABLES, differences, history_refusals, replayed
from lab.reality.requests import Verdict, broken_rules, refusal_text, verdict
from swink_core import SwinkError
from swink_judge import Asked, Judge

_LEFT_OUT = {"anthropic-version": "2023-06-01"}
"""Headers that every client sends and some recorders leave out."""

MOST_SHOWN = 3
"""Places shown for one difference."""


@define
class Report:
    """Counts of comparisons, and the differences with the places of each."""

    counts: Counter[str] = field(factory=Counter)
    explained: Counter[str] = field(factory=Counter)
    open: dict[str, list[str]] = field(factory=dict)

    def count(self, what: str) -> None:
        """Count one exchange under a heading."""
        self.counts[what] += 1

    def differ(self, difference: str, place: str) -> None:
        """Note a difference: under its explanation, or as an open one."""
        reason = reason_of(difference, place)
        if reason is None:
            self.open.setdefault(difference, []).append(place)
        else:
            self.explained[reason] += 1

    def print(self) -> None:
        """Print the figures, the explanations and the open differences."""
        for what, number in self.counts.most_common():
            print(f"{number:7,}  {what}")
        print("\nExplained:")
        for reason, number in self.explained.most_common():
            print(f"{number:7,}  {reason}")
        print(f"\nOpen: {sum(map(len, self.open.values()))}")
        for difference, places in sorted(self.open.items()):
            print(f"{len(places):7,}  {difference}")
            for place in places[:MOST_SHOWN]:
                print(f"           {place}")


def _judge_request(report: Report, judge: Judge, request: Asked, exchange: Exchange) -> None:
    result = verdict(judge, request, exchange)
    report.count(f"requests: {result}")
    where = f"{request.provider} {request.api}"
    if result is Verdict.FALSE_RULE:
        for rule in broken_rules(judge, request):
            if not rule.is_retirement:
                report.differ(f"{where}: accepted, refused by {rule.id}", exchange.place)
    elif result is Verdict.MISSING_RULE:
        text = refusal_text(exchange)
        report.differ(f"{where}: {exchange.status}, by no rule: {text}", exchange.place)


async def _judge_answer(report: Report, judge: Judge, request: Asked, exchange: Exchange) -> None:
    where = f"{request.provider} {request.api}"
    try:
        message = await replayed(request, exchange)
    except SwinkError as error:
        report.differ(f"{where}: the call is refused: {error}", exchange.place)
        return
    if message.error_kind is not None:
        why = f"{message.error_kind}: {message.error_message}"
        report.differ(f"{where}: the answer fails: {why}", exchange.place)
        return
    reading = read_answer(request.wire_format, exchange.answer, exchange.media_type)
    if reading is None:
        report.count("answers: no independent reading")
    else:
        report.count("answers: read twice")
        for what in differences(reading, message):
            report.differ(f"{where}: differs in {what}", exchange.place)
    if message.content:
        try:
            rules = await history_refusals(judge, request, message)
        except SwinkError as error:
            report.differ(f"{where}: no history: {error}", exchange.place)
            return
        report.count("answers: sent back as history")
        for rule in rules:
            report.differ(f"{where}: as history refused by {rule.id}", exchange.place)


async def compare(folders: list[Path], agreement: Agreement) -> Report:
    """Compare every exchange of the folders; `agreement` counts how `lab.vendor` judges them."""
    report = Report()
    judge = agreement.judge
    for folder in folders:
        for exchange in exchanges_in(folder):
            request = asked(exchange)
            if request is None:
                report.count("exchanges: not with an API that swink speaks")
                continue
            report.count("exchanges: compared")
            _judge_request(report, judge, request, exchange)
            headers = _LEFT_OUT | exchange.request_headers
            agreement.compare(request, exchange.url, headers, exchange.request, exchange.place)
            if exchange.status < 300:
                await _judge_answer(report, judge, request, exchange)
    return report


def main() -> int:
    """Run the comparison for the folders named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    folders = parser.parse_args().folders
    for folder in folders:
        if not folder.is_dir():
            parser.error(f"{folder} is not a folder")
    os.environ.update(VARIABLES)
    agreement = Agreement()
    report = asyncio.run(compare(folders, agreement))
    report.print()
    print("\n".join(agreement.lines()))
    return 1 if report.open or agreement.differences else 0


if __name__ == "__main__":
    sys.exit(main())
