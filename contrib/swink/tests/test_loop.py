"""The tool loop: turns, tools, limits, and the state after it is stopped."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from scripted_turns import Turns

import swink
from swink import RunEnd, RunStart, ToolEnd, ToolStart, TurnEnd, TurnStart, toolbox
from swink_recorder.loopback import Exchange, LoopbackServer

RETRY = swink.RetryPolicy(base=0.0)
QUESTION = swink.UserMessage("What is the weather?")


def weather(city: str = "Paris") -> str:
    """Tell the weather."""
    return f"18 °C in {city}"


def names(events: list[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


def own(events: list[Any]) -> list[str]:
    """The loop's own events, by name."""
    kinds = (RunStart, TurnStart, TurnEnd, ToolStart, ToolEnd, RunEnd)
    return names([event for event in events if isinstance(event, kinds)])


class Watcher:
    """An observer that stores the events it receives, each with its call."""

    other_events = True

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.calls: list[swink.Call] = []

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        self.events.append(event)
        self.calls.append(call)


async def test_a_run_is_one_stream_of_turns_and_tools_which_observers_see_too() -> None:
    watcher = Watcher()
    async with swink.Client(plugins=[watcher]) as client:
        run = client.run("echo/tool", [QUESTION], tools=[weather])
        got, calls = [], []
        async for event in run:
            got.append(event)
            calls.append(run.call)
    assert own(got) == [
        "RunStart", "TurnStart", "TurnEnd", "ToolStart", "ToolEnd",
        "TurnStart", "TurnEnd", "RunEnd",
    ]  # fmt: skip
    assert names(got)[2:4] == ["Start", "ToolCallStart"]
    assert watcher.events == got
    assert watcher.calls == calls
    assert len(set(map(id, calls))) == 2
    assert got[0] == RunStart(run.id, ("weather",))
    assert got[-1] == RunEnd(run.id, 2, "done", run.usage, run.cost)


async def test_observers_that_ask_for_no_more_see_calls_alone() -> None:
    class Plain(Watcher):
        other_events = False

    plain = Plain()
    async with swink.Client(plugins=[plain]) as client:
        await client.run("echo/tool", [QUESTION], tools=[weather]).result()
    assert own(plain.events) == []
    assert names(plain.events).count("Done") == 2


async def test_the_conversation_and_the_totals_are_there_at_the_end() -> None:
    said = [QUESTION]
    async with swink.Client() as client:
        run = client.run("echo/tool", said, tools=[weather], system_prompt="Be brief.")
        answer = await run.result()
        assert client.usage == run.usage
    question, call, result, last = run.conversation
    assert (question, last) == (QUESTION, answer)
    assert isinstance(call, swink.AssistantMessage)
    assert result == swink.ToolResultMessage(call.tool_calls[0].id, "weather", "18 °C in Paris")
    assert answer.text == "weather returned: 18 °C in Paris"
    assert run.usage == call.usage + answer.usage  # type: ignore[operator]  # both are known
    assert said == [QUESTION]
    assert run.call.context.system_prompt == "Be brief."


async def test_text_is_that_of_all_turns() -> None:
    async with swink.Client() as client, client.run("echo/tool", "Hi", tools=[weather]) as run:
        pieces = [piece async for piece in run.text]
    assert "".join(pieces) == "weather returned: 18 °C in Paris"
    assert len(pieces) > 1


def begun_again(text: str, again: str) -> bytes:
    """The body of an answer that the server begins again after some text."""
    frames: list[dict[str, Any]] = []
    for id, said in enumerate((text, again)):
        message = {"id": f"m{id}", "role": "assistant", "model": "m", "content": []}
        block = {"type": "text", "text": said}
        frames += [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
        ]
    end = {"stop_reason": "end_turn"}
    frames += [{"type": "message_delta", "delta": end}, {"type": "message_stop"}]
    return b"".join(b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames)


class Restarting(LoopbackServer):
    """Sends a body in two parts: the second one when the test has read text of the first.

    If `breaks` is true, the connection breaks instead of the second part.
    """

    def __init__(self, body: bytes, first: int, breaks: bool = False) -> None:
        super().__init__()
        self.breaks = breaks
        self.parts = [body[:first], body[first:]]
        self.was_read = asyncio.Event()

    async def respond(self, exchange: Exchange) -> None:
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        await exchange.write(self.parts[0])
        if self.parts[1]:
            await self.was_read.wait()
            if self.breaks:
                exchange.reset()
                return
            await exchange.write(self.parts[1])
        await exchange.end()


async def text_of_run(
    server: Restarting, pieces: list[str], retry: swink.RetryPolicy = RETRY
) -> swink.Run[Any]:
    async with swink.Client(retry=retry) as client:
        options: Any = {"base_url": server.url, "api_key": "k", "tools": [weather]}
        async with client.run("anthropic/m", "Hi", **options) as run:
            async for piece in run.text:
                pieces.append(piece)
                server.was_read.set()
    return run


async def test_text_of_a_run_is_only_that_of_an_answer_begun_again_in_the_same_read() -> None:
    body, pieces = begun_again("Help", "Hello"), list[str]()
    async with Restarting(body, len(body)) as server:
        run = await text_of_run(server, pieces)
    assert pieces == ["Hello"]
    assert run.message.text == "Hello"


async def test_text_of_a_run_that_was_handed_out_is_not_joined_to_an_answer_begun_again() -> None:
    body, pieces = begun_again("Help", "Hello"), list[str]()
    async with Restarting(body, body.rindex(b'data: {"type": "message_start"')) as server:
        with pytest.raises(swink.StreamError, match="started its answer again") as caught:
            await text_of_run(server, pieces)
    assert pieces == ["Help"]
    assert (caught.value.title, caught.value.resolution != "") == ("Anthropic failed", True)


async def test_text_of_a_run_that_was_handed_out_is_not_asked_for_again() -> None:
    body, pieces = begun_again("Help", "Hello"), list[str]()
    restarts = swink.RetryPolicy(base=0.0, restart_after_output=True)
    first = body.rindex(b'data: {"type": "message_start"')
    async with Restarting(body, first, breaks=True) as server:
        with pytest.raises(swink.NetworkError) as caught:
            await text_of_run(server, pieces, restarts)
    assert pieces == ["Help"]
    assert (caught.value.code, caught.value.attempts) == ("connection", 1)
    assert "Anthropic" in caught.value.title
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Help"


@pytest.mark.parametrize("read", ["result", "text", "events"])
async def test_a_call_that_fails_ends_the_run_and_is_raised(read: str) -> None:
    async with swink.Client(retry=False) as client:
        run = client.run("echo/fail-auth", [QUESTION], tools=[weather])
        if read == "events":
            last = [event async for event in run][-1]
            assert last.outcome == "error"
        reading = run.result() if read != "text" else anext(run.text)
        with pytest.raises(swink.AuthenticationError):
            await reading
    assert run.outcome == "error"
    assert run.conversation == [QUESTION]


async def test_tools_of_a_turn_run_together_and_their_results_keep_the_calls_order() -> None:
    met = asyncio.Barrier(3)

    async def a() -> str:
        await met.wait()
        return "a"

    async def b() -> str:
        await met.wait()
        raise LookupError("b is out")

    async def c() -> str:
        await met.wait()
        return "c"

    async with swink.Client() as client:
        run = client.run("echo/tools", "Hi", tools=[c, a, b])
        await run.result()
    results = [m for m in run.conversation if isinstance(m, swink.ToolResultMessage)]
    assert [(m.tool_name, m.content, m.is_error) for m in results] == [
        ("c", "c", False),
        ("a", "a", False),
        ("b", "LookupError: b is out", True),
    ]


class Reason(StrEnum):
    CLOSED = "closed"


async def no(call: swink.ToolCallBlock) -> bool:
    return False


def raises(call: swink.ToolCallBlock) -> bool:
    raise RuntimeError("nobody is there")


# (the hook, whether the tool runs, part of what the model is told)
APPROVALS: list[tuple[Any, bool, str]] = [
    (lambda call: True, True, "18 °C"),
    (lambda call: False, False, "The user does not allow this call."),
    (no, False, "The user does not allow this call."),
    (lambda call: f"No {call.name} today.", False, "No weather today."),
    (lambda call: Reason.CLOSED, False, "closed"),
    (raises, False, "RuntimeError: nobody is there"),
    (lambda call: None, False, "The user does not allow this call."),
    (
        lambda call: 5,
        False,
        "call. The function approve returned a value of type int",
    ),
]


@pytest.mark.parametrize(("approve", "runs", "told"), APPROVALS)
async def test_a_tool_runs_if_it_is_approved(approve: Any, runs: bool, told: str) -> None:
    ran = []

    def weather() -> str:
        ran.append(True)
        return "18 °C"

    async with swink.Client() as client:
        run = client.run("echo/tool", "Hi", tools=[weather], approve=approve)
        await run.result()
    result = run.conversation[2]
    assert isinstance(result, swink.ToolResultMessage)
    assert (bool(ran), result.is_error) == (runs, not runs)
    assert told in str(result.content)
    assert type(result.content) is str


NO_WORD: Any = 5

# (what the tool returns, part of what the model is told)
INVALID: list[tuple[Any, str]] = [
    (swink.ImageBlock(swink.FileSource("/no/such.png")), "MediaError: /no/such.png: No such file"),
    (swink.ImageBlock(swink.Base64Source("image/png", "!!!")), "is not valid base64"),
    (["Here:", swink.ImageBlock(NO_WORD)], "source: expected Base64Source"),
    (swink.TextBlock(NO_WORD), "text: expected `str`, got `int`"),
]


@pytest.mark.parametrize(("returned", "told"), INVALID, ids=[row[1] for row in INVALID])
async def test_a_result_that_cannot_be_sent_is_reported_to_the_model(
    returned: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    def show() -> Any:
        return returned

    async with swink.Client(plugins=[Turns([("show", {})], "Done.")]) as client:
        run = client.run("echo/echo", "Hi", tools=[show])
        assert (await run.result()).text == "Done."
        result = run.conversation[2]
        assert isinstance(result, swink.ToolResultMessage)
        assert result.is_error
        assert told in str(result.content)
        assert "tool show returned" in caplog.text
        assert swink.load(swink.Conversation, swink.dump(run.conversation)) == run.conversation


async def test_a_run_whose_conversation_cannot_be_sent_any_more_ends_with_the_error(
    tmp_path: Path,
) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(b"png")

    def remove() -> None:
        picture.unlink()

    async with swink.Client(plugins=[Turns([("remove", {})])]) as client:
        run = client.run("echo/echo", ["Hi", swink.image(picture)], tools=[remove])
        events = [event async for event in run]
        for _ in range(2):
            with pytest.raises(swink.MediaError, match="No such file"):
                await run.result()
    assert isinstance(events[-1], RunEnd)
    assert (events[-1].outcome, run.outcome, run.turns) == ("error", "error", 1)
    assert run.usage == events[-1].usage == swink.Usage(1, 2, total=3, reported=True)


async def test_a_run_that_does_not_end_is_stopped_at_its_limit() -> None:
    ran = []

    def again() -> str:
        ran.append(1)
        return "Again."

    # a conversation that begins anew for the model is answered with a call each time
    async with swink.Client() as client:
        run = client.run("echo/stop-pause", "Hi", tools=[again], max_turns=3)
        with pytest.raises(swink.TooManyTurns, match="after turn 3"):
            await run.result()
        limited = client.run("echo/tool", "Hi", tools=[again], max_turns=1)
        with pytest.raises(swink.TooManyTurns, match="after turn 1"):
            await limited.result()
    assert (run.outcome, run.turns) == ("max_turns", 3)
    assert ran == []
    assert limited.conversation[-1] == swink.ToolResultMessage(
        limited.message.tool_calls[0].id,
        "again",
        "The tool was not called: the run had come to its end.",
        is_error=True,
    )


async def test_an_answer_that_pauses_is_gone_on_with() -> None:
    async with swink.Client() as client:
        run = client.run(["echo/stop-pause"], [QUESTION], tools=[], max_turns=2)
        got = [event async for event in run]
    ends = [event.stop_reason for event in got if isinstance(event, TurnEnd)]
    assert ends == [swink.StopReason.PAUSE] * 2
    assert [m.role for m in run.conversation] == ["user", "assistant", "assistant"]


async def test_a_tool_that_was_forced_is_called_once() -> None:
    async with swink.Client() as client:
        run = client.run("echo/echo", "Hi", tools=[weather], tool_choice="required")
        choices = [
            run.call.options.tool_choice async for event in run if isinstance(event, TurnStart)
        ]
    assert choices == ["required", None]
    assert run.outcome == "done"


async def test_a_chain_that_fails_in_every_turn_answers_from_its_next_model() -> None:
    async with swink.Client(breaker=False) as client:
        run = client.run(["echo/fail-overloaded", "echo/tool"], "Hi", tools=[weather], retry=False)
        got = [event async for event in run]
    retries = [event for event in got if isinstance(event, swink.Retry)]
    assert [event.model for event in retries] == ["echo/tool"] * 2
    assert run.message.text == "weather returned: 18 °C in Paris"


def test_a_run_has_one_turn_at_least() -> None:
    with pytest.raises(swink.UsageError, match="max_turns is less than 1"):
        swink.Client().run("echo/tool", "Hi", tools=[weather], max_turns=0)


async def test_a_loop_left_by_break_can_be_resumed() -> None:
    async with swink.Client() as client, client.run("echo/tool", "Hi", tools=[weather]) as run:
        got: list[Any] = []
        while run.outcome is None:
            async for event in run:
                got.append(event)
                break
        got += [event async for event in run]
    assert own(got)[-1] == "RunEnd"
    assert names(got).count("ToolEnd") == 1


# -- stopping ------------------------------------------------------------------------------------


class Scene:
    """A run of three tools that end one by one, when the test lets them; then a last turn."""

    def __init__(self, client: swink.Client) -> None:
        self.gates = [asyncio.Event() for _ in range(3)]
        self.stopped: list[str] = []
        self.run = client.run("echo/tools", [QUESTION], tools=[self.a, self.b, self.c])
        self.seen: list[Any] = []

    async def _wait(self, number: int, name: str) -> str:
        try:
            await self.gates[number].wait()
        except asyncio.CancelledError:
            self.stopped.append(name)
            raise
        return f"{name} is done"

    async def a(self) -> str:
        return await self._wait(0, "a")

    async def b(self) -> str:
        return await self._wait(1, "b")

    async def c(self) -> str:
        return await self._wait(2, "c")

    async def read(self, until: int) -> None:
        """Read so many events, and let a tool end whenever one may."""
        async for event in self.run:
            self.seen.append(event)
            if len(self.seen) == until:
                return
            ended = sum(isinstance(each, ToolEnd) for each in self.seen)
            if isinstance(event, ToolEnd) or names(self.seen).count("ToolStart") == 3:
                self.gates[min(ended, 2)].set()


async def closed(scene: Scene, number: int) -> None:
    await scene.read(number)
    await scene.run.aclose()


async def left(scene: Scene, number: int) -> None:
    async with scene.run:
        await scene.read(number)


async def cancelled_while_it_waits(scene: Scene, number: int) -> None:
    """The task is cancelled that waits for the next event, which does not come."""
    await scene.read(number)
    task = asyncio.ensure_future(anext(aiter(scene.run)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await scene.run.aclose()


async def closed_by_another(scene: Scene, number: int) -> None:
    await scene.read(number)

    async def rest() -> None:
        async for event in scene.run:
            scene.seen.append(event)

    reader = asyncio.create_task(rest())
    await asyncio.sleep(0)
    await scene.run.aclose()
    await reader


WAYS: list[Callable[[Scene, int], Any]] = [
    closed, left, cancelled_while_it_waits, closed_by_another,
]  # fmt: skip


def faults(conversation: swink.Conversation) -> list[str]:
    """Return reasons why any API would reject a conversation."""
    found: list[str] = []
    waiting: list[str] = []
    for message in conversation:
        if isinstance(message, swink.ToolResultMessage):
            if message.tool_call_id not in waiting:
                found.append(f"a result for {message.tool_call_id}")
            else:
                waiting.remove(message.tool_call_id)
            continue
        found += [f"no result for {id}" for id in waiting]
        waiting = []
        if isinstance(message, swink.AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
            found += [f"{call.id} is {call.state}" for call in message.tool_calls
                      if call.state != "complete"]  # fmt: skip
    return found + [f"no result for {id}" for id in waiting]


async def events_of_the_scene() -> int:
    async with swink.Client() as client:
        scene = Scene(client)
        await scene.read(-1)
        return len(scene.seen)


def test_the_scene_has_every_state() -> None:
    assert asyncio.run(events_of_the_scene()) == EVENTS


EVENTS = 42


@pytest.mark.parametrize("way", WAYS)
async def test_however_a_run_is_stopped_its_conversation_is_whole(
    way: Callable[[Scene, int], Any],
) -> None:
    watcher = Watcher()
    async with swink.Client(plugins=[watcher]) as client:
        for number in range(1, EVENTS + 1):
            watcher.events.clear()
            scene = Scene(client)
            await way(scene, number)
            assert await tasks_left() == set()
            check_the_end(scene, watcher)
            run = scene.run
            again = client.run("echo/echo", [*run.conversation, swink.UserMessage("Bye")], tools=[])
            assert (await again.result()).text


async def tasks_left() -> set[asyncio.Task[Any]]:
    for _ in range(5):  # iterators that were dropped are closed in the turns that follow
        await asyncio.sleep(0)
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[return-value]


def check_the_end(scene: Scene, watcher: Watcher) -> None:
    run = scene.run
    assert faults(run.conversation) == []
    assert own(watcher.events).count("RunEnd") == 1
    assert watcher.events[-1].outcome == run.outcome
    answers = [m for m in run.conversation if isinstance(m, swink.AssistantMessage)]
    assert len(answers) == names(watcher.events).count("Done")
    assert not answers or answers[-1].stop_reason in (
        swink.StopReason.TOOL_USE, swink.StopReason.STOP,
    )  # fmt: skip
    ended = {e.tool_call.name: e.result for e in scene.seen if isinstance(e, ToolEnd)}
    kept = {m.tool_name: m for m in run.conversation if isinstance(m, swink.ToolResultMessage)}
    assert ended.items() <= kept.items()
    for name, result in kept.items():
        assert result.is_error == (result.content != f"{name} is done")


async def test_a_run_that_is_closed_waits_at_ease_for_a_tool_that_takes_its_time_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sleep, looks, may_end = asyncio.sleep, 0, asyncio.Event()

    async def counting(seconds: float) -> None:
        nonlocal looks
        looks += 1
        await sleep(seconds)

    async def slow() -> str:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
        return ""

    async with swink.Client() as client:
        run = client.run("echo/tool", "Hi", tools=[slow])
        events: list[Any] = []

        async def read() -> None:
            async for event in run:
                events.append(event)

        reader = asyncio.create_task(read())
        while "ToolStart" not in names(events):
            await sleep(0)
        monkeypatch.setattr(asyncio, "sleep", counting)
        closing = asyncio.create_task(run.aclose())
        for _ in range(1_000):
            await sleep(0)
        assert looks < 100
        may_end.set()
        await asyncio.gather(closing, reader)
    assert isinstance(events[-1], RunEnd)


class Held:
    """A tool that waits until it is stopped."""

    def __init__(self) -> None:
        self.began, self.was_stopped = threading.Event(), False

    async def hold(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.was_stopped = True


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_closed_client_stops_the_tools_of_its_runs(is_read: bool) -> None:
    held, watcher = Held(), Watcher()
    client = swink.Client(plugins=[watcher])
    run = client.run("echo/tool", "Hi", tools=[held.hold])
    async for event in run:
        if isinstance(event, ToolStart):
            break
    reader = asyncio.create_task(run.result()) if is_read else None
    await asyncio.to_thread(held.began.wait)
    await client.aclose()
    assert (held.was_stopped, run.outcome) == (True, "aborted")
    assert watcher.events[-1].outcome == "aborted"
    assert faults(run.conversation) == []
    for result in (reader or run.result(), run.result()):
        with pytest.raises(swink.StreamAborted, match="the run was closed"):
            await result


@pytest.mark.parametrize("closing", ["the client", "the run"])
async def test_a_tool_that_survives_its_cancellation_is_left_behind(
    closing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolbox, "PATIENCE", 0.05)
    began, may_end = asyncio.Event(), asyncio.Event()

    async def survives() -> None:
        began.set()
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await may_end.wait()

    client = swink.Client()
    run = client.run("echo/tool", "Hi", tools=[survives])
    reader = asyncio.create_task(run.result())
    await began.wait()
    async with asyncio.timeout(60):
        await (client if closing == "the client" else run).aclose()
        with pytest.raises(swink.StreamAborted, match="the run was closed"):
            await reader
    assert faults(run.conversation) == []
    may_end.set()
    await client.aclose()


async def test_a_closed_client_stops_the_tools_of_a_run_in_another_loop() -> None:
    held = Held()
    client = swink.Client()
    run = client.run("echo/tool", "Hi", tools=[held.hold])
    elsewhere = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(_ended(run))))
    await asyncio.to_thread(held.began.wait)
    await client.aclose()
    with pytest.raises(swink.StreamAborted, match="the run was closed"):
        await elsewhere
    assert (held.was_stopped, run.outcome) == (True, "aborted")


async def _ended(run: swink.Run) -> None:
    await run.result()


async def test_a_tool_may_close_the_client() -> None:
    client = swink.Client()

    async def close() -> None:
        await client.aclose()

    run = client.run("echo/tool", "Hi", tools=[close])
    with pytest.raises(swink.StreamAborted, match="the run was closed"):
        await run.result()
    with pytest.raises(swink.UsageError, match="the client is closed"):
        client.stream("echo/echo", "Hi")
