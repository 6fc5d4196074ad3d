"""Read recorded answers without swink: text, tool calls and tokens, straight from the JSON.

Each reader follows the API's document and knows nothing of events or blocks. It serves to find
what an adapter loses, so it leaves out what an adapter has to interpret.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from attrs import define, field

__all__ = ["Answer", "read_answer"]

JSON: TypeAlias = Any
"""Data of an answer."""


@define
class Answer:
    """The content of an answer: its text, its tool calls in order, and the reported output tokens.

    `calls` are pairs of a name and the arguments, decoded where they are JSON. `output` is `None`
    where the answer reports no tokens.
    """

    text: str = ""
    calls: list[tuple[str, JSON]] = field(factory=list)
    output: int | None = None


def read_answer(wire_format: str, body: bytes, media_type: str) -> Answer | None:
    """Read an answer of a wire format; `None` for any other body or format."""
    reader = _READERS.get(wire_format)
    if reader is None:
        return None
    try:
        return reader(list(_documents(body, media_type)))
    except (KeyError, TypeError, ValueError, IndexError, struct.error):
        return None


def _documents(body: bytes, media_type: str) -> Iterator[JSON]:
    """Yield the JSON documents of a body: of an event stream, of lines, or the only one."""
    if media_type == "application/vnd.amazon.eventstream":
        yield from _messages(body)
        return
    text = body.decode()
    if text.lstrip().startswith(("data:", "event:", ":", "id:")):
        for line in text.splitlines():
            name, _, value = line.partition(":")
            if name == "data" and value.strip() not in ("", "[DONE]"):
                yield json.loads(value)
        return
    try:
        whole = json.loads(text)
    except ValueError:
        for line in text.splitlines():
            if line.strip():
                yield json.loads(line)
        return
    yield from whole if isinstance(whole, list) else [whole]


def _messages(body: bytes) -> Iterator[JSON]:
    """Yield the payloads of AWS's event stream, each beside its event type."""
    at = 0
    while at < len(body):
        total, headers = struct.unpack_from(">II", body, at)
        start = at + 12 + headers
        kind = body[at + 12 : start].partition(b":event-type\x07")[2]
        length = struct.unpack_from(">H", kind)[0]
        yield {kind[2 : 2 + length].decode(): json.loads(body[start : at + total - 4])}
        at += total


def _arguments(text: JSON) -> JSON:
    """Return arguments as data: an empty text means an empty object, as in every SDK."""
    if not isinstance(text, str):
        return text
    if not text.strip():
        return {}
    try:
        return json.loads(text)
    except ValueError:
        return text


def _chat(documents: list[JSON]) -> Answer | None:
    answer = Answer()
    calls: dict[int, list[str]] = {}
    seen = False
    for document in documents:
        for choice in document.get("choices") or ():
            if choice.get("index") or not ("delta" in choice or "message" in choice):
                continue
            seen = True
            said = choice.get("delta") or choice.get("message") or {}
            content = said.get("content")
            parts = content if isinstance(content, list) else [{"text": content or ""}]
            answer.text += "".join(part.get("text") or "" for part in parts)
            answer.text += said.get("refusal") or ""
            answer.text += (said.get("audio") or {}).get("transcript") or ""
            if old := said.get("function_call"):
                row = calls.setdefault(0, ["", ""])
                row[0] += old.get("name") or ""
                row[1] += old.get("arguments") or ""
            for number, call in enumerate(said.get("tool_calls") or ()):
                row = calls.setdefault(call.get("index", number), ["", ""])
                function = call.get("function") or call.get("custom") or {}
                row[0] += function.get("name") or ""
                arguments = function.get("arguments") or {"input": function.get("input")}
                arguments = "" if arguments == {"input": None} else arguments
                row[1] += arguments if isinstance(arguments, str) else json.dumps(arguments)
        usage = document.get("usage") or {}
        answer.output = usage.get("completion_tokens", answer.output)
    answer.calls = [(name, _arguments(text)) for name, text in calls.values()]
    return answer if seen else None


def _responses(documents: list[JSON]) -> Answer | None:
    whole = [d.get("response", d) for d in documents]
    done = [d for d in whole if isinstance(d, dict) and d.get("status") and d.get("output")]
    if not done:
        return None
    answer = Answer(output=(done[-1].get("usage") or {}).get("output_tokens"))
    for item in done[-1]["output"]:
        if item["type"] == "message":
            texts = [part.get("text") or part.get("refusal") or "" for part in item["content"]]
            answer.text += "".join(texts)
        elif item["type"] == "function_call":
            answer.calls.append((item["name"], _arguments(item["arguments"])))
        elif item["type"] == "custom_tool_call":
            answer.calls.append((item["name"], {"input": item["input"]}))
    return answer


def _anthropic(documents: list[JSON]) -> Answer | None:
    answer = Answer()
    blocks: dict[int, dict[str, JSON]] = {}
    seen = False
    for document in documents:
        kind = document.get("type")
        if kind == "message":
            blocks = dict(enumerate(document["content"]))
            answer.output = document["usage"]["output_tokens"]
            seen = True
        elif kind == "content_block_start":
            blocks[document["index"]] = {**document["content_block"], "json": ""}
        elif kind == "content_block_delta":
            block, delta = blocks[document["index"]], document["delta"]
            if delta["type"] == "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
            elif delta["type"] == "input_json_delta":
                block["json"] += delta["partial_json"]
        elif kind == "message_delta":
            answer.output = document["usage"]["output_tokens"]
            seen = True
    for block in blocks.values():
        if block["type"] == "text":
            answer.text += block["text"]
        elif block["type"] == "tool_use":
            answer.calls.append((block["name"], _arguments(block.get("json") or block["input"])))
    return answer if seen else None


def _gemini(documents: list[JSON]) -> Answer | None:
    answer = Answer()
    seen = False
    for document in documents:
        for candidate in document.get("candidates") or ():
            if candidate.get("index"):
                continue
            seen = True
            for part in (candidate.get("content") or {}).get("parts") or ():
                if "functionCall" in part:
                    call = part["functionCall"]
                    answer.calls.append((call["name"], call.get("args") or {}))
                elif not part.get("thought"):
                    answer.text += part.get("text") or ""
    return answer if seen else None


def _converse(documents: list[JSON]) -> Answer | None:
    answer = Answer()
    if documents and "output" in documents[0]:
        answer.output = documents[0]["usage"]["outputTokens"]
        for block in documents[0]["output"]["message"]["content"]:
            answer.text += block.get("text") or ""
            call = block.get("toolUse")
            if call and call.get("type") != "server_tool_use":
                answer.calls.append((call["name"], call["input"]))
        return answer
    calls: dict[int, list[str]] = {}
    seen = False
    for document in documents:
        ((kind, event),) = document.items()
        delta = event.get("delta") or {}
        answer.text += delta.get("text") or ""
        index = event.get("contentBlockIndex", 0)
        start = (event.get("start") or {}).get("toolUse")
        if start and start.get("type") != "server_tool_use":
            calls[index] = [start["name"], ""]
        piece = delta.get("toolUse")
        if piece and index in calls:
            calls[index][1] += piece["input"]
        seen = seen or kind == "messageStop"
        answer.output = (event.get("usage") or {}).get("outputTokens", answer.output)
    answer.calls = [(name, _arguments(text)) for name, text in calls.values()]
    return answer if seen else None


def _ollama(documents: list[JSON]) -> Answer | None:
    answer = Answer()
    seen = False
    for document in documents:
        said = document["message"]
        answer.text += said.get("content") or ""
        for call in said.get("tool_calls") or ():
            answer.calls.append((call["function"]["name"], call["function"]["arguments"]))
        seen = seen or document.get("done", False)
        answer.output = document.get("eval_count", answer.output)
    return answer if seen else None


def _cohere(documents: list[JSON]) -> Answer | None:
    answer = Answer()
    calls: list[list[str]] = []
    seen = False
    for document in documents:
        kind = document.get("type")
        said = (document.get("delta") or {}).get("message") or {}
        if "message" in document and kind is None:
            seen = True
            said = document["message"]
            answer.text += "".join(part.get("text") or "" for part in said.get("content") or ())
            calls += [
                [call["function"]["name"], call["function"]["arguments"]]
                for call in said.get("tool_calls") or ()
            ]
        elif kind == "content-delta":
            answer.text += said["content"].get("text") or ""
        elif kind == "tool-call-start":
            function = said["tool_calls"]["function"]
            calls.append([function["name"], function.get("arguments") or ""])
        elif kind == "tool-call-delta":
            calls[-1][1] += said["tool_calls"]["function"]["arguments"]
        elif kind == "message-end":
            seen = True
    answer.calls = [(name, _arguments(text)) for name, text in calls]
    return answer if seen else None


_READERS: dict[str, Callable[[list[JSON]], Answer | None]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic-messages": _anthropic,
    "gemini-generate-content": _gemini,
    "bedrock-converse": _converse,
    "ollama-chat": _ollama,
    "cohere-chat": _cohere,
}
