"""Check the requests of `requests.jsonl` against AWS's model of the API."""

from __future__ import annotations

from importlib.resources import files

import msgspec
import pytest
from converse_model import misfits

from swink_testing.conformance.requests.listed_requests import LISTED_REQUESTS, Listed

FILE = files("swink_provider_bedrock") / LISTED_REQUESTS
ROWS = msgspec.json.Decoder(Listed).decode_lines(FILE.read_bytes())


@pytest.mark.parametrize("row", ROWS, ids=[row.about for row in ROWS])
def test_a_listed_request_fits_the_api(row: Listed) -> None:
    assert misfits(row.body or {"messages": []}) == []
