"""Time limits: each ends the wait, closes the connection, and counts only the provider's time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp  # noqa: F401  # imported at the first request, which would count for its limits
import pytest
from fakes import (
    AT_ONCE,
    HELLO,
    MODEL,
    SSE,
    Pipe,
    PipeClient,
    Yielding,
    broken_rules,
    client_of,
    collect,
    dropped,
    frame,
    serving,
    settled,
    types,
)

import swink_core as swink
from swink_core import RetryPolicy, StopReason, StreamErrorKind, Timeouts
from swink_recorder.loopback import Exchange
from swink_testing.clock import ManualClock

PING = b": ping\n\n"
NONE = Timeouts(connect=None, first_event=None, idle=None, no_progress=None)


class Watched:
    """A stream with a test-controlled clock, read by a separate task."""

    def __init__(self, stream: swink.EventStream, pipe: Pipe, clock: ManualClock) -> None:
        self.stream, self.pipe, self.clock = stream, pipe, clock
        self.events: list[Any] = []
        self.reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.stream:
            self.events.append(event)

    async def send(self, piece: bytes) -> None:
        self.pipe.send(piece)
        await settled()

    @property
    def ended(self) -> bool:
        return self.reader.done()

    def timed_out(self, code: str) -> bool:
        """Whether the limit of this name ended the stream, properly, and closed the connection."""
        assert self.ended
        assert broken_rules(self.events) == []
        last = self.events[-1]
        return (
            isinstance(last, swink.Error)
            and last.error_kind is StreamErrorKind.TIMEOUT
            and last.code == code
            and self.pipe.closed
        )


@asynccontextmanager
async def watched(
    limits: Timeouts, *pieces: bytes, plugins: Any = (), retry: RetryPolicy | None = None
) -> AsyncIterator[Watched]:
    clock, http = ManualClock(), PipeClient(pipe := Pipe(*pieces))
    given = {} if retry is None else {"retry": retry}
    async with client_of(*plugins, http=http, clock=clock, timeouts=limits, **given) as client:
        scene = Watched(client.stream(MODEL, "Hi"), pipe, clock)
        await settled()
        yield scene
        await scene.stream.aclose()
        await scene.reader


def limits(**seconds: float) -> Timeouts:
    """These limits and no others."""
    return Timeouts(
        **{"connect": None, "first_event": None, "idle": None, "no_progress": None, **seconds}
    )


# -- each limit ----------------------------------------------------------------------------------


async def test_no_event_within_its_limit_ends_the_attempt() -> None:
    async with watched(limits(first_event=10)) as scene:
        await scene.clock.advance(9.9)
        assert not scene.ended
        await scene.clock.advance(0.2)
        assert scene.timed_out("first_event")
        assert "no event within 10 s" in scene.events[-1].error_message
        assert scene.events[-1].phase == "first_event"


async def test_keep_alives_are_no_first_event() -> None:
    async with watched(limits(first_event=10)) as scene:
        for _ in range(3):
            await scene.clock.advance(4)
            await scene.send(PING)
        assert scene.timed_out("first_event")


async def test_the_wait_for_the_response_counts_for_the_first_event() -> None:
    clock, never = ManualClock(), asyncio.Event()

    async def hang() -> Pipe:
        await never.wait()
        return Pipe()

    async with client_of(http=PipeClient(hang), clock=clock, timeouts=limits(first_event=10)) as c:
        reader = asyncio.create_task(collect(c.stream(MODEL, "Hi")))
        await clock.advance(11)
        events = await reader
    assert events[-1].code == "first_event"


async def test_after_the_first_event_its_limit_is_over() -> None:
    async with watched(limits(first_event=10), frame(text="a")) as scene:
        await scene.clock.advance(1000)
        assert not scene.ended


async def test_silence_beyond_the_idle_limit_ends_the_attempt_with_its_blocks_closed() -> None:
    async with watched(limits(idle=10), frame(text="a")) as scene:
        await scene.clock.advance(9)
        await scene.send(frame(text="b"))
        await scene.clock.advance(9)
        assert not scene.ended
        await scene.clock.advance(2)
        assert scene.timed_out("idle")
        assert types(scene.events)[-2:] == ["text_end", "error"]
        assert scene.stream.message.text == "ab"


async def test_the_idle_limit_begins_with_the_first_event() -> None:
    async with watched(limits(first_event=100, idle=10), PING) as scene:
        await scene.clock.advance(99)
        assert not scene.ended
        await scene.send(frame(text="a"))
        await scene.clock.advance(11)
        assert scene.timed_out("idle")


async def test_keep_alives_count_as_reads_for_the_idle_limit() -> None:
    async with watched(limits(idle=10), frame(text="a")) as scene:
        for _ in range(10):
            await scene.clock.advance(9)
            await scene.send(PING)
        assert not scene.ended


async def test_keep_alives_alone_are_no_progress_for_ever() -> None:
    async with watched(limits(idle=10, no_progress=30), frame(text="a")) as scene:
        for _ in range(3):
            await scene.clock.advance(9)
            await scene.send(PING)
        assert not scene.ended
        await scene.clock.advance(4)
        assert scene.timed_out("no_progress")
        assert "only keep-alives were received for 30 s" in scene.events[-1].error_message


async def test_an_event_is_progress() -> None:
    async with watched(limits(no_progress=30), frame(text="a")) as scene:
        for _ in range(5):
            await scene.clock.advance(29)
            await scene.send(frame(text="b"))
        assert not scene.ended


async def test_the_total_limit_ends_a_call_however_lively() -> None:
    async with watched(limits(total=30), frame(text="a")) as scene:
        for _ in range(29):
            await scene.clock.advance(1)
            await scene.send(frame(text="b"))
        assert not scene.ended
        await scene.clock.advance(2)
        assert scene.timed_out("total")


async def test_a_call_and_its_total_limit_begin_with_the_first_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "swink_core")
    clock, pipe = ManualClock(), Pipe(*HELLO)
    async with client_of(http=PipeClient(pipe), clock=clock, timeouts=limits(total=30)) as client:
        stream = client.stream(MODEL, "Hi")
        await clock.advance(100)
        assert caplog.text == ""
        assert types(await collect(stream))[-1] == "done"
        assert stream.call.started_at == 100
        assert caplog.text.count(" begins\n") == 1


async def test_the_total_limit_ends_a_call_so_long_after_its_first_read() -> None:
    clock, http = ManualClock(), PipeClient(Pipe(frame(text="a")))
    async with client_of(http=http, clock=clock, timeouts=limits(total=30)) as client:
        stream = client.stream(MODEL, "Hi")
        await clock.advance(100)
        reader = asyncio.create_task(stream.result())
        await clock.advance(29)
        assert not reader.done()
        await clock.advance(2)
        with pytest.raises(swink.StreamTimeout) as caught:
            await reader
    assert (caught.value.code, caught.value.elapsed) == ("total", 30)


async def test_the_total_limit_is_over_all_attempts_and_final() -> None:
    clock = ManualClock()
    busy = swink.Failure("connect", kind=StreamErrorKind.OVERLOADED, retry_after=8)
    given: dict[str, Any] = {"clock": clock, "timeouts": limits(total=30), "retry": AT_ONCE}
    async with client_of(http=PipeClient(busy), **given) as client:
        reader = asyncio.create_task(collect(client.stream(MODEL, "Hi")))
        await clock.advance(29)
        assert not reader.done()
        await clock.advance(2)
        events = await reader
    assert events[-1].code == "total"
    assert types(events).count("retry") == 4


@pytest.mark.parametrize("name", ["first_event", "idle", "no_progress"])
async def test_limits_of_an_attempt_do_not_count_the_wait_before_the_next(name: str) -> None:
    clock = ManualClock()
    busy = swink.Failure("connect", kind=StreamErrorKind.OVERLOADED, retry_after=50)
    http = PipeClient(busy, Pipe(*HELLO))
    given: dict[str, Any] = {"clock": clock, "timeouts": limits(**{name: 10}), "retry": AT_ONCE}
    async with client_of(http=http, **given) as client:
        reader = asyncio.create_task(collect(client.stream(MODEL, "Hi")))
        await clock.advance(51)
        events = await reader
    assert types(events)[-1] == "done"


async def test_each_attempt_has_its_limits_anew() -> None:
    clock = ManualClock()
    http = PipeClient(Pipe(), Pipe(*HELLO))
    given: dict[str, Any] = {"clock": clock, "timeouts": limits(first_event=10), "retry": AT_ONCE}
    async with client_of(http=http, **given) as client:
        reader = asyncio.create_task(collect(client.stream(MODEL, "Hi")))
        await clock.advance(11)
        events = await reader
    assert types(events)[:3] == ["start", "retry", "start"]
    assert types(events)[-1] == "done"


@pytest.mark.parametrize("name", ["first_event", "idle", "no_progress"])
async def test_the_limits_of_an_attempt_begin_with_it(name: str) -> None:
    clock, pipes = ManualClock(), [Pipe(), Pipe()]
    busy = swink.Failure("connect", kind=StreamErrorKind.OVERLOADED, retry_after=50)
    given: dict[str, Any] = {"clock": clock, "timeouts": limits(**{name: 10}), "retry": AT_ONCE}
    async with client_of(http=PipeClient(busy, *pipes), **given) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(collect(stream))
        await clock.advance(51)
        if name != "first_event":
            pipes[0].send(frame(text="a"))
        await clock.advance(8)
        assert not pipes[0].closed
        await clock.advance(3)
        assert pipes[0].closed
        await stream.aclose()
        await reader


# -- the throughput floor ------------------------------------------------------------------------


async def test_a_drip_below_the_floor_ends_the_attempt() -> None:
    floor = limits(idle=10, min_chars_per_second=5, window=10)
    async with watched(floor, frame(text="x")) as scene:
        for _ in range(9):
            await scene.clock.advance(1)
            await scene.send(frame(text="xx"))
        assert not scene.ended
        for _ in range(2):
            await scene.clock.advance(1)
            await scene.send(frame(text="xx"))
        assert scene.timed_out("throughput")
        assert "fewer than 5 characters/s were received over 10 s" in scene.events[-1].error_message


@pytest.mark.parametrize("idle", [30.0, 4.0])  # with 4 the timer looks before the window is over
async def test_an_answer_above_the_floor_goes_on(idle: float) -> None:
    floor = limits(idle=idle, min_chars_per_second=5, window=10)
    async with watched(floor, frame(text="x")) as scene:
        for _ in range(50):
            await scene.clock.advance(1)
            await scene.send(frame(text="xxxxxx"))
        assert not scene.ended


async def test_an_answer_at_the_floor_goes_on_until_it_falls_below() -> None:
    floor = limits(idle=30, min_chars_per_second=5, window=10)
    async with watched(floor, frame(text="x" * 50)) as scene:
        await scene.clock.advance(11)
        assert not scene.ended
        await scene.send(frame(text="x" * 49))
        await scene.clock.advance(10)
        assert scene.timed_out("throughput")


async def test_the_floor_counts_what_came_of_its_own_attempt() -> None:
    clock, cut, pipe = ManualClock(), Pipe(frame(text="x" * 500)), Pipe(frame(text="x"))
    given: dict[str, Any] = {"clock": clock, "retry": AT_ONCE}
    floor = limits(min_chars_per_second=5, window=10)
    async with client_of(http=PipeClient(cut, pipe), timeouts=floor, **given) as client:
        reader = asyncio.create_task(client.complete(MODEL, "Hi"))
        await clock.advance(11)  # the window of the first attempt: more than enough
        cut.send(dropped())
        await settled()
        for _ in range(5):
            await clock.advance(4)
            assert not reader.done()
            pipe.send(frame(text="x" * 40))
        for piece in HELLO[-2:]:
            pipe.send(piece)
        assert (await reader).text == "x" * 201


class Around:
    """A plugin that puts a generator around the stream of each provider."""

    @swink.hookimpl(wrapper=True)
    def stream(self) -> Any:
        return self._each((yield))

    async def _each(self, inner: Any) -> Any:
        async for event in inner:
            yield event


@pytest.mark.parametrize("plugins", [[], [Around()]], ids=["a provider", "a wrapper"])
@pytest.mark.parametrize("windows", [0, 2])
async def test_the_floor_counts_the_text_of_an_answer_that_the_server_begins_again(
    windows: int, plugins: list[Any]
) -> None:
    floor = limits(idle=30, min_chars_per_second=5, window=10)
    async with watched(floor, frame(text="x"), plugins=plugins) as scene:
        for _ in range(windows):
            await scene.send(frame(text="x" * 60))
            await scene.clock.advance(10)
        await scene.send(frame(text="x" * 60))
        await scene.send(frame(restart="lost") + frame(text="x" * 10))
        await scene.clock.advance(10)  # 70 characters in this window
        assert not scene.ended
        await scene.send(frame(text="x" * 60))
        await scene.clock.advance(10)
        assert not scene.ended
        await scene.send(frame(restart="lost") + frame(text="x" * 10))
        await scene.clock.advance(10)  # 10 characters in this window
        assert scene.timed_out("throughput")


async def test_the_floor_does_not_put_the_idle_limit_off() -> None:
    floor = limits(idle=15, min_chars_per_second=0.1, window=10)
    async with watched(floor, frame(text="x")) as scene:
        await scene.clock.advance(1)
        await scene.send(frame(text="x" * 50))
        await scene.clock.advance(15.5)
        assert scene.timed_out("idle")


# -- a slow consumer is not the provider's fault -------------------------------------------------


@pytest.mark.parametrize("name", ["first_event", "idle", "no_progress", "window"])
async def test_the_consumers_own_time_counts_for_no_limit_but_the_total(name: str) -> None:
    floor = {"min_chars_per_second": 1.0} if name == "window" else {}
    clock, pipe = ManualClock(), Pipe(frame(text="x" * 20))
    given = {"clock": clock, "timeouts": limits(**{name: 10.0}, **floor)}
    got = []
    async with client_of(http=PipeClient(pipe), **given) as client:
        stream = client.stream(MODEL, "Hi")

        async def read() -> None:
            async for event in stream:
                got.append(event)
                await clock.advance(25)  # whatever was read, its consumer thinks about it
                if event.type == "text_delta":
                    asyncio.get_running_loop().call_soon(answer)

        def answer() -> None:
            for piece in HELLO[2:]:
                pipe.send(piece)

        await read()
    assert types(got)[-1] == "done"


async def starting_alone(*rest: swink.AssistantMessageEvent) -> AsyncIterator[Any]:
    for event in (swink.Start(), *rest):
        yield event
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("name", "events"), [("first_event", []), ("no_progress", [swink.TextStart(0)])]
)
async def test_consumer_time_does_not_count_as_waiting(
    name: str, events: list[swink.AssistantMessageEvent]
) -> None:
    clock = ManualClock()
    given = {"clock": clock, "timeouts": limits(**{name: 10.0})}
    provider = Yielding(lambda: starting_alone(*events))
    async with client_of(providers={"toy": provider}, **given) as client:
        stream = client.stream(MODEL, "Hi")
        batches = stream.batches()
        for _ in range(1 + len(events)):
            await anext(batches)
        await clock.advance(8)  # the consumer thinks
        reading = asyncio.ensure_future(anext(batches))
        await settled()
        await clock.advance(8)  # the provider does
        assert not reading.done()
        await clock.advance(3)
        assert (await reading)[-1].code == name
        await stream.aclose()


async def test_after_a_slow_consumer_the_limits_hold_again() -> None:
    clock, pipe = ManualClock(), Pipe(frame(text="x"))
    given = {"clock": clock, "timeouts": limits(idle=10)}
    async with client_of(http=PipeClient(pipe), **given) as client:
        stream = client.stream(MODEL, "Hi")
        events = []

        async def read() -> None:
            async for event in stream:
                events.append(event)
                if event.type == "text_delta":
                    await clock.sleep(100)

        reader = asyncio.create_task(read())
        await clock.advance(100)
        assert not reader.done()
        await clock.advance(9)
        assert not reader.done()
        await clock.advance(2)
        await reader
    assert events[-1].code == "idle"


async def test_a_total_limit_that_passed_while_the_consumer_was_busy_ends_its_next_wait() -> None:
    clock, pipe = ManualClock(), Pipe(frame(text="x"))
    async with client_of(
        http=PipeClient(pipe), clock=clock, timeouts=limits(total=10, idle=300)
    ) as client:
        events = []

        async def read() -> None:
            async for event in client.stream(MODEL, "Hi"):
                events.append(event)
                if event.type == "text_delta":
                    await clock.sleep(100)

        reader = asyncio.create_task(read())
        await clock.advance(101)
        await asyncio.wait_for(reader, 10)
    assert events[-1].code == "total"


# -- an answer that is complete, on a connection that stays open ---------------------------------

COMPLETE = [frame(text="a"), frame(stop="stop")]


async def test_a_completed_answer_on_an_open_connection_is_done_after_a_while() -> None:
    async with watched(NONE, *COMPLETE) as scene:
        await scene.clock.advance(4.9)
        assert not scene.ended
        await scene.clock.advance(0.2)
        assert scene.ended
        assert scene.events[-1].stop_reason is StopReason.STOP
        assert scene.pipe.closed


async def test_usage_that_comes_meanwhile_is_kept() -> None:
    async with watched(NONE, *COMPLETE) as scene:
        await scene.send(frame(usage={"input": 1, "output": 2}))
        await scene.clock.advance(5.1)
        assert scene.events[-1].usage == swink.Usage(input=1, output=2, total=3, reported=True)


@pytest.mark.parametrize("name", ["idle", "no_progress", "total"])
async def test_a_limit_that_passes_after_the_answer_is_complete_does_not_spoil_it(
    name: str,
) -> None:
    async with watched(limits(**{name: 2}), *COMPLETE) as scene:
        await scene.clock.advance(3)
        assert scene.ended
        assert scene.events[-1].type == "done"


async def test_a_slow_consumer_of_a_completed_answer_does_not_wait_for_another_limit() -> None:
    clock, pipe = ManualClock(), Pipe(*COMPLETE)
    async with client_of(http=PipeClient(pipe), clock=clock) as client:  # the usual limits
        events = []

        async def read() -> None:
            async for event in client.stream(MODEL, "Hi"):
                events.append(event)
                await clock.sleep(20)

        reader = asyncio.create_task(read())
        await clock.advance(20 * 5 + 5 + 21)
        assert reader.done()
    assert types(events)[-1] == "done"


# -- timers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", ["end", "close"])
async def test_no_timer_outlives_its_stream(leave: str) -> None:
    clock, pipe = ManualClock(), Pipe(*HELLO[:2])
    async with client_of(http=PipeClient(pipe), clock=clock) as client:
        async with client.stream(MODEL, "Hi") as stream:
            async for event in stream:
                if event.type == "text_delta" and leave == "close":
                    break
                if event.type == "text_delta" and len(pipe._queue._queue) == 0:  # type: ignore[attr-defined]  # a deque
                    for piece in HELLO[2:]:
                        pipe.send(piece)
        assert [alarm for alarm in clock._alarms if not alarm.cancelled] == []


async def test_a_timer_that_is_set_anew_replaces_the_one_before() -> None:
    async with watched(Timeouts(), *COMPLETE) as scene:
        assert len([alarm for alarm in scene.clock._alarms if not alarm.cancelled]) == 1


async def test_limits_that_are_disabled_set_no_timer() -> None:
    async with watched(NONE, frame(text="a")) as scene:
        assert scene.clock._alarms == []
        await scene.clock.advance(10**6)
        assert not scene.ended


async def test_a_read_sets_no_timer_anew() -> None:
    async with watched(Timeouts(), frame(text="a")) as scene:
        before = len(scene.clock._alarms)
        for _ in range(100):
            await scene.clock.advance(0.1)
            await scene.send(frame(text="b"))
        assert len(scene.clock._alarms) == before


# -- over a socket -------------------------------------------------------------------------------


async def silent(exchange: Exchange) -> None:
    await asyncio.Event().wait()


async def stalls(exchange: Exchange) -> None:
    await exchange.start(200, SSE)
    await exchange.write(frame(text="a"))
    await asyncio.Event().wait()


async def drips(exchange: Exchange) -> None:
    await exchange.start(200, SSE)
    await exchange.write(frame(text="a"))
    while True:
        await exchange.write(PING)
        await asyncio.sleep(0.01)


# (what the server does, the limit that ends it)
SERVERS: list[tuple[Any, Timeouts, str]] = [
    (silent, limits(first_event=0.3), "first_event"),
    (stalls, limits(idle=0.05), "idle"),
    (drips, limits(idle=5, no_progress=0.1), "no_progress"),
    (drips, limits(idle=5, total=0.1), "total"),
    (drips, limits(idle=5, min_chars_per_second=10, window=0.1), "throughput"),
]


@pytest.mark.parametrize(("answer", "timeouts", "code"), SERVERS)
async def test_a_hostile_server_sees_the_close_of_each_limit(
    answer: Any, timeouts: Timeouts, code: str
) -> None:
    async with serving(answer, timeouts=timeouts) as (client, server):
        events = await collect(client.stream(MODEL, "Hi"))
        assert events[-1].code == code
        await server.exchanges[0].disconnected()


async def test_a_connection_that_is_not_accepted_ends_within_the_connect_limit() -> None:
    with socket.socket() as listening, socket.socket() as waiting, socket.socket() as also:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for sock in (waiting, also):
            sock.setblocking(False)
            sock.connect_ex(listening.getsockname())
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with client_of(base_url=url, timeouts=Timeouts(connect=0.05)) as client:
            events = await collect(client.stream(MODEL, "Hi"))
    assert (events[-1].code, events[-1].phase) == ("connect", "connect")


async def test_a_task_that_was_cancelled_before_can_still_read_a_stream() -> None:
    async with client_of(http=PipeClient(Pipe(*HELLO))) as client:

        async def reads_in_the_end() -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return (await client.complete(MODEL, "Hi")).text
            return ""

        task = asyncio.create_task(reads_in_the_end())
        await settled()
        task.cancel()
        assert await task == "Hello"


class Exits(BaseException):
    """Ends a program, like SystemExit, which event loops handle specially."""


class Exiting(PipeClient):
    async def send(self, *args: Any) -> Any:
        raise Exits


async def test_a_task_that_a_wait_has_left_for_good_is_not_cancelled() -> None:
    async with client_of(http=Exiting()) as client:
        stream = client.stream(MODEL, "Hi")
        with pytest.raises(Exits):
            await collect(stream)
        await stream.aclose()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)
