"""Ollama's SDK as a client: what it reads of recorded answers of all providers, and what it sends.

https://github.com/ollama/ollama-python. The SDK is not among what the tests install; see the group
`sdk` of this distribution.
"""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest
from attrs import define, field
from serving import Scripted, serving
from upstream import FOLDERS, Answers, Upstream, about, corpus, shipped

import swink_core as swink
from swink_core import StopReason
from swink_core import StreamErrorKind as Kind
from swink_core.providers import arguments_object
from swink_gateway.failures import STATUSES
from swink_gateway.server import Gateway

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what its dependencies deprecate is not our concern
    ollama = pytest.importorskip("ollama", reason="Ollama's SDK is not installed")

HI = [{"role": "user", "content": "Hi"}]

DONE = {
    StopReason.STOP: "stop",
    StopReason.TOOL_USE: "stop",
    StopReason.LENGTH: "length",
    StopReason.CONTENT_FILTER: "content_filter",
    StopReason.PAUSE: "pause",
}


@define
class Read:
    """What the SDK makes of an answer."""

    text: str = ""
    thinking: str = ""
    calls: list[Any] = field(factory=list)
    last: Any = None

    def add(self, response: Any) -> None:
        self.last = response
        self.text += response.message.content or ""
        self.thinking += response.message.thinking or ""
        for call in response.message.tool_calls or ():
            self.calls.append((call.function.name, dict(call.function.arguments)))


def sdk(gateway: Gateway) -> Any:
    return ollama.AsyncClient(gateway.url, verify=False)


async def read_stream(client: Any, model: str) -> Read:
    read = Read()
    async for response in await client.chat(model, HI, stream=True):
        read.add(response)
    return read


async def read_whole(client: Any, model: str) -> Read:
    read = Read()
    read.add(await client.chat(model, HI))
    return read


async def judged(reading: Any, upstream: Upstream, body: bytes | None = None) -> None:
    """Compare what the SDK reads with what swink reads without the gateway."""
    message, terminal = await upstream.direct(body)
    with about(upstream):
        if isinstance(terminal, swink.Error):
            with pytest.raises(ollama.ResponseError) as raised:
                await reading
            assert (terminal.error_message or terminal.title) in raised.value.error
            return
        read = await reading
        assert (read.text, read.thinking) == (message.text, message.thinking)
        called = [(call.name, arguments_object(call)) for call in message.tool_calls]
        assert read.calls == called
        assert message.stop_reason is not None
        assert read.last.done_reason == DONE[message.stop_reason]
        assert read.last.model == message.model
        usage = message.usage
        if usage is not None and usage.reported:
            counts = (read.last.prompt_eval_count, read.last.eval_count)
            assert counts == (usage.input, usage.output)


@pytest.mark.parametrize("group", shipped().values(), ids=shipped())
async def test_a_recorded_answer_is_read_as_it_is_without_the_gateway(group: Any) -> None:
    answers = Answers()
    async with (
        serving(http=answers, providers=group[0].providers) as gateway,
        sdk(gateway) as client,
    ):
        for upstream in group:
            for ask in (read_stream, read_whole):
                answers.next = upstream.answer()
                await judged(ask(client, upstream.model), upstream)


@pytest.mark.parametrize("folder", FOLDERS)
async def test_the_corpus_is_read_as_it_is_without_the_gateway(folder: str) -> None:
    upstreams, answers = corpus(folder), Answers()
    if not upstreams:
        pytest.skip("there is no corpus here")
    async with (
        serving(http=answers, providers=upstreams[0].providers) as gateway,
        sdk(gateway) as client,
    ):
        for upstream in upstreams:
            answers.next = upstream.answer()
            await judged(read_stream(client, upstream.model), upstream)


@pytest.mark.parametrize("group", shipped().values(), ids=shipped())
async def test_an_upstream_that_is_cut_anywhere_is_one_visible_failure(group: Any) -> None:
    answers = Answers()
    async with (
        serving(http=answers, providers=group[0].providers) as gateway,
        sdk(gateway) as client,
    ):
        for upstream in group:
            body = upstream.source.body
            for at in sorted({len(body) * n // 8 for n in range(4)}):
                answers.next = upstream.answer(body[:at])
                await judged(read_stream(client, upstream.model), upstream, body[:at])


async def test_a_failure_of_any_kind_is_raised() -> None:
    upstream = Scripted()
    async with serving(upstream) as gateway, sdk(gateway) as client:
        for kind in Kind:
            error = swink.Error(error_message="it is so", error_kind=kind)
            upstream.answers = [[[swink.Start(), error]]]
            with pytest.raises(ollama.ResponseError, match="it is so"):
                await read_stream(client, "echo/echo")
            with pytest.raises(ollama.ResponseError, match="it is so") as raised:
                await read_whole(client, "echo/echo")
            assert raised.value.status_code == STATUSES[kind]


async def test_every_stop_reason_has_its_word() -> None:
    text = [swink.TextStart(0), swink.TextDelta(0, "Hi"), swink.TextEnd(0)]
    upstream = Scripted()
    async with serving(upstream) as gateway, sdk(gateway) as client:
        for reason, word in DONE.items():
            upstream.answers = [[[swink.Start(), *text, swink.Done(reason)]]]
            for ask in (read_stream, read_whole):
                read = await ask(client, "echo/echo")
                assert (read.text, read.last.done_reason) == ("Hi", word)


def weather(city: str) -> str:
    """Say how the weather is.

    Args:
      city: Where.
    """
    return f"sunny in {city}"


async def test_a_tool_loop_whose_client_knows_no_ids_pairs_results_with_calls() -> None:
    calls: list[Any] = [swink.Start()]
    for at, city in enumerate(("Rome", "Oslo")):
        calls += [
            swink.ToolCallStart(at, f"c{at}", "weather"),
            swink.ToolCallDelta(at, f'{{"city":"{city}"}}'),
            swink.ToolCallEnd(at),
        ]
    calls.append(swink.Done(StopReason.TOOL_USE))
    text = [swink.TextStart(0), swink.TextDelta(0, "Sunny."), swink.TextEnd(0)]
    upstream = Scripted(calls)
    upstream.answers.append([[swink.Start(), *text, swink.Done(StopReason.STOP)]])
    async with serving(upstream) as gateway, sdk(gateway) as client:
        messages: list[Any] = [*HI]
        response = await client.chat("echo/echo", messages, tools=[weather], think=True)
        messages.append(response.message)
        for call in response.message.tool_calls:
            told = weather(**call.function.arguments)
            messages.append({"role": "tool", "tool_name": call.function.name, "content": told})
        response = await client.chat("echo/echo", messages, tools=[weather], think=False)
    assert response.message.content == "Sunny."
    (tool,) = upstream.context.tools
    assert tool.parameters["properties"]["city"]["type"] == "string"
    assert [call.options.thinking for call in upstream.calls] == ["medium", "off"]
    _, asked, *results = upstream.context.messages
    assert isinstance(asked, swink.AssistantMessage)
    pairs = [(r.tool_call_id, r.content) for r in results if isinstance(r, swink.ToolResultMessage)]
    ids = [call.id for call in asked.tool_calls]
    assert pairs == list(zip(ids, ["sunny in Rome", "sunny in Oslo"], strict=True))
    assert len(set(ids)) == 2


async def test_what_the_sdk_can_say_arrives() -> None:
    upstream = Scripted([swink.Start(), swink.Done(StopReason.STOP)])
    png = b"\x89PNG\r\n\x1a\n\x00\x00"
    options = ollama.Options(
        temperature=0, top_p=0.5, top_k=3, num_predict=7, seed=0, stop=["."], num_ctx=4096,
        presence_penalty=0.5, frequency_penalty=0,
    )  # fmt: skip
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look", "images": [png]},
    ]
    async with serving(upstream) as gateway, sdk(gateway) as client:
        await client.chat(
            "echo/echo", messages, options=options, format=schema, think="high", keep_alive="5m"
        )
    given = upstream.options
    assert (given.temperature, given.top_p, given.top_k, given.max_tokens) == (0, 0.5, 3, 7)
    assert (given.seed, given.stop, given.response_format) == (0, (".",), schema)
    assert (given.presence_penalty, given.frequency_penalty) == (0.5, 0)
    assert given.thinking == "high"
    system, user = upstream.context.messages
    assert system == swink.SystemMessage("Be brief.")
    assert isinstance(user, swink.UserMessage)
    text, image = user.content
    assert text == swink.TextBlock("Look")
    assert isinstance(image, swink.ImageBlock)
    assert isinstance(image.source, swink.Base64Source)
    assert image.source.media_type == "image/png"


async def test_one_prompt_is_completed() -> None:
    async with serving() as gateway, sdk(gateway) as client:
        whole = await client.generate("echo/echo", "one two", system="s")
        stream = await client.generate("echo/echo", "one two", stream=True)
        pieces = [piece.response async for piece in stream]
    assert whole.response == "".join(pieces) == "one two"
    assert (whole.done, whole.done_reason) == (True, "stop")


async def test_models_are_listed_and_shown() -> None:
    async with serving(routes={"mine": ["echo/echo"]}) as gateway, sdk(gateway) as client:
        names = [model.model for model in (await client.list()).models]
        assert {"mine", "echo/echo"} <= set(names)
        assert (await client.ps()).models
        shown = await client.show("mine")
        assert "completion" in shown.capabilities
        with pytest.raises(ollama.ResponseError, match="not found") as raised:
            await client.show("nobody/any")
        assert raised.value.status_code == 404


async def test_the_blocking_client_reads_the_same() -> None:
    def ask(url: str) -> tuple[str, str]:
        with ollama.Client(url) as client:
            pieces = [one.message.content for one in client.chat("echo/echo", HI, stream=True)]
            return client.chat("echo/echo", HI).message.content, "".join(pieces)

    async with serving() as gateway:
        assert await asyncio.to_thread(ask, gateway.url) == ("Hi", "Hi")
