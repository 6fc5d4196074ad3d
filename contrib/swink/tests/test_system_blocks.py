"""Blocks and cache marks of system messages reach the wire, or a notice names their path."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, field

import swink_core as swink
from swink_core import Message, Notice, SystemMessage, TextBlock, UserMessage
from swink_recorder.loopback import Exchange, LoopbackServer

MARK = {"cache_control": {"type": "ephemeral"}}
POINT = {"cachePoint": {"type": "default"}}
BREAKPOINT = {"prompt_cache_breakpoint": {"ttl": "30m"}}


class Refusing(LoopbackServer):
    """Keeps each request and refuses it, so that no answer has to be written."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[Any] = []

    async def respond(self, exchange: Exchange) -> None:
        self.bodies.append(exchange.json)
        await exchange.start(400, {"Content-Type": "application/json"})
        await exchange.write(b'{"error":{"message":"no"}}')
        await exchange.end()


async def _sent(model: str, messages: list[Message], **options: Any) -> tuple[Any, list[Notice]]:
    """Return the body of the request that a conversation becomes, and the notices."""
    async with Refusing() as server, swink.Client(retry=swink.RetryPolicy.none()) as client:
        own = {"base_url": server.url, "api_key": "test", **options}
        async with client.stream(model, messages, **own) as stream:
            events = [event async for event in stream]
    body = server.bodies[-1] if server.bodies else None
    return body, [event for event in events if isinstance(event, Notice)]


def _blocks(metadata: dict[str, Any]) -> list[Message]:
    rules = [TextBlock("Rules.", metadata), TextBlock("More.")]
    return [SystemMessage([*rules]), UserMessage("Hi")]


@define
class Native:
    """A model whose API has blocks of system text, and what they are in its request."""

    model: str
    metadata: dict[str, Any]
    name: str
    system: Any
    options: dict[str, Any] = field(factory=dict)


_PARTS = [{"type": "text", "text": "Rules.", **BREAKPOINT}, {"type": "text", "text": "More."}]
NATIVE = [
    Native(
        "anthropic/claude-opus-4-8",
        MARK,
        "system",
        [{"type": "text", "text": "Rules.", **MARK}, {"type": "text", "text": "More."}],
    ),
    Native(
        "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0",
        POINT,
        "system",
        [{"text": "Rules."}, POINT, {"text": "More."}],
    ),
    Native(
        "openai/gpt-5.4",
        BREAKPOINT,
        "messages",
        {"role": "developer", "content": _PARTS},
        {"settings": {"api": "chat"}},
    ),
    Native(
        "openai/gpt-5.4",
        BREAKPOINT,
        "input",
        {
            "role": "developer",
            "content": [
                {"type": "input_text", "text": "Rules.", **BREAKPOINT},
                {"type": "input_text", "text": "More."},
            ],
        },
        {"settings": {"api": "responses"}},
    ),
    Native(
        "openrouter/anthropic/claude-opus-4.8",
        MARK,
        "messages",
        {
            "role": "system",
            "content": [
                {"type": "text", "text": "Rules.", **MARK},
                {"type": "text", "text": "More."},
            ],
        },
    ),
]


@pytest.mark.parametrize("case", NATIVE, ids=lambda case: f"{case.model} {case.name}")
async def test_marked_system_blocks_reach_an_api_that_has_them(case: Native) -> None:
    body, notices = await _sent(case.model, _blocks(case.metadata), **case.options)

    found = body[case.name]
    assert (found if case.name == "system" else found[0]) == case.system
    assert [n for n in notices if "metadata" in (n.detail or "")] == []


SEPARATE = {
    "gemini/gemini-3.8-flash": lambda body: body["systemInstruction"]["parts"],
    "cohere/command-a-03-2025": lambda body: body["messages"][0]["content"],
    "anthropic/claude-opus-4-8": lambda body: body["system"],
}


@pytest.mark.parametrize("model", SEPARATE)
async def test_system_blocks_stay_separate(model: str) -> None:
    said: list[Message] = [SystemMessage("First."), *_blocks({})]
    body, notices = await _sent(model, said, rules=False)

    texts = [part["text"] for part in SEPARATE[model](body)]
    assert texts == ["First.", "Rules.", "More."]
    assert notices == []


ONE_TEXT = ["groq/llama-3.3-70b-versatile", "ollama/llama3.2", "mistral/mistral-large-latest"]


@pytest.mark.parametrize("model", ONE_TEXT)
async def test_a_notice_names_what_an_api_without_system_blocks_leaves_out(model: str) -> None:
    body, notices = await _sent(model, _blocks(MARK), rules=False)

    assert body["messages"][0] == {"role": "system", "content": "Rules.\nMore."}
    told = [(notice.code, (notice.detail or "").partition(":")[0]) for notice in notices]
    assert ("system_blocks_joined", "messages[0].content") in told
    assert ("option_ignored", "messages[0].content[0].metadata") in told


@pytest.mark.parametrize(
    ("model", "metadata"),
    [
        ("anthropic/claude-opus-4-8", POINT),
        ("bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0", MARK),
        ("gemini/gemini-3.8-flash", MARK),
        ("openai/gpt-5.4", MARK),
        ("openrouter/anthropic/claude-opus-4.8", BREAKPOINT),
    ],
)
async def test_a_notice_names_a_mark_of_another_api(model: str, metadata: dict[str, Any]) -> None:
    _, notices = await _sent(model, _blocks(metadata))

    [notice] = [
        n for n in notices if (n.detail or "").startswith("messages[0].content[0].metadata")
    ]
    assert next(iter(metadata)) in (notice.detail or "")


@pytest.mark.parametrize("model", ["anthropic/claude-opus-4-8", "anthropic/claude-haiku-4-5"])
async def test_a_mark_on_an_instruction_inside_the_conversation_stays(model: str) -> None:
    said: list[Message] = [
        UserMessage("Hi"),
        SystemMessage([TextBlock("Rules.", MARK)]),
    ]
    body, _ = await _sent(model, said)

    blocks = [block for turn in body["messages"] for block in turn["content"]]
    assert [block.get("cache_control") for block in blocks] == [None, MARK["cache_control"]]
    assert "Rules." in blocks[1]["text"]


PLAIN = {
    "anthropic/claude-opus-4-8": ("system", [{"type": "text", "text": "A.\n\nB.\n\nC."}]),
    "bedrock/us.amazon.nova-pro-v1:0": ("system", [{"text": "A.\n\nB.\n\nC."}]),
    "gemini/gemini-3.8-flash": ("systemInstruction", {"parts": [{"text": "A.\n\nB.\n\nC."}]}),
}


@pytest.mark.parametrize("model", PLAIN)
async def test_plain_system_text_is_one_block_as_before(model: str) -> None:
    said: list[Message] = [
        SystemMessage("B."),
        SystemMessage([TextBlock("C.")]),
        UserMessage("Hi"),
    ]
    body, notices = await _sent(model, said, system_prompt="A.")

    name, system = PLAIN[model]
    assert body[name] == system
    assert notices == []


async def test_a_strategy_counts_the_callers_marks_on_system_text() -> None:
    rules: list[Any] = [TextBlock(f"Rule {n}.", POINT) for n in range(4)]
    said: list[Message] = [SystemMessage(rules), UserMessage("Hi")]
    model = "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0"
    body, _ = await _sent(model, said, cache="auto")

    points = [part for part in body["system"] if "cachePoint" in part]
    assert len(points) == 4  # as many as the API takes
    assert body["messages"][-1]["content"] == [{"text": "Hi"}]


@pytest.mark.parametrize("case", NATIVE, ids=lambda case: f"{case.model} {case.name}")
async def test_a_list_is_a_system_prompt_of_blocks(case: Native) -> None:
    prompt: list[Any] = [TextBlock("Rules.", case.metadata), "More."]
    said: list[Message] = [UserMessage("Hi")]
    body, notices = await _sent(case.model, said, system_prompt=prompt, **case.options)

    found = body[case.name]
    assert (found if case.name == "system" else found[0]) == case.system
    assert [n for n in notices if "metadata" in (n.detail or "")] == []


async def test_a_list_is_joined_even_after_a_text() -> None:
    async with Refusing() as server, swink.Client(retry=swink.RetryPolicy.none()) as client:
        for prompt in ("Rules.", ["Rules.", "More."]):
            own: Any = {"base_url": server.url, "api_key": "test", "system_prompt": prompt}
            async with client.stream("ollama/llama3.2", "Hi", **own) as stream:
                assert [event async for event in stream]
    said = [body["messages"][0]["content"] for body in server.bodies if "messages" in body]
    assert said == ["Rules.", "Rules.\nMore."]


@pytest.mark.parametrize("model", ONE_TEXT)
async def test_a_notice_names_the_blocks_of_a_system_prompt_that_are_joined(model: str) -> None:
    prompt: list[Any] = [TextBlock("Rules.", MARK), "More."]
    body, notices = await _sent(model, [UserMessage("Hi")], system_prompt=prompt, rules=False)

    assert body["messages"][0] == {"role": "system", "content": "Rules.\nMore."}
    paths = {path for notice in notices for path in notice.paths}
    assert paths == {"system_prompt", "system_prompt[0].metadata.cache_control"}


def _added(provider: str, item: dict[str, Any]) -> SystemMessage:
    return SystemMessage([swink.ExtensionBlock(provider, item["type"], item)])


ADDITION = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}
MORE_TOOLS = {"type": "additional_tools", "role": "developer", "tools": []}


async def test_a_system_message_adds_a_tool_over_the_messages_api() -> None:
    tool = swink.Tool("f", metadata={"anthropic": {"defer_loading": True}})
    said: list[Message] = [UserMessage("Hi"), _added("anthropic", ADDITION)]
    body, notices = await _sent("anthropic/claude-opus-5-5", said, tools=[tool])

    assert body["messages"][-1] == {"role": "system", "content": [ADDITION]}
    assert notices == []


async def test_a_system_message_adds_tools_over_responses() -> None:
    said: list[Message] = [UserMessage("Hi"), _added("openai", MORE_TOOLS)]
    body, notices = await _sent("openai/gpt-5.4", said)

    assert body["input"] == [{"role": "user", "content": "Hi"}, MORE_TOOLS]
    assert notices == []


@pytest.mark.parametrize("provider", ["groq", "ollama", "mistral"])
async def test_an_extension_in_system_text_is_refused_where_that_is_one_string(
    provider: str,
) -> None:
    model = next(model for model in ONE_TEXT if model.startswith(provider))
    said: list[Message] = [_added(provider, ADDITION), UserMessage("Hi")]
    async with (
        swink.Client(retry=swink.RetryPolicy.none()) as client,
        client.stream(model, said, api_key="test") as stream,
    ):
        last = [event async for event in stream][-1]

    assert isinstance(last, swink.Error)
    assert last.error_kind is swink.StreamErrorKind.UNSUPPORTED


async def test_a_system_prompt_of_other_blocks_is_refused() -> None:
    prompt: Any = [swink.ImageBlock(swink.Base64Source("image/png", "aGk="))]
    async with swink.Client() as client:
        with pytest.raises(swink.InvalidContext, match=r"system_prompt\[0\]"):
            client.stream("openai/gpt-5.4", "Hi", system_prompt=prompt)


async def test_mappings_are_blocks_of_a_system_prompt() -> None:
    prompt: list[Any] = [{"type": "text", "text": "Rules.", "metadata": MARK}, "More."]
    said: list[Message] = [UserMessage("Hi")]
    body, _ = await _sent("anthropic/claude-opus-4-8", said, system_prompt=prompt)

    assert body["system"] == NATIVE[0].system
