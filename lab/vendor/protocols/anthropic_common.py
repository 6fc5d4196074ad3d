"""Errors, headers and pages of all Anthropic endpoints."""

from __future__ import annotations

from typing import Any

from lab.vendor import jsons
from lab.vendor.failures import Failure
from lab.vendor.protocols.base import Reply, Request
from lab.vendor.state import State

__all__ = ["error_body", "failure", "headers", "page"]

_KINDS: dict[str, tuple[int, str]] = {
    "invalid": (400, "invalid_request_error"),
    "auth": (401, "authentication_error"),
    "permission": (403, "permission_error"),
    "not_found": (404, "not_found_error"),
    "too_large": (413, "request_too_large"),
    "rate_limit": (429, "rate_limit_error"),
    "quota": (402, "billing_error"),
    "overloaded": (529, "overloaded_error"),
    "server": (500, "api_error"),
    "timeout": (504, "timeout_error"),
    "overflow": (400, "invalid_request_error"),
    "filter": (400, "invalid_request_error"),
    "signature": (400, "invalid_request_error"),
}


def error_body(failure: Failure) -> dict[str, Any]:
    """Return the object of an error: its type and message."""
    message = failure.message
    if failure.kind == "overflow" and not message.startswith("prompt is too long"):
        message = "prompt is too long: 1000001 tokens > 1000000 maximum"
    if failure.kind == "filter":
        message = "Output blocked by content filtering policy"
    return {"details": None, "type": _KINDS[failure.kind][1], "message": message}


def failure(failure: Failure, request_id: str) -> Reply:
    """Return an error response."""
    status = failure.status or _KINDS[failure.kind][0]
    body = {"type": "error", "error": error_body(failure), "request_id": request_id}
    reply = Reply(status, jsons.dump(body))
    if failure.retry_after is not None:
        reply.headers["retry-after"] = f"{failure.retry_after:g}"
    reply.headers["x-should-retry"] = (
        "true" if status in (408, 409, 429) or status >= 500 else "false"
    )
    return reply


def headers(state: State, request_id: str) -> dict[str, str]:
    """Return the headers of an answer."""
    made = {"request-id": request_id, "anthropic-organization-id": "vendor"}
    for kind, limit in (
        ("requests", 4000),
        ("input-tokens", 2_000_000),
        ("output-tokens", 400_000),
    ):
        made[f"anthropic-ratelimit-{kind}-limit"] = str(limit)
        made[f"anthropic-ratelimit-{kind}-remaining"] = str(limit - 1)
        made[f"anthropic-ratelimit-{kind}-reset"] = "2026-11-25T12:00:00Z"
    return made


def page(request: Request, rows: list[dict[str, Any]], size: int) -> Reply:
    """Return a page of a list, at most `size` rows unless the request says otherwise."""
    limit = int(request.query.get("limit", size))
    names = [row["id"] for row in rows]
    after = request.query.get("after_id")
    start = names.index(after) + 1 if after in names else 0
    chosen = rows[start : start + limit]
    return Reply.json(
        {
            "data": chosen,
            "has_more": start + limit < len(rows),
            "first_id": chosen[0]["id"] if chosen else None,
            "last_id": chosen[-1]["id"] if chosen else None,
        }
    )
