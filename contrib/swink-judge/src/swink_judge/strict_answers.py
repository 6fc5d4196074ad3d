"""Answers and errors in the format of each API."""

from __future__ import annotations

import binascii
import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from attrs import define, field

from swink_judge import Asked

__all__ = ["TEXT", "Reply", "answer", "refusal"]

TEXT = "Understood."
"""The text of all answers."""

_JSON = "application/json"
_SSE = "text/event-stream"
_WORDS = ("Under", "stood.")


@define(frozen=True)
class Reply:
    """A response. The body is a list of the pieces that are sent one after the other."""

    status: int
    content_type: str
    pieces: list[bytes] = field(repr=False)
    headers: dict[str, str] = field(factory=dict)


def answer(asked: Asked) -> Reply:
    """Return an answer in the format of the requested API, streamed or unstreamed as requested."""
    streamed, whole, content_type, frame = _ANSWERS[asked.wire_format]
    if not asked.streamed:
        return Reply(200, _JSON, [_encode(whole(asked.model))])
    return Reply(200, content_type, [frame(event) for event in streamed(asked.model)])


def refusal(wire_format: str, status: int, message: str) -> Reply:
    """Return an error response in the given wire format."""
    headers, body = _REFUSALS[wire_format](status, message)
    return Reply(status, _JSON, [_encode(body)], headers)


def _encode(data: Any) -> bytes:
    return msgspec.json.encode(data)


# -- framing of events ---------------------------------------------------------------------------


def _data(event: Any) -> bytes:
    return b"data: " + (event if isinstance(event, bytes) else _encode(event)) + b"\n\n"


def _named(event: Any) -> bytes:
    return f"event: {event['type']}\n".encode() + _data(event)


def _line(event: Any) -> bytes:
    return _encode(event) + b"\n"


def _event_stream(event: Any) -> bytes:
    """Return a message in AWS's binary framing (docs.aws.amazon.com: eventstream encoding)."""
    ((kind, payload),) = event.items()
    headers = b"".join(
        struct.pack(f">B{len(name)}sBH", len(name), name.encode(), 7, len(value)) + value.encode()
        for name, value in (
            (":message-type", "event"), (":event-type", kind), (":content-type", _JSON),
        )
    )  # fmt: skip
    body = _encode(payload)
    head = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    message = head + struct.pack(">I", binascii.crc32(head)) + headers + body
    return message + struct.pack(">I", binascii.crc32(message))


# -- Chat Completions ----------------------------------------------------------------------------

_CHAT_USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def _chat_stream(model: str) -> Iterator[Any]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    for word in _WORDS:
        delta = {"role": "assistant", "content": word}
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    yield {**head, "choices": [], "usage": _CHAT_USAGE}
    yield b"[DONE]"


def _chat(model: str) -> Any:
    message = {"role": "assistant", "content": TEXT}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": _CHAT_USAGE,
    }


def _openai_error(status: int, message: str) -> tuple[dict[str, str], Any]:
    kind = "invalid_request_error"
    code = "model_not_found" if status == 404 else None
    return {}, {"error": {"message": message, "type": kind, "param": None, "code": code}}


# -- Responses -----------------------------------------------------------------------------------


def _response(model: str) -> Any:
    part = {"type": "output_text", "text": TEXT, "annotations": []}
    item = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": model,
        "status": "completed",
        "output": [{**item, "content": [part]}],
        "usage": usage,
    }


def _response_stream(model: str) -> Iterator[Any]:
    done = _response(model)
    (item,) = done["output"]
    (part,) = item["content"]
    begun = {**done, "status": "in_progress", "output": [], "usage": None}
    at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    empty, open_item = {**part, "text": ""}, {**item, "status": "in_progress", "content": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": open_item},
        {"type": "response.content_part.added", **at, "part": empty},
        *({"type": "response.output_text.delta", **at, "delta": word} for word in _WORDS),
        {"type": "response.output_text.done", **at, "text": TEXT},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


# -- Messages ------------------------------------------------------------------------------------


def _message(model: str) -> Any:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }


def _message_stream(model: str) -> Iterator[Any]:
    usage = {"input_tokens": 3, "output_tokens": 1}
    begun = {**_message(model), "content": [], "stop_reason": None, "usage": usage}
    yield {"type": "message_start", "message": begun}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for word in _WORDS:
        delta = {"type": "text_delta", "text": word}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 2}}
    yield {"type": "message_stop"}


def _anthropic_error(status: int, message: str) -> tuple[dict[str, str], Any]:
    kinds = {403: "permission_error", 404: "not_found_error"}
    error = {"type": kinds.get(status, "invalid_request_error"), "message": message}
    return {}, {"type": "error", "error": error, "request_id": "req_1"}


# -- Converse ------------------------------------------------------------------------------------

_TOKENS = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
_METRICS = {"latencyMs": 1}


def _converse(model: str) -> Any:
    message = {"role": "assistant", "content": [{"text": TEXT}]}
    return {
        "output": {"message": message},
        "stopReason": "end_turn",
        "usage": _TOKENS,
        "metrics": _METRICS,
    }


def _converse_stream(model: str) -> Iterator[Any]:
    yield {"messageStart": {"role": "assistant"}}
    for word in _WORDS:
        yield {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": word}}}
    yield {"contentBlockStop": {"contentBlockIndex": 0}}
    yield {"messageStop": {"stopReason": "end_turn"}}
    yield {"metadata": {"usage": _TOKENS, "metrics": _METRICS}}


def _bedrock_error(status: int, message: str) -> tuple[dict[str, str], Any]:
    kinds = {403: "AccessDeniedException", 404: "ResourceNotFoundException"}
    return {"x-amzn-ErrorType": kinds.get(status, "ValidationException")}, {"message": message}


# -- generateContent -----------------------------------------------------------------------------


def _candidate(model: str, text: str, **more: Any) -> Any:
    content = {"role": "model", "parts": [{"text": text}]}
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    return {
        "candidates": [{"index": 0, "content": content, **more}],
        "usageMetadata": usage,
        "modelVersion": model,
        "responseId": "response-1",
    }


def _generate_stream(model: str) -> Iterator[Any]:
    yield _candidate(model, _WORDS[0])
    yield _candidate(model, _WORDS[1], finishReason="STOP")


def _generate(model: str) -> Any:
    return _candidate(model, TEXT, finishReason="STOP")


def _google_error(status: int, message: str) -> tuple[dict[str, str], Any]:
    kinds = {403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
    kind = kinds.get(status, "INVALID_ARGUMENT")
    return {}, {"error": {"code": status, "message": message, "status": kind}}


# -- Ollama --------------------------------------------------------------------------------------


def _ollama(model: str, text: str = TEXT, done: bool = True) -> Any:
    head = {"model": model, "created_at": "2026-01-01T00:00:00Z", "done": done}
    ended = {"done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2} if done else {}
    return {**head, "message": {"role": "assistant", "content": text}, **ended}


def _ollama_stream(model: str) -> Iterator[Any]:
    for word in _WORDS:
        yield _ollama(model, word, done=False)
    yield _ollama(model, "")


def _ollama_error(status: int, message: str) -> tuple[dict[str, str], Any]:
    return {}, {"error": message}


# -- Cohere --------------------------------------------------------------------------------------

_UNITS = {"input_tokens": 3, "output_tokens": 2}
_COHERE_END = {
    "finish_reason": "COMPLETE", "usage": {"billed_units": _UNITS, "tokens": _UNITS},
}  # fmt: skip


def _cohere_stream(model: str) -> Iterator[Any]:
    yield {"type": "message-start", "id": "1", "delta": {"message": {"role": "assistant"}}}
    first = {"message": {"content": {"type": "text", "text": ""}}}
    yield {"type": "content-start", "index": 0, "delta": first}
    for word in _WORDS:
        yield {
            "type": "content-delta",
            "index": 0,
            "delta": {"message": {"content": {"text": word}}},
        }
    yield {"type": "content-end", "index": 0}
    yield {"type": "message-end", "id": "1", "delta": _COHERE_END}


def _cohere(model: str) -> Any:
    message = {"role": "assistant", "content": [{"type": "text", "text": TEXT}]}
    return {"id": "1", "message": message, **_COHERE_END}


def _cohere_error(status: int, message: str) -> tuple[dict[str, str], Any]:
    return {}, {"id": "1", "message": message}


_Answer = tuple[Callable[[str], Iterator[Any]], Callable[[str], Any], str, Callable[[Any], bytes]]

_ANSWERS: dict[str, _Answer] = {
    "openai-chat": (_chat_stream, _chat, _SSE, _data),
    "openai-responses": (_response_stream, _response, _SSE, _named),
    "anthropic-messages": (_message_stream, _message, _SSE, _named),
    "bedrock-converse": (
        _converse_stream, _converse, "application/vnd.amazon.eventstream", _event_stream,
    ),
    "gemini-generate-content": (_generate_stream, _generate, _SSE, _data),
    "ollama-chat": (_ollama_stream, _ollama, "application/x-ndjson", _line),
    "cohere-chat": (_cohere_stream, _cohere, _SSE, _named),
}  # fmt: skip

_REFUSALS: dict[str, Callable[[int, str], tuple[dict[str, str], Any]]] = {
    "openai-chat": _openai_error,
    "openai-responses": _openai_error,
    "anthropic-messages": _anthropic_error,
    "bedrock-converse": _bedrock_error,
    "gemini-generate-content": _google_error,
    "ollama-chat": _ollama_error,
    "cohere-chat": _cohere_error,
}
