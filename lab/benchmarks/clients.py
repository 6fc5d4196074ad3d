"""The contenders: each asks the server for one scenario and returns the text of the answer.

A contender is opened once and keeps its connection for the whole run. Every one reads the body to
its end, because a connection whose body was left unread cannot be used again.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import orjson

API_KEY = "sk-bench"


class Contender(Protocol):
    """One way to read a stream."""

    name: str

    async def open(self, base_url: str) -> None:
        """Make the client; none of this is measured."""

    async def run(self, scenario: str) -> str:
        """Ask for `scenario` and return the text; this is what is measured."""

    async def settle(self) -> None:
        """Finish what the runs of a turn left to a thread; this is measured, too."""

    async def close(self) -> None:
        """Close the client."""


class _AiohttpContender:
    """Shared code of the two contenders that are bare aiohttp."""

    async def open(self, base_url: str) -> None:
        self._url = f"{base_url}/chat/completions"
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {API_KEY}"})

    async def settle(self) -> None:
        pass

    async def close(self) -> None:
        await self._session.close()

    def _post(self, scenario: str) -> Any:
        body = {
            "model": scenario,
            "messages": [{"role": "user", "content": "hi"}],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return self._session.post(self._url, json=body)


class Floor(_AiohttpContender):
    """The least that any client in Python over aiohttp can do: no checks, no events, no types."""

    name = "floor"

    async def run(self, scenario: str) -> str:
        parts: list[str] = []
        loads = orjson.loads
        rest = b""
        async with self._post(scenario) as response:
            response.raise_for_status()
            async for data in response.content.iter_any():
                *frames, rest = (rest + data).split(b"\n\n")
                for frame in frames:
                    if frame == b"data: [DONE]":
                        continue
                    choices = loads(frame[6:])["choices"]
                    if choices:
                        content = choices[0]["delta"].get("content")
                        if content:
                            parts.append(content)
        return "".join(parts)


class Hand(_AiohttpContender):
    """The loop that people write: a line at a time, the standard library's json, a growing str."""

    name = "hand"

    async def run(self, scenario: str) -> str:
        text = ""
        async with self._post(scenario) as response:
            response.raise_for_status()
            async for raw in response.content:
                line = raw.decode("utf-8").strip()
                if not line.startswith("data: "):
                    continue
                payload = line[len("data: ") :]
                if payload == "[DONE]":
                    continue
                chunk = json.loads(payload)
                if chunk["choices"]:
                    content = chunk["choices"][0]["delta"].get("content")
                    if content:
                        text += content
        return text


class Swink:
    """swink through its public API, an event at a time."""

    name = "swink"

    async def open(self, base_url: str) -> None:
        # Imported here, so that the other contenders run where swink is not installed.
        import swink_core

        # Any: the benchmark is type-checked with and without swink installed.
        self._swink: Any = swink_core
        self._base_url = base_url
        self._stack = AsyncExitStack()
        client = self._swink.Client(plugins=self.plugins())
        self._client: Any = await self._stack.enter_async_context(client)

    def plugins(self) -> list[Any]:
        """Return the plugins of the client."""
        return []

    async def settle(self) -> None:
        pass

    async def close(self) -> None:
        await self._stack.aclose()

    def _stream(self, scenario: str) -> Any:
        return self._client.stream(
            f"openai/{scenario}", "hi", base_url=self._base_url, api_key=API_KEY
        )

    async def run(self, scenario: str) -> str:
        parts: list[str] = []
        event: Any = None
        text_delta = self._swink.TextDelta
        async with self._stream(scenario) as stream:
            async for event in stream:
                if type(event) is text_delta:
                    parts.append(event.delta)
        return _joined(parts, event)


class SwinkBatches(Swink):
    """swink through its public API, the events of one network read at a time."""

    name = "batches"

    async def run(self, scenario: str) -> str:
        parts: list[str] = []
        event: Any = None
        text_delta = self._swink.TextDelta
        async with self._stream(scenario) as stream:
            async for batch in stream.batches():
                for event in batch:
                    if type(event) is text_delta:
                        parts.append(event.delta)
        return _joined(parts, event)


class _Through:
    """A wrapper that passes every event on, one at a time or a network read at a time."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __aiter__(self) -> Any:
        async with aclosing(aiter(self.inner)) as events:
            async for event in events:
                yield event


class _ThroughBatches(_Through):
    async def batches(self) -> Any:
        async with aclosing(self.inner.batches()) as batches:
            async for batch in batches:
                yield batch


class SwinkWrapped(Swink):
    """swink with a pass-through wrapper around the stream."""

    name = "wrapped"
    through: type[_Through] = _Through

    def plugins(self) -> list[Any]:
        through = self.through

        class Wrapper:
            @self._swink.hookimpl(wrapper=True)  # type: ignore[untyped-decorator]  # it is Any here
            def stream(self) -> Any:
                inner = yield
                return through(inner)

        return [Wrapper()]


class SwinkWrappedBatches(SwinkWrapped):
    """The same, where the wrapper offers batches."""

    name = "wrapped-b"
    through = _ThroughBatches


class SwinkObserved(Swink):
    """swink with an observer that does nothing."""

    name = "observed"

    def plugins(self) -> list[Any]:
        class Observer:
            @self._swink.hookimpl  # type: ignore[untyped-decorator]  # it is Any here
            def on_event(self, event: Any) -> None:
                pass

        return [Observer()]


class SwinkObservers(Swink):
    """swink with the observers for logs, Prometheus, OpenTelemetry and the feed, all at work."""

    name = "observers"

    def plugins(self) -> list[Any]:
        import logging

        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        from prometheus_client import CollectorRegistry

        from swink_observer_log.observer import LogObserver
        from swink_observer_otel.observer import OTelObserver
        from swink_observer_prometheus.observer import PrometheusObserver
        from swink_observers.feed import Feed

        logger = logging.Logger("calls", logging.INFO)
        logger.addHandler(logging.NullHandler())
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
        meters = MeterProvider([InMemoryMetricReader()])
        return [
            LogObserver(logger),
            PrometheusObserver(CollectorRegistry()),
            OTelObserver(tracer_provider=tracers, meter_provider=meters),
            Feed(),
        ]


class SwinkRecorded(Swink):
    """swink with the recorder open, as in a program that runs for long.

    The work of the recorder's thread is part of the cost of a turn; starting and ending that thread
    for each call is not.
    """

    name = "recorded"

    def plugins(self) -> list[Any]:
        from swink_recorder.recorder import Recorder

        folder = self._stack.enter_context(tempfile.TemporaryDirectory())
        self._recorder = Recorder(Path(folder) / "calls.sqlite")
        return [self._recorder]

    async def settle(self) -> None:
        await self._recorder.aclose()


class SwinkAllObservers(SwinkRecorded, SwinkObservers):
    """swink with all observers on: those above, and the recorder."""

    name = "all"

    def plugins(self) -> list[Any]:
        return [*SwinkObservers.plugins(self), *super().plugins()]


def _joined(parts: list[str], last: object) -> str:
    # swink's failures are events; without this, a failed call would only be a wrong text.
    if not parts:
        raise RuntimeError(f"swink returned no text; its last event was {last!r}")
    return "".join(parts)


CONTENDERS: dict[str, type[Contender]] = {
    "floor": Floor,
    "hand": Hand,
    "swink": Swink,
    "batches": SwinkBatches,
    "wrapped": SwinkWrapped,
    "wrapped-b": SwinkWrappedBatches,
    "observed": SwinkObserved,
    "observers": SwinkObservers,
    "recorded": SwinkRecorded,
    "all": SwinkAllObservers,
}
