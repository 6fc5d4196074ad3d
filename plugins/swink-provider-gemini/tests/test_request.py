"""Requests to the Gemini API apart from the body: headers, addresses, credentials."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from generate_content import SSE, body, frame, text

from swink_core import AssistantMessage, Client, Done, Error, RetryPolicy
from swink_core import StreamErrorKind as Kind
from swink_provider_gemini import GeminiProvider
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

ANSWER = frame(text("Yes"), finish="STOP")
GOOGLE = "https://generativelanguage.googleapis.com"


async def _ask(
    model: str = "gemini-3.8-flash", answer: MemoryResponse | None = None, **options: Any
) -> tuple[Any, list[Any]]:
    http = MemoryHTTPClient(answer or MemoryResponse([body(ANSWER)], headers=SSE))
    async with (
        Client(http=http, retry=RetryPolicy.none()) as client,
        client.stream(f"gemini/{model}", "Hi", **options) as stream,
    ):
        events = [event async for event in stream]
    return (http.requests[0] if http.requests else None), events


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


async def test_a_request_as_it_goes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "from-the-environment")
    request, _ = await _ask()
    assert request.method == "POST"
    assert request.url == f"{GOOGLE}/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
    assert request.headers == {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "x-goog-api-key": "from-the-environment",
    }
    assert msgspec.json.decode(request.body) == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]
    }


@pytest.mark.parametrize(
    ("variable", "option", "base"),
    [
        (None, None, f"{GOOGLE}/v1beta"),
        ("http://localhost:8080", None, "http://localhost:8080/v1beta"),
        ("http://localhost:8080", "http://other/", "http://other/v1beta"),
        (None, "http://other/gemini", "http://other/gemini/v1beta"),
        (None, "http://other/v1beta", "http://other/v1beta"),
        (None, "http://other/v1", "http://other/v1"),
        (None, "http://other/v1alpha/", "http://other/v1alpha"),
    ],
)
async def test_addresses(
    variable: str | None, option: str | None, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("GEMINI_BASE_URL", variable)
    request, _ = await _ask(api_key="test", base_url=option)
    assert request.url == f"{base}/models/gemini-3.8-flash:streamGenerateContent?alt=sse"


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("models/gemini-3.8-flash", "models/gemini-3.8-flash"),
        ("tunedModels/mine-1", "tunedModels/mine-1"),
        ("odd name?", "models/odd%20name%3F"),
    ],
)
async def test_models_may_be_named_with_their_collection(model: str, path: str) -> None:
    request, _ = await _ask(model, api_key="test")
    assert request.url == f"{GOOGLE}/v1beta/{path}:streamGenerateContent?alt=sse"


async def test_the_first_variable_that_is_set_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "second")
    request, _ = await _ask()
    assert request.headers["x-goog-api-key"] == "second"
    monkeypatch.setenv("GEMINI_API_KEY", "first")
    request, _ = await _ask()
    assert request.headers["x-goog-api-key"] == "first"


@pytest.mark.parametrize("name", ["Authorization", "X-Goog-Api-Key"])
async def test_credentials_in_headers_stand_for_a_key(name: str) -> None:
    request, events = await _ask(headers={name: "of-a-gateway"})
    found = {k for k in request.headers if k.lower() in ("authorization", "x-goog-api-key")}
    assert found == {name}
    assert name.lower() in GeminiProvider.credential_headers  # and a cache knows the caller
    assert isinstance(events[-1], Done)


async def test_without_a_key_nothing_is_sent() -> None:
    request, events = await _ask()
    assert request is None
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.AUTH
    assert "GEMINI_API_KEY or GOOGLE_API_KEY" in events[-1].error_message


async def test_a_whole_answer_is_asked_for_and_read() -> None:
    answer = MemoryResponse.of_json(
        {
            **frame(text("Yes", thoughtSignature="c2ln"), finish="STOP"),
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2},
            "modelVersion": "m",
            "responseId": "r",
        }
    )
    request, events = await _ask(answer=answer, api_key="test", transport="buffered")
    assert request.url == f"{GOOGLE}/v1beta/models/gemini-3.8-flash:generateContent"
    assert request.headers["Accept"] == "application/json"
    last = events[-1]
    assert isinstance(last, Done)
    assert (last.model, last.response_id) == ("m", "r")
    assert last.usage is not None
    assert last.usage.output == 2


async def test_a_whole_answer_may_be_an_error() -> None:
    error = {"error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}}
    _, events = await _ask(
        answer=MemoryResponse.of_json(error), api_key="test", transport="buffered"
    )
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.OVERLOADED


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json"])
async def test_an_error_may_be_labelled_as_a_stream(content_type: str) -> None:
    error = b'{"error": {"code": 404, "message": "Gone.", "status": "NOT_FOUND"}}'
    answer = MemoryResponse([error], 404, {"Content-Type": content_type})
    _, events = await _ask(answer=answer, api_key="test")
    assert isinstance(events[-1], Error)
    assert (events[-1].error_kind, events[-1].error_message) == (Kind.MODEL_NOT_FOUND, "Gone.")


async def test_an_answer_costs_what_the_catalogue_says() -> None:
    usage = {
        "promptTokenCount": 1_000_000,
        "cachedContentTokenCount": 500_000,
        "candidatesTokenCount": 600_000,
        "thoughtsTokenCount": 400_000,
    }
    http = MemoryHTTPClient(MemoryResponse([body({**ANSWER, "usageMetadata": usage})], headers=SSE))
    async with client_with(http=http, api_key="test") as client:
        message: AssistantMessage = await client.complete("gemini/gemini-3.8-flash", "Hi")
        info = client.catalog.model("gemini", "gemini-3.8-flash")
    assert info is not None
    assert info.prices is not None
    assert message.cost is not None
    prices = msgspec.structs.asdict(info.prices)
    expected = (prices["input"] + prices["cache_read"]) / 2 + prices["output"]
    assert message.cost.total == pytest.approx(expected)
