"""Use Mistral's batch jobs, for swink-batch. Source: https://docs.mistral.ai/api/#tag/batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from swink_provider_openai.batches import OpenAIBatches, Row, whole

__all__ = ["MistralBatches"]


class MistralBatches(OpenAIBatches):
    """OpenAI's batches, with Mistral's field names and with the model as a field of the job."""

    most_requests = 1_000_000
    path = "/batch/jobs"
    first_page = "page=0&page_size=100"
    ended = frozenset({"SUCCESS", "FAILED", "TIMEOUT_EXCEEDED", "CANCELLED"})

    def line(self, id: str, api: str, body: bytes) -> bytes:
        """Return one request of the batch (a row) as a JSON line of the uploaded file."""
        data = whole(body)
        data.pop("model", None)
        return msgspec.json.encode({"custom_id": id, "body": data}) + b"\n"

    def begun(self, file: str, api: str, rows: Sequence[Row]) -> dict[str, Any]:
        """Return the body of the request that starts a job; `file` is the uploaded file's id."""
        model = whole(rows[0][1])["model"]
        asked = {"input_files": [file], "model": model, "endpoint": f"/v1{api}"}
        return {**asked, "timeout_hours": 24}

    def next_page(self, page: dict[str, Any], query: str) -> str:
        """Return the query for the next page; an empty string after the last page."""
        number = int(query.partition("&")[0].removeprefix("page=")) + 1
        return f"page={number}&page_size=100" if number * 100 < page.get("total", 0) else ""

    def files(self, batch: dict[str, Any]) -> list[str | None]:
        """Return the ids of the files with a job's results."""
        return [batch.get("output_file"), batch.get("error_file")]

    def errors(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the reasons why the whole job failed."""
        return batch.get("errors") or []
