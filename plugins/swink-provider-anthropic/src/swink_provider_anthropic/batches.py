"""Anthropic's Message Batches, for swink-batch: answered within a day at half the price.

Pure: each method yields the requests to send, is sent back the bodies of their answers, and returns
what they say. Source: https://platform.claude.com/docs/en/api/creating-message-batches.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

import msgspec

from swink_core.providers import HTTPRequest

__all__ = ["AnthropicBatches"]

Says: TypeAlias = Generator[HTTPRequest, bytes, Any]

KEPT = ("anthropic-version", "anthropic-beta")
"""Headers of a request that its batch needs too."""

STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
"""The status that an error of this type has where it is answered by itself."""


class AnthropicBatches:
    """Batches of messages. `like` is a request that would ask for a row by itself."""

    most_requests = 100_000
    most_bytes = 250 * 2**20
    share = None

    def submit(self, like: HTTPRequest, rows: Sequence[tuple[str, bytes]]) -> Says:
        """Begin a batch; returns its id."""
        requests = [{"custom_id": id, "params": _whole(body)} for id, body in rows]
        body = msgspec.json.encode({"requests": requests})
        asked = _request(like, "", "POST", body)
        asked.headers["Content-Type"] = "application/json"
        made: dict[str, Any] = msgspec.json.decode((yield asked))
        return made["id"]

    def poll(self, like: HTTPRequest, id: str) -> Says:
        """Look at a batch; returns where its results are once it has ended."""
        batch: dict[str, Any] = msgspec.json.decode((yield _request(like, f"/{id}", "GET")))
        return [id] if batch["processing_status"] == "ended" else None

    def results(self, like: HTTPRequest, id: str, sources: Sequence[str]) -> Says:
        """Fetch the results of a batch; a row that is not among them was not answered."""
        lines = yield _request(like, f"/{id}/results", "GET")
        return [_result(line) for line in lines.splitlines() if line.strip()]

    def cancel(self, like: HTTPRequest, id: str) -> Says:
        """End a batch; what was answered by then stays."""
        yield _request(like, f"/{id}/cancel", "POST")


def _request(like: HTTPRequest, path: str, method: str, body: bytes = b"") -> HTTPRequest:
    headers = {name: value for name, value in like.headers.items() if name.lower() in KEPT}
    return HTTPRequest(f"{like.url}/batches{path}", body, headers, method)


def _whole(body: bytes) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(body)
    data.pop("stream", None)
    return data


def _result(line: bytes) -> tuple[str, int, bytes]:
    data = msgspec.json.decode(line)
    result = data["result"]
    if result["type"] == "succeeded":
        return data["custom_id"], 200, msgspec.json.encode(result["message"])
    if result["type"] == "errored":
        error = result["error"]
        kind = (error.get("error") or error).get("type", "")
        return data["custom_id"], STATUSES.get(kind, 500), msgspec.json.encode(error)
    why = {"type": "api_error", "message": f"the batch ended before it was asked: {result['type']}"}
    return data["custom_id"], 500, msgspec.json.encode({"type": "error", "error": why})
