"""Create the user's message from piped text, the prompt and attachments."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

import swink_core as swink
from swink_cli.completion import complete_file
from swink_cli.files import PIPE, block_of, media_block, media_type_in
from swink_cli.options import Function, apply_options
from swink_cli.templates import asked
from swink_cli.terminal import as_unicode, is_terminal

__all__ = ["prompt_message", "prompt_options"]

_PROMPT_OPTIONS = (
    click.option(
        "--image",
        "images",
        multiple=True,
        metavar="FILE|URL|-",
        shell_complete=complete_file,
        help="Show an image.",
    ),
    click.option(
        "-a",
        "--attach",
        "attachments",
        multiple=True,
        metavar="FILE|URL|-",
        shell_complete=complete_file,
        help="Attach a document, image or audio file; - is standard input.",
    ),
    click.argument("prompt", nargs=-1),
)


def prompt_options(command: Function) -> Function:
    """Add PROMPT, --image and --attach to a command."""
    return apply_options(_PROMPT_OPTIONS, command)


def prompt_message(
    prompt: Sequence[str], images: Sequence[str], attachments: Sequence[str]
) -> swink.UserMessage:
    """Create the user's message: attachments, then piped text, then the prompt.

    An image, PDF or audio file from a pipe is attached.
    """
    takes_pipe = [*images, *attachments].count(PIPE)
    if takes_pipe > 1:
        raise swink.InvalidContext(
            "standard input is attached twice", resolution="Use - for one file only."
        )
    data = b"" if takes_pipe else _piped()
    piped_media = [block_of(data, "standard input")] if media_type_in(data) else []
    piped = "" if piped_media else _text_of(data)
    parts = [part for part in (piped, as_unicode(" ".join(prompt)).strip()) if part]
    blocks = [media_block(path, image=True) for path in images]
    blocks += [media_block(path) for path in attachments]
    blocks += piped_media
    text = asked("\n\n".join(parts))
    if not text and not blocks:
        raise swink.InvalidContext(
            "no prompt given",
            title="Nothing to ask",
            resolution="Write it after the options, or pipe text in.",
        )
    if not blocks:
        return swink.UserMessage(text)
    return swink.UserMessage([*blocks, swink.TextBlock(text)] if text else blocks)


def _piped() -> bytes:
    """Read standard input, unless it is a terminal or closed."""
    if sys.stdin is None or is_terminal(sys.stdin):
        return b""
    try:
        return sys.stdin.buffer.read()
    except OSError:  # closed, or the terminal of a background process
        return b""


def _text_of(data: bytes) -> str:
    try:
        return data.decode().strip("\n")
    except UnicodeDecodeError as error:
        raise swink.MediaError(
            f"standard input is not UTF-8 text (byte {error.start})",
            resolution="Pass other files with --image or --attach.",
        ) from error
