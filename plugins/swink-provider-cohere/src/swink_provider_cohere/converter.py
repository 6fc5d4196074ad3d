"""Convert conversations for Cohere's chat API: https://docs.cohere.com/reference/chat.

The system prompt is the first message. Documents are a separate field, and the model cites them by
id. An answer with tool calls contains no text: any text before the calls is sent in the field
`tool_plan` or, to a reasoning model, as thinking.
"""

from __future__ import annotations

import json
from typing import Any

from swink_core import (
    AssistantMessage,
    Block,
    Context,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core.providers import (
    SENT_ELSEWHERE,
    LeftOut,
    MessageConverter,
    arguments_object,
    media_base64,
    media_form,
    report_change,
    system_blocks,
    unsupported,
    with_metadata,
)
from swink_provider_cohere.parser import PLAN

__all__ = ["conversation", "loose_tools"]

IMAGES = {f"image/{kind}": f"image/{kind}" for kind in ("gif", "jpeg", "png", "webp")}
IMAGES["image/jpg"] = "image/jpeg"
"""Source: https://docs.cohere.com/docs/image-inputs"""

DOCUMENTS = {"text/*": "text/plain", "application/json": "application/json"}


def conversation(context: Context, provider: str, thinks: bool) -> dict[str, Any]:
    """Return `messages` and, if present, `documents`, `tools` and `strict_tools`.

    `thinks` means that the model accepts the thinking in earlier answers; other models accept
    `tool_plan` instead. Raises MediaError for a file that cannot be read, and ProviderFailure
    (`unsupported`) for media that the API does not accept.
    """
    system, context = system_blocks(context)
    converter = _Converter(provider, thinks)
    messages = converter.messages(context)
    if system:
        parts = [{"type": "text", "text": b.text} for b in system if isinstance(b, TextBlock)]
        content = parts if len(parts) > 1 else parts[0]["text"]
        messages.insert(0, {"role": "system", "content": content})
    native: dict[str, Any] = {"messages": messages}
    if converter.documents:
        native["documents"] = converter.documents
    if context.tools:
        native["tools"] = [_tool(tool, provider) for tool in context.tools]
        if any(tool.strict for tool in context.tools) and not loose_tools(context):
            native["strict_tools"] = True
    return native


def loose_tools(context: Context) -> list[str]:
    """Return the names of tools without a required parameter, if the caller requests strict mode.

    Strict mode applies to all tools of a call, and each of them needs a required parameter
    (https://docs.cohere.com/docs/structured-outputs).
    """
    if not any(tool.strict for tool in context.tools):
        return []
    return [tool.name for tool in context.tools if not tool.parameters.get("required")]


class _Converter(MessageConverter):
    block_fields = ("detail",)

    def __init__(self, provider: str, thinks: bool) -> None:
        super().__init__(provider)
        self.documents: list[dict[str, Any]] = []
        self._thinks = thinks

    def user(self, message: UserMessage) -> list[Any]:
        if isinstance(message.content, str):
            return [{"role": "user", "content": message.content}]
        documents = self.take(message, DocumentBlock)
        parts = self.blocks(message, _said)
        if not parts:  # a message cannot be empty, so a document alone is sent as its text
            parts = [{"type": "text", "text": self._document_text(block)} for block in documents]
            for block in documents:
                if block.name:
                    report_change(f"{self.path(block)}.name", NAMELESS, "metadata_left_out")
        else:
            for block in documents:
                self.documents.append(self._document(block, f"doc:{len(self.documents)}"))
        return [{"role": "user", "content": parts}] if parts else []

    def assistant(self, message: AssistantMessage) -> list[Any]:
        native: dict[str, Any] = {"role": "assistant"}
        spoken = [block for block in message.content if isinstance(block, TextBlock)]
        if calls := self.take(message, ToolCallBlock):
            thoughts = self.take(message, ThinkingBlock)
            self.take(message, TextBlock)
            self._leave_out_rest(message)
            native["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": _arguments(call)},
                }
                for call in calls
            ]
            before = [block.thinking for block in thoughts] + [block.text for block in spoken]
            if (said := [words for words in before if words.strip()]) and self._thinks:
                native["content"] = [{"type": "thinking", "thinking": words} for words in said]
            elif said:
                native["tool_plan"] = "\n".join(said)
            return [native]
        native["content"] = self.blocks(message, self._answered)
        cited = [c for block in spoken for c in (block.metadata or {}).get("citations", ())]
        if cited:
            native["citations"] = cited
        return [native] if native["content"] else []

    def _answered(self, block: Block) -> dict[str, Any] | LeftOut:
        if isinstance(block, TextBlock):
            return {"type": "text", "text": block.text} if block.text.strip() else BLANK
        if not isinstance(block, ThinkingBlock):
            return NO_PLACE
        if (block.metadata or {}).get(PLAN):
            return LeftOut("the plan of an answer without tool calls was not sent", THOUGHT)
        if block.thinking and self._thinks:
            return {"type": "thinking", "thinking": block.thinking}
        return LeftOut("reasoning was not sent, because the model does not accept it", THOUGHT)

    def _leave_out_rest(self, message: AssistantMessage) -> None:
        for block in message.content:
            if not isinstance(block, TextBlock | ThinkingBlock | ToolCallBlock):
                self.leave_out(block, NO_PLACE.what)
            elif isinstance(block, TextBlock) and not block.text.strip():
                self.leave_out(block, BLANK.what)

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        """Convert tool results, and put their images into a user message after the results.

        The API accepts images only in user messages.
        """
        images: list[Any] = []
        for message in messages:
            if shown := [_said(block) for block in self.take(message, ImageBlock)]:
                images += [{"type": "text", "text": f"From {message.tool_name}:"}, *shown]
        asked = [{"role": "user", "content": images}] if images else []
        return [*map(self._tool_result, messages), *asked]

    def _tool_result(self, message: ToolResultMessage) -> dict[str, Any]:
        words = self.text(message)
        if message.is_error:  # the API has no other field for it
            words = f"Error: {words}"
        found = [
            {"type": "document", "document": self._document(block, f"{message.tool_call_id}:{n}")}
            for n, block in enumerate([] if isinstance(message.content, str) else message.content)
            if isinstance(block, DocumentBlock)
        ]
        self.take(message, DocumentBlock)
        said = [{"type": "text", "text": words}] if words else []
        content = [*said, *found] if found else words or "{}"  # the API refuses empty text
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}

    def _document(self, block: DocumentBlock, id: str) -> dict[str, Any]:
        title = {"title": block.name} if block.name else {}
        return {"id": id, "data": {**title, "text": self._document_text(block)}}

    def _document_text(self, block: DocumentBlock) -> str:
        media_form(block.source, DOCUMENTS, "documents")
        data = media_base64(block.source)
        if data is None:
            raise unsupported("documents", "Cohere accepts documents as text, not as URLs")
        return self.document_text(block, data)


NAMELESS = "the name of a document that is a whole message was not sent"
THOUGHT = "thinking_left_out"
BLANK = LeftOut("blank text was not sent")
NO_PLACE = LeftOut("the API does not support this content; it was not sent")


def _arguments(call: ToolCallBlock) -> str:
    written = call.raw_arguments if call.state == "complete" else None
    return written or json.dumps(arguments_object(call))


def _said(block: Block) -> dict[str, Any] | LeftOut:
    match block:
        case DocumentBlock():
            return SENT_ELSEWHERE  # sent outside the messages
        case TextBlock(text) if text.strip():
            return {"type": "text", "text": text}
        case ImageBlock(source, metadata=metadata):
            media_type = media_form(source, IMAGES, "images")
            if isinstance(source, UrlSource):
                url = source.url
            else:
                data = media_base64(source)
                url = f"data:{media_type};base64,{data.data if data else ''}"
            detail = {n: value for n, value in (metadata or {}).items() if n == "detail"}
            return {"type": "image_url", "image_url": {"url": url, **detail}}
    return BLANK if isinstance(block, TextBlock) else NO_PLACE


def _tool(tool: Tool, provider: str) -> dict[str, Any]:
    function = {
        "name": tool.name, "description": tool.description, "parameters": tool.parameters,
    }  # fmt: skip
    return with_metadata({"type": "function", "function": function}, tool, provider)
