"""Errors, headers, service tiers and reasoning of both OpenAI APIs."""

from __future__ import annotations

from typing import Any

from lab.vendor import jsons
from lab.vendor.bill import TIERS
from lab.vendor.catalog import Model
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols.base import Reply, Request
from lab.vendor.state import State

__all__ = [
    "check_files",
    "error_body",
    "failure",
    "headers",
    "page",
    "shown_tier",
    "thinks",
    "tier_of",
]

_KINDS: dict[str, tuple[int, str, str | None]] = {
    "invalid": (400, "invalid_request_error", None),
    "auth": (401, "invalid_request_error", "invalid_api_key"),
    "permission": (403, "invalid_request_error", "permission_denied"),
    "not_found": (404, "invalid_request_error", None),
    "too_large": (413, "invalid_request_error", None),
    "rate_limit": (429, "requests", "rate_limit_exceeded"),
    "quota": (429, "insufficient_quota", "insufficient_quota"),
    "overloaded": (503, "server_error", "server_is_overloaded"),
    "server": (500, "server_error", None),
    "timeout": (504, "server_error", None),
    "overflow": (400, "invalid_request_error", "context_length_exceeded"),
    "filter": (400, "invalid_request_error", "content_policy_violation"),
    "signature": (400, "invalid_request_error", "invalid_encrypted_content"),
}


def error_body(failure: Failure) -> dict[str, Any]:
    """Return the object of an error: message, type, param and code."""
    _, kind, code = _KINDS[failure.kind]
    return {
        "message": failure.message,
        "type": kind,
        "param": failure.param,
        "code": failure.code or code,
    }


def failure(failure: Failure, request_id: str) -> Reply:
    """Return an error response."""
    status = failure.status or _KINDS[failure.kind][0]
    reply = Reply.json({"error": error_body(failure)}, status)
    if failure.retry_after is not None:
        seconds = failure.retry_after
        reply.headers["retry-after"] = f"{seconds:g}"
        reply.headers["retry-after-ms"] = f"{seconds * 1000:g}"
    return reply


def headers(state: State, request_id: str) -> dict[str, str]:
    """Return the headers of an answer."""
    return {
        "x-request-id": request_id,
        "openai-organization": "vendor",
        "openai-processing-ms": "12",
        "openai-version": "2020-10-01",
        "x-ratelimit-limit-requests": "10000",
        "x-ratelimit-limit-tokens": "30000000",
        "x-ratelimit-remaining-requests": "9999",
        "x-ratelimit-remaining-tokens": "29999000",
        "x-ratelimit-reset-requests": "6ms",
        "x-ratelimit-reset-tokens": "0s",
    }


def tier_of(requested: Any) -> str:
    """Return the service tier that is really used: what the answer reports and the bill says."""
    if requested in ("fast", "priority"):
        return "priority"
    return str(requested) if requested in TIERS and requested != "batch" else "default"


def check_files(state: State, account: str, content: Any) -> None:
    """Check that the files which a message names belong to the account. Raises Refused."""
    for part in jsons.objects(content):
        id = part.get("file_id") or jsons.obj(part.get("file")).get("file_id")
        if isinstance(id, str) and state.owned.get("openai file", id, account) is None:
            raise Refused(Failure("not_found", f"No such File object: {id}", param="file_id"))


def page(request: Request, rows: list[dict[str, Any]], size: int) -> Reply:
    """Return a page of a list, at most `size` rows unless the request says otherwise."""
    limit = int(request.query.get("limit", size))
    names = [row["id"] for row in rows]
    after = request.query.get("after")
    start = names.index(after) + 1 if after in names else 0
    chosen = rows[start : start + limit]
    return Reply.json(
        {
            "object": "list",
            "data": chosen,
            "first_id": chosen[0]["id"] if chosen else None,
            "last_id": chosen[-1]["id"] if chosen else None,
            "has_more": start + limit < len(rows),
        }
    )


def shown_tier(tier: str) -> str:
    """Return the tier that an answer reports; batches report the default."""
    return "default" if tier == "batch" else tier


def thinks(model: Model, effort: Any) -> bool:
    """Tell whether the model reasons at this effort, `None` for its default."""
    if model.thinks == "never" or effort == "none":
        return False
    return model.thinks != "on request" or effort is not None
