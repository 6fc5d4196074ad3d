"""Conversations as Ollama's chat API wants them.

https://github.com/ollama/ollama/blob/main/docs/api.md#generate-a-chat-completion: a list of
messages whose content is one string, with images beside it as bare base64, tool calls whose
arguments are objects, and reasoning in `thinking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from swink_core import (
    AssistantMessage,
    Block,
    Context,
    ImageBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.providers import (
    MessageConverter,
    arguments_object,
    is_synthetic_id,
    media_base64,
    text_of,
    unsupported,
    with_metadata,
)

__all__ = ["conversation"]


def conversation(context: Context, provider: str) -> dict[str, Any]:
    """Return `messages` and, where there are any, `tools`.

    Raises ProviderFailure (`unsupported`) for an image that is only an address, since Ollama
    fetches nothing, and MediaError for a file that cannot be read.
    """
    messages = _OllamaConverter(provider).messages(context)
    if context.system_prompt:
        messages.insert(0, {"role": "system", "content": context.system_prompt})
    native: dict[str, Any] = {"messages": messages}
    if context.tools:
        native["tools"] = [_tool(tool, provider) for tool in context.tools]
    return native


class _OllamaConverter(MessageConverter):
    def user(self, message: UserMessage) -> list[Any]:
        return [{"role": "user", **_content(message.content)}]

    def assistant(self, message: AssistantMessage) -> list[Any]:
        native: dict[str, Any] = {"role": "assistant", **_content(message.content)}
        native["content"] = message.text
        if message.thinking:
            native["thinking"] = message.thinking
        if message.tool_calls:
            native["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
        return [native]

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        return [_tool_result(message) for message in messages]


def _content(content: str | Sequence[Block]) -> dict[str, Any]:
    native: dict[str, Any] = {"content": text_of(content)}
    if not isinstance(content, str) and (
        images := [_image(block) for block in content if isinstance(block, ImageBlock)]
    ):
        native["images"] = images
    return native


def _image(block: ImageBlock) -> str:
    source = media_base64(block.source)
    if source is None:
        what = "Ollama takes images as data, not by their address"
        raise unsupported("images", f"{what}: pass a file, or its data")
    return source.data


def _tool_call(call: ToolCallBlock) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_object(call)}
    native: dict[str, Any] = {"function": function}
    if not is_synthetic_id(call.id):
        native["id"] = call.id
    return native


def _tool_result(message: ToolResultMessage) -> dict[str, Any]:
    native = {"role": "tool", "tool_name": message.tool_name, **_content(message.content)}
    if message.is_error:  # the API has no other place to say so
        native["content"] = f"Error: {native['content']}"
    if not is_synthetic_id(message.tool_call_id):
        native["tool_call_id"] = message.tool_call_id
    return native


def _tool(tool: Tool, provider: str) -> dict[str, Any]:
    native = {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }
    return with_metadata(native, tool, provider)
