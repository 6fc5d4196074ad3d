"""Convert requests of Chat Completions to conversations and options.

https://developers.openai.com/api/reference/resources/chat: messages of the roles system, developer,
user, assistant and tool, contents as strings or lists of parts.
"""

from __future__ import annotations

from mimetypes import guess_type
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
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core.providers import parse_arguments
from swink_gateway.protocols import Asked, BadRequest
from swink_gateway.protocols.fields import Fields
from swink_gateway.protocols.frames import encode
from swink_gateway.protocols.media import source_of
from swink_gateway.protocols.options import (
    EFFORTS,
    HIGHEST,
    SOUNDS,
    answers,
    marks_of,
    response_format,
)
from swink_gateway.protocols.tool_names import Known, free_text_schema

__all__ = ["AUDIO", "FREE_TEXT", "WIRE_FORMAT", "read_chat"]

WIRE_FORMAT = "openai-chat"

FREE_TEXT = "custom"
"""The type of free-text tools and of calls to them, and the name of the field with their data."""

AUDIO = "audio"
"""The field with generated audio, and the kind of the extension block that contains it."""

MOST_ANSWERS = 128
"""The maximum number of answers to one request."""

_SAME = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


def read_chat(body: Any) -> Asked:
    """Parse a request. Raises BadRequest if it is invalid."""
    said = Fields(body)
    asked = Asked(said.required("model"), Context(_messages(said)))
    own: list[dict[str, Any]] = []
    asked.context.tools = [
        tool for one in said.objects("tools") if (tool := _tool(one, asked, own))
    ]
    asked.stream = bool(said.flag("stream"))
    if (how := said.object("stream_options")) is not None:
        asked.said["usage"] = bool(how.flag("include_usage"))
        how.flag("include_obfuscation")  # the gateway never adds it
    fields: dict[str, Any] = {}
    asked.options = _options(said, fields)
    asked.answers = answers(said, "n", MOST_ANSWERS)
    if asked.answers > 1:
        asked.answers_field = "n"
        fields["n"] = asked.answers
    asked.own = {**said.rest(), **fields, **({"tools": own} if own else {})}
    asked.highest_effort = "reasoning_effort" if said.data("reasoning_effort") == HIGHEST else ""
    asked.dropped = said.dropped
    return asked


def _options(said: Fields, own: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the call; `own` receives the fields that no option represents."""
    most, least = (said.whole_number(n) for n in ("max_completion_tokens", "max_tokens"))
    stop = said.take("stop", (str, list))
    effort = said.text("reasoning_effort")
    options: dict[str, Any] = {name: said.number(name) for name in _SAME}
    options |= {
        "max_tokens": least if most is None else most,
        "stop": tuple(stop) if isinstance(stop, list) else stop,
        "seed": said.whole_number("seed"),
        "user": said.text("user"),
        "session_id": said.text("prompt_cache_key"),
        "parallel_tool_calls": said.flag("parallel_tool_calls"),
        "thinking": EFFORTS.get(effort or ""),
        "tool_choice": _tool_choice(said, own),
    }
    if effort and effort not in EFFORTS:
        own["reasoning_effort"] = effort
    if (wanted := said.object("response_format")) is not None:
        options["response_format"] = _response_format(wanted)
    return {name: value for name, value in options.items() if value is not None}


def _tool_choice(said: Fields, own: dict[str, Any]) -> str | None:
    choice = said.data("tool_choice")
    if not isinstance(choice, dict):
        word = said.text("tool_choice")
        return "required" if word == "any" else word  # Mistral's value
    how = said.object("tool_choice")
    assert how is not None
    if how.text("type") in ("function", "custom"):
        return (how.object("function") or how.object("custom") or how).required("name")
    own["tool_choice"] = how.all()
    return None


def _response_format(wanted: Fields) -> Any:
    kind = wanted.text("type")
    if kind == "json_schema" and (form := wanted.object("json_schema")) is not None:
        return response_format(form)
    return "json" if kind in ("json_object", "json_schema") else None


def _tool(said: Fields, asked: Asked, own: list[dict[str, Any]]) -> Tool | None:
    kind = said.text("type") or "function"
    if kind == FREE_TEXT and (custom := said.object(kind)) is not None:
        tool = Tool(custom.required("name"), custom.text("description") or "", free_text_schema())
        asked.tools[tool.name] = Known(tool.name, is_free_text=True)
        custom.all()
        tool.metadata = {WIRE_FORMAT: {**said.all(), "function": None}}
        return tool
    if kind != "function" or (function := said.object("function")) is None:
        own.append(said.all())
        return None
    tool = Tool(function.required("name"), function.text("description") or "")
    parameters = function.take("parameters", dict)
    if parameters is not None:
        tool.parameters = parameters
    tool.strict = function.flag("strict")
    return tool


# -- messages --------------------------------------------------------------------------------------


def _messages(said: Fields) -> list[Message]:
    names: dict[str, str] = {}
    messages = [_message(one, names) for one in said.objects("messages")]
    return [message for message in messages if message is not None]


def _message(said: Fields, names: dict[str, str]) -> Message | None:
    role = said.required("role")
    match role:
        case "system" | "developer":
            return SystemMessage(_content(said))
        case "user":
            return UserMessage(_content(said), said.text("name"))
        case "assistant":
            return _assistant(said, names)
        case "tool" | "function":
            name = said.text("name") or ""
            id = said.text("tool_call_id") or name
            return ToolResultMessage(id, names.get(id, name), _content(said))
    raise BadRequest(f"{said.place('role')} is {role!r}, an unknown role")


def _assistant(said: Fields, names: dict[str, str]) -> AssistantMessage:
    content: list[Block] = []
    thought = said.text("reasoning_content") or said.text("reasoning")
    if thought:
        content.append(ThinkingBlock(thought))
    spoken = _content(said)
    content += [TextBlock(spoken)] if isinstance(spoken, str) else spoken
    if refusal := said.text("refusal"):
        content.append(TextBlock(refusal))
    content = [block for block in content if not isinstance(block, TextBlock) or block.text]
    for call in said.objects("tool_calls"):
        block = _tool_call(call)
        names[block.id] = block.name
        content.append(block)
    if (legacy := said.object("function_call")) is not None:
        name = legacy.required("name")
        names[name] = name
        content.append(_call(name, name, legacy.text("arguments") or ""))
    if (sound := said.take(AUDIO, dict)) is not None:
        content.append(ExtensionBlock(WIRE_FORMAT, AUDIO, sound))
        return AssistantMessage(content, provider=WIRE_FORMAT)
    opaque = any(getattr(block, "metadata", None) for block in content)
    return AssistantMessage(content, provider=WIRE_FORMAT if opaque else None)


def _tool_call(said: Fields) -> ToolCallBlock:
    id = said.required("id")
    said.text("type")
    said.whole_number("index")
    if (custom := said.object(FREE_TEXT)) is not None:
        text = custom.text("input") or ""
        return ToolCallBlock(id, custom.required("name"), {"input": text}, metadata=_FREE_TEXT)
    function = said.object("function")
    if function is None:
        raise BadRequest(f"{said.place('function')} is missing; expected an object")
    given = function.take("arguments", (str, dict)) or ""
    raw = given if isinstance(given, str) else encode(given).decode()
    block = _call(id, function.required("name"), raw)
    if (extra := said.take("extra_content", dict)) is not None:
        block.metadata = {"extra_content": extra}
    return block


_FREE_TEXT = {"item": {"type": "custom_tool_call"}}
"""The metadata of a call with a free-text argument."""


def _call(id: str, name: str, raw: str) -> ToolCallBlock:
    arguments = parse_arguments(raw)
    state = "complete" if arguments is not None else "invalid"
    return ToolCallBlock(id, name, arguments or {}, raw, state)  # type: ignore[arg-type]  # a valid state


def _content(said: Fields) -> Any:
    """Return a message's content: a string, or a list of blocks if the content has parts."""
    content = said.take("content", (str, list))
    if not isinstance(content, list):
        return content or ""
    return [block for part in said.objects("content") if (block := _part(part)) is not None]


def _part(said: Fields) -> Block | None:
    kind, marks = said.text("type"), marks_of(said)
    if kind in ("text", "refusal"):
        return TextBlock(said.text(kind) or "", marks or None)
    if kind == "image_url":
        image = said.object(kind) if not isinstance(said.data(kind), str) else None
        place = said.place(kind)
        if image is None:
            return ImageBlock(source_of(said.required(kind), place), marks or None)
        detail = image.text("detail")
        metadata = {"detail": detail, **marks} if detail else marks
        return ImageBlock(source_of(image.required("url"), place), metadata or None)
    if kind == "input_audio" and isinstance(data := said.data(kind), str):  # Mistral's form
        return AudioBlock(_sound(data, said.place(kind)), marks or None)
    if kind == "input_audio" and (sound := said.object(kind)) is not None:
        form = sound.required("format")
        source = Base64Source(SOUNDS.get(form, f"audio/{form}"), sound.required("data"))
        return AudioBlock(source, marks or None)
    if kind == "file" and (file := said.object(kind)) is not None:
        return _file(file, marks)
    said.drop(why=str(kind))
    return None


def _sound(data: str, place: str) -> Base64Source | UrlSource:
    """Return audio from a URL or from data; the first bytes of the data determine the format."""
    if ":" in data:
        return source_of(data, place)
    return Base64Source(SOUNDS["wav" if data.startswith(_WAV) else "mp3"], data)


_WAV = "UklGR"
"""The first base64 characters of a WAV file (`RIFF`)."""


def _file(file: Fields, marks: dict[str, Any]) -> DocumentBlock:
    name, metadata = file.text("filename"), marks or None
    if (id := file.text("file_id")) is not None:
        return DocumentBlock(FileIdSource(WIRE_FORMAT, id), name, metadata)
    data, place = file.required("file_data"), file.place("file_data")
    if ":" not in data:  # bare base64, as in the API reference
        kind = guess_type(name or "")[0] or "application/pdf"
        return DocumentBlock(Base64Source(kind, data), name, metadata)
    return DocumentBlock(source_of(data, place), name, metadata)
