"""A state for each call: chunks, what was taken, and that nothing is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import swink_core as swink
from swink_observers.calls import CallObserver, CallState
from swink_testing.acme import acme_answer, acme_host
from swink_testing.calls import new_call
from swink_testing.driver import MemoryHTTPClient, MemoryResponse
from swink_testing.observers import ObserverConformance


class Notes(CallState):
    def __init__(self) -> None:
        super().__init__()
        self.made: list[Any] = []

    def chunk(self, call: swink.Call) -> None:
        self.made.append("chunk")

    def event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        self.made.append(event.type)
        if isinstance(event, swink.Retry | swink.Done | swink.Error):
            self.made.append(self.taken(call).tokens)


class Keeps(CallObserver[Notes]):
    def __init__(self) -> None:
        super().__init__()
        self.states: list[Notes] = []

    def watch(self, call: swink.Call) -> Notes:
        self.states.append(Notes())
        return self.states[-1]


async def made_of(*answers: MemoryResponse) -> list[Any]:
    observer = Keeps()
    own = {"acme": {"api_key": "k", "base_url": "http://acme.invalid"}}
    host, http = acme_host([observer]), MemoryHTTPClient(*answers)
    retry = swink.RetryPolicy(base=0.0)
    client = swink.Client(host=host, http=http, providers=own, retry=retry)
    async with client, client.stream("acme/large", "Hi") as stream:
        async for _ in stream:
            pass
    assert observer._running == {}
    [state] = observer.states
    return state.made


SSE = {"Content-Type": "text/event-stream"}


async def test_a_chunk_is_a_network_read_however_many_deltas_it_brings() -> None:
    frames = b'data: {"text": "a"}\n\ndata: {"text": "b"}\n\n'
    answer = MemoryResponse([frames, frames, b'data: {"stop": "stop"}\n\n'], headers=SSE)
    made = await made_of(answer)
    assert made == [
        "start", "text_start", "chunk", "chunk", "text_end", "done", {"input": 1, "output": 2},
    ]  # fmt: skip


async def test_each_attempt_has_its_own_chunks_and_its_own_share() -> None:
    answer = ({"text": "a"}, {"stop": "stop"})
    made = await made_of(acme_answer({"error": "busy"}), acme_answer(*answer))
    assert made == [
        "start", "retry", {}, "start", "text_start", "chunk", "text_end", "done",
        {"input": 1, "output": 2},
    ]  # fmt: skip


def shown(observer: Any, call: swink.Call, *events: swink.AssistantMessageEvent) -> None:
    for event in events:
        if isinstance(event, swink.Done):
            call.add(event.usage, event.cost)
        observer.on_event(event=event, call=call)


DONE = swink.Done(swink.StopReason.STOP, swink.Usage(5, 3), swink.Cost(total=0.5))


async def test_at_a_retry_the_call_answers_for_the_attempt_that_failed() -> None:
    shown: list[tuple[Any, ...]] = []

    class Attempts(CallState):
        def event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
            if isinstance(event, swink.Retry | swink.Done):
                then = (event.model, event.attempt) if isinstance(event, swink.Retry) else ()
                of_all, own = call.usage, self.taken(call).tokens["output"]
                assert of_all is not None
                shown.append((call.model.id, call.attempt.number, *then, own, of_all.output))

    class Counts(CallObserver[Attempts]):
        def watch(self, call: swink.Call) -> Attempts:
            return Attempts()

    overloaded = {swink.StreamErrorKind.OVERLOADED: 1}
    retry = swink.RetryPolicy(retries=overloaded, base=0.0, restart_after_output=True)
    first = "echo/fail-overloaded-after-2"
    async with swink.Client(plugins=[Counts()], retry=retry) as client:
        message = await client.complete([first, "echo/echo"], "one two three")
    assert shown == [
        ("fail-overloaded-after-2", 1, first, 2, 2, 2),
        ("fail-overloaded-after-2", 2, "echo/echo", 1, 2, 4),
        ("echo", 3, 3, 7),
    ]
    assert message.usage is not None
    assert message.usage.output == 3


class Searches:
    """A provider whose model `a` fails after a search without a price; `b` answers."""

    api_level = 1

    def __init__(self, name: str) -> None:
        self.name = name

    @swink.hookimpl
    async def stream(self, model: swink.Model) -> AsyncIterator[Any]:
        yield swink.Start()
        if model.id == "a":
            kind, cost = swink.StreamErrorKind.OVERLOADED, swink.Cost(input=0.5, output=0.25)
            yield swink.Error(error_message="no", error_kind=kind, usage=DONE.usage, cost=cost)
            return
        yield swink.TextStart(0)
        yield swink.TextDelta(0, "b")
        yield swink.TextEnd(0)
        yield swink.Done(swink.StopReason.STOP, swink.Usage(1, 1), swink.Cost(total=0.125))


async def test_the_known_cost_of_a_failed_attempt_is_not_that_of_the_next_model() -> None:
    shown: list[tuple[str, float]] = []

    class Costs(CallState):
        def event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
            if isinstance(event, swink.Retry | swink.Done):
                shown.append((call.model.id, self.taken(call).cost))

    class Sums(CallObserver[Costs]):
        def watch(self, call: swink.Call) -> Costs:
            return Costs()

    host = swink.Host([Sums()], entry_points=[], providers={"searches": Searches}, environ={})
    async with swink.Client(host=host, retry=swink.RetryPolicy.none()) as client:
        await client.complete(["searches/a", "searches/b"], "Hi")
        assert client.charge.cost == 0.875
    assert shown == [("a", 0.75), ("b", 0.125)]


def test_without_a_network_each_delta_is_a_chunk() -> None:
    observer = Keeps()
    deltas = [swink.TextDelta(0, "a"), swink.TextDelta(0, "b")]
    shown(observer, new_call(), swink.Start(), swink.TextStart(0), *deltas)
    assert observer.states[0].made == ["start", "text_start", "chunk", "chunk"]


@pytest.mark.parametrize("cached", [True, False])
def test_an_answer_from_a_cache_took_nothing(cached: bool) -> None:
    observer, call = Keeps(), new_call()
    notices = [swink.Notice("cache_hit")] if cached else []
    shown(observer, call, swink.Start(), *notices, DONE)
    assert observer.states[0].cached is cached
    assert observer.states[0].made[-1] == ({} if cached else {"input": 5, "output": 3})


def test_a_call_that_nobody_watches_is_looked_at_once() -> None:
    asked = []

    class Choosy(CallObserver[CallState]):
        def watch(self, call: swink.Call) -> None:
            asked.append(call.id)

    call = new_call()
    shown(Choosy(), call, swink.Start(), swink.TextStart(0), DONE)
    assert asked == [call.id]


def test_who_raises_keeps_nothing_of_the_call() -> None:
    class Raises(CallState):
        def event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
            raise RuntimeError

    class Broken(CallObserver[Raises]):
        def watch(self, call: swink.Call) -> Raises:
            return Raises()

    observer = Broken()
    with pytest.raises(RuntimeError):
        shown(observer, new_call(), swink.Start())
    assert observer._running == {}


class TestCallObserver(ObserverConformance):
    class Plain(CallObserver[CallState]):
        def watch(self, call: swink.Call) -> CallState:
            return CallState()

    observer = Plain
