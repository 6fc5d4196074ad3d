"""Convert requests of Ollama's API to conversations and options.

https://github.com/ollama/ollama/blob/main/docs/api.md: contents are strings, with images next to
them as bare base64. Most clients send no ids of calls. A call gets an id that is derived from the
call's position in the conversation, and is therefore the same in every request. A result that names
a tool belongs to the first call of this tool without a result. A result without a name belongs to
the first call without a result. Only the calls of the model's last turn are searched.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from swink_core import (
    AssistantMessage,
    Base64Source,
    Block,
    Context,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.providers import parse_arguments, synthetic_id
from swink_gateway.protocols import Asked, BadRequest
from swink_gateway.protocols.fields import Fields

__all__ = ["WIRE_FORMAT", "read_chat", "read_generate"]

WIRE_FORMAT = "ollama-chat"

LEVELS = {
    "true": "medium", "false": "off", "low": "low", "medium": "medium", "high": "high",
    "max": "extra_high",
}  # fmt: skip
"""swink's levels of thinking, by Ollama's values; `true` means the medium level."""

_SAME = ("temperature", "top_p", "presence_penalty", "frequency_penalty")

_ONLY_GENERATE = ("suffix", "template", "context", "raw", "width", "height", "steps")
"""Fields of `/api/generate` for which a chat has no equivalent."""

_AT_ONCE = (0, "0", "0s", "0m", "0h")

_IMAGES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
"""The first bytes of image formats; a WebP file is recognised by later bytes."""


def read_chat(body: Any) -> Asked:
    """Parse a request to `/api/chat`. Raises BadRequest if it is invalid."""
    said = Fields(body)
    asked = Asked(said.required("model"), Context(_Messages().read(said)))
    asked.context.tools = [tool for one in said.objects("tools") if (tool := _tool(one))]
    return _completed(said, asked, bool(asked.context.messages))


def read_generate(body: Any) -> Asked:
    """Parse a request to `/api/generate`. Raises BadRequest if it is invalid."""
    said = Fields(body)
    asked = Asked(said.required("model"), Context([]))
    asked.context.system_prompt = said.text("system") or None
    content = _content(said, said.text("prompt") or "")
    asked.context.messages = [UserMessage(content)]
    for name in _ONLY_GENERATE:
        if said.data(name):
            said.drop(name)
    return _completed(said, asked, bool(content))


def _completed(said: Fields, asked: Asked, speaks: bool) -> Asked:
    """Read the fields that `/api/chat` and `/api/generate` share.

    A request without messages only loads or unloads a model.
    """
    if not speaks:
        asked.idle = "unload" if said.data("keep_alive") in _AT_ONCE else "load"
    asked.stream = said.flag("stream") is not False
    if (tuning := said.object("options")) is not None:
        asked.options = _options(tuning)
        if own := tuning.rest():
            asked.own["options"] = own
            asked.own_places += [tuning.place(name) for name in own]
    if form := said.take("format", (str, dict)):
        asked.options["response_format"] = form
    think = said.take("think", (bool, str))
    word = str(think).lower()
    if word in LEVELS:
        asked.options["thinking"] = LEVELS[word]
    elif think is not None:
        said.drop("think", word)
    own = said.rest()
    asked.own |= own
    asked.own_places += own
    asked.dropped = said.dropped
    return asked


def _options(tuning: Fields) -> dict[str, Any]:
    stop = tuning.take("stop", (str, list))
    most = tuning.whole_number("num_predict")
    options: dict[str, Any] = {name: tuning.number(name) for name in _SAME}
    options |= {
        "top_k": tuning.whole_number("top_k"),
        "seed": tuning.whole_number("seed"),
        # A negative number means no limit.
        "max_tokens": most if most is not None and most > 0 else None,
        "stop": tuple(map(str, stop)) if isinstance(stop, list) else stop,
    }
    return {name: value for name, value in options.items() if value is not None}


def _tool(said: Fields) -> Tool | None:
    said.text("type")
    if (function := said.object("function")) is None:
        said.drop()
        return None
    tool = Tool(function.required("name"), function.text("description") or "")
    if (parameters := function.take("parameters", dict)) is not None:
        tool.parameters = parameters
    return tool


class _Messages:
    """Reader of a conversation.

    `_waiting` maps the ids of calls of the model's last turn without a result to tool names.
    """

    def __init__(self) -> None:
        self._read: list[Message] = []
        self._waiting: dict[str, str] = {}
        self._calls = 0

    def read(self, said: Fields) -> list[Message]:
        for one in said.objects("messages"):
            self._read.append(self._message(one))
        return self._read

    def _message(self, said: Fields) -> Message:
        role = said.required("role")
        text = said.text("content") or ""
        match role:
            case "system":
                return SystemMessage(text)
            case "user":
                return UserMessage(_content(said, text))
            case "assistant":
                return self._assistant(said, text)
            case "tool" if self._waiting:
                return self._result(said, text)
            case "tool":  # a result without a call becomes a user message
                name = said.text("tool_name") or said.text("name") or "a tool"
                said.text("tool_call_id")
                return UserMessage(_content(said, f"[result of {name}] {text}"))
        raise BadRequest(f"{said.place('role')} is {role!r}, an unknown role")

    def _assistant(self, said: Fields, text: str) -> AssistantMessage:
        if not (self._read and isinstance(self._read[-1], AssistantMessage)):
            self._waiting.clear()  # a new turn of the model begins
        content: list[Block] = []
        if thought := said.text("thinking"):
            content.append(ThinkingBlock(thought))
        if text:
            content.append(TextBlock(text))
        content += [self._call(call) for call in said.objects("tool_calls")]
        return AssistantMessage(content)

    def _call(self, said: Fields) -> ToolCallBlock:
        said.text("type")
        function = said.object("function")
        if function is None:
            raise BadRequest(f"{said.place('function')} is missing; expected an object")
        function.whole_number("index")
        name, given = function.required("name"), function.take("arguments", (dict, str))
        arguments = given if isinstance(given, dict) else parse_arguments(str(given or ""))
        id = said.text("id") or self._mint()
        self._waiting[id] = name
        if arguments is None:
            return ToolCallBlock(id, name, {}, str(given), "invalid")
        return ToolCallBlock(id, name, arguments)

    def _result(self, said: Fields, text: str) -> ToolResultMessage:
        name = said.text("tool_name") or said.text("name") or ""
        id = said.text("tool_call_id") or self._first_waiting(name)
        name = self._waiting.pop(id, "") or name
        return ToolResultMessage(id, name, _content(said, text))

    def _first_waiting(self, name: str) -> str:
        found = (id for id, called in self._waiting.items() if not name or called == name)
        return next(found, None) or next(iter(self._waiting))

    def _mint(self) -> str:
        self._calls += 1
        return synthetic_id("ollama", self._calls)


def _content(said: Fields, text: str) -> str | list[Block]:
    images = said.take("images", list)
    if not images:
        return text
    place = said.place("images")
    shown = [_image(data, f"{place}[{at}]") for at, data in enumerate(images)]
    return [*([TextBlock(text)] if text else []), *shown]


def _image(data: Any, place: str) -> ImageBlock:
    """Return an image, whose media type is detected from the first bytes."""
    if not isinstance(data, str):
        raise BadRequest(f"{place} is not a string; expected an image as base64")
    try:
        head = b64decode(data[:24], validate=True)
    except ValueError as error:
        raise BadRequest(f"{place} is not valid base64: {error}") from error
    kind = next((kind for begins, kind in _IMAGES.items() if head.startswith(begins)), None)
    if kind is None:
        kind = "image/webp" if head[8:12] == b"WEBP" else "image/png"
    return ImageBlock(Base64Source(kind, data))
