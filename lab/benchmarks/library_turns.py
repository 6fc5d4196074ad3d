"""Read the benchmark's answers through one library.

    python -m lab.benchmarks.library_turns NAME URL

Runs in an environment that has the library and, but for swink's own rows, nothing of swink. Takes a
scenario and a number of calls a line, and answers each with a line of JSON: the CPU time and the
memory of this process, and the median of what the first content took to come. `crowd` before them
makes the calls all at once. Every library keeps its defaults and is read as its manual shows.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
import json
import logging
import statistics
import sys
import time
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from lab.benchmarks.resident import resident
from lab.benchmarks.server import expected_text

KEY = "sk-bench"

Read = Callable[[str], AsyncIterator[str]]
"""Asks for a scenario and yields the pieces of the answer's text."""


def _say(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _floor(path: str, frame_end: bytes, text_of: Callable[[Any], str | None]) -> Any:
    """Return a bare loop of aiohttp and orjson over a wire format."""

    @asynccontextmanager
    async def floor(url: str) -> AsyncIterator[Read]:
        import aiohttp
        import orjson

        async def read(scenario: str) -> AsyncIterator[str]:
            rest = b""
            body = {"model": scenario, "messages": _say("hi"), "stream": True, "max_tokens": 9}
            async with session.post(url + path, json=body) as response:
                async for data in response.content.iter_any():
                    *frames, rest = (rest + data).split(frame_end)
                    for frame in frames:
                        start = frame.find(b"{")
                        if start >= 0 and (text := text_of(orjson.loads(frame[start:]))):
                            yield text

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            yield read

    return floor


def _of_chat(chunk: Any) -> str | None:
    return chunk["choices"][0]["delta"].get("content") if chunk["choices"] else None


def _of_messages(event: Any) -> str | None:
    return event["delta"]["text"] if event["type"] == "content_block_delta" else None


def _of_ollama(chunk: Any) -> str:
    text: str = chunk["message"]["content"]
    return text


def _swink(provider: str, path: str) -> Any:
    """Return swink over a wire format."""

    @asynccontextmanager
    async def swink(url: str) -> AsyncIterator[Read]:
        import swink_core

        async def read(scenario: str) -> AsyncIterator[str]:
            async with client.stream(f"{provider}/{scenario}", "hi") as stream:
                async for event in stream:
                    if type(event) is swink_core.TextDelta:
                        yield event.delta

        own = {"base_url": url + path, **({"api_key": KEY} if provider != "ollama" else {})}
        async with swink_core.Client(providers={provider: own}) as client:
            yield read

    return swink


@asynccontextmanager
async def openai(url: str) -> AsyncIterator[Read]:
    from openai import AsyncOpenAI

    async def read(scenario: str) -> AsyncIterator[str]:
        asked: Any = {"model": scenario, "messages": _say("hi"), "stream": True}
        async for chunk in await client.chat.completions.create(**asked):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    async with AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        yield read


@asynccontextmanager
async def anthropic(url: str) -> AsyncIterator[Read]:
    from anthropic import AsyncAnthropic

    async def read(scenario: str) -> AsyncIterator[str]:
        asked: Any = {"model": scenario, "messages": _say("hi"), "max_tokens": 9}
        async with client.messages.stream(**asked) as stream:
            async for text in stream.text_stream:
                yield text

    async with AsyncAnthropic(base_url=url, api_key=KEY) as client:
        yield read


@asynccontextmanager
async def ollama(url: str) -> AsyncIterator[Read]:
    from ollama import AsyncClient

    client = AsyncClient(host=url)

    async def read(scenario: str) -> AsyncIterator[str]:
        async for part in await client.chat(model=scenario, messages=_say("hi"), stream=True):
            if part.message.content:
                yield part.message.content

    yield read


@asynccontextmanager
async def mistralai(url: str) -> AsyncIterator[Read]:
    from mistralai.client import Mistral

    async def read(scenario: str) -> AsyncIterator[str]:
        asked: Any = {"model": scenario, "messages": _say("hi")}
        async for event in await client.chat.stream_async(**asked):
            if event.data.choices and (text := event.data.choices[0].delta.content):
                yield str(text)

    async with Mistral(api_key=KEY, server_url=url) as client:
        yield read


@asynccontextmanager
async def litellm(url: str) -> AsyncIterator[Read]:
    import litellm

    async def read(scenario: str) -> AsyncIterator[str]:
        asked: Any = {"messages": _say("hi"), "api_base": f"{url}/v1", "api_key": KEY}
        async for chunk in await litellm.acompletion(f"openai/{scenario}", stream=True, **asked):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    litellm.suppress_debug_info = True
    yield read


@asynccontextmanager
async def any_llm(url: str) -> AsyncIterator[Read]:
    from any_llm import AnyLLM

    llm = AnyLLM.create("openai", api_key=KEY, api_base=f"{url}/v1")

    async def read(scenario: str) -> AsyncIterator[str]:
        asked: Any = {"model": scenario, "messages": _say("hi"), "stream": True}
        async for chunk in await llm.acompletion(**asked):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    yield read


@asynccontextmanager
async def langchain(url: str) -> AsyncIterator[Read]:
    from langchain_openai import ChatOpenAI

    made: dict[str, Any] = {}

    async def read(scenario: str) -> AsyncIterator[str]:
        if scenario not in made:
            made[scenario] = ChatOpenAI(model=scenario, base_url=f"{url}/v1", api_key=KEY)
        async for chunk in made[scenario].astream("hi"):
            if text := chunk.text if isinstance(chunk.text, str) else chunk.text():
                yield str(text)

    yield read


@asynccontextmanager
async def pydantic_ai(url: str) -> AsyncIterator[Read]:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=f"{url}/v1", api_key=KEY)
    agents: dict[str, Any] = {}

    async def read(scenario: str) -> AsyncIterator[str]:
        if scenario not in agents:
            agents[scenario] = Agent(OpenAIChatModel(scenario, provider=provider))
        async with agents[scenario].run_stream("hi") as run:
            async for text in run.stream_text(delta=True, debounce_by=None):
                yield text

    yield read


LIBRARIES: dict[str, Callable[[str], AbstractAsyncContextManager[Read]]] = {
    "floor": _floor("/v1/chat/completions", b"\n\n", _of_chat),
    "floor, Messages": _floor("/v1/messages", b"\n\n", _of_messages),
    "floor, Ollama": _floor("/api/chat", b"\n", _of_ollama),
    "swink": _swink("openai", "/v1"),
    "swink, Messages": _swink("anthropic", "/v1"),
    "swink, Ollama": _swink("ollama", ""),
    "openai": openai,
    "anthropic": anthropic,
    "ollama": ollama,
    "mistralai": mistralai,
    "litellm": litellm,
    "any-llm-sdk": any_llm,
    "langchain-openai": langchain,
    "pydantic-ai-slim": pydantic_ai,
}


async def _call(read: Read, scenario: str) -> tuple[str, float]:
    """Make a call; return its text, and the seconds until the first of it came."""
    parts: list[str] = []
    began, first = time.perf_counter(), 0.0
    async for text in read(scenario):
        first = first or time.perf_counter() - began
        parts.append(text)
    return "".join(parts), first


async def _turn(read: Read, scenario: str, calls: int, at_once: bool) -> dict[str, float]:
    gc.collect()
    cpu, most = time.process_time(), resident()
    if at_once:
        asked = asyncio.gather(*(_call(read, scenario) for _ in range(calls)))
        while not asked.done():
            most = max(most, resident())
            await asyncio.wait([asked], timeout=0.2)
        answers = asked.result()
    else:
        answers = [await _call(read, scenario) for _ in range(calls)]
    found = {"cpu": time.process_time() - cpu, "MB": most}
    expected = expected_text(int(scenario.partition("-")[2]))
    assert all(text == expected for text, _ in answers), f"{scenario}: not the text that was sent"
    return {**found, "first": statistics.median(first for _, first in answers)}


async def _turns(name: str, url: str) -> None:
    async with LIBRARIES[name](url) as read:
        await _call(read, "short-3")  # lazy imports, the connection
        gc.collect()
        gc.freeze()
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            *crowd, scenario, calls = line.split()
            print(json.dumps(await _turn(read, scenario, int(calls), bool(crowd))), flush=True)


def main() -> None:
    """Say which version it is, then take turns until the input ends."""
    name, url, *loop = sys.argv[1:]
    warnings.simplefilter("ignore")
    logging.disable()
    package = name.partition(",")[0].replace("floor", "aiohttp").replace("swink", "swink-core")
    print(json.dumps({"version": importlib.metadata.version(package)}), flush=True)
    if loop:
        import uvloop

        uvloop.run(_turns(name, url))
    else:
        asyncio.run(_turns(name, url))


if __name__ == "__main__":
    main()
