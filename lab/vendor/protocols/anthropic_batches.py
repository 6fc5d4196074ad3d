"""Anthropic's files and message batches.

Written from https://platform.claude.com/docs/en/api/files and /docs/en/api/messages/batches.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lab.vendor import batches, jsons
from lab.vendor.batches import Batch, Line, Outcome
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols import anthropic_common
from lab.vendor.protocols.base import API, Reply, Request, Route, as_body
from lab.vendor.protocols.multipart import fields_of
from lab.vendor.protocols.reading import invalid
from lab.vendor.state import State

__all__ = ["routes"]

_DAY = 86_400


def routes(messages: API) -> tuple[Route, ...]:
    """Return the routes; the requests of a batch are to `messages`."""

    async def create(state: State, request: Request) -> Reply:
        return _create(state, request, messages)

    one = r"/messages/batches/(?P<id>[^/]+)"
    return (
        Route("POST", r"/messages/batches$", create),
        Route("GET", r"/messages/batches$", _batches),
        Route("GET", rf"{one}$", _batch),
        Route("DELETE", rf"{one}$", _delete),
        Route("POST", rf"{one}/cancel$", _cancel),
        Route("GET", rf"{one}/results$", _results),
        Route("POST", r"/files$", _upload),
        Route("GET", r"/files$", _files),
        Route("GET", r"/files/(?P<id>[^/]+)$", _file),
        Route("DELETE", r"/files/(?P<id>[^/]+)$", _delete_file),
        Route("GET", r"/files/(?P<id>[^/]+)/content$", _content),
    )


def _create(state: State, request: Request, messages: API) -> Reply:
    body = as_body(request)
    requests = jsons.objects(body.get("requests"))
    if not requests:
        raise invalid("requests: List should have at least 1 item after validation, not 0")
    lines: list[Line] = []
    for at, each in enumerate(requests):
        id = jsons.text(each.get("custom_id"))
        if not id:
            raise invalid(f"requests.{at}.custom_id: Field required")
        if any(line.id == id for line in lines):
            raise invalid(f"requests.{at}.custom_id: Duplicate custom_id '{id}'")
        lines.append(Line(id, messages, "/v1/messages", each.get("params")))
    id = state.ids.make("msgbatch_01", 22)
    batch = batches.create(state, id, request.account, lines, {})
    state.owned.put("anthropic batch", id, request.account, batch)
    return Reply.json(_object(batch, request))


def _owned(state: State, request: Request) -> Batch:
    id = request.found["id"]
    batch = state.owned.get("anthropic batch", id, request.account)
    if batch is None:
        raise Refused(Failure("not_found", f"Message batch {id} not found."))
    assert isinstance(batch, Batch)
    batch.look(state)
    return batch


def _object(batch: Batch, request: Request) -> dict[str, Any]:
    ended = batch.outcomes is not None
    succeeded = batch.count(lambda outcome: outcome.status == 200)
    canceled = batch.count(lambda outcome: outcome.status is None)
    errored = len(batch.outcomes or []) - succeeded - canceled
    host = request.headers.get("host", "localhost")
    results = f"http://{host}/v1/messages/batches/{batch.id}/results"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if ended else "in_progress",
        "request_counts": {
            "processing": 0 if ended else len(batch.lines),
            "succeeded": succeeded,
            "errored": errored,
            "canceled": canceled,
            "expired": 0,
        },
        "ended_at": None if batch.ended is None else _time(batch.ended),
        "created_at": _time(batch.created),
        "expires_at": _time(batch.created + _DAY),
        "archived_at": None,
        "cancel_initiated_at": None if batch.cancelled is None else _time(batch.cancelled),
        "results_url": results if ended else None,
    }


async def _batch(state: State, request: Request) -> Reply:
    return Reply.json(_object(_owned(state, request), request))


async def _batches(state: State, request: Request) -> Reply:
    found = list(reversed(state.owned.all("anthropic batch", request.account)))
    return anthropic_common.page(request, [_object(batch, request) for batch in found], 20)


async def _delete(state: State, request: Request) -> Reply:
    batch = _owned(state, request)
    if batch.outcomes is None:
        raise invalid(f"Batch {batch.id} cannot be deleted before it has ended.")
    state.owned.remove("anthropic batch", batch.id, request.account)
    return Reply.json({"id": batch.id, "type": "message_batch_deleted"})


async def _cancel(state: State, request: Request) -> Reply:
    batch = _owned(state, request)
    if batch.outcomes is not None:
        raise invalid(f"Batch {batch.id} has ended and cannot be canceled.")
    batch.cancel(state)
    shown = {**_object(batch, request), "processing_status": "canceling", "ended_at": None}
    return Reply.json({**shown, "results_url": None})


async def _results(state: State, request: Request) -> Reply:
    batch = _owned(state, request)
    if batch.outcomes is None:
        raise Refused(Failure("not_found", f"Batch {batch.id} has no available results."))
    lines = [jsons.dump(_result(outcome)) for outcome in batch.outcomes]
    return Reply(200, b"\n".join(lines) + b"\n", {}, "application/x-jsonl")


def _result(outcome: Outcome) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "canceled"}
    if outcome.status == 200:
        result = {"type": "succeeded", "message": outcome.body}
    elif outcome.status is not None:
        result = {"type": "errored", "error": outcome.body}
    return {"custom_id": outcome.line.id, "result": result}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


async def _upload(state: State, request: Request) -> Reply:
    file = fields_of(request).get("file")
    if file is None:
        raise invalid("file: Field required")
    id = state.ids.make("file_01", 22)
    shown = {
        "type": "file",
        "id": id,
        "filename": file.filename,
        "mime_type": file.media_type,
        "size_bytes": len(file.data),
        "created_at": _time(state.clock.now()),
        "downloadable": False,
    }
    state.owned.put("anthropic file", id, request.account, shown)
    return Reply.json(shown)


def _owned_file(state: State, request: Request) -> dict[str, Any]:
    id = request.found["id"]
    file = state.owned.get("anthropic file", id, request.account)
    if file is None:
        raise Refused(Failure("not_found", f"File not found: {id}"))
    return jsons.obj(file)


async def _files(state: State, request: Request) -> Reply:
    found = list(reversed(state.owned.all("anthropic file", request.account)))
    return anthropic_common.page(request, found, 20)


async def _file(state: State, request: Request) -> Reply:
    return Reply.json(_owned_file(state, request))


async def _delete_file(state: State, request: Request) -> Reply:
    file = _owned_file(state, request)
    state.owned.remove("anthropic file", file["id"], request.account)
    return Reply.json({"id": file["id"], "type": "file_deleted"})


async def _content(state: State, request: Request) -> Reply:
    file = _owned_file(state, request)
    raise invalid(f"File {file['id']} is not downloadable: it was uploaded by a user.")
