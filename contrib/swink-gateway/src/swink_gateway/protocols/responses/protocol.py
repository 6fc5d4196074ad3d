"""OpenAI's Responses: https://developers.openai.com/api/reference/resources/responses/streaming.

Every block is an output item with its own id and index. Events report the beginning, the
continuation and the end of an item (without `response.output_item.done`, Codex prints nothing).
Events are numbered. The last event contains the complete response: completed, incomplete or failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swink_core import (
    AssistantMessage,
    Done,
    Error,
    Extension,
    ExtensionBlock,
    Notice,
    Retry,
    Start,
    StopReason,
    TextBlock,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingBlock,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallBlock,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from swink_core.providers import parse_arguments
from swink_gateway.protocols import Asked, Facts, Known, Reply
from swink_gateway.protocols.encoding import (
    REFUSAL,
    EventEncoder,
    id_of,
    model_of,
    started_anew,
)
from swink_gateway.protocols.frames import SSE, encode, named_frame
from swink_gateway.protocols.openai_errors import error_data, error_reply, final_in_responses
from swink_gateway.protocols.responses.items import (
    Items,
    refusal_part,
    text_part,
    usage_data,
)
from swink_gateway.protocols.responses.open_items import DELTAS, PARTS, Open, head_of_deltas
from swink_gateway.protocols.responses.requests import WIRE_FORMAT, read_responses
from swink_gateway.protocols.sealing import Key

__all__ = ["PREFIX", "ResponsesEncoder", "ResponsesProtocol"]

PREFIX = "resp_"
"""The prefix of generated ids."""


class ResponsesProtocol:
    """Reads requests that OpenAI's SDKs and Codex send to `responses`, and answers them."""

    name = "responses"
    wire_format = WIRE_FORMAT

    def read(self, body: Any, path: Mapping[str, str], headers: Mapping[str, str]) -> Asked:
        """Parse a request."""
        return read_responses(body)

    def encoder(self, asked: Asked, facts: Facts) -> ResponsesEncoder:
        """Create an encoder for the answer to a request."""
        return ResponsesEncoder(asked, facts)

    def nothing(self, asked: Asked, facts: Facts) -> list[dict[str, Any]]:
        """Return the events of an empty answer."""
        return ResponsesEncoder(asked, facts).nothing()

    def failure(self, error: Error, status: int) -> Reply:
        """Return the response for a failure before the answer, with this HTTP status."""
        return error_reply(error, status)


class ResponsesEncoder(EventEncoder):
    """Writes numbered events; `_output` lists the items by index (`None`: not complete yet).

    `_texts` contains each text that has begun but has no words yet: its index and its kind, `text`
    or `refusal`.

    The answer has the provider's id only if the provider uses this protocol too, because other
    providers may repeat ids. If `asked.said` contains a function `is_taken`, the answer gets no id
    for which this function returns True.
    """

    content_type = SSE

    def __init__(self, asked: Asked, facts: Facts) -> None:
        super().__init__(_SAYING)
        self._asked = asked
        self._facts = facts
        self._number = 0
        self._response: dict[str, Any] = {}
        self._open: dict[int, Open] = {}
        self._texts: dict[int, str] = {}
        self._output: list[dict[str, Any] | None] = []
        self._keys: dict[int, Key] = {}
        self._items = Items("", "", False, {})
        self._refuses = False

    def _write(self, event: Any, batch: Sequence[Any], out: list[bytes]) -> None:
        match event:
            case TextDelta(content_index=index, delta=text):
                if index in self._texts:
                    self._begin_texts(batch, out)
                self._delta(self._open[index], text, out)
            case ThinkingDelta() | ToolCallDelta():
                self._delta(self._open[event.content_index], event.delta, out)
            case TextStart(content_index=index):
                self._begin_texts(batch, out)
                self._keys[index] = self._items.key(None)
                self._texts[index] = "refusal" if self._refuses else "text"
                self._refuses = False
            case TextEnd(content_index=index, metadata=metadata):
                if index in self._texts and metadata and not self._items.is_own:
                    del self._texts[index]
                    self._seal(event, out, is_wordless=True)
                    return
                self._begin_texts(batch, out)
                self._end_text(self._open.pop(index), event, out)
                self._seal(event, out)
            case ThinkingStart(content_index=index):
                self._begin_texts(batch, out)
                kind = "summary" if self._items.is_own else "reasoning"
                self._add(index, self._items.reasoning(self._notes(index, batch)), kind, out)
            case ThinkingEnd(content_index=index):
                self._end_thinking(self._open.pop(index), event, out)
            case ToolCallStart(content_index=index, id=id, name=name):
                self._begin_texts(batch, out)
                self._keys[index] = self._items.key(id)
                if (end := self._ends_in(batch).get(index)) is not None:
                    self._seal(end, out)
                item = self._items.call(id, name, self._notes(index, batch))
                self._add(index, item, "input" if "input" in item else "arguments", out)
            case ToolCallEnd(content_index=index):
                self._end_call(self._open.pop(index), event, out)
                self._seal(event, out)
            case Extension():
                self._begin_texts(batch, out)
                block = ExtensionBlock(event.provider, event.kind, event.data, event.metadata)
                for item in self._items.extension(block):
                    self._whole(item, out)
            case Notice(code=code):
                self._refuses = self._refuses or code == REFUSAL
            case Start():
                self._refuses = False
            case Retry() if self._begun:
                self._fail(started_anew(event), out)
            case Done():
                self._finish(event, out)
            case Error():
                if not self._response:
                    id = self._id_of(event.response_id, *self._facts.wire_formats)
                    self._announce(id, event.model or self._asked.model, out)
                self._fail(event, out)

    # -- the response ------------------------------------------------------------------------------

    def alive(self, known: Known) -> bytes:
        """Return a keep-alive event: Codex and SDKs wait for events, and ignore comments.

        If the answer has not begun, its first event is sent first, with a generated id. The answer
        keeps this id.
        """
        out: list[bytes] = []
        if not self._response:
            self._announce(PREFIX + self._facts.id, model_of(known, ()), out)
        else:
            self._say_in_progress("in_progress", out)
        return b"".join(out)

    def _begin(self, known: Known, batch: Sequence[Any], out: list[bytes]) -> None:
        provider = known.model.provider
        self._items = self._items_from(provider)
        self._begun = True
        if not self._response:
            said = id_of(known, batch, self._facts, PREFIX)
            self._announce(self._id_of(said, provider), model_of(known, batch), out)
        self._response["model"] = model_of(known, batch)

    def _items_from(self, provider: str) -> Items:
        return Items(self._facts.id, provider, self._is_own(provider), self._asked.tools)

    def _is_own(self, provider: str) -> bool:
        return self._facts.wire_formats.get(provider) == WIRE_FORMAT

    def _id_of(self, said: str | None, *providers: str) -> str:
        """Return the id of the answer, if `said` is the id that one of `providers` reported."""
        is_taken = self._asked.said.get("is_taken")
        if not said or not all(map(self._is_own, providers)) or (is_taken and is_taken(said)):
            return PREFIX + self._facts.id
        return said

    def _announce(self, id: str, model: str, out: list[bytes]) -> None:
        self._response = self._head(id, model)
        self._say_in_progress("created", out)
        self._say_in_progress("in_progress", out)

    def _say_in_progress(self, word: str, out: list[bytes]) -> None:
        self._say(word, out, response={**self._response, "status": "in_progress"})

    def _head(self, id: str, model: str | None) -> dict[str, Any]:
        echo: dict[str, Any] = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return {
            "id": id,
            "object": "response",
            "created_at": self._facts.created,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            **echo,
            **self._asked.said.get("echo", {}),
            "model": model,
            "output": [],
            "usage": None,
        }

    def nothing(self) -> list[dict[str, Any]]:
        """Return the events of an empty answer, for which no provider is called."""
        response = self._head(PREFIX + self._facts.id, self._asked.model)
        usage = usage_data(Usage(), None)
        begun = {**response, "status": "in_progress"}
        said = (("created", begun), ("completed", {**response, "usage": usage}))
        return [
            {"type": f"response.{word}", "sequence_number": number, "response": state}
            for number, (word, state) in enumerate(said)
        ]

    def _finish(self, done: Done, out: list[bytes]) -> None:
        self.ended = True
        response = self._items.ending(done.stop_reason, done.metadata)
        usage = usage_data(done.usage, done.cost)
        self._say(response["status"], out, response={**self._ended(), **response, "usage": usage})

    def _fail(self, error: Error, out: list[bytes]) -> None:
        self.ended = True
        data = error_data(error, final_in_responses(error))
        usage = usage_data(error.usage, error.cost)
        said = {"status": "failed", "error": data, "usage": usage}
        # OpenAI's SDKs raise an exception only for an event with a top-level field `error`.
        self._say("failed", out, response={**self._ended(), **said}, error=data)

    def _ended(self) -> dict[str, Any]:
        return {**self._response, "output": self.output}

    # -- items -------------------------------------------------------------------------------------

    def _add(self, index: int, item: dict[str, Any], kind: str, out: list[bytes]) -> None:
        opened = self._open[index] = Open(len(self._output), item, kind)
        self._output.append(None)
        self._say("output_item.added", out, place=opened.place, item=item)

    def _done(self, opened: Open, item: dict[str, Any], out: list[bytes]) -> None:
        self._output[opened.place] = item
        self._say("output_item.done", out, place=opened.place, item=item)

    def _whole(self, item: dict[str, Any], out: list[bytes]) -> None:
        self._add(-1, item, "summary", out)
        self._done(self._open.pop(-1), item, out)

    def _begin_texts(self, batch: Sequence[Any], out: list[bytes]) -> None:
        """Begin the texts that were held back; a text is held back until its first words arrive.

        If a text ends without words but has opaque data, only the data is sent, in sealed form.
        """
        waiting, self._texts = self._texts, {}
        for index, kind in waiting.items():
            self._add(index, self._items.message(self._notes(index, batch)), kind, out)
            part = refusal_part("") if kind == "refusal" else text_part("")
            self._say("content_part.added", out, self._open[index], content_index=0, part=part)

    def _delta(self, opened: Open, text: str, out: list[bytes]) -> None:
        if not opened.text and opened.kind in PARTS:
            part, index, begun = PARTS[opened.kind]
            self._say(part, out, opened, **index, part={"type": begun, "text": ""})
        opened.text.append(text)
        if opened.kind == "input":
            return  # the client expects the text in the JSON, when the JSON is complete
        if not opened.head:
            opened.head = head_of_deltas(opened)
        number, self._number = self._number, self._number + 1
        out += (opened.head, b"%d" % number, b',"delta":', encode(text), b"}\n\n")

    def _end_text(self, opened: Open, event: TextEnd, out: list[bytes]) -> None:
        block = TextBlock(opened.said, event.metadata)
        item = self._items.said(opened.item, block)
        part = item["content"][0]
        word, index = DELTAS[opened.kind]
        name = "refusal" if opened.kind == "refusal" else "text"
        self._say(f"{word}.done", out, opened, **index, **{name: opened.said})
        for number, source in enumerate(part.get("annotations", ())):
            place = {"content_index": 0, "annotation_index": number}
            self._say("output_text.annotation.added", out, opened, **place, annotation=source)
        self._say("content_part.done", out, opened, content_index=0, part=part)
        self._done(opened, item, out)

    def _end_thinking(self, opened: Open, event: ThinkingEnd, out: list[bytes]) -> None:
        block = ThinkingBlock(opened.said, event.signature, event.redacted, event.metadata)
        if opened.text:
            word, index = DELTAS[opened.kind]
            self._say(f"{word}.done", out, opened, **index, text=opened.said)
            part, index, begun = PARTS[opened.kind]
            ended = part.replace("added", "done")
            self._say(ended, out, opened, **index, part={"type": begun, "text": opened.said})
        self._done(opened, self._items.thought(opened.item, block), out)

    def _end_call(self, opened: Open, event: ToolCallEnd, out: list[bytes]) -> None:
        arguments, name = parse_arguments(opened.said), opened.item["name"]
        state: Any = "truncated" if self._cut or arguments is None else "complete"
        block = ToolCallBlock("", name, arguments or {}, opened.said, state, event.metadata)
        item = self._items.called(opened.item, block)
        if opened.kind == "input":
            self._say("custom_tool_call_input.delta", out, opened, delta=item["input"])
            self._say("custom_tool_call_input.done", out, opened, input=item["input"])
        else:
            said = item["arguments"]
            if said and not opened.said:  # the deltas are the arguments
                self._say("function_call_arguments.delta", out, opened, delta=said)
            self._say("function_call_arguments.done", out, opened, arguments=said, name=name)
        self._done(opened, item, out)

    def _notes(self, index: int, batch: Sequence[Any]) -> Mapping[str, Any] | None:
        """Return the metadata of a block's end, if the batch contains the end of the block."""
        end = self._ends_in(batch).get(index)
        return None if end is None else end.metadata

    def _seal(
        self, end: TextEnd | ToolCallEnd, out: list[bytes], *, is_wordless: bool = False
    ) -> None:
        """Send the opaque data of another provider for a text or a call, if not yet sent."""
        key = self._keys.pop(end.content_index, None)
        if key is None:
            return
        item = self._items.beside(key, end.metadata, is_wordless=is_wordless)
        if item is not None:
            self._whole(item, out)

    def _say(self, word: str, out: list[bytes], opened: Open | None = None, **said: Any) -> None:
        data: dict[str, Any] = {"type": f"response.{word}", "sequence_number": self._number}
        if opened is not None:
            data |= {"item_id": opened.item["id"], "output_index": opened.place}
        if "place" in said:
            data["output_index"] = said.pop("place")
        self._number += 1
        out.append(named_frame({**data, **said}))

    @property
    def id(self) -> str:
        """The id of the answer, once its beginning or the whole answer has been encoded."""
        id: str = self._response["id"]
        return id

    @property
    def output(self) -> list[dict[str, Any]]:
        """The complete items that have been encoded."""
        return [item for item in self._output if item is not None]

    def whole(self, message: AssistantMessage) -> bytes:
        """Encode a response; if it has been streamed, with the items that the client received."""
        provider = message.provider or ""
        if not self._response:
            self._response = self._head(self._id_of(message.response_id, provider), message.model)
        response = {**self._response, "model": message.model}
        if not self._output:
            self._items = self._items_from(provider)
            self._output += [item for block in message.content for item in self._items.of(block)]
        response["output"] = self.output
        response |= self._items.ending(message.stop_reason or StopReason.STOP, message.metadata)
        response["usage"] = usage_data(message.usage, message.cost)
        return encode(response)


_SAYING = frozenset({TextStart, ThinkingStart, ToolCallStart, Extension, Done})
"""Events that begin the answer."""
