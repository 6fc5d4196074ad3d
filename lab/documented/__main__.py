"""Send both rounds of conversations to all models, and judge each request by rules and by types.

    python -m lab.documented [PROVIDER ...] [--round 1|2] [--models TEXT] [--show N] [--all]

The models are those of the catalogue and thirty invented ones. A request is judged by
the rules, by the values that it lacks, by the types of the vendor's SDK, where
`.venv-sdks` has it, and by `lab.vendor`. `accepted.py` lists the misfits that have a reason.
Exit code 1 where something is refused, lost or broken, or where vendor and rules differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import define, field

from lab.agreement import Agreement
from lab.documented.accepted import is_accepted
from lab.documented.first_round import first_round
from lab.documented.second_round import second_round
from lab.documented.successors import SUCCESSORS
from lab.documented.typed import SDKS
from swink_core import Context
from swink_judge.matrix.asker import Asker, Outcome
from swink_judge.matrix.cases import Case
from swink_judge.matrix.expected_values import Said
from swink_judge.matrix.findings import FAULTS, Kind, Run
from swink_judge.matrix.models import AskedModel

ROOT = Path(__file__).resolve().parents[2]

TYPED = {
    "openai": ("openai-chat", "openai-responses"),
    "azure": ("openai-chat", "openai-responses"),
    "anthropic": ("anthropic-messages",),
    "gemini": ("gemini-generate-content",),
    "vertex": ("gemini-generate-content",),
    "bedrock": ("bedrock-converse",),
    "cohere": ("cohere-chat",),
    "mistral": ("mistral-chat",),
    "ollama": ("ollama-chat",),
}
"""Providers and their wire formats that are judged by types."""

ROUNDS = {1: first_round, 2: second_round}

Row = tuple[str, Context, dict[str, Any]]


@define
class Misfits:
    """Requests to be held against types, and what does not fit."""

    bodies: dict[str, dict[str, str]] = field(factory=dict)
    counts: Counter[tuple[str, str]] = field(factory=Counter)
    examples: dict[tuple[str, str], str] = field(factory=dict)
    judged: int = 0
    without: set[str] = field(factory=set)

    def add(self, outcome: Outcome) -> None:
        """Keep the request of an outcome, unless one like it is here."""
        asked = outcome.asked
        if asked is None:
            return
        provider = outcome.case.provider
        wire_format = "mistral-chat" if provider == "mistral" else asked.wire_format
        if wire_format not in TYPED.get(provider, ()):
            return
        body = {**asked.body, "model": "any"} if "model" in asked.body else asked.body
        line = json.dumps([wire_format, body])
        self.bodies.setdefault(SDKS[wire_format], {}).setdefault(line, str(outcome.case))

    def judge(self) -> None:
        """Hold all requests against the types of their SDKs."""
        for sdk, lines in self.bodies.items():
            python = ROOT / ".venv-sdks" / sdk / "bin" / "python"
            if not python.exists():
                self.without.add(sdk)
                continue
            command = [str(python), "-m", "lab.documented.typed", sdk]
            text = "\n".join(lines)
            ran = subprocess.run(
                command, input=text, capture_output=True, text=True, cwd=ROOT, check=True
            )
            for (_, case), found in zip(lines.items(), ran.stdout.splitlines(), strict=True):
                self.judged += 1
                for fault in json.loads(found):
                    if is_accepted(sdk, fault):
                        continue
                    key = sdk, fault
                    self.counts[key] += 1
                    self.examples.setdefault(key, case)


async def send(
    providers: list[str], rows: list[Row], only: str, run: Run, agreement: Agreement
) -> Misfits:
    """Make the calls of each row to each model; `run` and `agreement` count what is found."""
    judge = agreement.judge
    misfits = Misfits()
    async with Asker() as asker:
        for info in asker.providers(providers):
            models = [*_models(asker, info.name, only)]
            for name, context, options in rows:
                asker.hold(info.name, Said(name, context))
                for model in models:
                    case = Case(info.name, model, name, options)
                    outcome = await asker.outcome(case)
                    plain = outcome
                    if options:
                        plain = await asker.outcome(Case(info.name, model, name, {}))
                    run.count(judge, outcome, plain)
                    misfits.add(outcome)
                    if outcome.asked is not None and outcome.request is not None:
                        request = outcome.request
                        body = request.body or b""
                        agreement.compare(
                            outcome.asked, request.url, request.headers, body, str(case)
                        )
    return misfits


def _models(asker: Asker, provider: str, only: str) -> Iterator[AskedModel]:
    listed = [info.id for info in asker.catalog.models(provider)] or ["any"]
    for id in listed:
        if only in id:
            yield AskedModel(id, "listed", id)
    for id in SUCCESSORS.get(provider, ()):
        if only in id:
            yield AskedModel(id, "successor", id)


def main() -> int:
    """Make the calls, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m lab.documented", description=__doc__)
    parser.add_argument("providers", nargs="*", help="providers; all that are installed")
    parser.add_argument("--round", type=int, choices=[1, 2], help="one round alone")
    parser.add_argument("--models", default="", help="only ids that contain this")
    parser.add_argument("--show", type=int, default=60, help="so many misfits (default: 60)")
    parser.add_argument("--all", action="store_true", help="calls refused before sending, too")
    given = parser.parse_args()
    rows = [row for n, made in ROUNDS.items() if given.round in (None, n) for row in made()]
    run = Run()
    agreement = Agreement()
    began = time.monotonic()
    misfits = asyncio.run(send(given.providers, rows, given.models, run, agreement))
    misfits.judge()
    kinds = [*FAULTS, Kind.USAGE_ERROR]
    for kind, what, provider, count, finding in run.rows(Kind if given.all else kinds):
        print(f"{kind} | {what} | {provider} | {count} | {finding.outcome.case}")
    for (sdk, fault), count in misfits.counts.most_common(given.show):
        print(
            f"does not fit the types of {sdk} | {fault} | {count} | {misfits.examples[sdk, fault]}"
        )
    print("\n".join(agreement.lines()))
    for sdk in sorted(misfits.without):
        print(f"not judged by types: make .venv-sdks/{sdk}/.installed", file=sys.stderr)
    counted = {kind: sum(n for key, n in run.counts.items() if key[0] is kind) for kind in Kind}
    print(
        f"{run.cases} calls, {run.sent} sent, {run.unjudged.total()} to APIs without rules, "
        f"{misfits.judged} different requests held against types, "
        f"{misfits.counts.total()} misfits, in {time.monotonic() - began:.0f} s; "
        + ", ".join(f"{count} {kind}" for kind, count in counted.items()),
        file=sys.stderr,
    )
    wrong = misfits.counts or agreement.differences
    return 1 if wrong or any(counted[kind] for kind in kinds) else 0


if __name__ == "__main__":
    sys.exit(main())
