"""Half a character, which models do write and UTF-8 cannot hold, must not stop a request."""

from __future__ import annotations

import json

import pytest

from swink_core.providers import HTTPProvider


@pytest.mark.parametrize(
    ("name", "text", "sent"),
    [
        ("plain text", "naïve 🦊", "naïve 🦊"),
        ("a lone half", "a\ud800b", "a\N{REPLACEMENT CHARACTER}b"),
        ("two halves of one character", "\ud83e\udd8a", "🦊"),
        ("a whole one beside a half", "🦊\udc00", "🦊\N{REPLACEMENT CHARACTER}"),
    ],
    ids=lambda value: value.replace(" ", "-") if value.isascii() else "",
)
def test_requests_hold_what_utf_8_can(name: str, text: str, sent: str) -> None:
    request = HTTPProvider("acme").json_request("http://localhost/", {"text": [text]})
    assert json.loads(request.body) == {"text": [sent]}
