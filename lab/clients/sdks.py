"""Drive SDKs and agent frameworks at a failing vendor, directly and through the gateway.

    python -m lab.clients.sdks                     # all that are installed
    python -m lab.clients.sdks anthropic --write   # one, and write its rows of the page anew

`make clients` installs them into another environment. Clients repeat requests as they do by
default. Exit code 1 where one ends with another exception through the gateway, with more requests
at the vendor, or more than 1 s and 10 % later. A connection that breaks is another exception by
design: the gateway reports it as an error in the stream.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.metadata
import logging
import os
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define

import lab.clients.table as table
import swink_core as swink
from lab.clients.scenes import FAILURES, SDK_SCENES, Scene, vendor_of
from swink_gateway.policy.cooldowns import Cooldowns
from swink_gateway.serving.server import Gateway

KEY = "key-of-the-client"
KEY_OF_GATEWAY = "another-key"
ROUTE = "route"
"""The model's name at the gateway."""

PATIENCE = 2.0
"""The time limit of clients, in seconds, during silence."""

TIME_LIMIT = 60.0

TRIES = 3

SCENES = {**FAILURES, **SDK_SCENES}

HI = [{"role": "user", "content": "Hi"}]

BROKEN = frozenset({"cut-before", "cut"})
"""Scenes in which the connection breaks, which the gateway reports as an error in the stream."""


@define
class Way:
    """How a client reaches a model: a base URL, a model, a key, and a time limit in seconds."""

    base: str
    model: str
    key: str
    timeout: float


Call = Callable[[Way], Awaitable[str]]
"""A streamed call. Returns how it ended if it raised no exception."""


def _openai(way: Way) -> Any:
    openai: Any = importlib.import_module("openai")
    return openai.AsyncOpenAI(base_url=f"{way.base}/v1", api_key=way.key, timeout=way.timeout)


async def openai_chat(way: Way) -> str:
    """Stream Chat Completions with OpenAI's SDK."""
    create = _openai(way).chat.completions.create
    async for _ in await create(model=way.model, messages=HI, stream=True):
        pass
    return "nothing"


async def openai_responses(way: Way) -> str:
    """Stream Responses with OpenAI's SDK."""
    last: Any = None
    async for event in await _openai(way).responses.create(
        model=way.model, input="Hi", stream=True
    ):
        last = event
    return f"nothing, last event {getattr(last, 'type', None)}"


async def anthropic_messages(way: Way) -> str:
    """Stream Messages with Anthropic's SDK."""
    anthropic: Any = importlib.import_module("anthropic")
    client = anthropic.AsyncAnthropic(base_url=way.base, api_key=way.key, timeout=way.timeout)
    async with client.messages.stream(model=way.model, max_tokens=99, messages=HI) as stream:
        message = await stream.get_final_message()
    return f"nothing, stop reason {message.stop_reason}"


async def google_genai(way: Way) -> str:
    """Stream with Google's SDK."""
    genai: Any = importlib.import_module("google.genai")
    options = {"base_url": way.base, "timeout": int(1000 * way.timeout)}
    models = genai.Client(api_key=way.key, http_options=options).aio.models
    last: Any = None
    async for chunk in await models.generate_content_stream(model=way.model, contents="Hi"):
        last = chunk
    reason = last.candidates[0].finish_reason if last is not None and last.candidates else None
    return f"nothing, finish reason {getattr(reason, 'name', None)}"


async def ollama_chat(way: Way) -> str:
    """Stream with Ollama's SDK."""
    ollama: Any = importlib.import_module("ollama")
    headers = {"Authorization": f"Bearer {way.key}"}
    client = ollama.AsyncClient(host=way.base, headers=headers, timeout=way.timeout)
    last: Any = None
    async for part in await client.chat(model=way.model, messages=HI, stream=True):
        last = part
    return f"nothing, done {getattr(last, 'done', None)}"


async def agents_sdk(way: Way) -> str:
    """Stream a run of the OpenAI Agents SDK."""
    os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
    agents: Any = importlib.import_module("agents")
    agent = agents.Agent(name="a", model=agents.OpenAIResponsesModel(way.model, _openai(way)))
    run = agents.Runner.run_streamed(agent, "Hi")
    async for _ in run.stream_events():
        pass
    return "nothing"


async def langchain_openai(way: Way) -> str:
    """Stream with LangChain's package for OpenAI."""
    langchain: Any = importlib.import_module("langchain_openai")
    client = langchain.ChatOpenAI(
        model=way.model, base_url=f"{way.base}/v1", api_key=way.key, timeout=way.timeout
    )
    async for _ in client.astream("Hi"):
        pass
    return "nothing"


async def langchain_anthropic(way: Way) -> str:
    """Stream with LangChain's package for Anthropic."""
    langchain: Any = importlib.import_module("langchain_anthropic")
    client = langchain.ChatAnthropic(
        model=way.model, base_url=way.base, api_key=way.key, timeout=way.timeout
    )
    async for _ in client.astream("Hi"):
        pass
    return "nothing"


async def pydantic_ai(way: Way) -> str:
    """Stream a run of Pydantic AI over Chat Completions."""
    ai: Any = importlib.import_module("pydantic_ai")
    models: Any = importlib.import_module("pydantic_ai.models.openai")
    providers: Any = importlib.import_module("pydantic_ai.providers.openai")
    provider = providers.OpenAIProvider(openai_client=_openai(way))
    agent = ai.Agent(models.OpenAIChatModel(way.model, provider=provider))
    async with agent.run_stream("Hi") as run:
        async for _ in run.stream_text():
            pass
    return "nothing"


@define
class Sdk:
    """A client: its package, its call, and the model's provider and id."""

    name: str
    package: str
    call: Call
    provider: str
    model: str


SDKS = [
    Sdk("openai, Chat", "openai", openai_chat, "openai", "gpt-4.1"),
    Sdk("openai, Responses", "openai", openai_responses, "openai", "gpt-5.4-mini"),
    Sdk("anthropic", "anthropic", anthropic_messages, "anthropic", "claude-haiku-4-5"),
    Sdk("google-genai", "google-genai", google_genai, "gemini", "gemini-3.6-flash"),
    Sdk("ollama", "ollama", ollama_chat, "ollama", "llama3.2"),
    Sdk("openai-agents", "openai-agents", agents_sdk, "openai", "gpt-5.4-mini"),
    Sdk("langchain-openai", "langchain-openai", langchain_openai, "openai", "gpt-4.1"),
    Sdk("langchain-anthropic", "langchain-anthropic", langchain_anthropic, "anthropic",
        "claude-haiku-4-5"),
    Sdk("pydantic-ai", "pydantic-ai-slim", pydantic_ai, "openai", "gpt-4.1"),
]  # fmt: skip
"""In the order of the table."""


@define
class Seen:
    """The exception of a client with its status, the requests at the vendor, and the seconds until
    it gave up."""

    ending: str
    requests: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.ending}, {self.requests} requests, {self.seconds:.1f} s"


def differences(scene: str, direct: Seen, through: Seen) -> list[str]:
    """Return where a client fares worse through the gateway than directly."""
    found = []
    is_explained = scene in BROKEN and not through.ending.startswith("nothing")
    if through.ending != direct.ending and not is_explained:
        found.append(f"{through.ending}, directly {direct.ending}")
    if through.requests > direct.requests:
        found.append(f"{through.requests} requests, directly {direct.requests}")
    if through.seconds > direct.seconds + max(1.0, 0.1 * direct.seconds):
        found.append(f"{through.seconds:.1f} s, directly {direct.seconds:.1f} s")
    return found


async def seen(sdk: Sdk, way: Way) -> tuple[str, float]:
    """Make one call; return its ending and its seconds."""
    began = time.monotonic()
    try:
        ending = await asyncio.wait_for(sdk.call(way), TIME_LIMIT)
    except ImportError:
        raise
    except Exception as error:
        status = getattr(error, "status_code", getattr(error, "code", None))
        ending = f"{type(error).__name__} {status if isinstance(status, int) else ''}".strip()
    return ending, time.monotonic() - began


async def play(sdk: Sdk, name: str, scene: Scene) -> tuple[Seen, Seen]:
    """Play a scene directly and through the gateway."""
    keys = [KEY if scene.knows_key else KEY_OF_GATEWAY]
    timeout = PATIENCE if name == "silence" else TIME_LIMIT
    async with vendor_of(scene, KEY, None) as vendor:
        record = vendor.state.record
        ending, seconds = await seen(sdk, Way(vendor.url, sdk.model, KEY, timeout))
        direct = Seen(ending, len(record.exchanges), seconds)
        record.clear()
        folder = "/v1" if sdk.provider == "openai" else ""
        own: dict[str, Any] = {"base_url": vendor.url + folder, "api_key": keys[0]}
        routes = {ROUTE: [f"{sdk.provider}/{sdk.model}"]}
        async with (
            swink.Client(providers={sdk.provider: own}, gates=[Cooldowns()]) as client,
            Gateway(client, keys=keys, routes=routes) as gateway,
        ):
            ending, seconds = await seen(sdk, Way(gateway.url, ROUTE, KEY, timeout))
            return direct, Seen(ending, len(record.exchanges), seconds)


async def drive(sdk: Sdk) -> list[tuple[str, Seen, Seen]]:
    """Play the scenes of a client, again where the gateway differs. Print a line for each."""
    found = []
    for name, scene in SCENES.items():
        for _ in range(TRIES):
            direct, through = await play(sdk, name, scene)
            wrong = differences(name, direct, through)
            if not wrong:
                break
        print(f"{sdk.name}, {name}: {direct}; through {through}", flush=True)
        found.append((name, direct, through))
    return found


def main() -> None:
    """Play what is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of clients' names; none: all")
    parser.add_argument("--write", action="store_true", help="write their rows anew")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    wrong = []
    for sdk in SDKS:
        if given.names and not sdk.name.startswith(tuple(given.names)):
            continue
        try:
            version = importlib.metadata.version(sdk.package)
        except importlib.metadata.PackageNotFoundError:
            sys.exit(f"{sdk.package} is not installed: run `make clients`")
        found = asyncio.run(drive(sdk))
        if given.write:
            table.write_sdk(sdk.name, f"`{sdk.package}` {version}", found)
        for name, direct, through in found:
            wrong += [f"{sdk.name}, {name}: {each}" for each in differences(name, direct, through)]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
