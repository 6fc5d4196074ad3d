"""`ForwardingWriter`: passes on the events of a remote swink.

A parser that reads whole events instead of learning parts of them names this class as its
`writer`. What it passes on is held against the grammar, and what a cut leaves open is closed.
"""

from __future__ import annotations

from swink_core.failures.failure import Failure
from swink_core.providers.open_blocks import MOST_BLOCKS, kept_of
from swink_core.providers.writer import EventWriter
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.grammar import Automaton
from swink_core.vocabulary.outcome import TOKENS, Usage
from swink_core.vocabulary.outcome import StreamErrorKind as Kind


class ForwardingWriter(EventWriter):
    """A writer for events that are complete already; its other methods are not to be mixed in."""

    def __init__(self, provider: str = "", id_prefix: str = "0", model: str = "") -> None:
        super().__init__(provider, id_prefix, model)
        self._grammar = Automaton()
        self._restarted = False

    def forward(self, event: ev.AssistantMessageEvent) -> None:
        """Pass an event on. Its first `Start` is taken as read.

        A broken rule fails the attempt as `protocol`.
        """
        broken = self._grammar.step(event)
        if broken is not None:
            self.fail(Failure("streaming", kind=Kind.PROTOCOL, code="bad_event", message=broken))
        elif isinstance(event, ev.Done | ev.Error):
            self._end(event)
        elif self._grammar.started > MOST_BLOCKS:
            self._grammar.open.pop(MOST_BLOCKS, None)  # it was not passed on
            self._fill()
        elif self._restarted or not isinstance(event, ev.Start):
            self._append(event)
            self._kept += kept_of(event)
            if isinstance(event, ev.Retry):
                self._restarted, self._kept, self.damage = True, 0, None

    def close(self) -> None:
        """Close every open block."""
        for event in self._grammar.closing():
            self._append(event)

    def _end(self, event: ev.Done | ev.Error) -> None:
        if (said := event.usage) is not None:
            self.usage_seen = Usage(reported=said.reported)
            counts = {name: getattr(said, name) for name in TOKENS}
            self.usage(**counts, extra=said.extra)
        self.cost = event.cost.total if event.cost else None
        self.response(event.response_id, event.model, event.metadata)
        self._answered = True  # whether it is one, the remote side has said
        if isinstance(event, ev.Done):
            self.stop_reason = event.stop_reason
            self.finish()
        else:
            failure = Failure("streaming", event.status, code="relayed")
            failure.kind, failure.message = event.error_kind or Kind.UNKNOWN, event.error_message
            failure.retry_after, failure.request_id = event.retry_after, event.request_id
            self.fail(failure)
