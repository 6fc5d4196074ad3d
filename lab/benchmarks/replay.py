"""Calls whose work never varies: `python -m lab.benchmarks.replay`, with runs on standard input.

Each line of the input is one run, `KIND COUNT [PLANT]`. The process makes one call of each kind,
and then forks for each run, so that all runs share one start. For each fork it prints a line: the
process ID and the run.

The answers come from memory, so that nothing but the client's own work is left to count; see
`lab.benchmarks.instructions`, which counts it. PLANT names the stage that is made slower on
purpose, to show that it is noticed: one of `STAGES` or, with `gateway`, of `GATEWAY_STAGES`.

    burst    COUNT answers of 2,000 deltas, as many frames a read as 64 KiB hold
    paced    COUNT answers of 200 deltas, one frame a read
    request  COUNT answers of 3 deltas, each one read
    log, prometheus, otel  the same with that observer
    sdk      COUNT times the spans and measurements of such a call, by OpenTelemetry's SDK alone
    gateway  COUNT requests to a gateway in memory, each with such an answer

    chat-31-300  each conversation of Chat Completions once, then COUNT answers of 300 deltas to
                 the one of 31 messages and 8 tools; likewise for each name in `CONVERSATIONS`
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import traceback
from importlib import import_module
from typing import Any

from lab.benchmarks import conversations
from lab.benchmarks.conversations import PROTOCOLS, PROVIDERS, SIZES, Answering, conversation, read
from lab.benchmarks.gateway_in_memory import answer_requests
from lab.benchmarks.server import WRITE_SIZE, expected_text, frames
from swink_core import Client
from swink_core import client as client_module
from swink_core.framing.sse import SSEDecoder
from swink_core.providers import Attempt, EventSource, EventWriter, HTTPProvider, MessageConverter
from swink_core.streaming.builder import MessageBuilder
from swink_core.streaming.driver import Driver
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

OBSERVERS = ("log", "prometheus", "otel")
"""Observers whose share of a short call is counted; the recorder works in a thread."""

DELTAS = {"burst": 2_000, "paced": 200, "request": 3, **dict.fromkeys(OBSERVERS, 3)}

HEAD = {"Content-Type": "text/event-stream"}

OWN = {"openai": {"api_key": "sk-bench", "base_url": "http://replay.invalid/v1"}}

CONVERSATIONS = {
    f"{protocol}-{size}-{deltas}": (protocol, size, deltas)
    for protocol in PROTOCOLS
    for size in SIZES
    for deltas in conversations.DELTAS
}
"""The protocol, the messages and the deltas of each conversation, by its name."""


def reads(kind: str) -> list[bytes]:
    """Return an answer as the reads of a kind cut it."""
    parts = frames(DELTAS[kind])
    if kind == "paced":
        return list(parts)
    body = b"".join(parts)
    return [body[start : start + WRITE_SIZE] for start in range(0, len(body), WRITE_SIZE)]


async def replay(kind: str, count: int) -> None:
    """Read so many answers, one after the other, and check each text."""
    pieces = reads(kind)

    class Memory(MemoryHTTPClient):
        async def send(self, request: Any, connect_timeout: float | None) -> MemoryResponse:
            return MemoryResponse(pieces, headers=HEAD)

    plugins = [observer(kind)] if kind in OBSERVERS else []
    async with Client(http=Memory(), providers=OWN, plugins=plugins) as client:
        for _ in range(count):
            async with client.stream("openai/gpt-4o", "hi") as stream:
                async for _ in stream:
                    pass
            if stream.message.text != expected_text(DELTAS[kind]):
                raise AssertionError(f"{kind}: the text is not what was sent")


def observer(name: str) -> Any:
    """Make an observer at work, which keeps its figures in memory."""
    match name:
        case "log":
            from swink_observer_log.observer import LogObserver

            logger = logging.Logger("calls", logging.INFO)
            logger.addHandler(logging.NullHandler())
            return LogObserver(logger)
        case "prometheus":
            from prometheus_client import CollectorRegistry

            from swink_observer_prometheus.observer import PrometheusObserver

            return PrometheusObserver(CollectorRegistry())
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider

    from swink_observer_otel.observer import OTelObserver

    meters = MeterProvider([InMemoryMetricReader()])
    return OTelObserver(tracer_provider=TracerProvider(), meter_provider=meters)


def telemetry(count: int) -> None:
    """Make the spans and the measurements that `otel` makes of a short call, by the SDK alone."""
    from opentelemetry import trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider

    tracer = trace.get_tracer("floor", tracer_provider=TracerProvider())
    meter = MeterProvider([InMemoryMetricReader()]).get_meter("floor")
    duration, first, tokens = map(meter.create_histogram, ("duration", "first", "tokens"))
    who: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o",
        "server.address": "replay.invalid",
        "server.port": 80,
    }
    call: dict[str, Any] = {
        **who,
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.time_to_first_chunk": 0.1,
        "gen_ai.usage.input_tokens": 8,
        "gen_ai.usage.output_tokens": 3,
        "swink.attempts": 1,
        "swink.cost": 0.00005,
    }
    attempt: dict[str, Any] = {
        "swink.attempt": 1,
        "swink.model": "openai/gpt-4o",
        "server.address": "replay.invalid",
        "server.port": 80,
        "http.response.status_code": 200,
        "swink.response.id": "chatcmpl-1",
        "swink.response.model": "gpt-4o",
    }
    for _ in range(count):
        span = tracer.start_span("chat gpt-4o", kind=trace.SpanKind.CLIENT, attributes=call)
        context = trace.set_span_in_context(span)
        inner = tracer.start_span("attempt 1", context, attributes=attempt)
        inner.add_event("swink.notice", {"swink.notice.code": "model_retires"})
        first.record(0.1, who, context)
        inner.end()
        duration.record(0.1, who, context)
        tokens.record(8, {**who, "gen_ai.token.type": "input"}, context)
        tokens.record(3, {**who, "gen_ai.token.type": "output"}, context)
        span.end()


async def converse(kind: str, count: int) -> None:
    """Make each call of a protocol once, then `count` calls of one kind; check each text.

    The first calls warm up the caches, so the calls that are counted find them as in a program
    that runs for long.
    """
    protocol, *_ = CONVERSATIONS[kind]
    wire = PROTOCOLS[protocol]
    contexts = {size: conversation(size) for size in SIZES}
    warm = [name for name, (other, *_) in CONVERSATIONS.items() if other == protocol]
    http = Answering(wire)
    async with Client(http=http, providers=PROVIDERS) as client:
        for name in [*warm, *[kind] * count]:
            _, size, http.deltas = CONVERSATIONS[name]
            if await read(client, wire, contexts[size]) != expected_text(http.deltas):
                raise AssertionError(f"{name}: the text is not what was sent")


STAGES: dict[str, tuple[Any, str]] = {
    "decoder": (SSEDecoder, "feed"),
    "writer": (EventWriter, "text"),
    "targets": (Client, "_targets"),
    "validation": (client_module, "check_context"),
    "plan": (HTTPProvider, "_planned"),
    "conversion": (MessageConverter, "messages"),
    "request": (HTTPProvider, "json_request"),
    "source": (EventSource, "__init__"),
    "message": (MessageBuilder, "message"),
    "price": (Attempt, "price"),
    "end": (Driver, "_end"),
}
"""The function of each stage of a call, by its owner and its name."""

GATEWAY_STAGES: dict[str, tuple[str, str, str]] = {
    "admission": ("swink_gateway.serving.admission", "Admission", "place"),
    "parsing": ("swink_gateway.serving.calls", "Calls", "_parsed"),
    "routing": ("swink_gateway.policy.routing", "Routing", "routed"),
    "answer": ("swink_gateway.serving.answers", "OneAnswer", "streamed"),
}
"""The function of each stage of the gateway, by its module, its class and its name."""

ITERATIONS = 370
"""Rounds of an empty loop: about a twentieth of the instructions of a short call.

Three times as many are about a twentieth of those of a request to the gateway.
"""


def _plant(stage: str) -> None:
    """Make a stage slower, by about a twentieth of the unit that is counted."""
    if stage in GATEWAY_STAGES:
        module, kind, name = GATEWAY_STAGES[stage]
        owner = vars(import_module(module))[kind]
    else:
        owner, name = STAGES[stage]
    given = vars(owner)[name]
    honest: Any = given.fget if isinstance(given, property) else given

    def slower(*arguments: Any, **named: Any) -> Any:
        for _ in range(_iterations(stage, arguments)):
            pass
        return honest(*arguments, **named)

    setattr(owner, name, property(slower) if isinstance(given, property) else slower)


def _iterations(stage: str, arguments: tuple[Any, ...]) -> int:
    """Return the size of a slowdown; the decoder and the writer are counted for each delta."""
    if stage == "writer":
        return 0  # another call of a function is enough
    if stage in GATEWAY_STAGES:
        return 3 * ITERATIONS
    return len(arguments[1]) // 55 if stage == "decoder" else ITERATIONS


def run(kind: str, count: int, *plants: str) -> None:
    """Make `count` calls of a kind, with the slowdowns planted. Raises AssertionError."""
    for plant in plants:
        _plant(plant)
    if kind in CONVERSATIONS:
        asyncio.run(converse(kind, count))
    elif kind == "sdk":
        telemetry(count)
    elif kind == "gateway":
        asyncio.run(answer_requests(reads("request"), HEAD, OWN, expected_text(3), count))
    else:
        asyncio.run(replay(kind, count))


def _forked(kind: str, count: str, *plants: str) -> int:
    """Start a run in a fork, and return its process ID."""
    process = os.fork()
    if process:
        return process
    try:
        run(kind, int(count), *plants)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _await_one() -> None:
    process, status = os.wait()
    if status:
        sys.exit(f"the run in process {process} failed")


def main() -> None:
    """Make each run of standard input in a fork, as many at a time as there are processors."""
    runs = sys.stdin.read().splitlines()
    # one call of each kind imports and builds everything, so that no fork repeats it
    for kind in ("gateway", "sdk", *DELTAS, *(f"{protocol}-1-3" for protocol in PROTOCOLS)):
        run(kind, 1)
    gc.collect()
    gc.freeze()  # a fork's collections search only what its own calls make
    at_once = os.cpu_count() or 1
    for number, line in enumerate(runs):
        if number >= at_once:
            _await_one()
        print(_forked(*line.split()), line, flush=True)
    for _ in runs[-at_once:]:
        _await_one()


if __name__ == "__main__":
    main()
