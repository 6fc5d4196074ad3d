"""Metrics for Prometheus and the live feed.

    monitor = Monitor()
    async with swink.Client(plugins=monitor.plugins) as client:
        async with Gateway(client, monitor=monitor) as gateway: ...

If `PROMETHEUS_MULTIPROC_DIR` is set (a variable of prometheus_client), the processes that share
this folder report the sums of their metrics, and share the feed.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web
from attrs import asdict
from prometheus_client import CollectorRegistry, Gauge, Metric, generate_latest
from prometheus_client import Counter as Total
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from swink_gateway.policy.charging import allowance_of
from swink_gateway.policy.config import Key
from swink_gateway.policy.cooldowns import OpenCircuit
from swink_gateway.policy.limits import Entry, Spending
from swink_gateway.policy.limits.ledger import IS_LOST, LOST
from swink_gateway.policy.limits.remembered import DATA_LOST
from swink_gateway.serving.admission import ACTIVE, PEAK, REJECTED
from swink_gateway.serving.calls import REQUESTS
from swink_gateway.serving.feed import SharedFeed
from swink_gateway.serving.relay import ABORTED, BACKPRESSURE
from swink_gateway.serving.reloading import Reloader
from swink_gateway.serving.workers import TOGETHER_ENV
from swink_observer_prometheus.observer import PrometheusObserver
from swink_observer_prometheus.sharing import of_all_processes
from swink_observers.feed import Feed
from swink_observers.serving import FeedHandler

__all__ = ["CONTENT_TYPE", "Monitor"]

CONTENT_TYPE = CONTENT_TYPE_LATEST

MOST_UNLISTED = 5
"""How many models of a provider can have separate metrics without being in the catalogue.

The number is limited because clients may invent names.
"""

MOST_PAIRS = 1000
"""How many combinations of labels a metric can have, such as pairs of a key and a model.

Further ones count as `other`; of the circuits, further ones are not shown.
"""

OTHER = "other"

CIRCUITS = "swink_gateway_circuit_open_until_timestamp_seconds"

_ABOUT = {
    REQUESTS: "Calls requested by clients.",
    ACTIVE: "Answers under way.",
    PEAK: "Highest number of concurrent answers in one process.",
    REJECTED: "Requests refused for lack of slots or memory.",
    BACKPRESSURE: "Pauses of an upstream because its client reads slowly.",
    ABORTED: "Answers aborted because the client stopped reading.",
    LOST: "How often the store could no longer be reached, or refused to write.",
    IS_LOST: "Processes for which the store cannot be reached, or refuses to write.",
    DATA_LOST: "How often Redis has lost its data, or the budget of a key.",
}
"""Counters that are exported from the start; other counters appear when they are first counted."""

_REFUSALS = (
    ("401", OTHER),
    ("429", "quota_exhausted"),
    ("429", "throttled"),
    ("503", "overloaded"),
)
"""The reasons of refusals that are exported from the start."""

_PERIODS = {"dollars_today": "day", "dollars_this_month": "month"}
_LIMITS = {"dollars_a_day": "day", "dollars_a_month": "month"}


class Monitor:
    """The metrics and the live feed of a gateway.

    Pass `plugins` to the `Client` whose calls are measured. The gateway counts requests, open
    answers and other events in `counters`. `reloader` watches the configuration file (`None`: the
    gateway runs without a file). `now` returns the Unix time.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._registry = CollectorRegistry()
        folder = os.environ.get(TOGETHER_ENV)
        feed = SharedFeed(Path(folder)) if folder else Feed()
        self._feed = feed
        self.plugins: Sequence[Any] = (
            feed,
            PrometheusObserver(self._registry, most_unlisted=MOST_UNLISTED),
        )
        self.feed = FeedHandler(feed)
        self.counters: Counter[str] = _Counted(self._registry)
        self._spent = _Spent(self._registry)
        self._refused = _Counts(
            "refused_requests_total", "Requests refused before a call, by status and reason.",
            ("status", "kind"), self._registry, start=_REFUSALS,
        )  # fmt: skip
        self._failed = _Counts(
            "failed_attempts_total", "Attempts that failed at their provider.",
            ("account", "kind"), self._registry,
        )  # fmt: skip
        self._circuits = Gauge(
            CIRCUITS,
            "End of the cooldown of a failing model, by the kind of the last failure.",
            ("place", "model", "kind"), registry=self._registry, multiprocess_mode="mostrecent",
        )  # fmt: skip
        self._circuits_seen = _Bounded()
        self.reloader: Reloader | None = None

    def hear(self, entry: Entry) -> None:
        """Add a finished row of the ledger to the spending metrics, by key and model."""
        self._spent.add(entry)

    def hear_refusal(self, status: int, kind: str) -> None:
        """Count a request that the gateway refused; `kind` is the kind of failure, if any."""
        self._refused.add(str(status), kind or OTHER)

    def hear_failure(self, account: str, kind: str) -> None:
        """Count an attempt that failed at its provider."""
        self._failed.add(account, kind)

    def hear_circuit(self, circuit: OpenCircuit) -> None:
        """Remember the end of a cooldown."""
        labels = circuit.place, circuit.model, circuit.kind
        if self._circuits_seen.has_room(labels):
            self._circuits.labels(*labels).set(circuit.until.timestamp())

    def belong_to(self, app: web.Application) -> None:
        """Start and stop the shared feed together with an application."""
        app.on_shutdown.append(self.feed.hang_up)
        if isinstance(self._feed, SharedFeed):
            app.on_startup.append(self._feed.join)
            app.on_cleanup.append(self._feed.leave)

    def exposition(self, spent: Iterable[Spending], keys: Mapping[str, Key]) -> bytes:
        """Return all metrics in Prometheus's text format, including the spending of keys."""
        now = CollectorRegistry()
        now.register(_Now([*_of_keys(spent, keys), *_of_file(self.reloader)]))
        current: Any = _Current(of_all_processes(self._registry), self._now())
        return generate_latest(current) + generate_latest(now)


class _Counted(Counter[str]):
    """Counters by name, also exported as metrics.

    Names that end in `_total` become counters; all other names become gauges.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._registry = registry
        self._metrics: dict[str, Total | Gauge] = {}
        for name in _ABOUT:
            self[name] = 0

    def __setitem__(self, name: str, value: int) -> None:
        metric = self._metrics.get(name) or self._metric(name)
        if isinstance(metric, Total):
            metric.inc(value - self[name])
        else:
            metric.set(value)
        super().__setitem__(name, value)

    def _metric(self, name: str) -> Total | Gauge:
        about, to = _ABOUT.get(name, "Count since the start."), self._registry
        made: Total | Gauge
        if name.endswith("_total"):
            made = Total(name, about, registry=to)
        else:
            together: Any = "max" if "peak" in name else "livesum"
            made = Gauge(name, about, registry=to, multiprocess_mode=together)
        return self._metrics.setdefault(name, made)


class _Spent:
    """Dollars and tokens by key and model; models without charges have no metric."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def total(name: str, about: str) -> Total:
            return Total(f"swink_gateway_spent_{name}", about, ("key", "model"), registry=registry)

        self._dollars = total("dollars_total", "US dollars charged to a key for a model.")
        self._tokens = total("tokens_total", "Tokens charged to a key for a model.")
        self._attempts = total("attempts_total", "Attempts charged to a key for a model.")
        self._known = _Bounded()

    def add(self, entry: Entry) -> None:
        """Count a row."""
        if not entry.tokens and not entry.cost:
            return
        pair = entry.key, entry.model
        if not self._known.has_room(pair):
            pair = entry.key, OTHER
        self._dollars.labels(*pair).inc(max(0.0, entry.cost or 0.0))
        self._tokens.labels(*pair).inc(max(0, entry.tokens))
        self._attempts.labels(*pair).inc()


class _Bounded:
    """A set of labels with at most `MOST_PAIRS` members."""

    def __init__(self) -> None:
        self._known: set[tuple[str, ...]] = set()

    def has_room(self, labels: tuple[str, ...]) -> bool:
        """Add labels, and return True if they are in the set."""
        if labels not in self._known and len(self._known) < MOST_PAIRS:
            self._known.add(labels)
        return labels in self._known


class _Counts:
    """A counter with two labels; the first label of further pairs is `other`."""

    def __init__(
        self,
        name: str,
        about: str,
        labels: tuple[str, str],
        registry: CollectorRegistry,
        start: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._total = Total(f"swink_gateway_{name}", about, labels, registry=registry)
        self._known = _Bounded()
        for pair in start:
            self._total.labels(*pair)

    def add(self, name: str, kind: str) -> None:
        """Count an event."""
        pair = name, kind
        self._total.labels(*(pair if self._known.has_room(pair) else (OTHER, kind))).inc()


class _Current:
    """The metrics of a registry, without the circuits whose cooldown has ended at `now`."""

    def __init__(self, registry: CollectorRegistry, now: float) -> None:
        self._registry = registry
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; prometheus_client calls this."""
        for metric in self._registry.collect():
            if metric.name == CIRCUITS:
                metric.samples = [one for one in metric.samples if one.value > self._now]
            yield metric


class _Now:
    """Metrics that are computed when Prometheus requests them."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return the metrics; prometheus_client calls this."""
        return self._metrics


def _of_keys(spent: Iterable[Spending], keys: Mapping[str, Key]) -> Iterator[Metric]:
    def gauge(name: str, about: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"swink_gateway_key_{name}", about, labels=("key", *labels))

    dollars = gauge("dollars", "US dollars that a key has spent in this day or month.", "period")
    limit = gauge("dollars_limit", "Budget of a key in US dollars.", "period")
    requests = gauge("requests_last_minute", "Requests of a key in the last minute.")
    tokens = gauge("tokens_last_minute", "Tokens of a key in the last minute.")
    for one in spent:
        taken, allowed = asdict(one), asdict(allowance_of(keys[one.key]))
        for name, period in _PERIODS.items():
            dollars.add_metric((one.key, period), taken[name])
        for name, period in _LIMITS.items():
            if allowed[name] is not None:
                limit.add_metric((one.key, period), allowed[name])
        requests.add_metric((one.key,), one.requests)
        tokens.add_metric((one.key,), one.tokens)
    yield from (dollars, limit, requests, tokens)


def _of_file(reloader: Reloader | None) -> Iterator[Metric]:
    if reloader is None:
        return
    name = "swink_gateway_config"
    yield GaugeMetricFamily(
        f"{name}_is_current", "Whether the configuration file is in use (1) or has a fault (0).",
        value=float(reloader.is_current),
    )  # fmt: skip
    yield GaugeMetricFamily(
        f"{name}_read_timestamp_seconds",
        "Time when the configuration in use was last current.",
        value=reloader.at,
    )
    yield CounterMetricFamily(
        f"{name}_failures", "Failed reloads of the configuration file.", value=reloader.failures
    )
