"""The command `python -m swink_judge.matrix`. Its exit code is 1 if any finding needs a fix."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

from swink_judge import Judge
from swink_judge.matrix.exceptions import excuses
from swink_judge.matrix.findings import FAULTS, Finding, Kind, Run, RunOptions, examined


def main() -> int:
    """Make the calls and print the findings, one line for each rule and provider."""
    parser = argparse.ArgumentParser(prog="python -m swink_judge.matrix", description=__doc__)
    parser.add_argument("providers", nargs="*", help="providers; all that are installed")
    parser.add_argument("--share", type=int, default=1, help="one case in so many (default: 1)")
    parser.add_argument("--models", default="", help="only ids that contain this")
    parser.add_argument("--what", help="only findings whose rule or words contain this")
    parser.add_argument("--bodies", type=int, default=0, help="show so many requests of each")
    parser.add_argument(
        "--all", action="store_true", help="notices and refusals before sending too"
    )
    given = parser.parse_args()
    started = time.monotonic()
    cases = RunOptions(given.providers, given.share, lambda model: given.models in model.id)
    run = asyncio.run(examined(Judge(), cases))
    seconds = time.monotonic() - started
    rows = list(run.rows(Kind if given.all else FAULTS))
    for kind, what, provider, count, finding in rows:
        if given.what and given.what not in what:
            continue
        example = finding.outcome.case
        print(f"{kind} | {what} | {provider} | {count} | {example}")
        for shown in run.found[kind, what, provider][: given.bodies]:
            _show(shown)
    unjudged = run.unjudged.total()
    print(
        f"{run.cases} cases, {run.sent} sent, {run.sent - unjudged} judged, in {seconds:.0f} s; "
        + ", ".join(f"{_sum(run, kind)} {kind}" for kind in Kind),
        file=sys.stderr,
    )
    if unjudged:
        names = ", ".join(f"{provider} {api} ({n})" for (provider, api), n in run.unjudged.items())
        print(f"{unjudged} unjudged, to APIs without rules: {names}", file=sys.stderr)
    if not given.providers and given.share == 1 and not given.models:
        for excuse in excuses():
            if excuse not in run.excused and excuse.provider in Judge().providers:
                print(f"an exception that covers nothing: {excuse}", file=sys.stderr)
    return 1 if any(_sum(run, kind) for kind in FAULTS) else 0


def _sum(run: Run, kind: Kind) -> int:
    return sum(count for (found, _, _), count in run.counts.items() if found is kind)


def _show(finding: Finding) -> None:
    print(f"    {finding.outcome.case}")
    if finding.rule is not None:
        print(f"    HTTP {finding.rule.status} {finding.rule.message}\n    {finding.rule.source}")
    for notice in finding.outcome.notices:
        print(f"    notice {notice.code}: {notice.detail}")
    if finding.outcome.asked is not None:
        body = json.dumps(finding.outcome.asked.body, ensure_ascii=False)
        print(f"    {finding.outcome.request.url if finding.outcome.request else ''}\n    {body}")


if __name__ == "__main__":
    sys.exit(main())
