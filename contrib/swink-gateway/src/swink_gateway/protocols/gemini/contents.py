"""Convert contents of Google's API to messages: https://ai.google.dev/api/caching#Content.

A client may send a model's answer in the many pieces in which it was streamed; therefore, adjacent
texts are joined. A `thoughtSignature` that the gateway sealed is decoded (see `sealing`). A sealed
signature contains blocks that the client's protocol could not represent; these blocks are inserted
before the part.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Sequence
from typing import Any

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    CodecError,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
    load,
)
from swink_core.providers import synthetic_id
from swink_gateway.protocols import BadRequest
from swink_gateway.protocols.fields import Fields
from swink_gateway.protocols.frames import encode
from swink_gateway.protocols.sealing import Sealed, unsealed

__all__ = ["Contents", "said_in"]

NO_SIGNATURE = "skip_thought_signature_validator"
"""The value that clients send for a call without a signature.

Source: https://ai.google.dev/gemini-api/docs/thought-signatures
"""

BESIDE = frozenset({"thought", "thoughtSignature", "partMetadata", "videoMetadata"})
"""Fields of a part that are not content. A part with media also has `mediaResolution`."""

_MEDIA = ("mediaResolution", "videoMetadata")

_FILES = "generativelanguage.googleapis.com/"


def said_in(content: Fields) -> str:
    """Return the text of a content that has only text parts."""
    return "\n\n".join(part.text("text") or "" for part in content.objects("parts"))


class Contents:
    """Converts contents one by one into `messages`.

    `own_places` contains the paths of parts and fields that only providers with the same API
    support.
    """

    def __init__(self, wire_format: str) -> None:
        self.messages: list[Message] = []
        self.own_places: list[str] = []
        self._wire_format = wire_format
        self._texts: list[str] = []  # of the current text or thought
        self._open = False
        # The `id()` of each thinking block of the current message that the client could read.
        self._shown: set[int] = set()
        self._sealed = False
        self._calls = 0
        self._waiting: dict[str, list[str]] = {}

    def add(self, content: Fields) -> None:
        """Convert one content. Raises BadRequest if it is invalid."""
        role = content.text("role") or "user"
        if role not in ("model", "assistant"):
            self.finish()
        match role:
            case "model" | "assistant":
                self._model(content)
            case "user" | "function" | "tool":
                self._user(content)
            case "system":
                self.messages.append(SystemMessage(said_in(content)))
            case _:
                raise BadRequest(f"{content.place('role')} is {role!r}, an unknown role")

    def finish(self) -> None:
        """Complete the last message of the model."""
        self._end_text()
        message = self.messages[-1] if self.messages else None
        if isinstance(message, AssistantMessage):
            if self._sealed:  # the sealed data contains all thoughts, including the shown ones
                message.content = [b for b in message.content if id(b) not in self._shown]
            if not message.content:
                self.messages.pop()
        self._shown, self._sealed = set(), False

    # -- the user's messages -----------------------------------------------------------------------

    def _user(self, content: Fields) -> None:
        said: list[Block] = []
        for part in content.objects("parts"):
            if (response := part.object("functionResponse")) is not None:
                self.messages.append(self._result(response))
            elif (block := self._said(part)) is not None:
                said.append(block)
        if len(said) == 1 and isinstance(said[0], TextBlock):
            self.messages.append(UserMessage(said[0].text))
        elif said:
            self.messages.append(UserMessage(said))

    def _said(self, part: Fields) -> Block | None:
        part.take("thoughtSignature", str)
        if (text := part.text("text")) is not None:
            return TextBlock(text)
        return self._media(part) or self._own(part)

    def _media(self, part: Fields) -> Block | None:
        notes = {name: part.data(name) for name in _MEDIA if name in part}
        if (inline := part.object("inlineData")) is not None:
            kind = inline.required("mimeType")
            source: Any = Base64Source(kind, _standard(inline.text("data") or ""))
            return _media_block(kind, source, inline.text("displayName"), notes)
        if (file := part.object("fileData")) is None:
            return None
        kind, uri = file.text("mimeType") or "", file.required("fileUri")
        name = file.text("displayName")
        if uri.startswith(("http://", "https://")) and _FILES not in uri:
            return _media_block(kind, UrlSource(uri, kind or None), name, notes)
        notes |= {"mimeType": kind} if kind else {}  # the source of a file id has no media type
        return _media_block(kind, FileIdSource(self._wire_format, uri), name, notes)

    def _result(self, response: Fields) -> ToolResultMessage:
        name = response.required("name")
        waiting = self._waiting.get(name, [])
        if (id := response.text("id")) is None:
            id = waiting.pop(0) if waiting else self._mint()
        elif id in waiting:
            waiting.remove(id)
        text, failed = _outcome(response.take("response", dict) or {})
        media = [b for p in response.objects("parts") if (b := self._media(p)) is not None]
        said: str | list[Block] = [*([TextBlock(text)] if text else []), *media] if media else text
        return ToolResultMessage(id, name, said, failed)

    # -- the model's messages ----------------------------------------------------------------------

    def _model(self, content: Fields) -> None:
        message = self.messages[-1] if self.messages else None
        if not isinstance(message, AssistantMessage):
            message = AssistantMessage([])
            self.messages.append(message)
            self._waiting.clear()  # a result belongs to a call of the turn before it
        for part in content.objects("parts"):
            self._answered(part, message)

    def _answered(self, part: Fields, message: AssistantMessage) -> None:
        sealed = self._opened(part.text("thoughtSignature"))
        blocks = message.content
        if sealed is not None and message.provider not in (None, sealed.provider):
            part.drop("thoughtSignature", f"of {sealed.provider}, after one of {message.provider}")
            sealed = None
        notes: dict[str, Any] | None = None
        if sealed is not None:
            message.provider = sealed.provider
            notes = _object(sealed.data.get("metadata"))
            if before := _blocks(sealed.data.get("before")):
                self._end_text()
                self._sealed = True
                blocks += before
            if sealed.data.get("shown"):
                part.all()
                return
        text, thought = part.data("text"), bool(part.flag("thought"))
        if isinstance(text, str):
            self._text(text, thought, self._more(part, notes, message), message)
            return
        self._end_text()
        if (call := part.object("functionCall")) is not None:
            blocks.append(self._call(call, self._more(part, notes, message)))
        elif (block := self._own(part, notes)) is not None:
            blocks.append(block)

    def _more(
        self, part: Fields, notes: dict[str, Any] | None, message: AssistantMessage
    ) -> dict[str, Any] | None:
        """Return `notes` with the part's other fields, unless another provider sent the answer."""
        if message.provider not in (None, self._wire_format) or not (rest := part.rest()):
            return notes
        message.provider = self._wire_format
        self.own_places += [part.place(name) for name in rest]
        return {**(notes or {}), **rest}

    def _text(
        self, text: str, thought: bool, notes: dict[str, Any] | None, message: AssistantMessage
    ) -> None:
        """Add text to the current block, or begin a block.

        A part with Google's signature is a separate block, even if it is empty. A part with another
        provider's metadata ends the current block, which receives the metadata.
        """
        kind = ThinkingBlock if thought else TextBlock
        signature = notes.pop("thoughtSignature", None) if thought and notes else None
        alone = (bool(notes) and message.provider == self._wire_format) or bool(signature and text)
        last: Any = message.content[-1] if self._open else None
        if alone or type(last) is not kind:
            self._end_text()
            if not (text or notes or signature):
                return
            last = kind("")
            message.content.append(last)
            self._open = True
            if thought and not signature:
                self._shown.add(id(last))
        self._texts.append(text)
        if signature:
            last.signature = signature
        if notes:
            last.metadata = notes
        if signature or notes:
            self._end_text()

    def _end_text(self) -> None:
        if self._open and isinstance(message := self.messages[-1], AssistantMessage):
            last: Any = message.content[-1]
            setattr(last, last.type, "".join(self._texts))
        self._texts, self._open = [], False

    def _call(self, call: Fields, notes: dict[str, Any] | None) -> ToolCallBlock:
        name = call.required("name")
        id = call.text("id") or self._mint()
        self._waiting.setdefault(name, []).append(id)
        return ToolCallBlock(id, name, call.take("args", dict) or {}, metadata=notes or None)

    def _mint(self) -> str:
        self._calls += 1
        return synthetic_id("gemini", self._calls)

    def _own(self, part: Fields, notes: dict[str, Any] | None = None) -> Block | None:
        data = {**part.rest(), **(notes or {})}
        kind = next((name for name in data if name not in BESIDE), None)
        if kind is None:
            return None
        self.own_places.append(part.place(kind))
        return ExtensionBlock(self._wire_format, kind, data)

    def _opened(self, signature: str | None) -> Sealed | None:
        if not signature or signature == NO_SIGNATURE:
            return None
        text = _bytes(signature).decode("utf-8", "replace")
        if text == NO_SIGNATURE:
            return None
        own = {"metadata": {"thoughtSignature": signature}}
        return unsealed(text) or Sealed(self._wire_format, own)


def _media_block(kind: str, source: Any, name: str | None, notes: dict[str, Any]) -> Block:
    if kind.startswith("image/"):
        return ImageBlock(source, notes or None)
    if kind.startswith("audio/"):
        return AudioBlock(source, notes or None)
    return DocumentBlock(source, name, notes or None)


def _outcome(response: dict[str, Any]) -> tuple[str, bool]:
    """Return the output of a tool (JSON if it has several values), and whether the tool failed."""
    if len(response) == 1:
        ((name, value),) = response.items()
        if name in ("output", "result", "error"):
            failed = name == "error"
            return value if isinstance(value, str) else encode(value).decode(), failed
    return encode(response).decode() if response else "", False


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) and value else None


def _blocks(data: Any) -> Sequence[Block]:
    if not isinstance(data, list):
        return ()
    try:
        return load(AssistantMessage, {"content": data}).content
    except CodecError:
        return ()  # not sealed data


def _bytes(text: str) -> bytes:
    try:
        return b64decode(_standard(text))
    except (binascii.Error, ValueError):
        return b""


def _standard(text: str) -> str:
    """Convert base64 to the standard alphabet with padding (RFC 4648 section 4).

    All APIs accept that form.
    """
    plain = text.replace("-", "+").replace("_", "/")
    return plain + "=" * (-len(plain) % 4)
