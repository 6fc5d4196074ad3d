"""Cassettes: calls recorded once and replayed in tests, without a key or network.

    with Cassette("tests/cassettes/sky.json"):
        await swink.complete("openai/gpt-5", "Why is the sky blue?")

While a cassette is active, it handles every call of this process, from any client. It replays the
next recorded attempt ("take") whose canonical request is equal. If no take matches, it records the
call or makes the call fail, depending on the mode. If several cassettes are active, the one that
was activated last is used. A pytest fixture is in `swink_recorder.pytest_plugin`.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args
from weakref import WeakKeyDictionary

from swink_core import (
    AssistantMessageEvent,
    Call,
    Failure,
    ProviderFailure,
    StreamErrorKind,
    UsageError,
)
from swink_core.providers import HTTPProvider
from swink_recorder.canonical import canonical_request, differences
from swink_recorder.capture import AttemptTape, Tape
from swink_recorder.playback import play
from swink_recorder.plugin import put_in, take_out
from swink_recorder.recording import RecordingError
from swink_recorder.takes import Take, read_takes, take_of, write_takes

__all__ = ["MODES", "Cassette", "Mode"]

log = logging.getLogger(__name__)

Mode: TypeAlias = Literal["once", "none", "all"]

MODES: tuple[Mode, ...] = get_args(Mode)

MOST_DIFFERENCES = 5
"""The maximum number of differences that the error for an unrecorded call lists.

The error compares the call with the most similar recording.
"""


class Cassette:
    """A file of recorded calls.

    `mode` is `once` (an existing file is replayed, and unrecorded calls fail; without a file, calls
    are recorded), `none` (no request is ever sent) or `all` (all calls are made and recorded again;
    but the old file is kept if a call fails with a kind of error that the old file does not
    contain). `speed` is the playback speed relative to the recording; 0 replays without any waits.
    `unrecorded` is a list of explanations: one for each call that failed because it was not
    recorded, and one if the old file was kept.
    """

    def __init__(self, path: str | Path, mode: Mode = "once", speed: float = 0.0) -> None:
        if mode not in MODES:
            raise UsageError(
                f"unknown cassette mode {mode!r}", resolution=f"Modes are {', '.join(MODES)}."
            )
        self.path = Path(path)
        self.speed = speed
        self.unrecorded: list[str] = []
        self._mode = mode
        self._replays = mode == "none"
        self._takes: list[Take] = []
        self._played: set[int] = set()
        self._recorded: list[tuple[AttemptTape, dict[str, Any], bool]] = []
        self._tapes: WeakKeyDictionary[Call, Tape] = WeakKeyDictionary()
        self._secrets: list[set[str]] = []  # of each recorded call; a running call may add secrets
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Activate the cassette. Raises RecordingError if the file cannot be read."""
        if self._mode != "all" and self.path.is_file():
            self._takes, _ = read_takes(self.path.read_bytes(), self.path)
            self._replays = True
        put_in(self)
        return self

    @property
    def all_played(self) -> bool:
        """Whether every recording of the file was replayed."""
        return not self._left()

    def __exit__(self, *raised: object) -> None:
        """Deactivate the cassette, and write new recordings."""
        take_out(self)
        if self._recorded:
            takes = [take_of(tape, asked, events) for tape, asked, events in self._recorded]
            if why := self._worse(takes):
                self.unrecorded.append(why)
                log.error("%s", why)
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            beside.write_bytes(write_takes(takes, secrets=set().union(*self._secrets)))
            beside.replace(self.path)

    # -- called by the plugin -----------------------------------------------------------------

    def stream(self, call: Call) -> Any:
        """Return the events of a call's attempt; `None` to make the call and record it.

        Raises ProviderFailure for a call that is not recorded, if the mode forbids making the call.
        """
        asked = canonical_request(call)
        if not self._replays:
            self._record(call, asked)
            return None
        with self._lock:
            number = next((n for n, take in self._left() if not differences(asked, take.asked)), -1)
            self._played.add(number)
        if number < 0:
            raise self._refused(self._why(asked))
        hint = f"No request was sent; this is the content of {self.path}. {self._anew}"
        # without this warning, the call would seem to fail now
        for kind in _failed(self._takes[number]):
            log.warning("%s fails (%s). %s", asked["model"], kind, hint)
        return play(self._takes[number], call, self.speed, lambda: self._refused(_CUT), hint)

    def observe(self, event: AssistantMessageEvent, call: Call) -> None:
        """Process an event of a call that is recorded."""
        tape = self._tapes.get(call)
        if tape is not None:
            tape.feed(event, call.attempt)

    def _record(self, call: Call, asked: dict[str, Any]) -> None:
        with self._lock:
            tape = self._tapes.setdefault(call, Tape(call))
            has_bytes = isinstance(call.attempt.target.binding.provider, HTTPProvider)
            self._secrets.append(call.secrets)
            self._recorded.append((tape.of(call.attempt), asked, not has_bytes))

    def _left(self) -> list[tuple[int, Take]]:
        return [(n, take) for n, take in enumerate(self._takes) if n not in self._played]

    def _why(self, asked: dict[str, Any]) -> str:
        if not self._takes:
            return f"{asked['model']} was called, but {self.path} contains no recordings"
        found = min((differences(asked, take.asked) for take in self._takes), key=len)
        if not found:
            return (
                f"{asked['model']} was called more often than the {self._equal(asked)} times "
                f"recorded in {self.path}"
            )
        more = len(found) - MOST_DIFFERENCES
        lines = found[:MOST_DIFFERENCES] + ([f"and {more} more"] if more > 0 else [])
        return f"no recording in {self.path} is of this call; the nearest differs in\n  " + (
            "\n  ".join(lines)
        )

    def _equal(self, asked: dict[str, Any]) -> int:
        return sum(not differences(asked, take.asked) for take in self._takes)

    def _worse(self, takes: list[Take]) -> str:
        """Explain why the old file is kept; return an empty text if the new `takes` replace it."""
        old: list[Take] = []
        if self.path.is_file():
            with suppress(RecordingError):
                old, _ = read_takes(self.path.read_bytes(), self.path)
        failed = {kind: take.asked["model"] for take in takes for kind in _failed(take)}
        for kind in (kind for take in old for kind in _failed(take)):
            failed.pop(kind, None)
        if not (old and failed):
            return ""
        calls = ", ".join(f"{model} ({kind})" for kind, model in failed.items())
        return (
            f"{self.path} was kept as it is, since calls failed that did not fail in it: {calls}\n"
            "Correct that and record again; delete the file if the calls are to fail."
        )

    def _refused(self, why: str) -> ProviderFailure:
        self.unrecorded.append(why)
        first = (
            "Record it with the mode `once`, where the provider can be reached, and keep the file."
        )
        failure = Failure(
            "request",
            kind=StreamErrorKind.INVALID_REQUEST,
            code="unrecorded",
            message=why,
            title="No recording of this call",
            resolution=self._anew if self.path.is_file() else first,
        )
        return ProviderFailure(failure)

    @property
    def _anew(self) -> str:
        return f"Record {self.path} again with the mode `all`, if the call is correct."


def _failed(take: Take) -> list[StreamErrorKind]:
    """Return the error kind of a take that failed, in a list; an empty list if it succeeded."""
    told = take.failure  # a failure without a title was followed by a retry
    ended = told is not None and told.title and told.kind is not StreamErrorKind.CANCELLED
    return [told.kind] if told is not None and ended else []


_CUT = "the stream was read further than when it was recorded: it was closed here"
