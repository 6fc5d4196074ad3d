"""Convert conversations for Chat Completions and Responses.

Source: OpenAI's API reference, "Create chat completion", `messages` and `tools`. Chat Completions
has no field that marks a tool result as failed, so the text of a failure starts with `Error: `. The
API does not accept media in a tool result, so media are sent after the results, in a user message.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
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
    Model,
    ProviderFailure,
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
from swink_core.providers import (
    SENT_ELSEWHERE,
    LeftOut,
    MessageConverter,
    accepted_id,
    arguments_object,
    is_synthetic_id,
    media_base64,
    media_type_of,
    report_change,
    rule_of,
    system_blocks,
    with_metadata,
)
from swink_core.providers import unsupported as refused
from swink_provider_openai.beside import is_sent, media_said
from swink_provider_openai.dialect import Dialect
from swink_provider_openai.free_text import is_free_text, said

__all__ = [
    "ChatConverter", "OpenAIConverter", "arguments_text", "media_url",
    "unsupported",
]  # fmt: skip

THOUGHT = "thinking_left_out"
NO_REASONING = "reasoning was not sent, because the service does not accept it"

AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}
"""The API's format names for audio media types, if they differ from the subtype."""


NOT_IN_NAMES = re.compile(r"[\s<|\\/>]")
LONGEST_NAME = 64
"""The maximum length of a user's name in characters."""


class OpenAIConverter(MessageConverter):
    """The base class of the converters of both APIs; an instance converts one conversation.

    Every tool call in a request needs an id. For a call with a generated id, `tool_id` returns a
    numbered id, in a form that servers do not use for theirs. `tool_id` also shortens ids that are
    too long for the server. A subclass can override `tool_id` for a service with other rules for
    ids. Such a method must return the same result whenever it gets the same id.
    """

    def __init__(self, provider: str, dialect: Dialect) -> None:
        super().__init__(provider)
        self.dialect = dialect
        self.block_fields = (*dialect.marks, "detail")
        self.native_system = "system_messages" in dialect.adds
        self.tool_id_length = dialect.tool_id_length
        self._numbers: dict[str, int] = {}

    def tool_id(self, tool_call_id: str) -> str:
        """Return the id with which a tool call is sent back to the provider."""
        if not is_synthetic_id(tool_call_id):
            if self.tool_id_length is None or len(tool_call_id) <= self.tool_id_length:
                return tool_call_id
            digest = hashlib.sha256(tool_call_id.encode("utf-8", "surrogatepass")).hexdigest()
            return f"call_{digest[:32]}"[: self.tool_id_length]
        return f"call_swink_{self._numbers.setdefault(tool_call_id, len(self._numbers))}"

    def marks(self, block: Block) -> dict[str, Any]:
        """Return a block's metadata fields that the dialect allows in a message part."""
        metadata = block.metadata or {}
        return {name: metadata[name] for name in self.dialect.marks if name in metadata}

    def system_prompt(self, context: Context) -> tuple[Sequence[Block], Context]:
        """Return the system prompt, and the conversation without it.

        The system prompt includes leading system messages, unless the API accepts system messages
        anywhere in the conversation.
        """
        if self.native_system:
            prompt = context.system_prompt
            if not prompt:
                return [], context
            said: Sequence[Block] = [TextBlock(prompt)] if isinstance(prompt, str) else prompt
            return said, replace(context, system_prompt=None)
        return system_blocks(context)

    def system_text(self, message: SystemMessage) -> str | list[dict[str, Any]]:
        """Convert system text to a string, or to a list of parts if the service has cache marks.

        Source: OpenAI's API reference, "Create chat completion": the content of a developer or
        system message is a string or an array of text parts. Few other servers accept the array.
        """
        content = message.content
        if isinstance(content, str):
            return content
        several = len(content) > 1 or any(map(self.marks, content))
        if (several and self.dialect.marks) or self.take(message, ExtensionBlock):
            return self.blocks(message, self.part)
        return self.text(message)

    def leave_out_name(self, block: DocumentBlock) -> None:
        """Report that a document's name was not sent, because the API has no field for the name."""
        if block.name:
            what = "the name of a document was not sent"
            report_change(f"{self.path(block)}.name", what, "metadata_left_out")

    def check_document(self, api: str, block: DocumentBlock) -> None:
        """Raise ProviderFailure for a video, audio or an image that is given as a document.

        Raise ProviderFailure also for a document as data if the dialect supports only URLs.
        """
        kind = (media_type_of(block.source) or "").partition("/")[0]
        if kind in ("video", "audio", "image"):
            raise unsupported(api, f"{kind} as a document")
        is_url = isinstance(block.source, UrlSource)
        if not is_url and self.dialect.documents in ("address", "file_url"):
            raise unsupported(self.provider, "documents as data; send a URL, or upload them")

    def part(self, block: Block) -> dict[str, Any]:
        """Convert a block of a user message or a tool result."""
        raise NotImplementedError("part() has to be written")


class ChatConverter(OpenAIConverter):
    """Converts messages for Chat Completions."""

    _system_role = "system"

    def conversation(self, model: Model, context: Context) -> dict[str, Any]:
        """Return `messages` and, if present, `tools`."""
        self.names_users = "names" in self.dialect.adds
        if self.dialect.developer_role and rule_of(model).efforts:
            self._system_role = "developer"
        system, context = self.system_prompt(context)
        messages = self.messages(context)
        if self.dialect.prefix is not None and messages and messages[-1]["role"] == "assistant":
            messages[-1] = {**messages[-1], "prefix": True}
        if system:
            prompt = self.system_text(SystemMessage([*system]))
            messages.insert(0, {"role": self._system_role, "content": prompt})
        native: dict[str, Any] = {"messages": messages}
        if context.tools:
            native["tools"] = [self.tool(tool) for tool in context.tools]
        return native

    def tool(self, tool: Tool) -> dict[str, Any]:
        """Convert a tool definition."""
        function: dict[str, Any] = {"name": tool.name}
        if tool.description:
            function["description"] = tool.description
        function["parameters"] = tool.parameters
        if tool.strict is not None and "strict" in self.dialect.adds:
            function["strict"] = tool.strict
        return with_metadata({"type": "function", "function": function}, tool, self.provider)

    def system(self, message: SystemMessage) -> list[Any]:
        """Convert a system message inside the conversation."""
        return [{"role": self._system_role, "content": self.system_text(message)}]

    def user(self, message: UserMessage) -> list[Any]:
        """Convert a user message; text alone stays a string, which all servers accept."""
        content: Any = message.content
        documents: list[Any] = []
        if isinstance(content, list):
            if self.dialect.document_ids:
                documents = self._uploaded_documents(message)
            parts = self.blocks(message, self._without_uploaded if documents else self.part)
            if documents and not parts:
                return documents
            is_text = len(parts) == 1 and parts[0].keys() == {"type", "text"}
            content = parts[0]["text"] if is_text else parts
        native: dict[str, Any] = {"role": "user", "content": content}
        if message.name and self.names_users:
            native["name"] = self._name(message.name, message)
        return [*documents, native]

    def _uploaded_documents(self, message: UserMessage) -> list[Any]:
        """Return a system message with the ids of a message's uploaded documents, if it has any."""
        uploaded = [block for block in self.take(message, DocumentBlock) if _document_id(block)]
        for block in uploaded:
            self.leave_out_name(block)
        named = ",".join(f"{self.dialect.document_ids}{_document_id(block)}" for block in uploaded)
        return [{"role": "system", "content": named}] if named else []

    def _without_uploaded(self, block: Block) -> dict[str, Any] | LeftOut:
        return SENT_ELSEWHERE if _document_id(block) else self.part(block)

    def _name(self, name: str, message: UserMessage) -> str:
        """Replace the characters of a user's name that the API does not accept.

        Source: OpenAI's API rejects such names with HTTP 400; the error contains the required
        pattern.
        """
        accepted = accepted_id(name, NOT_IN_NAMES, LONGEST_NAME)
        if accepted != name:
            what = "the name of a user was changed to characters that the API accepts"
            report_change(f"{self.path(message)}.name", what)
        return accepted

    def assistant(self, message: AssistantMessage) -> list[Any]:
        """Convert an assistant message, with its reasoning if the dialect supports that."""
        calls = [self.tool_call(call) for call in self.take(message, ToolCallBlock)]
        texts = [block.text for block in self.take(message, TextBlock)]
        text = "".join(texts)
        has_others = len(texts) + len(calls) < len(message.content)
        media = self._media(message) if has_others else {}
        empty = None if calls or media else ""
        native: dict[str, Any] = {"role": "assistant", "content": text or empty, **media}
        if self.dialect.replay is not None:
            native.update(self.reasoning(message))
        elif has_others:
            self.leave_out_reasoning(message)
        if calls:
            native["tool_calls"] = calls
        elif not text and len(native) == 2:
            return []
        return [native]

    def _media(self, message: AssistantMessage) -> dict[str, Any]:
        images = "images" in self.dialect.adds
        media = media_said(message, images)
        for block in self.take(message, ExtensionBlock):
            if not is_sent(block, images):
                what = f"{block.kind}: not supported by Chat Completions; it was not sent"
                self.leave_out(block, what)
        if shown := [self.part(block) for block in self.take(message, ImageBlock)]:
            media["images"] = [*media.get("images", ()), *shown]
        return media

    def leave_out_reasoning(self, message: AssistantMessage) -> None:
        """Report that an answer's reasoning was not sent, because the API has no field for it."""
        for block in self.take(message, ThinkingBlock):
            if block.thinking or block.signature:
                self.leave_out(block, NO_REASONING, THOUGHT)

    def reasoning(self, message: AssistantMessage) -> dict[str, Any]:
        """Return the field with an answer's reasoning, or an empty dictionary.

        DeepSeek rejects a message that contains a tool call but no `reasoning_content`. For a
        message without reasoning, an empty text is sent.
        """
        field = self.dialect.replay
        blocks = self.take(message, ThinkingBlock)
        if field == "reasoning_details":
            details: list[Any] = []
            for block in blocks:
                own = (block.metadata or {}).get("reasoning_details", ())
                details += own
                if block.thinking and not own:
                    self.leave_out(block, "reasoning without its details was not sent", THOUGHT)
            return {field: details} if details else {}
        if field is None or not (message.thinking or message.tool_calls):
            return {}
        if field == "reasoning" and not message.thinking:
            return {}
        return {field: message.thinking}

    def tool_call(self, call: ToolCallBlock) -> dict[str, Any]:
        """Convert a tool call, including opaque data that the service sent with it."""
        if is_free_text(call):
            custom = {"name": call.name, "input": said(call)}
            return {"id": self.tool_id(call.id), "type": "custom", "custom": custom}
        native = {
            "id": self.tool_id(call.id),
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call)},
        }
        if call.metadata and "extra_content" in call.metadata:
            native["extra_content"] = call.metadata["extra_content"]
        return native

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        """Convert tool results, followed by a user message with their media."""
        native: list[Any] = []
        media: list[Any] = []
        for message in messages:
            text = self.text(message)
            is_text = isinstance(message.content, str)
            if shown := [] if is_text else self.blocks(message, self._shown):
                media.append({"type": "text", "text": f"From {message.tool_name}:"})
                media.extend(shown)
                text = text or "The result follows."
            if message.is_error:
                text = f"Error: {text}"
            tool_id = self.tool_id(message.tool_call_id)
            native.append({"role": "tool", "tool_call_id": tool_id, "content": text})
        if media:
            native.append({"role": "user", "content": media})
        return native

    def _shown(self, block: Block) -> dict[str, Any] | LeftOut:
        return SENT_ELSEWHERE if isinstance(block, TextBlock) else self.part(block)

    def part(self, block: Block) -> dict[str, Any]:
        """Convert a block of a user message, with its cache marks.

        Raises MediaError for a file that cannot be read or whose type is unknown.
        """
        native = self._part(block)
        if not isinstance(block, ExtensionBlock):
            native |= self.marks(block)
        return native

    def _part(self, block: Block) -> dict[str, Any]:
        match block:
            case TextBlock():
                return {"type": "text", "text": block.text}
            case ImageBlock(source=FileIdSource(id=id)) if self.dialect.media_ids is not None:
                return {"type": "image_url", "image_url": {"url": f"{self.dialect.media_ids}{id}"}}
            case ImageBlock(source=FileIdSource()):
                raise unsupported("Chat Completions", "images by a file's id; use a document")
            case ImageBlock(source=UrlSource()) if not self.dialect.image_urls:
                raise unsupported(self.provider, "images by URL; send the data")
            case ImageBlock():
                detail = {n: v for n, v in (block.metadata or {}).items() if n == "detail"}
                return {"type": "image_url", "image_url": {"url": media_url(block), **detail}}
            case DocumentBlock():
                return self.document(block)
            case AudioBlock() if self.dialect.sound is not None:
                part, field = self.dialect.sound
                return {"type": part, part: {field: media_url(block)}}
            case AudioBlock():
                media = media_base64(block.source)
                if media is None:
                    raise unsupported("Chat Completions", "audio by URL; send the data")
                subtype = media.media_type.partition("/")[2]
                sound = {"data": media.data, "format": AUDIO_FORMATS.get(subtype, subtype)}
                return {"type": "input_audio", "input_audio": sound}
            case ExtensionBlock():
                return dict(block.data)
        raise unsupported("Chat Completions", f"{block.type} blocks in user messages")

    def document(self, block: DocumentBlock) -> dict[str, Any]:
        """Convert a document to the form that the dialect declares in `documents`."""
        form, source = self.dialect.documents, block.source
        if isinstance(source, FileIdSource):
            self.leave_out_name(block)
            return {"type": "file", "file": {"file_id": source.id}}
        if is_video(block) and "video" in self.dialect.adds:
            self.leave_out_name(block)
            return {"type": "video_url", "video_url": {"url": media_url(block)}}
        self.check_document("Chat Completions", block)
        if form in ("data", "media") and isinstance(source, UrlSource):
            raise unsupported(self.provider, "documents by URL; send the data")
        if form == "file_url":
            self.leave_out_name(block)
            return {"type": "file_url", "file_url": {"url": media_url(block)}}
        file = {"filename": block.name or "document.pdf"}
        if form == "media":
            media = media_base64(source)
            assert media is not None  # otherwise it would be a URL
            file |= {"data": media.data, "media_type": media.media_type}
        else:
            file["file_data"] = media_url(block)
        return {"type": "file", "file": file}


def _document_id(block: Block) -> str | None:
    source = block.source if isinstance(block, DocumentBlock) else None
    return source.id if isinstance(source, FileIdSource) else None


def arguments_text(call: ToolCallBlock) -> str:
    """Return a call's arguments as JSON text, exactly as the model wrote them if they are valid.

    Servers parse the arguments. Therefore text that is not valid JSON is wrapped in an object.
    """
    if call.state != "complete":
        return json.dumps(arguments_object(call))
    return call.raw_arguments or json.dumps(call.arguments)


def is_video(block: DocumentBlock) -> bool:
    """Return True if a document is a video. swink represents videos as document blocks."""
    return (media_type_of(block.source) or "").startswith("video/")


def media_url(block: ImageBlock | DocumentBlock | AudioBlock) -> str:
    """Return the URL of media; the data of a file is returned as a data URL."""
    if isinstance(block.source, UrlSource):
        return block.source.url
    media = media_base64(block.source)
    assert media is not None  # only URLs and file ids have no data
    return f"data:{media.media_type};base64,{media.data}"


def unsupported(api: str, what: str) -> ProviderFailure:
    """Create the ProviderFailure that reports that the API does not support `what`."""
    return refused("content", f"{api} does not support {what}")
