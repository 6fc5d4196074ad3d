"""`swink check`: the conformance kit on installed providers, without pytest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    LEVELS,
    PROVIDER_CHECKS,
    Check,
    Result,
    Subject,
    explain,
    level_line,
    level_reached,
    run_checks,
)
from swink_testing.conformance.check import Outcome, each_result
from swink_testing.conformance.live import LIVE_CHECKS, LIVE_LEVELS, LiveSubject
from swink_testing.observers import (
    OBSERVER_CHECKS,
    WRAPPER_CHECKS,
    ObserverConformance,
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
@click.option("--live", is_flag=True, help="Ask the real API three short questions, with your key.")
@click.option("--base-url", metavar="URL", help="Another address of the real API.")
@click.option(
    "--explain",
    "explained",
    is_flag=True,
    help="Of a check that fails, say where: file and line, what was sent, what was expected.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    provider: str | None,
    model: str | None,
    recordings: Path | None,
    offline: bool,
    live: bool,
    base_url: str | None,
    explained: bool,
    as_json: bool,
) -> int:
    """Check that PROVIDER keeps what every provider promises; without one, check all installed.

    An installed observer or wrapper is checked by its name too.

    Nothing is sent anywhere, unless --live says so. The exit code is 1 where a check fails.
    """
    if model is not None:
        model = chosen([model])[0]
        provider = provider or model.partition("/")[0]
    _refuse_nonsense(provider, model, recordings, offline, live, base_url)
    if explained and (provider is None or live or as_json):
        raise InvalidOption(
            "--explain is about one provider, as lines of text, and not live",
            resolution="Name it, without --live and --json.",
        )
    if provider is None:
        return _check_all(as_json)
    host = Host()
    if provider not in host.provider_names():
        for entry in host.entries():
            if entry.name == provider:
                return _check_plugin(entry, as_json)
    subject = Subject.find(provider, model, recordings=recordings, offline=offline or None)
    if live:
        options = kept_options([provider]).get(provider, {})
        if base_url is not None:
            options["base_url"] = base_url
        each = each_result(LIVE_CHECKS, LiveSubject(subject, options))
        return _exit_code(_show(provider, LIVE_CHECKS, each, LIVE_LEVELS, as_json))
    each = each_result(PROVIDER_CHECKS, subject, subject.known_failures)
    found = _show(provider, PROVIDER_CHECKS, each, LEVELS, as_json)
    for result in (result for result in found if explained and result.is_fault):
        print_lines(["", *map(printable, explain(subject, result))])
    return _exit_code(found)


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
    return _exit_code(_show(entry.name, checks, each, ObserverConformance.levels, as_json))


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
    levels: Mapping[int, str],
    as_json: bool,
) -> list[Result]:
    """Print each check's row as it ends, and return the results."""
    if as_json:
        found = list(each)
        print_json([_data(provider, found, levels)])
        return found
    found = []
    headings = ("LEVEL", "CHECK", "RESULT", "")
    widest = ("", max((check.name for check in checks), key=len), max(Outcome, key=len).value, "")
    above = table([widest], headings)
    print_lines(above[:1])
    for check, result in zip(checks, each, strict=True):
        found.append(result)
        row = (str(check.level), check.name, result.outcome.value, result.detail or check.about)
        print_lines(table([widest, *_printable([row])], headings)[len(above) :])
    print_lines(["", fitted(f"{provider}: {level_line(found, levels)}")])
    return found


def _exit_code(found: Sequence[Result]) -> int:
    return EXIT_FAILURE if any(result.is_fault for result in found) else 0


def _check_all(as_json: bool) -> int:
    results: dict[str, list[Result]] = {}
    unfit: dict[str, str] = {}
    for name in Host().provider_names():
        try:
            subject = Subject.find(name)
            results[name] = run_checks(PROVIDER_CHECKS, subject, subject.known_failures)
        except SwinkError as error:
            unfit[name] = error.message
    faulty = {name for name, found in results.items() if any(r.is_fault for r in found)}
    if as_json:
        rows = [_data(name, found, LEVELS) for name, found in results.items()]
        print_json([*rows, *({"provider": n, "error": why} for n, why in unfit.items())])
    elif not (results or unfit):
        print_lines([no_provider(Host())])
    else:
        print_lines(
            table(_printable(_overview(results, unfit)), ("PROVIDER", "LEVEL", "APPLIED", ""))
        )
        for name in sorted(faulty):
            say(f"swink check {name} tells more.")
    return EXIT_FAILURE if faulty or unfit else 0


def _overview(
    results: Mapping[str, Sequence[Result]], unfit: Mapping[str, str]
) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, found in results.items():
        level = level_reached(found)
        faults = [f"{result.name}: {result.detail}" for result in found if not result.holds]
        applied = f"{sum(result.applied for result in found)} of {len(found)}"
        rows.append((name, str(level or "-"), applied, "; ".join(faults) or LEVELS[level]))
    return sorted([*rows, *((name, "-", "-", why) for name, why in unfit.items())])


def _printable(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(printable(" ".join(cell.split())) for cell in row) for row in rows]


def _data(provider: str, found: Sequence[Result], levels: Mapping[int, str]) -> dict[str, object]:
    return {
        "provider": provider,
        "level": level_reached(found, levels),
        "applied": sum(result.applied for result in found),
        "checks": [
            {
                "name": result.name,
                "level": result.level,
                "outcome": result.outcome.value,
                "detail": result.detail,
            }
            for result in found
        ],
    }
