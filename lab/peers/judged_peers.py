"""Make calls through one library and catch its requests: `judged_peers.py LIBRARY < CALLS`.

Runs in an environment that has the library and no part of swink. Reads one call per line, as JSON,
and answers each with a line: the first request's address and body, the exception, and the messages
in warnings and the log. Nothing is sent: every library here uses httpx, whose transports store the
request and stop.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import json
import logging
import os
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

os.environ.update(
    HF_HUB_OFFLINE="1", LITELLM_LOCAL_MODEL_COST_MAP="True", DISABLE_AIOHTTP_TRANSPORT="True"
)
KEY = "sk-judge"
BUDGETS = {"low": 2048, "high": 10_000}


class Inexpressible(Exception):
    """The library has no word for something in a call."""


class Caught(BaseException):
    """Raised where a request would leave; no retry and no handler of errors stops it."""


REQUESTS: list[tuple[str, str]] = []


def catch() -> None:
    """Put an end to every request at the transports of httpx, of which there are two."""

    def keep(request: Any) -> None:
        REQUESTS.append((str(request.url), request.content.decode()))
        raise Caught

    async def handle_async(self: Any, request: Any) -> Any:
        await request.aread()
        keep(request)

    def handle(self: Any, request: Any) -> Any:
        request.read()
        keep(request)

    def resolve(*address: Any, **more: Any) -> Any:
        raise OSError("nothing leaves this process")

    socket.getaddrinfo = resolve
    for name in ("httpx", "httpx2"):
        if importlib.util.find_spec(name):
            patched: Any = importlib.import_module(name)
            patched.AsyncHTTPTransport.handle_async_request = handle_async
            patched.HTTPTransport.handle_request = handle


def schema_format(options: dict[str, Any]) -> dict[str, Any]:
    """Say a schema as Chat Completions does."""
    schema = {"name": "answer", "schema": options["response_format"], "strict": True}
    return {"type": "json_schema", "json_schema": schema}


def functions(call: dict[str, Any]) -> list[dict[str, Any]]:
    """Say tools as Chat Completions does."""
    return [{"type": "function", "function": tool} for tool in call["tools"]]


# -- litellm -------------------------------------------------------------------------------------


async def ask_litellm(call: dict[str, Any], **more: Any) -> None:
    import litellm

    litellm.suppress_debug_info = True
    litellm.disable_aiohttp_transport = True
    given = dict(call["options"])
    if "thinking" in given:
        level = given.pop("thinking")
        given["reasoning_effort"] = "none" if level == "off" else level
    if "response_format" in given:
        given["response_format"] = schema_format(given)
    if call["tools"]:
        given["tools"] = functions(call)
    await litellm.acompletion(
        model=f"{call['provider']}/{call['model']}",
        messages=call["messages"],
        api_key=KEY,
        num_retries=0,
        **given,
        **more,
    )


async def ask_litellm_drop(call: dict[str, Any]) -> None:
    await ask_litellm(call, drop_params=True)


# -- pydantic-ai ---------------------------------------------------------------------------------


async def ask_pydantic_ai(call: dict[str, Any]) -> None:
    from pydantic_ai.direct import model_request
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    given = dict(call["options"])
    settings: dict[str, Any] = {}
    for name in ("temperature", "top_p", "max_tokens", "seed", "parallel_tool_calls"):
        if name in given:
            settings[name] = given.pop(name)
    if "stop" in given:
        settings["stop_sequences"] = given.pop("stop")
    if "thinking" in given:
        level = given.pop("thinking")
        settings["thinking"] = False if level == "off" else level
    if "tool_choice" in given:
        settings["tool_choice"] = given.pop("tool_choice")
    asked: dict[str, Any] = {}
    if "response_format" in given:
        from pydantic_ai.output import OutputObjectDefinition

        schema = given.pop("response_format")
        asked = {
            "output_mode": "native",
            "output_object": OutputObjectDefinition(json_schema=schema, name="answer", strict=True),
        }
    tools = [
        ToolDefinition(
            name=tool["name"],
            description=tool["description"],
            parameters_json_schema=tool["parameters"],
        )
        for tool in call["tools"]
    ]
    await model_request(
        pydantic_ai_model(call),
        pydantic_ai_messages(call["messages"]),
        model_settings=settings,
        model_request_parameters=ModelRequestParameters(function_tools=tools, **asked),
    )


def pydantic_ai_model(call: dict[str, Any]) -> Any:
    """Return the model as the manual shows it."""
    if call["provider"] == "anthropic":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropic(api_key=KEY)
        return AnthropicModel(call["model"], provider=AnthropicProvider(anthropic_client=client))
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIResponsesModel(call["model"], provider=OpenAIProvider(api_key=KEY))


def pydantic_ai_messages(said: list[dict[str, Any]]) -> list[Any]:
    """Say a conversation in pydantic-ai's parts."""
    from pydantic_ai import messages as m

    found: list[Any] = []
    for message in said:
        if message["role"] == "assistant":
            parts: list[Any] = [m.TextPart(message["content"])] if message["content"] else []
            parts += [
                m.ToolCallPart(c["function"]["name"], c["function"]["arguments"], c["id"])
                for c in message.get("tool_calls", ())
            ]
            found.append(m.ModelResponse(parts))
        elif message["role"] == "tool":
            content = pydantic_ai_content(message["content"])
            part = m.ToolReturnPart(message["name"], content, message["tool_call_id"])
            found.append(m.ModelRequest([part]))
        elif message["role"] == "system":
            found.append(m.ModelRequest([m.SystemPromptPart(message["content"])]))
        else:
            content = pydantic_ai_content(message["content"])
            found.append(m.ModelRequest([m.UserPromptPart(content)]))
    return found


def pydantic_ai_content(content: Any) -> Any:
    """Say texts and media in pydantic-ai's types."""
    import base64

    from pydantic_ai.messages import BinaryContent

    if isinstance(content, str):
        return content
    parts: list[Any] = []
    for part in content:
        if part["type"] == "text":
            parts.append(part["text"])
        elif part["type"] == "image_url":
            data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
            parts.append(BinaryContent(data, media_type="image/png"))
        else:
            data = base64.b64decode(part["input_audio"]["data"])
            parts.append(BinaryContent(data, media_type="audio/wav"))
    return parts


# -- langchain -----------------------------------------------------------------------------------


async def ask_langchain(call: dict[str, Any]) -> None:
    from langchain_core.messages import convert_to_messages

    given = dict(call["options"])
    bound = {n: given.pop(n) for n in ("tool_choice", "parallel_tool_calls") if n in given}
    schema = given.pop("response_format", None)
    model: Any
    if call["provider"] == "anthropic":
        if "seed" in given or schema is not None:
            raise Inexpressible
        model = langchain_anthropic(call["model"], given)
    else:
        from langchain_openai import ChatOpenAI

        if "thinking" in given:
            level = given.pop("thinking")
            given["reasoning_effort"] = "none" if level == "off" else level
        model = ChatOpenAI(model=call["model"], api_key=KEY, max_retries=0, **given)
    if schema is not None:
        bound["response_format"] = schema_format({"response_format": schema})
    if call["tools"]:
        model = model.bind_tools(functions(call), **bound)
    elif bound:
        model = model.bind(**bound)
    await model.ainvoke(convert_to_messages(call["messages"]))


def langchain_anthropic(id: str, given: dict[str, Any]) -> Any:
    """Return the model; thinking is in the API's own words there."""
    from langchain_anthropic import ChatAnthropic

    if "thinking" in given:
        level = given.pop("thinking")
        budget = {"type": "enabled", "budget_tokens": BUDGETS.get(level)}
        given["thinking"] = {"type": "disabled"} if level == "off" else budget
    return ChatAnthropic(model=id, api_key=KEY, max_retries=0, **given)


LIBRARIES: dict[str, tuple[str, Callable[[dict[str, Any]], Awaitable[None]]]] = {
    "litellm": ("litellm", ask_litellm),
    "litellm-drop": ("litellm", ask_litellm_drop),
    "pydantic-ai": ("pydantic-ai-slim", ask_pydantic_ai),
    "langchain": ("langchain-core", ask_langchain),
}


class Said(logging.Handler):
    """Stores log messages."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.texts.append(record.getMessage())


async def outcome(library: str, call: dict[str, Any], said: Said) -> dict[str, Any]:
    """Make one call."""
    REQUESTS.clear()
    said.texts.clear()
    found: dict[str, Any] = {"url": None, "body": None, "inexpressible": False}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        try:
            await LIBRARIES[library][1](call)
        except Inexpressible:
            found["inexpressible"] = True
        except KeyboardInterrupt:
            raise
        except BaseException:  # what was asked until then counts
            pass
    if REQUESTS:
        found["url"], found["body"] = REQUESTS[0]
    found["said"] = [*said.texts, *(str(warning.message) for warning in warned)]
    return found


def main() -> None:
    library = sys.argv[1]
    catch()
    said = Said()
    logging.getLogger().addHandler(said)
    version = importlib.metadata.version(LIBRARIES[library][0])
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        print(json.dumps(asyncio.run(outcome(library, json.loads(line), said))), flush=True)


if __name__ == "__main__":
    main()
