"""The shape of a stream: its kinds of events, their order, and the fields and types of each."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swink_test_helpers.corpus import corpus_folder

__all__ = ["CORPUS", "Shape", "events_of", "recorded_streams"]

ROOT = Path(__file__).resolve().parents[2]
CORPUS = corpus_folder()

OPAQUE = {
    "args", "input", "arguments", "tools", "format", "metadata", "annotations", "citations",
    "safetyRatings", "logprobs", "instructions", "tool_choice",
}  # fmt: skip
"""Fields whose contents belong to users or to features that the vendor does not have."""

WIRE_FORMATS = {
    "openai-chat": ("openai_chat", "openai"),
    "openai-responses": ("openai_responses", "openai"),
    "anthropic-messages": ("anthropic", "anthropic"),
    "gemini-generate-content": ("gemini", "gemini"),
    "bedrock-converse": ("bedrock", "bedrock"),
    "ollama-chat": ("ollama", "ollama"),
    "cohere-chat": ("cohere", "cohere"),
    "mistral-chat": ("mistral", "mistral"),
}
"""The corpus folder and the provider whose recordings show each wire format."""


@dataclass
class Shape:
    """The events, fields and order of the streams of one wire format."""

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    streams: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    types: dict[str, dict[str, set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    seen: dict[str, dict[str, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )
    order: set[tuple[str, str]] = field(default_factory=set)

    def add(self, events: Iterable[tuple[str, Any]]) -> None:
        """Add the events of one stream."""
        before = "start"
        found = set()
        for kind, data in events:
            found.add(kind)
            self.counts[kind] += 1
            paths = set(_paths(data))
            for path, type_name in paths:
                self.types[kind][path].add(type_name)
            for path in {path for path, _ in paths}:
                self.seen[kind][path] += 1
            if kind not in ("ping", before):
                self.order.add((before, kind))
            if kind != "ping":
                before = kind
        self.order.add((before, "end"))
        for kind in found:
            self.streams[kind] += 1

    def always(self, kind: str) -> set[str]:
        """Return the fields that every event of a kind has."""
        return {path for path, count in self.seen[kind].items() if count == self.counts[kind]}


def events_of(wire_format: str, body: bytes) -> list[tuple[str, Any]]:
    """Read a stream; return the kind and the data of each event."""
    if wire_format == "bedrock-converse":
        return list(_frames(body))
    if wire_format == "ollama-chat":
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        return [(_kind(wire_format, line), line) for line in lines]
    found = []
    for line in body.decode("utf-8", "replace").splitlines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:"):
            continue
        if data == "[DONE]":
            found.append(("[DONE]", None))
            continue
        try:
            event = json.loads(data)
        except ValueError:
            continue
        found.append((_kind(wire_format, event), event))
    return found


def recorded_streams(wire_format: str) -> list[tuple[str, bytes]]:
    """Return the complete streams of a wire format: those of this checkout and of the corpus."""
    folder, provider = WIRE_FORMATS[wire_format]
    found = []
    for path in sorted(ROOT.glob("plugins/*/src/*/recordings/*/recording.json")):
        about = json.loads(path.read_text())
        answer = about["legs"][-1].get("response", {})
        body = path.parent / str(answer.get("body"))
        shown_as = "openai-chat" if wire_format == "mistral-chat" else wire_format
        wanted = about.get("wire_format") == shown_as and about.get("provider") == provider
        if wanted and answer.get("status") == 200 and body.suffix != ".json":
            found.append((str(path.parent), body.read_bytes()))
    if (CORPUS / "INDEX.json").exists():
        for case in json.loads((CORPUS / "INDEX.json").read_text()):
            real = case["origin"].startswith("recorded") and "hand-edited" not in case["origin"]
            if case["provider"] == folder and real and not case["file"].endswith(".json"):
                found.append((case["case"], (CORPUS / case["file"]).read_bytes()))
    return found


def _paths(value: Any, path: str = "") -> Iterable[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            at = f"{path}.{name}"
            yield at, _type(each)
            if name not in OPAQUE:
                yield from _paths(each, at)
    elif isinstance(value, list):
        for each in value:
            yield from _paths(each, f"{path}[]")


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    names = {"str": "string", "dict": "object", "list": "array"}
    return names.get(type(value).__name__, "null")


def _kind(wire_format: str, event: Any) -> str:
    if wire_format in ("openai-chat", "mistral-chat"):
        return _chat_kind(event)
    if wire_format == "gemini-generate-content":
        return _gemini_kind(event)
    if wire_format == "ollama-chat":
        if "error" in event:
            return "error"
        message = event.get("message") or {}
        shown = [name for name in ("tool_calls", "thinking") if message.get(name)]
        return "done" if event.get("done") else "".join(shown) or "content"
    kind = str(event.get("type"))
    if kind in ("content_block_start", "content_block_delta"):
        inner = event.get("content_block") or event.get("delta")
        return f"{kind} {inner['type']}"
    if kind in ("response.output_item.added", "response.output_item.done"):
        return f"{kind} {event['item']['type']}"
    if kind.startswith("response.content_part"):
        return f"{kind} {event['part']['type']}"
    if kind.startswith("content-"):
        content = event.get("delta", {}).get("message", {}).get("content", {})
        name = "thinking" if "thinking" in content else "text"
        return f"{kind} {name}" if content else kind
    return kind


def _chat_kind(event: Any) -> str:
    if "error" in event:
        return "error"
    choices = event.get("choices") or []
    if not choices:
        return "usage"
    choice = choices[0]
    delta = choice.get("delta") or {}
    if choice.get("finish_reason"):
        return "finish"
    if delta.get("tool_calls"):
        return "call opens" if delta["tool_calls"][0].get("id") else "call goes on"
    if "role" in delta:
        return "role"
    return "refusal" if delta.get("refusal") else "content"


def _gemini_kind(event: Any) -> str:
    if "error" in event:
        return "error"
    candidates = event.get("candidates") or []
    if not candidates:
        return "no candidates"
    parts = (candidates[0].get("content") or {}).get("parts") or [{}]
    name = "call" if "functionCall" in parts[0] else "text"
    if parts[0].get("thought"):
        name = "thought"
    return f"last {name}" if candidates[0].get("finishReason") else name


def _frames(body: bytes) -> Iterable[tuple[str, Any]]:
    """Read an event stream's frames, without checking them."""
    at = 0
    while at + 16 <= len(body):
        length, head = struct.unpack_from(">II", body, at)
        headers = {}
        position = at + 12
        while position < at + 12 + head:
            size = body[position]
            name = body[position + 1 : position + 1 + size].decode()
            (value_size,) = struct.unpack_from(">H", body, position + 2 + size)
            start = position + 4 + size
            headers[name] = body[start : start + value_size].decode()
            position = start + value_size
        payload = body[at + 12 + head : at + length - 4]
        data = json.loads(payload or b"{}")
        kind = headers.get(":event-type") or headers.get(":exception-type") or "error"
        for inner in (data.get("delta"), data.get("start")):
            for name in inner or {}:
                kind += f" {name}"
                if name == "reasoningContent":
                    kind += f" {next(iter(inner[name]))}"
        yield kind, data
        at += length
