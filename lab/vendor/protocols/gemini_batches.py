"""Google's files and batches.

Written from https://ai.google.dev/api/files and https://ai.google.dev/api/batch-api.
"""

from __future__ import annotations

from typing import Any

from lab.vendor import batches, jsons
from lab.vendor.batches import Batch, Line, Outcome
from lab.vendor.clock import timestamp
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols.base import API, Reply, Request, Route, as_body
from lab.vendor.protocols.reading import invalid
from lab.vendor.state import State

__all__ = ["owned_file", "routes"]

_TWO_DAYS = 172_800


def routes(gemini: API) -> tuple[Route, ...]:
    """Return the routes; the requests of a batch are to `gemini`."""

    async def create(state: State, request: Request) -> Reply:
        return _create(state, request, gemini)

    return (
        Route("POST", r"/models/(?P<model>[^/:]+):batchGenerateContent$", create),
        Route("GET", r"/batches$", _batches),
        Route("GET", r"/(?P<id>batches/[^/:]+)$", _batch),
        Route("DELETE", r"/(?P<id>batches/[^/:]+)$", _delete),
        Route("POST", r"/(?P<id>batches/[^/:]+):cancel$", _cancel),
        Route("POST", r"/upload/v1(beta)?/files$", _upload),
        Route("GET", r"/files$", _files),
        Route("GET", r"/(?P<id>files/[^/:]+)$", _file),
        Route("DELETE", r"/(?P<id>files/[^/:]+)$", _delete_file),
        Route("GET", r"/(?P<id>files/[^/:]+):download$", _download),
    )


# -- files ---------------------------------------------------------------------------------------


def _keep(state: State, request: Request, data: bytes, name: str, media_type: str) -> Any:
    id = f"files/{state.ids.make('', 12).lower()}"
    host = request.headers.get("host", "localhost")
    now = state.clock.now()
    shown = {
        "name": id,
        "displayName": name,
        "mimeType": media_type,
        "sizeBytes": str(len(data)),
        "createTime": timestamp(now),
        "updateTime": timestamp(now),
        "expirationTime": timestamp(now + _TWO_DAYS),
        "uri": f"http://{host}/v1beta/{id}",
        "state": "ACTIVE",
        "source": "UPLOADED",
    }
    state.owned.put("gemini file", id, request.account, (shown, data))
    return shown


async def _upload(state: State, request: Request) -> Reply:
    """Take an upload in two requests: its description, then its bytes."""
    command = request.headers.get("x-goog-upload-command", "")
    if "start" in command:
        file = jsons.obj(jsons.obj(jsons.load(request.body or b"{}")).get("file"))
        media_type = request.headers.get("x-goog-upload-header-content-type", "")
        id = state.ids.make("", 24)
        description = (file.get("displayName") or file.get("display_name") or "", media_type)
        state.owned.put("gemini upload", id, request.account, description)
        state.accounts.add(request.account, [id])
        host = request.headers.get("host", "localhost")
        reply = Reply.json({})
        reply.headers["x-goog-upload-url"] = f"http://{host}{request.path}?upload_id={id}"
        reply.headers["x-goog-upload-status"] = "active"
        return reply
    id = request.query.get("upload_id", "")
    found = state.owned.get("gemini upload", id, request.account)
    if found is None:
        raise Refused(Failure("not_found", "Upload not found."))
    name, media_type = found
    reply = Reply.json({"file": _keep(state, request, request.body, name, media_type)})
    reply.headers["x-goog-upload-status"] = "final"
    return reply


def owned_file(state: State, account: str, id: str) -> tuple[dict[str, Any], bytes]:
    """Return a file's object and data. Raises Refused if the account does not own the file."""
    found = state.owned.get("gemini file", id, account)
    if found is None:
        message = (
            f"You do not have permission to access the File {id.removeprefix('files/')} or it may "
            "not exist."
        )
        raise Refused(Failure("permission", message))
    shown, data = found
    return shown, data


async def _files(state: State, request: Request) -> Reply:
    found = state.owned.all("gemini file", request.account)
    return Reply.json({"files": [shown for shown, _ in reversed(found)]})


async def _file(state: State, request: Request) -> Reply:
    return Reply.json(owned_file(state, request.account, request.found["id"])[0])


async def _delete_file(state: State, request: Request) -> Reply:
    id = request.found["id"]
    owned_file(state, request.account, id)
    state.owned.remove("gemini file", id, request.account)
    return Reply.json({})


async def _download(state: State, request: Request) -> Reply:
    shown, data = owned_file(state, request.account, request.found["id"])
    return Reply(200, data, {}, shown["mimeType"])


# -- batches -------------------------------------------------------------------------------------


def _create(state: State, request: Request, gemini: API) -> Reply:
    body = jsons.obj(gemini.normal(as_body(request)).get("batch"))
    config = jsons.obj(body.get("inputConfig"))
    file = config.get("fileName")
    model = request.found["model"]
    if isinstance(file, str):
        _, data = owned_file(state, request.account, file)
        rows = [jsons.obj(jsons.load(line)) for line in data.splitlines() if line.strip()]
        keys = [jsons.text(row.get("key")) for row in rows]
    else:
        rows = jsons.objects(jsons.obj(config.get("requests")).get("requests"))
        keys = [jsons.text(jsons.obj(row.get("metadata")).get("key")) for row in rows]
    if not rows:
        raise invalid("GenerateContentBatch.input_config: the batch has no requests")
    path = f"/v1beta/models/{model}:generateContent"
    lines = [
        Line(key, gemini, path, row.get("request"), {"model": model})
        for key, row in zip(keys, rows, strict=True)
    ]
    id = f"batches/{state.ids.make('', 32).lower()}"
    own = {"model": model, "name": body.get("displayName", ""), "file": file, "output": None}
    batch = batches.create(state, id, request.account, lines, own)
    state.owned.put("gemini batch", id, request.account, batch)
    return Reply.json(_operation(batch))


def _owned(state: State, request: Request) -> Batch:
    id = request.found["id"]
    batch = state.owned.get("gemini batch", id, request.account)
    if batch is None:
        raise Refused(Failure("not_found", f"Batch job {id} not found."))
    assert isinstance(batch, Batch)
    batch.look(state)
    if batch.own["file"] and batch.outcomes is not None and batch.own["output"] is None:
        lines = [jsons.dump({"key": each.line.id, **_result(each)}) for each in batch.outcomes]
        data = b"\n".join(lines) + b"\n"
        shown = _keep(state, request, data, f"{id}-output", "application/jsonl")
        batch.own["output"] = shown["name"]
    return batch


def _operation(batch: Batch) -> dict[str, Any]:
    state = "BATCH_STATE_PENDING"
    if batch.cancelled is not None:
        state = "BATCH_STATE_CANCELLED"
    elif batch.outcomes is not None:
        state = "BATCH_STATE_SUCCEEDED"
    succeeded = batch.count(lambda outcome: outcome.status == 200)
    total = len(batch.lines)
    stats = {"requestCount": str(total)}
    if batch.outcomes is None:
        stats["pendingRequestCount"] = str(total)
    else:
        stats["successfulRequestCount"] = str(succeeded)
        stats["failedRequestCount"] = str(total - succeeded)
    kind = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"
    metadata: dict[str, Any] = {
        "@type": kind,
        "model": f"models/{batch.own['model']}",
        "displayName": batch.own["name"],
        "createTime": timestamp(batch.created),
        "updateTime": timestamp(batch.ended or batch.created),
        "batchStats": stats,
        "state": state,
        "name": batch.id,
    }
    operation: dict[str, Any] = {"name": batch.id, "metadata": metadata}
    if batch.ended is not None:
        metadata["endTime"] = timestamp(batch.ended)
        operation["done"] = True
    if batch.cancelled is not None:
        message = "The batch was cancelled."
        operation["error"] = {"code": 1, "message": message, "status": "CANCELLED"}
    elif batch.outcomes is not None:
        output = _output(batch)
        metadata["output"] = output
        operation["response"] = {"@type": f"{kind}.Output", **output}
    return operation


def _output(batch: Batch) -> dict[str, Any]:
    if batch.own["output"] is not None:
        return {"responsesFile": batch.own["output"]}
    made = []
    for outcome in batch.outcomes or []:
        made.append({**_result(outcome), "metadata": {"key": outcome.line.id}})
    return {"inlinedResponses": {"inlinedResponses": made}}


def _result(outcome: Outcome) -> dict[str, Any]:
    if outcome.status == 200:
        return {"response": outcome.body}
    error = jsons.obj(jsons.obj(outcome.body).get("error"))
    return {"error": {"code": 3, "message": error.get("message", "cancelled")}}


async def _batch(state: State, request: Request) -> Reply:
    return Reply.json(_operation(_owned(state, request)))


async def _batches(state: State, request: Request) -> Reply:
    found = state.owned.all("gemini batch", request.account)
    return Reply.json({"operations": [_operation(batch) for batch in reversed(found)]})


async def _cancel(state: State, request: Request) -> Reply:
    _owned(state, request).cancel(state)
    return Reply.json({})


async def _delete(state: State, request: Request) -> Reply:
    batch = _owned(state, request)
    state.owned.remove("gemini batch", batch.id, request.account)
    return Reply.json({})
