"""Keeps what a live stream carried, for a recording.

async with client.stream(model, prompt) as stream:
    tape = Tape(stream.call)
    async for _ in stream: ...
    tape.recording(stream.message).save(folder, secrets=stream.call.secrets)

An observer does the same with the call that it is given at `Start`, and may show each event to the
tape of its attempt.
"""

from __future__ import annotations

from copy import copy
from typing import Any
from urllib.parse import urlsplit

import msgspec
from attrs import evolve

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Call,
    Error,
    ResponseHead,
    Retry,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageError,
    dump,
)
from swink_core.providers import Attempt, Clock
from swink_recorder.recording import RecordedRequest, Recording

__all__ = ["AttemptTape", "Tape"]

_KEPT_HEADERS = ("content-type", "retry-after", "request-id", "x-request-id")

_OF_THE_CONNECTION = frozenset(
    {"connection", "content-encoding", "content-length", "date", "keep-alive", "transfer-encoding"}
)

_DELTAS = frozenset({TextDelta, ThinkingDelta, ToolCallDelta})


class AttemptTape:
    """What one attempt of a call carried; times are in seconds since the answer began.

    `error` is how it failed (`None`: it has not), an `Error`, or the `Retry` in its place. Events
    are copied, as nobody may keep one.
    """

    def __init__(self, attempt: Attempt, clock: Clock) -> None:
        self.attempt = attempt
        self.reads: list[tuple[float, bytes]] = []
        self.error: Error | Retry | None = None
        self._clock = clock
        self._began = clock.time()
        self._head: ResponseHead | None = None
        self._reads = 0
        self._now = 0.0
        # time, kind, index and text of a delta, or time, event, None and None: four cells each,
        # flat, as an object for each of twenty thousand keeps the garbage collector busy
        self._cells: list[Any] = []

    @property
    def answered(self) -> bool:
        """Whether something was answered over HTTP."""
        return self.attempt.request is not None and self.attempt.response is not None

    def take(self, data: bytes) -> None:
        """Keep a network read; of several answers within an attempt the last one counts."""
        head = self.attempt.response
        if head is not self._head:
            self._head, self.reads = head, []
        self.reads.append((self._seconds(head.at if head else self._began), data))

    def feed(self, event: AssistantMessageEvent) -> None:
        """Keep an event. Those of one network read came at one time."""
        kind: Any = type(event)
        reads = self.attempt.reads
        if reads != self._reads or not reads:
            self._reads, self._now = reads, self._seconds(self._began)
        if kind in _DELTAS:  # of which there are many
            self._cells += (self._now, kind, event.content_index, event.delta)  # type: ignore[attr-defined]
            return
        kept = copy(event)
        if isinstance(kept, Error | Retry):
            self.error = kept
        self._cells += (self._now, kept, None, None)

    def events(self) -> list[tuple[float, Any]]:
        """Return the events as JSON data, each with its time since the attempt began."""
        cells = iter(self._cells)
        return [(now, _event_data(*rest)) for now, *rest in zip(*[cells] * 4, strict=True)]

    def recording(self) -> Recording:
        """Return the answer, with all that was sent and came; status 0 where none came."""
        attempt, head = self.attempt, self.attempt.response
        info, request = attempt.provider_info, attempt.request
        url = urlsplit(request.url if request else "")
        return Recording(
            provider=attempt.model.provider,
            model=attempt.model.id,
            body=b"".join(data for _, data in self.reads),
            chunks=[(seconds, len(data)) for seconds, data in self.reads],
            wire_format=info.wire_format if info else "",
            request=RecordedRequest(
                request.method if request else "",
                f"{url.path}?{url.query}" if url.query else url.path,
                dict(request.headers) if request else {},
                _json(request.body) if request else None,
            ),
            status=head.status if head else 0,
            headers={
                name: value
                for name, value in (head.headers.items() if head else ())
                if name.lower() not in _OF_THE_CONNECTION
            },
        )

    def _seconds(self, since: float) -> float:
        return max(0.0, self._clock.time() - since)


class Tape:
    """What was read in each attempt of a call, and when; made before the call is read.

    It holds on to nothing of the call but what it was told.
    """

    def __init__(self, call: Call) -> None:
        self.attempts: list[AttemptTape] = []
        self._model = str(call.model)
        self._clock = call.clock
        call.taps.append(self._take)

    def of(self, attempt: Attempt) -> AttemptTape:
        """Return the tape of an attempt, the last one or one that begins now."""
        if not self.attempts or self.attempts[-1].attempt is not attempt:
            self.attempts.append(AttemptTape(attempt, self._clock))
        return self.attempts[-1]

    def feed(self, event: AssistantMessageEvent, attempt: Attempt) -> None:
        """Keep an event of an attempt."""
        tapes = self.attempts
        (tapes[-1] if tapes and tapes[-1].attempt is attempt else self.of(attempt)).feed(event)

    def _take(self, attempt: Attempt, data: bytes) -> None:
        self.of(attempt).take(data)

    def recording(self, message: AssistantMessage | None = None, note: str = "") -> Recording:
        """Return the last attempt that was answered, with the message that it made, if given.

        What differs from run to run and is not in the body (cost, request id) is left out of
        the message. Raises UsageError where nothing was answered over HTTP.
        """
        answered = [tape for tape in self.attempts if tape.answered]
        if not answered:
            raise UsageError(
                f"{self._model} was not answered over HTTP, so there is nothing to record",
                resolution="See the error above; check the key and the address.",
            )
        whole = answered[-1].recording()
        headers = {n: v for n, v in whole.headers.items() if n.lower() in _KEPT_HEADERS}
        said = message and evolve(message, cost=None, request_id=None)
        return evolve(whole, headers=headers, note=note, message=said)


def _event_data(event: Any, index: int | None, delta: str | None) -> Any:
    if index is None:
        return dump(event)
    return {"type": event.type, "content_index": index, "delta": delta}


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
