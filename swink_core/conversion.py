"""Conversations into a provider's terms, and conversations that began elsewhere.

`normalise` states the rules by which a conversation begun on one provider continues on another;
no converter changes the context it is given.

1. What another provider marked as its own (thinking, extensions, metadata) is left out: a
   signature is worth nothing elsewhere, and reasoning is not speech. Text and tool calls stay.
2. An answer cut short keeps its text; its unfinished tool calls and unsigned thinking go.
3. A tool call that was never answered gets an error result, since every API wants one.
4. A result whose call is gone becomes the user's words.
5. Messages that end up empty are left out.
"""

from __future__ import annotations

import base64
import mimetypes
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import evolve

from swink_core.errors import InvalidContext, MediaError
from swink_core.messages import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileSource,
    ImageBlock,
    Message,
    Source,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.model import StreamOptions
from swink_core.outcome import StopReason

__all__ = [
    "MessageConverter",
    "check_context",
    "closed_schema",
    "media_base64",
    "media_type_of",
    "merged_turns",
    "normalise",
    "required_features",
    "text_of",
]

NO_RESULT = "No result: the call was not carried out."


def text_of(content: str | Sequence[Block]) -> str:
    """Join the text of a message's content, leaving everything else out."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextBlock))


def media_type_of(source: Source) -> str | None:
    """Return a source's media type, for a file or address by its suffix if need be."""
    if source.media_type or isinstance(source, Base64Source):
        return source.media_type
    name = source.path if isinstance(source, FileSource) else urlsplit(source.url).path
    return mimetypes.guess_type(name)[0]


def media_base64(source: Source) -> Base64Source | None:
    """Return media as base64, reading a file; `None` for an address.

    Raises MediaError for a file that cannot be read or whose type is unknown.
    """
    if isinstance(source, Base64Source):
        return source
    if not isinstance(source, FileSource):
        return None
    try:
        data = Path(source.path).read_bytes()
    except OSError as error:
        raise MediaError(
            f"{source.path}: {error.strerror or error}",
            resolution="Check that the file exists and may be read.",
        ) from error
    media_type = media_type_of(source)
    if media_type is None:
        raise MediaError(
            f"{source.path}: the kind of media cannot be told from the name",
            resolution="Pass media_type=…, for example image/png.",
        )
    return Base64Source(media_type, base64.b64encode(data).decode())


def closed_schema(schema: Any) -> Any:
    """Return a JSON schema whose every object says that it has no other properties.

    For APIs that take no others. An object that says what it thinks of them is left alone.
    """
    if isinstance(schema, list):
        return [closed_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {name: closed_schema(value) for name, value in schema.items()}
    kind = closed.get("type")
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        closed.setdefault("additionalProperties", False)
    return closed


def required_features(context: Context, options: StreamOptions) -> set[str]:
    """Name the features without which a call would lose its meaning."""
    wanted = set()
    if context.tools:
        wanted.add("tools")
    if isinstance(options.response_format, str):
        wanted.add("json")
    elif options.response_format is not None:
        wanted.add("structured_output")
    if options.stop:
        wanted.add("stop")
    if options.tool_choice not in (None, "auto"):
        wanted.add("tool_choice")
    for message in context.messages:
        if isinstance(message, AssistantMessage) or isinstance(message.content, str):
            continue
        for block in message.content:
            if isinstance(block, ImageBlock | DocumentBlock | AudioBlock):
                wanted.add(block.type if block.type == "audio" else f"{block.type}s")
    return wanted


def check_context(context: Context) -> None:
    """Refuse a conversation that no provider accepts.

    Raises InvalidContext, which names the message and the fault, or MediaError for a file.
    """
    if not context.messages:
        raise InvalidContext(
            "the conversation is empty", resolution="Pass at least one user message."
        )
    calls: set[str] = set()
    for number, message in enumerate(context.messages):
        if not isinstance(message, Message):
            raise InvalidContext(
                f"message {number} is a {type(message).__name__}",
                resolution="Use UserMessage, AssistantMessage or ToolResultMessage.",
            )
        _check_content(number, message)
        if isinstance(message, AssistantMessage):
            calls.update(block.id for block in message.tool_calls)
        elif isinstance(message, ToolResultMessage) and message.tool_call_id not in calls:
            raise InvalidContext(
                f"message {number} answers tool call {message.tool_call_id!r}, which no message "
                "before it makes",
                resolution="Keep the assistant message with the call before its result.",
            )
    if not isinstance(context.system_prompt, str | None):
        raise InvalidContext(
            f"the system prompt is a {type(context.system_prompt).__name__}",
            resolution="Pass it as a string.",
        )
    _check_tools(context.tools)


def _check_content(number: int, message: Message) -> None:
    content: object = message.content
    if isinstance(content, str) and not isinstance(message, AssistantMessage):
        return
    if not isinstance(content, list | tuple):
        raise InvalidContext(
            f"message {number}: content is a {type(content).__name__}",
            resolution="Pass a list of blocks, or a string where the model is not speaking.",
        )
    for block in content:
        if not isinstance(block, Block):
            raise InvalidContext(
                f"message {number} holds a {type(block).__name__}",
                resolution="Use the blocks of swink_core: TextBlock, ImageBlock, …",
            )
        if isinstance(block, TextBlock) and not isinstance(block.text, str):
            raise InvalidContext(
                f"message {number}: text is a {type(block.text).__name__}",
                resolution="Leave a block without text out.",
            )
        source = getattr(block, "source", None)
        if isinstance(source, FileSource):
            media_base64(source)


def _check_tools(tools: Sequence[Tool]) -> None:
    names: set[str] = set()
    for number, tool in enumerate(tools):
        if not isinstance(tool, Tool):
            raise InvalidContext(
                f"tool {number} is a {type(tool).__name__}", resolution="Use Tool."
            )
        if not tool.name:
            raise InvalidContext(f"tool {number} has no name", resolution="Give it one.")
        if tool.name in names:
            raise InvalidContext(
                f"two tools are called {tool.name!r}", resolution="Give each tool its own name."
            )
        names.add(tool.name)


def normalise(context: Context, provider: str) -> list[Message]:
    """Return the messages as `provider` may see them, by the rules above."""
    result: list[Message] = []
    waiting: dict[str, ToolCallBlock] = {}
    words: list[Message] = []  # of results without a call; said when the others are in

    def settle() -> None:
        for call in waiting.values():
            result.append(ToolResultMessage(call.id, call.name, NO_RESULT, is_error=True))
        result.extend(words)
        waiting.clear()
        words.clear()

    for message in context.messages:
        if isinstance(message, ToolResultMessage):
            if waiting.pop(message.tool_call_id, None) is None:
                words.append(_in_words(message))
            else:
                result.append(message)
            continue
        settle()
        if isinstance(message, UserMessage):
            if words_and_media := _user_content(message.content):
                result.append(evolve(message, content=words_and_media))
            continue
        own = message.provider is None or message.provider == provider
        cut = message.stop_reason in (StopReason.ERROR, StopReason.ABORTED)
        content = [kept for block in message.content if (kept := _keep(block, provider, own, cut))]
        if content:
            result.append(evolve(message, content=content))
            waiting.update((b.id, b) for b in content if isinstance(b, ToolCallBlock))
    settle()
    return result


def _in_words(message: ToolResultMessage) -> UserMessage:
    words = f"[result of {message.tool_name}] {text_of(message.content)}"
    media = [block for block in message.content if not isinstance(block, str | TextBlock)]
    return UserMessage([TextBlock(words), *media] if media else words)


def _user_content(content: str | list[Block]) -> str | list[Block]:
    if isinstance(content, str):
        return content
    return [b for b in content if not isinstance(b, TextBlock) or b.text or b.metadata]


def _keep(block: Block, provider: str, own: bool, cut: bool) -> Block | None:
    if isinstance(block, ExtensionBlock):
        return block if block.provider == provider else None
    if isinstance(block, ThinkingBlock):
        signed = block.signature is not None or block.metadata is not None
        return block if own and (signed or not cut) else None
    if isinstance(block, ToolCallBlock):
        if cut and block.state != "complete":
            return None
        return block if own or block.metadata is None else evolve(block, metadata=None)
    if isinstance(block, TextBlock):
        if not block.text and not (own and block.metadata):
            return None
        return block if own or block.metadata is None else evolve(block, metadata=None)
    return block


def merged_turns(
    messages: Sequence[dict[str, Any]], parts: str = "content"
) -> list[dict[str, Any]]:
    """Join native messages of one role that follow one another, where turns alternate.

    `parts` is the key of the list that each message holds beside its `role`.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        if turns and turns[-1]["role"] == message["role"]:
            turns[-1] = {**turns[-1], parts: [*turns[-1][parts], *message[parts]]}
        else:
            turns.append(message)
    return turns


class MessageConverter(ABC):
    """Converts a conversation message by message; a provider says how each kind is written.

    Each method returns the native messages that one of ours becomes, often one. Consecutive
    tool results come together, since many APIs want them in one turn.
    """

    def __init__(self, provider: str) -> None:
        self.provider = provider

    def messages(self, context: Context) -> list[Any]:
        """Return the native messages of a whole conversation."""
        native: list[Any] = []
        results: list[ToolResultMessage] = []
        for message in normalise(context, self.provider):
            if isinstance(message, ToolResultMessage):
                results.append(message)
                continue
            if results:
                native.extend(self.tool_results(results))
                results = []
            if isinstance(message, UserMessage):
                native.extend(self.user(message))
            else:
                native.extend(self.assistant(message))
        if results:
            native.extend(self.tool_results(results))
        return native

    @abstractmethod
    def user(self, message: UserMessage) -> list[Any]:
        """Convert what the user says."""

    @abstractmethod
    def assistant(self, message: AssistantMessage) -> list[Any]:
        """Convert what the model said."""

    @abstractmethod
    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        """Convert results that follow one another."""
