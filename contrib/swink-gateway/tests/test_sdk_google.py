"""Google's SDK as a client: what it reads of recorded answers of all providers, and what it sends.

https://googleapis.github.io/python-genai/. The SDK is not among what the tests install; see the
group `sdk` of this distribution.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import asdict, define, field
from serving import Scripted, serving
from upstream import FOLDERS, Answers, Upstream, Vendor, about, corpus, shipped

import swink_core as swink
from swink_core import StopReason, Usage
from swink_core import StreamErrorKind as Kind
from swink_core.providers import is_synthetic_id
from swink_gateway.failures import STATUSES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what it and its dependencies deprecate is not our concern
    genai = pytest.importorskip("google.genai", reason="Google's SDK is not installed")
    from google.genai import errors, types

pytestmark = pytest.mark.filterwarnings("ignore")

SHOW = {"thinking_config": {"include_thoughts": True}}


@define
class Read:
    """What the SDK makes of an answer."""

    text: str = ""
    thinking: str = ""
    calls: list[Any] = field(factory=list)
    finish: str | None = None
    usage: Any = None
    blocked: Any = None
    model: str | None = None
    id: str | None = None

    def add(self, response: Any) -> None:
        self.model, self.id = response.model_version, response.response_id
        self.usage = response.usage_metadata or self.usage
        self.blocked = response.prompt_feedback or self.blocked
        for candidate in response.candidates or ():
            if candidate.finish_reason is not None:
                self.finish = candidate.finish_reason.value
            for part in (candidate.content and candidate.content.parts) or ():
                if part.function_call:
                    call = part.function_call
                    self.calls.append((call.id, call.name, call.args or {}))
                elif part.thought:
                    self.thinking += part.text or ""
                else:
                    self.text += part.text or ""


PLAIN = {"verify": False}
"""No certificates are needed on loopback, and reading them takes the SDK a tenth of a second."""


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


async def read_stream(client: Any, model: str) -> Read:
    read = Read()
    async for response in await client.models.generate_content_stream(
        model=model, contents="Hi", config=SHOW
    ):
        read.add(response)
    return read


async def read_whole(client: Any, model: str) -> Read:
    read = Read()
    read.add(await client.models.generate_content(model=model, contents="Hi", config=SHOW))
    return read


FINISH = {
    StopReason.STOP: "STOP",
    StopReason.TOOL_USE: "STOP",
    StopReason.LENGTH: "MAX_TOKENS",
    StopReason.CONTENT_FILTER: "SAFETY",
    StopReason.PAUSE: "CONTINUATION",
}


def check(read: Read, message: swink.AssistantMessage) -> None:
    """Compare what the SDK read with what swink reads without the gateway."""
    assert (read.text, read.thinking) == (message.text, message.thinking)
    good = [call for call in message.tool_calls if call.state == "complete"]
    assert [(name, args) for _, name, args in read.calls] == [
        (call.name, call.arguments) for call in good
    ]
    assert [id for id, _, _ in read.calls] == [
        None if is_synthetic_id(call.id) else call.id for call in good
    ]
    assert message.stop_reason is not None
    if len(good) < len(message.tool_calls) and message.stop_reason is not StopReason.LENGTH:
        assert read.finish == "MALFORMED_FUNCTION_CALL"
    else:
        assert read.finish == FINISH[message.stop_reason]
    assert read.model == message.model
    if message.response_id:
        assert read.id == message.response_id
    check_usage(read.usage, message.usage)


def check_usage(read: Any, usage: Usage | None) -> None:
    if usage is None or not usage.reported:
        assert read is None
        return
    beside = read.tool_use_prompt_token_count or 0
    input = None if read.prompt_token_count is None else read.prompt_token_count + beside
    assert input == usage.input
    assert read.cached_content_token_count == usage.cache_read
    assert read.thoughts_token_count == usage.reasoning
    if usage.output is not None:
        told = (read.candidates_token_count or 0) + (read.thoughts_token_count or 0)
        assert told == usage.output
    assert read.total_token_count == usage.total


async def told(failing: Any, error: swink.Error) -> None:
    """Let a call fail, and see that the SDK tells what failed, once."""
    if error.error_kind is Kind.CONTENT_FILTERED:
        with warnings.catch_warnings():
            read = await failing
        assert read.blocked.block_reason.value == "SAFETY"
        assert error.error_message in read.blocked.block_reason_message
        return
    with pytest.raises(errors.APIError) as raised:
        await failing
    assert error.error_kind is not None
    assert raised.value.code == STATUSES[error.error_kind]
    assert (error.error_message or error.title) in raised.value.message
    assert raised.value.status


async def judged(reading: Any, upstream: Upstream, body: bytes | None = None) -> None:
    message, terminal = await upstream.direct(body)
    with about(upstream):
        if isinstance(terminal, swink.Error):
            await told(reading, terminal)
        else:
            check(await reading, message)


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


DIFFERENCES = {
    "firebase-googleai-streaming-failure-prompt-blocked-safety": "why is told beside the word",
    "firebase-vertexai-streaming-failure-error-mid-stream": "a cancelled answer is a lost one",
    "firebase-vertexai-streaming-failure-malformed-content": "ratings beside a damaged frame",
    "firebase-vertexai-streaming-failure-prompt-blocked-safety": "why is told beside the word",
    "firebase-vertexai-streaming-failure-recitation-no-content": "one word for all filters",
    "genai-js-streaming-unknown-enum": "a word that nobody knows",
    "malformed-function-call": "an answer that is none is a failure",
    "vercel-google-stream-no-args-tool-call": "calls in pieces come whole",
    "vercel-google-stream-tool-call-array-arguments-missing-terminal-function-call": "the same",
    "vercel-google-vertex-stream-tool-call-arguments-nested-1": "the same",
}
"""Where swink tells otherwise than Google does."""


async def test_googles_own_recordings_are_read_as_its_sdk_reads_them_directly() -> None:
    upstreams, answers = corpus("gemini", most=1000), Answers()
    if not upstreams:
        pytest.skip("there is no corpus here")
    found = []
    async with (
        Vendor() as vendor,
        sdk(vendor) as direct,
        serving(http=answers, providers=upstreams[0].providers) as gateway,
        sdk(gateway) as client,
    ):
        for upstream in upstreams:
            answers.next, vendor.answer = upstream.answer(), upstream
            read = []
            for asked in (direct, client):
                try:
                    read.append(await read_stream(asked, upstream.model))
                except errors.APIError as error:
                    read.append(Read(finish=error.status))
                except errors.UnknownApiResponseError:
                    read.append(Read())  # a framing that the SDK does not know
            ours = asdict(read[1])
            if any(said and said != ours[name] for name, said in asdict(read[0]).items()):
                found.append(upstream.name.removeprefix("gemini/"))
    assert found == list(DIFFERENCES)


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


async def test_a_failure_of_any_kind_is_raised_with_its_code_and_status() -> None:
    upstream = Scripted()
    async with serving(upstream) as gateway, sdk(gateway) as client:
        for kind in Kind:
            error = swink.Error(error_message="it is so", error_kind=kind, retry_after=7)
            upstream.answers = [[[swink.Start(), error]]]
            for ask in (read_stream, read_whole):
                await told(ask(client, "echo/echo"), error)


async def test_how_long_to_wait_is_where_the_sdk_looks() -> None:
    error = swink.Error(error_message="slow down", error_kind=Kind.THROTTLED, retry_after=1.5)
    async with serving(Scripted([swink.Start(), error])) as gateway, sdk(gateway) as client:
        with pytest.raises(errors.ClientError) as raised:
            await read_whole(client, "echo/echo")
    details = {d["@type"].rpartition(".")[2]: d for d in raised.value.details["error"]["details"]}
    assert details["RetryInfo"]["retryDelay"] == "1.5s"
    assert details["ErrorInfo"]["reason"] == "RATE_LIMIT_EXCEEDED"


async def test_every_stop_reason_has_its_word() -> None:
    text = [swink.TextStart(0), swink.TextDelta(0, "Hi"), swink.TextEnd(0)]
    upstream = Scripted()
    async with serving(upstream) as gateway, sdk(gateway) as client:
        for reason, word in FINISH.items():
            upstream.answers = [[[swink.Start(), *text, swink.Done(reason)]]]
            for ask in (read_stream, read_whole):
                read = await ask(client, "echo/echo")
                assert (read.text, read.finish) == ("Hi", word)


def weather(city: str) -> str:
    """Say how the weather is.

    Args:
      city: Where.
    """
    return f"sunny in {city}"


def called(*calls: tuple[str, str, str]) -> list[Any]:
    events: list[Any] = [swink.Start()]
    for at, (id, name, arguments) in enumerate(calls):
        events += [swink.ToolCallStart(at, id, name), swink.ToolCallDelta(at, arguments)]
        events.append(swink.ToolCallEnd(at))
    return [*events, swink.Done(StopReason.TOOL_USE)]


def said(text: str, *before: Any) -> list[Any]:
    at = sum(1 for event in before if type(event).__name__.endswith("Start"))
    words = [swink.TextStart(at), swink.TextDelta(at, text), swink.TextEnd(at)]
    return [swink.Start(), *before, *words, swink.Done(StopReason.STOP)]


async def test_functions_are_called_automatically_and_their_results_find_their_calls() -> None:
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
async def test_a_chat_brings_back_what_a_provider_of_another_api_wants_back(shown: bool) -> None:
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


async def test_googles_own_signatures_come_back_as_they_were() -> None:
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


async def test_what_the_sdk_can_say_arrives() -> None:
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


async def test_models_are_listed_found_and_their_tokens_counted() -> None:
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


async def test_the_blocking_client_reads_the_same() -> None:
    def ask(url: str) -> tuple[str, str]:
        options = types.HttpOptions(base_url=url, client_args=PLAIN, async_client_args=PLAIN)
        with genai.Client(api_key="k1", vertexai=False, http_options=options) as client:
            given = {"model": "echo/echo", "contents": "one two"}
            pieces = [one.text or "" for one in client.models.generate_content_stream(**given)]
            return client.models.generate_content(**given).text, "".join(pieces)

    async with serving() as gateway:
        assert await asyncio.to_thread(ask, gateway.url) == ("one two", "one two")
