"""OpenAI's files and batches.

Written from https://platform.openai.com/docs/api-reference/files and /docs/api-reference/batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.vendor import batches, jsons
from lab.vendor.batches import Batch, Line
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols import openai_common
from lab.vendor.protocols.base import API, Reply, Request, Route, as_body
from lab.vendor.protocols.multipart import fields_of
from lab.vendor.protocols.reading import invalid
from lab.vendor.state import State

__all__ = ["routes"]

_DAY = 86_400
_PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")


@dataclass(frozen=True, slots=True)
class _File:
    object: dict[str, Any]
    data: bytes


def routes(endpoints: Mapping[str, API]) -> tuple[Route, ...]:
    """Return the routes; `endpoints` are the APIs that a batch may ask."""

    async def create(state: State, request: Request) -> Reply:
        return _create(state, request, endpoints)

    return (
        Route("POST", r"/files$", _upload),
        Route("GET", r"/files$", _files),
        Route("GET", r"/files/(?P<id>[^/]+)$", _file),
        Route("DELETE", r"/files/(?P<id>[^/]+)$", _delete_file),
        Route("GET", r"/files/(?P<id>[^/]+)/content$", _content),
        Route("POST", r"/batches$", create),
        Route("GET", r"/batches$", _batches),
        Route("GET", r"/batches/(?P<id>[^/]+)$", _batch),
        Route("POST", r"/batches/(?P<id>[^/]+)/cancel$", _cancel),
    )


def _keep(state: State, account: str, data: bytes, filename: str, purpose: str) -> _File:
    id = state.ids.make("file-", 22)
    object = {
        "id": id,
        "object": "file",
        "bytes": len(data),
        "created_at": int(state.clock.now()),
        "expires_at": None,
        "filename": filename,
        "purpose": purpose,
        "status": "processed",
        "status_details": None,
    }
    file = _File(object, data)
    state.owned.put("openai file", id, account, file)
    return file


def _owned_file(state: State, account: str, id: str) -> _File:
    file = state.owned.get("openai file", id, account)
    if file is None:
        raise Refused(Failure("not_found", f"No such File object: {id}", param="id"))
    assert isinstance(file, _File)
    return file


async def _upload(state: State, request: Request) -> Reply:
    fields = fields_of(request)
    file = fields.get("file")
    purpose = fields["purpose"].data.decode() if "purpose" in fields else ""
    if file is None:
        raise invalid("Missing required parameter: 'file'.", "file")
    if purpose not in _PURPOSES:
        raise invalid(f"'{purpose}' is not one of {list(_PURPOSES)} - 'purpose'", "purpose")
    return Reply.json(_keep(state, request.account, file.data, file.filename, purpose).object)


async def _files(state: State, request: Request) -> Reply:
    files = [file.object for file in state.owned.all("openai file", request.account)]
    purpose = request.query.get("purpose")
    files = [file for file in files if purpose in (None, file["purpose"])]
    return openai_common.page(request, list(reversed(files)), 10_000)


async def _file(state: State, request: Request) -> Reply:
    return Reply.json(_owned_file(state, request.account, request.found["id"]).object)


async def _delete_file(state: State, request: Request) -> Reply:
    id = request.found["id"]
    _owned_file(state, request.account, id)
    state.owned.remove("openai file", id, request.account)
    return Reply.json({"id": id, "object": "file", "deleted": True})


async def _content(state: State, request: Request) -> Reply:
    file = _owned_file(state, request.account, request.found["id"])
    return Reply(200, file.data, {}, "application/octet-stream")


def _create(state: State, request: Request, endpoints: Mapping[str, API]) -> Reply:
    body = as_body(request)
    endpoint = jsons.text(body.get("endpoint"))
    if endpoint not in endpoints:
        raise invalid(f"Invalid value: '{endpoint}'. Supported: {', '.join(endpoints)}", "endpoint")
    if body.get("completion_window") != "24h":
        raise invalid("Invalid value for 'completion_window': expected '24h'.", "completion_window")
    file = _owned_file(state, request.account, jsons.text(body.get("input_file_id")))
    lines, errors = _lines(file.data, endpoint, endpoints[endpoint])
    own = {
        "endpoint": endpoint,
        "input_file_id": file.object["id"],
        "metadata": body.get("metadata"),
        "errors": errors,
        "files": (None, None),
    }
    id = state.ids.digits("batch_", 32)
    batch = batches.create(state, id, request.account, [] if errors else lines, own)
    state.owned.put("openai batch", id, request.account, batch)
    return Reply.json(_object(batch, "validating"))


def _lines(data: bytes, endpoint: str, api: API) -> tuple[list[Line], list[dict[str, Any]]]:
    lines: list[Line] = []
    errors: list[dict[str, Any]] = []
    seen: set[str] = set()
    for number, text in enumerate(data.splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = jsons.obj(jsons.load(text))
        except ValueError:
            errors.append(_error("invalid_json_line", "This line is not valid JSON.", number))
            continue
        id = jsons.text(line.get("custom_id"))
        if not id or id in seen:
            errors.append(_error("duplicate_custom_id", f"custom_id '{id}' is not unique.", number))
        elif line.get("method") != "POST" or line.get("url") != endpoint:
            message = f"The method and URL of this line must be POST {endpoint}."
            errors.append(_error("mismatched_endpoint", message, number))
        seen.add(id)
        lines.append(Line(id, api, endpoint, line.get("body")))
    if not lines and not errors:
        errors.append(_error("empty_file", "The batch input file is empty.", None))
    return lines, errors


def _error(code: str, message: str, line: int | None) -> dict[str, Any]:
    return {"code": code, "line": line, "message": message, "param": None}


def _owned_batch(state: State, request: Request) -> Batch:
    id = request.found["id"]
    batch = state.owned.get("openai batch", id, request.account)
    if batch is None:
        raise Refused(Failure("not_found", f"No batch found with id '{id}'."))
    assert isinstance(batch, Batch)
    if not batch.own["errors"]:
        batch.look(state)
        _write_results(state, batch)
    return batch


def _write_results(state: State, batch: Batch) -> None:
    """Put the outcomes into the files of a batch, once."""
    if batch.outcomes is None or batch.own["files"] != (None, None):
        return
    good: list[bytes] = []
    bad: list[bytes] = []
    for outcome in batch.outcomes:
        line: dict[str, Any] = {
            "id": state.ids.digits("batch_req_", 32),
            "custom_id": outcome.line.id,
            "response": None,
            "error": None,
        }
        if outcome.status is None:
            message = "This request was cancelled before it was executed."
            line["error"] = {"code": "batch_cancelled", "message": message}
        else:
            line["response"] = {
                "status_code": outcome.status,
                "request_id": outcome.request_id,
                "body": outcome.body,
            }
        (good if outcome.status == 200 else bad).append(jsons.dump(line))
    ids: list[str | None] = []
    for kind, each in (("output", good), ("error", bad)):
        if not each:
            ids.append(None)
            continue
        name = f"{batch.id}_{kind}.jsonl"
        file = _keep(state, batch.account, b"\n".join(each) + b"\n", name, "batch_output")
        ids.append(file.object["id"])
    batch.own["files"] = tuple(ids)


def _object(batch: Batch, status: str | None = None) -> dict[str, Any]:
    errors = batch.own["errors"]
    if status is None:
        status = "in_progress"
        if errors:
            status = "failed"
        elif batch.cancelled is not None:
            status = "cancelled"
        elif batch.outcomes is not None:
            status = "completed"
    created = int(batch.created)
    ended = None if batch.ended is None else int(batch.ended)
    output, error = batch.own["files"]
    completed = batch.count(lambda outcome: outcome.status == 200)
    failed = batch.count(lambda outcome: outcome.status not in (200, None))
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.own["endpoint"],
        "errors": {"object": "list", "data": errors} if errors and status == "failed" else None,
        "input_file_id": batch.own["input_file_id"],
        "completion_window": "24h",
        "status": status,
        "output_file_id": output,
        "error_file_id": error,
        "created_at": created,
        "in_progress_at": None if status == "validating" else created,
        "expires_at": created + _DAY,
        "finalizing_at": ended,
        "completed_at": ended if status == "completed" else None,
        "failed_at": created if status == "failed" else None,
        "expired_at": None,
        "cancelling_at": None if batch.cancelled is None else int(batch.cancelled),
        "cancelled_at": None if batch.cancelled is None else int(batch.cancelled),
        "request_counts": {"total": len(batch.lines), "completed": completed, "failed": failed},
        "metadata": batch.own["metadata"],
    }


async def _batch(state: State, request: Request) -> Reply:
    return Reply.json(_object(_owned_batch(state, request)))


async def _cancel(state: State, request: Request) -> Reply:
    batch = _owned_batch(state, request)
    if batch.outcomes is not None or batch.own["errors"]:
        status = _object(batch)["status"]
        message = f"Cannot cancel a batch with status '{status}'."
        raise Refused(Failure("invalid", message, 409))
    batch.cancel(state)
    _write_results(state, batch)
    return Reply.json(_object(batch, "cancelling"))


async def _batches(state: State, request: Request) -> Reply:
    found = state.owned.all("openai batch", request.account)
    return openai_common.page(request, [_object(batch) for batch in reversed(found)], 20)
