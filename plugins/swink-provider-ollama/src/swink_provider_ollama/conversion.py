"""Convert conversations for Ollama's chat API.

https://github.com/ollama/ollama/blob/main/docs/api.md#generate-a-chat-completion: a request
contains a list of messages. The content of a message is one string. Separate fields contain its
images as base64 (not as data URLs), its tool calls with arguments as objects, and reasoning in
`thinking`.
"""

from __future__ import annotations

from typing import Any

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Context,
    DocumentBlock,
    ExtensionBlock,
    ImageBlock,
    Message,
    ThinkingBlock,
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
    unsupported,
    with_metadata,
)

__all__ = ["conversation"]


def conversation(context: Context, provider: str) -> dict[str, Any]:
    """Return `messages` and, if present, `tools`.

    Raises ProviderFailure (`unsupported`) for an image given by a URL, because Ollama does not
    fetch URLs. Raises MediaError for a file that cannot be read.
    """
    messages = _OllamaConverter(provider).messages(context)
    if context.system_prompt:
        messages.insert(0, {"role": "system", "content": context.system_prompt})
    native: dict[str, Any] = {"messages": messages}
    if context.tools:
        native["tools"] = [_tool(tool, provider) for tool in context.tools]
    return native


class _OllamaConverter(MessageConverter):
    block_fields = ()

    def user(self, message: UserMessage) -> list[Any]:
        return _unless_empty({"role": "user", **self._content(message)})

    def assistant(self, message: AssistantMessage) -> list[Any]:
        calls = [_tool_call(call) for call in self.take(message, ToolCallBlock)]
        self.take(message, ThinkingBlock)
        native: dict[str, Any] = {"role": "assistant", **self._content(message)}
        native["content"] = message.text
        if message.thinking:
            native["thinking"] = message.thinking
        if calls:
            native["tool_calls"] = calls
        return _unless_empty(native)

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        return [self._tool_result(message) for message in messages]

    def _tool_result(self, message: ToolResultMessage) -> dict[str, Any]:
        native = {"role": "tool", "tool_name": message.tool_name, **self._content(message)}
        if message.is_error:  # the API has no other field for it
            native["content"] = f"Error: {native['content']}"
        if not is_synthetic_id(message.tool_call_id):
            native["tool_call_id"] = message.tool_call_id
        return native

    def _content(self, message: Message) -> dict[str, Any]:
        native: dict[str, Any] = {"content": self.text(message)}
        if images := [_image(block) for block in self.take(message, ImageBlock)]:
            native["images"] = images
        for block in () if isinstance(message.content, str) else message.content:
            if isinstance(block, DocumentBlock | AudioBlock | ExtensionBlock):
                self.leave_out(block, f"Ollama does not support {block.type}; it was not sent")
        return native


def _unless_empty(native: dict[str, Any]) -> list[Any]:
    """Return a list of the message, or an empty list if only metadata was in its empty texts."""
    return [native] if native["content"] or native.keys() - {"role", "content"} else []


def _image(block: ImageBlock) -> str:
    source = media_base64(block.source)
    if source is None:
        what = "Ollama accepts images only as data, not as URLs"
        raise unsupported("images", f"{what}: pass a file, or its data")
    return source.data


def _tool_call(call: ToolCallBlock) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_object(call)}
    native: dict[str, Any] = {"function": function}
    if not is_synthetic_id(call.id):
        native["id"] = call.id
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
