"""OpenAI's Batch API, for swink-batch: a file of requests, answered within a day at half the price.

The methods do no I/O: each is a generator that yields the requests to send, receives the bodies of
the responses, and returns the parsed result. Source:
https://platform.openai.com/docs/api-reference/batch and
https://platform.openai.com/docs/api-reference/files.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

import msgspec

from swink_core import Failure, ProviderFailure
from swink_core.providers import HTTPRequest

__all__ = ["OpenAIBatches", "Row", "whole"]

Row: TypeAlias = tuple[str, bytes]
"""A row of a batch: an id, and the body of the row's request."""

Result: TypeAlias = tuple[str, int, bytes]
"""The result of a row: the row's id, and the status and body of the response."""

Says: TypeAlias = Generator[HTTPRequest, bytes, Any]

ENDED = frozenset({"completed", "failed", "expired", "cancelled"})

TOKEN = "swink"
"""The key in a batch's metadata for the token of the submission."""

NO_REASON = "the vendor gives no reason"

APIS = ("/chat/completions", "/responses")


class OpenAIBatches:
    """Submit and read batches of one endpoint.

    `like` is the request that would send a single row outside a batch; the URLs of batches are
    derived from its URL.
    """

    most_requests = 50_000
    most_bytes = 190 * 2**20
    share = None
    path = "/batches"
    first_page = "limit=100"
    ended = ENDED

    def submit(self, like: HTTPRequest, rows: Sequence[Row], token: str) -> Says:
        """Upload the rows and submit a batch, with `token` in its metadata; return its id."""
        base, api = _parts(like)
        lines = b"".join(self.line(id, api, body) for id, body in rows)
        file = _read((yield upload(f"{base}/files", lines)))["id"]
        made = yield _post(
            f"{base}{self.path}", {**self.begun(file, api, rows), "metadata": {TOKEN: token}}
        )
        return _read(made)["id"]

    def line(self, id: str, api: str, body: bytes) -> bytes:
        """Return one request of the batch (a row) as a JSON line of the uploaded file."""
        data = {"custom_id": id, "method": "POST", "url": f"/v1{api}", "body": whole(body)}
        return msgspec.json.encode(data) + b"\n"

    def begun(self, file: str, api: str, rows: Sequence[Row]) -> dict[str, Any]:
        """Return the body of the request that starts a batch; `file` is the uploaded file's id."""
        return {"input_file_id": file, "endpoint": f"/v1{api}", "completion_window": "24h"}

    def poll(self, like: HTTPRequest, id: str) -> Says:
        """Check a batch; return the ids of the result files, or `None` while it is running.

        Raises ProviderFailure if the batch has failed and has no results.
        """
        base, _ = _parts(like)
        batch = _read((yield HTTPRequest(f"{base}{self.path}/{id}", method="GET")))
        if batch["status"] not in self.ended:
            return None
        found = [file for file in self.files(batch) if file]
        if not found and (errors := self.errors(batch)):
            reasons = (each.get("message") or each.get("code") or NO_REASON for each in errors)
            raise ProviderFailure(Failure("request", message="; ".join(reasons)))
        return found

    def find(self, like: HTTPRequest, intent: Any) -> Says:
        """Find the batch whose metadata contain the token of `intent`, an earlier submission.

        Return a list with the batch's id; an empty list if there is no such batch. Source:
        https://platform.openai.com/docs/api-reference/batch/list.
        """
        base, _ = _parts(like)
        query = self.first_page
        while query:
            page = _read((yield HTTPRequest(f"{base}{self.path}?{query}", method="GET")))
            found = page.get("data") or []
            for batch in found:
                if (batch.get("metadata") or {}).get(TOKEN) == intent.token:
                    return [batch["id"]]
            query = self.next_page(page, query) if found else ""
        return []

    def next_page(self, page: dict[str, Any], query: str) -> str:
        """Return the query for the next page; an empty string after the last page."""
        last = page["data"][-1]["id"]
        return f"{self.first_page}&after={last}" if page.get("has_more") else ""

    def files(self, batch: dict[str, Any]) -> list[str | None]:
        """Return the ids of the files with a batch's results."""
        return [batch.get("output_file_id"), batch.get("error_file_id")]

    def errors(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the reasons why the whole batch failed."""
        return (batch.get("errors") or {}).get("data") or []

    def results(self, like: HTTPRequest, id: str, sources: Sequence[str]) -> Says:
        """Return the results of a batch from its result files, whose ids are `sources`.

        Requests that the model did not answer have no result.
        """
        base, _ = _parts(like)
        found: list[Result] = []
        for file in sources:
            lines = yield HTTPRequest(f"{base}/files/{file}/content", method="GET")
            found += [_result(line) for line in lines.splitlines() if line.strip()]
        return found

    def cancel(self, like: HTTPRequest, id: str) -> Says:
        """Cancel a batch. The service keeps the answers that are already complete."""
        base, _ = _parts(like)
        yield HTTPRequest(f"{base}{self.path}/{id}/cancel", method="POST")


def whole(body: bytes) -> dict[str, Any]:
    """Return a request's body without the fields for streaming."""
    data: dict[str, Any] = msgspec.json.decode(body)
    data.pop("stream", None)
    return data


def upload(url: str, lines: bytes) -> HTTPRequest:
    """Return the request that uploads a file of lines (RFC 7578)."""
    boundary = secrets.token_hex(16)
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="rows.jsonl"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    )
    body = head.encode() + lines + f"\r\n--{boundary}--\r\n".encode()
    return HTTPRequest(url, body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})


def _parts(like: HTTPRequest) -> tuple[str, str]:
    api = next(api for api in APIS if like.url.endswith(api))
    return like.url.removesuffix(api), api


def _post(url: str, data: dict[str, Any]) -> HTTPRequest:
    return HTTPRequest(url, msgspec.json.encode(data), {"Content-Type": "application/json"})


def _read(body: bytes) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(body)
    return data


def _result(line: bytes) -> Result:
    data = _read(line)
    response = data.get("response")
    if response is None:  # never processed: expired, or cancelled
        error = data.get("error") or {"code": "batch_expired", "message": "it was not answered"}
        return data["custom_id"], 500, msgspec.json.encode({"error": error})
    return data["custom_id"], response["status_code"], msgspec.json.encode(response["body"])
