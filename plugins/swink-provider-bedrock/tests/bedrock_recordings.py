"""The recordings that swink-provider-bedrock ships: run this to write them.

They are binary, so they are kept here in a form that can be read, as events of the API and the
message that these should become; the provider's tests hold the shipped files against this.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from converse import CONTENT_TYPE, START, delta, event, exception, stop, tool_use

from swink_core import (
    AssistantMessage,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
)
from swink_core import StreamErrorKind as Kind
from swink_recorder.legs import RecordedRequest
from swink_recorder.recording import Recording

__all__ = ["SHIPPED", "recordings", "whole_answers"]

SHIPPED = Path(__file__).parents[1] / "src" / "swink_provider_bedrock"
NOTE = "Written by hand in the form that the API sends."
CLAUDE = "global.anthropic.claude-haiku-5-5"
NOVA = "us.amazon.nova-pro-v1:0"

SIGNATURE = base64.b64encode(b"a signature over what was thought").decode()
REDACTED = base64.b64encode(b"reasoning that nobody but its maker may read").decode()
LOOK_UP: dict[str, Any] = {
    "name": "look_up",
    "description": "Looks a tide table up.",
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {"harbour": {"type": "string"}, "day": {"type": "string"}},
            "required": ["harbour"],
        }
    },
}


def recordings() -> Iterator[Recording]:
    """Yield what is shipped."""
    yield _text()
    yield _thinking_and_tool_calls()
    yield _citations()
    yield _throttled()
    yield _too_long()


def whole_answers() -> Iterator[Recording]:
    """Yield what is shipped of answers that were not streamed."""
    yield _thought_and_called()


def _text() -> Recording:
    words = ["Lighthouses blink ", "so that sailors can ", "tell one ", "from another", "."]
    pieces = [delta(0, text=word) for word in words]
    return _stream(
        "text",
        NOVA,
        [START, *pieces, _closed(0), stop(), _metadata(12, 14)],
        _answer(NOVA, "text", ["".join(words)], usage=_usage(12, 14)),
        {
            "messages": [_said("Why do lighthouses blink?")],
            "inferenceConfig": {"maxTokens": 200},
        },
    )


def _thinking_and_tool_calls() -> Recording:
    thoughts = ["Two harbours, ", "so two ", "calls."]
    frames = [
        START,
        *(delta(0, reasoningContent={"text": thought}) for thought in thoughts),
        delta(0, reasoningContent={"signature": SIGNATURE}),
        _closed(0),
        delta(1, reasoningContent={"redactedContent": REDACTED}),
        _closed(1),
        delta(2, text="I look both up."),
        _closed(2),
        *_tool_call(3, "tooluse_dover", ['{"harb', 'our": "Dover", "day"', ': "today"}']),
        *_tool_call(4, "tooluse_calais", ['{"harbour": "Cal', 'ais"}']),
        stop("tool_use"),
        _metadata(211, 96, cacheReadInputTokens=0, cacheWriteInputTokens=1024),
    ]
    content = [
        ThinkingBlock("".join(thoughts), SIGNATURE),
        ThinkingBlock("", REDACTED, redacted=True),
        TextBlock("I look both up."),
        ToolCallBlock(
            "tooluse_dover",
            "look_up",
            {"harbour": "Dover", "day": "today"},
            '{"harbour": "Dover", "day": "today"}',
        ),
        ToolCallBlock("tooluse_calais", "look_up", {"harbour": "Calais"}, '{"harbour": "Calais"}'),
    ]
    return _stream(
        "thinking-and-tool-calls",
        CLAUDE,
        frames,
        _answer(
            CLAUDE,
            "thinking-and-tool-calls",
            content,
            reason=StopReason.TOOL_USE,
            usage=_usage(1235, 96, cache_read=0, cache_write=1024),
        ),
        {
            "messages": [_said("When is high water at Dover and at Calais?")],
            "toolConfig": {"tools": [{"toolSpec": LOOK_UP}, {"cachePoint": {"type": "default"}}]},
            "outputConfig": {"effort": "low"},
            "additionalModelRequestFields": {
                "thinking": {"type": "adaptive", "display": "summarized"}
            },
        },
    )


def _citations() -> Recording:
    source = "The light of Eddystone shows two flashes every ten seconds."
    citation = {
        "title": "lights",
        "sourceContent": [{"text": source}],
        "location": {"documentChar": {"documentIndex": 0, "start": 0, "end": len(source)}},
    }
    frames = [
        START,
        delta(0, text="It shows "),
        _closed(0),
        delta(1, citation=citation),
        delta(1, text="two flashes "),
        delta(1, text="every ten seconds"),
        _closed(1),
        delta(2, text="."),
        _closed(2),
        stop(),
        _metadata(640, 22),
    ]
    content = [
        TextBlock("It shows "),
        TextBlock("two flashes every ten seconds", {"citations": [citation]}),
        TextBlock("."),
    ]
    document = {
        "format": "txt",
        "name": "lights",
        "source": {"bytes": base64.b64encode(source.encode()).decode()},
        "citations": {"enabled": True},
    }
    question = {"role": "user", "content": [{"document": document}, {"text": "How does it blink?"}]}
    return _stream(
        "citations",
        CLAUDE,
        frames,
        _answer(CLAUDE, "citations", content, usage=_usage(640, 22)),
        {"messages": [question]},
    )


def _thought_and_called() -> Recording:
    content = [
        {"reasoningContent": {"reasoningText": {"text": "Look it up.", "signature": SIGNATURE}}},
        {"text": "I look it up."},
        {"toolUse": {"toolUseId": "tooluse_1", "name": "look_up", "input": {"harbour": "Dover"}}},
    ]
    answer = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use",
        "usage": {"inputTokens": 30, "outputTokens": 12, "totalTokens": 42},
        "metrics": {"latencyMs": 800},
    }
    blocks = [
        ThinkingBlock("Look it up.", SIGNATURE),
        TextBlock("I look it up."),
        ToolCallBlock("tooluse_1", "look_up", {"harbour": "Dover"}, '{"harbour":"Dover"}'),
    ]
    name, body = "thought-and-called", json.dumps(answer).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    asked = {"messages": [_said("When is high water at Dover?")]}
    message = _answer(CLAUDE, name, blocks, usage=_usage(30, 12), reason=StopReason.TOOL_USE)
    request = RecordedRequest("POST", f"/model/{CLAUDE}/converse", headers, asked)
    answered = {"Content-Type": "application/json"}
    return _recording(name, CLAUDE, [(0.9, body)], request, answered, message)


def _throttled() -> Recording:
    words = "Too many tokens, please wait before trying again."
    return _stream(
        "throttled",
        NOVA,
        [START, delta(0, text="So that"), exception("throttlingException", message=words)],
        AssistantMessage(
            [TextBlock("So that")],
            "bedrock",
            NOVA,
            request_id="throttled",
            stop_reason=StopReason.ERROR,
            error_kind=Kind.THROTTLED,
            error_message=words,
        ),
        {"messages": [_said("Why do lighthouses blink?")]},
    )


def _too_long() -> Recording:
    words = "The model returned the following errors: Input is too long for requested model."
    body = b'{"message":"%s"}' % words.encode()
    headers = {
        "Content-Type": "application/json",
        "x-amzn-ErrorType": "ValidationException:http://example.invalid/com.amazon.bedrock/",
    }
    message = AssistantMessage(
        [],
        "bedrock",
        NOVA,
        request_id="too-long",
        stop_reason=StopReason.ERROR,
        error_kind=Kind.CONTEXT_WINDOW_EXCEEDED,
        error_message=words,
    )
    request = _request(NOVA, {"messages": [_said("…")]})
    return _recording("too-long", NOVA, [(0.2, body)], request, headers, message, status=400)


def _closed(index: int) -> bytes:
    return event("contentBlockStop", contentBlockIndex=index)


def _tool_call(index: int, id: str, pieces: list[str]) -> list[bytes]:
    start = event("contentBlockStart", contentBlockIndex=index, start=tool_use(id, "look_up"))
    return [start, *(delta(index, toolUse={"input": piece}) for piece in pieces), _closed(index)]


def _metadata(fresh: int, output: int, **cached: int) -> bytes:
    total = fresh + output + sum(cached.values())
    usage = {"inputTokens": fresh, "outputTokens": output, "totalTokens": total, **cached}
    return event("metadata", usage=usage, metrics={"latencyMs": 800})


def _usage(fresh: int, output: int, **cached: int) -> Usage:
    return Usage(fresh, output, **cached, total=fresh + output, reported=True)


def _said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}


def _answer(
    model: str,
    name: str,
    content: list[Any],
    *,
    usage: Usage,
    reason: StopReason = StopReason.STOP,
) -> AssistantMessage:
    blocks = [TextBlock(block) if isinstance(block, str) else block for block in content]
    return AssistantMessage(
        blocks,
        "bedrock",
        model,
        request_id=name,
        usage=usage,
        stop_reason=reason,
        metadata={"metrics": {"latencyMs": 800}},
    )


def _request(model: str, body: dict[str, Any]) -> RecordedRequest:
    headers = {"Content-Type": "application/json", "Accept": CONTENT_TYPE}
    return RecordedRequest("POST", f"/model/{model}/converse-stream", headers, body)


def _stream(
    name: str, model: str, frames: Iterable[bytes], message: AssistantMessage, body: dict[str, Any]
) -> Recording:
    pieces = [(round(0.4 + 0.07 * number, 2), frame) for number, frame in enumerate(frames)]
    headers = {"Content-Type": CONTENT_TYPE}
    return _recording(name, model, pieces, _request(model, body), headers, message)


def _recording(
    name: str,
    model: str,
    pieces: list[tuple[float, bytes]],
    request: RecordedRequest,
    headers: dict[str, str],
    message: AssistantMessage,
    status: int = 200,
) -> Recording:
    return Recording(
        provider="bedrock",
        model=model,
        body=b"".join(piece for _, piece in pieces),
        chunks=[(at, len(piece)) for at, piece in pieces],
        wire_format="bedrock-converse",
        note=NOTE,
        request=request,
        status=status,
        headers={**headers, "x-amzn-RequestId": name},
        message=message,
        name=name,
    )


if __name__ == "__main__":
    for recording in recordings():
        recording.save(SHIPPED / "recordings" / recording.name)
    for recording in whole_answers():
        recording.save(SHIPPED / "whole_answers" / recording.name)
