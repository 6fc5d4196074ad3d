"""A LangChain chat model on one of the three example packages, and langchain-tests for it.

Runs in an environment that has langchain-tests. The services behind the packages are played in
memory, as strictly as the pages of their APIs say. `MODEL` names the package.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

import swink_core as swink
from swink_testing.driver import MemoryResponse

__all__ = ["TestIntegration", "TestUnit"]

PACKAGES = {
    "kiln": "swink_provider_kiln:Kiln",
    "tarn": "swink_provider_tarn:Tarn",
    "loom": "swink_provider_loom:Loom",
}

MODEL = os.environ.get("MODEL", "loom")
KEY = "sk-langchain"
PIECES = ("Rayleigh", " scattering", ".")


class Service:
    """The three services, which refuse what their pages do not allow."""

    def __init__(self) -> None:
        self.tickets: set[str] = set()

    async def send(self, request: Any, connect_timeout: float | None) -> MemoryResponse:
        """Answer a request."""
        url = urlsplit(request.url)
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = json.loads(request.body) if request.body else {}
        found = self._answer(MODEL, request.method, url.path, headers, body)
        if found is None:
            refusal = {"problem": {"slug": "no", "say": "no"}, "code": "no", "fault": "no"}
            return MemoryResponse.of_json(refusal, 400)
        return found

    def _answer(
        self, name: str, method: str, path: str, headers: dict[str, str], body: Any
    ) -> MemoryResponse | None:
        match name, method, path:
            case "kiln", "POST", "/v1/firings" if headers.get("x-kiln-key") == KEY:
                turns = body["turns"]
                if {turn["role"] for turn in turns} <= {"system", "user", "assistant"}:
                    links = {"watch": "/v1/firings/1/watch", "halt": "/v1/firings/1/halt"}
                    return MemoryResponse.of_json({"firing": "1", **links}, 202)
            case "kiln", "GET", "/v1/firings/1/watch" if headers.get("x-kiln-key") == KEY:
                said = [f'event: piece\ndata: {{"add": "{piece}"}}\n\n' for piece in PIECES]
                said.append('event: closed\ndata: {"why": "complete", "in": 7, "out": 3}\n\n')
                return _streamed(said, "text/event-stream")
            case "kiln", "POST", "/v1/firings/1/halt":
                return MemoryResponse(status=204)
            case "tarn", "POST", "/tickets" if body == {"key": KEY, "realm": "prod"}:
                if headers.get("content-type") == "application/json":
                    ticket = f"ticket-{len(self.tickets)}"
                    self.tickets.add(f"Ticket {ticket}")
                    return MemoryResponse.of_json({"ticket": ticket, "valid_ms": 60_000})
            case "tarn", "POST", "/v2/say" if headers.get("authorization") in self.tickets:
                if {turn["by"] for turn in body["turns"]} <= {"person", "model"}:
                    end = {"type": "end", "why": "done", "read": 7, "wrote": 3}
                    lines = [{"type": "say", "text": piece} for piece in PIECES]
                    return _lines([*lines, end])
            case "loom", "POST", "/v1/weave" if headers.get("authorization") == f"Bearer {KEY}":
                return _woven(body)
            case "loom", "GET", "/v1/tables/1" if headers.get("authorization") == f"Bearer {KEY}":
                return MemoryResponse.of_json({"rows": [["blue", 450]], "words": 11})
        return None

    def close_idle(self) -> None:
        """Do nothing: memory needs no connections."""

    async def aclose(self) -> None:
        """Do nothing: memory needs no connections."""


def _streamed(frames: Sequence[str], content_type: str) -> MemoryResponse:
    return MemoryResponse([f.encode() for f in frames], headers={"Content-Type": content_type})


def _lines(lines: Sequence[dict[str, Any]]) -> MemoryResponse:
    return _streamed([json.dumps(line) + "\n" for line in lines], "application/x-ndjson")


def _woven(body: Any) -> MemoryResponse | None:
    """Call the first tool in answer to a user; after its result, say a sentence with a table."""
    last, tools = body["turns"][-1], body.get("tools", ())
    called = {part["call"] for turn in body["turns"] for part in turn["parts"] if part.get("call")}
    results = {turn["call"] for turn in body["turns"] if turn["who"] == "tool"}
    if not results <= called:
        return None
    if tools and last["who"] == "you":
        fields = tools[0]["schema"].get("properties", {})
        kinds = {name: schema.get("type") for name, schema in fields.items()}
        said = "".join(part.get("text", "") for part in last["parts"])
        args = {name: 3 if kind == "integer" else said for name, kind in kinds.items()}
        call = {"kind": "call", "id": "c1", "tool": tools[0]["name"], "args": json.dumps(args)}
        return _lines([call, {"kind": "end", "why": "calls", "asked": 7, "said": 3}])
    lines = [{"kind": "word", "text": piece} for piece in PIECES]
    end = {"kind": "end", "why": "end", "asked": 7, "said": 3, "table": "/v1/tables/1"}
    return _lines([*lines, end])


class SwinkChat(BaseChatModel):  # type: ignore[misc]  # installed in its own environment
    """Asks a provider of swink."""

    api_key: str = KEY
    model: str = MODEL
    temperature: float | None = None
    max_tokens: int | None = None
    stop: list[str] | None = None

    @property
    def _llm_type(self) -> str:
        return "swink"

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **more: Any) -> Any:
        """Offer tools."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **more)

    def _generate(self, messages: list[BaseMessage], *given: Any, **more: Any) -> ChatResult:
        return asyncio.run(self._agenerate(messages, *given, **more))

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> ChatResult:
        chunks = [chunk async for chunk in self._astream(messages, stop, run_manager, **more)]
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        said = whole.message
        assert isinstance(said, AIMessageChunk)
        message = AIMessage(
            said.content,
            tool_calls=said.tool_calls,
            usage_metadata=said.usage_metadata,
            response_metadata=said.response_metadata,
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> Iterator[ChatGenerationChunk]:
        async def read() -> list[ChatGenerationChunk]:
            return [chunk async for chunk in self._astream(messages, stop, run_manager, **more)]

        yield from asyncio.run(read())

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        point = EntryPoint(MODEL, PACKAGES[MODEL], "swink.providers")
        entry = SimpleNamespace(
            name=MODEL,
            group=point.group,
            value=point.value,
            load=point.load,
            dist=SimpleNamespace(name=f"swink-provider-{MODEL}", version="0"),
        )
        host = swink.Host(entry_points=[entry], environ={})
        options: dict[str, Any] = {"api_key": self.api_key}
        if self.max_tokens is not None:
            options["max_tokens"] = self.max_tokens
        client = swink.Client(host=host, http=Service(), retry=swink.RetryPolicy.none())
        context = _context(messages, more.get("tools", ()))
        names = {"kiln": "kiln-large", "tarn": "tarn-deep", "loom": "loom-wide"}
        async with client, client.stream(f"{MODEL}/{names[MODEL]}", context, **options) as stream:
            async for event in stream:
                if isinstance(event, swink.TextDelta):
                    yield ChatGenerationChunk(message=AIMessageChunk(event.delta))
            message = await stream.result()
        calls = [
            {"name": call.name, "args": json.dumps(call.arguments), "id": call.id, "index": number}
            for number, call in enumerate(message.tool_calls)
        ]
        usage = message.usage
        counted = None
        if usage is not None and usage.reported:
            counts = {"input_tokens": usage.input, "output_tokens": usage.output}
            counted = UsageMetadata(**counts, total_tokens=usage.total)
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                "",
                tool_call_chunks=calls,
                usage_metadata=counted,
                response_metadata={"model_name": MODEL, "model_provider": "swink"},
                chunk_position="last",
            )
        )


def _context(messages: Sequence[BaseMessage], tools: Sequence[Any]) -> swink.Context:
    said: list[Any] = []
    rules: list[str] = []
    for message in messages:
        text = "".join(message.text)  # a plain string, not the subclass of one
        if isinstance(message, SystemMessage):
            rules.append(text)
        elif isinstance(message, ToolMessage):
            is_error = message.status == "error"
            result = swink.ToolResultMessage(
                message.tool_call_id, message.name or "", text, is_error=is_error
            )
            said.append(result)
        elif isinstance(message, AIMessage):
            calls = [
                swink.ToolCallBlock(call["id"] or "", call["name"], call["args"])
                for call in message.tool_calls
            ]
            texts = [swink.TextBlock(text)] if text else []
            said.append(swink.AssistantMessage([*texts, *calls]))
        else:
            said.append(swink.UserMessage(text))
    offered = [
        swink.Tool(each["name"], each.get("description", ""), each["parameters"])
        for each in (tool["function"] for tool in tools)
    ]
    return swink.Context(said, "\n".join(rules) or None, tools=offered)


class _Facts:
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return SwinkChat

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": MODEL}

    @property
    def has_tool_calling(self) -> bool:
        return MODEL == "loom"

    @property
    def has_tool_choice(self) -> bool:
        return False

    @property
    def has_structured_output(self) -> bool:
        return False


class TestUnit(_Facts, ChatModelUnitTests):  # type: ignore[misc]  # as langchain-tests says
    """The standard unit tests."""


class TestIntegration(_Facts, ChatModelIntegrationTests):  # type: ignore[misc]  # as it says
    """The standard integration tests."""
