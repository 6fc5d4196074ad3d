"""Collect content other than text: sources, log probabilities, media and response metadata.

Sources and log probabilities become metadata of the block that they describe. Other data about the
answer become metadata of the message. Audio and images become extensions. The transcript of audio
output becomes the text of the answer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from swink_core import AssistantMessage, ExtensionBlock
from swink_core.providers import EventWriter
from swink_provider_openai.wire import Audio, Facts

__all__ = ["AUDIO", "IMAGE", "Beside", "is_sent", "media_said", "with_kept_sound"]

AUDIO, IMAGE = "audio", "image"
"""The kinds of extensions with media.

The data of such an extension are the API's fields, with all pieces of audio joined.
"""

SOURCES = frozenset({"citations", "search_results"})
"""Fields of a response that become metadata of the answer's text block."""

REASONING = "reasoning_content"
"""The field with the log probabilities of reasoning (DeepSeek)."""

_NO_FACTS = Facts()

_decode_facts = msgspec.json.Decoder(Facts).decode


class Beside:
    """Collects the content of one answer other than its text."""

    def __init__(self) -> None:
        self._facts = _NO_FACTS
        self._sources: dict[str, Any] = {}
        self._logprobs: dict[str, list[Any]] = {}
        self._filters: dict[bytes, None] = {}
        self._groq: dict[str, Any] = {}
        self._audio: dict[str, Any] = {}
        self._sound: list[str] = []
        self._chars = 0  # the size, in characters, of log probabilities not written yet

    def note_facts(self, frame: bytes, out: EventWriter) -> None:
        """Store the metadata in a frame; later values replace earlier ones."""
        facts = _decode_facts(frame)
        if facts == self._facts:
            return  # most frames repeat them
        self._facts = facts
        said = msgspec.to_builtins(facts)  # fields without an equivalent are omitted
        if (groq := said.pop("x_groq", None)) is not None:
            self._groq |= {n: v for n, v in groq.items() if n not in ("usage", "error")}
            said["x_groq"] = self._groq
        for name, value in said.items():
            if value and name in SOURCES:
                self._sources[name] = value
            elif value:
                out.response(metadata={name: value})

    def note_filters(self, raw: msgspec.Raw, out: EventWriter) -> None:
        """Store a content filter's result, unless an earlier chunk contained the same result."""
        found = bytes(raw)
        if found not in self._filters:
            self._filters[found] = None
            out.hold(len(found))

    def note_logprobs(self, logprobs: Any, out: EventWriter) -> None:
        """Store the log probabilities of a delta.

        `logprobs` contains a list for each field of the delta, such as `content`.
        """
        chars = len(str(logprobs))
        self._chars += chars
        out.hold(chars)
        for name, piece in logprobs.items() if isinstance(logprobs, dict) else ():
            if piece:
                known = self._logprobs.setdefault(name, [])
                known.extend(piece if isinstance(piece, list) else [piece])

    def note_sources(self, annotations: Any, executed_tools: Any) -> None:
        """Store the sources of the text."""
        if isinstance(annotations, list):
            self._sources.setdefault("annotations", []).extend(annotations)
        if executed_tools:
            self._sources["executed_tools"] = executed_tools

    def hear(self, audio: Audio, out: EventWriter) -> None:
        """Add a piece of audio, and its transcript as text."""
        if audio.id:
            self._audio["id"] = audio.id
        if audio.expires_at:
            self._audio["expires_at"] = audio.expires_at
        if audio.data:
            self._sound.append(audio.data)
            out.hold(len(audio.data))
        if audio.transcript:
            out.text(audio.transcript)

    @property
    def is_about_reasoning(self) -> bool:
        """Whether log probabilities of the reasoning are collected and not yet written."""
        return REASONING in self._logprobs

    def end_reasoning(self, out: EventWriter) -> None:
        """Write the log probabilities of the reasoning; called before another block begins."""
        if REASONING in self._logprobs:
            found = self._logprobs.pop(REASONING)
            out.thinking("", metadata={"logprobs": {REASONING: found}})

    def settle(self, out: EventWriter) -> None:
        """Write sources and log probabilities as metadata of the text block, after its text."""
        if self._chars:
            out.hold(-self._chars)
            self._chars = 0
        if self._logprobs:
            self._sources["logprobs"], self._logprobs = self._logprobs, {}
        if self._sources:
            out.text("", metadata=self._sources)
            self._sources = {}

    def end(self, out: EventWriter) -> None:
        """Write the audio, and the remaining data as metadata of the answer.

        If the answer has no text block, this metadata also contains its sources and log
        probabilities.
        """
        held = self._audio or self._logprobs or self._sources
        if not (held or self._sound or self._filters or self._chars):
            return
        out.hold(-sum(map(len, (*self._sound, *self._filters))) - self._chars)
        self._chars = 0
        if self._audio:
            if self._sound:
                self._audio["data"] = "".join(self._sound)
            out.extension(AUDIO, self._audio)
            self._audio = {}
        if self._logprobs:
            self._sources["logprobs"], self._logprobs = self._logprobs, {}
        filters = [found for raw in self._filters if (found := msgspec.json.decode(raw))]
        if filters:
            out.response(metadata={"content_filter_results": filters})
        out.response(metadata=self._sources)
        self._sources = {}


def media_said(message: AssistantMessage, images: bool) -> dict[str, Any]:
    """Return the fields of an assistant message with the media that the model generated.

    These fields contain the id of the audio, the time until which the service stores this audio,
    and, if `images` is true, the images.
    """
    said: dict[str, Any] = {}
    for block in message.content:
        if not isinstance(block, ExtensionBlock):
            continue
        if block.kind == AUDIO:
            if block.data.get("id"):
                said["audio"] = {n: block.data[n] for n in ("id", "expires_at") if n in block.data}
        elif block.kind == IMAGE and images:
            said.setdefault("images", []).append(block.data)
    return said


def is_sent(block: ExtensionBlock, images: bool) -> bool:
    """Return True if the result of `media_said` contains this extension."""
    if block.kind == AUDIO:
        return bool(block.data.get("id"))
    return block.kind == IMAGE and images


def with_kept_sound(messages: list[dict[str, Any]], now: float) -> list[dict[str, Any]]:
    """Return native messages without the ids of audio that the service no longer stores.

    The transcript replaces such audio. `now` is a Unix time in seconds.
    """
    return [_heard(message, now) if "audio" in message else message for message in messages]


def _heard(message: dict[str, Any], now: float) -> dict[str, Any]:
    sound = message["audio"]
    if sound.get("expires_at", 0) > now:
        return {**message, "content": None, "audio": {"id": sound["id"]}}
    words = {name: value for name, value in message.items() if name != "audio"}
    return {**words, "content": words["content"] or ""}
