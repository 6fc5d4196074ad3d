"""`swink check`: runs the conformance checks on installed providers, without pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import click

from swink_cli.clients import chosen, kept_options
from swink_cli.completion import complete_model, complete_provider
from swink_cli.exits import EXIT_FAILURE
from swink_cli.listing import no_provider, print_json, print_lines
from swink_cli.terminal import fitted, printable, say, table
from swink_core import Host, InvalidOption, SwinkError
from swink_core.plugins.host import PluginEntry
from swink_testing.conformance import (
    PROVIDER_CHECKS,
    Check,
    Result,
    Subject,
    consistency_line,
    evidence_of,
    explain,
    run_checks,
)
from swink_testing.conformance.check import Outcome, each_result
from swink_testing.conformance.evidence import Evidence
from swink_testing.conformance.live import LIVE_CHECKS, LiveSubject
from swink_testing.mutants import killed_by, modules_of, mutants_of, would_find
from swink_testing.observers import (
    OBSERVER_CHECKS,
    WRAPPER_CHECKS,
    PluginSubject,
)

__all__ = ["command"]


@click.command("check")
@click.argument("provider", required=False, shell_complete=complete_provider)
@click.option(
    "-m",
    "--model",
    metavar="PROVIDER/MODEL",
    shell_complete=complete_model,
    help="The model to check with. Default: the first that the provider lists.",
)
@click.option(
    "--recordings",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Recordings to check with, instead of those in the package.",
)
@click.option(
    "--offline",
    is_flag=True,
    help="Make calls: they reach nothing outside this machine, though PROVIDER speaks no HTTP.",
)
@click.option(
    "--key-form",
    default="{}",
    metavar="FORM",
    help="The form of an API key, such as AK1:{}: the checks put their keys in the place of {}.",
)
@click.option("--live", is_flag=True, help="Ask the real API three short questions, with your key.")
@click.option("--base-url", metavar="URL", help="Another address of the real API.")
@click.option(
    "--explain",
    "explained",
    is_flag=True,
    help="Of a check that fails, say where: file and line, what was sent, what was expected.",
)
@click.option(
    "--mutants",
    "with_mutants",
    is_flag=True,
    help="Put faults into PROVIDER's package, one at a time, and name those that nothing finds.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    provider: str | None,
    model: str | None,
    recordings: Path | None,
    offline: bool,
    key_form: str,
    live: bool,
    base_url: str | None,
    explained: bool,
    with_mutants: bool,
    as_json: bool,
) -> int:
    """Run the conformance checks on PROVIDER; without PROVIDER, on all installed providers.

    PROVIDER may also be the name of an installed observer or wrapper.

    Without --live, nothing is sent to a server. The exit code is 1 if a check fails.
    """
    if model is not None:
        model = chosen([model])[0]
        provider = provider or model.partition("/")[0]
    _refuse_nonsense(provider, model, recordings, offline, live, base_url)
    if "{}" not in key_form or (provider is None and key_form != "{}"):
        raise InvalidOption(
            "--key-form is the form of one provider's keys, with {} in it",
            resolution="Name the provider, and write {} where a key is different for each user.",
        )
    if with_mutants and (provider is None or live or explained):
        raise InvalidOption(
            "--mutants is about one provider's package, and not live",
            resolution="Name the provider, without --live and --explain.",
        )
    if explained and (provider is None or live or as_json):
        raise InvalidOption(
            "--explain is about one provider, as lines of text, and not live",
            resolution="Name it, without --live and --json.",
        )
    if provider is None:
        return _check_all(as_json)
    host = Host()
    for_providers = model, recordings, offline, live, explained, with_mutants, key_form != "{}"
    if provider not in host.provider_names():
        for entry in host.entries():
            if entry.name == provider:
                if any(for_providers):
                    raise InvalidOption(
                        f"{provider} is not a provider: only --json applies to its checks",
                        resolution="Leave the other options out.",
                    )
                return _check_plugin(entry, as_json)
    found_by = partial(Subject.find, provider, model, recordings=recordings, key_form=key_form)
    subject = found_by(offline=offline or None)
    if with_mutants:
        return _show_mutants(provider, subject, found_by, as_json)
    if live:
        options = kept_options([provider]).get(provider, {})
        if base_url is not None:
            options["base_url"] = base_url
        each = each_result(LIVE_CHECKS, LiveSubject(subject, options))
        return _exit_code(_show(provider, LIVE_CHECKS, each, as_json))
    each = each_result(PROVIDER_CHECKS, subject, subject.waivers)
    found = _show(provider, PROVIDER_CHECKS, each, as_json, subject)
    for check, result in zip(PROVIDER_CHECKS, found, strict=True):
        if explained and result.is_fault:
            print_lines(["", *map(printable, explain(subject, check, result))])
    return _exit_code(found)


def _show_mutants(
    provider: str, subject: Subject, find: Callable[[], Subject], as_json: bool
) -> int:
    """Print a package's mutants that no check detects.

    The exit code is always 0, because some mutants do not change the behaviour.
    """
    if (broken := killed_by(subject)) is not None:
        raise InvalidOption(
            f"{provider} fails {broken} without a mutant",
            resolution=f"Mend that first: swink check {provider} --explain.",
        )
    rows: list[dict[str, str | None]] = []
    for module in modules_of(subject.entry.package):
        for mutant in mutants_of(module):
            with mutant.installed():
                killer = killed_by(find())
            rows.append({"mutant": mutant.name, "place": mutant.place, "found_by": killer})
            if killer is None and not as_json:
                line = f"{mutant.place}: {mutant.name} survives: {would_find(mutant)}"
                print_lines([printable(line)])
    if as_json:
        print_json([{"provider": provider, "mutants": rows}])
        return 0
    survive = sum(row["found_by"] is None for row in rows)
    print_lines(["", f"{provider}: {len(rows) - survive} of {len(rows)} mutants found"])
    return 0


def _check_plugin(entry: PluginEntry, as_json: bool) -> int:
    def make() -> Any:
        loaded = entry.load()
        return loaded() if isinstance(loaded, type | FunctionType) else loaded

    made = make()
    if all(name.startswith("_") for name in dir(made)):  # `None`, or what has nothing at all
        raise InvalidOption(
            f'the plugin "{entry.name}" ({entry.distribution}) is installed and not configured',
            resolution="Set what its documentation names, and check it again.",
        )
    subject = PluginSubject(make, make)
    checks = WRAPPER_CHECKS if subject.wraps else OBSERVER_CHECKS
    each = each_result(checks, subject)
    return _exit_code(_show(entry.name, checks, each, as_json))


def _refuse_nonsense(
    provider: str | None,
    model: str | None,
    recordings: Path | None,
    offline: bool,
    live: bool,
    base_url: str | None,
) -> None:
    if provider is None and (live or offline or recordings is not None):
        raise InvalidOption(
            "--live, --offline and --recordings are about one provider", resolution="Name it."
        )
    if base_url is not None and not live:
        raise InvalidOption(
            "without --live nothing is sent, so that --base-url means nothing",
            resolution="Add --live, or leave --base-url out.",
        )
    if model is not None and model.partition("/")[0] != provider:
        raise InvalidOption(
            f"{model} is not a model of {provider}",
            resolution=f"Write {provider}/ID, or leave {provider} out.",
        )


def _show(
    provider: str,
    checks: Sequence[Check[Any]],
    each: Iterator[Result],
    as_json: bool,
    subject: Subject | None = None,
) -> list[Result]:
    """Print a row for each check as it ends, then the summary, and return the results."""
    if as_json:
        found = list(each)
        print_json([_data(provider, found, None if subject is None else evidence_of(subject))])
        return found
    found = []
    headings = ("CHECK", "RESULT", "")
    widest = (max((check.name for check in checks), key=len), max(Outcome, key=len).value, "")
    above = table([widest], headings)
    print_lines(above[:1])
    for check, result in zip(checks, each, strict=True):
        found.append(result)
        row = (check.name, result.outcome.value, result.detail or check.about)
        print_lines(table([widest, *_printable([row])], headings)[len(above) :])
    print_lines(["", fitted(f"{provider}: {consistency_line(found)}")])
    if subject is not None:
        first, *more = evidence_of(subject).lines()
        print_lines([fitted(f"{provider}: {first}"), *(printable(f"  {line}") for line in more)])
    return found


def _exit_code(found: Sequence[Result]) -> int:
    return EXIT_FAILURE if any(result.is_fault for result in found) else 0


def _check_all(as_json: bool) -> int:
    results: dict[str, list[Result]] = {}
    evidence: dict[str, Evidence] = {}
    unfit: dict[str, str] = {}
    for name in Host().provider_names():
        try:
            subject = Subject.find(name)
            evidence[name] = evidence_of(subject)
            results[name] = run_checks(PROVIDER_CHECKS, subject, subject.waivers)
        except SwinkError as error:
            unfit[name] = error.message
    faulty = {name for name, found in results.items() if any(r.is_fault for r in found)}
    if as_json:
        rows = [_data(name, found, evidence[name]) for name, found in results.items()]
        print_json([*rows, *({"provider": n, "error": why} for n, why in unfit.items())])
    elif not (results or unfit):
        print_lines([no_provider(Host())])
    else:
        headings = ("PROVIDER", "CONSISTENT", "EVIDENCE", "")
        print_lines(table(_printable(_overview(results, evidence, unfit)), headings))
        for name in sorted(faulty):
            say(f"swink check {name} tells more.")
    return EXIT_FAILURE if faulty or unfit else 0


def _overview(
    results: Mapping[str, Sequence[Result]],
    evidence: Mapping[str, Evidence],
    unfit: Mapping[str, str],
) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, found in results.items():
        faults = [f"{result.name}: {result.detail}" for result in found if not result.holds]
        applied = sum(result.applied for result in found)
        holding = sum(result.holds and result.applied for result in found)
        backed, missing = len(evidence[name].backed), len(evidence[name].missing)
        shown = f"{backed} of {backed + missing}" if backed + missing else "-"
        rows.append((name, f"{holding} of {applied}", shown, "; ".join(faults)))
    return sorted([*rows, *((name, "-", "-", why) for name, why in unfit.items())])


def _printable(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(printable(" ".join(cell.split())) for cell in row) for row in rows]


def _data(provider: str, found: Sequence[Result], evidence: Evidence | None) -> dict[str, object]:
    return {
        "provider": provider,
        "consistent": not any(result.is_fault or not result.holds for result in found),
        "applied": sum(result.applied for result in found),
        "evidence": None if evidence is None else evidence.data(),
        "checks": [
            {
                "name": result.name,
                "outcome": result.outcome.value,
                "detail": result.detail,
                "faults": [str(fault) for fault in result.faults],
                "waived": list(result.waived),
            }
            for result in found
        ],
    }
