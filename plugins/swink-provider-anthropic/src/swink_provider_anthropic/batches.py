"""Anthropic's Message Batches, for swink-batch: answered within a day at half the price.

The methods do no I/O: each is a generator that yields the requests to send, receives the bodies of
the responses, and returns the parsed result. Source:
https://platform.claude.com/docs/en/api/creating-message-batches.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from swink_core.providers import HTTPRequest

__all__ = ["AnthropicBatches"]

Says: TypeAlias = Generator[HTTPRequest, bytes, Any]

KEPT = ("anthropic-version", "anthropic-beta")
"""Headers that are copied from a row's request to the requests about the batch."""

MARK = "_"
"""The separator between a row's id and the submission's token. Row ids never contain it."""

MOST_DIFFERENCE = 86_400.0
"""The maximum time, in seconds, between a submission and the creation of the batch."""

STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
"""The HTTP status that belongs to each error type."""


class AnthropicBatches:
    """Submit and read batches of messages.

    `like` is the request that would send a single row outside a batch; URL and headers are copied
    from it.
    """

    most_requests = 100_000
    most_bytes = 250 * 2**20
    share = None

    def submit(self, like: HTTPRequest, rows: Sequence[tuple[str, bytes]], token: str) -> Says:
        """Submit a batch, with `token` in each row's id, and return its id."""
        requests = [
            {"custom_id": f"{id}{MARK}{token}", "params": _whole(body)} for id, body in rows
        ]
        body = msgspec.json.encode({"requests": requests})
        asked = _request(like, "", "POST", body)
        asked.headers["Content-Type"] = "application/json"
        made: dict[str, Any] = msgspec.json.decode((yield asked))
        return made["id"]

    def find(self, like: HTTPRequest, intent: Any) -> Says:
        """Find the batch of a submission by the token in the row ids.

        Only the results of a batch contain its row ids. Therefore this method fetches the results
        of each listed batch that has the submission's number of rows and was created at about the
        same time. Return `None` if such a batch has not ended, because it may be the submitted
        batch. Source: https://platform.claude.com/docs/en/api/listing-message-batches.
        """
        is_open, query = False, "?limit=100"
        while query:
            page = msgspec.json.decode((yield _request(like, query, "GET")))
            for batch in page["data"]:
                if batch["id"] in intent.known or not _may_be(batch, intent):
                    continue
                if batch["processing_status"] != "ended":
                    is_open = True
                    continue
                lines = yield _request(like, f"/{batch['id']}/results", "GET")
                if f"{MARK}{intent.token}".encode() in lines:
                    return [batch["id"]]
            more = page.get("has_more") and page.get("last_id")
            query = f"?limit=100&after_id={page['last_id']}" if more else ""
        return None if is_open else []

    def poll(self, like: HTTPRequest, id: str) -> Says:
        """Check a batch; return `[id]` if it has ended, or `None` while it is running."""
        batch: dict[str, Any] = msgspec.json.decode((yield _request(like, f"/{id}", "GET")))
        return [id] if batch["processing_status"] == "ended" else None

    def results(self, like: HTTPRequest, id: str, sources: Sequence[str]) -> Says:
        """Return the results of a batch. A row that is missing in the results was not answered."""
        lines = yield _request(like, f"/{id}/results", "GET")
        return [_result(line) for line in lines.splitlines() if line.strip()]

    def cancel(self, like: HTTPRequest, id: str) -> Says:
        """Cancel a batch. The service keeps the answers that are already complete."""
        yield _request(like, f"/{id}/cancel", "POST")


def _request(like: HTTPRequest, path: str, method: str, body: bytes = b"") -> HTTPRequest:
    headers = {name: value for name, value in like.headers.items() if name.lower() in KEPT}
    return HTTPRequest(f"{like.url}/batches{path}", body, headers, method)


def _whole(body: bytes) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(body)
    data.pop("stream", None)
    return data


def _may_be(batch: dict[str, Any], intent: Any) -> bool:
    """Return True if a batch in the list may come from the submission `intent`.

    The batch must have as many rows as the submission and about the same creation time.
    """
    if batch.get("archived_at"):
        return False  # its results are deleted
    began = datetime.fromisoformat(batch["created_at"]).timestamp()
    rows = sum(batch["request_counts"].values())
    is_of_that_time: bool = abs(began - intent.at) < MOST_DIFFERENCE
    return is_of_that_time and rows == len(intent.rows)


def _result(line: bytes) -> tuple[str, int, bytes]:
    data = msgspec.json.decode(line)
    data["custom_id"] = data["custom_id"].partition(MARK)[0]
    result = data["result"]
    if result["type"] == "succeeded":
        return data["custom_id"], 200, msgspec.json.encode(result["message"])
    if result["type"] == "errored":
        error = result["error"]
        kind = (error.get("error") or error).get("type", "")
        return data["custom_id"], STATUSES.get(kind, 500), msgspec.json.encode(error)
    why = {
        "type": "api_error",
        "message": (f"the batch ended before this request was processed: {result['type']}"),
    }
    return data["custom_id"], 500, msgspec.json.encode({"type": "error", "error": why})
