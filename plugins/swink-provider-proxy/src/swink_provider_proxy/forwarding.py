"""`ForwardingWriter`: passes on the events that a swink gateway sends.

A parser whose frames contain complete events sets its `writer` to this class. The writer checks
that the order of events is allowed, and closes open blocks if the stream ends too early.
"""

from __future__ import annotations

from swink_core import (
    Done,
    Error,
    Event,
    Extension,
    Failure,
    Notice,
    Retry,
    Start,
    TextStart,
    ThinkingStart,
    ToolCallStart,
    Usage,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import Automaton, EventWriter

__all__ = ["ForwardingWriter"]

COUNTS = ("input", "output", "cache_read", "cache_write", "reasoning", "total")


class ForwardingWriter(EventWriter):
    """A writer for complete events. Do not call the methods that write deltas."""

    has_answer = True
    """Always true, because the gateway has already checked whether the answer has content."""

    kept = 0

    def __init__(self, provider: str = "", id_prefix: str = "0", model: str = "") -> None:
        super().__init__(provider, id_prefix, model)
        self._grammar = Automaton()
        self._passed_on: list[Event] = []
        self._restarted = False

    def forward(self, event: Event) -> None:
        """Pass an event on to the stream's reader.

        The first `Start` is not passed on, because the client itself has already created one. If
        the order of events is not allowed, the attempt fails with the kind `protocol`.
        """
        if self.finished:
            return
        begins = isinstance(event, TextStart | ThinkingStart | ToolCallStart | Extension)
        if begins and self._grammar.started == self.most_blocks:
            self.overflow()
        elif (broken := self._grammar.step(event)) is not None:
            self.fail(Failure("streaming", kind=Kind.PROTOCOL, code="bad_event", message=broken))
        elif isinstance(event, Done | Error):
            self._end(event)
        elif self._restarted or not isinstance(event, Start):
            self._passed_on.append(event)
            self.kept = self._grammar.kept
            if isinstance(event, Retry):
                self._restarted, self.damage = True, None
                self.discarded = self._grammar.discarded

    def notice(self, code: str, detail: str = "") -> None:
        """Pass a notice on to the observers of the call."""
        self._passed_on.append(Notice(code, detail))

    def take(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._passed_on = self._passed_on, []
        return events

    def close(self) -> None:
        """Close every open block."""
        self._passed_on += self._grammar.closing()

    def _end(self, event: Done | Error) -> None:
        if (said := event.usage) is not None:
            self.usage_seen = Usage(reported=said.reported)
            self.usage(**{name: getattr(said, name) for name in COUNTS}, extra=said.extra)
        self.cost_parts = event.cost
        self.cost = event.cost.total if event.cost else None
        self.response(event.response_id, event.model, event.metadata)
        if isinstance(event, Done):
            self.stop_reason = event.stop_reason
            self.finish()
        else:
            failure = Failure("streaming", event.status, code="relayed")
            failure.kind, failure.message = event.error_kind or Kind.UNKNOWN, event.error_message
            failure.retry_after, failure.request_id = event.retry_after, event.request_id
            self.fail(failure)
