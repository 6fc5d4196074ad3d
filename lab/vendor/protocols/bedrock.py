"""Amazon Bedrock's Converse and ConverseStream.

Written from https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html and,
for the frames, from the event stream encoding in the documents of Amazon Transcribe and the SDKs.
Any signature (SigV4) is accepted: the access key id in it, or an API key, is the account's key.
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import unquote

from lab.vendor import jsons, tokens
from lab.vendor.answers import Call, Part, Step, Thought
from lab.vendor.ask import Ask, Segment
from lab.vendor.bill import Usage
from lab.vendor.catalog import MODELS, model_of
from lab.vendor.failures import Failure
from lab.vendor.media import image_tokens
from lab.vendor.protocols.base import API, Encoder, Reply, Request, Route
from lab.vendor.protocols.messages import check_thought, claude_thinks, seal_of
from lab.vendor.protocols.reading import add_tool, invalid, limit_of, turn
from lab.vendor.state import State

__all__ = ["Bedrock", "frame"]

_KINDS: dict[str, tuple[int, str]] = {
    "invalid": (400, "ValidationException"),
    "auth": (403, "UnrecognizedClientException"),
    "permission": (403, "AccessDeniedException"),
    "not_found": (404, "ResourceNotFoundException"),
    "too_large": (413, "RequestEntityTooLargeException"),
    "rate_limit": (429, "ThrottlingException"),
    "quota": (400, "ServiceQuotaExceededException"),
    "overloaded": (503, "ServiceUnavailableException"),
    "server": (500, "InternalServerException"),
    "timeout": (408, "ModelTimeoutException"),
    "overflow": (400, "ValidationException"),
    "filter": (400, "ValidationException"),
    "signature": (400, "ValidationException"),
}
_IN_STREAM = {
    "ValidationException": "validationException",
    "ThrottlingException": "throttlingException",
    "ServiceUnavailableException": "serviceUnavailableException",
    "InternalServerException": "internalServerException",
    "ModelTimeoutException": "modelStreamErrorException",
}
_STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tools": "tool_use",
    "filter": "content_filtered",
    "sequence": "stop_sequence",
    "pause": "end_turn",
}
_MEDIA = {"image": tokens.IMAGE, "document": tokens.DOCUMENT, "video": tokens.DOCUMENT}
_LATENCY = 42


class Bedrock(API):
    """`POST /model/{model}/converse` and `/converse-stream`."""

    name = "converse"
    judged_as = "converse"
    provider = "bedrock"

    def __init__(self) -> None:
        self.routes = (
            Route("POST", r"/model/(?P<model>[^/]+)/converse$"),
            Route("POST", r"/model/(?P<model>[^/]+)/(?P<stream>converse-stream)$"),
            Route("GET", r"/foundation-models$", _models),
        )

    def model(self, request: Request, body: dict[str, Any]) -> str:
        """Return the id of the model, which the path names."""
        return unquote(request.found["model"])

    def is_streamed(self, request: Request, body: dict[str, Any]) -> bool:
        """Tell whether the answer is to be streamed, which the path says."""
        return request.found.get("stream") is not None

    def read(self, state: State, request: Request, body: dict[str, Any]) -> Ask:
        """Read what a request asks for. Raises Refused."""
        row = model_of(request.provider, self.model(request, body))
        ask = Ask(request.provider, self.name, row, request.account, caching="marked")
        _read_tools(ask, jsons.obj(body.get("toolConfig")))
        for block in jsons.objects(body.get("system")):
            _add(ask, "system", block, tokens.PER_MESSAGE)
        _read_messages(state, ask, jsons.objects(body.get("messages")))
        config = jsons.obj(body.get("inferenceConfig"))
        ask.limit = limit_of([config.get("maxTokens")])
        ask.stops = list(config.get("stopSequences") or [])
        ask.schema = _schema(body)
        fields = jsons.obj(body.get("additionalModelRequestFields"))
        if row.vendor == "anthropic":
            thinking = jsons.obj(fields.get("thinking") or fields.get("reasoning_config"))
            ask.thinking, ask.shown = claude_thinks(row, thinking)
        elif row.thinks != "never":
            config = jsons.obj(fields.get("reasoningConfig"))
            wanted = config.get("type") == "enabled" or fields.get("reasoning_effort") is not None
            ask.thinking = row.thinks != "on request" or wanted
        tier = jsons.obj(body.get("serviceTier")).get("type", "default")
        ask.tier = tier if tier in ("priority", "flex") else "default"
        return ask

    def encoder(self, state: State, ask: Ask) -> Encoder:
        """Return the encoder of an answer."""
        return _ConverseEncoder(state, ask)

    def failure(self, failure: Failure, request_id: str) -> Reply:
        """Return an error response."""
        status, name = _KINDS[failure.kind]
        reply = Reply.json({"message": _message(failure)}, failure.status or status)
        reply.headers["x-amzn-errortype"] = name
        if failure.retry_after is not None:
            reply.headers["retry-after"] = f"{failure.retry_after:g}"
        return reply

    def headers(self, state: State, request_id: str) -> dict[str, str]:
        """Return the headers of an answer."""
        return {"x-amzn-requestid": request_id}


class _ConverseEncoder(Encoder):
    """Writes frames of an event stream, or a message."""

    media_type = "application/vnd.amazon.eventstream"

    def id_of(self, part: Part) -> str:
        if isinstance(part, Call):
            return part.id or self.state.ids.make("tooluse_", 22)
        return ""

    def begin(self, usage: Usage) -> bytes:
        return self._frame("messageStart", {"role": "assistant"})

    def step(self, step: Step, usage: Usage) -> bytes:
        if step.kind == "end":
            return b""
        part = step.part
        if step.kind == "open":
            if not isinstance(part, Call):
                return b""
            start = {"toolUse": {"toolUseId": self.open_part(step).id, "name": part.name}}
            at = {"contentBlockIndex": step.index, "start": start}
            return self._frame("contentBlockStart", at)
        if step.kind == "close":
            return self._close(step)
        if isinstance(part, Call):
            return self._delta(step, {"toolUse": {"input": step.text}})
        if isinstance(part, Thought):
            if part.redacted or not self.ask.shown:
                return b""
            return self._delta(step, {"reasoningContent": {"text": step.text}})
        return self._delta(step, {"text": step.text})

    def finish(self, usage: Usage) -> bytes:
        stop = self._frame("messageStop", {"stopReason": self._stop()})
        return stop + self._frame(
            "metadata", {"usage": self._usage(usage), "metrics": {"latencyMs": _LATENCY}}
        )

    def broken(self, failure: Failure) -> bytes:
        name = _IN_STREAM.get(_KINDS[failure.kind][1], "internalServerException")
        headers = {
            ":exception-type": name,
            ":content-type": "application/json",
            ":message-type": "exception",
        }
        return frame(headers, jsons.dump({"message": _message(failure)}))

    def whole(self, usage: Usage) -> bytes:
        content = [self._block(each.part, each.text, each.id) for each in self.parts[0].values()]
        return jsons.dump(
            {
                "output": {"message": {"role": "assistant", "content": content}},
                "stopReason": self._stop(),
                "usage": self._usage(usage),
                "metrics": {"latencyMs": _LATENCY},
            }
        )

    def _close(self, step: Step) -> bytes:
        made = b""
        part = step.part
        if isinstance(part, Thought):
            signature = seal_of(self.state, self.ask, self.open_part(step).text)
            reasoning = {"signature": signature}
            if part.redacted:
                reasoning = {"redactedContent": base64.b64encode(signature.encode()).decode()}
            made = self._delta(step, {"reasoningContent": reasoning})
        return made + self._frame("contentBlockStop", {"contentBlockIndex": step.index})

    def _block(self, part: Part, text: str, id: str) -> dict[str, Any]:
        if isinstance(part, Thought):
            signature = seal_of(self.state, self.ask, text)
            if part.redacted:
                data = base64.b64encode(signature.encode()).decode()
                return {"reasoningContent": {"redactedContent": data}}
            shown = text if self.ask.shown else ""
            reasoning = {"text": shown, "signature": signature}
            return {"reasoningContent": {"reasoningText": reasoning}}
        if isinstance(part, Call):
            return {"toolUse": {"toolUseId": id, "name": part.name, "input": jsons.arguments(text)}}
        return {"text": text}

    def _stop(self) -> str:
        end = self.stops[0]
        return _STOPS[end.stop] if end else "end_turn"

    def _usage(self, usage: Usage) -> dict[str, Any]:
        return {
            "inputTokens": usage.uncached,
            "outputTokens": usage.output,
            "totalTokens": usage.total,
            "cacheReadInputTokens": usage.cached,
            "cacheWriteInputTokens": usage.written + usage.written_long,
        }

    def _delta(self, step: Step, delta: dict[str, Any]) -> bytes:
        data = {"contentBlockIndex": step.index, "delta": delta}
        return self._frame("contentBlockDelta", data)

    def _frame(self, kind: str, data: dict[str, Any]) -> bytes:
        headers = {
            ":event-type": kind,
            ":content-type": "application/json",
            ":message-type": "event",
        }
        padded = {**data, "p": "abcdefghijklmnopqrstuvwxyz"[: 3 + len(kind) % 20]}
        return frame(headers, jsons.dump(padded))


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """Encode one message of an event stream, with both checksums."""
    encoded = b""
    for name, value in headers.items():
        key = name.encode()
        text = value.encode()
        encoded += struct.pack(">B", len(key)) + key + struct.pack(">BH", 7, len(text)) + text
    prelude = struct.pack(">II", 16 + len(encoded) + len(payload), len(encoded))
    prelude += struct.pack(">I", binascii.crc32(prelude))
    message = prelude + encoded + payload
    return message + struct.pack(">I", binascii.crc32(message))


def _message(failure: Failure) -> str:
    if failure.kind == "auth":
        return "The security token included in the request is invalid."
    if failure.kind == "overflow":
        return "Input is too long for requested model."
    return failure.message


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    form = jsons.obj(jsons.obj(body.get("outputConfig")).get("textFormat"))
    named = jsons.obj(jsons.obj(form.get("structure")).get("jsonSchema"))
    text = jsons.text(named.get("schema"))
    try:
        return jsons.obj(jsons.load(text)) if text else None
    except ValueError:
        raise invalid("The JSON schema of outputConfig is not valid JSON.") from None


def _read_tools(ask: Ask, config: dict[str, Any]) -> None:
    for tool in jsons.objects(config.get("tools")):
        spec = jsons.obj(tool.get("toolSpec"))
        if spec:
            schema = jsons.obj(spec.get("inputSchema")).get("json")
            add_tool(ask, jsons.text(spec.get("name")), schema, spec)
        elif "cachePoint" in tool:
            _mark(ask, tool)
        else:
            ask.segments.append(Segment("tool", jsons.compact(tool)))
    choice = jsons.obj(config.get("toolChoice"))
    if "any" in choice:
        ask.choice = "any"
    elif "tool" in choice:
        ask.choice = "tool"
        ask.tool = jsons.text(jsons.obj(choice["tool"]).get("name"))


def _mark(ask: Ask, block: dict[str, Any]) -> None:
    """Mark the end of the prompt so far as a prefix to be cached."""
    if ask.segments:
        long = jsons.obj(block.get("cachePoint")).get("ttl") == "1h"
        cache: Literal["short", "long"] = "long" if long else "short"
        ask.segments[-1] = replace(ask.segments[-1], cache=cache)


def _add(ask: Ask, role: str, block: dict[str, Any], overhead: int) -> None:
    """Add a block to the prompt."""
    if "cachePoint" in block:
        _mark(ask, block)
        return
    if isinstance(block.get("text"), str):
        ask.segments.append(Segment(role, block["text"], 0, overhead))
        return
    if "reasoningContent" in block:
        reasoning = jsons.obj(jsons.obj(block["reasoningContent"]).get("reasoningText"))
        ask.segments.append(Segment(role, jsons.text(reasoning.get("text")), 0, overhead))
        return
    media = next((_MEDIA[kind] for kind in block if kind in _MEDIA), 0)
    if "image" in block:
        source = jsons.obj(jsons.obj(block["image"]).get("source"))
        media = image_tokens(ask.model, jsons.text(source.get("bytes")))
    text = "" if media else jsons.sorted_compact(block)
    ask.segments.append(Segment(role, text, media, overhead))


def _read_messages(state: State, ask: Ask, messages: list[dict[str, Any]]) -> None:
    waiting: list[str] = []
    for at, message in enumerate(messages):
        role = jsons.text(message.get("role"))
        blocks = jsons.objects(message.get("content"))
        results = [jsons.obj(block["toolResult"]) for block in blocks if "toolResult" in block]
        answered = [jsons.text(result.get("toolUseId")) for result in results]
        by_server: list[str] = []
        if role == "user":  # an assistant message has the results of the server's own tools
            _check_results(at, waiting, answered)
            waiting = []
        else:
            by_server = answered
        said = ""
        before = len(ask.segments)
        for number, block in enumerate(blocks):
            where = f"messages.{at}.content.{number}"
            thought = "reasoningContent" in block
            if thought and not _is_readable(state, ask, block, where, before):
                continue
            _add(ask, role, block, 0 if number else tokens.PER_MESSAGE)
            said += jsons.text(block.get("text"))
            if "toolUse" in block:
                id = jsons.text(jsons.obj(block["toolUse"]).get("toolUseId"))
                if id not in by_server:
                    waiting.append(id)
        turn(ask, role, said)
    _check_results(len(messages), waiting, [])


def _check_results(at: int, waiting: list[str], answered: list[str]) -> None:
    left = [id for id in waiting if id not in answered]
    if left:
        ids = ", ".join(left)
        raise invalid(
            f"Expected toolResult blocks at messages.{at}.content for the following Ids: {ids}"
        )
    if len(answered) > len(waiting):
        raise invalid(
            f"The number of toolResult blocks at messages.{at}.content exceeds the number of "
            "toolUse blocks of previous turn."
        )


def _is_readable(state: State, ask: Ask, block: dict[str, Any], where: str, before: int) -> bool:
    """Check a thought that comes back; return whether this model can read it."""
    reasoning = jsons.obj(block["reasoningContent"])
    if "redactedContent" in reasoning:
        try:
            data = base64.b64decode(jsons.text(reasoning["redactedContent"])).decode()
        except ValueError:
            data = ""
        return check_thought(state, ask, None, data, where, before)
    text = jsons.obj(reasoning.get("reasoningText"))
    signature = jsons.text(text.get("signature"))
    visible = jsons.text(text.get("text"))
    return check_thought(state, ask, visible, signature, where, before)


async def _models(state: State, request: Request) -> Reply:
    rows = []
    for model in MODELS.values():
        if model.vendor in ("bedrock", "anthropic"):
            id = model.id if model.vendor == "bedrock" else f"anthropic.{model.id}"
            rows.append(
                {
                    "modelId": id,
                    "modelArn": f"arn:aws:bedrock:us-east-1::foundation-model/{id}",
                    "modelName": model.id,
                    "providerName": "Amazon" if model.vendor == "bedrock" else "Anthropic",
                    "inputModalities": ["TEXT", "IMAGE"],
                    "outputModalities": ["TEXT"],
                    "responseStreamingSupported": True,
                    "inferenceTypesSupported": ["ON_DEMAND"],
                    "modelLifecycle": {"status": "ACTIVE"},
                }
            )
    return Reply.json({"modelSummaries": rows})
