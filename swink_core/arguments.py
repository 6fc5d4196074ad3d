"""What a call was given, checked."""

from __future__ import annotations

from collections.abc import Sequence

from swink_core.failures.exceptions import InvalidContext
from swink_core.providers.media import media_base64
from swink_core.vocabulary.messages import (
    AssistantMessage,
    Block,
    Context,
    FileSource,
    Message,
    TextBlock,
    Tool,
    ToolResultMessage,
)


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
