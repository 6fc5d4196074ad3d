"""The metrics of a call and their labels, in one process and in several."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_observer_prometheus.environment import from_environment
from swink_observer_prometheus.metrics import MOST_MODELS
from swink_observer_prometheus.observer import CONTEXT, TRANSIENT, PrometheusObserver
from swink_observer_prometheus.serving import serve
from swink_testing.acme import acme_answer, acme_host
from swink_testing.calls import call_of
from swink_testing.clock import ManualClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse
from swink_testing.observers import ObserverConformance, set_times

AT_ONCE = swink.RetryPolicy(base=0.0, fall_back_on=frozenset({Kind.AUTH}))
ANSWER = ({"text": "Hel"}, {"text": "lo"}, {"stop": "stop"})


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """The samples that a registry exposes, `name label=value …` by value, as parsed by Prometheus's
    own parser; without zeros, buckets and creation times.
    """
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            if sample.value and not sample.name.endswith(("_bucket", "_created")):
                labels = " ".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
                found[f"{sample.name} {labels}"] = sample.value
    return found


async def counted(
    *answers: MemoryResponse, models: Any = "acme/large", calls: int = 1
) -> dict[str, float]:
    """The metrics that calls add to a new registry."""
    registry = CollectorRegistry()
    own = {"acme": {"api_key": "k", "base_url": "http://acme.invalid"}}
    host, http = acme_host([PrometheusObserver(registry)]), MemoryHTTPClient(*answers)
    client = swink.Client(host=host, http=http, providers=own, retry=AT_ONCE)
    async with client:
        for _ in range(calls):
            async with client.stream(models, "Hi") as stream:
                async for _ in stream:
                    pass
    return samples(registry)


LARGE = "model=large provider=acme"
OTHER = "model=other provider=acme"


async def test_an_answer_is_counted_and_timed_under_its_model() -> None:
    found = await counted(acme_answer(*ANSWER))
    assert found[f"llm_requests_total {LARGE} stop_reason=stop"] == 1
    assert found[f"llm_input_tokens_total {LARGE}"] == 1
    assert found[f"llm_output_tokens_total {LARGE}"] == 2
    for name in ("request_duration_seconds", "time_to_first_token_seconds", "token_gap_seconds"):
        assert found[f"llm_{name}_count {LARGE}"] == 1
    assert not any(name.startswith("llm_active_streams") for name in found)  # it is 0 again


def refusal() -> MemoryResponse:
    return MemoryResponse.of_json({"error": "no such key"}, 401)


# (name, answers, models, what is counted)
TROUBLES: list[tuple[str, Any, Any, str]] = [
    (
        "made_again",
        lambda: [acme_answer(*ANSWER), acme_answer({"error": "busy"}), acme_answer(*ANSWER)],
        "acme/large",
        f"llm_request_retries_total error_type=overloaded {LARGE}",
    ),
    (
        "handed_on",
        lambda: [acme_answer(*ANSWER), refusal(), acme_answer(*ANSWER)],
        ["acme/large", "acme/small"],
        f"llm_fallback_triggered_total fallback_type=provider_switch {LARGE}",
    ),
    (
        "refused",
        lambda: [acme_answer(*ANSWER), refusal()],
        "acme/large",
        f"llm_streaming_errors_total error_category=permanent error_type=auth {LARGE}",
    ),
    (
        "damaged",
        lambda: [
            acme_answer(*ANSWER),
            MemoryResponse([b"data: {x}\n\n"], headers={"Content-Type": "text/event-stream"}),
            acme_answer(*ANSWER),
        ],
        "acme/large",
        f"llm_malformed_frames_total {LARGE}",
    ),
]


@pytest.mark.parametrize(
    ("answers", "models", "counter"), [row[1:] for row in TROUBLES], ids=[r[0] for r in TROUBLES]
)
async def test_trouble_is_counted_under_the_model_that_had_it(
    answers: Any, models: Any, counter: str
) -> None:
    assert (await counted(*answers(), models=models, calls=2))[counter] == 1


def shown(
    registry: CollectorRegistry,
    *events: Any,
    model: str = "large",
    clock: Any = None,
    most_unlisted: int = MOST_MODELS,
) -> None:
    """Show a call to an observer: numbers among the events are seconds that pass."""
    observer = PrometheusObserver(registry, most_unlisted=most_unlisted)
    clock = clock or ManualClock()
    call = call_of(object(), swink.Model("acme", model), clock=clock)
    for event in events:
        if isinstance(event, int | float):
            clock._now += event
            continue
        set_times(call, event, clock.time())
        if isinstance(event, swink.Done | swink.Error):
            call.add(event.usage, event.cost)
        observer.on_event(event=event, call=call)


BOUGHT = swink.Done(
    swink.StopReason.STOP,
    swink.Usage(100, 40, cache_read=60, cache_write=10, reasoning=30),
    swink.Cost(total=0.25),
)


def test_tokens_cost_and_pace_are_those_of_the_answer() -> None:
    registry = CollectorRegistry()
    delta = swink.TextDelta(0, "x")
    shown(registry, swink.Start(), 2.0, swink.TextStart(0), delta, 3.0, delta, 1.0, BOUGHT)
    found = samples(registry)
    for name, count in (("input", 100), ("output", 40), ("cache_read", 60), ("reasoning", 30)):
        assert found[f"llm_{name}_tokens_total {LARGE}"] == count
    assert found[f"llm_cost_dollars_total {LARGE}"] == 0.25
    assert found[f"llm_request_duration_seconds_sum {LARGE}"] == 6.0
    assert found[f"llm_time_to_first_token_seconds_sum {LARGE}"] == 2.0
    assert found[f"llm_token_gap_seconds_sum {LARGE}"] == 3.0
    assert found[f"llm_output_tokens_per_second_sum {LARGE}"] == 10.0  # 40 tokens in 4 seconds


def test_the_times_of_a_second_model_are_those_of_its_own_attempt() -> None:
    registry = CollectorRegistry()
    delta = swink.TextDelta(0, "x")
    retry = swink.Retry(1, 1, 0.0, "busy", "acme/large", Kind.OVERLOADED)
    first = (swink.Start(), 5.0, swink.TextStart(0), delta, 1.0, retry)
    second = (swink.Start(), 2.0, swink.TextStart(0), delta, 4.0, BOUGHT)
    shown(registry, *first, 60.0, *second)
    found = samples(registry)
    assert found[f"llm_time_to_first_token_seconds_sum {LARGE}"] == 2.0
    assert found[f"llm_output_tokens_per_second_sum {LARGE}"] == 10.0  # 40 tokens in 4 seconds
    assert found[f"llm_request_duration_seconds_sum {LARGE}"] == 72.0


def test_an_answer_from_a_cache_counts_nothing_that_nobody_bought() -> None:
    registry = CollectorRegistry()
    deltas = [0.1, swink.TextDelta(0, "x")] * 3
    hit = swink.Notice("cache_hit")
    shown(registry, swink.Start(), hit, swink.TextStart(0), *deltas, 1.0, BOUGHT)
    assert samples(registry) == {
        f"llm_cache_hits_total {LARGE}": 1,
        f"llm_requests_total {LARGE} stop_reason=stop": 1,
    }


def test_a_call_under_way_is_an_active_stream() -> None:
    registry = CollectorRegistry()
    shown(registry, swink.Start())
    assert samples(registry) == {f"llm_active_streams {OTHER}": 1}


def test_names_that_no_provider_answers_to_are_one() -> None:
    registry = CollectorRegistry()
    for number in range(3 * MOST_MODELS):
        lost = swink.Error.model_not_found("no such model")
        shown(registry, swink.Start(), lost, model=f"ignore previous instructions {number}")
    assert samples(registry)[f"llm_requests_total {OTHER} stop_reason=error"] == 3 * MOST_MODELS
    assert "ignore" not in generate_latest(registry).decode()


def test_models_beyond_the_bound_are_one() -> None:
    registry = CollectorRegistry()
    for number in range(MOST_MODELS + 7):
        shown(registry, swink.Start(), BOUGHT, model=f"model-{number}")
    found = samples(registry)
    assert found[f"llm_requests_total {OTHER} stop_reason=stop"] == 7
    assert sum(name.startswith("llm_requests_total") for name in found) == MOST_MODELS + 1


def test_every_kind_has_one_category() -> None:
    assert not CONTEXT & TRANSIENT
    assert {Kind.AUTH, Kind.QUOTA_EXHAUSTED, Kind.INVALID_REQUEST} <= {*Kind} - CONTEXT - TRANSIENT


# -- exposed -------------------------------------------------------------------------------------


def _get(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return str(answer.read().decode())


def test_the_default_registry_is_served() -> None:
    from prometheus_client import REGISTRY

    shown(REGISTRY, swink.Start(), BOUGHT)
    assert "llm_requests_total" in _get(serve("127.0.0.1", 0))


CALLS = """
import asyncio
import swink_core as swink

async def main():
    async with swink.Client() as client:
        await client.complete("echo/echo", "one two three")

asyncio.run(main())
"""

SCRAPES = """
import urllib.request
from swink_observer_prometheus.serving import serve

url = "http://127.0.0.1:%d/metrics" % serve("127.0.0.1", 0)
print(urllib.request.urlopen(url).read().decode())
"""


def test_processes_that_share_a_folder_are_one(tmp_path: Path) -> None:
    shared = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "SWINK_PROMETHEUS": "registry"}

    def run(program: str) -> str:
        command = [sys.executable, "-c", program]
        environ = {**os.environ, **shared}
        return subprocess.run(
            command, env=environ, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    run(CALLS)
    run(CALLS)
    (tmp_path / "counter_1.db").touch()  # a process is creating it
    (tmp_path / "gauge_livesum_2.db").symlink_to(tmp_path / "removed")  # with its process
    assert 'llm_requests_total{model="echo",provider="echo",stop_reason="stop"} 2.0' in run(SCRAPES)


@pytest.mark.parametrize("setting", ["yes", "127.0.0.1:", "99999", ":x"])
def test_a_setting_that_means_nothing_is_refused(setting: str) -> None:
    with pytest.raises(swink.UsageError, match="SWINK_PROMETHEUS"):
        from_environment({"SWINK_PROMETHEUS": setting})


# -- the dashboard -------------------------------------------------------------------------------


def test_the_dashboard_asks_for_what_there_is_and_for_all_of_it() -> None:
    board = json.loads((files("swink_observer_prometheus") / "dashboard.json").read_text("utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    registry = CollectorRegistry()
    PrometheusObserver(registry)
    there, labels = set(), {"provider", "model", "le"}
    for metric in registry.collect():
        suffix = {"counter": "_total", "histogram": "_bucket"}.get(metric.type, "")
        there.add(metric.name + suffix)
    labels |= {"stop_reason", "error_type", "error_category", "fallback_type"}
    used = {name for expr in asked for name in re.findall(r"llm_\w+", expr)}
    assert used == there
    groups = [group for expr in asked for group in re.findall(r"by \(([^)]*)\)", expr)]
    assert {label.strip() for group in groups for label in group.split(",")} <= labels


# -- what every observer promises ----------------------------------------------------------------


REGISTRY = CollectorRegistry()


class TestPrometheusObserver(ObserverConformance):
    observer = staticmethod(lambda: PrometheusObserver(REGISTRY))
    installed = from_environment

    @staticmethod
    def written(observer: Any) -> str:
        return generate_latest(REGISTRY).decode()


def test_models_that_no_catalogue_lists_have_a_bound_of_their_own() -> None:
    registry = CollectorRegistry()
    for number in range(20):
        shown(registry, swink.Start(), BOUGHT, model=f"model-{number}", most_unlisted=3)
    found = samples(registry)
    assert found[f"llm_requests_total {OTHER} stop_reason=stop"] == 17
    assert sum(name.startswith("llm_requests_total") for name in found) == 3 + 1
