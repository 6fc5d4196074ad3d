"""Convert conversations for the Responses API.

Source: OpenAI's API reference, "Create a model response", `input` and `tools`; guide "Reasoning
models", keeping reasoning items in context.

An extension in a user message or a tool result becomes a message part or a separate input item,
depending on the type in its data. Callers use extensions to return the output of a client-side tool
such as `computer_call` (see the module `hosted`).

Output of this API is sent back unchanged: the items of reasoning and of tools that run on the
service are stored and sent whole; items of messages and tool calls are made again from the
conversation, with their ids and other fields. Audio and images that a model generated over Chat
Completions have no equivalent here, so they are left out with a notice. The API has no field that
marks a tool result as failed, so the text of a failure starts with `Error: `. Reasoning is omitted
if the service neither stored nor encrypted it. Reasoning is also omitted if no other item follows,
because OpenAI rejects such reasoning. If any reasoning of an answer is omitted, the other items of
this answer are sent without their ids: for an item with an id, the service requires the reasoning
that preceded it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Block,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    ImageBlock,
    StopReason,
    SystemMessage,
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
    report_change,
    with_metadata,
    without_leading,
)
from swink_provider_openai.beside import AUDIO, IMAGE
from swink_provider_openai.converter import (
    OpenAIConverter,
    arguments_text,
    media_url,
    unsupported,
)
from swink_provider_openai.dialect import Dialect
from swink_provider_openai.free_text import FREE_TEXT, said
from swink_provider_openai.responses.hosted import PARTS, answer_to, is_item, without_unanswered

__all__ = ["ResponsesConverter"]

LONGEST_TOOL_ID = 64

NOT_KEPT = LeftOut(
    "reasoning that the service neither stored nor encrypted was not sent", "thinking_left_out"
)

FOUND_BY_ID = frozenset({"item_reference", "mcp_approval_request"})
"""Types of items that always keep their ids.

The id of a reference is that of a stored item; the answer to a request for approval refers to it.
"""

_OF_SWINK = frozenset({TextBlock, ThinkingBlock, ToolCallBlock})

_CUT = (StopReason.ERROR, StopReason.ABORTED, StopReason.LENGTH)


class ResponsesConverter(OpenAIConverter):
    """Converts one conversation to items of the Responses API.

    `stored` means that the service stores the answer. `previous` is the id of a stored answer from
    which the conversation continues. `continued` is true if the conversation continues a stored
    answer (`previous`) or a conversation that the service stores.
    """

    def __init__(
        self,
        provider: str,
        dialect: Dialect,
        stored: bool = False,
        previous: str | None = None,
        continued: bool = False,
    ) -> None:
        super().__init__(provider, dialect)
        self.tool_id_length = LONGEST_TOOL_ID
        self._stored = stored
        self._previous = previous
        self._continued = continued
        self._custom: set[str] = set()
        self._asked: set[str] = set()
        self._paths_of_items: dict[int, str] = {}  # paths of blocks, by the id() of their items

    def conversation(self, context: Context) -> dict[str, Any]:
        """Return `input` and, if present, `instructions` and `tools`.

        If the conversation continues a stored response, `input` contains only the items after it.
        """
        if self._previous:
            kept = [getattr(m, "response_id", None) == self._previous for m in context.messages]
            if True in kept:
                context = without_leading(context, len(kept) - kept[::-1].index(True))
        for message in context.messages:
            if isinstance(message, AssistantMessage):
                for block in message.content:
                    if type(block) not in _OF_SWINK and isinstance(block, ExtensionBlock):
                        self._note_asked(block)
        items = without_unanswered(self.messages(context), self._left_out)
        native: dict[str, Any] = {"input": items}
        if isinstance(context.system_prompt, list):
            items[:0] = self.system(SystemMessage(context.system_prompt))
        elif context.system_prompt:
            native["instructions"] = context.system_prompt
        if context.tools:
            native["tools"] = [self.tool(tool) for tool in context.tools]
        return native

    def _note_asked(self, block: ExtensionBlock) -> None:
        """Record the ids of a hosted tool call, so that tool results may refer to them."""
        if block.provider == self.provider and isinstance(block.data, Mapping):
            ids = (block.data.get("call_id"), block.data.get("id"))
            self._asked.update(id for id in ids if isinstance(id, str))

    def tool(self, tool: Tool) -> dict[str, Any]:
        """Convert a tool definition. `strict` is always set, because the API's default is true."""
        native: dict[str, Any] = {"type": "function", "name": tool.name}
        if tool.description:
            native["description"] = tool.description
        native |= {"parameters": tool.parameters, "strict": tool.strict is True}
        return with_metadata(native, tool, self.provider)

    def has_place(self, message: ToolResultMessage) -> bool:
        """Return True if a tool result can be sent although no tool call block precedes it.

        The call of the result is then in an `ExtensionBlock`, or in a conversation that the service
        stores.
        """
        return self._continued or message.tool_call_id in self._asked

    def system(self, message: SystemMessage) -> list[Any]:
        """Convert a system message inside the conversation, including extensions as input items."""
        content = self.system_text(message)
        if isinstance(content, str):
            return [{"role": "developer", "content": content}]
        return _with_items("developer", content)

    def user(self, message: UserMessage) -> list[Any]:
        """Convert a user message, including extensions as input items."""
        if isinstance(message.content, str):
            return [{"role": "user", "content": message.content}]
        return _with_items("user", self.blocks(message, self.part))

    def assistant(self, message: AssistantMessage) -> list[Any]:
        """Convert an assistant message to items."""
        thoughts = [block for block in message.content if isinstance(block, ThinkingBlock)]
        keep_ids = all(self._goes_back(block) for block in thoughts if _item(block))
        native: list[dict[str, Any]] = []

        def add(block: Block) -> dict[str, Any] | LeftOut:
            match block:
                case TextBlock():
                    _add_text(native, block, keep_ids)
                case ToolCallBlock():
                    native.append(self.tool_call(block, keep_ids))
                case ThinkingBlock() if self._goes_back(block):
                    place = (block.metadata or {}).get("place", len(native))
                    native.insert(place, self._known(_item(block), block))
                case ThinkingBlock():
                    is_empty = not (block.thinking or block.signature or _item(block))
                    return SENT_ELSEWHERE if is_empty else NOT_KEPT
                case ExtensionBlock() if block.kind in (AUDIO, IMAGE):  # from Chat Completions
                    what = f"{block.kind}: not supported by the Responses API; it was not sent"
                    return LeftOut(what)
                case ExtensionBlock():
                    item = block.data if keep_ids else _without_id(block.data)
                    native.append(self._known(item, block))
                case _:
                    return LeftOut(
                        f"{block.type} is not supported in assistant messages; it was not sent"
                    )
            return SENT_ELSEWHERE

        self.blocks(message, add)
        whole = message.stop_reason not in _CUT and self.dialect.reasoning_last
        while not whole and native and native[-1].get("type") == "reasoning":
            self._left_out(native.pop())
        return native

    def _known(self, item: dict[str, Any], block: Block) -> dict[str, Any]:
        self._paths_of_items[id(item)] = self.path(block)
        return item

    def _left_out(self, item: dict[str, Any]) -> None:
        """Add a notice about `item`, an item of an earlier answer, which is not sent back."""
        path = self._paths_of_items[id(item)]
        if item.get("type") == "reasoning":
            report_change(path, "reasoning without a following item was not sent", NOT_KEPT.code)
        else:
            report_change(path, f"{item.get('type')} without its result was not sent")

    def _goes_back(self, block: ThinkingBlock) -> bool:
        item = _item(block)
        return bool(item) and bool(
            self._stored or item.get("encrypted_content") or item.get("content")
        )

    def tool_call(self, call: ToolCallBlock, keep_id: bool) -> dict[str, Any]:
        """Convert a tool call to an item, including the fields in its metadata."""
        item = dict(_item(call))
        if not keep_id:
            item.pop("id", None)
        named = {"call_id": self.tool_id(call.id), "name": call.name}
        if item.pop("type", None) == FREE_TEXT:
            self._custom.add(call.id)
            return {"type": FREE_TEXT, **named, "input": said(call), **item}
        return {"type": "function_call", **named, "arguments": arguments_text(call), **item}

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        """Convert tool results, including media."""
        return [item for message in messages for item in self.tool_result(message)]

    def tool_result(self, message: ToolResultMessage) -> list[dict[str, Any]]:
        """Convert one tool result, whose content may be input items from the caller."""
        content = message.content
        own = [] if isinstance(content, str) else [b for b in content if is_item(b)]
        if own:
            self.take(message, ExtensionBlock)
            for block in content:
                if isinstance(block, Block) and block not in own:
                    self.leave_out(block, "content next to an API item was not sent")
            return [
                self._known({**answer_to(message.tool_call_id, block), **block.data}, block)
                for block in own
            ]
        if message.tool_call_id in self._asked:
            what = f"text in the result of {message.tool_name}; answer it with an ExtensionBlock"
            raise unsupported("The Responses API", what)
        prefix = "Error: " if message.is_error else ""
        output: str | list[Any] = prefix + self.text(message)
        if not isinstance(content, str) and any(not isinstance(b, TextBlock) for b in content):
            said = [{"type": "input_text", "text": prefix}] if prefix else []
            output = [*said, *self.blocks(message, self.part)]
        kind = FREE_TEXT if message.tool_call_id in self._custom else "function_call"
        tool_id = self.tool_id(message.tool_call_id)
        return [{"type": f"{kind}_output", "call_id": tool_id, "output": output}]

    def part(self, block: Block) -> dict[str, Any]:
        """Convert a block of a user message or a tool result, with cache marks from its metadata.

        Raises MediaError for a file that cannot be read or whose type is unknown.
        """
        native = self._part(block)
        if not isinstance(block, ExtensionBlock):
            native |= self.marks(block)
            detail = (block.metadata or {}).get("detail")
            if detail is not None and isinstance(block, ImageBlock | DocumentBlock):
                native["detail"] = detail
        return native

    def _part(self, block: Block) -> dict[str, Any]:
        match block:
            case TextBlock():
                return {"type": "input_text", "text": block.text}
            case ImageBlock(source=FileIdSource(id=id)):
                return {"type": "input_image", "file_id": id, "detail": "auto"}
            case ImageBlock():
                return {"type": "input_image", "image_url": media_url(block), "detail": "auto"}
            case DocumentBlock(source=UrlSource(url=url)):
                self.check_document("The Responses API", block)
                self.leave_out_name(block)
                return {"type": "input_file", "file_url": url}
            case DocumentBlock(source=FileIdSource(id=id)):
                self.leave_out_name(block)
                return {"type": "input_file", "file_id": id}
            case ExtensionBlock():
                return self._known(dict(block.data), block)
            case DocumentBlock():
                self.check_document("The Responses API", block)
                name = block.name or "document.pdf"
                return {"type": "input_file", "filename": name, "file_data": media_url(block)}
            case AudioBlock():
                return {"type": "input_file", "filename": "audio", "file_data": media_url(block)}
        raise unsupported(
            "The Responses API", f"{block.type} blocks in user messages and tool results"
        )


def _with_items(role: str, parts: list[dict[str, Any]]) -> list[Any]:
    """Return messages with the given parts; input items among them stay outside the messages."""
    native: list[Any] = []
    for part in parts:
        if part.get("type") not in PARTS:
            native.append(part)
        elif native and "content" in native[-1] and native[-1].get("role") == role:
            native[-1]["content"].append(part)
        else:
            native.append({"role": role, "content": [part]})
    return native


def _without_id(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item without its id, unless the API finds something by this id."""
    if item.get("type") in FOUND_BY_ID:
        return item
    return {name: value for name, value in item.items() if name != "id"}


def _item(block: Block) -> dict[str, Any]:
    item = (block.metadata or {}).get("item")
    return item if isinstance(item, dict) else {}


def _add_text(native: list[dict[str, Any]], block: TextBlock, keep_id: bool) -> None:
    """Add text as a new message, or to the preceding message if both have the same id."""
    metadata = block.metadata or {}
    item = dict(_item(block))
    if not (keep_id and item.get("id")):  # only a message with an id may consist of parts
        phase = {"phase": item["phase"]} if "phase" in item else {}
        native.append({"role": "assistant", "content": block.text, **phase})
        return
    part: dict[str, Any] = {"type": "output_text", "text": block.text, "annotations": []}
    if item.pop("refused", False):
        part = {"type": "refusal", "refusal": block.text}
    elif isinstance(metadata.get("annotations"), list):
        part["annotations"] = metadata["annotations"]
    last = native[-1] if native else {}
    if last.get("id") == item["id"] and last.get("type") == "message":
        last["content"].append(part)
        return
    said = {**item, "type": "message", "role": "assistant", "status": "completed"}
    native.append({**said, "content": [part]})
