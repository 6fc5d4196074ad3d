"""A batch that failed as a whole states the vendor's reasons."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swink_core import ProviderFailure
from swink_core.providers import HTTPRequest
from swink_provider_openai.batches import OpenAIBatches

LIKE = HTTPRequest("https://vendor.invalid/v1/chat/completions")

# the errors of a batch, and the reason that the failure states
FAILED: list[tuple[list[dict[str, Any]], str]] = [
    ([{"code": "empty_file", "message": "The file is empty."}], "The file is empty."),
    ([{"code": "token_limit_exceeded", "message": None}], "token_limit_exceeded"),
    ([{"message": "One."}, {"code": "two"}], "One.; two"),
    ([{}], "the vendor gives no reason"),
]


@pytest.mark.parametrize(("errors", "why"), FAILED)
def test_a_failed_batch_states_its_reasons(errors: list[dict[str, Any]], why: str) -> None:
    steps = OpenAIBatches().poll(LIKE, "batch_1")
    assert next(steps).url == "https://vendor.invalid/v1/batches/batch_1"
    told = {"id": "batch_1", "status": "failed", "errors": {"object": "list", "data": errors}}
    with pytest.raises(ProviderFailure) as failed:
        steps.send(msgspec.json.encode(told))
    assert failed.value.message == why
