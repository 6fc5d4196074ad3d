"""Show a kept answer again: formatted, raw, or only its code."""

from __future__ import annotations

import asyncio
from contextlib import closing

import click

from swink_cli.display import make_sink
from swink_cli.extraction import code_blocks
from swink_core import SwinkError
from swink_recorder.store import Entry

__all__ = ["code_option", "print_answer", "raw_option"]

raw_option = click.option(
    "-r", "--raw", is_flag=True, help="Print only the answer, without formatting."
)
code_option = click.option(
    "-x", "--code", is_flag=True, help="Print only the code blocks of the answer."
)


def print_answer(entry: Entry, *, raw: bool, code: bool) -> None:
    """Print the answer of a call: its code blocks, its text, or Markdown where a person looks on.

    Raises SwinkError if the call has no answer, or the answer no code.
    """
    if not entry.answer:
        raise SwinkError(
            f"the call {entry.id} has no answer with text",
            title="No answer",
            resolution=f"`swink log show {entry.id}` shows how it ended.",
        )
    text = entry.answer
    if code:
        blocks = code_blocks(text)
        if not blocks:
            raise SwinkError(
                f"the answer of the call {entry.id} has no code block",
                title="No code",
                resolution="Without --code the whole answer is printed.",
            )
        text = "\n".join(blocks)
    asyncio.run(_show(text, plain=raw or code))


async def _show(text: str, *, plain: bool) -> None:
    """Show text by the sink of an answer, which draws in an event loop."""
    with closing(make_sink(plain=plain)) as sink:
        sink.write(text)
        sink.end_block()
