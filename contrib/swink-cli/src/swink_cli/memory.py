"""Store calls and conversations with the recorder.

    SWINK_RECORD=PATH         stored in this SQLite file or folder, like other programs' calls
    SWINK_RECORD=off          nothing is stored
    log = false               nothing is stored (a setting)
    otherwise                 stored in calls.sqlite in the user's state folder

The whole conversation is stored after each answer, so that it can be continued. If the conversation
cannot be written, the answer is still shown, with a notice.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Self

import click
from click.shell_completion import CompletionItem

import swink_core as swink
from swink_cli.files import encode_json, state_folder, user_path
from swink_cli.options import Function, apply_options
from swink_cli.settings import read_settings
from swink_cli.terminal import say
from swink_recorder.plugin import KEEP_ENV, PATH_ENV, recorded_path

__all__ = ["Memory", "memory_options", "memory_path"]

FILE = "calls.sqlite"

_FIXED = frozenset({"role", "type", "state", "provider", "stop_reason", "error_kind"})
"""Fields of messages and blocks whose values are words of swink, a provider's name included."""

_FREE = frozenset({"arguments", "parameters", "metadata", "data"})
"""Fields of blocks, messages and tools whose content swink does not define."""

TITLE = 200
"""The maximum length, in characters, of a conversation's title in a list."""


def _complete(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem]:
    """Complete conversation ids; on an error, offer nothing."""
    from swink_recorder.store import open_store

    try:
        path = memory_path()
        found = [] if path is None else list(open_store(path).conversations())
    except (OSError, swink.SwinkError):
        return []
    return [CompletionItem(k.id, help=k.title) for k in found if k.id.startswith(start)]


_MEMORY_OPTIONS = (
    click.option("-c", "--continue", "go_on", is_flag=True, help="Continue the last conversation."),
    click.option(
        "--cid",
        "id",
        metavar="ID",
        shell_complete=_complete,
        help="Continue a conversation that `swink log conversations` lists.",
    ),
    click.option("-n", "--no-log", "off", is_flag=True, help="Do not store this call."),
)


def memory_options(command: Function) -> Function:
    """Add the options -c, --cid and -n to a command, which receives them as one `Memory`."""

    @functools.wraps(command)
    def with_memory(go_on: bool, id: str | None, off: bool, **given: Any) -> Any:
        if id == "":  # `--cid "$ID"` passes an empty text if the variable ID is unset
            raise swink.UsageError(
                "--cid is empty", resolution="`swink log conversations` lists them."
            )
        return command(memory=Memory(go_on=go_on, id=id, off=off), **given)

    return apply_options(_MEMORY_OPTIONS, with_memory)


def memory_path() -> Path | None:
    """Return where calls and conversations are stored; `None` if storing is off."""
    if os.environ.get(PATH_ENV, "").strip():
        path = recorded_path()
        return None if path is None else user_path(path)
    return state_folder() / FILE if read_settings().log else None


class Memory:
    """Stores one conversation and its calls.

    `found` is the conversation to continue, with its models (`None`: a new conversation). If `off`
    is true, nothing is stored.
    """

    def __init__(self, *, go_on: bool = False, id: str | None = None, off: bool = False) -> None:
        self._path = memory_path()
        self.found: tuple[swink.Context, list[str]] | None = None
        if go_on or id:
            self._find(id or "")
        else:
            self.begin()
        self._recorder: Any = None
        if off:
            self._path = None
            # Other recorders in this process must not store the calls either.
            os.environ[PATH_ENV] = "off"

    def begin(self) -> None:
        """Start a new conversation for the following calls."""
        self.id = secrets.token_hex(6)

    def branch(self) -> Memory:
        """Return a `Memory` for a separate new conversation, with the same recorder."""
        other = copy.copy(self)
        other.begin()
        return other

    @property
    def keeps(self) -> bool:
        """Whether calls are stored."""
        return self._path is not None

    @property
    def plugins(self) -> list[Any]:
        """A list with the recorder; empty if the environment enables a recorder for all calls."""
        if self._path is None or recorded_path() is not None:
            return []
        from swink_recorder.recorder import Recorder
        from swink_recorder.store import Keep

        words = os.environ.get(KEEP_ENV)
        self._recorder = Recorder(self._path, Keep.of(words) if words else Keep(days=None))
        return [self._recorder]

    def mark(self) -> None:
        """Assign all further calls of the current asyncio task to the conversation."""
        if self._path is not None:
            from swink_recorder.recorder import conversation

            conversation.set(self.id)

    def keep(self, context: swink.Context, models: list[str], hidden: Iterable[str]) -> None:
        """Store the current conversation without the secrets in `hidden`.

        A secret that occurs in a name in `models`, such as the key `ollama`, is not hidden.
        """
        if self._path is None or not context.messages:
            return
        from swink_recorder.entries import now_text
        from swink_recorder.scrub import hidden_text
        from swink_recorder.store import KeptConversation, open_store

        named = " ".join(models)
        secret = [each for each in hidden if each not in named]
        kept = KeptConversation(
            id=self.id,
            at=now_text(),
            models=models,
            messages=len(context.messages),
            title=hidden_text(_beginning(context), secret)[:TITLE],
        )
        data = encode_json(_without(swink.dump(context), partial(hidden_text, secrets=secret)))
        try:
            open_store(self._path).keep_conversation(kept, data)
        except (OSError, swink.SwinkError) as error:
            say(f"notice: the conversation was not stored: {error}")

    async def __aenter__(self) -> Self:
        self.mark()
        return self

    async def __aexit__(self, *raised: object) -> None:
        if self._recorder is not None:  # wait until the calls are written
            await self._recorder.aclose()

    def _find(self, start: str) -> None:
        kept, data = _kept(self._path, start)
        try:
            context = swink.load(swink.Context, json.loads(data), allow_files=True)
        except (swink.CodecError, ValueError, RecursionError) as error:
            raise swink.UsageError(
                f"conversation {kept.id} in {self._path}: {error}",
                title="The conversation cannot be read",
                resolution="Start a new one, without -c and --cid.",
            ) from error
        self.id, self.found = kept.id, (context, kept.models)


def _kept(path: Path | None, start: str) -> tuple[Any, bytes]:
    """Return the record and content of the newest conversation whose id begins with `start`."""
    from swink_recorder.store import open_store

    if path is None:
        raise swink.UsageError(
            "conversations are not stored",
            title="No conversation to continue",
            resolution=f"Unset {PATH_ENV}, and remove `log = false` from the configuration.",
        )
    store = open_store(path)
    found = [kept for kept in store.conversations() if kept.id.startswith(start)]
    if start and len({kept.id for kept in found}) > 1:
        raise swink.UsageError(
            f"{len(found)} conversations begin with {start}",
            title="Which conversation?",
            resolution="Write more of its id; `swink log conversations` lists the ids.",
        )
    if not found:
        none = (
            f"no conversation id begins with {start}"
            if start
            else ("no conversations are stored yet")
        )
        raise swink.UsageError(
            none,
            title="No conversation to continue",
            resolution="`swink log conversations` lists them.",
        )
    return found[0], store.read_conversation(found[0].id)


def _without(data: Any, hide: Callable[[str], str], free: bool = False) -> Any:
    """Return a conversation's JSON data with `hide` applied to texts, but not to names of fields.

    The fields in `_FIXED` stay unchanged, except in the data of tools and providers (`free`), where
    fields of these names may have any content.
    """
    if isinstance(data, str):
        return hide(data)
    if isinstance(data, list):
        return [_without(each, hide, free) for each in data]
    if not isinstance(data, dict):
        return data
    return {
        name: value
        if name in _FIXED and not free and isinstance(value, str)
        else _without(value, hide, free or name in _FREE)
        for name, value in data.items()
    }


def _beginning(context: swink.Context) -> str:
    """Return the first words of the user's first message, in one line."""
    for message in context.messages:
        if isinstance(message, swink.UserMessage):
            blocks = [message.content] if isinstance(message.content, str) else message.content
            texts = (b if isinstance(b, str) else getattr(b, "text", "") for b in blocks)
            return " ".join(" ".join(texts).split())
    return ""
