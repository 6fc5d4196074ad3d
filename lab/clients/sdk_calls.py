"""The streamed calls that SDKs and agent frameworks make, with what each does by default.

Each is imported when it is called, because not all of them can be installed beside each other.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define

from lab.clients.installed import FOLDER

__all__ = ["SDKS", "EndedInNode", "Sdk", "Way"]

HI = [{"role": "user", "content": "Hi"}]

SCRIPT = Path(__file__).parent / "calls.mjs"

NPM = FOLDER / "npm"


@define
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


def _anthropic(way: Way) -> Any:
    anthropic: Any = importlib.import_module("anthropic")
    return anthropic.AsyncAnthropic(base_url=way.base, api_key=way.key, timeout=way.timeout)


async def _last(stream: AsyncIterable[Any]) -> Any:
    """Read a stream; return its last item, or `None` if it has none."""
    last: Any = None
    async for item in stream:
        last = item
    return last


async def _read(stream: AsyncIterable[Any]) -> str:
    """Read a stream that ends without an exception."""
    await _last(stream)
    return "nothing"


async def openai_chat(way: Way) -> str:
    """Stream Chat Completions with OpenAI's SDK."""
    create = _openai(way).chat.completions.create
    return await _read(await create(model=way.model, messages=HI, stream=True))


async def openai_responses(way: Way) -> str:
    """Stream Responses with OpenAI's SDK."""
    create = _openai(way).responses.create
    last = await _last(await create(model=way.model, input="Hi", stream=True))
    return f"nothing, last event {getattr(last, 'type', None)}"


async def anthropic_messages(way: Way) -> str:
    """Stream Messages with Anthropic's SDK."""
    stream = _anthropic(way).messages.stream
    async with stream(model=way.model, max_tokens=99, messages=HI) as events:
        message = await events.get_final_message()
    return f"nothing, stop reason {message.stop_reason}"


async def google_genai(way: Way) -> str:
    """Stream with Google's SDK."""
    genai: Any = importlib.import_module("google.genai")
    options = {"base_url": way.base, "timeout": int(1000 * way.timeout)}
    models = genai.Client(api_key=way.key, http_options=options).aio.models
    last = await _last(await models.generate_content_stream(model=way.model, contents="Hi"))
    reason = last.candidates[0].finish_reason if last is not None and last.candidates else None
    return f"nothing, finish reason {getattr(reason, 'name', None)}"


async def ollama_chat(way: Way) -> str:
    """Stream with Ollama's SDK."""
    ollama: Any = importlib.import_module("ollama")
    headers = {"Authorization": f"Bearer {way.key}"}
    client = ollama.AsyncClient(host=way.base, headers=headers, timeout=way.timeout)
    last = await _last(await client.chat(model=way.model, messages=HI, stream=True))
    return f"nothing, done {getattr(last, 'done', None)}"


async def agents_sdk(way: Way) -> str:
    """Stream a run of the OpenAI Agents SDK."""
    os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
    agents: Any = importlib.import_module("agents")
    agent = agents.Agent(name="a", model=agents.OpenAIResponsesModel(way.model, _openai(way)))
    return await _read(agents.Runner.run_streamed(agent, "Hi").stream_events())


async def langchain_openai(way: Way) -> str:
    """Stream with LangChain's package for OpenAI."""
    own = {"base_url": f"{way.base}/v1", "api_key": way.key, "timeout": way.timeout}
    return await _langchain("langchain_openai", "ChatOpenAI", way, own)


async def langchain_anthropic(way: Way) -> str:
    """Stream with LangChain's package for Anthropic."""
    own = {"base_url": way.base, "api_key": way.key, "timeout": way.timeout}
    return await _langchain("langchain_anthropic", "ChatAnthropic", way, own)


async def langchain_google(way: Way) -> str:
    """Stream with LangChain's package for Google's SDK."""
    own = {"base_url": way.base, "google_api_key": way.key, "timeout": way.timeout}
    return await _langchain("langchain_google_genai", "ChatGoogleGenerativeAI", way, own)


async def langchain_ollama(way: Way) -> str:
    """Stream with LangChain's package for Ollama."""
    options = {"headers": {"Authorization": f"Bearer {way.key}"}, "timeout": way.timeout}
    own = {"base_url": way.base, "client_kwargs": options}
    return await _langchain("langchain_ollama", "ChatOllama", way, own)


async def _langchain(module: str, kind: str, way: Way, own: dict[str, Any]) -> str:
    client = getattr(importlib.import_module(module), kind)(model=way.model, **own)
    return await _read(client.astream("Hi"))


async def litellm_openai(way: Way) -> str:
    """Stream Chat Completions with litellm."""
    return await _litellm(way, f"openai/{way.model}", f"{way.base}/v1")


async def litellm_anthropic(way: Way) -> str:
    """Stream Messages with litellm."""
    return await _litellm(way, f"anthropic/{way.model}", way.base)


async def litellm_gemini(way: Way) -> str:
    """Stream Google's API with litellm."""
    return await _litellm(way, f"gemini/{way.model}", f"{way.base}/v1beta")


async def _litellm(way: Way, model: str, base: str) -> str:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    answer = await litellm.acompletion(
        model=model, api_base=base, api_key=way.key, messages=HI, stream=True, timeout=way.timeout
    )
    return await _read(answer)


async def instructor_openai(way: Way) -> str:
    """Stream a typed answer with instructor."""
    instructor: Any = importlib.import_module("instructor")
    pydantic: Any = importlib.import_module("pydantic")
    typed = pydantic.create_model("Typed", word=(str, ...))
    client = instructor.from_openai(_openai(way))
    answer = client.chat.completions.create_partial(
        model=way.model, messages=HI, response_model=typed, max_retries=1
    )
    return await _read(answer)


async def llm_openai(way: Way) -> str:
    """Stream Chat Completions with llm."""
    os.environ.setdefault("LLM_USER_PATH", tempfile.gettempdir())
    chat: Any = importlib.import_module("llm.default_plugins.openai_models")
    model = chat.AsyncChat(way.model, model_name=way.model, api_base=f"{way.base}/v1")
    model.key = way.key
    return await _read(model.prompt("Hi"))


async def pydantic_ai(way: Way) -> str:
    """Stream a run of Pydantic AI over Chat Completions."""
    models: Any = importlib.import_module("pydantic_ai.models.openai")
    providers: Any = importlib.import_module("pydantic_ai.providers.openai")
    provider = providers.OpenAIProvider(openai_client=_openai(way))
    return await _pydantic_ai(models.OpenAIChatModel(way.model, provider=provider))


async def pydantic_ai_anthropic(way: Way) -> str:
    """Stream a run of Pydantic AI over Messages."""
    models: Any = importlib.import_module("pydantic_ai.models.anthropic")
    providers: Any = importlib.import_module("pydantic_ai.providers.anthropic")
    provider = providers.AnthropicProvider(anthropic_client=_anthropic(way))
    return await _pydantic_ai(models.AnthropicModel(way.model, provider=provider))


async def _pydantic_ai(model: Any) -> str:
    ai: Any = importlib.import_module("pydantic_ai")
    async with ai.Agent(model).run_stream("Hi") as run:
        return await _read(run.stream_text())


def in_node(client: str) -> Call:
    """Make the call of a client in JavaScript, which runs in another process."""

    async def call(way: Way) -> str:
        words = [client, way.base, way.model, way.key, str(int(1000 * way.timeout))]
        script = shutil.copy(SCRIPT, NPM)  # modules are found beside the script
        process = await asyncio.create_subprocess_exec(
            "node", script, *words, stdout=subprocess.PIPE, cwd=NPM,
            env={"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1"},
        )  # fmt: skip
        try:
            output, _ = await process.communicate()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
        said: dict[str, Any] = json.loads(output.splitlines()[-1])
        raise EndedInNode(said["ending"], said["seconds"])

    return call


class EndedInNode(Exception):
    """How a client in another process ended, and after how many seconds."""

    def __init__(self, ending: str, seconds: float) -> None:
        super().__init__(ending)
        self.ending = ending
        self.seconds = seconds


@define
class Sdk:
    """A client: its package, its call, and the model's provider and id.

    `environment` is the folder of `.venv-clients` that has the package.
    """

    name: str
    package: str
    call: Call
    provider: str
    model: str
    environment: str = "sdks"

    @property
    def version(self) -> str:
        """The installed version of the package."""
        module = NPM / "node_modules" / self.package / "package.json"
        if self.environment == "npm":
            return str(json.loads(module.read_text())["version"])
        return importlib.metadata.version(self.package)


CHAT = ("openai", "gpt-4.1")
RESPONSES = ("openai", "gpt-5.4-mini")
MESSAGES = ("anthropic", "claude-haiku-4-5")
GOOGLE = ("gemini", "gemini-3.6-flash")
OLLAMA = ("ollama", "llama3.2")

SDKS = [
    Sdk("openai, Chat", "openai", openai_chat, *CHAT),
    Sdk("openai, Responses", "openai", openai_responses, *RESPONSES),
    Sdk("anthropic", "anthropic", anthropic_messages, *MESSAGES),
    Sdk("google-genai", "google-genai", google_genai, *GOOGLE),
    Sdk("ollama", "ollama", ollama_chat, *OLLAMA),
    Sdk("openai-agents", "openai-agents", agents_sdk, *RESPONSES),
    Sdk("langchain-openai", "langchain-openai", langchain_openai, *CHAT),
    Sdk("langchain-anthropic", "langchain-anthropic", langchain_anthropic, *MESSAGES),
    Sdk("langchain-google-genai", "langchain-google-genai", langchain_google, *GOOGLE),
    Sdk("langchain-ollama", "langchain-ollama", langchain_ollama, *OLLAMA),
    Sdk("pydantic-ai, Chat", "pydantic-ai-slim", pydantic_ai, *CHAT),
    Sdk("pydantic-ai, Messages", "pydantic-ai-slim", pydantic_ai_anthropic, *MESSAGES),
    Sdk("llm", "llm", llm_openai, *CHAT),
    Sdk("litellm, Chat", "litellm", litellm_openai, *CHAT, "older"),
    Sdk("litellm, Messages", "litellm", litellm_anthropic, *MESSAGES, "older"),
    Sdk("litellm, Gemini", "litellm", litellm_gemini, *GOOGLE, "older"),
    Sdk("instructor", "instructor", instructor_openai, *CHAT, "older"),
    Sdk("AI SDK, Chat", "@ai-sdk/openai-compatible", in_node("ai-chat"), *CHAT, "npm"),
    Sdk("AI SDK, Responses", "@ai-sdk/openai", in_node("ai-responses"), *RESPONSES, "npm"),
    Sdk("AI SDK, Messages", "@ai-sdk/anthropic", in_node("ai-messages"), *MESSAGES, "npm"),
    Sdk("AI SDK, Gemini", "@ai-sdk/google", in_node("ai-gemini"), *GOOGLE, "npm"),
    Sdk("ollama-js", "ollama", in_node("ollama"), *OLLAMA, "npm"),
]
"""In the order of the table."""
