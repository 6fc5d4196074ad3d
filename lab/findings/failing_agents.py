"""Print what SDKs and agent frameworks make of a failing vendor, directly and through the gateway.

    python -m lab.findings.failing_agents [CLIENT]

Clients repeat requests as they do by default. A line has the exception with its status, the
requests at the vendor and the seconds until the client gave up, of both. It is right if the
exceptions are equal, the gateway's vendor had no more requests, and the client gave up at most 1 s
or 10 % later, whichever is more. `sdk_exceptions` has more failures for one SDK.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from lab.findings.upstreams import KEY, Stand, stand, verdict
from lab.vendor import Fault

ALWAYS = 99
"""Requests that a fault holds for: all that a client makes."""

FAULTS: dict[str, Fault | None] = {
    "rate limit": Fault("rate_limit", times=ALWAYS),
    "rate limit with Retry-After": Fault("rate_limit", retry_after=1, times=ALWAYS),
    "503": Fault("status", status=503, times=ALWAYS),
    "overloaded": Fault("overload", times=ALWAYS),
    "overflow": Fault("overflow", times=ALWAYS),
    "wrong key": None,
    "filter": Fault("filter", times=ALWAYS),
    "retired model": Fault("status", status=404, code="model_not_found", times=ALWAYS),
    "cut before content": Fault("cut", after=0, times=ALWAYS),
    "cut after content": Fault("cut", after=3, times=ALWAYS),
    "error after content": Fault("server", after=3, times=ALWAYS),
    "silence": Fault("silence", times=ALWAYS),
    "empty end": None,
}
"""What fails. The wrong key is the client's own, at the vendor and at the gateway; the empty end is
an answer without text that the vendor completes."""

PATIENCE = 2.0
"""The time limit of clients, in seconds, during silence."""

HI = [{"role": "user", "content": "Hi"}]


@dataclass(frozen=True)
class Way:
    """How a client reaches a model: a base URL, a model, a key, and a time limit in seconds."""

    base: str
    model: str
    key: str
    timeout: float


Call = Callable[[Way], Awaitable[str]]
"""A streamed call. Returns how it ended where nothing was raised."""


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
    return f"nothing, finish reason {reason}"


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


async def langchain_chat(way: Way) -> str:
    """Stream with LangChain's package for OpenAI."""
    langchain: Any = importlib.import_module("langchain_openai")
    client = langchain.ChatOpenAI(
        model=way.model, base_url=f"{way.base}/v1", api_key=way.key, timeout=way.timeout
    )
    async for _ in client.astream("Hi"):
        pass
    return "nothing"


CLIENTS: dict[str, tuple[Call, str, str]] = {
    "openai, Chat": (openai_chat, "deepseek-flash", "deepseek"),
    "openai, Responses": (openai_responses, "gpt-5.4-mini", "gpt"),
    "anthropic": (anthropic_messages, "claude-haiku-4-5", "claude"),
    "google-genai": (google_genai, "gemini-3.6-flash", "gemini"),
    "ollama": (ollama_chat, "llama3.2", "llama"),
    "openai-agents": (agents_sdk, "gpt-5.4-mini", "gpt"),
    "langchain-openai": (langchain_chat, "gpt-4.1", "deepseek"),
}
"""The call of each client, the model's id at the vendor, and its route at the gateway."""


@dataclass(frozen=True)
class Seen:
    """The exception of a client, the requests at the vendor, and the seconds until it gave up."""

    ending: str
    requests: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.ending}, {self.requests} requests, {self.seconds:.1f} s"

    def is_like(self, direct: Seen) -> bool:
        """Return whether a client fares as well as `direct`."""
        latest = direct.seconds + max(1.0, 0.1 * direct.seconds)
        return (
            self.ending == direct.ending
            and self.requests <= direct.requests
            and self.seconds <= latest
        )


async def seen(call: Call, way: Way, at: Stand) -> Seen:
    """Make one call."""
    at.forget()
    began = time.monotonic()
    try:
        ending = await asyncio.wait_for(call(way), 60)
    except ImportError:
        raise
    except Exception as error:
        status = getattr(error, "status_code", getattr(error, "code", None))
        ending = f"{type(error).__name__} {status if isinstance(status, int) else ''}".strip()
    return Seen(ending, at.requests, time.monotonic() - began)


async def failing(at: Stand, name: str) -> int:
    """Print one line for each fault; return how many are right."""
    call, direct, route = CLIENTS[name]
    right = 0
    for kind, fault in FAULTS.items():
        key = "wrong" if kind == "wrong key" else KEY
        timeout = PATIENCE if kind == "silence" else 60.0
        both: list[Seen] = []
        for base, model in ((at.vendor.url, direct), (at.gateway, route)):
            at.vendor.state.faults.clear()
            at.play(*[[] for _ in range(ALWAYS if kind == "empty end" else 0)])
            if fault is not None:
                at.vendor.state.faults.add(fault)
            both.append(await seen(call, Way(base, model, key, timeout), at))
        is_right = both[1].is_like(both[0])
        right += is_right
        verdict(is_right, f"{name}, {kind}", f"{both[0]}; through the gateway {both[1]}")
    return right


async def run(chosen: str | None) -> None:
    """Print the lines of each client. Each gateway is new, so that no cooldown is shared."""
    for name in CLIENTS:
        if chosen not in (None, name):
            continue
        async with stand(gateway_keys=[KEY]) as at:
            try:
                print(f"{name}: {await failing(at, name)} of {len(FAULTS)} alike", flush=True)
            except ImportError as error:
                print(f"{name}: not installed ({error.name})")


def main() -> None:
    """Run the program."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    asyncio.run(run(sys.argv[1] if len(sys.argv) > 1 else None))


if __name__ == "__main__":
    main()
