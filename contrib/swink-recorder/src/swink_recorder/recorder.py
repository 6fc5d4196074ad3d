"""`Recorder`: an observer that stores every call; off by default.

    SWINK_RECORD=~/.local/state/swink/calls.sqlite      every program of this environment, or
    swink.Client(plugins=[Recorder("calls")])           the calls of one client

While a call runs, its events are kept in memory, on a tape. When the call has ended, a thread
writes the tape to the store. If the store cannot be written, recordings are lost but no call fails,
and one error is logged.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from typing import Any, Self, cast

from attrs import define

import swink_core as swink
from swink_recorder.canonical import request_of
from swink_recorder.capture import AttemptTape, KeptDeltas, KeptEvent, Tape
from swink_recorder.documents import write_document
from swink_recorder.entries import Entry, Keep, Written, now_text
from swink_recorder.scrub import hidden_text
from swink_recorder.store import open_store

__all__ = ["Recorder", "conversation"]

log = logging.getLogger(__name__)

conversation: ContextVar[str] = ContextVar("conversation", default="")
"""A context variable with the id of the conversation to which recorded calls belong."""

MOST_WAITING = 256
"""The maximum number of calls that may wait to be written; further calls are not recorded."""

AT_ONCE = 32
"""The maximum number of calls to write in one transaction.

Several calls share a transaction, because each transaction waits for the disk.
"""

BETWEEN_PRUNES = 50
"""How many calls are written between checks of the retention limits."""

CLOSE_SECONDS = 4.0
"""The maximum number of seconds to wait for pending writes on close.

This is less than the 5 seconds that a client waits for a plugin to close.
"""


@define
class _Running:
    """The tape of a call in progress, its conversation and its start time.

    `now` is the tape of the current attempt.
    """

    tape: Tape
    now: AttemptTape
    context: swink.Context
    at: str
    conversation: str

    @classmethod
    def of(cls, call: swink.Call) -> Self:
        context, tape = call.context, Tape(call)
        copied = swink.Context([*context.messages], context.system_prompt, [*context.tools])
        return cls(tape, tape.of(call.attempt), copied, now_text(), conversation.get())


@define
class _Ended:
    """The data of a call that has ended, waiting to be written."""

    tape: Tape
    context: swink.Context
    entry: Entry
    secrets: frozenset[str]


class Recorder:
    """Stores every call in a folder or a SQLite file.

    For each call, it stores the request, the received bytes with their times, the events and the
    usage. Credentials are removed. `keep` limits the size of the store.

    The code that creates a recorder must close it: `await recorder.aclose()`.
    """

    api_level = 1

    def __init__(self, path: str | Path, keep: Keep | None = None) -> None:
        self._store = open_store(path)
        self._keep = keep or Keep()
        self._running: dict[str, _Running] = {}
        self._waiting: deque[_Ended] = deque()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._until_pruned = 0

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Add an event to the call's tape; after the last event, queue the tape for writing.

        Ignore a call whose HTTP client sends nothing.
        """
        try:
            now = self._running[call.id].now
            delta = cast(swink.TextDelta, event)
            if (
                type(event) is now.kind
                and call.attempt.reads == now.read
                and delta.content_index == now.index
            ):  # the same as `feed` does for most events, without the cost of calling it
                now.texts.append(delta.delta)
                return
        except KeyError:
            if getattr(call.http, "sends_nothing", False):
                return
            self._running[call.id] = _Running.of(call)
        running = self._running[call.id]
        if running.now.attempt is not call.attempt:
            running.now = running.tape.of(call.attempt)
        running.now.feed(event)
        if isinstance(event, swink.Done | swink.Error):
            del self._running[call.id]
            self._hand_on(event, call, running)

    def _hand_on(self, event: Any, call: swink.Call, running: _Running) -> None:
        usage, cost = call.usage or swink.Usage(), call.cost or swink.Cost()
        entry = Entry(
            id=call.id,
            at=running.at,
            model=str(call.model),
            outcome="done" if isinstance(event, swink.Done) else str(event.error_kind or "unknown"),
            seconds=round((call.ended_at or call.clock.time()) - call.started_at, 3),
            attempts=call.attempts,
            input=usage.input,
            output=usage.output,
            cost=cost.total,
            estimated=cost.estimated,
            conversation=running.conversation,
        )
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                self._tell(
                    "full", "calls end faster than they can be recorded; some are not recorded"
                )
                return
            secrets = frozenset(call.secrets)
            self._waiting.append(_Ended(running.tape, running.context, entry, secrets))
            # The thread is not a daemon: the interpreter waits for it at exit, so that nothing is
            # lost.
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="swink-recorder")
                self._thread.start()

    async def aclose(self) -> None:
        """Write pending recordings, for a few seconds at most."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Write pending recordings as `aclose` does, without an event loop."""
        thread = self._thread
        if thread is not None:
            thread.join(CLOSE_SECONDS)

    # -- in the thread -----------------------------------------------------------------------

    def _write_all(self) -> None:
        while True:
            with self._lock:
                ended = [*islice(self._waiting, AT_ONCE)]
                if not ended:
                    self._told.discard("full")
                    self._thread = None
                    return
            with self._telling():
                self._write(ended)
            with self._lock:  # the calls count as waiting until they are written
                for _ in ended:
                    self._waiting.popleft()

    def _write(self, ended: list[_Ended]) -> None:
        calls: list[Written] = []
        for call in ended:
            with self._telling():  # an error concerns only this call
                calls.append(_written(call))
        self._store.add(calls)
        if self._until_pruned <= 0:
            self._store.prune(self._keep)
            self._until_pruned = BETWEEN_PRUNES
        self._until_pruned -= len(calls)
        if len(calls) == len(ended):
            self._told.discard("failed")

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            self._tell("failed", f"calls are not recorded in {self._store.path}: {why}")

    def _tell(self, what: str, text: str) -> None:
        """Log a problem once, and again only if it recurs after it was solved."""
        if what not in self._told:
            self._told.add(what)
            log.error("%s", text)


def _written(ended: _Ended) -> Written:
    """Return an ended call in the format that a store writes."""
    tapes, entry = ended.tape.attempts, ended.entry
    asked = [(tape, request_of(tape.attempt, ended.context)) for tape in tapes]
    secrets = {secret for secret in ended.secrets if secret not in entry.model}
    kept = tapes[-1].kept if tapes else []
    entry.prompt = hidden_text(_whole(_asked(ended.context)), secrets)
    entry.answer = hidden_text(_whole(_said(kept)), secrets)
    entry.notices = [
        row.event.code
        for row in kept
        if isinstance(row, KeptEvent) and isinstance(row.event, swink.Notice)
    ]
    return entry, write_document(entry, asked, secrets)


def _whole(text: str) -> str:
    """Return a text without lone surrogates, which models sometimes produce."""
    return text.encode("utf-8", "replace").decode()


def _said(kept: list[KeptEvent | KeptDeltas]) -> str:
    """Return the text of the answer, without that of answers that the provider restarted."""
    texts: list[str] = []
    for row in kept:
        if isinstance(row, KeptDeltas):
            texts += row.texts if row.type == "text_delta" else ()
        elif isinstance(row.event, swink.Start):
            texts.clear()
    return "".join(texts)


def _asked(context: swink.Context) -> str:
    """Return the text of the user's last message."""
    for message in reversed(context.messages):
        if isinstance(message, swink.UserMessage):
            if isinstance(message.content, str):
                return message.content
            texts = [b.text for b in message.content if isinstance(b, swink.TextBlock)]
            return "\n".join(texts)
    return ""
