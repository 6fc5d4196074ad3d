"""`PrometheusObserver`: counts calls and measures their times."""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_core.providers import KINDS
from swink_observer_prometheus.metrics import MOST_MODELS, Metrics, metrics_of
from swink_observers.calls import CallObserver, CallState

__all__ = ["PrometheusObserver"]

CONTEXT = frozenset({Kind.CANCELLED, Kind.CONTEXT_WINDOW_EXCEEDED, Kind.OUTPUT_TOO_LARGE})
TRANSIENT = frozenset(kind for kind, row in KINDS.items() if row.retries)
"""Kinds of failure after which a retry may succeed."""


class PrometheusObserver(CallObserver["_Call"]):
    """Counts calls in `registry`, by default prometheus_client's own.

    Any number of observers may share a registry. The program exposes these metrics together with
    its own metrics. `most_unlisted` is the maximum number of models of a provider that get a
    separate label although they are not in the catalogue. A program whose users choose the models
    may lower this number, to limit the number of time series.
    """

    name = "prometheus"

    def __init__(
        self, registry: CollectorRegistry = REGISTRY, *, most_unlisted: int = MOST_MODELS
    ) -> None:
        super().__init__()
        self._metrics = metrics_of(registry)
        self._most_unlisted = most_unlisted

    def watch(self, call: swink.Call) -> _Call:
        """Return the state for a call that begins."""
        return _Call(call, self._metrics, self._most_unlisted)


class _Call(CallState):
    """The times of one call, and the labels under which it is counted."""

    def __init__(self, call: swink.Call, metrics: Metrics, most_unlisted: int) -> None:
        super().__init__()
        self._metrics = metrics
        self._most_unlisted = most_unlisted
        self._turn_to(call)
        self._active = metrics.series(metrics.active, *self._labels)
        self._active.inc()
        self._last: float | None = None  # when the last chunk of the attempt arrived
        self._first: float | None = None

    def _turn_to(self, call: swink.Call, answered: bool = False) -> None:
        model = call.model
        most = MOST_MODELS if model.info else self._most_unlisted
        self._labels = self._metrics.labels(model.provider, model.id, answered, most)

    def chunk(self, call: swink.Call) -> None:
        """Record the time since the previous chunk."""
        if self.cached:
            return  # a cached answer says nothing about the model's speed
        now = call.attempt.read_at
        if now is None:
            return
        if self._last is None:
            self._first = now
            self._turn_to(call, answered=True)
            self._gap = self._metrics.series(self._metrics.gap, *self._labels)
        else:
            self._gap.observe(now - self._last)
        self._last = now

    def event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Count an event."""
        match event:
            case swink.Start():
                self._first = self._last = None
                self._turn_to(call)
            case swink.Notice(code="malformed_frame"):
                self._metrics.series(self._metrics.malformed, *self._labels).inc()
            case swink.Notice(code="buffered"):
                self._fall_back("buffered")
            case swink.Notice(code="target_passed_over"):
                self._fall_back("provider_switch")
            case swink.Retry():
                self._take(call)
                if event.model == str(call.model):
                    kind = event.error_kind or Kind.UNKNOWN
                    self._metrics.series(self._metrics.retries, *self._labels, kind).inc()
                else:
                    self._fall_back("provider_switch")
            case swink.Done():
                self._turn_to(call, answered=True)
                self._end(event, call)
            case swink.Error():
                self._end(event, call)

    def _fall_back(self, how: str) -> None:
        self._metrics.series(self._metrics.fallbacks, *self._labels, how).inc()

    def _take(self, call: swink.Call) -> None:
        """Count the usage and cost of the attempt that has just ended."""
        taken = self.taken(call)
        for name, count in taken.tokens.items():
            self._metrics.series(self._metrics.tokens[name], *self._labels).inc(count)
        self._metrics.series(self._metrics.cost, *self._labels).inc(taken.cost)
        if taken.estimated:
            self._metrics.series(self._metrics.estimated_cost, *self._labels).inc(taken.cost)
        output, first, end = taken.tokens.get("output"), self._first, call.attempt.ended_at
        if output and first is not None and end is not None and end > first:
            self._metrics.series(self._metrics.rate, *self._labels).observe(output / (end - first))

    def _end(self, event: swink.Done | swink.Error, call: swink.Call) -> None:
        metrics, labels = self._metrics, self._labels
        self._take(call)
        self._active.dec()
        metrics.series(metrics.requests, *labels, event.stop_reason).inc()
        if self.cached:
            metrics.series(metrics.cache_hits, *labels).inc()
            return  # a cached answer says nothing about the model's times
        if call.ended_at is not None:
            metrics.series(metrics.duration, *labels).observe(call.ended_at - call.started_at)
        attempt = call.attempt
        if attempt.started_at is not None and attempt.first_event_at is not None:
            metrics.series(metrics.first, *labels).observe(
                attempt.first_event_at - attempt.started_at
            )
        if isinstance(event, swink.Error):
            kind = event.error_kind or Kind.UNKNOWN
            metrics.series(metrics.errors, *labels, kind, _category(kind)).inc()


def _category(kind: Kind) -> str:
    return "context" if kind in CONTEXT else "transient" if kind in TRANSIENT else "permanent"
