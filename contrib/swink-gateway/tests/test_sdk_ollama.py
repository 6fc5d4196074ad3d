"""Features of Ollama's SDK: a tool loop without ids, completions, model lists.

https://github.com/ollama/ollama-python. The SDK is not a test dependency; see the group `sdk` of
this distribution.
"""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest
from made import called, said, weather
from serving import Scripted, serving

import swink_core as swink
from swink_core import StopReason
from swink_gateway.serving.server import Gateway

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ignore deprecations of its dependencies
    ollama = pytest.importorskip("ollama", reason="Ollama's SDK is not installed")

HI = [{"role": "user", "content": "Hi"}]


def sdk(gateway: Gateway) -> Any:
    return ollama.AsyncClient(gateway.url, verify=False)


async def test_a_tool_loop_without_ids_matches_results_to_calls() -> None:
    cities = ("Rome", "Oslo")
    asked = [(f"c{n}", "weather", f'{{"city":"{city}"}}') for n, city in enumerate(cities)]
    upstream = Scripted(called(*asked))
    upstream.answers.append([said("Sunny.")])
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
    _, before, *results = upstream.context.messages
    assert isinstance(before, swink.AssistantMessage)
    pairs = [(r.tool_call_id, r.content) for r in results if isinstance(r, swink.ToolResultMessage)]
    ids = [call.id for call in before.tool_calls]
    assert pairs == list(zip(ids, ["sunny in Rome", "sunny in Oslo"], strict=True))
    assert len(set(ids)) == 2


async def test_all_options_of_the_sdk_arrive() -> None:
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


async def test_the_synchronous_client_reads_the_same() -> None:
    def ask(url: str) -> tuple[str, str]:
        with ollama.Client(url) as client:
            pieces = [one.message.content for one in client.chat("echo/echo", HI, stream=True)]
            return client.chat("echo/echo", HI).message.content, "".join(pieces)

    async with serving() as gateway:
        assert await asyncio.to_thread(ask, gateway.url) == ("Hi", "Hi")
