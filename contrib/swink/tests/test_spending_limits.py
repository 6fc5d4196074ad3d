"""`limits=` on every function that makes calls; corrections and prompts share one sum."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from scripted_turns import Turns

import swink
from swink_recorder.loopback import Exchange, LoopbackServer

NONE = swink.Limits(requests=0)

ECHO = "echo/echo"

TYPED: dict[str, Any] = {"type": int}

# functions of the module and methods of both clients, with their further arguments
MODULE: list[tuple[str, dict[str, Any]]] = [
    ("answer", TYPED),
    ("answer_sync", TYPED),
    ("complete", {}),
    ("complete_sync", {}),
    ("gather", {}),
    ("gather_answers", TYPED),
    ("stream", {}),
    ("stream_answer", TYPED),
]
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("answer", TYPED),
    ("complete", {}),
    ("gather", {}),
    ("gather_answers", TYPED),
    ("run", {"tools": []}),
    ("stream", {}),
    ("stream_answer", TYPED),
]


async def _ended(made: Any) -> Any:
    """Return the result of a call however it is made."""
    if hasattr(made, "result"):
        made = made.result()
    return await made if inspect.isawaitable(made) else made


async def _refused(call: Callable[..., Any], name: str, more: dict[str, Any]) -> BaseException:
    """Return the error of a call that its limits do not admit."""
    prompt: Any = ["Hi"] if name.startswith("gather") else "Hi"
    try:
        result = await _ended(call(ECHO, prompt, limits=NONE, **more))
    except swink.SwinkError as error:
        return error
    [only] = result.results
    assert isinstance(only, swink.SwinkError)
    return only


@pytest.mark.parametrize(("name", "more"), MODULE, ids=[each[0] for each in MODULE])
async def test_each_function_of_the_module_keeps_to_its_limits(
    name: str, more: dict[str, Any]
) -> None:
    assert isinstance(await _refused(getattr(swink, name), name, more), swink.LimitReached)


@pytest.mark.parametrize(("name", "more"), METHODS, ids=[each[0] for each in METHODS])
@pytest.mark.parametrize("kind", [swink.Client, swink.SyncClient])
async def test_each_method_of_a_client_keeps_to_its_limits(
    kind: Any, name: str, more: dict[str, Any]
) -> None:
    client = kind()
    try:
        error = await _refused(getattr(client, name), name, more)
    finally:
        await (client.aclose() if kind is swink.Client else _ended(client.close()))
    assert isinstance(error, swink.LimitReached)


@pytest.mark.parametrize("owner", [swink, swink.Client, swink.SyncClient])
def test_every_function_with_call_options_accepts_limits(owner: Any) -> None:
    public = [name for name in dir(owner) if not name.startswith("_")]
    calls = [getattr(owner, name) for name in public if inspect.isfunction(getattr(owner, name))]
    signatures = {each.__name__: inspect.signature(each).parameters for each in calls}
    takes_options = {n for n, given in signatures.items() if "max_tokens" in given} - {"target"}
    assert takes_options == {name for name, given in signatures.items() if "limits" in given}


async def test_corrections_share_the_limits_and_leave_the_last_answer() -> None:
    plugin = Turns('{"value": "one"}', '{"value": "two"}', '{"value": 3}')
    async with swink.Client(plugins=[plugin]) as client:
        with pytest.raises(swink.LimitReached) as raised:
            await client.answer(
                ECHO, "How many?", type=int, corrections=5, limits=swink.Limits(requests=2)
            )
    assert len(plugin.contexts) == 2
    assert raised.value.partial is not None
    assert raised.value.partial.text == '{"value": "two"}'


# (limits, whether the run is resumed after a pause, the text of the last message)
LAST: list[tuple[swink.Limits, bool, str]] = [
    (swink.Limits(turns=1), False, "Wait."),
    (swink.Limits(requests=1), False, "Wait."),
    (swink.Limits(tokens=1_200), False, "Wait."),
    (swink.Limits(tool_calls=0), False, "Wait."),
    (swink.Limits(turns=1), True, "Wait."),
    (swink.Limits(requests=0), True, "Wait."),
    (swink.Limits(requests=0), False, ""),
]


@pytest.mark.parametrize(("limits", "is_resumed", "text"), LAST, ids=str)
async def test_the_error_of_a_limited_run_contains_the_models_last_message(
    limits: swink.Limits, is_resumed: bool, text: str
) -> None:
    def look() -> str:
        return "Nothing."

    script = {
        "reply": "Wait.",
        "calls": [{"name": "look", "arguments": {}}],
        "usage": {"input": 500},
    }
    async with swink.Client(providers={"echo": {"script": script}}, max_tokens=100) as client:
        prompt: Any = "Hi"
        if is_resumed:
            run = client.run(ECHO, "Hi", tools=[look], approve=lambda call: swink.PAUSE)
            with pytest.raises(swink.RunPaused) as paused:
                await run.result()
            prompt = paused.value.paused
            prompt.approve(prompt.pending[0])
        with pytest.raises(swink.LimitReached) as raised:
            await client.run(ECHO, prompt, tools=[look], limits=limits).result()
    assert raised.value.partial is not None
    assert raised.value.partial.text == text


async def test_the_answers_to_many_prompts_share_the_limits() -> None:
    async with swink.Client() as client:
        batch = await client.gather_answers(
            ECHO, ["1", "2", "3"], type=int, limit=1, limits=swink.Limits(requests=2)
        )
    assert [isinstance(each, swink.LimitReached) for each in batch.results] == [False, False, True]


def test_a_client_without_await_takes_a_token_counter() -> None:
    def count(model: swink.Model, context: swink.Context) -> int:
        return 1_000_000

    limits = swink.Limits(tokens=500_000)
    with (
        swink.SyncClient(count_tokens=count, limits=limits) as client,
        pytest.raises(swink.LimitReached, match="may take 1,00"),
    ):
        client.complete(ECHO, "Hi")


class Counting(LoopbackServer):
    """A vendor's endpoint that counts 40 tokens, or fails."""

    status = 200

    async def respond(self, exchange: Exchange) -> None:
        await exchange.start(self.status, {"Content-Type": "application/json"})
        await exchange.write(b'{"input_tokens": 40}')
        await exchange.end()


# (status of the endpoint, tokens that a limit has to admit, with an answer of 100)
COUNTED = [(200, 140), (500, 210)]


@pytest.mark.parametrize(("status", "reserved"), COUNTED)
async def test_a_vendors_count_is_reserved_and_the_estimate_if_it_fails(
    status: int, reserved: int, caplog: pytest.LogCaptureFixture
) -> None:
    with Counting() as server:
        server.status = status

        async def count(model: swink.Model, context: swink.Context) -> int:
            async with aiohttp.ClientSession() as session, session.post(server.url) as response:
                response.raise_for_status()
                return int((await response.json())["input_tokens"])

        async with swink.Client(count_tokens=count, max_tokens=100) as client:
            with pytest.raises(swink.LimitReached, match=f"may take {reserved}"):
                await client.complete(ECHO, "Hi", limits=swink.Limits(tokens=reserved - 1))
            await client.complete(ECHO, "Hi", limits=swink.Limits(tokens=reserved))
    assert ("the token counter failed" in caplog.text) == (status != 200)
