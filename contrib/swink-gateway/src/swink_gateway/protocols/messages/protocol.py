"""Anthropic's Messages: https://platform.claude.com/docs/en/build-with-claude/streaming.

An answer is a list of blocks, each started, continued and stopped under its own index. Opaque
provider data of a block is sent in the only opaque field: unchanged if the provider uses this
protocol, otherwise sealed (see `sealing`). The text of thinking that the client did not request is
sealed as well: Anthropic's newer models do not return this text either. Opaque data outside of
thinking, such as the signature of a call, is sealed into a block of redacted thinking. This block
precedes the call if the signature is known in time. Data of a call from this protocol, such as its
`caller`, are fields of the call if the call arrives in one read, and are sealed otherwise. Opaque
data of a text is sealed into a block after the text, but only if another block follows: in its
non-interactive mode, Claude Code prints the last block, which must be the text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from swink_core import (
    AssistantMessage,
    Cost,
    Done,
    Error,
    Extension,
    ExtensionBlock,
    Retry,
    StopReason,
    TextBlock,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from swink_gateway.protocols import Asked, Facts, Known, Reply
from swink_gateway.protocols.encoding import EventEncoder, cost_data, id_of, model_of, started_anew
from swink_gateway.protocols.frames import SSE, encode, named_frame
from swink_gateway.protocols.messages.blocks import (
    CONTAINER,
    block_data,
    citations,
    extension_data,
    opaque_of,
    says_more,
    sealed_beside,
)
from swink_gateway.protocols.messages.errors import error_data, error_reply
from swink_gateway.protocols.messages.requests import WIRE_FORMAT, read_messages
from swink_gateway.protocols.sealing import Key, Numbers

__all__ = ["MessagesProtocol"]

STOPS = {
    StopReason.STOP: "end_turn",
    StopReason.LENGTH: "max_tokens",
    StopReason.TOOL_USE: "tool_use",
    StopReason.CONTENT_FILTER: "refusal",
    StopReason.PAUSE: "pause_turn",
}

PING = named_frame({"type": "ping"})

COUNTED_APART = ("cache_creation", "inference_geo", "server_tool_use")
"""Fields of the usage that only Anthropic's own services report."""

TIERS = frozenset({"batch", "priority", "standard"})
"""The names of service tiers in this API; other providers use other names."""

EDITS = "context_management"
"""The field, and the metadata of an answer, with the provider's edits of the conversation."""

PREFIX = "msg_"


class MessagesProtocol:
    """The protocol that Anthropic's SDKs and Claude Code use."""

    name = "messages"
    wire_format = WIRE_FORMAT

    def read(self, body: Any, path: Mapping[str, str], headers: Mapping[str, str]) -> Asked:
        """Parse a request."""
        return read_messages(body, headers)

    def encoder(self, asked: Asked, facts: Facts) -> MessagesEncoder:
        """Create an encoder for the answer to a request."""
        return MessagesEncoder(facts, asked.said.get("thoughts", True))

    def failure(self, error: Error, status: int) -> Reply:
        """Return the response for a failure before the answer, with this HTTP status."""
        return error_reply(error, status)


class MessagesEncoder(EventEncoder):
    """Encodes an answer as named events.

    A thinking block is started when its first text arrives. A block without text is started when it
    ends, because its type is not known earlier. If the client did not request `thoughts`, the text
    is collected until the end of the block and sealed. `_places` maps the indices of swink's open
    blocks to those sent to the client.
    """

    content_type = SSE

    def __init__(self, facts: Facts, thoughts: bool) -> None:
        super().__init__(_SAYING)
        self._facts = facts
        self._thoughts = thoughts
        self._hidden: defaultdict[int, list[str]] = defaultdict(list)
        self._provider = ""
        self._is_own = False
        self._next = 0
        self._places: dict[int, int] = {}
        self._numbers = Numbers()
        self._calls: dict[int, Key] = {}
        self._texts: dict[int, Key] = {}
        self._waiting: dict[int, None] = {}
        self._sealed: list[dict[str, Any]] = []
        self._container: Any = None

    def alive(self, known: Known) -> bytes:
        """Return a ping."""
        return PING

    def _write(self, event: Any, batch: Sequence[Any], out: list[bytes]) -> None:
        match event:
            case TextDelta(content_index=index, delta=text):
                if index in self._waiting:
                    self._begin_texts(out)
                out.append(_delta(self._places[index], b'"text_delta","text":%b' % encode(text)))
            case ThinkingDelta(content_index=index, delta=text) if not self._thoughts:
                self._hidden[index].append(text)
            case ThinkingDelta(content_index=index, delta=text):
                if index not in self._places:
                    self._open(index, {"type": "thinking", "thinking": "", "signature": ""}, out)
                said = b'"thinking_delta","thinking":%b' % encode(text)
                out.append(_delta(self._places[index], said))
            case ToolCallDelta(content_index=index, delta=text):
                said = b'"input_json_delta","partial_json":%b' % encode(text)
                out.append(_delta(self._places[index], said))
            case TextStart(content_index=index):
                self._texts[index] = self._numbers.next(None)
                self._waiting[index] = None
            case TextEnd():
                self._end_text(event, out)
            case ThinkingEnd():
                self._end_thinking(event, out)
            case ToolCallStart(content_index=index, id=id, name=name):
                block = {"type": "tool_use", "id": id, "name": name, "input": {}}
                self._calls[index] = self._numbers.next(id)
                end = self._ends_in(batch).get(index)
                if end is not None and self._is_own:
                    del self._calls[index]
                    block |= end.metadata or {}
                elif end is not None:
                    self._seal_call(end, out)
                self._open(index, block, out)
            case ToolCallEnd(content_index=index):
                self._close(index, out)
                self._seal_call(event, out)
            case Extension():
                self._extension(event, out)
            case Retry() if self._begun:
                self._fail(started_anew(event), out)
            case Done():
                self._finish(event, out)
            case Error():
                self._fail(event, out)

    # -- the answer --------------------------------------------------------------------------------

    def _begin(self, known: Known, batch: Sequence[Any], out: list[bytes]) -> None:
        self._begun = True
        self._provider = known.model.provider
        self._is_own = self._facts.wire_formats.get(self._provider) == WIRE_FORMAT
        message: dict[str, Any] = {
            "id": id_of(known, batch, self._facts, PREFIX),
            "type": "message",
            "role": "assistant",
            "model": model_of(known, batch),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_data(known.usage, None),
        }
        out.append(named_frame({"type": "message_start", "message": message}))

    def _finish(self, done: Done, out: list[bytes]) -> None:
        self.ended = True
        delta = ending(done.stop_reason, done.metadata)
        if self._container is not None:
            delta[CONTAINER] = self._container
        usage = usage_data(done.usage, done.cost)
        end = {"type": "message_delta", "delta": delta, "usage": usage, **edits(done.metadata)}
        out.append(named_frame(end))
        out.append(named_frame({"type": "message_stop"}))

    def _fail(self, error: Error, out: list[bytes]) -> None:
        self.ended = True
        out.append(named_frame(error_data(error)))

    # -- blocks ------------------------------------------------------------------------------------

    def _open(self, index: int, block: dict[str, Any], out: list[bytes]) -> None:
        self._begin_texts(out)
        sealed, self._sealed = self._sealed, []
        for one in sealed:
            self._whole(one, out)
        self._places[index] = place = self._next
        self._next += 1
        start = {"type": "content_block_start", "index": place, "content_block": block}
        out.append(named_frame(start))

    def _close(self, index: int, out: list[bytes]) -> None:
        place = self._places.pop(index)
        out.append(named_frame({"type": "content_block_stop", "index": place}))

    def _whole(self, block: dict[str, Any], out: list[bytes]) -> None:
        self._open(-1, block, out)
        self._close(-1, out)

    def _end_text(self, event: TextEnd, out: list[bytes]) -> None:
        index, metadata = event.content_index, event.metadata
        sources = citations(metadata, self._provider, self._is_own)
        is_sealed = bool(metadata) and not self._is_own and not sources
        is_wordless = is_sealed and index in self._waiting
        if is_wordless:
            del self._waiting[index]
        else:
            self._begin_texts(out)
            for source in sources:
                said = b'"citations_delta","citation":%b' % encode(source)
                out.append(_delta(self._places[index], said))
            self._close(index, out)
        if is_sealed and metadata:
            key = self._texts[index]
            self._sealed.append(sealed_beside(self._provider, key, metadata, is_wordless))

    def _begin_texts(self, out: list[bytes]) -> None:
        """Begin the texts that were held back; a text is held back until its first words arrive.

        If a text ends without words and has opaque data, the data is sealed and the text is not
        sent.
        """
        waiting, self._waiting = self._waiting, {}
        for index in waiting:
            self._open(index, {"type": "text", "text": ""}, out)

    def _end_thinking(self, event: ThinkingEnd, out: list[bytes]) -> None:
        index = event.content_index
        kept = "".join(self._hidden.pop(index, ()))
        opaque = opaque_of(event, self._provider, self._is_own, index in self._places, kept)
        if index not in self._places:
            if opaque is None:
                return  # the block is empty
            if event.redacted:
                self._whole({"type": "redacted_thinking", "data": opaque}, out)
                return
            self._open(index, {"type": "thinking", "thinking": "", "signature": ""}, out)
        if opaque is not None:
            said = b'"signature_delta","signature":%b' % encode(opaque)
            out.append(_delta(self._places[index], said))
        self._close(index, out)

    def _seal_call(self, end: ToolCallEnd, out: list[bytes]) -> None:
        """Write the opaque provider data of a call, if it has not been written yet."""
        call = self._calls.pop(end.content_index, None)
        if call is not None and end.metadata and says_more(end.metadata):
            self._whole(sealed_beside(self._provider, call, end.metadata), out)

    def _extension(self, event: Extension, out: list[bytes]) -> None:
        block = ExtensionBlock(event.provider, event.kind, event.data, event.metadata)
        native = extension_data(block, self._is_own)
        if native is None:
            self._container = event.data
        else:
            self._whole(native, out)

    def whole(self, message: AssistantMessage) -> bytes:
        """Encode a message."""
        provider = message.provider or ""
        is_own = self._facts.wire_formats.get(provider) == WIRE_FORMAT
        numbers = Numbers()
        blocks, last = [], None
        for one in message.content:
            if block := block_data(one, provider, is_own, numbers, self._thoughts):
                blocks.append(block)
                last = one
        if isinstance(last, TextBlock):
            blocks[-1] = [native for native in blocks[-1] if native["type"] == "text"]
        body = {
            "id": message.response_id or PREFIX + self._facts.id,
            "type": "message",
            "role": "assistant",
            "model": message.model,
            "content": [native for block in blocks for native in block],
            **ending(message.stop_reason or StopReason.STOP, message.metadata),
            "usage": usage_data(message.usage, message.cost),
            **edits(message.metadata),
        }
        return encode(body)


_SAYING = frozenset(
    {TextStart, ThinkingStart, ThinkingDelta, ThinkingEnd, ToolCallStart, Extension, Done, Error}
)
"""Events that begin the answer, if it has not begun yet.

`Error` is one of these events, because opencode retries five times if an error comes first.
"""


def _delta(place: int, said: bytes) -> bytes:
    return (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
        b'"delta":{"type":%b}}\n\n' % (place, said)
    )


def ending(reason: StopReason, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields that end an answer, including metadata for which there is a field."""
    said = metadata or {}
    stop: dict[str, Any] = {"stop_reason": STOPS[reason], "stop_sequence": None}
    if reason is StopReason.STOP and isinstance(said.get("stop_sequence"), str):
        stop = {"stop_reason": "stop_sequence", "stop_sequence": said["stop_sequence"]}
    facts = ("stop_details", CONTAINER)
    return stop | {name: said[name] for name in facts if isinstance(said.get(name), dict)}


def edits(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the field that lists what the provider removed from the conversation."""
    said = (metadata or {}).get(EDITS)
    return {EDITS: said} if isinstance(said, dict) else {}


def usage_data(usage: Usage | None, cost: Cost | None) -> dict[str, Any]:
    """Return the token usage of an answer; `cost` is in US dollars.

    Unknown numbers of input and output tokens become 0, because the API requires these fields.
    """
    usage = usage or Usage()
    read, write = usage.cache_read, usage.cache_write
    fresh = (usage.input or 0) - (read or 0) - (write or 0)
    data: dict[str, Any] = {
        "input_tokens": max(fresh, 0),
        "output_tokens": usage.output or 0,
    }
    if read is not None:
        data["cache_read_input_tokens"] = read
    if write is not None:
        data["cache_creation_input_tokens"] = write
    if usage.reasoning is not None:
        data["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    data |= {name: usage.extra[name] for name in COUNTED_APART if name in usage.extra}
    if (tier := usage.extra.get("service_tier")) in TIERS:
        data["service_tier"] = tier
    return data | cost_data(cost)
