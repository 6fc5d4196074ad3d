"""Convert conversations for the Gemini API: https://ai.google.dev/api/caching#Content.

The body contains a list of `user` and `model` turns with parts, next to the system instruction and
the tools. Tool results belong to the user turn. Parts with a `thoughtSignature` and parts of
server-side tools are sent back unchanged, in their original position.
"""

from __future__ import annotations

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
    arguments_object,
    inlined_schema,
    is_synthetic_id,
    media_base64,
    media_form,
    media_type_of,
    merged_turns,
    rewritten_schema,
    system_blocks,
    unsupported,
    with_metadata,
)
from swink_provider_gemini.parser import ABOUT_TEXT, CONTINUATION

__all__ = ["NO_SIGNATURE", "conversation"]

NO_SIGNATURE = "skip_thought_signature_validator"
"""The signature to send with a function call that the model did not make itself.

Source: https://ai.google.dev/gemini-api/docs/thought-signatures.
"""

MEDIA_FIELDS = ("mediaResolution", "videoMetadata")
"""Metadata fields that are sent with a media part."""

MEDIA_TYPE = "mimeType"
"""The metadata field with the media type of a file that is known by its id."""

IMAGES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
AUDIO = (
    "audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac",
    "audio/m4a", "audio/mp4", "audio/opus", "audio/pcm", "audio/webm",
)  # fmt: skip
VIDEO = (
    "video/mp4", "video/mpeg", "video/mov", "video/avi", "video/x-flv", "video/mpg", "video/webm",
    "video/wmv", "video/3gpp",
)  # fmt: skip
DOCUMENTS = (
    "application/pdf", "application/rtf", "text/plain", "text/html", "text/css", "text/csv",
    "text/markdown", "text/javascript", "text/xml",
)  # fmt: skip
"""Media types that all models accept.

Sources: https://ai.google.dev/gemini-api/docs/image-understanding, …/audio, …/video-understanding,
…/document-processing.
"""
_OPEN_XML = "application/vnd.openxmlformats-officedocument"
OFFICE = (
    "application/msword", "application/vnd.ms-powerpoint", "application/vnd.ms-excel",
    f"{_OPEN_XML}.wordprocessingml.document", f"{_OPEN_XML}.wordprocessingml.template",
    f"{_OPEN_XML}.presentationml.presentation", f"{_OPEN_XML}.spreadsheetml.sheet",
    *(f"application/vnd.oasis.opendocument.{kind}"
      for kind in ("text", "presentation", "spreadsheet")),
)  # fmt: skip
"""Further media types that some models accept.

Sources: docs.cloud.google.com/gemini-enterprise-agent-platform/models/guides/gemini-4-hydrogen,
…/gemini-4-carbon.
"""

FILES = "https://generativelanguage.googleapis.com/v1beta/"
"""The prefix of a file's name in the Files API (https://ai.google.dev/api/files)."""

FORMS = {
    "image": {
        "image/jpg": "image/jpeg",
        **{kind: kind for kind in IMAGES},
    },
    "audio": {
        "audio/x-wav": "audio/wav",
        "audio/x-m4a": "audio/m4a",
        "audio/x-flac": "audio/flac",
        "audio/x-aac": "audio/aac",
        **{kind: kind for kind in AUDIO},
    },
    "document": {
        "video/quicktime": "video/mov",
        "video/x-msvideo": "video/avi",
        "video/x-ms-wmv": "video/wmv",
        **{kind: kind for kind in (*DOCUMENTS, *OFFICE, *VIDEO)},
        **dict.fromkeys(("application/json", "application/xml", "text/*"), "text/plain"),
    },
}
"""Accepted media types, by kind of block. The values are the API's names for the media types."""

_CUT = (StopReason.ERROR, StopReason.ABORTED, StopReason.LENGTH)
_ASKED_OF_SERVER = ("toolCall", "executableCode")


def conversation(
    context: Context, provider: str, signed_calls: bool = False, office: bool = False
) -> dict[str, Any]:
    """Return the request fields `contents` and, if not empty, `systemInstruction` and `tools`.

    `signed_calls` means that the model rejects its own tool calls if their signature is missing.
    Such a model gets the media of a tool result inside the result; other models get them beside the
    result. `office` means that the model reads office documents, such as docx. If the conversation
    ends with an answer that can be continued, this answer is replaced by its continuation token.
    Raises MediaError for a file that cannot be read, and ProviderFailure for a file that the API
    does not accept.
    """
    if not office:
        _refuse_office(context)
    context, token = _continued(context, provider)
    system, context = system_blocks(context)
    turns = _Converter(provider, signed_calls).messages(context)
    native: dict[str, Any] = {"contents": merged_turns(turns, "parts")}
    if system:
        native["systemInstruction"] = {
            "parts": [
                dict(block.data) if isinstance(block, ExtensionBlock) else {"text": block.text}
                for block in system
            ]
        }
    if context.tools:
        declared = [_tool(tool, provider) for tool in context.tools]
        native["tools"] = [{"functionDeclarations": declared}]
    if token is not None:
        native["generationConfig"] = {"continuationToken": token}
    return native


def _refuse_office(context: Context) -> None:
    contents = [[] if isinstance(m.content, str) else m.content for m in context.messages]
    documents = [b for content in contents for b in content if isinstance(b, DocumentBlock)]
    for kind in {media_type_of(document.source) for document in documents} & {*OFFICE}:
        raise unsupported(
            "documents", f"this model accepts only PDF and text documents, not {kind}"
        )


def _continued(context: Context, provider: str) -> tuple[Context, str | None]:
    messages = list(context.messages)
    token: str | None = None
    while messages and (found := _token(messages[-1], provider)) is not None:
        token = token or found
        messages.pop()
    return replace(context, messages=messages), token


def _token(message: Any, provider: str) -> str | None:
    for block in message.content if isinstance(message, AssistantMessage) else ():
        if (
            isinstance(block, ExtensionBlock)
            and block.provider == provider
            and block.kind == CONTINUATION
        ):
            return str(block.data)
    return None


class _Converter(MessageConverter):
    block_fields = (*MEDIA_FIELDS, MEDIA_TYPE)

    def __init__(self, provider: str, signed_calls: bool) -> None:
        super().__init__(provider)
        self._signed_calls = signed_calls
        self._order: dict[str, int] = {}

    def user(self, message: UserMessage) -> list[Any]:
        return _turn("user", self.blocks(message, _part))

    def assistant(self, message: AssistantMessage) -> list[Any]:
        self._order = {call.id: at for at, call in enumerate(message.tool_calls)}
        last = message.content[-1]
        never_ran = message.stop_reason in _CUT and _is_asked_of_server(last)
        parts = self.blocks(
            message, lambda block: NEVER_RAN if never_ran and block is last else _answered(block)
        )
        if self._signed_calls:
            call = next((part for part in parts if "functionCall" in part), {})
            call.setdefault("thoughtSignature", NO_SIGNATURE)
        return _turn("model", parts)

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        """Convert tool results in the order of their calls.

        If calls have no ids, the API matches results with calls by this order.
        """
        messages = sorted(messages, key=lambda message: self._order[message.tool_call_id])
        parts: list[dict[str, Any]] = []
        beside: list[dict[str, Any]] = []
        for message in messages:
            response, media = self._result(message), self.blocks(message, _medium)
            if media and self._signed_calls:
                response["parts"] = media
            else:
                beside += media
            parts.append({"functionResponse": response})
        return _turn("user", parts + beside)

    def _result(self, message: ToolResultMessage) -> dict[str, Any]:
        response: dict[str, Any] = (
            {} if is_synthetic_id(message.tool_call_id) else {"id": message.tool_call_id}
        )
        response["name"] = message.tool_name
        response["response"] = {"error" if message.is_error else "output": self.text(message)}
        return response


NEVER_RAN = LeftOut("a call of a server-side tool without its result was not sent")
UNSIGNED = LeftOut("reasoning without a signature was not sent", "thinking_left_out")
EMPTY = LeftOut("empty text was not sent")


def _is_asked_of_server(block: Block) -> bool:
    data = block.data if isinstance(block, ExtensionBlock) else None
    return isinstance(data, dict) and any(name in data for name in _ASKED_OF_SERVER)


def _turn(role: str, parts: list[dict[str, Any]]) -> list[Any]:
    return [{"role": role, "parts": parts}] if parts else []


# -- assistant messages ------------------------------------------------------------------


def _answered(block: Block) -> dict[str, Any] | LeftOut:
    match block:
        case TextBlock():
            fields = {k: v for k, v in (block.metadata or {}).items() if k not in ABOUT_TEXT}
            return {"text": block.text, **fields} if block.text or fields else EMPTY
        case ThinkingBlock(signature=str(signature)):
            return {
                "text": block.thinking,
                "thought": True,
                "thoughtSignature": signature,
                **(block.metadata or {}),
            }
        case ToolCallBlock():
            return {"functionCall": _call(block), **(block.metadata or {})}
        case ImageBlock() | DocumentBlock() | AudioBlock():
            return _part(block)
        case ExtensionBlock(data=dict(data)):
            return dict(data)
        case ThinkingBlock():
            return UNSIGNED  # without a signature, the model does not read summaries of thoughts
    return LeftOut(f"the API does not support {block.type} in assistant messages; it was not sent")


def _call(block: ToolCallBlock) -> dict[str, Any]:
    call: dict[str, Any] = {} if is_synthetic_id(block.id) else {"id": block.id}
    return {**call, "name": block.name, "args": arguments_object(block)}


# -- user messages -----------------------------------------------------------------------


def _part(block: Block) -> dict[str, Any] | LeftOut:
    match block:
        case TextBlock():
            return {"text": block.text} if block.text else EMPTY
        case ImageBlock() | DocumentBlock() | AudioBlock():
            fields = block.metadata or {}
            return {**_source(block), **{k: fields[k] for k in MEDIA_FIELDS if k in fields}}
        case ExtensionBlock():
            return dict(block.data)
    return LeftOut(
        f"the API does not support {block.type} in user messages and tool results; it was not sent"
    )


def _source(block: ImageBlock | DocumentBlock | AudioBlock) -> dict[str, Any]:
    source = block.source
    if isinstance(source, FileIdSource):
        name = source.id if "/" in source.id else f"files/{source.id}"
        kind = (block.metadata or {}).get(MEDIA_TYPE)
        typed = {} if kind is None else {MEDIA_TYPE: kind}
        return {"fileData": {"fileUri": name if "://" in name else f"{FILES}{name}", **typed}}
    if isinstance(source, UrlSource) and media_type_of(source) is None:
        return {"fileData": {"fileUri": source.url}}
    forms = FORMS[block.type]
    media_type = media_form(
        source, forms, block.type if block.type == "audio" else f"{block.type}s"
    )
    if isinstance(source, UrlSource):
        return {"fileData": {"fileUri": source.url, "mimeType": media_type}}
    data = media_base64(source)
    assert data is not None  # otherwise it would be a URL or a file id
    return {"inlineData": {"mimeType": media_type, "data": data.data}}


def _medium(block: Block) -> dict[str, Any] | LeftOut:
    return SENT_ELSEWHERE if isinstance(block, TextBlock) else _part(block)


def _tool(tool: Tool, provider: str) -> dict[str, Any]:
    native: dict[str, Any] = {"name": tool.name}
    if tool.description:
        native["description"] = tool.description
    if any(fact for name, fact in tool.parameters.items() if name != "type"):
        native["parametersJsonSchema"] = rewritten_schema(inlined_schema, tool.parameters)
    return with_metadata(native, tool, provider)
