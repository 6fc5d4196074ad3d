"""Test conversations, with the texts that a request must contain."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define

from swink_core import (
    AssistantMessage,
    Context,
    ExtensionBlock,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

__all__ = ["LOOK_UP", "Conversation", "begun_elsewhere", "conversations"]

LOOK_UP = Tool(
    "look_up",
    "Looks a word up.",
    {
        "type": "object",
        "properties": {"word": {"type": "string", "description": "ключ, 鍵, 🔑"}},
        "required": ["word"],
    },
)

_UNICODE = (
    "naïve — “quotes”, Ελληνικά, עברית, العربية, हिन्दी, 日本語, 한국어, "
    '👩‍👩‍👧‍👦 🇪🇺, e\u0301, \u200b, \u2028, \ufeff, \U0001f600, tab\t, quote " and \\ backslash'
)

_BLANKS = "\n\t  \n"

_FOREIGN_SIGNATURE = "signature-of-elsewhere-5b1d"
_FOREIGN_METADATA = "metadata-of-elsewhere-83ac"


@define
class Conversation:
    """A test conversation; `kept` are the texts that its request must contain."""

    name: str
    context: Context
    kept: tuple[str, ...] = ()


def conversations() -> Iterator[Conversation]:
    """Yield new copies of the test conversations."""
    yield Conversation("with no messages", Context([]))
    yield Conversation("with empty messages", _empty(), ("after emptiness",))
    yield Conversation("full of Unicode", _unicode(), (f"asked {_UNICODE}", f"ruled {_UNICODE}"))
    yield Conversation("full of tools", _tools(), ("first result", "second result", "look_up"))
    foreign, _ = begun_elsewhere()
    yield Conversation("begun on another provider", foreign, ("said elsewhere", "found elsewhere"))
    yield Conversation("with orphaned tool results", _orphans(), ("the question", "lost result"))
    rules = ("first rule", "second rule", "third rule", "last rule")
    yield Conversation("with system messages", _instructed(), rules)
    yield Conversation("with blanks at the ends", _blank(), (f"{_BLANKS}asked{_BLANKS}", _BLANKS))
    yield Conversation("cut short", _cut(), ("half an answer", "go on"))


def _said(text: str) -> AssistantMessage:
    return AssistantMessage([TextBlock(text)], stop_reason=StopReason.STOP)


def _call(number: int, name: str = "look_up", **arguments: str) -> ToolCallBlock:
    return ToolCallBlock(f"call_{number}", name, dict(arguments))


def _empty() -> Context:
    return Context(
        [
            UserMessage(""),
            AssistantMessage([]),
            UserMessage([]),
            AssistantMessage([TextBlock("")], stop_reason=StopReason.STOP),
            UserMessage("after emptiness"),
        ],
        system_prompt="",
    )


def _unicode() -> Context:
    asked = UserMessage(f"asked {_UNICODE}")
    return Context([asked, _said(_UNICODE), UserMessage(_UNICODE)], f"ruled {_UNICODE}")


def _count() -> Tool:
    """Return a tool whose schema has keywords that some APIs do not support."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://schemas.example/count",
        "title": "Count",
        "type": "object",
        "properties": {"up": {"type": "integer", "title": "Up", "default": 3, "examples": [7]}},
        "default": {},
        "examples": [{"up": 9}],
    }
    return Tool("count", "Counts.", schema)


def _tools() -> Context:
    return Context(
        [
            UserMessage("Look two words up, then count."),
            AssistantMessage(
                [TextBlock("At once."), _call(1, word="œuvre"), _call(2, word="κλειδί")],
                stop_reason=StopReason.TOOL_USE,
            ),
            ToolResultMessage("call_1", "look_up", "first result"),
            ToolResultMessage("call_2", "look_up", [TextBlock("second result")], is_error=True),
            AssistantMessage([_call(3, "count")], stop_reason=StopReason.TOOL_USE),
            ToolResultMessage("call_3", "count", ""),
            UserMessage("Thanks."),
        ],
        tools=[LOOK_UP, _count()],
    )


def begun_elsewhere() -> tuple[Context, tuple[str, ...]]:
    """Return a conversation begun with another provider.

    Also returns the texts in the conversation that may be sent only to the other provider.
    """
    metadata = {"elsewhere": _FOREIGN_METADATA}
    context = Context(
        [
            UserMessage("Look it up."),
            AssistantMessage(
                [
                    ThinkingBlock("Where is it?", _FOREIGN_SIGNATURE, metadata=metadata),
                    ThinkingBlock("", _FOREIGN_SIGNATURE, redacted=True),
                    TextBlock("said elsewhere", metadata),
                    ToolCallBlock("toolu_elsewhere|1", "look_up", {"word": "x"}, metadata=metadata),
                    ExtensionBlock("elsewhere", "search", {"query": _FOREIGN_METADATA}),
                ],
                provider="elsewhere",
                model="elsewhere-1",
                stop_reason=StopReason.TOOL_USE,
            ),
            ToolResultMessage("toolu_elsewhere|1", "look_up", "found elsewhere"),
            UserMessage("And now?"),
        ],
        tools=[LOOK_UP],
    )
    return context, (_FOREIGN_SIGNATURE, _FOREIGN_METADATA)


def _orphans() -> Context:
    return Context(
        [
            ToolResultMessage("call_9", "look_up", "lost result"),
            UserMessage("the question"),
            AssistantMessage([_call(1, word="x"), _call(2, word="y")]),
            UserMessage("Never mind."),
        ],
        tools=[LOOK_UP],
    )


def _instructed() -> Context:
    return Context(
        [
            SystemMessage("second rule"),
            UserMessage("Look it up."),
            AssistantMessage([_call(1, word="x")], stop_reason=StopReason.TOOL_USE),
            SystemMessage([TextBlock("third rule")]),
            ToolResultMessage("call_1", "look_up", "found"),
            SystemMessage(""),
            _said("Found."),
            UserMessage("And now?"),
            SystemMessage("last rule"),
        ],
        system_prompt="first rule",
        tools=[LOOK_UP],
    )


def _blank() -> Context:
    return Context([UserMessage(f"{_BLANKS}asked{_BLANKS}")], f"{_BLANKS}ruled{_BLANKS}")


def _cut() -> Context:
    return Context(
        [
            UserMessage("Begin."),
            AssistantMessage(
                [
                    ThinkingBlock("Where do I"),
                    TextBlock("half an answer"),
                    ToolCallBlock("call_1", "look_up", {}, '{"wor', "truncated"),
                ],
                stop_reason=StopReason.ABORTED,
            ),
            UserMessage("go on"),
        ]
    )
