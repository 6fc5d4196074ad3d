"""Chat Completions, the protocol of OpenAI's API and of hundreds of similar ones.

https://developers.openai.com/api/reference/resources/chat. An answer has one string of text and a
list of tool calls; thinking is in `reasoning_content`, which many clients read. A stream ends in
`[DONE]`, after a finish reason or an error: a client that gets neither retries forever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Cost,
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
    ThinkingDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from swink_core.providers import parse_arguments
from swink_gateway.protocols import Asked, Facts, Reply
from swink_gateway.protocols import Known as KnownAnswer
from swink_gateway.protocols.chat.requests import AUDIO, FREE_TEXT, WIRE_FORMAT, read_chat
from swink_gateway.protocols.encoding import (
    REFUSAL,
    EventEncoder,
    arguments_text,
    cost_data,
    id_of,
    is_refusal,
    model_of,
    started_anew,
)
from swink_gateway.protocols.frames import ALIVE, SSE, data_frame, encode
from swink_gateway.protocols.generated import image_of
from swink_gateway.protocols.openai_errors import error_data, error_reply
from swink_gateway.protocols.sources import nested_annotation, sources_of
from swink_gateway.protocols.tool_names import Known

__all__ = ["ChatProtocol"]

FINISH = {
    StopReason.STOP: "stop",
    StopReason.LENGTH: "length",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.CONTENT_FILTER: "content_filter",
    StopReason.PAUSE: "stop",
}

PREFIX = "chatcmpl-"
"""The prefix of generated ids."""

_CONTENT, _REFUSAL = b'{"content":%b}', b'{"refusal":%b}'
"""The formats of the deltas of a text and of a refusal."""

_SAYING = frozenset({TextDelta, TextEnd, ThinkingDelta, ToolCallStart, Extension, Done})
"""Events that produce output in this protocol."""

DONE = b"data: [DONE]\n\n"

IMAGES = "images"
"""The field of a message that contains generated images."""

PREDICTED = ("accepted_prediction_tokens", "rejected_prediction_tokens")
"""Token counts that only OpenAI's own services report."""

FACTS = ("service_tier", "system_fingerprint")
"""Metadata of an answer for which the API has fields."""


class ChatProtocol:
    """Reads requests that OpenAI's SDKs send to `chat.completions`, and answers them."""

    name = "chat"
    wire_format = WIRE_FORMAT

    def read(self, body: Any, path: Mapping[str, str], headers: Mapping[str, str]) -> Asked:
        """Parse a request."""
        return read_chat(body)

    def encoder(self, asked: Asked, facts: Facts) -> ChatEncoder:
        """Create an encoder for the answer to a request."""
        return ChatEncoder(asked, facts)

    def failure(self, error: Error, status: int) -> Reply:
        """Return the response for a failure before the answer, with this HTTP status."""
        return error_reply(error, status)


class ChatEncoder(EventEncoder):
    """Encodes an answer as chunks; the first one contains the role."""

    content_type = SSE

    def __init__(self, asked: Asked, facts: Facts) -> None:
        super().__init__(_SAYING)
        self._usage = asked.said.get("usage", False)
        self._facts = facts
        self._before, self._after = b"", b',"finish_reason":null}]}\n\n'
        self._head: dict[str, Any] = {}
        self._tools = asked.tools
        self._calls: dict[int, int] = {}
        self._texts: dict[int, list[str]] = {}
        self._said: dict[int, list[str]] = {}
        self._length = 0
        self._images = 0
        self._is_own = False
        self._refuses = False
        self._form = _CONTENT

    def alive(self, known: KnownAnswer) -> bytes:
        """Return an SSE comment, which serves as a keep-alive message."""
        return ALIVE

    def _write(self, event: Any, batch: Sequence[Any], out: list[bytes]) -> None:
        match event:
            case TextDelta(content_index=index, delta=text):
                self._said[index].append(text)
                self._delta(self._form % encode(text), out)
            case ThinkingDelta(delta=text):
                self._delta(b'{"reasoning_content":%b}' % encode(text), out)
            case ToolCallDelta(content_index=index, delta=text) if index in self._texts:
                self._texts[index].append(text)  # the client expects the text, not this JSON
            case ToolCallDelta(content_index=index, delta=text):
                call = {"index": self._calls[index], "function": {"arguments": text}}
                self._delta(encode({"tool_calls": [call]}), out)
            case ToolCallStart(content_index=index):
                self._calls[index] = number = len(self._calls)
                call = {"index": number, "id": event.id, **self._called(event.name, "")}
                if call["type"] == FREE_TEXT:
                    self._texts[index] = []
                self._delta(encode({"tool_calls": [call]}), out)
            case ToolCallEnd(content_index=index):
                call = {"index": self._calls[index], **_beside(event.metadata)}
                if index in self._texts:
                    raw = "".join(self._texts.pop(index))
                    call[FREE_TEXT] = {"input": _free_text(parse_arguments(raw), raw)}
                elif index in self._silent and not self._cut:  # "" would not be valid JSON
                    call["function"] = {"arguments": "{}"}
                if len(call) > 1:
                    self._delta(encode({"tool_calls": [call]}), out)
            case TextStart(content_index=index):
                self._said[index] = []
                self._form = _REFUSAL if self._refuses else _CONTENT
                self._refuses = False
            case Notice(code=code):
                self._refuses = self._refuses or code == REFUSAL
            case Start():
                self._refuses = False
            case TextEnd(content_index=index, metadata=said):
                text = "".join(self._said.pop(index))
                if said:
                    self._notes(said, text, out)
                self._length += len(text)
            case Extension(kind=ExtensionBlock.CHOICE) if self._speaks(event.provider):
                out += (
                    data_frame({**self._head, "choices": [one]}) for one in _streamed(event.data)
                )
            case Extension():
                if media := self._media(event, self._images):
                    self._delta(encode(media), out)
                    self._images += IMAGES in media
            case Retry() if self._begun:
                self._fail(started_anew(event), out)
            case Done():
                self._finish(event, out)
            case Error():
                self._fail(event, out)

    def _delta(self, delta: bytes, out: list[bytes]) -> None:
        out += (self._before, delta, self._after)

    def _begin(
        self, known: KnownAnswer, batch: Sequence[AssistantMessageEvent], out: list[bytes]
    ) -> None:
        self._begun = True
        self._is_own = self._speaks(known.model.provider)
        self._head = {
            "id": id_of(known, batch, self._facts, PREFIX),
            "object": "chat.completion.chunk",
            "created": self._facts.created,
            "model": model_of(known, batch),
        }
        self._before = b"data: %b" % encode({**self._head, "choices": []})[:-2]
        self._before += b'{"index":0,"delta":'
        out += (self._before, b'{"role":"assistant","content":""}', self._after)

    def _speaks(self, provider: str | None) -> bool:
        return self._facts.wire_formats.get(provider or "") == WIRE_FORMAT

    def _notes(self, said: Mapping[str, Any], text: str, out: list[bytes]) -> None:
        """Write the sources and log probabilities of a text."""
        choice: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": None}
        if sources := _sources(said, text, self._length, self._is_own):
            choice["delta"] = {"annotations": sources}
        if isinstance(chances := said.get("logprobs"), dict):
            choice["logprobs"] = chances
        if choice["delta"] or "logprobs" in choice:
            out.append(data_frame({**self._head, "choices": [choice]}))

    def _finish(self, done: Done, out: list[bytes]) -> None:
        self.ended = True
        head = {**self._head, **_facts(done.metadata)}
        reason = _finish(done.stop_reason, self._form is _REFUSAL)
        choice = {"index": 0, "delta": {}, "finish_reason": reason}
        out.append(data_frame({**head, "choices": [choice]}))
        if self._usage and (counts := usage_data(done.usage, done.cost)):
            out.append(data_frame({**head, "choices": [], "usage": counts}))
        out.append(DONE)

    def _fail(self, error: Error, out: list[bytes]) -> None:
        self.ended = True
        out += (data_frame({"error": error_data(error)}), DONE)

    def _called(self, name: str, arguments: str) -> dict[str, Any]:
        """Return a call of a function or a custom tool in the format of Chat Completions."""
        if self._tools.get(name, Known(name)).is_free_text:
            return {"type": FREE_TEXT, FREE_TEXT: {"name": name, "input": arguments}}
        return {"type": "function", "function": {"name": name, "arguments": arguments}}

    def _whole_call(self, call: ToolCallBlock) -> dict[str, Any]:
        called = self._called(call.name, arguments_text(call))
        if FREE_TEXT in called:
            called[FREE_TEXT]["input"] = _free_text(call.arguments, call.raw_arguments)
        return called

    def _media(self, said: Extension | ExtensionBlock, images: int) -> dict[str, Any]:
        """Return generated audio, for which the API has a field, or an image in OpenRouter's field.

        `images` is the number of earlier images in the answer.
        """
        if said.kind == AUDIO:
            return {AUDIO: said.data} if self._speaks(said.provider) else {}
        if said.kind == "image" and self._speaks(said.provider):
            return {IMAGES: [said.data]}
        if (image := image_of(said)) is None:
            return {}
        made = {"type": "image_url", "image_url": {"url": image.url}, "index": images}
        return {IMAGES: [made]}

    def whole(self, message: AssistantMessage) -> bytes:
        """Encode a chat completion."""
        texts = [block for block in message.content if isinstance(block, TextBlock)]
        refusals = [text for text in texts if is_refusal(text.metadata)]
        words = "".join(text.text for text in texts if not is_refusal(text.metadata))
        said: dict[str, Any] = {"role": "assistant", "content": words or None}
        if message.thinking:
            said["reasoning_content"] = message.thinking
        if message.tool_calls:
            said["tool_calls"] = [
                {"id": call.id, **self._whole_call(call), **_beside(call.metadata)}
                for call in message.tool_calls
            ]
        images: list[Any] = []
        others: list[Any] = []
        for block in message.content:
            if not isinstance(block, ExtensionBlock):
                continue
            if block.kind == ExtensionBlock.CHOICE and self._speaks(block.provider):
                others.append(block.data)
            else:
                media = self._media(block, len(images))
                images += media.pop(IMAGES, ())
                said |= media
        said |= {IMAGES: images} if images else {}
        said["refusal"] = "".join(text.text for text in refusals) or None
        reason = _finish(message.stop_reason or StopReason.STOP, bool(refusals))
        choice: dict[str, Any] = {"index": 0, "message": said, "finish_reason": reason}
        is_own, length = self._speaks(message.provider), 0
        for text in texts:
            notes = text.metadata or {}
            if sources := _sources(notes, text.text, length, is_own):
                said.setdefault("annotations", []).extend(sources)
            if isinstance(chances := notes.get("logprobs"), dict):
                choice["logprobs"] = chances
            length += len(text.text)
        body: dict[str, Any] = {
            "id": message.response_id or PREFIX + self._facts.id,
            "object": "chat.completion",
            "created": self._facts.created,
            "model": message.model,
            "choices": [choice, *others],
            **_facts(message.metadata),
        }
        if counts := usage_data(message.usage, message.cost):
            body["usage"] = counts
        return encode(body)


def _streamed(choice: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Split a choice of an unstreamed answer into two choices, for two chunks.

    The first one contains only the role: if the first chunk of a choice contained the log
    probabilities, OpenAI's SDK would append them twice.
    """
    delta = {**(choice.get("message") or {})}
    role = {"role": delta.pop("role", "assistant")}
    yield {"index": choice.get("index"), "delta": role, "finish_reason": None}
    if calls := delta.get("tool_calls"):
        delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(calls)]
    yield {**{name: value for name, value in choice.items() if name != "message"}, "delta": delta}


def _finish(reason: StopReason, has_refusal: bool) -> str:
    """Return the finish reason: `stop` for a refusal, because refusals have their own field."""
    if has_refusal and reason is StopReason.CONTENT_FILTER:
        return "stop"
    return FINISH[reason]


def _sources(said: Mapping[str, Any], text: str, length: int, is_own: bool) -> list[Any]:
    """Return the sources of a text that begins `length` characters into the content."""
    if is_own:
        own = said.get("annotations")
        return own if isinstance(own, list) else []
    return [
        nested_annotation(one._replace(start=one.start + length, end=one.end + length))
        for one in sources_of(said, text)
    ]


def _free_text(arguments: Mapping[str, Any] | None, raw: str | None) -> str:
    """Return the text argument of a free-text call, even if the call is truncated."""
    return str((arguments or {}).get("input", raw or ""))


def _beside(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the opaque data for which a tool call has a field: `extra_content`, from Google."""
    extra = (metadata or {}).get("extra_content")
    return {"extra_content": extra} if isinstance(extra, dict) else {}


def _facts(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: metadata[name] for name in FACTS if metadata and name in metadata}


def usage_data(usage: Usage | None, cost: Cost | None) -> dict[str, Any]:
    """Return the token usage of an answer, without unknown counts; `cost` is in US dollars."""
    if usage is None:
        return {}
    more = usage.extra.get
    data: dict[str, Any] = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.added_up().total,
        "prompt_tokens_details": _told(
            cached_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
            audio_tokens=more("input_audio", more("prompt_tokens_details.audio_tokens")),
        ),
        "completion_tokens_details": _told(
            reasoning_tokens=usage.reasoning,
            audio_tokens=more("output_audio", more("completion_tokens_details.audio_tokens")),
            **{name: more(f"completion_tokens_details.{name}") for name in PREDICTED},
        ),
        **cost_data(cost),
    }
    return _told(**data) or {}


def _told(**counts: Any) -> dict[str, Any] | None:
    return {name: count for name, count in counts.items() if count is not None} or None
