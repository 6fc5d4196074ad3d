"""Print whether a provider with two requests a call can cancel the first when the caller leaves.

    python -m lab.findings.two_requests

The first request creates a prediction, the second streams it, and a third must cancel it when the
stream is left, when the task is cancelled and at a time limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from lab.findings.gateways import verdict
from swink_core import Client, Error, Host, TextDelta, Timeouts
from swink_core.providers import Exchange, HTTPRequest
from swink_recorder.loopback import Exchange as Asked
from swink_recorder.loopback import LoopbackServer
from swink_testing.acme import AcmeProvider

MODEL = "acme/large"

WORDS = 100

PACE = 0.03
"""Seconds between the words of a prediction."""

ANNOUNCED = 0.3
"""Seconds in which a cancellation has to arrive."""


class Predictions(LoopbackServer):
    """Creates predictions, streams them slowly, and counts those that were cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.created = 0
        self.cancelled: list[str] = []

    async def respond(self, exchange: Asked) -> None:
        """Answer one request."""
        if exchange.path.startswith("/cancel/"):
            self.cancelled.append(exchange.path)
            await exchange.start(200, {"Content-Type": "application/json"})
            await exchange.write(b"{}")
        elif exchange.path.startswith("/stream/"):
            await exchange.start(200, {"Content-Type": "text/event-stream"})
            for number in range(WORDS):
                text = msgspec.json.encode({"text": f"w{number} "})
                await exchange.write(b"data: " + text + b"\n\n")
                await exchange.pause(PACE)
            await exchange.write(b'data: {"stop": "stop"}\n\n')
        else:
            self.created += 1
            await exchange.start(200, {"Content-Type": "application/json"})
            await exchange.write(msgspec.json.encode({"id": str(self.created)}))
        await exchange.end()


class Created(msgspec.Struct):
    """A prediction as the service creates it."""

    id: str


class Predicting(AcmeProvider):
    """Creates a prediction, streams it, and cancels it if the caller leaves."""

    async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        """Yield the bytes of the second response."""
        url = self.base_url(x.options)
        made = await x.read(self.json_request(f"{url}/predictions", {}), Created)
        x.on_abandon(self.json_request(f"{url}/cancel/{made.id}", {}))
        async for piece in x.stream(HTTPRequest(f"{url}/stream/{made.id}", method="GET")):
            yield piece


class _EntryPoint:
    name = "acme"
    group = "swink.providers"
    value = "acme:Predicting"
    dist = None

    def load(self) -> Callable[[str], Predicting]:
        return Predicting


async def leave(client: Client, url: str) -> str:
    """Leave a stream after its first words."""
    async with client.stream(MODEL, "Hi", base_url=url, api_key="key") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    return f"left: {stream.message.stop_reason}"


async def cancel(client: Client, url: str) -> str:
    """Cancel the task that reads a stream."""

    async def read() -> None:
        async with client.stream(MODEL, "Hi", base_url=url, api_key="key") as stream:
            async for _ in stream:
                pass

    task = asyncio.create_task(read())
    await asyncio.sleep(0.3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return f"cancelled: {task.cancelled()}"


async def time_out(client: Client, url: str) -> str:
    """Let a time limit end a stream."""
    limits = Timeouts(total=0.3)
    stream = client.stream(MODEL, "Hi", base_url=url, api_key="key", timeouts=limits, retry=False)
    kind: object = None
    async for event in stream:
        if isinstance(event, Error):
            kind = event.error_kind
    return f"time limit: {kind}"


async def main() -> None:
    """Print one line for each way to leave."""
    host = Host(entry_points=[_EntryPoint()], environ={})
    async with Predictions() as service, Client(host=host) as client:
        for way in (leave, cancel, time_out):
            before = len(service.cancelled)
            seen = await way(client, service.url)
            await asyncio.sleep(ANNOUNCED)
            count = len(service.cancelled) - before
            verdict(count == 1, f"{seen}, {count} cancellations of {service.created} predictions")


if __name__ == "__main__":
    asyncio.run(main())
