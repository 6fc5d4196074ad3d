"""`swink log`: list, search, sum up, replay, export and delete stored calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem

from swink_cli.commands.log.costs import costs_cells, summed, sums
from swink_cli.commands.recordings import play_recording
from swink_cli.display import make_sink
from swink_cli.extraction import code_blocks
from swink_cli.files import encode_json
from swink_cli.listing import print_json, print_lines, print_rows, reads
from swink_cli.memory import memory_path
from swink_cli.summary import money
from swink_cli.terminal import printable, say, table
from swink_core import SwinkError, UsageError
from swink_recorder.documents import read_document
from swink_recorder.plugin import PATH_ENV
from swink_recorder.recording import Recording
from swink_recorder.store import SUFFIXES, Entry, FolderStore, SQLiteStore, open_store
from swink_recorder.takes import Take, write_takes

__all__ = ["command", "last"]

MOST_OFFERED = 200
"""The maximum number of calls that completion offers, newest first."""

_raw_option = click.option(
    "-r", "--raw", is_flag=True, help="Print only the answer, without formatting."
)
_code_option = click.option(
    "-x", "--code", is_flag=True, help="Print only the code blocks of the answer."
)

HEADINGS = ("ID", "WHEN", "MODEL", "END", "TOKENS", "PROMPT")


def _complete(context: click.Context, _: click.Parameter, start: str) -> list[CompletionItem]:
    """Complete call ids; on an error, offer nothing."""
    try:
        path = context.obj or memory_path()
        found = [] if path is None else list(islice(open_store(path).entries(), MOST_OFFERED))
    except (OSError, SwinkError):
        return []
    return [CompletionItem(e.id, help=_line(e.prompt)) for e in found if e.id.startswith(start)]


_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_many = click.option(
    "-n", "--number", type=click.IntRange(1, 1_000_000), default=20, show_default=True,
    help="Maximum number of rows.",
)  # fmt: skip


@click.group("log", invoke_without_command=True)
@click.option(
    "--store",
    "path",
    metavar="PATH",
    help="The folder or SQLite file to read. Default: where calls are stored.",
)
@_many
@_as_json
@click.pass_context
def command(context: click.Context, path: str | None, number: int, as_json: bool) -> None:
    """Show stored calls and conversations; without a command, list the newest calls.

    The calls of `swink ask` and `swink chat` are stored in a private file (`swink log path`),
    unless the configuration has `log = false`. If SWINK_RECORD names a folder or a SQLite file
    (calls.sqlite), the calls of all programs are stored there; `off` stores none.
    """
    context.obj = path
    given = {"number": number, "as_json": as_json}
    if context.invoked_subcommand is None:
        context.invoke(list_calls, **given)
    context.default_map = dict.fromkeys(command.commands, given)


def _path() -> Path:
    given = click.get_current_context().obj
    if given == "":
        raise _nothing("--store is empty", "Pass a folder or a SQLite file of calls.")
    path = memory_path() if given is None else open_store(given).path
    if path is None:
        raise _nothing(
            f"calls are not stored: {PATH_ENV} is off, or `log = false` is configured",
            "Pass a folder or a SQLite file of calls with --store.",
        )
    return path


def _store() -> FolderStore | SQLiteStore:
    store = open_store(_path())
    if not store.path.exists():
        raise _nothing(f"there is no {store.path}", "It is created when the first call is stored.")
    if isinstance(store, FolderStore) and not store.path.is_dir():
        names = ", ".join(SUFFIXES)
        resolution = f"Pass a folder, or a SQLite file, whose name ends in one of {names}."
        raise _nothing(f"{store.path} is a file that contains no calls", resolution)
    return store


def _nothing(why: str, resolution: str) -> UsageError:
    return UsageError(why, title="No stored calls", resolution=resolution)


@command.command("path")
def path() -> None:
    """Print where calls are stored."""
    print_lines([str(_path())])


@command.command("list")
@_many
@_as_json
def list_calls(number: int, as_json: bool) -> None:
    """List the newest calls."""
    _show(islice(_store().entries(), number), as_json, "No calls are stored yet.")


@command.command("search")
@click.argument("words", nargs=-1, required=True)
@_many
@_as_json
def search(words: tuple[str, ...], number: int, as_json: bool) -> None:
    """List calls whose prompt or answer contains all WORDS."""
    _show(islice(_store().search(words), number), as_json, "No call contains these words.")


@command.command("conversations")
@_many
@_as_json
def conversations(number: int, as_json: bool) -> None:
    """List conversations, newest first: `swink ask --cid ID` continues one."""
    found = list(islice(_store().conversations(), number))
    if as_json:
        print_json(msgspec.to_builtins(kept) for kept in found)
        return
    rows = [
        (kept.id, _when(kept.at), " ".join(kept.models), str(kept.messages), _line(kept.title))
        for kept in found
    ]
    if not rows:
        print_lines(["No conversations are stored yet."])
        return
    print_rows(
        rows,
        ("ID", "WHEN", "MODEL", "MESSAGES", "BEGINS"),
        lambda id, when, model, count, said: (id[:6], f"{when} {model} {count}: {said}"),
    )


@command.command("costs")
@click.option(
    "--by",
    type=click.Choice(["day", "model"]),
    help=("Print one line for each day, or for each model."),
)
@click.option(
    "--days",
    type=click.IntRange(1, 36_500),
    help=("Include only the last INTEGER days, including today."),
)
@_as_json
def costs(by: str | None, days: int | None, as_json: bool) -> None:
    """Sum up tokens and cost by day and model, including failed attempts."""
    rows = sums(_store().entries(), by, days)
    if as_json:
        print_json(msgspec.to_builtins(row) for row in rows)
    elif rows:
        whole = summed(rows)
        cells = [costs_cells(row, by) for row in [*rows, *([whole] if len(rows) > 1 else [])]]
        print_rows(
            cells,
            costs_cells(None, by),
            lambda *row: (" ".join(row[:-4]), f"{row[-4]}× {row[-3]}/{row[-2]} {row[-1]}"),
        )
    else:
        print_lines(["No calls are stored from that time."])


@command.command("show")
@click.argument("id", required=False, shell_complete=_complete)
@_raw_option
@_code_option
@_as_json
def show(id: str | None, raw: bool, code: bool, as_json: bool) -> None:
    """Show the question, the answer, tokens and cost of a call. Default: the newest call.

    An ID may be shortened to its first characters. --json prints the whole record, with every
    network read.
    """
    _check_one(raw=raw, code=code, json=as_json)
    store = _store()
    entry = _entry(store, id)
    if raw or code:
        _print_answer(entry, raw=raw, code=code)
        return
    if as_json:
        click.echo(write_takes(*_document(store, entry)), nl=False)
        return
    takes, _ = _document(store, entry)
    rows = [
        ("model", entry.model),
        ("when", _when(entry.at)),
        *([("conversation", entry.conversation)] if entry.conversation else []),
        ("end", f"{entry.outcome} after {entry.seconds:g} s"),
        ("tokens", _tokens(entry)),
        ("cost", "-" if entry.cost is None else money(entry.cost, entry.estimated)),
        ("notices", ", ".join(entry.notices) or "-"),
    ]
    print_lines(table(rows))
    for take in takes:
        print_lines(["", *table([_attempt(take)])])
    for name, text in (("prompt", entry.prompt), ("answer", entry.answer)):
        print_lines(["", f"{name}:", printable(text) or "-"])


@command.command("replay")
@click.argument("id", required=False, shell_complete=_complete)
@click.option("--fast", is_flag=True, help="Print everything at once, without the recorded timing.")
@click.option(
    "--plain", is_flag=True, help="Print text as it arrives, without Markdown formatting."
)
def replay(id: str | None, fast: bool, plain: bool) -> int:
    """Replay the answer of a call without a key or network. Default: the newest call."""
    store = _store()
    return play_recording(_recording(store, _entry(store, id)), fast, plain)


@command.command("export")
@click.argument("id", shell_complete=_complete)
@click.option(
    "--output", type=click.Path(path_type=Path), required=True, metavar="PATH",
    help="The target: a cassette if it ends in .json, otherwise a folder for the recording.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def export(id: str, output: Path, force: bool) -> None:
    """Export a call as a cassette for tests, or as a recording.

    Check the export before you share it: it contains the prompt and the answer.
    """
    store = _store()
    entry = _entry(store, id)
    if output.exists() and not force:
        raise UsageError(
            f"{output} exists already",
            title="Nothing was exported",
            resolution="Choose another path, or pass --force.",
        )
    if output.suffix == ".json":
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(write_takes(_document(store, entry)[0]))
    else:
        _recording(store, entry).save(output)
    say(f"wrote {output}")


@command.command("delete")
@click.argument("ids", nargs=-1, metavar="ID...", shell_complete=_complete)
@click.option("--all", "everything", is_flag=True, help="Delete all calls.")
def delete(ids: tuple[str, ...], everything: bool) -> None:
    """Delete calls permanently."""
    if everything == bool(ids):
        raise click.UsageError("Pass the ids of the calls to delete, or --all.")
    store = _store()
    found = [*store.entries()] if everything else [_entry(store, id) for id in ids]
    for entry in found:
        store.delete(entry.id)
    say(f"deleted {len(found)} {'call' if len(found) == 1 else 'calls'}")


@click.command("last")
@_raw_option
@_code_option
@_as_json
def last(raw: bool, code: bool, as_json: bool) -> None:
    """Show the last answer again; nothing is sent.

    On a terminal, the answer is formatted as by `swink ask`; in a pipe, the plain text is printed.
    Calls without an answer are skipped. `swink log show ID` shows the answer of another call.

    \b
      swink last --code > script.py
      swink last --raw | wc -w
    """
    _check_one(raw=raw, code=code, json=as_json)
    entry = next((entry for entry in _store().entries() if entry.answer), None)
    if entry is None:
        raise UsageError(
            "no stored call has an answer",
            title="No answer",
            resolution="Ask a model without -n first; `swink log list` lists the calls.",
        )
    if as_json:
        click.echo(encode_json(msgspec.to_builtins(entry), indent=1), nl=False)
    else:
        _print_answer(entry, raw=raw, code=code)


# -- what they share -------------------------------------------------------------------------------


def _check_one(**views: bool) -> None:
    """Raise click.UsageError if more than one of the options --raw, --code, --json is given."""
    wanted = [f"--{name}" for name, is_wanted in views.items() if is_wanted]
    if len(wanted) > 1:
        raise click.UsageError(f"{' and '.join(wanted)} exclude each other.")


def _entry(store: FolderStore | SQLiteStore, id: str | None) -> Entry:
    """Return the entry whose id begins with `id`, or the newest entry if `id` is `None`.

    Raises UsageError if `id` is empty, or if no entry, or more than one, matches.
    """
    if id == "":  # `delete "$ID"` passes an empty text if the variable ID is unset
        raise UsageError(
            "the id is empty", title="Which call?", resolution="`swink log list` shows the ids."
        )
    found = [entry for entry in store.entries() if entry.id.startswith(id or "")]
    if id is None:
        found = found[:1]
    if len(found) != 1:
        several = f"{len(found)} calls begin with" if found else "no call is"
        raise UsageError(
            "no calls are stored" if id is None else f"{several} {id}",
            title="Which call?",
            resolution="`swink log list` shows the ids.",
        )
    return found[0]


def _document(store: FolderStore | SQLiteStore, entry: Entry) -> tuple[list[Take], dict[str, Any]]:
    return read_document(store.read(entry.id), store.path, entry.id)


def _recording(store: FolderStore | SQLiteStore, entry: Entry) -> Recording:
    answered = [take.recording for take in _document(store, entry)[0] if take.recording.status]
    if not answered:
        raise UsageError(
            f"{entry.model} did not answer over HTTP",
            title="Nothing to replay",
            resolution=f"`swink log show --json {entry.id}` prints its events.",
        )
    return answered[-1]


def _show(entries: Iterable[Entry], as_json: bool, none: str) -> None:
    found = list(entries)
    if as_json:
        print_json(msgspec.to_builtins(entry) for entry in found)
        return
    if not found:
        print_lines([none])
        return
    rows = [(e.id, _when(e.at), e.model, e.outcome, _tokens(e), _line(e.prompt)) for e in found]
    print_rows(
        rows,
        HEADINGS,
        lambda id, when, model, end, _, said: (id[:6], f"{when} {model} {end}: {said}"),
    )


def _when(at: str) -> str:
    return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")


def _tokens(entry: Entry) -> str:
    return "/".join("-" if n is None else str(n) for n in (entry.input, entry.output))


def _line(text: str) -> str:
    words = " ".join(printable(text).split())
    return words if len(words) <= 60 else f"{words[:59]}…"


def _attempt(take: Take) -> tuple[str, str]:
    recording, failure = take.recording, take.failure
    seconds = recording.chunks[-1][0] if recording.chunks else 0.0
    status = f"HTTP {recording.status}, " if recording.status else ""
    told = f"; {failure.kind}: {failure.message}" if failure else ""
    came = f"{len(recording.body)} bytes in {reads(len(recording.chunks))} over {seconds:.2f} s"
    if not recording.chunks:
        came = f"{len(take.events)} events"
    model = f"{recording.provider}/{recording.model}"
    return "attempt", f"{model}: {status}{came}{told}"


def _print_answer(entry: Entry, *, raw: bool, code: bool) -> None:
    """Print the answer of a call: code blocks, text, or Markdown on a terminal.

    Raises SwinkError if the call has no answer, or if code is requested and the answer has none.
    """
    if not entry.answer:
        raise SwinkError(
            f"the call {entry.id} has no answer with text",
            title="No answer",
            resolution=f"`swink log show {entry.id}` shows its outcome.",
        )
    text = entry.answer
    if code:
        blocks = code_blocks(text)
        if not blocks:
            raise SwinkError(
                f"the answer of the call {entry.id} has no code block",
                title="No code",
                resolution="Omit --code to print the whole answer.",
            )
        text = "\n".join(blocks)
    asyncio.run(_draw(text, plain=raw or code))


async def _draw(text: str, *, plain: bool) -> None:
    """Show a text in the same way as `swink ask`, which draws in a running event loop."""
    with closing(make_sink(plain=plain)) as sink:
        sink.write(text)
        sink.end_block()
