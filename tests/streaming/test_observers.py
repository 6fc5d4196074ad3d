"""Observers are contained: whatever one does, every other gets every event, in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from fakes import (
    AT_ONCE,
    HELLO,
    MODEL,
    Observer,
    Pipe,
    PipeClient,
    Toy,
    client_of,
    collect,
    cut_after,
    entry_point,
    frame,
    good,
    settled,
)

import swink_core as swink
from swink_core import TextDelta
from swink_testing.calls import client_with

AUTH = frozenset({swink.StreamErrorKind.AUTH})


def pipes(*made: Callable[[], Pipe]) -> Callable[[], PipeClient]:
    return lambda: PipeClient(*(make() for make in made))


def refused() -> Pipe:
    return Pipe(b"{}", status=401, end=True)


async def read(stream: swink.EventStream) -> None:
    await collect(stream)


async def leave(stream: swink.EventStream) -> None:
    async with stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break


async def cancel(stream: swink.EventStream) -> None:
    task = asyncio.create_task(collect(stream))
    await settled()
    task.cancel()
    await asyncio.wait([task])


# (name, what answers, the models, how the caller takes it)
CALLS: list[tuple[str, Any, Any, Any]] = [
    ("an answer", pipes(good), MODEL, read),
    ("a retry", pipes(cut_after, good), MODEL, read),
    ("a fallback", pipes(refused, good), [MODEL, "toy/small"], read),
    ("a failure", pipes(refused), MODEL, read),
    ("a cut answer", pipes(lambda: Pipe(*HELLO[:2], end=True)), MODEL, read),
    ("a damaged frame", pipes(lambda: Pipe(b"data: {x\n\n", end=True), good), MODEL, read),
    ("a stream left early", pipes(good), MODEL, leave),
    ("a cancelled call", pipes(lambda: Pipe(*HELLO[:2])), MODEL, cancel),
]


class Faulty:
    """Does something bad, at its first event or at a delta."""

    def __init__(self, fault: BaseException | None, at: type[Any]) -> None:
        self.fault = fault
        self.at = at
        self.tasks: list[Any] = []
        self.kept: list[Any] = []

    @swink.hookimpl
    def on_event(self, event: Any, call: Any) -> None:
        self.kept.append((event, call))  # it leaks too
        self.tasks.append(asyncio.ensure_future(asyncio.sleep(3600)))
        if self.fault is not None and isinstance(event, self.at):
            raise self.fault


@pytest.mark.parametrize("at", [swink.Start, TextDelta, swink.Done | swink.Error])
@pytest.mark.parametrize(
    "fault", [None, ValueError("no"), SystemExit(3), asyncio.CancelledError(), GeneratorExit()],
    ids=["leaks", "raises", "exits", "cancels", "closes"],
)  # fmt: skip
@pytest.mark.parametrize(
    ("answers", "models", "take"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS]
)
async def test_others_get_every_event_as_if_it_were_not_there(
    answers: Any, models: Any, take: Any, fault: BaseException | None, at: type[Any]
) -> None:
    async def witnessed(*plugins: Any) -> list[list[Any]]:
        before, after = Observer(), Observer()
        retry = swink.RetryPolicy(base=0.0, fall_back_on=AUTH)
        async with client_of(before, *plugins, after, http=answers(), retry=retry) as client:
            await take(client.stream(models, "Hi"))
        return [before.events, after.events]

    faulty = Faulty(fault, at)
    expected, _ = await witnessed()
    assert await witnessed(faulty) == [expected, expected]
    assert isinstance(expected[-1], swink.Done | swink.Error)
    for task in faulty.tasks:
        task.cancel()
    await asyncio.wait(faulty.tasks)


async def test_an_observer_that_raises_gets_no_more_events_of_that_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []

    class Raising:
        @swink.hookimpl
        def on_event(self, event: Any, call: swink.Call) -> None:
            seen.append(call.id)
            raise ValueError("no")

    async with client_of(Raising(), http=PipeClient(Pipe(*HELLO), Pipe(*HELLO))) as client:
        streams = [client.stream(MODEL, "Hi") for _ in range(2)]
        for stream in streams:
            await collect(stream)
    assert seen == [stream.call.id for stream in streams]
    assert caplog.text.count("raised an exception and is disabled for this call") == 2


@pytest.mark.parametrize("pieces", [HELLO, [b"".join(HELLO)]], ids=["one_by_one", "together"])
async def test_an_observer_can_tell_what_came_together(pieces: list[bytes]) -> None:
    reads: list[tuple[str, int]] = []

    class Counting:
        @swink.hookimpl
        def on_event(self, event: Any, call: swink.Call) -> None:
            reads.append((event.type, call.attempt.reads))

    async with client_of(Counting(), http=PipeClient(Pipe(*pieces))) as client:
        await collect(client.stream(MODEL, "Hi"))
    deltas = [count for kind, count in reads if kind == "text_delta"]
    assert deltas == ([2, 3] if len(pieces) > 1 else [1, 1])


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
async def test_the_log_has_each_event_where_it_is_asked_for_so_much(
    level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level, "swink_core")
    async with client_of(http=PipeClient(Pipe(*HELLO))) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    said = [record.getMessage() for record in caplog.records]
    logged = [event for event in events if any(line.endswith(f": {event!r}") for line in said)]
    assert logged == (events if level == logging.DEBUG else [])


async def test_a_plugin_that_is_called_log_observes_beside_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "swink_core")
    observer = Observer()
    client = client_of(http=PipeClient(Pipe(*HELLO)))
    client.host.add(observer, "log")
    async with client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert observer.events == events


async def test_an_interrupt_goes_on_to_whoever_pressed_the_keys_and_the_stream_is_closed() -> None:
    pipe = Pipe(*HELLO)
    observer = Faulty(KeyboardInterrupt(), TextDelta)
    async with client_of(observer, http=PipeClient(pipe)) as client:
        stream = client.stream(MODEL, "Hi")
        with pytest.raises(KeyboardInterrupt):
            async for _ in stream:
                pass
        await stream.aclose()
    assert pipe.closed
    for task in observer.tasks:
        task.cancel()


# -- closing -------------------------------------------------------------------------------------


class Closing(Observer):
    """A plugin with a scripted `aclose()`."""

    def __init__(self, close: Callable[[], Any]) -> None:
        super().__init__()
        self.close = close
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1
        await self.close()


async def at_once() -> None:
    pass


async def never() -> None:
    await asyncio.Event().wait()


async def fails() -> None:
    raise ValueError("cannot flush")


async def exits() -> None:
    raise SystemExit(3)


def installed_host(*plugins: Any) -> swink.Host:
    points = [
        entry_point(f"plugin{number}", plugin, group="swink.plugins")
        for number, plugin in enumerate(plugins)
    ]
    return swink.Host(entry_points=[entry_point("toy", Toy), *points], environ={})


@pytest.mark.parametrize(
    ("close", "said"),
    [
        (never, "was not closed within 0.01 s"),
        (fails, "failed to close"),
        (exits, "failed to close"),
    ],
)
async def test_a_plugin_that_does_not_close_holds_up_neither_client_nor_others(
    close: Any, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("swink_core.plugins.host.CLOSE_SECONDS", 0.01)
    bad, good = Closing(close), Closing(at_once)
    host = installed_host(bad, good)
    async with client_with(host=host, http=PipeClient(Pipe(*HELLO)), api_key="k") as client:
        await collect(client.stream(MODEL, "Hi"))
    assert (bad.closed, good.closed) == (1, 1)
    assert f"plugin plugin0 (swink-plugin0) {said}" in caplog.text


async def test_a_plugin_has_five_seconds_to_close(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, limits = asyncio.timeout, []

    def limited(seconds: float) -> Any:
        limits.append(seconds)
        return limit(seconds)

    monkeypatch.setattr(asyncio, "timeout", limited)
    host = installed_host(Closing(at_once))
    async with client_with(host=host, http=PipeClient(Pipe(*HELLO)), api_key="k") as client:
        await collect(client.stream(MODEL, "Hi"))
    assert limits[-1] == 5.0


async def test_plugins_close_with_the_last_client_of_their_host() -> None:
    plugin = Closing(at_once)
    host, http = installed_host(plugin), PipeClient(Pipe(*HELLO))
    async with client_with(host=host, http=http, api_key="k"):
        async with client_with(host=host, http=http, api_key="k", retry=AT_ONCE) as inner:
            await collect(inner.stream(MODEL, "Hi"))
        assert plugin.closed == 0
    assert plugin.closed == 1


async def test_a_plugin_given_by_hand_is_its_owners_to_close() -> None:
    plugin = Closing(at_once)
    async with client_of(plugin, http=PipeClient(Pipe(frame(text="a"), *HELLO[-2:]))) as client:
        await collect(client.stream(MODEL, "Hi"))
    assert plugin.closed == 0
