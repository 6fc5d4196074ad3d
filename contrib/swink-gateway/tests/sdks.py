"""Vendors' own clients, each asking a gateway and telling in the same words what it read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import define, field

from swink_gateway.server import Gateway

PROMPT = "What was recorded?"


@define
class Read:
    """An answer as a vendor's SDK has it; `error` is what it raised."""

    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, str, Any]] = field(factory=list)
    stop: str | None = None
    id: str | None = None
    model: str | None = None
    output: int | None = None
    opaque: list[str] = field(factory=list)
    error: Exception | None = None


async def openai_chat(base: str, model: str) -> Read:
    openai = pytest.importorskip("openai", reason="OpenAI's SDK is not installed")
    asked = {"model": model, "messages": [{"role": "user", "content": PROMPT}]}
    async with openai.AsyncOpenAI(base_url=f"{base}/v1", **quick(openai)) as client:
        read, calls = Read(), {}
        try:
            asked |= {"stream": True, "stream_options": {"include_usage": True}}
            async for chunk in await client.chat.completions.create(**asked):
                read.id, read.model = chunk.id or read.id, chunk.model or read.model
                read.output = chunk.usage.completion_tokens if chunk.usage else read.output
                for choice in chunk.choices:
                    if choice.index == 0:
                        _add(read, choice, calls)
        except openai.APIError as error:
            read.error = error
    read.calls = [(id, name, _json(arguments)) for id, name, arguments in calls.values()]
    return read


def _add(read: Read, choice: Any, calls: dict[int, Any]) -> None:
    read.text += choice.delta.content or choice.delta.refusal or ""
    read.thinking += getattr(choice.delta, "reasoning_content", None) or ""
    read.stop = choice.finish_reason or read.stop
    for call in choice.delta.tool_calls or ():
        id, name, arguments = calls.get(call.index, ("", "", ""))
        function = call.function
        arguments += function.arguments or ""
        calls[call.index] = (id or call.id, name or function.name, arguments)


async def anthropic_messages(base: str, model: str) -> Read:
    anthropic = pytest.importorskip("anthropic", reason="Anthropic's SDK is not installed")
    asked = {"model": model, "max_tokens": 99, "messages": [{"role": "user", "content": PROMPT}]}
    async with anthropic.AsyncAnthropic(base_url=base, **quick(anthropic)) as client:
        try:
            async with client.messages.stream(**asked) as stream:
                done = await stream.get_final_message()
        except anthropic.APIError as error:
            return Read(error=error)
    read = Read(stop=done.stop_reason, id=done.id, model=done.model)
    read.output = done.usage.output_tokens
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


async def openai_responses(base: str, model: str) -> Read:
    openai = pytest.importorskip("openai", reason="OpenAI's SDK is not installed")
    read, done = Read(), None
    async with openai.AsyncOpenAI(base_url=f"{base}/v1", **quick(openai)) as client:
        try:
            async for event in await client.responses.create(
                model=model, input=PROMPT, stream=True
            ):
                if event.type in ("response.completed", "response.incomplete"):
                    done = event.response
                elif event.type == "response.failed":
                    failed = event.response.error
                    read.error = openai.APIError(failed.message, None, body=failed)  # type: ignore[arg-type]  # there is none
                elif event.type == "response.output_item.done" and event.item.type == "reasoning":
                    # the API encrypts it once more for the whole response
                    read.opaque.append(event.item.encrypted_content)
                elif event.type.endswith(("reasoning_text.delta", "summary_text.delta")):
                    read.thinking += event.delta
        except openai.APIError as error:
            read.error = error
    if read.error is not None or done is None:
        return Read(error=read.error or ValueError("the stream was cut"))
    read.id, read.model, read.text = done.id, done.model, done.output_text
    read.stop = done.incomplete_details.reason if done.incomplete_details else done.status
    read.output = done.usage.output_tokens if done.usage else None
    for item in done.output:
        if item.type == "function_call":
            read.calls.append((item.call_id, item.name, _json(item.arguments)))
    return read


READERS = {
    "chat": openai_chat,
    "messages": anthropic_messages,
    "responses": openai_responses,
}

STOPS = {
    "chat": {"stop": "stop", "length": "length", "tool_use": "tool_calls",
             "content_filter": "content_filter", "pause": "stop"},
    "responses": {"stop": "completed", "length": "max_output_tokens", "tool_use": "completed",
                  "content_filter": "content_filter", "pause": "completed"},
    "messages": {"stop": "end_turn", "length": "max_tokens", "tool_use": "tool_use",
                 "content_filter": "refusal", "pause": "pause_turn"},
}  # fmt: skip
"""The vendors' words for why an answer ended."""


async def read(protocol: str, gateway: Gateway | str, model: str) -> Read:
    """Ask for an answer and return what the SDK of a protocol makes of it."""
    base = gateway if isinstance(gateway, str) else gateway.url
    return await READERS[protocol](base, model)


def quick(vendor: Any) -> dict[str, Any]:
    """Return options of a client that reads no certificates, which takes longest of all."""
    http = vendor.DefaultAsyncHttpxClient(verify=False)
    return {"api_key": "k", "max_retries": 0, "http_client": http}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
