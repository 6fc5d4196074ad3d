"""Parse the events of the Responses API.

All content belongs to output items. An item is identified by `output_index`, not by its id, because
some servers change the id of an item. A part of a message is identified by `content_index`.

* Text, arguments and reasoning first arrive in deltas. The complete text then arrives in one or
  more `.done` events, in the item of `output_item.done`, and in the response of the last event.
  Deltas become events immediately. Of a complete text, only the end that is missing from the deltas
  becomes an event. If the complete text contradicts the deltas, the deltas remain the text, because
  they were already delivered, and a notice reports the contradiction.
* Fields that the next request must send back become metadata with the key `item`: for reasoning,
  the whole item; for messages and calls, the fields that the block does not contain. This metadata
  is written when the item is done, even if its block has ended by then.
* An item of another type (hosted tools, compaction) becomes an extension when it is done. A
  client-side tool call ends the answer with the stop reason tool use (`hosted`).
* The module `calls` converts function calls to events.

The answer is complete after `response.completed` or `response.incomplete`. Later events are not
read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from swink_core import Failure, StopReason
from swink_core.providers import EventWriter, MalformedFrame, text_field
from swink_provider_openai.errors import read_error, word
from swink_provider_openai.finish import announce_refusal
from swink_provider_openai.responses import calls
from swink_provider_openai.responses.facts import cut_short, kept_long, note_facts
from swink_provider_openai.responses.hosted import Asked
from swink_provider_openai.responses.items import Item
from swink_provider_openai.responses.wire import Event, Response
from swink_provider_openai.usage import report_usage

__all__ = ["ResponsesParser"]

_decode = msgspec.json.Decoder(Event).decode
_decode_response = msgspec.json.Decoder(Response).decode
_decode_output = msgspec.json.Decoder(list[dict[str, Any]]).decode

DONE = b"[DONE]"
"""Sent by OpenRouter after the last event."""

MESSAGE_REST, ANSWERED = ("id", "phase"), ("completed", "incomplete")

PARAGRAPH = "\n\n"
"""The separator between parts of the reasoning in one item."""


class ResponsesParser:
    """Parses one response."""

    def __init__(self) -> None:
        self._items: dict[int, Item] = {}
        self._named: dict[Any, Item] = {}  # items by id, for events without an index
        self._begun_items = 0
        self._latest = -1
        self._current: Any = None  # the key of the block that is being written
        self._refused = False
        self._asked = Asked()
        self._handlers: dict[str, Callable[[Event, EventWriter], None]] = {
            "response.output_text.delta": self._text_delta,
            "response.output_text.done": self._text_done,
            "response.refusal.delta": self._refusal_delta,
            "response.refusal.done": self._refusal_done,
            "response.content_part.done": self._part_done,
            "response.reasoning_summary_text.delta": self._summary_delta,
            "response.reasoning_summary_text.done": self._summary_done,
            "response.reasoning_text.delta": self._reasoning_delta,
            "response.reasoning_text.done": self._reasoning_done,
            "response.function_call_arguments.delta": self._arguments_delta,
            "response.function_call_arguments.done": self._arguments_done,
            "response.custom_tool_call_input.delta": self._input_delta,
            "response.custom_tool_call_input.done": self._input_done,
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.created": self._begun,
            "response.in_progress": self._begun,
            "response.completed": self._ended,
            "response.incomplete": self._ended,
            "response.failed": self._ended,
            "error": self._error,
        }

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of an event to `out`."""
        try:
            event = _decode(frame)
        except msgspec.DecodeError:
            if frame.strip() != DONE:
                raise
            return
        handler = self._handlers.get(event.type or "")
        if handler is not None:
            handler(event, out)
        elif event.type is None and event.error:
            self._error(event, out)

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Read an answer that was not streamed, and report its content to `out`."""
        response = _decode_response(body)
        if response.status is None and not response.error:
            raise MalformedFrame("the answer has no status")
        self._end(response, response.status or "failed", out)

    # -- messages ----------------------------------------------------------------------------

    def _text_delta(self, event: Event, out: EventWriter) -> None:
        delta = event.delta
        if delta.__class__ is not str:
            delta = text_field(delta, "delta")
        if delta:
            self._say(self._item(event), event.content_index or 0, delta, out)

    def _text_done(self, event: Event, out: EventWriter) -> None:
        self._say_rest(self._item(event), event.content_index or 0, event.text, out)

    def _refusal_delta(self, event: Event, out: EventWriter) -> None:
        self._refuse(self._item(event), event.content_index or 0, out)
        self._text_delta(event, out)

    def _refusal_done(self, event: Event, out: EventWriter) -> None:
        item, number = self._item(event), event.content_index or 0
        self._refuse(item, number, out)
        self._say_rest(item, number, event.refusal, out)

    def _refuse(self, item: Item, number: Any, out: EventWriter) -> None:
        self._refused = True
        if not item.part(number):
            announce_refusal(out)
            self._current = key = (item.number, number)
            out.text("", key, {"item": {"refused": True}})

    def _part_done(self, event: Event, out: EventWriter) -> None:
        item = self._item(event)
        if event.part is not None and item.kind in ("message", ""):
            self._say_part(item, event.content_index or 0, event.part, out)

    def _say(self, item: Item, part: Any, text: str, out: EventWriter) -> None:
        item.part(part).add(text)
        self._current = key = (item.number, part)
        out.text(text, key)

    def _say_rest(self, item: Item, part: Any, whole: Any, out: EventWriter) -> None:
        if rest := item.rest_of(part, text_field(whole, "text"), out):
            self._current = key = (item.number, part)
            out.text(rest, key)

    def _say_part(self, item: Item, number: Any, part: dict[str, Any], out: EventWriter) -> None:
        """Write a complete message part: the new text and the metadata."""
        refused = part.get("type") == "refusal"
        if refused:
            self._refuse(item, number, out)
        self._say_rest(item, number, part.get("refusal" if refused else "text"), out)
        key = (item.number, number)
        if self._current != key or not item.part(number):
            return
        rest = {name: item.data[name] for name in MESSAGE_REST if item.data.get(name)}
        if refused:
            rest["refused"] = True
        metadata: dict[str, Any] = {"item": rest} if rest else {}
        if part.get("annotations"):
            metadata["annotations"] = part["annotations"]
        if part.get("logprobs"):
            metadata["logprobs"] = part["logprobs"]
        if metadata:
            out.text("", key, metadata)

    # -- reasoning ---------------------------------------------------------------------------

    def _summary_delta(self, event: Event, out: EventWriter) -> None:
        self._think(self._item(event), ("summary", event.summary_index or 0), event.delta, out)

    def _summary_done(self, event: Event, out: EventWriter) -> None:
        self._think_rest(self._item(event), ("summary", event.summary_index or 0), event.text, out)

    def _reasoning_delta(self, event: Event, out: EventWriter) -> None:
        self._think(self._item(event), ("content", event.content_index or 0), event.delta, out)

    def _reasoning_done(self, event: Event, out: EventWriter) -> None:
        self._think_rest(self._item(event), ("content", event.content_index or 0), event.text, out)

    def _think(self, item: Item, part: Any, text: Any, out: EventWriter) -> None:
        if text := text_field(text, "delta"):
            come = item.part(part)
            self._think_aloud(item, text, not come, out)
            come.add(text)

    def _think_rest(self, item: Item, part: Any, whole: Any, out: EventWriter) -> None:
        first = not item.part(part)
        if rest := item.rest_of(part, text_field(whole, "text"), out):
            self._think_aloud(item, rest, first, out)

    def _think_aloud(self, item: Item, text: str, first: bool, out: EventWriter) -> None:
        key = (item.number, "reasoning")
        if first and self._current == key:
            text = PARAGRAPH + text
        self._current = key
        out.thinking(text, key)

    def _reasoning_over(self, item: Item, out: EventWriter) -> None:
        """Store a completed reasoning item as metadata of the block with its text.

        If other content has arrived since the text of the reasoning, also store the item's position
        in the response, as `place`.
        """
        key = (item.number, "reasoning")
        metadata: dict[str, Any] = {"item": item.data}
        if self._current != key and any(item.parts.values()):
            metadata["place"] = item.number
        self._current = key
        out.thinking("", key, metadata=metadata)

    # -- tool calls --------------------------------------------------------------------------

    def _arguments_delta(self, event: Event, out: EventWriter) -> None:
        calls.add_arguments(self._item(event), event.delta, out)

    def _arguments_done(self, event: Event, out: EventWriter) -> None:
        calls.add_rest_of_arguments(self._item(event), event.arguments, out)

    def _input_delta(self, event: Event, out: EventWriter) -> None:
        calls.add_input(self._item(event), event.delta, out)

    def _input_done(self, event: Event, out: EventWriter) -> None:
        calls.add_rest_of_input(self._item(event), event.input, out)

    # -- items -------------------------------------------------------------------------------

    def _item(self, event: Event) -> Item:
        """Return the item with the event's `output_index`, or else the item that began last."""
        index = event.output_index
        place = self._latest if index is None else int(index)
        return self._items.get(place) or self._begin_item(place, {})

    def _begin_item(self, place: int, data: dict[str, Any]) -> Item:
        item = self._items[place] = Item(self._begun_items, data)
        if (id := word(data.get("id"))) is not None:
            self._named[id] = item
        self._begun_items += 1
        self._latest = place
        return item

    def _item_added(self, event: Event, out: EventWriter) -> None:
        index = event.output_index
        place = self._latest + 1 if index is None else int(index)
        item = self._begin_item(place, event.item or {})
        if item.kind in calls.KINDS:
            self._current = None
            calls.begin(item, out)
            calls.add_arguments(item, item.data.get("arguments"), out)

    def _item_done(self, event: Event, out: EventWriter) -> None:
        data = event.item or {}
        named = self._named.get(word(data.get("id"))) if event.output_index is None else None
        item = named or self._item(event)
        if not item.done:
            item.done = True
            item.data = data or item.data
            self._finish(item, out)

    def _take_whole(self, place: int, data: dict[str, Any], out: EventWriter) -> None:
        """Finish an item with its data from the last event, unless it is already done."""
        item = self._named.get(word(data.get("id"))) or self._items.get(place)
        item = item or self._begin_item(place, data)
        if not item.done and item.kind in ("", data.get("type")):
            item.done, item.data = True, data
            self._finish(item, out)

    def _finish(self, item: Item, out: EventWriter) -> None:
        """Write the parts of a finished item that its events did not contain."""
        data = item.data
        match item.kind:
            case "message":
                for number, part in enumerate(_parts(data, "content")):
                    self._say_part(item, number, part, out)
            case "reasoning":
                for name in ("summary", "content"):
                    for number, part in enumerate(_parts(data, name)):
                        self._think_rest(item, (name, number), part.get("text"), out)
                self._reasoning_over(item, out)
            case kind if kind in calls.KINDS:
                self._current = None
                calls.finish(item, out)
            case "":
                pass
            case kind:
                self._current = None
                self._asked.note(data)
                out.extension(kind, data)

    # -- the response ------------------------------------------------------------------------

    def _begun(self, event: Event, out: EventWriter) -> None:
        response = _response(event)
        out.response(word(response.id), response.model)

    def _ended(self, event: Event, out: EventWriter) -> None:
        named = (event.type or "").removeprefix("response.")
        response = _response(event)
        incomplete = named == "completed" and response.status == "incomplete"
        self._end(response, "incomplete" if incomplete else named, out)

    def _end(self, response: Response, status: str, out: EventWriter) -> None:
        out.response(word(response.id), response.model)
        note_facts(response, out)
        undone = not all(item.done for item in self._items.values()) and status in ANSWERED
        if response.output and (undone or not self._items):
            for place, data in enumerate(_decode_output(response.output) or ()):
                self._take_whole(place, data, out)
        if response.usage:
            counts = {**response.usage, **self._asked.billed, **kept_long(response)}
            report_usage(counts, out, response.service_tier)
        match status:
            case "completed":
                reason = StopReason.TOOL_USE if self._asked else StopReason.STOP
                out.stop(StopReason.CONTENT_FILTER if self._refused else reason)
            case "incomplete":
                out.stop(cut_short(response, out))
            case _:
                told = {"message": f"the answer's status is {status}"}
                self._fail({"error": response.error or told}, out)
        out.finish()

    def _error(self, event: Event, out: EventWriter) -> None:
        error = event.error or {"code": event.code, "message": event.message}
        self._fail({"error": error}, out, event.status)

    def _fail(self, data: dict[str, Any], out: EventWriter, status: Any = None) -> None:
        """End the answer with the service's error. A WebSocket's error also has an HTTP status."""
        failure = Failure("streaming")
        if isinstance(status, int) and 400 <= status < 600:
            failure.status = status
        read_error(data, failure)
        out.fail(failure)


def _parts(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the list of parts in a field of an item.

    Raises `msgspec.ValidationError` if the field contains anything other than a list of objects.
    """
    return msgspec.convert(data.get(name), list[dict[str, Any]] | None) or []


def _response(event: Event) -> Response:
    return _decode_response(event.response) if event.response else Response()
