"""A model's name is a part of an address and cannot make it another."""

from __future__ import annotations

import logging

import pytest

from swink_core import Client, Error, Model, RetryPolicy
from swink_core import StreamErrorKind as Kind
from swink_core.failures.exceptions import InvalidModel
from swink_core.providers import model_path
from swink_testing.driver import MemoryHTTPClient

ROWS = [
    ("a", "", "a"),
    ("a:b", ":", "a:b"),
    ("a/b", "/", "a/b"),
    ("a/b", "", "a%2Fb"),
    ("a?b#c%2e", "/", "a%3Fb%23c%252e"),
    ("..a/.b/c..", "/", "..a/.b/c.."),
    ("\N{GREEK SMALL LETTER ALPHA}", "", "%CE%B1"),
]


@pytest.mark.parametrize(("name", "safe", "expected"), ROWS)
def test_a_name_is_quoted(name: str, safe: str, expected: str) -> None:
    assert model_path(Model("acme", name), name, safe) == expected


HOSTILE = ["..", ".", "../x", "../../x", "a/../../x", "a/.", "a//b", "/a", "a/", "\ud800"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_leads_elsewhere_is_none(name: str) -> None:
    with pytest.raises(InvalidModel):
        model_path(Model("acme", name), name, "/")


@pytest.mark.parametrize("name", ["../../x", "..", "\ud800"])
@pytest.mark.parametrize("provider", ["azure", "bedrock", "gemini", "vertex"])
async def test_nothing_is_sent_to_where_such_a_name_leads(
    provider: str, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)  # the test runner cannot pass such names on
    monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "1")  # the model is in the path
    http = MemoryHTTPClient()
    async with Client(http=http, retry=RetryPolicy.none()) as client:
        options = {"base_url": "https://example.com", "api_key": "key"}
        async with client.stream(Model(provider, name), "Hi", **options) as stream:
            events = [event async for event in stream]
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.INVALID_REQUEST
    assert http.requests == []
