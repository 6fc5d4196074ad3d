"""Print what SDKs and agent frameworks make of a failing vendor, directly and through the gateway.

    python -m lab.findings.failing_agents

Every call is streamed, and the model behind the gateway speaks the client's protocol.
`sdk_exceptions` has more failures for one SDK.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from lab.findings.upstreams import KEY, Stand, stand, verdict
from lab.vendor import Fault

FAULTS = {
    "overflow": Fault("overflow", times=9),
    "wrong key": Fault("auth", times=9),
    "rate limit": Fault("rate_limit", times=9),
    "broken stream": Fault("server", after=3, times=9),
    "cut": Fault("cut", after=3, times=9),
}

HI = [{"role": "user", "content": "Hi"}]

Call = Callable[[str, str], Awaitable[str]]
"""A call at a base URL, of a model. Returns how it ended where nothing was raised."""


async def openai_chat(base: str, model: str) -> str:
    """Stream Chat Completions with OpenAI's SDK."""
    openai: Any = importlib.import_module("openai")
    client = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0)
    async for _ in await client.chat.completions.create(model=model, messages=HI, stream=True):
        pass
    return "nothing"


async def openai_responses(base: str, model: str) -> str:
    """Stream Responses with OpenAI's SDK."""
    openai: Any = importlib.import_module("openai")
    client = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0)
    last: Any = None
    async for event in await client.responses.create(model=model, input="Hi", stream=True):
        last = event
    return f"nothing, last event {getattr(last, 'type', None)}"


async def anthropic_messages(base: str, model: str) -> str:
    """Stream Messages with Anthropic's SDK."""
    anthropic: Any = importlib.import_module("anthropic")
    client = anthropic.AsyncAnthropic(base_url=base, api_key=KEY, max_retries=0)
    async with client.messages.stream(model=model, max_tokens=99, messages=HI) as stream:
        message = await stream.get_final_message()
    return f"nothing, stop reason {message.stop_reason}"


async def google_genai(base: str, model: str) -> str:
    """Stream with Google's SDK."""
    genai: Any = importlib.import_module("google.genai")
    client = genai.Client(api_key=KEY, http_options={"base_url": base})
    last: Any = None
    async for chunk in await client.aio.models.generate_content_stream(model=model, contents="Hi"):
        last = chunk
    reason = last.candidates[0].finish_reason if last is not None and last.candidates else None
    return f"nothing, finish reason {reason}"


async def agents_sdk(base: str, model: str) -> str:
    """Stream a run of the OpenAI Agents SDK."""
    os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
    agents: Any = importlib.import_module("agents")
    openai: Any = importlib.import_module("openai")
    client = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0)
    agent = agents.Agent(name="a", model=agents.OpenAIResponsesModel(model, client))
    run = agents.Runner.run_streamed(agent, "Hi")
    async for _ in run.stream_events():
        pass
    return "nothing"


async def langchain_chat(base: str, model: str) -> str:
    """Stream with LangChain's package for OpenAI."""
    langchain: Any = importlib.import_module("langchain_openai")
    client = langchain.ChatOpenAI(model=model, base_url=f"{base}/v1", api_key=KEY, max_retries=0)
    async for _ in client.astream("Hi"):
        pass
    return "nothing"


CLIENTS: dict[str, tuple[Call, str, str]] = {
    "openai, Chat": (openai_chat, "deepseek-flash", "deepseek"),
    "openai, Responses": (openai_responses, "gpt-5.4-mini", "gpt"),
    "anthropic": (anthropic_messages, "claude-haiku-4-5", "claude"),
    "google-genai": (google_genai, "gemini-3.6-flash", "gemini"),
    "openai-agents": (agents_sdk, "gpt-5.4-mini", "gpt"),
    "langchain-openai": (langchain_chat, "gpt-4.1", "deepseek"),
}
"""The call of each client, the model's id at the vendor, and its route at the gateway."""


async def raised(call: Call, base: str, model: str) -> str:
    """Return the exception that a call raised, with its status."""
    try:
        return await asyncio.wait_for(call(base, model), 30)
    except ImportError:
        raise
    except Exception as error:
        status = getattr(error, "status_code", getattr(error, "code", None))
        return f"{type(error).__name__} {status or ''}".strip()


async def failing(at: Stand, name: str) -> None:
    """Print one line for each fault."""
    call, direct, route = CLIENTS[name]
    for kind, fault in FAULTS.items():
        seen: list[str] = []
        for base, model in ((at.vendor.url, direct), (at.gateway, route)):
            at.vendor.state.faults.clear()
            at.vendor.state.faults.add(fault)
            seen.append(await raised(call, base, model))
        verdict(seen[0] == seen[1], f"{name}, {kind}", f"{seen[0]}; through the gateway {seen[1]}")


async def run() -> None:
    """Print the lines of each client. Each gateway is new, so that no cooldown is shared."""
    for name in CLIENTS:
        async with stand() as at:
            try:
                await failing(at, name)
            except ImportError as error:
                print(f"{name}: not installed ({error.name})")


def main() -> None:
    """Run the program."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    asyncio.run(run())


if __name__ == "__main__":
    main()
