"""Mistral's chat, which resembles Chat Completions, with its files and batch jobs.

Written from https://docs.mistral.ai/api. Under `/mistral` alone: the paths are OpenAI's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.vendor import batches, jsons
from lab.vendor.answers import Call, Part, Step, Text, Thought
from lab.vendor.ask import Ask
from lab.vendor.batches import Batch, Line
from lab.vendor.bill import Usage
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols.base import Encoder, Reply, Request, Route, as_body, event
from lab.vendor.protocols.chat import Chat, ChatEncoder
from lab.vendor.protocols.multipart import fields_of
from lab.vendor.protocols.reading import invalid
from lab.vendor.state import State

__all__ = ["Mistral"]

_ENDPOINT = "/v1/chat/completions"
_KINDS: dict[str, tuple[int, str, str]] = {
    "invalid": (400, "invalid_request_message", "3051"),
    "permission": (403, "forbidden", "1200"),
    "not_found": (404, "invalid_model", "1500"),
    "too_large": (413, "request_too_large", "1400"),
    "rate_limit": (429, "rate_limited", "1300"),
    "quota": (402, "payment_required", "1301"),
    "overloaded": (503, "unreachable_backend", "1100"),
    "server": (500, "internal_server_error", "1000"),
    "timeout": (504, "request_timeout", "1101"),
    "overflow": (400, "invalid_request_prompt", "3051"),
    "filter": (403, "content_filtered", "1201"),
    "signature": (400, "invalid_request_message", "3051"),
}


class Mistral(Chat):
    """`POST /v1/chat/completions`, as Mistral has it."""

    name = "mistral"
    provider = "mistral"

    def __init__(self) -> None:
        super().__init__()
        self.routes += (
            Route("POST", r"/files$", _upload),
            Route("GET", r"/files/(?P<id>[^/]+)$", _file),
            Route("GET", r"/files/(?P<id>[^/]+)/content$", _content),
            Route("DELETE", r"/files/(?P<id>[^/]+)$", _delete_file),
            Route("POST", r"/batch/jobs$", self._create),
            Route("GET", r"/batch/jobs$", _jobs),
            Route("GET", r"/batch/jobs/(?P<id>[^/]+)$", _job),
            Route("POST", r"/batch/jobs/(?P<id>[^/]+)/cancel$", _cancel),
        )

    def encoder(self, state: State, ask: Ask) -> Encoder:
        """Return the encoder of an answer."""
        return _MistralEncoder(state, ask)

    def failure(self, failure: Failure, request_id: str) -> Reply:
        """Return an error response."""
        if failure.kind == "auth":
            return Reply.json({"detail": "Unauthorized"}, failure.status or 401)
        reply = Reply.json(_error(failure), failure.status or _KINDS[failure.kind][0])
        if failure.retry_after is not None:
            reply.headers["retry-after"] = f"{failure.retry_after:g}"
        return reply

    def headers(self, state: State, request_id: str) -> dict[str, str]:
        """Return the headers of an answer."""
        return {"mistral-correlation-id": request_id}

    def no_model(self, id: str) -> str:
        """Return the words for a model that there is not."""
        return f"Invalid model: {id}"

    async def _create(self, state: State, request: Request) -> Reply:
        body = as_body(request)
        files = body.get("input_files") or []
        rows = jsons.objects(body.get("requests"))
        for id in files:
            uploaded = _owned_file(state, request.account, str(id)).data.splitlines()
            rows += [jsons.obj(jsons.load(line)) for line in uploaded if line.strip()]
        if body.get("endpoint") != _ENDPOINT:
            raise invalid(f"endpoint: only {_ENDPOINT} is served")
        lines = []
        for row in rows:
            data = {"model": body.get("model"), **jsons.obj(row.get("body"))}
            lines.append(Line(jsons.text(row.get("custom_id")), self, _ENDPOINT, data))
        own = {"files": files, "model": body.get("model"), "metadata": body.get("metadata"),
               "output": None, "error": None}  # fmt: skip
        batch = batches.create(state, state.ids.uuid(), request.account, lines, own)
        state.owned.put("mistral batch", batch.id, request.account, batch)
        return Reply.json(_object(batch))


class _MistralEncoder(ChatEncoder):
    """Writes whole calls, thoughts as content, and the usage with the finish reason."""

    def id_of(self, part: Part) -> str:
        if isinstance(part, Call):
            return part.id or self.state.ids.make("", 9)
        return ""

    def head(self) -> dict[str, Any]:
        return {
            "id": self.id.removeprefix("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.ask.model.id,
        }

    def begin(self, usage: Usage) -> bytes:
        delta = {"role": "assistant", "content": ""}
        return b"".join(self.chunk(at, dict(delta)) for at in range(self.ask.count))

    def usage(self, usage: Usage) -> dict[str, Any]:
        return {
            "prompt_tokens": usage.prompt,
            "total_tokens": usage.total,
            "completion_tokens": usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
        }

    def chunk(
        self,
        choice: int,
        delta: dict[str, Any],
        finish: str | None = None,
        usage: dict[str, Any] | None = None,
    ) -> bytes:
        made = {"index": choice, "delta": delta, "finish_reason": finish}
        chunk = {**self.head(), "choices": [made]}
        if usage is not None:
            chunk["usage"] = usage
        if "role" not in delta:
            chunk["p"] = self.state.ids.make("", 1 + len(str(delta)) % 16)
        return event(chunk)

    def step(self, step: Step, usage: Usage) -> bytes:
        if isinstance(step.part, Call) and step.kind != "end":
            return b""
        if isinstance(step.part, Thought) and step.kind == "delta":
            return self.chunk(step.choice, {"content": [_thinking(step.text)]})
        if step.kind == "end":
            delta: dict[str, Any] = {"content": ""}
            calls = self._calls(step.choice)
            if calls:
                delta["tool_calls"] = calls
            return self.chunk(step.choice, delta, self.reason(step), self.usage(usage))
        if step.kind != "delta":
            return b""
        return self.chunk(step.choice, {"content": step.text})

    def finish(self, usage: Usage) -> bytes:
        return b"data: [DONE]\n\n"

    def broken(self, failure: Failure) -> bytes:
        return event(_error(failure))

    def choice(self, at: int) -> dict[str, Any]:
        made = super().choice(at)
        parts = [each for _, each in sorted(self.parts[at].items())]
        thoughts = [_thinking(each.text) for each in parts if isinstance(each.part, Thought)]
        texts = [each.text for each in parts if isinstance(each.part, Text)]
        content: Any = "".join(texts)
        if thoughts:
            content = [*thoughts, *({"type": "text", "text": text} for text in texts)]
        calls = self._calls(at)
        made["message"] = {"role": "assistant", "content": content, "tool_calls": calls or None}
        return made

    def _calls(self, at: int) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []
        for _, each in sorted(self.parts[at].items()):
            if isinstance(each.part, Call):
                function = {"name": each.part.name, "arguments": each.text}
                calls.append({"id": each.id, "function": function, "index": len(calls)})
        return calls


def _thinking(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def _error(failure: Failure) -> dict[str, Any]:
    status, kind, code = _KINDS.get(failure.kind, _KINDS["invalid"])
    return {
        "object": "error",
        "message": failure.message,
        "type": kind,
        "param": failure.param,
        "code": code,
        "raw_status_code": failure.status or status,
    }


# -- files and batches ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File:
    object: dict[str, Any]
    data: bytes


def _keep(state: State, account: str, data: bytes, filename: str, source: str) -> _File:
    id = state.ids.uuid()
    object = {
        "id": id,
        "object": "file",
        "bytes": len(data),
        "created_at": int(state.clock.now()),
        "filename": filename,
        "purpose": "batch",
        "sample_type": "batch_request" if source == "upload" else "batch_result",
        "num_lines": len(data.splitlines()),
        "mimetype": "application/jsonl",
        "source": source,
        "signature": None,
        "expires_at": None,
        "visibility": "workspace",
        "deleted": False,
    }
    file = _File(object, data)
    state.owned.put("mistral file", id, account, file)
    return file


def _owned_file(state: State, account: str, id: str) -> _File:
    file = state.owned.get("mistral file", id, account)
    if file is None:
        raise Refused(Failure("not_found", f"File {id} not found"))
    assert isinstance(file, _File)
    return file


async def _upload(state: State, request: Request) -> Reply:
    file = fields_of(request).get("file")
    if file is None:
        raise invalid("file: Field required")
    return Reply.json(_keep(state, request.account, file.data, file.filename, "upload").object)


async def _file(state: State, request: Request) -> Reply:
    return Reply.json(_owned_file(state, request.account, request.found["id"]).object)


async def _content(state: State, request: Request) -> Reply:
    data = _owned_file(state, request.account, request.found["id"]).data
    return Reply(200, data, {}, "application/octet-stream")


async def _delete_file(state: State, request: Request) -> Reply:
    id = request.found["id"]
    _owned_file(state, request.account, id)
    state.owned.remove("mistral file", id, request.account)
    return Reply.json({"id": id, "object": "file", "deleted": True})


def _owned_job(state: State, request: Request) -> Batch:
    id = request.found["id"]
    batch = state.owned.get("mistral batch", id, request.account)
    if batch is None:
        raise Refused(Failure("not_found", f"Batch job {id} not found"))
    assert isinstance(batch, Batch)
    batch.look(state)
    if batch.outcomes is not None and batch.own["output"] is None and batch.own["error"] is None:
        _write_results(state, batch)
    return batch


def _write_results(state: State, batch: Batch) -> None:
    """Put the outcomes into the files of a job, once."""
    kinds: dict[str, list[bytes]] = {"output": [], "error": []}
    for outcome in batch.outcomes or []:
        if outcome.status is None:
            continue
        response = {"status_code": outcome.status, "body": outcome.body}
        line = {"id": outcome.request_id, "custom_id": outcome.line.id, "response": response}
        kind = "output" if outcome.status == 200 else "error"
        kinds[kind].append(jsons.dump({**line, "error": None}))
    for kind, lines in kinds.items():
        if lines:
            name = f"{batch.id}_{kind}.jsonl"
            data = b"\n".join(lines) + b"\n"
            batch.own[kind] = _keep(state, batch.account, data, name, "mistral").object["id"]


def _object(batch: Batch) -> dict[str, Any]:
    status = "QUEUED"
    if batch.cancelled is not None:
        status = "CANCELLED"
    elif batch.outcomes is not None:
        status = "SUCCESS"
    succeeded = batch.count(lambda outcome: outcome.status == 200)
    failed = batch.count(lambda outcome: outcome.status not in (200, None))
    ended = None if batch.ended is None else int(batch.ended)
    return {
        "id": batch.id,
        "object": "batch",
        "input_files": batch.own["files"],
        "metadata": batch.own["metadata"],
        "endpoint": _ENDPOINT,
        "model": batch.own["model"],
        "agent_id": None,
        "output_file": batch.own["output"],
        "error_file": batch.own["error"],
        "errors": [],
        "outputs": None,
        "status": status,
        "created_at": int(batch.created),
        "total_requests": len(batch.lines),
        "completed_requests": succeeded + failed,
        "succeeded_requests": succeeded,
        "failed_requests": failed,
        "started_at": ended,
        "completed_at": ended,
    }


async def _job(state: State, request: Request) -> Reply:
    return Reply.json(_object(_owned_job(state, request)))


async def _jobs(state: State, request: Request) -> Reply:
    found = list(reversed(state.owned.all("mistral batch", request.account)))
    rows = [_object(batch) for batch in found]
    return Reply.json({"data": rows, "object": "list", "total": len(rows)})


async def _cancel(state: State, request: Request) -> Reply:
    batch = _owned_job(state, request)
    batch.cancel(state)
    return Reply.json(_object(batch))
