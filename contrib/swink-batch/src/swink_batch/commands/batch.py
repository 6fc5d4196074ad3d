"""`swink batch`: a file of prompts, answered."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from swink_batch.forms import names_fields
from swink_batch.job import Job, Order, check_place
from swink_batch.progress import Progress
from swink_batch.report import check_form, lines, write_report
from swink_batch.settings import CONCURRENCY
from swink_batch.tally import Tally
from swink_cli.exits import EXIT_FAILURE, EXIT_INCOMPLETE, EXIT_INTERRUPTED
from swink_cli.options import CallOptions, call_options
from swink_cli.terminal import say, spelled_here
from swink_core import MediaError, UsageError

__all__ = ["command"]

TICK_SECONDS = 0.25


def _shard(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, int]:
    number, _, count = value.partition("/")
    if not (number.isdecimal() and count.isdecimal()):
        raise click.BadParameter(f"{value!r} is not I/N, as in 1/4")
    return int(number), int(count)


@click.command("batch")
@click.argument("requests", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Where to write the answers, as JSON lines.",
)
@click.option(
    "--prompt",
    metavar="TEXT|@FILE",
    help="A prompt whose fields in braces, {text}, stand for a row's values. "
    "Default: each row's own prompt or messages.",
)
@click.option(
    "--id",
    "id_field",
    default="id",
    show_default=True,
    metavar="FIELD",
    help="The field that tells rows apart; a row without one is known by its number.",
)
@click.option(
    "--order",
    type=click.Choice(["completion", "input"]),
    default="completion",
    show_default=True,
    help="Write answers as they come, or at the end in the order of the rows.",
)
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Where to keep what was answered: a folder, or a database (*.db, *.sqlite, *.sqlite3). "
    "Default: the output's name and .journal.",
)
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="Go on where an earlier run was, or ask all rows anew.",
)
@click.option(
    "--retry-failed",
    is_flag=True,
    help="Ask all rows again that failed in an earlier run; those that failed by no fault of "
    "theirs (key, quota, rate, network) are asked again without it.",
)
@click.option(
    "--concurrency",
    type=int,
    default=CONCURRENCY,
    show_default=True,
    metavar="N",
    help="The most calls at a time; fewer are made where the provider wants fewer.",
)
@click.option(
    "--via",
    type=click.Choice(["calls", "batch"]),
    default="calls",
    show_default=True,
    help="Make calls, or hand all rows to the vendor's batch API: within a day, at a lower price.",
)
@click.option("--cancel", is_flag=True, help="End what was handed over with --via batch.")
@click.option("--rpm", type=float, metavar="N", help="Requests a minute that a model may get.")
@click.option("--tpm", type=float, metavar="N", help="Tokens a minute that a model may get.")
@click.option(
    "--shard",
    callback=_shard,
    default="1/1",
    metavar="I/N",
    help="Ask part I of N: the others are asked by processes that share the journal.",
)
@click.option(
    "--limits",
    "shared_limits",
    metavar="redis://HOST",
    help="Share limits of the rate with other processes through Redis.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what it came to, as a chart (*.svg) or as data (*.json).",
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

    A run that was stopped, by whatever, goes on where it was when it is started again: nothing that
    was answered is asked for twice.

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
            "answers are not written to standard output",
            resolution="Name a file: a run that is stopped writes it anew when it goes on.",
        )
    if output.resolve() == requests.resolve():
        raise UsageError(f"{output} is the file of requests", resolution="Name another output.")
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
        say("the prompt names no field of a row, as {text} does: all rows are asked the same")
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
            f"the prompt {path} cannot be read: {why}", resolution="Name a text file after the @."
        ) from error


async def _run(job: Job, requests: Path, output: Path, order: Order) -> tuple[Tally, bool]:
    """Carry out a job; the first Ctrl-C lets what is under way end, the second does not."""
    progress, seen = Progress(sys.stderr), list[Tally]()
    loop = asyncio.get_running_loop()

    def watch(tally: Tally) -> None:
        if not seen:
            seen.append(tally)
        progress(tally)

    running = loop.create_task(job.run(requests, output, order, watch))
    presses = list[int]()

    def stop() -> None:
        presses.append(signal.SIGINT)
        if len(presses) == 1 and seen:
            seen[0].stop("interrupted")
            progress.close()  # of the line that is drawn anew
            say("calls under way go on to their end; Ctrl-C again ends them")
        else:
            running.cancel()

    with suppress(NotImplementedError):
        loop.add_signal_handler(signal.SIGINT, stop)
    try:
        while not running.done():
            await asyncio.wait([running], timeout=TICK_SECONDS)
            if seen:
                seen[0].now = loop.time()  # a rate falls while nothing comes
                progress(seen[0])
        return running.result(), bool(presses)
    except asyncio.CancelledError:
        if not (presses and seen):
            raise
        return seen[0], True
    finally:
        progress.close()
        with suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)
