"""Capabilities reported by a server, and their effect on calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from swink_core import (
    Base64Source,
    Client,
    Context,
    Error,
    ImageBlock,
    Notice,
    StreamErrorKind,
    StreamOptions,
    TextBlock,
    Tool,
    UserMessage,
)
from swink_core.providers import AiohttpClient
from swink_provider_ollama import OllamaProvider
from swink_recorder.loopback import Exchange, LoopbackServer

ANSWER = b'{"message":{"role":"assistant","content":"Hi"},"done":true,"done_reason":"stop"}\n'
TOOL = Tool("weather", "Tells the weather.")


def shown(*capabilities: str, context: int = 40960, parameters: str = "") -> dict[str, Any]:
    """Make an answer of `/api/show`."""
    info = {"general.architecture": "qwen3", "qwen3.context_length": context}
    return {
        "capabilities": ["completion", *capabilities],
        "model_info": info,
        "parameters": parameters,
        "details": {"family": "qwen3", "parameter_size": "4.0B"},
    }


class Ollama(LoopbackServer):
    """A server that has some models; without `models` it knows nothing but how to chat."""

    def __init__(self, models: dict[str, dict[str, Any]]) -> None:
        super().__init__()
        self.models = models

    async def respond(self, exchange: Exchange) -> None:
        """Answer one request."""
        path = exchange.path
        name = exchange.json["model"] if path == "/api/show" else ""
        if path == "/api/chat":
            status, body = 200, ANSWER
        elif path == "/api/tags" and self.models:
            tags = [{"name": name, "model": name} for name in self.models]
            status, body = 200, msgspec.json.encode({"models": tags})
        elif name in self.models:
            status, body = 200, msgspec.json.encode(self.models[name])
        else:
            status, body = 404, b"404 page not found"
        await exchange.start(status, {"Content-Type": "application/json"})
        await exchange.write(body)
        await exchange.end()

    def asked(self, path: str) -> list[Any]:
        """Return the requests to a path."""
        return [one.json for one in self.exchanges if one.path == path]


class Asked:
    """The last request of a call, its text, and its end."""

    def __init__(self, server: Ollama, events: list[Any]) -> None:
        bodies = server.asked("/api/chat")
        self.body = bodies[-1] if bodies else {}
        self.said = [event.detail for event in events if isinstance(event, Notice)]
        self.error = events[-1] if isinstance(events[-1], Error) else None


@asynccontextmanager
async def asking(models: dict[str, dict[str, Any]]) -> AsyncIterator[tuple[Ollama, Any]]:
    """Yield a server, and a function that calls its models with one client."""
    with Ollama(models) as server:
        async with Client() as client:

            async def ask(model: str, context: Any, **options: Any) -> Asked:
                given = {"base_url": server.url, **options}
                async with client.stream(f"ollama/{model}", context, **given) as stream:
                    return Asked(server, [event async for event in stream])

            yield server, ask


PIXEL = UserMessage([TextBlock("What?"), ImageBlock(Base64Source("image/png", "iVBORw=="))])
TOOLS = Context([UserMessage("Hi")], tools=[TOOL])

# (what the model can, the call, its options, what is refused or said)
BINDING: list[tuple[tuple[str, ...], Any, dict[str, Any], str]] = [
    ((), TOOLS, {}, "does not support tools"),
    (("tools",), TOOLS, {}, ""),
    (("tools",), Context([PIXEL]), {}, "does not support images"),
    (("vision",), Context([PIXEL]), {}, ""),
    ((), "Hi", {"thinking": "high"}, "does not support thinking; it was not sent"),
    (("thinking",), "Hi", {"thinking": "high"}, ""),
    ((), TOOLS, {"rules": False}, ""),
]


@pytest.mark.parametrize(("can", "context", "options", "what"), BINDING)
async def test_what_the_server_says_a_model_can_do_binds_as_the_catalogue_does(
    can: tuple[str, ...], context: Any, options: dict[str, Any], what: str
) -> None:
    async with asking({"mine": shown(*can)}) as (server, ask):
        for _ in range(2):
            found = await ask("mine", context, **options)
            told = [found.error.error_message] if found.error else found.said
            assert [line.removeprefix("ollama/mine ") for line in told] == ([what] if what else [])
            if found.error:
                assert found.error.error_kind is StreamErrorKind.UNSUPPORTED
            else:
                assert ("think" in found.body) == ("thinking" in options and not what)
        assert len(server.asked("/api/show")) == (0 if "rules" in options else 1)


async def test_the_servers_word_is_better_than_a_guess_by_the_name() -> None:
    async with asking({"llama3.1": shown("thinking")}) as (_, ask):
        found = await ask("llama3.1", Context([UserMessage("w" * 30_000)]))
        assert found.body["options"] == {"num_ctx": 16384}
        found = await ask("llama3.1", "Hi", thinking="high")
        assert (found.body["think"], found.said) == (True, [])


async def test_a_call_that_no_answer_could_change_asks_nothing() -> None:
    async with asking({}) as (server, ask):
        for model, options in [("mine", {}), ("qwen3:4b", {"thinking": "high"})]:
            found = await ask(model, "Hi", **options)
            assert (found.error, found.said) == (None, [])
        assert {one.path for one in server.exchanges} == {"/api/chat"}


async def test_a_server_that_tells_nothing_is_asked_as_before() -> None:
    async with asking({}) as (_, ask):
        found = await ask("mine", TOOLS, thinking="high")
        assert (found.error, found.said, found.body["think"]) == (None, [], True)
        long = await ask("mine", "w" * 30_000)
        assert (long.error, long.said, long.body["options"]) == (None, [], {"num_ctx": 16384})


# (bytes of the question, options, the model's own num_ctx, what is sent of it)
LENGTHS: list[tuple[int, dict[str, Any], str, int | None]] = [
    (1_000, {}, "", None),
    (9_000, {}, "", 8192),
    (9_000, {}, "temperature 0.6\nnum_ctx 32768\nstop \"x\"", None),
    (30_000, {}, "num_ctx 8192", 16384),
    (1_000, {"max_tokens": 8_000}, "", 16384),
    (30_000, {"extra": {"options": {"num_ctx": 12_345}}}, "", 12_345),
    (30_000, {"extra": {"truncate": True}}, "", None),
    (30_000, {"rules": False}, "", None),
]  # fmt: skip


@pytest.mark.parametrize(("size", "options", "parameters", "num_ctx"), LENGTHS)
async def test_the_context_is_made_long_enough(
    size: int, options: dict[str, Any], parameters: str, num_ctx: int | None
) -> None:
    async with asking({"mine": shown(parameters=parameters)}) as (_, ask):
        found = await ask("mine", "w" * size, **options)
    assert (found.error, found.said) == (None, [])
    assert found.body.get("options", {}).get("num_ctx") == num_ctx
    assert (found.body["truncate"], found.body["shift"]) == (
        bool(options.get("extra", {}).get("truncate")),
        False,
    )


async def test_a_conversation_that_may_not_fit_gets_all_there_is_and_a_word() -> None:
    async with asking({"mine": shown(context=10_000)}) as (_, ask):
        found = await ask("mine", "w" * 30_000)
        assert found.body["options"] == {"num_ctx": 10_000}
        (said,) = found.said
        assert said.startswith(
            "ollama/mine: num_ctx was set to 10000, the context window of the model"
        )


async def test_a_conversation_that_cannot_fit_is_refused_before_it_is_sent() -> None:
    async with asking({"mine": shown(context=10_000)}) as (server, ask):
        found = await ask("mine", "w" * 130_000)
        assert found.error.error_kind is StreamErrorKind.CONTEXT_WINDOW_EXCEEDED
        assert "a context window of 10000 tokens" in found.error.error_message
        assert server.asked("/api/chat") == []


async def test_a_picture_counts_as_one_and_not_as_its_text() -> None:
    picture = UserMessage([ImageBlock(Base64Source("image/png", "iVBO" * 100_000))])
    async with asking({"mine": shown("vision")}) as (_, ask):
        found = await ask("mine", Context([picture]))
        assert "options" not in found.body


async def test_pulled_models_are_listed_as_the_server_knows_them() -> None:
    models = {"mine:latest": shown("tools", "vision"), "plain": {}}
    http = AiohttpClient()
    try:
        with Ollama(models) as server:
            options = StreamOptions(base_url=server.url, api_key="k-123456")
            first, second = await OllamaProvider("ollama").list_models(options, http)
            sent = {one.path: one for one in server.exchanges}
    finally:
        await http.aclose()
    assert (first.id, first.provider, first.status) == ("mine:latest", "ollama", "pulled")
    assert first.context_window == 40960
    assert first.capabilities == {"tools", "images", "json", "structured_output"}
    assert (second.id, second.context_window, second.capabilities) == ("plain", None, None)
    assert sent["/api/tags"].method == "GET"
    assert sent["/api/show"].headers["authorization"] == "Bearer k-123456"


def test_an_answer_is_read_as_ollamas_own_client_reads_it() -> None:
    sdk = pytest.importorskip("ollama", reason="Ollama's SDK is not installed")
    with Ollama({"mine": shown("tools", parameters="num_ctx 8192")}) as server:
        with sdk.Client(server.url, trust_env=False) as client:
            theirs, tags = client.show("mine"), client.list()
        theirs_asked = [(one.method, one.path, one.json) for one in server.exchanges[:1]]
    assert theirs.capabilities == ["completion", "tools"]
    assert theirs.modelinfo["qwen3.context_length"] == 40960
    assert theirs.parameters == "num_ctx 8192"
    assert [tag.model for tag in tags.models] == ["mine"]
    assert theirs_asked == [("POST", "/api/show", {"model": "mine"})]
