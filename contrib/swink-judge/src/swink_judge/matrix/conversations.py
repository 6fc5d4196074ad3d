"""The conversations of the matrix. They contain unique values, which requests must contain too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    ImageBlock,
    Message,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
    replace,
)
from swink_judge.matrix.expected_values import Said, encoded

__all__ = ["LOOK_UP", "TEXT", "conversation", "conversation_names"]

LOOK_UP = Tool(
    "nonce_look_up",
    "nonce_looks_a_word_up",
    {
        "type": "object",
        "properties": {"nonce_word": {"type": "string", "description": "nonce_the_word"}},
        "required": ["nonce_word"],
    },
)
COUNT = Tool("nonce_count", "nonce_counts", {"type": "object", "properties": {}})


PNG = encoded(b"\x89PNG\r\n\x1a\n nonce of png")
PDF = encoded(b"%PDF-1.4\n nonce of pdf")
WAV = encoded(b"RIFF\x26\0\0\0WAVEfmt  nonce of wav")
TEXT = encoded(b"nonce_of_a_text_file")
_NAME = "nonce_page.v1 (2).pdf"


def _answer(*content: Block, reason: StopReason = StopReason.STOP) -> AssistantMessage:
    return AssistantMessage(list(content), stop_reason=reason)


def _calls(*calls: ToolCallBlock) -> AssistantMessage:
    return _answer(*calls, reason=StopReason.TOOL_USE)


def _call(id: str, name: str = LOOK_UP.name, word: str = "nonce_argument") -> ToolCallBlock:
    arguments = {"nonce_word": word} if name != COUNT.name else {}
    return ToolCallBlock(id, name, arguments)


def _asked(*blocks: Block) -> Context:
    return Context([UserMessage([TextBlock("nonce_question"), *blocks])])


def _used(
    *between: Any, ids: tuple[str, ...] = ("call_nonceA",), tools: tuple[Tool, ...] = (LOOK_UP,)
) -> Context:
    """Return a conversation with a tool call, its result, and then the messages `between`."""
    results = [ToolResultMessage(id, LOOK_UP.name, f"nonce_result{n}") for n, id in enumerate(ids)]
    calls = [_call(id, word=f"nonce_argument{n}") for n, id in enumerate(ids)]
    messages: list[Message] = [UserMessage("nonce_question"), _calls(*calls), *results, *between]
    return Context(messages, tools=list(tools))


def _named(name: str) -> Context:
    """Return a conversation that calls a tool of this name once."""
    call, result = _call("call_nonceA", name), ToolResultMessage("call_nonceA", name, "nonce_found")
    messages: list[Message] = [UserMessage("nonce_question"), _calls(call), result]
    return Context(messages, tools=[replace(LOOK_UP, name=name)])


def _schema(schema: dict[str, Any], strict: bool | None = None) -> Context:
    tool = Tool("nonce_odd", "nonce_odd_schema", schema)
    if strict is not None:
        tool = replace(tool, strict=strict)
    return Context([UserMessage("nonce_question")], tools=[tool])


def _foreign_thinking() -> AssistantMessage:
    """Return an answer of another provider, with reasoning and a tool call."""
    thought = ThinkingBlock("nonce_foreign", "c2lnbmF0dXJl")
    content: list[Block] = [thought, TextBlock("nonce_said"), _call("toolu_01AbCdEfGhIjKlMnOpQr")]
    return AssistantMessage(
        content, provider="elsewhere", model="elsewhere-1", stop_reason=StopReason.TOOL_USE
    )


_OBJECT: dict[str, Any] = {"type": "object"}
_DEEP = {
    "type": "object",
    "properties": {
        "nonce_a": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "nonce_b": {"type": ["integer", "null"], "exclusiveMinimum": 0, "multipleOf": 2},
        "nonce_c": {"$ref": "#/$defs/inner"},
        "nonce_e": {"const": "nonce_only", "title": "nonce_title"},
        "nonce_f": {"type": "object", "additionalProperties": {"type": "string"}},
        "nonce_g": {"enum": ["nonce_h", "nonce_i"], "default": "nonce_h"},
        "nonce_j": {"type": "string", "pattern": "^nonce_k+$", "minLength": 1, "maxLength": 99},
    },
    "$defs": {"inner": {"type": "object", "properties": {"nonce_l": {"type": "boolean"}}}},
    "additionalProperties": False,
}

_MARKS = {
    "cache_control": {"type": "ephemeral"},
    "cachePoint": {"type": "default"},
    "prompt_cache_breakpoint": {"mode": "explicit"},
}
"""The fields that mark a block for prompt caching in different APIs."""

_BLANKS = [" " * (5 + n) + "\n" + "\t" * (3 + n) for n in range(5)]
"""Texts of white space only, all different."""

_MADE: dict[str, Callable[[], Context]] = {
    "plain": lambda: Context([UserMessage("nonce_question")]),
    "system prompt": lambda: Context([UserMessage("nonce_question")], "nonce_rule"),
    "system message inside": lambda: Context(
        [
            UserMessage("nonce_question"),
            _answer(TextBlock("nonce_answer")),
            SystemMessage("nonce_rule_inside"),
            UserMessage("nonce_more"),
        ],
        "nonce_rule",
    ),
    "system message last": lambda: Context(
        [UserMessage("nonce_question"), SystemMessage("nonce_rule_inside")]
    ),
    "marks for the cache": lambda: Context(
        [UserMessage([TextBlock("nonce_question", dict(_MARKS)), TextBlock("nonce_more")])],
        "nonce_rule",
    ),
    "four marks for the cache": lambda: _asked(
        *(TextBlock(f"nonce_part{n}", dict(_MARKS)) for n in range(4)), TextBlock("nonce_more")
    ),
    "system message after results": lambda: _used(SystemMessage("nonce_rule_inside")),
    "blank texts": lambda: Context(
        [
            UserMessage("nonce_question"),
            _answer(TextBlock(_BLANKS[0]), TextBlock("nonce_said"), TextBlock(_BLANKS[1])),
            UserMessage(_BLANKS[2]),
            _answer(TextBlock(_BLANKS[3])),
            UserMessage([TextBlock("nonce_more"), TextBlock(_BLANKS[4])]),
        ]
    ),
    "metadata that no API knows": lambda: Context(
        [UserMessage([TextBlock("nonce_question", {"odd": "nonce_field"})])]
    ),
    "unfinished answer": lambda: Context(
        [
            UserMessage("nonce_question"),
            AssistantMessage(
                [
                    ThinkingBlock("nonce_thought"),
                    TextBlock("nonce_begun"),
                    ToolCallBlock("call_nonceA", LOOK_UP.name, {}, '{"nonce', "truncated"),
                ],
                stop_reason=StopReason.ERROR,
            ),
            UserMessage("nonce_more"),
        ],
        tools=[LOOK_UP],
    ),
    "what another provider made": lambda: Context(
        [
            UserMessage("nonce_question"),
            AssistantMessage(
                [
                    ExtensionBlock("elsewhere", "search", {"query": "nonce_searched"}),
                    TextBlock("nonce_said", {"citations": ["nonce_cited"]}),
                ],
                provider="elsewhere",
            ),
            UserMessage("nonce_more"),
        ]
    ),
    "system alone": lambda: Context([], "nonce_rule"),
    "turns": lambda: Context(
        [
            UserMessage("nonce_question"),
            _answer(TextBlock("nonce_answer")),
            UserMessage("nonce_more"),
        ]
    ),
    "two users": lambda: Context([UserMessage("nonce_question"), UserMessage("nonce_more")]),
    "two answers": lambda: Context(
        [
            UserMessage("nonce_question"),
            _answer(TextBlock("nonce_answer")),
            _answer(TextBlock("nonce_again")),
            UserMessage("nonce_more"),
        ]
    ),
    "assistant first": lambda: Context(
        [_answer(TextBlock("nonce_answer")), UserMessage("nonce_question")]
    ),
    "prefill": lambda: Context([UserMessage("nonce_question"), _answer(TextBlock("nonce_begun"))]),
    "prefill with space": lambda: Context(
        [UserMessage("nonce_question"), _answer(TextBlock("nonce_begun "))]
    ),
    "empty texts": lambda: Context(
        [
            UserMessage("nonce_question"),
            _answer(TextBlock("")),
            UserMessage([TextBlock(""), TextBlock(" "), TextBlock("nonce_more")]),
        ],
        "",
    ),
    "image": lambda: _asked(ImageBlock(Base64Source("image/png", PNG))),
    "image of another type": lambda: _asked(ImageBlock(Base64Source("image/tiff", PNG))),
    "image by URL": lambda: _asked(ImageBlock(UrlSource("https://nonce.example/i.png"))),
    "document": lambda: _asked(DocumentBlock(Base64Source("application/pdf", PDF), _NAME)),
    "document by URL": lambda: _asked(
        DocumentBlock(UrlSource("https://nonce.example/d.pdf"), "noncename")
    ),
    "text document": lambda: _asked(DocumentBlock(Base64Source("text/plain", TEXT), "nonce.txt")),
    "document alone": lambda: Context(
        [UserMessage([DocumentBlock(Base64Source("application/pdf", PDF))])]
    ),
    "audio": lambda: _asked(AudioBlock(Base64Source("audio/wav", WAV))),
    "audio of another type": lambda: _asked(AudioBlock(Base64Source("audio/ogg", WAV))),
    "tools": lambda: Context([UserMessage("nonce_question")], tools=[LOOK_UP, COUNT]),
    "strict tool": lambda: Context(
        [UserMessage("nonce_question")], tools=[replace(LOOK_UP, strict=True)]
    ),
    "tool without description": lambda: Context(
        [UserMessage("nonce_question")], tools=[replace(LOOK_UP, description="")]
    ),
    "many tools": lambda: Context(
        [UserMessage("nonce_question")],
        tools=[replace(LOOK_UP, name=f"nonce_tool{n}") for n in range(130)],
    ),
    "tool used": _used,
    "tool used, then a user": lambda: _used(UserMessage("nonce_more")),
    "tool used, then an answer": lambda: _used(_answer(TextBlock("nonce_answer"))),
    "tool used and taken away": lambda: _used(UserMessage("nonce_more"), tools=()),
    "parallel calls": lambda: _used(ids=("call_nonceA", "call_nonceB", "call_nonceC")),
    "same id twice": lambda: _used(
        _calls(_call("call_nonceA", word="nonce_argument9")),
        ToolResultMessage("call_nonceA", LOOK_UP.name, "nonce_result9"),
    ),
    "odd ids": lambda: _used(ids=("functions.look up:2", "ü|4", "nonce" * 20)),
    "failed result": lambda: Context(
        [
            UserMessage("nonce_question"),
            _calls(_call("call_nonceA", COUNT.name)),
            ToolResultMessage("call_nonceA", COUNT.name, "nonce_failure", is_error=True),
        ],
        tools=[COUNT],
    ),
    "empty result": lambda: Context(
        [
            UserMessage("nonce_question"),
            _calls(_call("call_nonceA", COUNT.name)),
            ToolResultMessage("call_nonceA", COUNT.name, ""),
        ],
        tools=[COUNT],
    ),
    "image in a result": lambda: Context(
        [
            UserMessage("nonce_question"),
            _calls(_call("call_nonceA")),
            ToolResultMessage(
                "call_nonceA",
                LOOK_UP.name,
                [TextBlock("nonce_result"), ImageBlock(Base64Source("image/png", PNG))],
            ),
        ],
        tools=[LOOK_UP],
    ),
    "call without a result": lambda: Context(
        [UserMessage("nonce_question"), _calls(_call("call_nonceA")), UserMessage("nonce_more")],
        tools=[LOOK_UP],
    ),
    "result without a call": lambda: Context(
        [
            UserMessage("nonce_question"),
            _answer(TextBlock("nonce_answer")),
            ToolResultMessage("call_nonceA", LOOK_UP.name, "nonce_result"),
            UserMessage("nonce_more"),
        ],
        tools=[LOOK_UP],
    ),
    "foreign thinking": lambda: Context(
        [
            UserMessage("nonce_question"),
            _foreign_thinking(),
            ToolResultMessage("toolu_01AbCdEfGhIjKlMnOpQr", LOOK_UP.name, "nonce_found"),
        ],
        tools=[LOOK_UP],
    ),
    "tool name with dots": lambda: _named("nonce.look/up"),
    "tool name with spaces": lambda: _named("nonce look up"),
    "tool name of a digit": lambda: _named("1nonce"),
    "tool name of 70": lambda: _named("nonce_" + "x" * 64),
    "tool name of 140": lambda: _named("nonce_" + "x" * 134),
    "tool name beyond ASCII": lambda: _named("nonce_größe"),
    "schema empty": lambda: _schema({}),
    "schema of nothing": lambda: _schema(_OBJECT),
    "schema deep": lambda: _schema(_DEEP),
    "schema deep and strict": lambda: _schema(_DEEP, True),
    "schema anyOf at the root": lambda: _schema(
        {"anyOf": [{**_OBJECT, "properties": {"nonce_a": {"type": "string"}}}, _OBJECT]}
    ),
    "schema of an array": lambda: _schema(
        {"type": "object", "properties": {"nonce_a": {"type": "array"}}}
    ),
    "schema with odd keys": lambda: _schema(
        {"type": "object", "properties": {"nonce.a/b c": {"type": "string"}}}
    ),
}

_PARTS: dict[str, dict[str, Any]] = {
    name: {"text": "nonce_extension"} for name in ("bedrock", "gemini")
}
"""A text part of a message, for providers whose format differs from Chat Completions."""


_OF_TWO_APIS = ("openai", "azure", "xai", "vertex")
"""Providers whose models use one of two APIs, with different forms of message parts."""


def _thought(provider: str) -> Context:
    """Return a conversation that contains reasoning signed by `provider`."""
    thought = ThinkingBlock("nonce_thought", "c2lnbmF0dXJl")
    content: list[Block] = [thought, TextBlock("nonce_said"), _call("call_nonceA")]
    answer = AssistantMessage(content, provider=provider, stop_reason=StopReason.TOOL_USE)
    result = ToolResultMessage("call_nonceA", LOOK_UP.name, "nonce_found")
    return Context([UserMessage("nonce_question"), answer, result], tools=[LOOK_UP])


def _extended(provider: str) -> Context:
    if provider in _OF_TWO_APIS:
        return _asked()
    part = _PARTS.get(provider, {"type": "text", "text": "nonce_extension"})
    return _asked(ExtensionBlock(provider, "part", part))


_OWN: dict[str, Callable[[str], Context]] = {
    "document by its id": lambda provider: _asked(
        DocumentBlock(FileIdSource(provider, "file_nonce1"), "noncename")
    ),
    "image by its id": lambda provider: _asked(ImageBlock(FileIdSource(provider, "file_nonce2"))),
    "own thinking": _thought,
    "own part": _extended,
}
"""Conversations with content that only one provider understands, such as ids of uploaded files."""


def conversation_names() -> list[str]:
    """Return the names of all conversations."""
    return [*_MADE, *_OWN]


def conversation(name: str, provider: str = "") -> Said:
    """Create the conversation with this name, for a call to `provider`."""
    return Said(name, _OWN[name](provider) if name in _OWN else _MADE[name]())
