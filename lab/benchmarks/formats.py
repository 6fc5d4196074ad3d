"""Answers in each wire format, and the least that can be done to read them.

A floor splits the bytes where frames end, decodes each with orjson and collects the text: no
checks, no events, no types. Bedrock's also holds each message to its two checksums, as any reader
of that format has to.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from lab.benchmarks.server import TOKENS, WRITE_SIZE, frames

Floor = Callable[[list[bytes]], str]


@dataclass(frozen=True)
class Format:
    """How a provider's answer of so many deltas looks, and what reads it at the least cost."""

    name: str
    model: str
    content_type: str
    answer: Callable[[int], Iterable[bytes]]
    floor: Floor

    def pieces(self, deltas: int) -> list[bytes]:
        """Return an answer as reads of 64 KiB."""
        body = b"".join(self.answer(deltas))
        return [body[start : start + WRITE_SIZE] for start in range(0, len(body), WRITE_SIZE)]


def _texts(deltas: int) -> list[str]:
    return [TOKENS[number % len(TOKENS)] for number in range(deltas)]


def _sse(data: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), orjson.dumps(data))


def _messages(deltas: int) -> Iterable[bytes]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5"}
    usage = {"input_tokens": 8, "output_tokens": 1}
    yield _sse({"type": "message_start", "message": {**message, "content": [], "usage": usage}})
    block = {"type": "text", "text": ""}
    yield _sse({"type": "content_block_start", "index": 0, "content_block": block})
    for text in _texts(deltas):
        delta = {"type": "text_delta", "text": text}
        yield _sse({"type": "content_block_delta", "index": 0, "delta": delta})
    yield _sse({"type": "content_block_stop", "index": 0})
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield _sse({"type": "message_delta", "delta": end, "usage": {"output_tokens": deltas}})
    yield _sse({"type": "message_stop"})


def _responses(deltas: int) -> Iterable[bytes]:
    response = {"id": "resp_1", "object": "response", "model": "gpt-5.4", "status": "in_progress"}
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    yield _sse({"type": "response.created", "sequence_number": 0, "response": response})
    yield _sse({"type": "response.output_item.added", "output_index": 0, "item": item})
    yield _sse({"type": "response.content_part.added", **at, "part": part})
    for number, text in enumerate(_texts(deltas), 3):
        said = {"sequence_number": number, "delta": text, "logprobs": []}
        yield _sse({"type": "response.output_text.delta", **at, **said})
    whole = {**part, "text": "".join(_texts(deltas))}
    done = {**item, "status": "completed", "content": [whole]}
    yield _sse({"type": "response.output_text.done", **at, "text": whole["text"]})
    yield _sse({"type": "response.content_part.done", **at, "part": whole})
    yield _sse({"type": "response.output_item.done", "output_index": 0, "item": done})
    usage = {"input_tokens": 8, "output_tokens": deltas, "total_tokens": 8 + deltas}
    ended = {**response, "status": "completed", "output": [done], "usage": usage}
    yield _sse({"type": "response.completed", "response": ended})


def _gemini(deltas: int) -> Iterable[bytes]:
    beside = {"modelVersion": "gemini-3-flash", "responseId": "r1"}
    for number, text in enumerate(_texts(deltas), 1):
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": [{"text": text}]}}
        if number == deltas:
            candidate["finishReason"] = "STOP"
        counts = {"promptTokenCount": 8, "candidatesTokenCount": number}
        chunk = {"candidates": [{**candidate, "index": 0}], "usageMetadata": counts, **beside}
        yield b"data: %b\r\n\r\n" % orjson.dumps(chunk)


def _ollama(deltas: int) -> Iterable[bytes]:
    same = {"model": "llama3.2", "created_at": "2026-11-22T08:00:00.123456789Z"}
    for text in _texts(deltas):
        message = {"role": "assistant", "content": text}
        yield orjson.dumps({**same, "message": message, "done": False}) + b"\n"
    counts = {"done_reason": "stop", "prompt_eval_count": 8, "eval_count": deltas}
    end = {**same, "message": {"role": "assistant", "content": ""}, "done": True, **counts}
    yield orjson.dumps(end) + b"\n"


def _cohere(deltas: int) -> Iterable[bytes]:
    message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
    yield _sse({"type": "message-start", "id": "m1", "delta": {"message": message}})
    content = {"content": {"type": "text", "text": ""}}
    yield _sse({"type": "content-start", "index": 0, "delta": {"message": content}})
    for text in _texts(deltas):
        said = {"message": {"content": {"text": text}}}
        yield _sse({"type": "content-delta", "index": 0, "delta": said})
    yield _sse({"type": "content-end", "index": 0})
    tokens = {"input_tokens": 8, "output_tokens": deltas}
    end = {"finish_reason": "COMPLETE", "usage": {"billed_units": tokens, "tokens": tokens}}
    yield _sse({"type": "message-end", "delta": end})


def _message(kind: str, payload: dict[str, Any]) -> bytes:
    """Return a message of vnd.amazon.eventstream."""
    named = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        bytes((len(name),)) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value
        for name, value in ((name, value.encode()) for name, value in named.items())
    )
    body = orjson.dumps(payload)
    prelude = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + body
    return message + struct.pack(">I", zlib.crc32(message))


def _bedrock(deltas: int) -> Iterable[bytes]:
    yield _message("messageStart", {"role": "assistant"})
    for text in _texts(deltas):
        yield _message("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}})
    yield _message("contentBlockStop", {"contentBlockIndex": 0})
    yield _message("messageStop", {"stopReason": "end_turn"})
    usage = {"inputTokens": 8, "outputTokens": deltas, "totalTokens": 8 + deltas}
    yield _message("metadata", {"usage": usage, "metrics": {"latencyMs": 1}})


def _lines(separator: bytes, skip: int, text: Callable[[Any], str | None]) -> Floor:
    """Return the floor of a format whose frames end with `separator`; `skip`: bytes before JSON."""

    def read(pieces: list[bytes]) -> str:
        parts: list[str] = []
        rest, loads = b"", orjson.loads
        for piece in pieces:
            *found, rest = (rest + piece).split(separator)
            for frame in found:
                start = frame.find(b"data: ") + skip if skip else 0
                if frame[start:] != b"[DONE]" and (said := text(loads(frame[start:]))):
                    parts.append(said)
        return "".join(parts)

    return read


def _chat_text(chunk: Any) -> str | None:
    choices = chunk["choices"]
    return choices[0]["delta"].get("content") if choices else None


def _messages_text(event: Any) -> str | None:
    return event["delta"]["text"] if event["type"] == "content_block_delta" else None


def _responses_text(event: Any) -> str | None:
    return event["delta"] if event["type"] == "response.output_text.delta" else None


def _gemini_text(chunk: Any) -> str | None:
    text: str = chunk["candidates"][0]["content"]["parts"][0]["text"]
    return text


def _cohere_text(event: Any) -> str | None:
    if event["type"] != "content-delta":
        return None
    text: str = event["delta"]["message"]["content"]["text"]
    return text


def _ollama_text(chunk: Any) -> str | None:
    text: str = chunk["message"]["content"]
    return text


def _bedrock_floor(pieces: list[bytes]) -> str:
    parts: list[str] = []
    rest, loads, crc32, unpack = b"", orjson.loads, zlib.crc32, struct.unpack_from
    for piece in pieces:
        data, at = rest + piece, 0
        while len(data) - at >= 16:
            total, headers, check = unpack(">III", data, at)
            if len(data) - at < total:
                break
            if crc32(data[at : at + 8]) != check:
                raise AssertionError("the prelude's checksum")
            end = at + total - 4
            if crc32(data[at:end]) != unpack(">I", data, end)[0]:
                raise AssertionError("the message's checksum")
            payload = loads(data[at + 12 + headers : end])
            if (delta := payload.get("delta")) is not None:
                parts.append(delta["text"])
            at += total
        rest = data[at:]
    return "".join(parts)


SSE = "text/event-stream"

FORMATS = (
    Format("Chat", "openai/gpt-4o", SSE, frames, _lines(b"\n\n", 6, _chat_text)),
    Format("Responses", "openai/gpt-5.4", SSE, _responses, _lines(b"\n\n", 6, _responses_text)),
    Format(
        "Messages", "anthropic/claude-sonnet-5", SSE, _messages, _lines(b"\n\n", 6, _messages_text)
    ),
    Format("Gemini", "gemini/gemini-3-flash", SSE, _gemini, _lines(b"\r\n\r\n", 6, _gemini_text)),
    Format(
        "Ollama", "ollama/llama3.2", "application/x-ndjson", _ollama, _lines(b"\n", 0, _ollama_text)
    ),
    Format("Cohere", "cohere/command-a-03-2025", SSE, _cohere, _lines(b"\n\n", 6, _cohere_text)),
    Format(
        "Bedrock",
        "bedrock/amazon.nova-lite-v1:0",
        "application/vnd.amazon.eventstream",
        _bedrock,
        _bedrock_floor,
    ),
)
"""The formats, by the name that the page gives them."""
