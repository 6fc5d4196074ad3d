"""Gemini's batch mode, for swink-batch; one request contains all rows of a batch.

The methods do no I/O: each is a generator that yields the requests to send, receives the bodies of
the responses, and returns the parsed result. Source:
https://ai.google.dev/gemini-api/docs/batch-api.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from swink_core import Failure, ProviderFailure
from swink_core.providers import HTTPRequest

__all__ = ["GeminiBatches"]

Says: TypeAlias = Generator[HTTPRequest, bytes, Any]

OK = 200

NAME = "swink-"
"""The prefix of a batch's display name; the token of the submission follows."""

CODES = {3: 400, 5: 404, 7: 403, 8: 429, 13: 500, 14: 503, 16: 401}
"""The HTTP statuses for the codes of google.rpc.Code."""

CANCELLED = 1
"""The code of google.rpc.Code for a cancelled operation."""


class GeminiBatches:
    """Submit and read batches of one model.

    `like` is the request that would send a single row outside a batch; the URLs of batches are
    derived from its URL.
    """

    most_requests = 50_000
    most_bytes = 19 * 2**20
    share = None

    def submit(self, like: HTTPRequest, rows: Sequence[tuple[str, bytes]], token: str) -> Says:
        """Submit a batch, with `token` in its display name, and return its name."""
        requests = [{"request": msgspec.Raw(body), "metadata": {"key": id}} for id, body in rows]
        batch = {
            "displayName": f"{NAME}{token}",
            "inputConfig": {"requests": {"requests": requests}},
        }
        url = f"{like.url.rpartition(':')[0]}:batchGenerateContent"
        headers = {"Content-Type": "application/json"}
        made = yield HTTPRequest(url, msgspec.json.encode({"batch": batch}), headers)
        return msgspec.json.decode(made)["name"]

    def find(self, like: HTTPRequest, intent: Any) -> Says:
        """Find the batch of an earlier submission by the token in the batch's display name.

        Source: https://ai.google.dev/api/batch-api.
        """
        base, next_page = f"{like.url.partition('/models/')[0]}/batches?pageSize=100", ""
        while True:
            page = msgspec.json.decode((yield HTTPRequest(f"{base}{next_page}", method="GET")))
            for operation in page.get("operations") or []:
                name = (operation.get("metadata") or {}).get("displayName")
                if name == f"{NAME}{intent.token}":
                    return [operation["name"]]
            if not (token := page.get("nextPageToken")):
                return []
            next_page = f"&pageToken={quote(token, safe='')}"

    def poll(self, like: HTTPRequest, id: str) -> Says:
        """Check a batch; return `[id]` if it has ended, or `None` while it is running.

        Raises ProviderFailure if the batch has failed. A cancelled batch has not failed.
        """
        operation = msgspec.json.decode((yield HTTPRequest(_address(like, id), method="GET")))
        error = operation.get("error")
        if error and error.get("code") != CANCELLED:
            raise ProviderFailure(Failure("request", message=error.get("message")))
        return [id] if operation.get("done") else None

    def results(self, like: HTTPRequest, id: str, sources: Sequence[str]) -> Says:
        """Return the results of a batch. Rows that the model did not answer have no result."""
        operation = msgspec.json.decode((yield HTTPRequest(_address(like, id), method="GET")))
        said = operation.get("response") or operation.get("metadata", {}).get("output") or {}
        found = said.get("inlinedResponses", {}).get("inlinedResponses", [])
        return [_result(each) for each in found]

    def cancel(self, like: HTTPRequest, id: str) -> Says:
        """Cancel a batch. The service keeps the answers that are already complete."""
        yield HTTPRequest(f"{_address(like, id)}:cancel", method="POST")


def _address(like: HTTPRequest, id: str) -> str:
    return f"{like.url.partition('/models/')[0]}/{id}"


def _result(each: dict[str, Any]) -> tuple[str, int, bytes]:
    key = each["metadata"]["key"]
    if "response" in each:
        return key, OK, msgspec.json.encode(each["response"])
    error = each.get("error", {})
    status = CODES.get(error.get("code"), 500)
    return key, status, msgspec.json.encode({"error": {**error, "code": status}})
