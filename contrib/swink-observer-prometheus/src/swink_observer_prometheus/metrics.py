"""The metrics of a registry, and the allowed values of their labels.

Labels contain no user input: providers are installed packages, and kinds of failure and stop
reasons are enumerations. A model gets a separate label when it has answered for the first time.
Models that have never answered, and models beyond a maximum number, are counted as `other`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

MetricT = TypeVar("MetricT", Counter, Gauge, Histogram)

__all__ = ["MOST_MODELS", "OTHER", "Metrics", "metrics_of"]

MOST_MODELS = 100
"""The maximum number of models per provider that have a separate label.

Each label creates about 100 time series.
"""

OTHER = "other"

MODEL = ("provider", "model")

# From the first answer of a small local model to a long phase of reasoning of a large one.
DURATIONS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)
FIRST = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4)
GAPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
RATES = (1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560)

TOKEN_COUNTERS = {
    "input": "Input tokens, including those read from a cache.",
    "output": "Output tokens, including those of reasoning.",
    "cache_read": "Tokens read from a provider's cache; part of the input tokens.",
    "cache_write": "Tokens written to a provider's cache; part of the input tokens.",
    "reasoning": "Reasoning tokens; part of the output tokens.",
}


class Metrics:
    """The metrics of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, about: str, labels: Sequence[str] = MODEL) -> Counter:
            return Counter(f"llm_{name}", about, labels, registry=registry)

        def histogram(name: str, about: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(f"llm_{name}", about, MODEL, registry=registry, buckets=buckets)

        self.requests = counter(
            "requests", "Completed calls, by stop reason.", (*MODEL, "stop_reason")
        )
        self.errors = counter(
            "streaming_errors",
            "Failed calls, by kind and category of failure.",
            (*MODEL, "error_type", "error_category"),
        )
        self.retries = counter(
            "request_retries",
            "Retries on the same model, by kind of failure.",
            (*MODEL, "error_type"),
        )
        self.fallbacks = counter(
            "fallback_triggered",
            "Retries and fallbacks, by type, with the model that failed.",
            (*MODEL, "fallback_type"),
        )
        self.malformed = counter("malformed_frames", "Frames that could not be parsed.")
        self.cache_hits = counter("cache_hits", "Answers that came from swink's own cache.")
        self.cost = counter("cost_dollars", "Cost in US dollars of calls with a known price.")
        self.estimated_cost = counter(
            "estimated_cost_dollars",
            "The part of llm_cost_dollars for which the provider reported no final usage.",
        )
        self.tokens = {
            name: counter(f"{name}_tokens", about) for name, about in TOKEN_COUNTERS.items()
        }
        self.duration = histogram(
            "request_duration_seconds", "Seconds from start to end of a call, including waits.",
            DURATIONS,
        )  # fmt: skip
        self.first = histogram(
            "time_to_first_token_seconds",
            "Seconds from start to first content of a call's last attempt.",
            FIRST,
        )
        self.gap = histogram(
            "token_gap_seconds",
            "Seconds between two network reads with content.",
            GAPS,
        )
        self.rate = histogram(
            "output_tokens_per_second",
            "Output tokens per second of an attempt, from its first content to its end.",
            RATES,
        )
        self.active = Gauge(
            "llm_active_streams", "Calls under way.", MODEL, registry=registry,
            multiprocess_mode="livesum",
        )  # fmt: skip
        self._models: dict[str, set[str]] = {}
        self._series: dict[tuple[Any, ...], Any] = {}

    def labels(
        self, provider: str, model: str, answered: bool = False, most: int = MOST_MODELS
    ) -> tuple[str, str]:
        """Return the labels of a model.

        After its first answer, a model has a label with its name, if fewer than `most` other models
        of the provider already have one.
        """
        known = self._models.setdefault(provider, set())
        if answered and len(known) < most:
            known.add(model)
        return provider, model if model in known else OTHER

    def series(self, metric: MetricT, *labels: str) -> MetricT:
        """Return the time series of a metric with these label values.

        The result is cached, because prometheus_client's lookup of a time series is slow.
        """
        key = (metric, labels)
        found: MetricT | None = self._series.get(key)
        if found is None:
            found = self._series[key] = metric.labels(*labels)
        return found


_metrics: WeakKeyDictionary[CollectorRegistry, Metrics] = WeakKeyDictionary()
_lock = threading.Lock()


def metrics_of(registry: CollectorRegistry) -> Metrics:
    """Return the metrics of a registry, created once: a registry refuses to add a metric twice."""
    with _lock:
        if registry not in _metrics:
            _metrics[registry] = Metrics(registry)
        return _metrics[registry]
