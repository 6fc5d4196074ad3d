"""`swink batch`: answer a file of prompts."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click

from swink_batch.forms import names_fields
from swink_batch.job import Job, Order, check_place
from swink_batch.progress import Progress
from swink_batch.report import check_form, lines, write_report
from swink_batch.settings import CONCURRENCY, Via
from swink_batch.tally import Tally
from swink_cli.exits import EXIT_FAILURE, EXIT_INCOMPLETE, EXIT_INTERRUPTED
from swink_cli.options import CallOptions, call_options
from swink_cli.terminal import say, spelled_here
from swink_core import MediaError, UsageError

__all__ = ["command"]

TICK_SECONDS = 0.25

ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a run; containers and service managers send SIGTERM."""


def _shard(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, int]:
    number, _, count = value.partition("/")
    if not (number.isdecimal() and count.isdecimal()):
        raise click.BadParameter(f"{value!r} is not of the form I/N, as in 1/4")
    return int(number), int(count)


@click.command("batch")
@click.argument("requests", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The output file, in JSON lines.",
)
@click.option(
    "--prompt",
    metavar="TEXT|@FILE",
    help="A prompt template; fields in braces, {text}, are replaced by a row's values. Default: "
    "each row's own prompt or messages.",
)
@click.option(
    "--id",
    "id_field",
    default="id",
    show_default=True,
    metavar="FIELD",
    help="The field that identifies rows; a row without it is identified by its number.",
)
@click.option(
    "--order",
    type=click.Choice(get_args(Order)),
    default="completion",
    show_default=True,
    help="Write answers as they arrive, or in the order of the rows at the end.",
)
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Where to store the progress: a folder, or a database (*.db, *.sqlite, *.sqlite3). "
    "Default: the output's name with .journal.",
)
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="Resume an earlier run, or send all rows again.",
)
@click.option(
    "--retry-failed",
    is_flag=True,
    help="Retry all rows that failed in an earlier run. Failures that are not caused by the row "
    "(key, quota, rate limit, network) are always retried.",
)
@click.option(
    "--concurrency",
    type=int,
    default=CONCURRENCY,
    show_default=True,
    metavar="N",
    help="Maximum number of concurrent calls; the provider's limits may reduce it.",
)
@click.option(
    "--via",
    type=click.Choice(get_args(Via)),
    default="calls",
    show_default=True,
    help=(
        "Make calls, or submit all rows to the vendor's batch API: within a day, at a lower price."
    ),
)
@click.option("--cancel", is_flag=True, help="Cancel batches submitted with --via batch.")
@click.option(
    "--rpm", type=float, metavar="N", help="Known rate limit of a model, in requests per minute."
)
@click.option(
    "--tpm", type=float, metavar="N", help="Known rate limit of a model, in tokens per minute."
)
@click.option(
    "--shard",
    callback=_shard,
    default="1/1",
    metavar="I/N",
    help="Process part I of N; other processes with the same journal process the others.",
)
@click.option(
    "--limits",
    "shared_limits",
    metavar="redis://HOST",
    help="Share rate limits with other processes through Redis.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a report, as a chart (*.svg) or as data (*.json).",
)
@partial(call_options, without="-o")
def command(
    call: CallOptions,
    requests: Path,
    output: Path,
    prompt: str | None,
    order: Order,
    shared_limits: str | None,
    report: Path | None,
    **settings: Any,
) -> int:
    """Answer a file of prompts: REQUESTS is JSONL, CSV or Parquet.

    A run that was stopped for any reason resumes when you start it again; answered rows are not
    sent again.

    \b
        swink batch reviews.csv -o labels.jsonl -m openai/gpt-5.4-mini --prompt "Good? {text}"
    """
    call.require_model()
    if report is not None:
        check_form(report)
        check_place(report)
    if prompt is not None and prompt.startswith("@"):
        prompt = _text(Path(prompt[1:]))
    if output == Path("-"):
        raise UsageError(
            "answers cannot be written to standard output",
            resolution="Pass a file: a resumed run rewrites it.",
        )
    if output.resolve() == requests.resolve():
        raise UsageError(f"{output} is the input file", resolution="Name another output.")
    options = dict(call.options)
    if call.system is not None:
        options["system_prompt"] = call.system
    if call.tools:
        options["tools"] = call.tools
    if shared_limits is not None:
        from swink_batch.shared import RedisTurns

        settings["turns"] = RedisTurns(shared_limits)
    if call.limits is not None:
        settings["limits"] = call.limits.limits
    job = Job(models=call.models, prompt=prompt, options=options, **settings)
    if prompt is not None and not names_fields(prompt):
        say(
            "the prompt contains no field of a row, such as {text}: all rows would send the "
            "same prompt"
        )
    tally, interrupted = asyncio.run(_run(job, requests, output, order))
    for line in lines(tally):
        say(spelled_here(line))
    if report is not None:
        write_report(tally, report)
    if interrupted:
        return EXIT_INTERRUPTED
    if tally.stopped:
        return EXIT_INCOMPLETE
    return EXIT_FAILURE if tally.failed or tally.kept_failed else 0


def _text(path: Path) -> str:
    try:
        return path.expanduser().read_text("utf-8-sig")
    except (OSError, RuntimeError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise MediaError(
            f"the prompt {path} cannot be read: {why}", resolution="Pass a text file after the @."
        ) from error


async def _run(job: Job, requests: Path, output: Path, order: Order) -> tuple[Tally, bool]:
    """Run a job; the first signal lets calls in progress finish, the second cancels them."""
    progress, seen = Progress(sys.stderr), list[Tally]()
    loop = asyncio.get_running_loop()

    def watch(tally: Tally) -> None:
        if not seen:
            seen.append(tally)
        progress(tally)

    running = loop.create_task(job.run(requests, output, order, watch))
    received = list[signal.Signals]()

    def stop(number: signal.Signals) -> None:
        received.append(number)
        if len(received) == 1 and seen:
            seen[0].stop("interrupted")
            progress.close()  # erase the line that is redrawn
            say("waiting for calls in progress; press Ctrl-C again to cancel them")
        else:
            running.cancel()

    for number in ENDING:
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, stop, number)
    try:
        while not running.done():
            await asyncio.wait([running], timeout=TICK_SECONDS)
            if seen:
                seen[0].now = loop.time()  # so that the rate falls while no answer arrives
                progress(seen[0])
        return running.result(), bool(received)
    except asyncio.CancelledError:
        if not (received and seen):
            raise
        return seen[0], True
    finally:
        progress.close()
        for number in ENDING:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
