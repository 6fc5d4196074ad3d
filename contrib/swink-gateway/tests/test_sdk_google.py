"""Features of Google's SDK: automatic function calling, chats, model lists, signatures.

https://googleapis.github.io/python-genai/. The SDK is not a test dependency; see the group `sdk` of
this distribution.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from made import called, said, weather
from serving import Scripted, serving
from upstream import Answers, shipped

import swink_core as swink
from swink_core import StreamErrorKind as Kind

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ignore deprecations of the SDK and its dependencies
    genai = pytest.importorskip("google.genai", reason="Google's SDK is not installed")
    from google.genai import errors, types

pytestmark = pytest.mark.filterwarnings("ignore")

SHOW = {"thinking_config": {"include_thoughts": True}}


PLAIN = {"verify": False, "ssl": False}
"""Loopback needs no certificates, and the SDK takes a tenth of a second to load them."""


@asynccontextmanager
async def sdk(gateway: Any) -> AsyncIterator[Any]:
    options = types.HttpOptions(
        base_url=gateway.url,
        retry_options={"attempts": 1},
        client_args=PLAIN,
        async_client_args=PLAIN,
    )
    client = genai.Client(api_key="k1", vertexai=False, http_options=options)
    async with client.aio as asynchronous:
        yield asynchronous


async def test_the_retry_delay_is_where_the_sdk_reads_it() -> None:
    error = swink.Error(error_message="slow down", error_kind=Kind.THROTTLED, retry_after=1.5)
    async with serving(Scripted([swink.Start(), error])) as gateway, sdk(gateway) as client:
        with pytest.raises(errors.ClientError) as raised:
            await client.models.generate_content(model="echo/echo", contents="Hi")
    details = {d["@type"].rpartition(".")[2]: d for d in raised.value.details["error"]["details"]}
    assert details["RetryInfo"]["retryDelay"] == "1.5s"
    assert details["ErrorInfo"]["reason"] == "RATE_LIMIT_EXCEEDED"


@pytest.mark.parametrize("begun", [False, True])
async def test_the_sdk_raises_for_an_error_inside_a_stream(begun: bool) -> None:
    words = (swink.TextStart(0), swink.TextDelta(0, "Hel"), swink.TextEnd(0)) if begun else ()
    error = swink.Error(error_message="full", error_kind=Kind.OVERLOADED)
    pieces = []

    async def read(stream: Any) -> None:
        async for piece in stream:
            pieces.append(piece.text)

    async with serving(Scripted([swink.Start(), *words, error])) as gateway, sdk(gateway) as client:
        stream = await client.models.generate_content_stream(model="echo/echo", contents="Hi")
        with pytest.raises(errors.ServerError, match="full") as raised:
            await read(stream)
    assert raised.value.code == 503
    assert pieces == ["Hel"] * begun


async def test_automatic_function_calling_matches_results_to_calls() -> None:
    upstream = Scripted(
        called(("c1", "weather", '{"city":"Rome"}'), ("c2", "weather", '{"city":"Oslo"}'))
    )
    upstream.answers.append([said("Sunny.")])
    async with serving(upstream) as gateway, sdk(gateway) as client:
        config = types.GenerateContentConfig(tools=[weather])
        response = await client.models.generate_content(
            model="echo/echo", contents="Weather?", config=config
        )
    assert response.text == "Sunny."
    (tool,) = upstream.calls[0].context.tools
    assert (tool.name, tool.parameters["properties"]["city"]["type"]) == ("weather", "string")
    results = [m for m in upstream.context.messages if isinstance(m, swink.ToolResultMessage)]
    assert [(r.tool_call_id, r.content) for r in results] == [
        ("c1", "sunny in Rome"),
        ("c2", "sunny in Oslo"),
    ]


@pytest.mark.parametrize("shown", [True, False])
async def test_a_chat_returns_another_providers_opaque_data(shown: bool) -> None:
    thought = [
        swink.ThinkingStart(0),
        swink.ThinkingDelta(0, "hm"),
        swink.ThinkingEnd(0, "c2lnbmF0dXJl+/=="),
    ]
    upstream = Scripted(said("One.", *thought))
    upstream.answers.append([said("Two.")])
    config = SHOW if shown else None
    async with serving(upstream) as gateway, sdk(gateway) as client:
        chat = client.chats.create(model="echo/echo", config=config)
        async for _ in await chat.send_message_stream("1"):
            pass
        response = await chat.send_message("2")
    assert response.text == "Two."
    before = upstream.context.messages[1]
    assert isinstance(before, swink.AssistantMessage)
    assert before.provider == "echo"
    assert before.content == [
        swink.ThinkingBlock("hm", "c2lnbmF0dXJl+/=="),
        swink.TextBlock("One."),
    ]


async def test_googles_own_signatures_return_unchanged() -> None:
    upstream = next(o for o in shipped()["gemini"] if o.name == "gemini/thinking-and-tool-calls")
    message, _ = await upstream.direct()
    signed = [call.metadata for call in message.tool_calls if call.metadata]
    answers = Answers()
    answers.next = upstream.answer()
    async with (
        serving(http=answers, providers=upstream.providers) as gateway,
        sdk(gateway) as client,
    ):
        response = await client.models.generate_content(model=upstream.model, contents="Hi")
    asked = [{"role": "user", "parts": [{"text": "Hi"}]}, response.candidates[0].content]
    again = Scripted(said("Done."))
    async with serving(again) as gateway, sdk(gateway) as client:
        await client.models.generate_content(model="echo/echo", contents=asked)
    before = again.context.messages[1]
    assert isinstance(before, swink.AssistantMessage)
    standard = [
        {"thoughtSignature": c.metadata["thoughtSignature"].replace("-", "+").replace("_", "/")}
        for c in before.tool_calls
        if c.metadata
    ]
    assert standard == signed
    assert before.provider == "gemini-generate-content"


async def test_all_options_of_the_sdk_arrive() -> None:
    upstream = Scripted(said("{}"))
    image = types.Part.from_bytes(data=b"\xfb\xff\xfe\x00", mime_type="image/png")
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        temperature=0,
        top_p=0.5,
        top_k=3,
        max_output_tokens=7,
        stop_sequences=["."],
        seed=0,
        presence_penalty=0.5,
        frequency_penalty=0,
        response_mime_type="application/json",
        response_schema={"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}},
        thinking_config=types.ThinkingConfig(thinking_level="LOW"),
        safety_settings=[
            types.SafetySetting(
                category="HARM_CATEGORY_HARASSMENT", threshold="BLOCK_NONE"
            )
        ],
    )  # fmt: skip
    async with serving(upstream) as gateway, sdk(gateway) as client:
        response = await client.models.generate_content(
            model="echo/echo", contents=["Look", image], config=config
        )
    headers = {k.lower(): v for k, v in response.sdk_http_response.headers.items()}
    assert headers["x-swink-dropped"] == "safetySettings"
    options = upstream.options
    assert (options.temperature, options.top_p, options.top_k, options.max_tokens) == (0, 0.5, 3, 7)
    assert (options.stop, options.seed) == ((".",), 0)
    assert (options.presence_penalty, options.frequency_penalty) == (0.5, 0)
    assert options.response_format == {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
    }
    assert options.thinking == "low"
    assert upstream.context.system_prompt == "Be brief."
    assert upstream.context.messages == [
        swink.UserMessage(
            [
                swink.TextBlock("Look"),
                swink.ImageBlock(swink.Base64Source("image/png", "+//+AA==")),
            ]
        )
    ]


async def test_the_sdk_lists_models_gets_one_and_counts_tokens() -> None:
    async with serving() as gateway, sdk(gateway) as client:
        names = [model.name async for model in await client.models.list()]
        assert "models/echo/echo" in names
        one = await client.models.get(model="echo/echo")
        assert one.name == "models/echo/echo"
        counted = await client.models.count_tokens(model="echo/echo", contents="one two three")
        assert counted.total_tokens > 3
        with pytest.raises(errors.ClientError) as raised:
            await client.models.get(model="echo/nothing")
        assert raised.value.code == 404


async def test_the_synchronous_client_reads_the_same() -> None:
    def ask(url: str) -> tuple[str, str]:
        options = types.HttpOptions(base_url=url, client_args=PLAIN, async_client_args=PLAIN)
        with genai.Client(api_key="k1", vertexai=False, http_options=options) as client:
            given = {"model": "echo/echo", "contents": "one two"}
            pieces = [one.text or "" for one in client.models.generate_content_stream(**given)]
            return client.models.generate_content(**given).text, "".join(pieces)

    async with serving() as gateway:
        assert await asyncio.to_thread(ask, gateway.url) == ("one two", "one two")
