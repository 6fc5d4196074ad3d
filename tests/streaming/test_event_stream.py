"""Every way to read a stream, and every way to leave it."""

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import pytest
from fakes import (
    AT_ONCE,
    HELLO,
    MODEL,
    Observer,
    Pipe,
    PipeClient,
    broken_rules,
    client_of,
    collect,
    cut_after,
    frame,
    sends,
    serving,
    settled,
    types,
)

import swink_core as swink
from swink_core import Done, Error, Retry, StopReason, StreamErrorKind
from swink_testing.clock import ManualClock

BEGUN = [frame(id="r1"), frame(text="Hel"), frame(usage={"input": 3})]
"""The beginning of an answer whose rest does not arrive."""

CLOSE_WITHIN_TURNS = 20
"""Turns of the event loop, which client and server share; a timer takes thousands."""


class Interrupt(BaseException):
    """Stands for KeyboardInterrupt, which would stop the event loop too."""


class Scene:
    """A stream whose provider has begun to answer, and those who look on."""

    def __init__(self, **options: Any) -> None:
        self.observer = Observer()
        self.pipe = Pipe(*BEGUN)
        self.client = client_of(self.observer, http=PipeClient(self.pipe), **options)
        self.stream: swink.EventStream = self.client.stream(MODEL, "Hi")


async def read_until_it_waits(scene: Scene) -> list[swink.AssistantMessageEvent]:
    got: list[swink.AssistantMessageEvent] = []
    async for event in scene.stream:
        got.append(event)
    return got


# -- ways to leave -------------------------------------------------------------------------------


async def break_inside_async_with(scene: Scene) -> None:
    async with scene.stream as stream:
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                break


async def raise_inside_async_with(scene: Scene) -> None:
    with suppress(ZeroDivisionError):
        async with scene.stream as stream:
            async for event in stream:
                if isinstance(event, swink.TextDelta):
                    raise ZeroDivisionError


async def break_and_forget(scene: Scene) -> None:
    async for event in scene.stream:
        if isinstance(event, swink.TextDelta):
            break
    advice = "toy/large was neither read to its end nor closed: use async with$"
    with pytest.warns(ResourceWarning, match=advice):
        await forget(scene)
    await settled()


async def forget(scene: Scene) -> None:
    del scene.stream
    await settled()
    gc.collect()


async def close_in_the_loop_body(scene: Scene) -> None:
    async for event in scene.stream:
        if isinstance(event, swink.TextDelta):
            await scene.stream.aclose()


async def close_from_another_task_while_reading(scene: Scene) -> None:
    reader = asyncio.create_task(read_until_it_waits(scene))
    await settled()
    await scene.stream.aclose()
    assert isinstance((await reader)[-1], Error)


async def close_from_another_task_while_not_reading(scene: Scene) -> None:
    holds, go_on = asyncio.Event(), asyncio.Event()
    got: list[swink.AssistantMessageEvent] = []

    async def read() -> None:
        async for event in scene.stream:
            got.append(event)
            if isinstance(event, swink.TextDelta):
                holds.set()
                await go_on.wait()

    reader = asyncio.create_task(read())
    await holds.wait()
    await scene.stream.aclose()
    go_on.set()
    await reader
    assert isinstance(got[-1], Error)


async def close_from_three_tasks_at_once(scene: Scene) -> None:
    reader = asyncio.create_task(read_until_it_waits(scene))
    await settled()
    await asyncio.gather(*(scene.stream.aclose() for _ in range(3)))
    assert isinstance((await reader)[-1], Error)


async def cancel_the_reading_task(scene: Scene) -> None:
    reader = asyncio.create_task(read_until_it_waits(scene))
    await settled()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader


async def cancel_and_close_at_once(scene: Scene) -> None:
    reader = asyncio.create_task(read_until_it_waits(scene))
    await settled()
    closer = asyncio.create_task(scene.stream.aclose())
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await closer


async def a_sibling_in_the_task_group_fails(scene: Scene) -> None:
    async def fail() -> None:
        await settled()
        raise ZeroDivisionError

    async def read_beside_it() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(read_until_it_waits(scene))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        await read_beside_it()


async def an_outer_timeout_passes(scene: Scene) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await read_until_it_waits(scene)


async def an_interrupt_in_the_reading_task(scene: Scene) -> None:
    read = scene.pipe.__anext__

    async def interrupted() -> bytes:
        if scene.pipe._queue.empty():
            raise Interrupt
        return await read()

    scene.pipe.__anext__ = interrupted  # type: ignore[method-assign]  # a fault of this moment
    with pytest.raises(Interrupt):
        await read_until_it_waits(scene)


LEAVES = [
    break_inside_async_with,
    raise_inside_async_with,
    break_and_forget,
    close_in_the_loop_body,
    close_from_another_task_while_reading,
    close_from_another_task_while_not_reading,
    close_from_three_tasks_at_once,
    cancel_the_reading_task,
    cancel_and_close_at_once,
    a_sibling_in_the_task_group_fails,
    an_outer_timeout_passes,
    an_interrupt_in_the_reading_task,
]


@pytest.mark.parametrize("leave", LEAVES)
async def test_however_a_stream_is_left_observers_get_one_terminal_event_and_it_is_closed(
    leave: Callable[[Scene], Awaitable[None]],
) -> None:
    scene = Scene()
    call, tasks = scene.stream.call, asyncio.all_tasks()

    await leave(scene)
    await settled()

    terminal = scene.observer.events[-1]
    assert broken_rules(scene.observer.events) == []
    assert isinstance(terminal, Error)
    assert (terminal.stop_reason, terminal.error_kind) == (
        StopReason.ABORTED,
        StreamErrorKind.CANCELLED,
    )
    assert types(scene.observer.events)[-2:] == ["text_end", "error"]
    assert scene.pipe.closed
    assert asyncio.all_tasks() == tasks
    assert call.ended_at is not None


@pytest.mark.parametrize("leave", [leave for leave in LEAVES if leave is not break_and_forget])
async def test_the_partial_message_stays_readable_on_the_stream(
    leave: Callable[[Scene], Awaitable[None]],
) -> None:
    scene = Scene()

    await leave(scene)

    message = scene.stream.message
    assert message.text == "Hel"
    assert message.stop_reason is StopReason.ABORTED
    assert message.response_id == "r1"


async def test_usage_known_before_a_cancellation_is_on_the_terminal_event_and_the_call() -> None:
    scene = Scene()

    await close_from_another_task_while_reading(scene)

    usage = swink.Usage(input=3, reported=True)
    assert scene.observer.terminals == [scene.observer.events[-1]]
    assert scene.observer.events[-1].usage == usage  # type: ignore[attr-defined]  # an Error
    assert scene.stream.message.usage == usage
    assert scene.stream.call.usage == usage


async def test_cost_that_the_provider_reported_before_a_cancellation_is_kept() -> None:
    pipe = Pipe(frame(text="Hel"), frame(usage={"input": 3, "cost": 0.25}))
    async with client_of(http=PipeClient(pipe)) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(collect(stream))
        await settled()
        await stream.aclose()
        await reader

    assert stream.message.cost == swink.Cost(total=0.25)
    assert stream.call.cost == swink.Cost(total=0.25)


ANSWER = [
    frame(id="r1"),
    frame(thinking="Hm"),
    frame(text="a"),
    frame(call={"key": 0, "id": "x", "name": "f", "arguments": '{"a"'}),
    frame(call={"key": 1, "id": "y", "name": "g", "arguments": "{"}),
    frame(call={"key": 0, "arguments": ":1}"}),
    frame(usage={"input": 3, "output": 1}),
    frame(call={"key": 1, "arguments": "}"}),
    frame(extension={"any": 1}),
]
COUNT = 14
"""Events that `ANSWER` makes while the connection stays open."""


async def by_break(stream: swink.EventStream, number: int) -> None:
    async with stream:
        async for _ in stream:
            number -= 1
            if not number:
                break


async def by_cancel(stream: swink.EventStream, number: int) -> None:
    async def read() -> None:
        nonlocal number
        async for _ in stream:
            number -= 1
            if not number:
                asyncio.current_task().cancel()  # type: ignore[union-attr]  # in a task
                await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(read())
    await stream.aclose()


async def by_error(stream: swink.EventStream, number: int) -> None:
    with suppress(ZeroDivisionError):
        async with stream:
            async for _ in stream:
                number -= 1
                if not number:
                    raise ZeroDivisionError


@pytest.mark.parametrize("leave", [by_break, by_cancel, by_error])
@pytest.mark.parametrize("number", range(1, COUNT + 1))
async def test_a_stream_left_after_any_event_is_closed_with_one_terminal_event(
    leave: Callable[[swink.EventStream, int], Awaitable[None]], number: int
) -> None:
    observer, pipe = Observer(), Pipe(*ANSWER)
    async with client_of(observer, http=PipeClient(pipe)) as client:
        await leave(client.stream(MODEL, "Hi"), number)

    assert broken_rules(observer.events) == []
    assert isinstance(observer.events[-1], Error)
    assert pipe.closed or number == 1  # after Start alone, nothing was opened


async def test_the_answer_above_makes_as_many_events_as_is_said() -> None:
    observer, pipe = Observer(), Pipe(*ANSWER)
    async with client_of(observer, http=PipeClient(pipe)) as client:
        reader = asyncio.create_task(collect(client.stream(MODEL, "Hi")))
        await settled()
        assert len(observer.events) == COUNT
        reader.cancel()
        await asyncio.wait([reader])


# -- over a socket -------------------------------------------------------------------------------


async def reading(stream: swink.EventStream) -> asyncio.Task[None]:
    shown = asyncio.Event()

    async def read() -> None:
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                shown.set()

    reader = asyncio.create_task(read())
    await shown.wait()
    return reader


async def by_aclose(stream: swink.EventStream) -> None:
    reader = await reading(stream)
    await stream.aclose()
    await reader


async def by_task_cancellation(stream: swink.EventStream) -> None:
    reader = await reading(stream)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader


async def by_break_inside(stream: swink.EventStream) -> None:
    async with stream:
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                break


async def by_forgetting(stream: swink.EventStream) -> None:
    async for event in stream:
        if isinstance(event, swink.TextDelta):
            break


async def by_idle_limit(stream: swink.EventStream) -> None:
    await collect(stream)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors through /proc")
@pytest.mark.filterwarnings("ignore:a stream of toy/large was neither read:ResourceWarning")
@pytest.mark.parametrize(
    "leave", [by_aclose, by_task_cancellation, by_break_inside, by_forgetting, by_idle_limit]
)
async def test_the_server_sees_the_close_at_once_and_nothing_is_left_open(
    leave: Callable[[swink.EventStream], Awaitable[None]],
) -> None:
    before, tasks = descriptors(), asyncio.all_tasks()
    timeouts = swink.Timeouts(idle=0.05) if leave is by_idle_limit else swink.Timeouts()
    async with serving(sends(*BEGUN, end=False), timeouts=timeouts) as (client, server):
        for _ in range(5):
            await leave(client.stream(MODEL, "Hi"))
            turns = 0
            while server.exchanges[-1].disconnected_at is None and turns < CLOSE_WITHIN_TURNS:
                turns += 1
                await asyncio.sleep(0)
            assert turns < CLOSE_WITHIN_TURNS
    await settled()
    assert asyncio.all_tasks() == tasks
    assert descriptors() == before


async def test_a_connection_whose_answer_was_read_to_its_end_is_used_again() -> None:
    async with serving(sends(*HELLO, b": bye\n\n")) as (client, server):
        for _ in range(3):
            await client.complete(MODEL, "Hi")
        assert len(server._connections) == 1
        assert len(server.exchanges) == 3


# -- reading -------------------------------------------------------------------------------------


async def test_a_loop_left_by_break_can_be_resumed_where_it_stopped() -> None:
    pipe = Pipe(b"".join(HELLO), end=True)  # one read holds the whole answer
    async with client_of(http=PipeClient(pipe)) as client, client.stream(MODEL, "Hi") as stream:
        got = []
        while not (got and isinstance(got[-1], Done)):
            async for event in stream:
                got.append(event)
                break
    assert types(got) == ["start", "text_start", "text_delta", "text_delta", "text_end", "done"]


async def test_batches_hand_out_the_events_of_one_read_together() -> None:
    pipe = Pipe(frame(text="a") + frame(text="b"), b"".join(HELLO[-2:]), end=True)
    async with client_of(http=PipeClient(pipe)) as client, client.stream(MODEL, "Hi") as stream:
        batches = [types(batch) async for batch in stream.batches()]
    assert batches == [
        ["start"],
        ["text_start", "text_delta", "text_delta"],
        ["text_end", "done"],
    ]


async def test_batches_begin_with_what_a_loop_left_over() -> None:
    pipe = Pipe(frame(text="a") + frame(text="b"), b"".join(HELLO[-2:]), end=True)
    async with client_of(http=PipeClient(pipe)) as client, client.stream(MODEL, "Hi") as stream:
        async for event in stream:
            if isinstance(event, swink.TextStart):
                break
        batches = [types(batch) async for batch in stream.batches()]
    assert batches == [["text_delta", "text_delta"], ["text_end", "done"]]


async def test_a_loop_goes_on_with_what_batches_left_over() -> None:
    pipe = Pipe(*HELLO, end=True)
    async with client_of(http=PipeClient(pipe)) as client, client.stream(MODEL, "Hi") as stream:
        async with aclosing(stream.batches()) as batches:
            first = [types(await anext(batches)), types(await anext(batches))]
        rest = types(await collect(stream))
    assert first == [["start"], ["text_start", "text_delta"]]
    assert rest == ["text_delta", "text_end", "done"]


async def test_text_is_what_each_read_brought_of_it() -> None:
    pipe = Pipe(frame(text="a") + frame(text="b"), frame(thinking="hm"), *HELLO[1:], end=True)
    async with client_of(http=PipeClient(pipe)) as client, client.stream(MODEL, "Hi") as stream:
        pieces = [piece async for piece in stream.text]
    assert pieces == ["ab", "Hel", "lo"]
    assert "".join(pieces) == stream.message.text


async def test_text_left_by_break_goes_on_where_it_stopped() -> None:
    pipe = Pipe(*HELLO, end=True)
    async with client_of(http=PipeClient(pipe)) as client, client.stream(MODEL, "Hi") as stream:
        async with aclosing(stream.text) as text:
            first = await anext(text)
        assert first + "".join([piece async for piece in stream.text]) == "Hello"


async def gather_text(stream: swink.EventStream, pieces: list[str]) -> None:
    async for piece in stream.text:
        pieces.append(piece)


async def test_text_ends_with_what_result_raises() -> None:
    async with client_of(http=PipeClient(cut_after(*HELLO[:2]))) as client:
        stream = client.stream(MODEL, "Hi")
        pieces: list[str] = []
        with pytest.raises(swink.NetworkError) as caught:
            await gather_text(stream, pieces)
        with pytest.raises(swink.NetworkError) as again:
            await stream.result()
    assert pieces == ["Hel"]
    assert str(again.value) == str(caught.value)
    assert caught.value.partial == stream.message


async def test_text_of_an_attempt_that_nobody_saw_is_begun_again() -> None:
    http = PipeClient(cut_after(HELLO[0]), Pipe(*HELLO, end=True))
    async with client_of(http=http, retry=AT_ONCE) as client:
        assert "".join([piece async for piece in client.stream(MODEL, "Hi").text]) == "Hello"


async def test_text_that_was_handed_out_is_not_begun_again() -> None:
    policy = swink.RetryPolicy(base=0.0, restart_after_output=True)
    observer, http = Observer(), PipeClient(cut_after(*HELLO[:2]), Pipe(*HELLO, end=True))
    async with client_of(observer, http=http) as client:
        stream = client.stream(MODEL, "Hi", retry=policy)
        pieces: list[str] = []
        with pytest.raises(swink.NetworkError) as caught:
            await gather_text(stream, pieces)
    assert pieces == ["Hel"]
    assert len(http.requests) == 1
    assert (caught.value.code, caught.value.title != "") == ("connection", True)
    assert caught.value.partial == stream.message
    assert stream.message.text == "Hel"
    assert [(e.stop_reason, e.code) for e in observer.terminals] == [("error", "connection")]


BEGUN_AGAIN = {
    "alone in a read": [frame(restart="lost"), *HELLO],
    "in a read with text before it": [frame(text="p") + frame(restart="lost"), *HELLO],
    "in a read with text after it": [frame(restart="lost") + HELLO[1], *HELLO[2:]],
}
"""The reads after the text "Hel", in which the server begins its answer again."""


@pytest.mark.parametrize("where", BEGUN_AGAIN)
async def test_text_that_was_handed_out_is_not_joined_to_an_answer_begun_again_in_the_same_body(
    where: str,
) -> None:
    observer, pipe = Observer(), Pipe(*BEGUN, *BEGUN_AGAIN[where], end=True)
    async with client_of(observer, http=PipeClient(pipe)) as client:
        stream = client.stream(MODEL, "Hi")
        pieces: list[str] = []
        with pytest.raises(swink.StreamError, match="lost") as caught:
            await gather_text(stream, pieces)
    assert (caught.value.title, caught.value.resolution != "") == ("Toy failed", True)
    assert pieces == ["Hel"]
    assert types(observer.terminals) == ["error"]


async def test_text_begun_again_in_the_read_that_brought_it_is_only_that_of_the_new_answer() -> (
    None
):
    first = frame(text="Help") + frame(restart="lost") + frame(text="Ho") + frame(restart="lost")
    pipe = Pipe(first + HELLO[1], *HELLO[2:], end=True)
    async with client_of(http=PipeClient(pipe)) as client:
        stream = client.stream(MODEL, "Hi")
        pieces = [piece async for piece in stream.text]
    assert pieces == ["Hel", "lo"]
    assert stream.message.text == "Hello"


async def test_observers_that_ask_for_it_are_shown_what_is_none_of_the_streams_own_events() -> None:
    class Curious(Observer):
        other_events = True

    curious, observer = Curious(), Observer()
    async with client_of(curious, observer, http=PipeClient(Pipe(*HELLO, end=True))) as client:
        stream = client.stream(MODEL, "Hi")
        stream.observe(before := swink.Notice("mine"))
        got = await collect(stream)
        stream.observe(after := swink.Notice("mine too"))
    assert curious.events == [before, *got, after]
    assert observer.events == got


async def test_a_second_reader_is_refused_and_the_first_goes_on() -> None:
    scene = Scene()
    reader = asyncio.create_task(collect(scene.stream))
    await settled()
    with pytest.raises(RuntimeError, match="being read by another task"):
        await collect(scene.stream)
    for piece in HELLO[2:]:
        scene.pipe.send(piece)
    assert types(await reader)[-1] == "done"
    assert scene.stream.message.text == "Hello"[:3] + "lo"


async def test_result_waits_for_the_task_that_reads() -> None:
    scene = Scene()
    reader = asyncio.create_task(collect(scene.stream))
    await settled()
    result = asyncio.create_task(scene.stream.result())
    await settled()
    for piece in HELLO[2:]:
        scene.pipe.send(piece)
    assert (await result).text == "Hello"
    assert types(await reader)[-1] == "done"


async def test_result_reads_on_when_the_task_that_reads_has_left() -> None:
    scene = Scene()
    reader = asyncio.create_task(collect(scene.stream))
    await settled()
    result = asyncio.create_task(scene.stream.result())
    await settled()
    reader.cancel()
    with pytest.raises(swink.StreamAborted):
        await result


async def test_result_reads_on_when_the_loop_of_another_task_is_left() -> None:
    async with client_of(http=PipeClient(pipe := Pipe())) as client:
        stream = client.stream(MODEL, "Hi")

        async def first_words() -> str:
            async for event in stream:
                if isinstance(event, swink.TextDelta):
                    return event.delta
            return ""

        reader = asyncio.create_task(first_words())
        await settled()
        result = asyncio.create_task(stream.result())
        await settled()
        for piece in HELLO:
            pipe.send(piece)
        assert await reader == "Hel"
        assert (await asyncio.wait_for(result, 10)).text == "Hello"


async def test_the_message_is_readable_at_any_time() -> None:
    scene = Scene()
    texts = []
    assert scene.stream.message == swink.AssistantMessage([], "toy", "large")
    async with scene.stream as stream:
        async for event in stream:
            texts.append((event.type, stream.message.text))
            if event.type == "text_delta" and len(texts) == 3:
                for piece in HELLO[2:]:
                    scene.pipe.send(piece)
    assert texts == [
        ("start", ""),
        ("text_start", "Hel"),  # a message holds what has arrived, which is a whole read
        ("text_delta", "Hel"),
        ("text_delta", "Hello"),
        ("text_end", "Hello"),
        ("done", "Hello"),
    ]


async def test_the_providers_ids_are_on_the_call_as_soon_as_they_are_known() -> None:
    pipe = Pipe(frame(id="r1", model="large-2", text="a"), headers={"X-Request-Id": "q1"})
    async with client_of(http=PipeClient(pipe)) as client, client.stream(MODEL, "Hi") as stream:
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                break
        call = stream.call
        assert (call.response_id, call.response_model, call.request_id) == ("r1", "large-2", "q1")
        assert stream.message.response_id == "r1"
        assert stream.message.model == "large-2"


async def test_many_streams_of_one_client_run_side_by_side_and_nested() -> None:
    def answer(number: int) -> Pipe:
        return Pipe(frame(text=f"{number}"), *HELLO[-2:], end=True)

    async with client_of(http=PipeClient(*map(answer, range(20)))) as client:
        outer = []
        async with client.stream(MODEL, "Hi") as stream:
            async for event in stream:
                if isinstance(event, swink.TextDelta):
                    outer.append(event.delta)
                    outer.append((await client.complete(MODEL, "Hi")).text)
        inner = await asyncio.gather(*(client.complete(MODEL, "Hi") for _ in range(18)))
    assert outer == ["0", "1"]
    assert [message.text for message in inner] == [str(n) for n in range(2, 20)]


async def test_a_stream_closed_before_it_was_read_sends_nothing_and_logs_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    observer, http = Observer(), PipeClient(Pipe())
    async with client_of(observer, http=http) as client, client.stream(MODEL, "Hi") as stream:
        pass
    assert http.requests == []
    assert types(observer.events) == ["start", "error"]
    assert stream.message.stop_reason is StopReason.ABORTED
    assert [r for r in caplog.records if r.levelname in ("WARNING", "ERROR")] == []


async def test_reading_a_closed_stream_ends_with_its_terminal_event() -> None:
    scene = Scene()
    await scene.stream.aclose()
    events = await collect(scene.stream)
    assert types(events) == ["start", "error"]
    assert (events[-1].code, events[-1].phase) == ("closed", "streaming")
    assert types(await collect(scene.stream)) == []


async def test_closing_twice_and_after_the_end_does_nothing() -> None:
    observer = Observer()
    async with client_of(observer, http=PipeClient(Pipe(*HELLO, end=True))) as client:
        async with client.stream(MODEL, "Hi") as stream:
            await collect(stream)
            await stream.aclose()
        await stream.aclose()
    assert types(observer.terminals) == ["done"]


async def test_closing_while_the_body_is_drained_waits_for_it() -> None:
    pipe = Pipe(*HELLO)  # after the terminal event the body stays open
    async with client_of(http=PipeClient(pipe)) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(collect(stream))
        await settled()
        assert stream.message.stop_reason is StopReason.STOP
        assert not reader.done()  # it drains
        await asyncio.gather(stream.aclose(), stream.aclose())
        assert types(await reader)[-1] == "done"
    assert pipe.closed


# -- result() ------------------------------------------------------------------------------------


async def test_result_returns_the_message_with_usage_and_ids() -> None:
    async with client_of(http=PipeClient(Pipe(*HELLO, end=True))) as client:
        message = await client.stream(MODEL, "Hi").result()
    assert message == swink.AssistantMessage(
        [swink.TextBlock("Hello")],
        provider="toy",
        model="large-2",
        response_id="r1",
        usage=swink.Usage(input=3, output=2, total=5, reported=True),
        stop_reason=StopReason.STOP,
    )


KINDS = [kind for kind in StreamErrorKind if kind is not StreamErrorKind.CANCELLED]


@pytest.mark.parametrize("kind", KINDS)
async def test_result_raises_the_error_of_the_kind_with_what_had_arrived(
    kind: StreamErrorKind,
) -> None:
    pipe = Pipe(
        frame(text="Hel"), frame(usage={"input": 3}), frame(error={"kind": kind, "message": "so"})
    )
    async with client_of(http=PipeClient(pipe)) as client:
        stream = client.stream(MODEL, "Hi")
        with pytest.raises(swink.StreamError) as caught:
            await stream.result()
    error = caught.value
    assert type(error) is swink.StreamError.for_kind(kind)
    assert error.kind is kind
    assert error.message == "so"
    assert error.partial is not None
    assert error.partial.text == "Hel"
    assert error.partial.usage == swink.Usage(input=3, reported=True)
    assert (error.provider, error.model, error.attempts) == ("toy", MODEL, 1)
    assert error.title
    assert error.resolution


async def test_an_error_says_how_long_the_call_took_whenever_it_is_raised() -> None:
    clock, pipe = ManualClock(5.0), Pipe(frame(text="Hel"))
    async with client_of(http=PipeClient(pipe), clock=clock) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(collect(stream))
        await clock.advance(2.0)
        pipe.send(frame(error={"kind": "network"}))
        await reader
        await clock.advance(10.0)
        with pytest.raises(swink.NetworkError) as caught:
            await stream.result()
    assert caught.value.elapsed == 2.0


async def test_result_of_a_closed_stream_raises_that_it_was_aborted() -> None:
    scene = Scene()
    await scene.stream.aclose()
    with pytest.raises(swink.StreamAborted):
        await scene.stream.result()


async def test_result_waiting_while_another_task_closes_raises_that_it_was_aborted() -> None:
    scene = Scene()
    waiting = asyncio.create_task(scene.stream.result())
    await settled()
    await scene.stream.aclose()
    with pytest.raises(swink.StreamAborted) as caught:
        await waiting
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hel"


async def test_result_begins_a_dropped_stream_again_since_nobody_saw_its_output() -> None:
    observer = Observer()
    http = PipeClient(cut_after(*BEGUN), Pipe(*HELLO, end=True))
    async with client_of(observer, http=http, retry=AT_ONCE) as client:
        stream = client.stream(MODEL, "Hi")
        message = await stream.result()
    assert message.text == "Hello"
    assert types(observer.events).count("retry") == 1
    assert stream.call.usage == swink.Usage(input=6, output=2, total=5, reported=True)


async def test_result_does_not_begin_again_what_a_loop_has_shown() -> None:
    http = PipeClient(cut_after(*BEGUN), Pipe(*HELLO, end=True))
    async with client_of(http=http, retry=AT_ONCE) as client:
        stream = client.stream(MODEL, "Hi")
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                break
        with pytest.raises(swink.NetworkError):
            await stream.result()
    assert len(http.requests) == 1


async def test_result_reads_to_its_end_what_a_loop_has_begun() -> None:
    http = PipeClient(Pipe(*HELLO, end=True))
    async with client_of(http=http) as client, client.stream(MODEL, "Hi") as stream:
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                break
        message = await stream.result()
    assert (message.text, message.stop_reason) == ("Hello", StopReason.STOP)


async def test_result_after_the_loop_has_read_everything_returns_the_message() -> None:
    async with client_of(http=PipeClient(Pipe(*HELLO, end=True))) as client:
        async with client.stream(MODEL, "Hi") as stream:
            await collect(stream)
            assert (await stream.result()).text == "Hello"
        assert (await stream.result()).text == "Hello"


# -- retries, as the reader sees them ------------------------------------------------------------


async def test_a_failure_before_content_is_tried_again_behind_a_retry_event() -> None:
    http = PipeClient(cut_after(frame(id="r1")), Pipe(*HELLO, end=True))
    async with client_of(http=http, retry=AT_ONCE) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert broken_rules(events) == []
    assert types(events)[:3] == ["start", "retry", "start"]
    assert isinstance(events[1], Retry)
    assert events[1].error_kind is StreamErrorKind.NETWORK
    assert events[1].model == MODEL
    assert types(events)[-1] == "done"


async def test_a_failure_after_content_is_final() -> None:
    http = PipeClient(cut_after(*BEGUN), Pipe(*HELLO, end=True))
    async with client_of(http=http, retry=AT_ONCE) as client:
        stream = client.stream(MODEL, "Hi")
        events = await collect(stream)
    assert types(events) == ["start", "text_start", "text_delta", "text_end", "error"]
    assert stream.message.text == "Hel"
    assert len(http.requests) == 1


async def test_a_restart_after_output_voids_what_came_before_it() -> None:
    http = PipeClient(cut_after(*BEGUN), Pipe(*HELLO, end=True))
    policy = swink.RetryPolicy(base=0.0, restart_after_output=True)
    async with client_of(http=http, retry=policy) as client:
        stream = client.stream(MODEL, "Hi")
        events = await collect(stream)
    assert broken_rules(events) == []
    assert types(events)[3:5] == ["text_end", "retry"]
    assert stream.message.text == "Hello"


@pytest.mark.parametrize("cut", range(len(HELLO)))
async def test_wherever_an_attempt_is_cut_the_text_after_a_restart_has_no_repeats(
    cut: int,
) -> None:
    http = PipeClient(cut_after(*HELLO[:cut]), Pipe(*HELLO))
    policy = swink.RetryPolicy(base=0.0, restart_after_output=True)
    shown = ""
    async with client_of(http=http, retry=policy) as client:
        stream = client.stream(MODEL, "Hi")
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                shown += event.delta
            elif isinstance(event, Retry):
                shown = ""
    assert shown == stream.message.text == "Hello"
    assert len(http.requests) == 2


# (position of the fault in the answer, whether the call is made again)
FAULTS = [(at, at < 2) for at in range(len(HELLO))]


@pytest.mark.parametrize(("at", "again"), FAULTS)
async def test_the_same_fault_is_retried_before_content_and_final_after_it(
    at: int, again: bool
) -> None:
    busy = frame(error={"kind": StreamErrorKind.OVERLOADED})
    http = PipeClient(Pipe(*HELLO[:at], busy), Pipe(*HELLO))
    async with client_of(http=http, retry=AT_ONCE) as client:
        stream = client.stream(MODEL, "Hi")
        events = await collect(stream)
    assert ("retry" in types(events)) is again
    assert types(events)[-1] == ("done" if again else "error")
    assert "Hello".startswith(stream.message.text)


async def test_leaving_during_the_wait_before_a_retry_ends_the_call_at_once() -> None:
    observer = Observer()
    refused = swink.Failure("connect", kind=StreamErrorKind.OVERLOADED, retry_after=30.0)
    http = PipeClient(refused)
    async with client_of(observer, http=http, retry=swink.RetryPolicy()) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(collect(stream))
        await settled()
        await stream.aclose()
        events = await reader
    assert types(events) == ["start", "retry", "start", "error"]
    assert events[-1].stop_reason is StopReason.ABORTED
    assert events == observer.events
    assert len(http.requests) == 1


async def test_usage_of_a_voided_attempt_counts_once_when_the_wait_after_it_is_left() -> None:
    busy = frame(error={"kind": StreamErrorKind.OVERLOADED, "retry_after": 30.0})
    http = PipeClient(Pipe(frame(id="r1"), frame(usage={"input": 3}), busy))
    async with client_of(http=http, retry=swink.RetryPolicy()) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(collect(stream))
        await settled()
        await stream.aclose()
        await reader
    assert stream.call.usage == swink.Usage(input=3, reported=True)
    assert stream.message.usage is None  # that of the attempt that never began
    assert stream.message.response_id is None


async def test_usage_discarded_by_a_restart_counts_once_when_the_stream_is_left_at_the_retry() -> (
    None
):
    busy = frame(error={"kind": StreamErrorKind.OVERLOADED, "retry_after": 30.0})
    begun_anew = [frame(usage={"input": 5}), frame(restart="lost"), frame(usage={"input": 3})]
    http = PipeClient(Pipe(*begun_anew, busy))
    async with client_of(http=http, retry=swink.RetryPolicy()) as client:
        stream = client.stream(MODEL, "Hi")
        async for event in stream:
            if isinstance(event, swink.Retry) and event.delay:
                break
        await stream.aclose()
    assert stream.call.usage == swink.Usage(input=8, reported=True)
