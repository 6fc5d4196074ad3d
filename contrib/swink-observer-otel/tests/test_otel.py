"""Spans, metrics and content of calls, as exporters and a real receiver get them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent import futures
from typing import Any

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as of_metrics
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_rpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as of_traces
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_rpc
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from telemetry import CAPTURE, Telemetry

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_observer_otel.conventions import PROVIDERS
from swink_observer_otel.environment import where_set_up
from swink_observer_otel.observer import OTelObserver, shared
from swink_testing.acme import acme_answer, acme_host
from swink_testing.calls import call_of
from swink_testing.driver import MemoryHTTPClient, MemoryResponse
from swink_testing.observers import ObserverConformance, set_times

AT_ONCE = swink.RetryPolicy(base=0.0, fall_back_on=frozenset({Kind.AUTH}))
ANSWER = ({"text": "Hel"}, {"text": "lo"}, {"stop": "stop"})


async def called(
    observer: OTelObserver, *answers: MemoryResponse, models: Any = "acme/large", **options: Any
) -> MemoryHTTPClient:
    own = {"acme": {"api_key": "k", "base_url": "http://acme.invalid:8080/v1"}}
    host, http = acme_host([observer]), MemoryHTTPClient(*answers)
    client = swink.Client(host=host, http=http, providers=own, retry=AT_ONCE)
    async with client, client.stream(models, "Who is there?", **options) as stream:
        async for _ in stream:
            pass
    return http


# -- spans ---------------------------------------------------------------------------------------


async def test_a_call_is_a_client_span_by_the_conventions() -> None:
    told = Telemetry()
    asked = {"temperature": 0.5, "max_tokens": 9, "session_id": "visit-7"}
    await called(told.observer(), acme_answer(*ANSWER), **asked)
    span = told.call
    assert (span.name, span.kind) == ("chat large", trace.SpanKind.CLIENT)
    assert span.attributes is not None
    first_chunk = span.attributes["gen_ai.response.time_to_first_chunk"]
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "acme",
        "gen_ai.request.model": "large",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.conversation.id": "visit-7",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": first_chunk,
        "gen_ai.usage.input_tokens": 1,
        "gen_ai.usage.output_tokens": 2,
        "server.address": "acme.invalid",
        "server.port": 8080,
        "swink.attempts": 1,
    }
    assert isinstance(first_chunk, float)
    assert span.status.status_code is trace.StatusCode.UNSET


async def test_each_attempt_is_a_span_below_the_calls() -> None:
    told = Telemetry()
    busy = MemoryResponse.of_json({"error": "busy"}, 503)
    await called(told.observer(), busy, acme_answer(*ANSWER))
    first, second = told.attempts
    assert [span.name for span in (first, second)] == ["attempt 1", "attempt 2"]
    assert {span.parent and span.parent.span_id for span in (first, second)} == {
        told.call.context and told.call.context.span_id
    }
    assert first.attributes is not None
    assert first.attributes["http.response.status_code"] == 503
    assert first.attributes["error.type"] == "overloaded"
    assert first.status.status_code is trace.StatusCode.ERROR
    assert second.status.status_code is trace.StatusCode.UNSET
    [event] = told.call.events
    assert event.name == "swink.retry"
    assert told.call.status.status_code is trace.StatusCode.UNSET  # in the end, it answered


async def test_nobody_takes_an_attempt_for_one_more_call_of_a_model() -> None:
    told = Telemetry()
    await called(told.observer(), acme_answer(*ANSWER))
    for span in told.attempts:
        assert not [name for name in span.attributes or () if name.startswith("gen_ai")]


async def test_a_fallback_is_an_event_and_metrics_are_the_answering_models() -> None:
    told = Telemetry()
    refusal = MemoryResponse.of_json({"error": "no such key"}, 401)
    models = ["acme/large", "acme/small"]
    await called(told.observer(), refusal, acme_answer(*ANSWER), models=models)
    [event] = told.call.events
    assert event.attributes is not None
    assert (event.name, event.attributes["swink.next_model"]) == ("swink.fallback", "acme/small")
    [duration] = told.points()["gen_ai.client.operation.duration"]
    assert duration.attributes["gen_ai.request.model"] == "small"


def test_the_first_chunk_of_a_second_model_is_timed_from_its_own_attempt() -> None:
    told = Telemetry()
    observer, call = told.observer(), call_of(object(), swink.Model("acme", "large"))
    delta = swink.TextDelta(0, "x")
    retry = swink.Retry(1, 1, 0.0, "busy", "acme/small", Kind.OVERLOADED)
    done = swink.Done(swink.StopReason.STOP)
    rows: list[tuple[float, Any]] = [(1.0, swink.Start()), (6.0, delta), (7.0, retry)]
    rows += [(60.0, swink.Start()), (62.0, delta), (65.0, delta), (66.0, done)]
    for seconds, event in rows:
        set_times(call, event, seconds)
        observer.on_event(event=event, call=call)
    assert told.call.attributes is not None
    assert told.call.attributes["gen_ai.response.time_to_first_chunk"] == 2.0
    chunks = "gen_ai.client.operation.time_to_first_chunk"
    assert sum(point.sum for point in told.points()[chunks]) == 5.0 + 2.0
    [gaps] = told.points()["gen_ai.client.operation.time_per_output_chunk"]
    assert (gaps.count, gaps.sum) == (1, 3.0)


async def test_a_failure_is_an_error_of_its_kind() -> None:
    told = Telemetry()
    await called(told.observer(), MemoryResponse.of_json({"error": "no such key"}, 401))
    assert told.call.status.status_code is trace.StatusCode.ERROR
    assert told.call.attributes is not None
    assert told.call.attributes["error.type"] == "auth"
    [duration] = told.points()["gen_ai.client.operation.duration"]
    assert duration.attributes["error.type"] == "auth"


async def test_a_stream_that_is_left_is_no_error_and_its_spans_end() -> None:
    told = Telemetry()
    client = swink.Client(plugins=[told.observer()])
    async with client, client.stream("echo/stall", "one two") as stream:
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                break
    assert told.call.status.status_code is trace.StatusCode.UNSET
    assert told.call.attributes is not None
    assert told.call.attributes["gen_ai.response.finish_reasons"] == ("aborted",)
    assert len(told.attempts) == 1


async def test_a_call_belongs_to_the_span_around_it_and_leaves_it_current() -> None:
    told = Telemetry()
    tracers = TracerProvider(shutdown_on_exit=False)
    with tracers.get_tracer("program").start_as_current_span("handle") as outer:
        client = swink.Client(plugins=[told.observer()])
        async with client, client.stream("echo/echo", "one two") as stream:
            async for _ in stream:
                assert trace.get_current_span() is outer
        assert told.call.parent is not None
        assert told.call.parent.span_id == outer.get_span_context().span_id


# -- metrics -------------------------------------------------------------------------------------


async def test_the_four_metrics_count_chunks_as_network_reads() -> None:
    told = Telemetry()
    both = b'data: {"text": "a"}\n\ndata: {"text": "b"}\n\n'
    reads = [both, both, both, b'data: {"stop": "stop"}\n\n']
    answer = MemoryResponse(reads, headers={"Content-Type": "text/event-stream"})
    await called(told.observer(), answer)
    points = told.points()
    counts = {name: sum(point.count for point in found) for name, found in points.items()}
    assert counts == {
        "gen_ai.client.operation.duration": 1,
        "gen_ai.client.token.usage": 2,
        "gen_ai.client.operation.time_to_first_chunk": 1,
        "gen_ai.client.operation.time_per_output_chunk": 2,
    }
    tokens = {p.attributes["gen_ai.token.type"]: p.sum for p in points["gen_ai.client.token.usage"]}
    assert tokens == {"input": 1, "output": 2}
    [duration] = points["gen_ai.client.operation.duration"]
    for found in points.values():
        for point in found:
            assert {**duration.attributes} == {
                name: value
                for name, value in point.attributes.items()
                if name != "gen_ai.token.type"
            }
    assert {"server.address", "gen_ai.request.model"} <= {*duration.attributes}
    assert duration.explicit_bounds[:3] == (0.01, 0.02, 0.04)
    assert duration.explicit_bounds[-1] == 81.92


def test_an_answer_from_a_cache_has_no_tokens_and_no_chunks() -> None:
    told = Telemetry()
    observer, call = told.observer(), call_of(object(), swink.Model("acme", "large"))
    done = swink.Done(swink.StopReason.STOP, swink.Usage(100, 40), swink.Cost(total=0.25))
    call.add(done.usage, done.cost)
    deltas = [swink.TextDelta(0, "x")] * 3
    for event in (swink.Start(), swink.Notice("cache_hit"), swink.TextStart(0), *deltas, done):
        observer.on_event(event=event, call=call)
    assert set(told.points()) == {"gen_ai.client.operation.duration"}
    assert told.call.attributes is not None
    assert told.call.attributes["swink.cached"] is True
    assert not [name for name in told.call.attributes if "usage" in name or "cost" in name]


def test_a_failed_attempt_before_an_answer_from_a_cache_is_reported() -> None:
    told = Telemetry()
    observer, call = told.observer(), call_of(object(), swink.Model("acme", "large"))
    call.add(swink.Usage(10, 3), swink.Cost(total=0.25))
    call.add(swink.Usage(0, 0), swink.Cost(total=0.0))
    call.attempts = 2
    retry = swink.Retry(2, 1, 0.0, "busy", "acme/large")
    done = swink.Done(swink.StopReason.STOP, swink.Usage(0, 0), swink.Cost(total=0.0))
    for event in (swink.Start(), retry, swink.Start(), swink.Notice("cache_hit"), done):
        observer.on_event(event=event, call=call)
    assert told.call.attributes is not None
    expected = {
        "swink.cached": True,
        "swink.cost": 0.25,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
    }
    assert expected.items() <= told.call.attributes.items()
    tokens = told.points()["gen_ai.client.token.usage"]
    assert sum(point.sum for point in tokens) == 13


# -- content, context, configuration -------------------------------------------------------------


async def test_content_is_captured_when_the_standard_variable_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CAPTURE, "SPAN_ONLY")
    told = Telemetry()
    tool = swink.Tool("add", "Add numbers.", {"type": "object"})
    frames = ({"text": "Hello"}, {"call": "add", "arguments": '{"a": 1}'}, {"stop": "tool_use"})
    await called(told.observer(), acme_answer(*frames), system_prompt="Be brief.", tools=[tool])
    captured = {
        name.removeprefix("gen_ai."): json.loads(str(value))
        for name, value in (told.call.attributes or {}).items()
        if name.endswith(("messages", "instructions", "definitions"))
    }
    assert captured["system_instructions"] == [{"content": "Be brief.", "type": "text"}]
    assert captured["input.messages"][0]["parts"] == [{"content": "Who is there?", "type": "text"}]
    [answer] = captured["output.messages"]
    assert (answer["role"], answer["finish_reason"]) == ("assistant", "tool_call")
    assert [part["type"] for part in answer["parts"]] == ["text", "tool_call"]
    assert answer["parts"][1]["arguments"] == {"a": 1}
    assert captured["tool.definitions"][0]["name"] == "add"


async def test_content_goes_into_events_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CAPTURE, "EVENT_ONLY")
    told = Telemetry()
    await called(told.observer(), acme_answer(*ANSWER))
    [record] = told.records.get_finished_logs()
    assert record.log_record.event_name == "gen_ai.client.inference.operation.details"
    assert "Who is there?" in str(record.log_record.attributes)
    assert "Who is there?" not in str(told.call.attributes)


PICTURE = swink.ImageBlock(swink.Base64Source("image/png", "QUJD"))
CONVERSATION = [
    swink.UserMessage([swink.TextBlock("Look"), PICTURE]),
    swink.AssistantMessage([swink.ThinkingBlock("Hm."), swink.ToolCallBlock("c1", "add")]),
    swink.ToolResultMessage("c1", "add", "2"),
    swink.UserMessage([swink.ImageBlock(swink.UrlSource("http://x.invalid/a.png"))]),
]


def test_every_kind_of_block_has_the_form_of_the_conventions() -> None:
    from swink_observer_otel.content import input_messages

    messages = input_messages(swink.Context(CONVERSATION))
    assert [(m.role, [part.type for part in m.parts]) for m in messages] == [
        ("user", ["text", "blob"]),
        ("assistant", ["reasoning", "tool_call"]),
        ("tool", ["tool_call_response"]),
        ("user", ["uri"]),
    ]


@pytest.mark.parametrize("propagate", [True, False])
async def test_the_context_goes_upstream_where_that_is_asked_for(propagate: bool) -> None:
    told = Telemetry()
    observer = told.observer(propagate=propagate)
    busy = acme_answer({"error": "busy"})
    http = await called(observer, busy, acme_answer(*ANSWER))
    sent = [request.headers.get("traceparent", "") for request in http.requests]
    spans = [f"{span.context.span_id:016x}" for span in told.attempts if span.context]
    assert [header[36:52] for header in sent] == (spans if propagate else ["", ""])


PROGRAM = """
import asyncio, sys
import swink_core as swink

if "set up" in sys.argv:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    trace.set_tracer_provider(tracers)

asyncio.run(swink.complete("echo/echo", "one"))
print("imported", "opentelemetry" in sys.modules)
"""


@pytest.mark.parametrize("how", ["set up", "not"])
def test_installed_it_is_on_where_the_program_has_set_opentelemetry_up(how: str) -> None:
    command = [sys.executable, "-c", PROGRAM, how]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert ('"name": "chat echo"' in done.stdout) is (how == "set up")
    assert f"imported {how == 'set up'}" in done.stdout


def test_where_the_api_alone_is_imported_there_is_none() -> None:
    assert where_set_up() is None


async def test_the_installed_one_gives_way_to_one_that_the_program_has_made() -> None:
    told = Telemetry()
    async with swink.Client(plugins=[told.observer()]) as client:
        stream = client.stream("echo/echo", "one")
        assert shared().watch(stream.call) is None
        await stream.result()
    assert told.call.name == "chat echo"
    async with swink.Client() as client:
        assert shared().watch(client.stream("echo/echo", "one").call) is not None


def test_providers_have_the_names_of_the_conventions() -> None:
    known = {value.value for value in gen_ai_attributes.GenAiProviderNameValues}
    assert set(PROVIDERS.values()) <= known


# -- a receiver ----------------------------------------------------------------------------------


class Receiver(traces_rpc.TraceServiceServicer, metrics_rpc.MetricsServiceServicer):
    """Receives the data that an OTLP exporter sends over gRPC."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: list[Any] = []

    def Export(self, request: Any, context: Any) -> Any:
        if isinstance(request, of_traces.ExportTraceServiceRequest):
            for resource in request.resource_spans:
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
            return of_traces.ExportTraceServiceResponse()
        for resource in request.resource_metrics:
            self.metrics += [metric for scope in resource.scope_metrics for metric in scope.metrics]
        return of_metrics.ExportMetricsServiceResponse()


@pytest.fixture
def receiver() -> Iterator[tuple[Receiver, str]]:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    receiver = Receiver()
    traces_rpc.add_TraceServiceServicer_to_server(receiver, server)
    metrics_rpc.add_MetricsServiceServicer_to_server(receiver, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield receiver, f"http://127.0.0.1:{port}"
    server.stop(None).wait()


async def test_a_real_receiver_gets_spans_and_metrics(receiver: tuple[Receiver, str]) -> None:
    got, address = receiver
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(address, insecure=True)))
    exporter = OTLPMetricExporter(address, insecure=True)
    meters = MeterProvider([PeriodicExportingMetricReader(exporter)], shutdown_on_exit=False)
    observer = OTelObserver(tracer_provider=tracers, meter_provider=meters)
    await called(observer, acme_answer(*ANSWER))
    meters.shutdown()
    tracers.shutdown()
    assert {span.name for span in got.spans} == {"chat large", "attempt 1"}
    [chat] = [span for span in got.spans if span.name == "chat large"]
    told = {attribute.key: attribute.value for attribute in chat.attributes}
    assert told["gen_ai.usage.output_tokens"].int_value == 2
    assert "gen_ai.client.token.usage" in {metric.name for metric in got.metrics}


# -- what every observer promises ----------------------------------------------------------------

WRITTEN: deque[str] = deque(maxlen=100)


class Texts(SpanExporter):
    """Stores the texts of spans, not the spans."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        WRITTEN.extend(span.to_json() for span in spans)
        return SpanExportResult.SUCCESS


def _observer() -> OTelObserver:
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(Texts()))
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    return OTelObserver(tracer_provider=tracers, meter_provider=meters)


class TestOTelObserver(ObserverConformance):
    observer = _observer
    installed = where_set_up

    @staticmethod
    def written(observer: Any) -> str:
        return "".join(WRITTEN)
