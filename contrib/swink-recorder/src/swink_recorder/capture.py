"""Capture a live stream for a recording.

async with client.stream(model, prompt) as stream:
    tape = Tape(stream.call)
    async for _ in stream: ...
    tape.recording(stream.message).save(folder, secrets=stream.call.secrets)

An observer can use a tape in the same way, if it creates the tape at the `Start` event. To record
the events too, the observer passes each event to `Tape.feed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, cast
from urllib.parse import urlsplit

from attrs import define, evolve

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Call,
    Context,
    Error,
    Retry,
    Start,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageError,
    dump,
    replace,
)
from swink_core.providers import Attempt, Clock, Leg
from swink_recorder.canonical import request_of
from swink_recorder.legs import RecordedLeg, RecordedRequest, body_file_for, recorded_request
from swink_recorder.recording import Recording

__all__ = ["AttemptTape", "KeptDeltas", "KeptEvent", "Tape"]

_KEPT_HEADERS = ("content-type", "retry-after", "request-id", "x-request-id")

_NO_HTTP_ANSWER = (0, 101)
"""Statuses of answers that did not come over HTTP (0), and of WebSocket answers (101)."""

_OF_THE_CONNECTION = frozenset(
    {"connection", "content-encoding", "content-length", "date", "keep-alive", "transfer-encoding"}
)


@define
class KeptEvent:
    """An event that is not a delta, with the time at which it occurred."""

    seconds: float
    event: Any

    def data(self) -> Iterator[tuple[float, Any]]:
        """Yield the event as JSON data."""
        yield self.seconds, dump(self.event)


@define
class KeptDeltas:
    """The deltas of one block that arrived in one network read.

    The deltas are stored together, to avoid tens of thousands of objects per second.
    """

    seconds: float
    type: str
    index: int
    texts: list[str]

    def data(self) -> Iterator[tuple[float, Any]]:
        """Yield each delta as JSON data."""
        for text in self.texts:
            told = {"type": self.type, "content_index": self.index, "delta": text}
            yield self.seconds, told


class AttemptTape:
    """Stores the traffic of one attempt of a call, with times in seconds.

    The time of a network read is counted from the response's head, and the time of an event from
    the start of the attempt.

    `error` is the `Error` with which the attempt failed, or the `Retry` that followed the failure
    (`None`: the attempt has not failed). A provider that restarts its answer has not failed. The
    tape copies events, because the core reuses their objects.
    """

    def __init__(self, attempt: Attempt, clock: Clock) -> None:
        self.attempt = attempt
        self.reads: dict[Leg | None, list[tuple[float, bytes]]] = {}
        self.error: Error | Retry | None = None
        self.kept: list[KeptEvent | KeptDeltas] = []
        self._clock = clock
        self._began = clock.time() if attempt.started_at is None else attempt.started_at
        self._leg: Leg | None = None
        self._reads: list[tuple[float, bytes]] = []
        self._since = 0.0
        self._now = 0.0
        # the deltas being collected: of one kind, of one block, from one network read
        self.kind: type | None = None
        self.index = 0
        self.read = 0
        self.texts: list[str] = []

    @property
    def answered(self) -> bool:
        """Whether an answer arrived, over HTTP or from a source such as a child process."""
        return any(leg.response for leg in self.attempt.legs) or any(
            data for _, data in self.reads.get(None, ())
        )

    def take(self, data: bytes, leg: Leg | None = None) -> None:
        """Store a network read of an answer.

        `leg` is the request that the read answers (`None`: the data did not come over HTTP).
        """
        if leg is not self._leg or not self._reads:
            head = None if leg is None else leg.response
            self._leg = leg
            self._reads = self.reads.setdefault(leg, [])
            self._since = self._began if head is None else head.at
        self._reads.append((max(0.0, self._clock.time() - self._since), data))

    def feed(self, event: AssistantMessageEvent) -> None:
        """Store an event. The events of one network read have the same time."""
        reads, delta = self.attempt.reads, cast(TextDelta, event)
        if type(event) is self.kind and reads == self.read and delta.content_index == self.index:
            self.texts.append(delta.delta)
            return
        if reads != self.read or not reads:
            self.read, self._now = reads, self._seconds_of_event()
        if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
            # Without a network, each event has its own time.
            self.kind = type(event) if reads else None
            self.index, self.texts = event.content_index, [event.delta]
            self.kept.append(KeptDeltas(self._now, event.type, self.index, self.texts))
            return
        self.kind = None
        kept = copy(event)
        if isinstance(kept, Error | Retry):
            self.error = kept
        elif isinstance(kept, Start):
            self.error = None
        self.kept.append(KeptEvent(self._now, kept))

    def events(self) -> list[tuple[float, Any]]:
        """Return the events as JSON data, each with the seconds since the attempt began."""
        return [event for kept in self.kept for event in kept.data()]

    def recording(self) -> Recording:
        """Return all traffic as a recording, whose status is 0 if no HTTP answer arrived."""
        attempt = self.attempt
        info = attempt.provider_info
        sent: list[Leg | None] = [*attempt.legs]
        sent += [leg for leg in self.reads if leg not in sent]
        homes = [leg for leg in sent if leg is not None and leg.kind != "token"]
        asked = [*homes[:1], *(leg for leg in sent if leg is not None)]
        origins = [*dict.fromkeys(_origin(leg.request.url) for leg in asked)]
        return Recording.of(
            [self._recorded(leg, origins) for leg in sent or [None]],
            attempt.model.provider,
            attempt.model.id,
            wire_format=info.wire_format if info else "",
            origins=origins,
        )

    def _recorded(self, leg: Leg | None, origins: list[str]) -> RecordedLeg:
        reads = self.reads.get(leg, [])
        body = b"".join([data for _, data in reads])
        chunks = [(seconds, len(data)) for seconds, data in reads]
        if leg is None:
            return RecordedLeg(body, chunks, request=RecordedRequest("", ""))
        head = leg.response
        request = leg.request
        headers = [*head.headers.items()] if head else []
        return RecordedLeg(
            body,
            chunks,
            leg.kind,
            recorded_request(request, origins.index(_origin(request.url))),
            head.status if head else 0,
            {name: value for name, value in headers if name.lower() not in _OF_THE_CONNECTION},
            max(0.0, leg.sent_at - self._began),
            max(0.0, head.at - self._began) if head else 0.0,
        )

    def _seconds_of_event(self) -> float:
        ended_at, read_at = self.attempt.ended_at, self.attempt.read_at
        at = read_at if ended_at is None else ended_at
        return 0.0 if at is None else max(0.0, at - self._began)


class Tape:
    """The network reads of each attempt of a call, with times.

    Create a tape before the first event of the call is read. A tape keeps no reference to the call.
    """

    def __init__(self, call: Call) -> None:
        self.attempts: list[AttemptTape] = []
        self._model = str(call.model)
        self._clock = call.clock
        call.taps.append(self._take)

    def of(self, attempt: Attempt) -> AttemptTape:
        """Return the tape of an attempt; create a tape if the attempt is new."""
        if not self.attempts or self.attempts[-1].attempt is not attempt:
            self.attempts.append(AttemptTape(attempt, self._clock))
        return self.attempts[-1]

    def feed(self, event: AssistantMessageEvent, attempt: Attempt) -> None:
        """Store an event of an attempt."""
        self.of(attempt).feed(event)

    def _take(self, attempt: Attempt, leg: Leg | None, data: bytes) -> None:
        self.of(attempt).take(data, leg)

    def recording(
        self,
        message: AssistantMessage | None = None,
        note: str = "",
        context: Context | None = None,
    ) -> Recording:
        """Return a recording of the last attempt that got an answer, with the resulting message.

        `context` is the conversation, which is stored with the options (`None`: neither is stored).
        Data that differ from run to run and are not in the body (cost, request id) are removed from
        the message, and so is the call's total usage. If the answer was received from a child
        process or over a WebSocket, its data are stored like the body of an HTTP response with
        status 200. Raises UsageError if no bytes were received.
        """
        answered = [tape for tape in self.attempts if tape.answered]
        if not answered:
            raise UsageError(
                f"{self._model} did not answer in bytes, so there is nothing to record",
                title="Nothing was recorded",
                resolution="See the error above, if any; check the key and the address. A "
                "provider that creates its events itself cannot be recorded, nor can "
                "a plugin that answers in its place, such as a cache.",
            )
        last = answered[-1]
        whole = last.recording()
        headers = _kept(whole.headers)
        if whole.status in _NO_HTTP_ANSWER:
            provider = last.attempt.target.binding.provider
            headers["Content-Type"] = getattr(provider, "content_types", ("",))[0]
            whole = evolve(whole, status=200)
        said = message and replace(
            message, cost=None, request_id=None, total_usage=None, total_cost=None
        )
        return evolve(
            whole,
            headers=headers,
            note=note,
            message=said,
            body_file=body_file_for(headers),
            before=[evolve(leg, headers=_kept(leg.headers)) for leg in whole.before],
            after=[evolve(leg, headers=_kept(leg.headers)) for leg in whole.after],
            asked=None if context is None else request_of(last.attempt, context),
        )


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() in _KEPT_HEADERS}


def _origin(url: str) -> str:
    """Return an address without its path, user name and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
