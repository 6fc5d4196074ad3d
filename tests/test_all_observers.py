"""All shipped observers at once, beside one that crashes: each receives all events."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

import swink_core as swink
from swink_core.vocabulary.prices import Prices
from swink_observer_log.observer import LogObserver
from swink_observer_otel.observer import OTelObserver
from swink_observer_prometheus.observer import PrometheusObserver
from swink_observers.background import Background
from swink_observers.feed import Feed
from swink_recorder.documents import read_document
from swink_recorder.recorder import Recorder
from swink_recorder.store import open_store
from swink_testing.acme import acme_answer, acme_host
from swink_testing.driver import MemoryHTTPClient, MemoryResponse
from swink_testing.observing import PausingResponse

KEY = "sk-canary-0123456789"


class Witness:
    def __init__(self) -> None:
        self.events: list[Any] = []

    @swink.hookimpl
    def on_event(self, event: Any) -> None:
        self.events.append(swink.dump(event))

    def count(self, kind: str) -> int:
        return sum(event["type"] == kind for event in self.events)


class Crashes:
    def __init__(self, fault: BaseException) -> None:
        self._fault = fault

    @swink.hookimpl
    def on_event(self, event: Any) -> None:
        if isinstance(event, swink.TextDelta | swink.Error):
            raise self._fault


def whole() -> MemoryResponse:
    return acme_answer({"text": "Hello"}, {"text": " there"}, {"stop": "stop"})


def refused() -> MemoryResponse:
    return MemoryResponse.of_json({"error": "not known"}, 401)


def pausing() -> MemoryResponse:
    head = {"Content-Type": "text/event-stream"}
    return PausingResponse([b'data: {"text": "Hello"}\n\n'], headers=head)


# (what answers, the models, how the caller takes it)
CALLS: dict[str, tuple[list[Callable[[], MemoryResponse]], list[str], str]] = {
    "an answer": ([whole], ["acme/large"], "read"),
    "a retry": ([lambda: acme_answer({"error": "busy"}), whole], ["acme/large"], "read"),
    "a fallback": ([refused, whole], ["acme/large", "acme/small"], "read"),
    "a refusal": ([refused], ["acme/large"], "read"),
    "a cut answer": ([lambda: acme_answer({"text": "Hello"})], ["acme/large"], "read"),
    "a stream left early": ([whole], ["acme/large"], "leave"),
    "a cancelled call": ([pausing], ["acme/large"], "cancel"),
}


async def make(name: str, plugins: list[Any]) -> None:
    answers, models, how = CALLS[name]
    retry = swink.RetryPolicy(base=0.0, fall_back_on=frozenset({swink.StreamErrorKind.AUTH}))
    own = {"acme": {"api_key": KEY, "base_url": "http://acme.invalid"}}
    http = MemoryHTTPClient(*(answer() for answer in answers))
    said = asyncio.Event()
    host = acme_host(plugins)
    async with swink.Client(host=host, http=http, retry=retry, providers=own) as client:

        async def read() -> None:
            async with client.stream(models, "Hi") as stream:
                async for event in stream:
                    if isinstance(event, swink.TextDelta):
                        said.set()
                        if how == "leave":
                            break

        task = asyncio.create_task(read())
        if how == "cancel":
            await said.wait()
            task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("fault", [ValueError("no"), SystemExit(3)], ids=["raises", "exits"])
@pytest.mark.parametrize("name", CALLS)
async def test_each_is_told_of_every_event_in_order(
    name: str, fault: BaseException, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "swink_observer_log")
    spans = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    registry, feed = CollectorRegistry(), Feed(content=True)
    recorder, background_witness = Recorder(tmp_path / "calls"), Witness()
    background = Background(background_witness)
    otel = OTelObserver(tracer_provider=tracers, meter_provider=MeterProvider())
    first, last = Witness(), Witness()
    observers = [LogObserver(), PrometheusObserver(registry), otel, feed, recorder, background]
    await make(name, [first, Crashes(fault), *observers, last])
    await recorder.aclose()
    await background.aclose()
    feed.end()

    assert first.events == last.events == background_witness.events
    ended = first.events[-1]
    attempts = first.count("start")
    assert ended["type"] in ("done", "error")
    store = open_store(tmp_path / "calls")
    [entry] = store.entries()
    takes, _ = read_document(store.read(entry.id), "here")
    assert [event for take in takes for _, event in take.events] == first.events

    logged: Any = [record.swink for record in caplog.records if hasattr(record, "swink")]
    assert [row["event"] for row in logged if row["event"].endswith("_delta")] == [
        event["type"] for event in first.events if event["type"].endswith("_delta")
    ]
    assert sum(row["event"] in ("retry", "fallback") for row in logged) == first.count("retry")
    assert [span.name for span in spans.get_finished_spans()] == [
        *(f"attempt {number + 1}" for number in range(attempts)), "chat large",
    ]  # fmt: skip
    counted = [
        sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "llm_requests_total"
    ]
    assert counted == [1.0]
    told = [record async for record in feed.follow(last=1000) if record is not None]
    names = [record.name for record in told]
    assert (names[0], names.count("retry")) == ("begin", first.count("retry"))
    assert names.count("end") == 1
    said = "".join(json.loads(record.data)["text"] for record in told if record.name == "content")
    assert said == "".join(event.get("delta", "") for event in first.events)


async def test_each_shows_that_a_cost_is_an_estimate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "swink_observer_log")
    spans = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    registry, feed = CollectorRegistry(), Feed()
    recorder = Recorder(tmp_path / "calls")
    otel = OTelObserver(tracer_provider=tracers, meter_provider=MeterProvider())
    observers = [LogObserver(), PrometheusObserver(registry), otel, feed, recorder]
    info = swink.ModelInfo("large", "acme", prices=Prices(input=1.0, output=2.0))
    own = {"acme": {"api_key": KEY, "base_url": "http://acme.invalid"}}
    http = MemoryHTTPClient(acme_answer({"text": "Hello"}))  # cut off, without its usage
    model = swink.Model("acme", "large", info)
    async with (
        swink.Client(host=acme_host(observers), http=http, providers=own) as client,
        client.stream(model, "Hi") as stream,
    ):
        async for _ in stream:
            pass
    await recorder.aclose()
    feed.end()

    assert stream.call.cost is not None
    assert stream.call.cost.total is not None
    dollars = stream.call.cost.total
    assert dollars > 0
    [logged] = [r.swink for r in caplog.records if getattr(r, "swink", {}).get("cost_usd")]  # type: ignore[attr-defined]  # the observer's
    assert logged["cost_estimated"] is True
    [*_, span] = spans.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["swink.cost.estimated"] is True
    counted = {s.name: s.value for metric in registry.collect() for s in metric.samples}
    assert counted["llm_estimated_cost_dollars_total"] == counted["llm_cost_dollars_total"]
    assert counted["llm_cost_dollars_total"] == pytest.approx(dollars)
    [entry] = open_store(tmp_path / "calls").entries()
    assert entry.estimated
    assert entry.cost == pytest.approx(dollars)
    told = [record async for record in feed.follow(last=1000) if record is not None]
    [end] = [json.loads(record.data) for record in told if record.name == "end"]
    assert end["estimated"] is True
