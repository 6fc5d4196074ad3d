"""Convert requests of OpenAI's Responses to conversations and options.

https://developers.openai.com/api/reference/resources/responses: `input` is a string or a list of
items, including messages; reasoning and calls of the model are separate items.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    UserMessage,
    replace,
)
from swink_core.providers import parse_arguments
from swink_gateway.protocols import Asked, BadRequest
from swink_gateway.protocols.fields import Fields
from swink_gateway.protocols.frames import encode
from swink_gateway.protocols.media import source_of
from swink_gateway.protocols.options import EFFORTS, HIGHEST, SOUNDS, marks_of, response_format
from swink_gateway.protocols.responses.items import ENCRYPTED, WIRE_FORMAT, is_made
from swink_gateway.protocols.sealing import (
    Sealed,
    opaque_in,
    opened,
    unsealed,
    vendor_of,
    with_sealed,
)
from swink_gateway.protocols.tool_names import FREE_TEXT, Known, flat_name, free_text_schema

__all__ = ["WIRE_FORMAT", "as_input", "read_responses", "reference_of"]

VENDOR = vendor_of(WIRE_FORMAT)
"""The provider whose encrypted content is sent to clients unchanged."""

ECHOED = (
    "instructions", "metadata", "parallel_tool_calls", "temperature", "tool_choice", "tools",
    "top_p", "max_output_tokens", "previous_response_id", "reasoning", "store", "text", "user",
)  # fmt: skip
"""Request fields that a response repeats."""

_SILENT = ("stream", "stream_options", "background", "store", "generate", "type")

ANSWERS = ("_output", "_response")
"""An item is a client's answer to a tool call or request if its type ends in one of these."""


REFERENCE = "item_reference"


def reference_of(item: Any) -> str | None:
    """Return the id of the output item for which an item of the input stands, if it does."""
    is_reference = isinstance(item, dict) and item.get("type") == REFERENCE
    return item["id"] if is_reference else None


def read_responses(body: Any) -> Asked:
    """Parse a request. Raises BadRequest if it is invalid.

    References to items are left out: the caller inserts the items and parses the input again.
    """
    return _Reader(Fields(body)).read()


class _Reader:
    """Reader of one request.

    `_called` maps the ids of calls to tool names. `_beside` maps the position of each answer to the
    provider's opaque data that was sealed for the calls of this answer. `_native` contains the
    positions of those answers whose encrypted content comes from a known provider with this API.
    """

    def __init__(self, said: Fields) -> None:
        self._said = said
        self._tools: dict[str, Known] = {}
        self._own_tools: list[dict[str, Any]] = []
        self._own_fields: dict[str, Any] = {}
        self._highest_effort = ""
        self._called: dict[str, str] = {}
        self._beside: dict[int, list[Sealed]] = {}
        self._native: set[int] = set()
        self._messages: list[Message] = []

    def read(self) -> Asked:
        said = self._said
        context = Context([], said.text("instructions"))
        context.tools = [tool for one in said.objects("tools") for tool in self._tool(one, "")]
        given = said.data("input")
        if isinstance(given, str):
            self._messages.append(UserMessage(given))
        else:
            for item in said.objects("input"):
                self._item(item)
        for place, answer in enumerate(self._messages):
            if isinstance(answer, AssistantMessage):
                is_native = place in self._native or answer.provider == WIRE_FORMAT
                _settle(answer, self._beside.get(place, ()), is_native)
        context.messages = self._messages
        asked = Asked(said.required("model"), context)
        asked.stream = bool(said.flag("stream"))
        asked.said = {
            "echo": {n: v for n in ECHOED if (v := said.data(n)) is not None},
            "previous": said.text("previous_response_id"),
            "store": said.flag("store") is not False,
            "generate": said.flag("generate") is not False,
            "input": given,
        }
        asked.options = self._options()
        if said.flag("background"):
            raise BadRequest("background: true is not supported; leave it out or set it to false")
        for name in _SILENT:
            said.data(name)
        asked.own = said.rest()
        asked.own |= self._own_fields
        if metadata := said.take("metadata", dict):
            asked.own["metadata"] = metadata
        if self._own_tools:
            asked.own["tools"] = self._own_tools
        asked.highest_effort = self._highest_effort
        asked.tools, asked.dropped = self._tools, said.dropped
        return asked

    def _options(self) -> dict[str, Any]:
        said = self._said
        options: dict[str, Any] = {
            "max_tokens": said.whole_number("max_output_tokens"),
            "temperature": said.number("temperature"),
            "top_p": said.number("top_p"),
            "parallel_tool_calls": said.flag("parallel_tool_calls"),
            "session_id": said.text("prompt_cache_key"),
            "user": said.text("user") or said.text("safety_identifier"),
            "tool_choice": self._tool_choice(),
        }
        if (reasoning := said.object("reasoning")) is not None:
            effort = reasoning.text("effort")
            reasoning.text("summary")  # summaries of thinking are always sent
            options["thinking"] = EFFORTS.get(effort or "")
            own = {"effort": effort} if effort and effort not in EFFORTS else {}
            if effort == HIGHEST:
                self._highest_effort = reasoning.place("effort")
            if own := {**own, **reasoning.rest()}:
                self._own_fields["reasoning"] = own
        if (text := said.object("text")) is not None:
            form = text.object("format")
            kind = None if form is None else form.text("type")
            if form is not None and kind == "json_schema":
                options["response_format"] = response_format(form)
            elif kind == "json_object":
                options["response_format"] = "json"
            if left := text.rest():
                self._own_fields["text"] = left
        return {name: value for name, value in options.items() if value is not None}

    def _tool_choice(self) -> str | None:
        choice = self._said.data("tool_choice")
        if not isinstance(choice, dict):
            return self._said.text("tool_choice")
        how = self._said.object("tool_choice")
        assert how is not None
        if how.text("type") in ("function", "custom"):
            return how.required("name")
        self._own_fields["tool_choice"] = how.all()
        return None

    def _tool(self, said: Fields, namespace: str) -> Iterator[Tool]:
        kind = said.text("type")
        if kind == "namespace":
            name = said.required("name")
            said.text("description")
            for one in said.objects("tools"):
                yield from self._tool(one, name)
            return
        if kind not in ("function", "custom"):
            self._own_tools.append(said.all())
            return
        name = said.required("name")
        flat = flat_name(namespace, name)
        self._tools[flat] = Known(name, namespace, kind == "custom")
        tool = Tool(flat, said.text("description") or "")
        if kind == "custom":
            tool.parameters = free_text_schema()
            native = {**said.all(), "parameters": None, "strict": None}
            tool.metadata = {WIRE_FORMAT: native}
        else:
            tool.parameters = said.take("parameters", dict) or tool.parameters
            tool.strict = said.flag("strict")
        yield tool

    # -- items -------------------------------------------------------------------------------------

    def _item(self, said: Fields) -> None:
        kind = said.text("type") or "message"
        if kind == "message":
            self._message(said)
        elif kind == "reasoning":
            self._reasoning(said)
        elif kind in ("function_call", FREE_TEXT):
            answer = self._answer()
            answer.content.append(call := self._call(said, kind))
            if kind == FREE_TEXT and call.metadata is None:
                call.metadata = {"item": {"type": FREE_TEXT}}
                answer.provider = answer.provider or WIRE_FORMAT
        elif kind in ("function_call_output", f"{FREE_TEXT}_output"):
            self._messages.append(self._result(said))
        elif kind == REFERENCE:
            said.required("id")
        elif kind.endswith(ANSWERS):
            self._messages.append(UserMessage([ExtensionBlock(WIRE_FORMAT, kind, said.all())]))
        elif is_made(said.data("id")):
            said.all()  # generated by the gateway: the next item contains the sealed block
        else:
            answer = self._answer()
            item, owner = self._owned(said.all(), answer)
            answer.content.append(ExtensionBlock(owner, kind, item))

    def _owned(self, item: dict[str, Any], answer: AssistantMessage) -> tuple[dict[str, Any], str]:
        """Return an item of this API, and the provider that alone can read it.

        Any provider with this API can read an item without encrypted content: the wire format is
        returned for it.
        """
        if not isinstance(opaque := item.get(ENCRYPTED), str):
            answer.provider = answer.provider or WIRE_FORMAT
            return item, WIRE_FORMAT
        provider = VENDOR
        if (sealed := unsealed(opaque)) is not None and (inner := opaque_in(sealed)) is not None:
            item, provider = {**item, ENCRYPTED: inner}, sealed.provider
        answer.provider = provider
        self._native.add(len(self._messages) - 1)
        return item, provider

    def _answer(self) -> AssistantMessage:
        """Return the answer to which items are added: the last message, or a new one."""
        last = self._messages[-1] if self._messages else None
        if not isinstance(last, AssistantMessage):
            last = AssistantMessage([])
            self._messages.append(last)
        return last

    def _message(self, said: Fields) -> None:
        role, phase = said.required("role"), said.text("phase")
        for name in ("type", "id", "status"):
            said.data(name)
        content: Any = said.take("content", (str, list))
        if isinstance(content, list):
            parts = (self._part(part) for part in said.objects("content"))
            content = [block for block in parts if block is not None]
        match role:
            case "system" | "developer":
                self._messages.append(SystemMessage(content or ""))
            case "user":
                self._messages.append(UserMessage(content or ""))
            case "assistant":
                blocks = [TextBlock(content)] if isinstance(content, str) else content or []
                self._say(blocks, phase)
            case _:
                raise BadRequest(f"{said.place('role')} is {role!r}, an unknown role")

    def _say(self, blocks: list[Any], phase: str | None) -> None:
        """Add texts of the model, with this API's metadata for each."""
        answer = self._answer()
        for block in blocks:
            if phase is not None:
                block.metadata = {**(block.metadata or {}), "item": {"phase": phase}}
            if block.metadata:
                answer.provider = answer.provider or WIRE_FORMAT
        answer.content += blocks

    def _reasoning(self, said: Fields) -> None:
        opaque = said.text(ENCRYPTED)
        answer = self._answer()
        parts = said.take("content", list) or said.take("summary", list) or []
        shown = "\n\n".join(str(p.get("text") or "") for p in parts if isinstance(p, dict))
        item = {name: value for name, value in said.all().items() if not _is_made(name, value)}
        sealed = unsealed(opaque)
        if sealed is None or opaque_in(sealed) is not None:
            if not (shown or opaque):
                return  # the item is empty
            item, _ = self._owned(item, answer)
            answer.content.append(ThinkingBlock(shown, metadata={"item": item}))
            return
        answer.provider = sealed.provider
        if "of" in sealed.data:
            if sealed.data.get("wordless"):
                answer.content.append(TextBlock(""))
            self._beside.setdefault(len(self._messages) - 1, []).append(sealed)
            return
        block: Block | None
        if "block" in sealed.data:
            block = opened(ExtensionBlock, sealed.data["block"])
        else:
            block = opened(ThinkingBlock, sealed.data.get("thought"))
        answer.content += [block] if block is not None else []

    def _call(self, said: Fields, kind: str) -> ToolCallBlock:
        cut = said.data("status") == "incomplete"
        for name in ("type", "id"):
            said.data(name)
        id = said.required("call_id")
        name = flat_name(said.text("namespace") or "", said.required("name"))
        self._called[id] = name
        if kind == FREE_TEXT:
            given = {"input": said.text("input") or ""}
            return ToolCallBlock(id, name, given, encode(given).decode())
        raw = said.text("arguments") or ""
        arguments = parse_arguments(raw)
        if arguments is None or (cut and not raw):
            return ToolCallBlock(id, name, {}, raw, "truncated" if cut else "invalid")
        return ToolCallBlock(id, name, arguments, raw)

    def _result(self, said: Fields) -> ToolResultMessage:
        for name in ("type", "id", "status"):
            said.data(name)
        id, output = said.required("call_id"), said.take("output", (str, list))
        content: Any = output or ""
        if isinstance(output, list):
            parts = (self._part(part) for part in said.objects("output"))
            content = [block for block in parts if block is not None]
        return ToolResultMessage(id, self._called.get(id, ""), content)

    def _part(self, said: Fields) -> Block | None:
        kind, marks = said.text("type"), marks_of(said)
        match kind:
            case "input_text" | "output_text" | "text" | "refusal":
                beside = {n: v for n in ("annotations", "logprobs") if (v := said.take(n, list))}
                text = said.text("refusal" if kind == "refusal" else "text") or ""
                return TextBlock(text, {**beside, **marks} or None)
            case "input_image":
                detail = said.text("detail")
                metadata = ({"detail": detail, **marks} if detail else marks) or None
                if (id := said.text("file_id")) is not None:
                    return ImageBlock(FileIdSource(WIRE_FORMAT, id), metadata)
                url = said.required("image_url")
                return ImageBlock(source_of(url, said.place("image_url")), metadata)
            case "input_file":
                return self._file(said, marks)
            case "input_audio" if (sound := said.object(kind)) is not None:
                form = sound.required("format")
                form = SOUNDS.get(form, f"audio/{form}")
                return AudioBlock(Base64Source(form, sound.required("data")), marks or None)
        said.drop(why=str(kind))
        return None

    def _file(self, said: Fields, marks: dict[str, Any]) -> DocumentBlock:
        name, metadata = said.text("filename"), marks or None
        if (id := said.text("file_id")) is not None:
            return DocumentBlock(FileIdSource(WIRE_FORMAT, id), name, metadata)
        field = "file_url" if "file_url" in said else "file_data"
        return DocumentBlock(source_of(said.required(field), said.place(field)), name, metadata)


def _settle(answer: AssistantMessage, beside: Sequence[Sealed], is_native: bool) -> None:
    """Add the sealed data to the calls of an answer from a provider with another API.

    This API's metadata of texts and calls is removed, because the provider does not understand it.
    `is_native` means that the provider has this API, so that the metadata is kept.
    """
    if not is_native:
        for block in answer.content:
            if isinstance(block, TextBlock | ToolCallBlock):
                block.metadata = None
    with_sealed(answer.content, beside)
    answer.content = [b for b in answer.content if not isinstance(b, TextBlock) or _says(b)]


def as_input(message: AssistantMessage) -> AssistantMessage:
    """Return an answer in the form in which a client sends it back as input.

    The vendor's ids and states of messages and calls are left out, as in `read_responses`: the
    vendor refuses the id of an item if the reasoning before the item is missing, and a client may
    have left out the reasoning.
    """
    blocks = [_without_ids(block) for block in message.content]
    return replace(message, content=blocks)


def _without_ids(block: Block) -> Block:
    metadata = {} if not isinstance(block, TextBlock | ToolCallBlock) else block.metadata or {}
    item = metadata.get("item")
    if not isinstance(item, dict):
        return block
    rest = {name: value for name, value in metadata.items() if name != "item"}
    read = {"phase": item["phase"]} if "phase" in item else {}
    if item.get("type") == FREE_TEXT:
        read["type"] = FREE_TEXT
    return replace(block, metadata={**rest, "item": read} if read else rest or None)


def _says(text: TextBlock) -> bool:
    return bool(text.text or text.metadata)


def _is_made(name: str, value: Any) -> bool:
    return name == "id" and is_made(value)
