"""Vendors' SDKs as clients of a gateway, with a common form of the answers that they read.

    async with CLIENTS["messages"](gateway.url) as client:
        read = await client.stream("echo/echo", "Hi")

The SDKs have their default options, except that they load no certificates and do not retry, which
saves time. If an SDK is not installed, pytest skips the tests that need it.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import pytest
from attrs import define, field

import swink_core as swink

PROMPT = "What was recorded?"
KEY = "k"


@define
class Read:
    """An answer as a vendor's SDK returns it.

    `calls` are ids, names and arguments; invalid JSON arguments are text. `counts` are the tokens
    of the prompt and of the answer, the cached tokens and those of thinking. `refused`: the text is
    in the field of refusals, which counts as `stop` for a filter. `error` is the
    exception that the SDK raised, or the status of a failed answer; `message`, `code` and `status`
    are its details.
    """

    text: str = ""
    thinking: str = ""
    calls: list[tuple[str | None, str, Any]] = field(factory=list)
    stop: str | None = None
    id: str | None = None
    model: str | None = None
    refused: bool = False
    counts: tuple[int, int, int, int] | None = None
    opaque: list[str] = field(factory=list)
    error: Exception | None = None
    message: str = ""
    code: str | None = None
    status: int | None = None


@define
class Ask:
    """Additions to a prompt: an image (PNG), a schema for the answer, a tool."""

    prompt: str = PROMPT
    image: bytes | None = None
    schema: dict[str, Any] | None = None
    tool: swink.Tool | None = None

    @property
    def function(self) -> dict[str, Any]:
        """The tool in the format of OpenAI and Ollama."""
        assert self.tool is not None
        about = {"name": self.tool.name, "description": self.tool.description}
        return {**about, "parameters": self.tool.parameters}

    @property
    def address(self) -> str:
        """The image as a data URL."""
        return f"data:image/png;base64,{self.base64}"

    @property
    def base64(self) -> str:
        """The image in base64."""
        return b64encode(self.image or b"").decode()


class Client(Protocol):
    """A client of a vendor's API."""

    async def stream(self, model: str, ask: Ask) -> Read:
        """Request and read a streamed answer."""

    async def whole(self, model: str, ask: Ask) -> Read:
        """Request and read an answer that is not streamed."""


def quick(vendor: Any) -> dict[str, Any]:
    """Return options for a client without certificates, whose loading is the slowest part of a
    start.
    """
    http = vendor.DefaultAsyncHttpxClient(verify=False)
    return {"api_key": KEY, "max_retries": 0, "http_client": http}


def parsed(text: str) -> Any:
    """Parse JSON; return the text if it is not valid."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _sum(*counts: int | None) -> int:
    return sum(count or 0 for count in counts)


# -- OpenAI --------------------------------------------------------------------------------------


class Chat:
    def __init__(self, sdk: Any, client: Any) -> None:
        self._sdk, self._client = sdk, client

    async def stream(self, model: str, ask: Ask) -> Read:
        read, calls = Read(), {}
        counted = {"stream": True, "stream_options": {"include_usage": True}}
        try:
            async for chunk in await self._client.chat.completions.create(
                **self._asked(model, ask), **counted
            ):
                self._named(read, chunk)
                for choice in chunk.choices:
                    if choice.index == 0:
                        self._said(read, choice.delta, choice)
                        _collect(calls, choice.delta.tool_calls or ())
        except self._sdk.APIError as error:
            return _failed(error, error.message, error.code)
        read.calls = [(id, name, parsed(arguments)) for id, name, arguments in calls.values()]
        return read

    async def whole(self, model: str, ask: Ask) -> Read:
        read = Read()
        try:
            completion = await self._client.chat.completions.create(**self._asked(model, ask))
        except self._sdk.APIError as error:
            return _failed(error, error.message, error.code)
        self._named(read, completion)
        (choice,) = completion.choices
        self._said(read, choice.message, choice)
        for call in choice.message.tool_calls or ():
            read.calls.append((call.id, call.function.name, parsed(call.function.arguments)))
        return read

    def _asked(self, model: str, ask: Ask) -> dict[str, Any]:
        content: Any = ask.prompt
        if ask.image is not None:
            image = {"type": "image_url", "image_url": {"url": ask.address}}
            content = [{"type": "text", "text": ask.prompt}, image]
        asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": content}]}
        if ask.schema is not None:
            form = {"name": "answer", "schema": ask.schema, "strict": True}
            asked["response_format"] = {"type": "json_schema", "json_schema": form}
        if ask.tool is not None:
            asked["tools"] = [{"type": "function", "function": ask.function}]
        return asked

    def _named(self, read: Read, said: Any) -> None:
        read.id, read.model = said.id or read.id, said.model or read.model
        if (usage := said.usage) is not None:
            cached, thought = usage.prompt_tokens_details, usage.completion_tokens_details
            read.counts = (
                _sum(usage.prompt_tokens), _sum(usage.completion_tokens),
                _sum(cached and cached.cached_tokens), _sum(thought and thought.reasoning_tokens),
            )  # fmt: skip

    def _said(self, read: Read, said: Any, choice: Any) -> None:
        read.text += said.content or said.refusal or ""
        read.thinking += getattr(said, "reasoning_content", None) or ""
        read.refused = read.refused or bool(said.refusal)
        stop = "content_filter" if read.refused else choice.finish_reason
        read.stop = stop or read.stop


def _collect(calls: dict[int, Any], deltas: Iterable[Any]) -> None:
    for call in deltas:
        id, name, arguments = calls.get(call.index, ("", "", ""))
        function = call.function
        arguments += function.arguments or ""
        calls[call.index] = (id or call.id, name or function.name, arguments)


def _failed(error: Any, message: str, code: str | None) -> Read:
    status = getattr(error, "status_code", None)
    return Read(error=error, message=message, code=code, status=status)


class Responses:
    def __init__(self, sdk: Any, client: Any) -> None:
        self._sdk, self._client = sdk, client

    async def stream(self, model: str, ask: Ask) -> Read:
        try:
            asked = self._asked(model, ask)
            return await self._events(await self._client.responses.create(**asked, stream=True))
        except self._sdk.APIError as error:
            return _failed(error, error.message, error.code)

    async def whole(self, model: str, ask: Ask) -> Read:
        read = Read()
        try:
            response = await self._client.responses.create(**self._asked(model, ask))
        except self._sdk.APIError as error:
            return _failed(error, error.message, error.code)
        for item in response.output:
            if item.type == "reasoning":
                read.thinking += "\n\n".join(part.text for part in item.content or item.summary)
        return self._done(read, response)

    async def _events(self, events: Any) -> Read:
        read, done = Read(), None
        async for event in events:
            if event.type in ("response.completed", "response.incomplete"):
                done = event.response
                break
            if event.type == "response.failed":
                failed = event.response.error
                error = self._sdk.APIError(failed.message, None, body=failed)
                return _failed(error, failed.message, failed.code)
            if event.type == "error":  # over a WebSocket
                said = event.error
                error = self._sdk.APIError(said.message, None, body=said)
                return _failed(error, said.message, said.code)
            if event.type == "response.output_item.done" and event.item.type == "reasoning":
                # the API encrypts it again for the complete response
                read.opaque.append(event.item.encrypted_content)
            elif event.type.endswith(("reasoning_text.delta", "summary_text.delta")):
                read.thinking += event.delta
        return (
            Read(error=ValueError("the stream was cut")) if done is None else self._done(read, done)
        )

    def _asked(self, model: str, ask: Ask) -> dict[str, Any]:
        asked: dict[str, Any] = {"model": model, "input": ask.prompt}
        if ask.image is not None:
            image = {"type": "input_image", "image_url": ask.address, "detail": "auto"}
            content = [{"type": "input_text", "text": ask.prompt}, image]
            asked["input"] = [{"role": "user", "content": content}]
        if ask.schema is not None:
            form = {"type": "json_schema", "name": "answer", "schema": ask.schema, "strict": True}
            asked["text"] = {"format": form}
        if ask.tool is not None:
            asked["tools"] = [{"type": "function", **ask.function, "strict": False}]
        return asked

    def _done(self, read: Read, done: Any) -> Read:
        read.id, read.model = done.id, done.model
        read.stop = done.incomplete_details.reason if done.incomplete_details else done.status
        if (usage := done.usage) is not None:
            read.counts = (
                usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens,
                usage.output_tokens_details.reasoning_tokens,
            )  # fmt: skip
        for item in done.output:
            if item.type == "function_call":
                read.calls.append((item.call_id, item.name, parsed(item.arguments)))
            elif item.type == "message":
                for part in item.content:
                    read.refused = read.refused or part.type == "refusal"
                    read.text += part.refusal if part.type == "refusal" else part.text
        if read.refused and read.stop == "completed":
            read.stop = "content_filter"
        return read


class Socket(Responses):
    """The same over a WebSocket, which only supports streaming."""

    async def stream(self, model: str, ask: Ask) -> Read:
        async with self._client.responses.connect() as connection:
            await connection.response.create(**self._asked(model, ask))
            return await self._events(connection)

    whole = stream


@asynccontextmanager
async def openai_client(base: str) -> AsyncIterator[Any]:
    """Yield the SDK's client for the server at `base`."""
    sdk = pytest.importorskip("openai", reason="OpenAI's SDK is not installed")
    async with sdk.AsyncOpenAI(base_url=f"{base}/v1", **quick(sdk)) as client:
        yield client


@asynccontextmanager
async def openai(kind: type[Client], base: str) -> AsyncIterator[Client]:
    if kind is Socket:
        pytest.importorskip("websockets", reason="OpenAI's SDK needs it for this")
    async with openai_client(base) as client:
        yield kind(sys.modules["openai"], client)  # type: ignore[call-arg]  # all of these take them


# -- Anthropic -----------------------------------------------------------------------------------


class Messages:
    def __init__(self, sdk: Any, client: Any) -> None:
        self._sdk, self._client = sdk, client

    async def stream(self, model: str, ask: Ask) -> Read:
        try:
            async with self._client.messages.stream(**self._asked(model, ask)) as stream:
                return self._done(await stream.get_final_message())
        except self._sdk.APIError as error:
            return self._failed(error)
        except ValueError as error:  # arguments that are not valid JSON
            return Read(error=error)

    async def whole(self, model: str, ask: Ask) -> Read:
        try:
            return self._done(await self._client.messages.create(**self._asked(model, ask)))
        except self._sdk.APIError as error:
            return self._failed(error)

    def _failed(self, error: Any) -> Read:
        said = error.body["error"] if isinstance(error.body, dict) else {}
        return _failed(error, said.get("message", str(error)), said.get("type"))

    def _asked(self, model: str, ask: Ask) -> dict[str, Any]:
        content: Any = ask.prompt
        if ask.image is not None:
            source = {"type": "base64", "media_type": "image/png", "data": ask.base64}
            content = [
                {"type": "text", "text": ask.prompt},
                {"type": "image", "source": source},
            ]
        asked: dict[str, Any] = {"model": model, "max_tokens": 99}
        asked["thinking"] = {"type": "adaptive"}  # otherwise its words are hidden
        asked["messages"] = [{"role": "user", "content": content}]
        if ask.schema is not None:
            asked["output_config"] = {"format": {"type": "json_schema", "schema": ask.schema}}
        if ask.tool is not None:
            about = {"name": ask.tool.name, "description": ask.tool.description}
            asked["tools"] = [{**about, "input_schema": ask.tool.parameters}]
        return asked

    def _done(self, done: Any) -> Read:
        read, usage = Read(stop=done.stop_reason, id=done.id, model=done.model), done.usage
        cached, thought = usage.cache_read_input_tokens, usage.output_tokens_details
        read.counts = (
            _sum(usage.input_tokens, cached, usage.cache_creation_input_tokens),
            usage.output_tokens, _sum(cached), _sum(thought and thought.thinking_tokens),
        )  # fmt: skip
        for block in done.content:
            if block.type == "text":
                read.text += block.text
            elif block.type == "thinking":
                read.thinking += block.thinking
                read.opaque.append(block.signature)
            elif block.type == "redacted_thinking":
                read.opaque.append(block.data)
            elif block.type == "tool_use":
                read.calls.append((block.id, block.name, block.input))
        return read


@asynccontextmanager
async def anthropic(base: str) -> AsyncIterator[Client]:
    sdk = pytest.importorskip("anthropic", reason="Anthropic's SDK is not installed")
    async with sdk.AsyncAnthropic(base_url=base, **quick(sdk)) as client:
        yield Messages(sdk, client)


# -- Google --------------------------------------------------------------------------------------


class Gemini:
    def __init__(self, sdk: Any, client: Any) -> None:
        self._errors, self._models = sdk.errors, client.models

    async def stream(self, model: str, ask: Ask) -> Read:
        read = Read()
        try:
            asked = self._asked(model, ask)
            async for response in await self._models.generate_content_stream(**asked):
                self._add(read, response)
        except self._errors.APIError as error:
            return Read(error=error, message=error.message, code=error.status, status=error.code)
        return read

    async def whole(self, model: str, ask: Ask) -> Read:
        read = Read()
        try:
            self._add(read, await self._models.generate_content(**self._asked(model, ask)))
        except self._errors.APIError as error:
            return Read(error=error, message=error.message, code=error.status, status=error.code)
        return read

    def _asked(self, model: str, ask: Ask) -> dict[str, Any]:
        parts: list[Any] = [{"text": ask.prompt}]
        if ask.image is not None:
            parts.append({"inline_data": {"mime_type": "image/png", "data": ask.image}})
        config: dict[str, Any] = {"thinking_config": {"include_thoughts": True}}
        if ask.schema is not None:
            config |= {
                "response_mime_type": "application/json",
                "response_json_schema": ask.schema,
            }
        if ask.tool is not None:
            about = {"name": ask.tool.name, "description": ask.tool.description}
            function = {**about, "parameters_json_schema": ask.tool.parameters}
            config["tools"] = [{"function_declarations": [function]}]
        return {"model": model, "contents": [{"role": "user", "parts": parts}], "config": config}

    def _add(self, read: Read, response: Any) -> None:
        read.model, read.id = response.model_version, response.response_id
        if (blocked := response.prompt_feedback) and blocked.block_reason:  # not an error
            read.message = blocked.block_reason_message
            read.error = ValueError(read.message)
            read.code = blocked.block_reason.value
        if (usage := response.usage_metadata) is not None:
            thought = _sum(usage.thoughts_token_count)
            read.counts = (
                _sum(usage.prompt_token_count, usage.tool_use_prompt_token_count),
                _sum(usage.candidates_token_count, thought),
                _sum(usage.cached_content_token_count), thought,
            )  # fmt: skip
        for candidate in response.candidates or ():
            if candidate.finish_reason is not None:
                read.stop = candidate.finish_reason.value
            for part in (candidate.content and candidate.content.parts) or ():
                if call := part.function_call:
                    read.calls.append((call.id, call.name, call.args or {}))
                elif part.thought:
                    read.thinking += part.text or ""
                else:
                    read.text += part.text or ""


@asynccontextmanager
async def google(base: str) -> AsyncIterator[Client]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ignore deprecations of the SDK and its dependencies
        sdk = pytest.importorskip("google.genai", reason="Google's SDK is not installed")
        options = sdk.types.HttpOptions(
            base_url=base,
            retry_options={"attempts": 1},
            client_args={"verify": False},
            async_client_args={"verify": False, "ssl": False},
        )
        client = sdk.Client(api_key=KEY, vertexai=False, http_options=options)
        async with client.aio as asynchronous:
            yield Gemini(sdk, asynchronous)


# -- Ollama --------------------------------------------------------------------------------------


class Ollama:
    def __init__(self, sdk: Any, client: Any) -> None:
        self._sdk, self._client = sdk, client

    async def stream(self, model: str, ask: Ask) -> Read:
        read = Read()
        try:
            async for response in await self._client.chat(**self._asked(model, ask), stream=True):
                self._add(read, response)
        except self._sdk.ResponseError as error:
            return Read(error=error, message=error.error, status=error.status_code)
        return read

    async def whole(self, model: str, ask: Ask) -> Read:
        read = Read()
        try:
            self._add(read, await self._client.chat(**self._asked(model, ask)))
        except self._sdk.ResponseError as error:
            return Read(error=error, message=error.error, status=error.status_code)
        return read

    def _asked(self, model: str, ask: Ask) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "user", "content": ask.prompt}
        if ask.image is not None:
            message["images"] = [ask.image]
        asked: dict[str, Any] = {"model": model, "messages": [message]}
        if ask.schema is not None:
            asked["format"] = ask.schema
        if ask.tool is not None:
            asked["tools"] = [{"type": "function", "function": ask.function}]
        return asked

    def _add(self, read: Read, response: Any) -> None:
        read.model, read.stop = response.model, response.done_reason
        if response.prompt_eval_count is not None or response.eval_count is not None:
            read.counts = (_sum(response.prompt_eval_count), _sum(response.eval_count), 0, 0)
        read.text += response.message.content or ""
        read.thinking += response.message.thinking or ""
        for call in response.message.tool_calls or ():
            read.calls.append((None, call.function.name, dict(call.function.arguments)))


@asynccontextmanager
async def ollama(base: str) -> AsyncIterator[Client]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sdk = pytest.importorskip("ollama", reason="Ollama's SDK is not installed")
    async with sdk.AsyncClient(base, verify=False) as client:
        yield Ollama(sdk, client)


# -- swink ---------------------------------------------------------------------------------------


class Native:
    def __init__(self, client: swink.Client, base: str) -> None:
        self._client, self._base = client, base

    async def stream(self, model: str, ask: Ask) -> Read:
        content: list[Any] = [swink.TextBlock(ask.prompt)]
        if ask.image is not None:
            content.append(swink.ImageBlock(swink.Base64Source("image/png", ask.base64)))
        options = {"response_format": ask.schema} if ask.schema is not None else {}
        tools = [ask.tool] if ask.tool is not None else []
        context = swink.Context([swink.UserMessage(content)], tools=tools)
        there = {"base_url": self._base, "retry": swink.RetryPolicy.none(), **options}
        async with self._client.stream(f"proxy/{model}", context, **there) as stream:
            events = [event async for event in stream]
        if isinstance(end := events[-1], swink.Error):
            error = swink.StreamError(end.error_message)
            return Read(error=error, message=error.message, code=end.error_kind)
        message = stream.message
        calls: list[Any] = [(c.id, c.name, _arguments(c)) for c in message.tool_calls]
        read = Read(message.text, message.thinking, calls, message.stop_reason)
        read.id, read.model = message.response_id, message.model
        if (counted := message.usage) is not None and counted.reported:
            shown = (counted.input, counted.output, counted.cache_read, counted.reasoning)
            read.counts = tuple(count or 0 for count in shown)  # type: ignore[assignment]  # four
        return read

    whole = stream


def _arguments(call: swink.ToolCallBlock) -> Any:
    return call.arguments if call.state == "complete" else parsed(call.raw_arguments or "")


@asynccontextmanager
async def native(base: str) -> AsyncIterator[Client]:
    async with swink.Client() as client:
        yield Native(client, base)


CHOSEN = [name for name in os.environ.get("SWINK_GATEWAY_CLIENTS", "").split(",") if name]
"""The clients that are tested with all recordings (`make counterparts`).

If it is empty, each client is tested with some.
"""

ALL: dict[str, Callable[[str], AbstractAsyncContextManager[Client]]] = {
    "native": native,
    "chat": lambda base: openai(Chat, base),
    "responses": lambda base: openai(Responses, base),
    "socket": lambda base: openai(Socket, base),
    "messages": anthropic,
    "gemini": google,
    "ollama": ollama,
}

CLIENTS = {name: client for name, client in ALL.items() if not CHOSEN or name in CHOSEN}
"""A client of each protocol."""

_REASONS = ("stop", "length", "tool_use", "content_filter", "pause")

WORDS = {
    protocol: dict(zip(_REASONS, words, strict=True))
    for protocol, words in {
        "native": _REASONS,
        "chat": ("stop", "length", "tool_calls", "content_filter", "stop"),
        "responses": (
            "completed", "max_output_tokens", "completed", "content_filter", "completed",
        ),
        "socket": ("completed", "max_output_tokens", "completed", "content_filter", "completed"),
        "messages": ("end_turn", "max_tokens", "tool_use", "refusal", "pause_turn"),
        "gemini": ("STOP", "MAX_TOKENS", "STOP", "SAFETY", "CONTINUATION"),
        "ollama": ("stop", "length", "stop", "content_filter", "pause"),
    }.items()
}  # fmt: skip
"""The vendors' finish reasons, by ours."""
