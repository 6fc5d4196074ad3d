"""The gateway passes embeddings on to a vendor that speaks the client's protocol."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from serving import ask, serving

import swink_core as swink
from swink_gateway.policy.config import Source
from swink_gateway.policy.tenancy import hashed
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

OWN = {
    "openai": {"base_url": "http://openai.invalid/v1", "api_key": "vendors-key"},
    "azure": {"base_url": "http://azure.invalid/openai/v1", "api_key": "vendors-key"},
    "gemini": {"base_url": "http://google.invalid", "api_key": "vendors-key"},
    "ollama": {"base_url": "http://ollama.invalid"},
}
ANSWER = {"object": "list", "data": [{"embedding": [0.5]}], "model": "of the vendor"}

# the path at the gateway, the body, the vendor's address, the body that it gets
PATHS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    (
        "/v1/embeddings",
        {"model": "openai/embed-1", "input": "Hi", "dimensions": 8, "any_field": 1},
        "http://openai.invalid/v1/embeddings",
        {"model": "embed-1", "input": "Hi", "dimensions": 8, "any_field": 1},
    ),
    (
        "/v1/embeddings",
        {"model": "mine", "input": ["Hi"]},
        "http://openai.invalid/v1/embeddings",
        {"model": "embed-2", "input": ["Hi"]},
    ),
    (
        "/v1beta/models/gemini/embed-1:embedContent",
        {"content": {"parts": [{"text": "Hi"}]}},
        "http://google.invalid/v1beta/models/embed-1:embedContent",
        {"content": {"parts": [{"text": "Hi"}]}},
    ),
    (
        "/v1/models/gemini/embed-1:batchEmbedContents",
        {"requests": [{"model": "models/gemini/embed-1", "content": {}}]},
        "http://google.invalid/v1beta/models/embed-1:batchEmbedContents",
        {"requests": [{"model": "models/embed-1", "content": {}}]},
    ),
    (
        "/api/embed",
        {"model": "ollama/embed-1", "input": "Hi"},
        "http://ollama.invalid/api/embed",
        {"model": "embed-1", "input": "Hi"},
    ),
    (
        "/api/embeddings",
        {"model": "ollama/embed-1", "prompt": "Hi"},
        "http://ollama.invalid/api/embeddings",
        {"model": "embed-1", "prompt": "Hi"},
    ),
]


@pytest.mark.parametrize(("path", "body", "address", "sent"), PATHS)
async def test_a_request_and_its_answer_pass_unchanged(
    path: str, body: dict[str, Any], address: str, sent: dict[str, Any]
) -> None:
    http = MemoryHTTPClient(MemoryResponse.of_json(ANSWER))
    routes = {"mine": ["openai/embed-2"]}
    async with serving(http=http, providers=OWN, routes=routes) as gateway:
        answer = await ask(gateway, path, body, headers={"Authorization": "Bearer clients-key"})
    assert (answer.status, answer.json) == (200, ANSWER)
    (request,) = http.requests
    assert request.url == address
    assert http.bodies == [sent]
    assert "clients-key" not in str(request.headers)
    assert ("vendors-key" in str(request.headers)) is ("ollama" not in address)


EMBED = "/v1/embeddings", {"model": "openai/embed-1", "input": "Hi"}
CHUNK = bytes(256 * 1024)


async def test_a_large_answer_is_not_kept_in_memory() -> None:
    largest = 0

    def pieces() -> Iterator[bytes]:
        nonlocal largest
        for _ in range(64):
            yield CHUNK
            largest = max(largest, tracemalloc.get_traced_memory()[0])

    http = MemoryHTTPClient(MemoryResponse(pieces()))
    async with serving(http=http, providers=OWN) as gateway, aiohttp.ClientSession() as session:
        tracemalloc.start()
        try:
            async with session.post(gateway.url + EMBED[0], json=EMBED[1]) as answer:
                received = sum([len(piece) async for piece in answer.content.iter_any()])
        finally:
            tracemalloc.stop()
    assert received == 64 * len(CHUNK)
    assert largest < received / 2


@pytest.mark.parametrize("chunks", [[CHUNK], [b"[", b"0.5"]])
async def test_an_answer_that_breaks_off_has_no_end(chunks: list[bytes]) -> None:
    broken = swink.ProviderFailure(swink.Failure("streaming", kind=swink.StreamErrorKind.NETWORK))
    response = MemoryResponse(chunks, error=broken)
    async with serving(http=MemoryHTTPClient(response), providers=OWN) as gateway:
        with pytest.raises(aiohttp.ClientPayloadError):
            await ask(gateway, *EMBED)
    assert response.closed


async def test_a_failure_before_the_answer_has_a_status() -> None:
    broken = swink.ProviderFailure(swink.Failure("streaming", kind=swink.StreamErrorKind.NETWORK))
    http = MemoryHTTPClient(MemoryResponse(error=broken))
    async with serving(http=http, providers=OWN) as gateway:
        assert (await ask(gateway, *EMBED)).status == 502


async def test_a_refusal_of_the_vendor_has_its_status_and_wait() -> None:
    refused = MemoryResponse.of_json({"error": {"message": "no"}}, 429, {"Retry-After": "3"})
    http = MemoryHTTPClient(refused)
    async with serving(http=http, providers=OWN) as gateway:
        answer = await ask(gateway, "/v1/embeddings", {"model": "openai/embed-1", "input": "Hi"})
    assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
    assert answer.json == {"error": {"message": "no"}}


async def test_an_error_does_not_repeat_the_gateways_key() -> None:
    wrong = {"error": {"message": "bad request with vendors-key and dmVuZG9ycy1rZXk="}}
    limits = {"x-ratelimit-limit-requests": "vendors-key", "Retry-After": "vendors-key"}
    http = MemoryHTTPClient(MemoryResponse.of_json(wrong, 400, limits))
    async with serving(http=http, providers=OWN) as gateway:
        answer = await ask(gateway, "/v1/embeddings", {"model": "openai/embed-1", "input": "Hi"})
    assert answer.status == 400
    assert "bad request with" in answer.json["error"]["message"]
    for secret in ("vendors-key", "dmVuZG9ycy1rZXk"):
        assert secret not in answer.body.decode() + str(answer.headers)


async def test_the_gateways_refused_key_is_no_fault_of_the_client() -> None:
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "vendors-key"}}, 401))
    async with serving(http=http, providers=OWN) as gateway:
        answer = await ask(gateway, "/v1/embeddings", {"model": "openai/embed-1", "input": "Hi"})
    assert answer.status == 502
    assert "the gateway's own credentials" in answer.json["error"]["message"]
    assert answer.headers["x-should-retry"] == "false"


REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    ("/v1/embeddings", {"model": "gemini/embed-1", "input": "Hi"}, 404, "has no embeddings in"),
    ("/v1/embeddings", {"model": "echo/echo", "input": "Hi"}, 404, "has no embeddings in"),
    ("/api/embed", {"model": "openai/embed-1", "input": "Hi"}, 404, "has no embeddings in"),
    ("/v1/embeddings", {"input": "Hi"}, 400, "model is missing"),
]


@pytest.mark.parametrize(("path", "body", "status", "words"), REFUSED)
async def test_a_model_of_another_protocol_is_refused(
    path: str, body: dict[str, Any], status: int, words: str
) -> None:
    http = MemoryHTTPClient()
    async with serving(http=http, providers=OWN) as gateway:
        answer = await ask(gateway, path, body)
    assert answer.status == status
    assert words in answer.body.decode()
    assert http.requests == []


KEYS = """
[keys.free]
key = "${ANY}"

[keys.limited]
key = "${OTHER}"
%s
"""


async def test_the_names_of_end_users_are_hashed_for_each_key() -> None:
    keys = {"ANY": "free", "OTHER": "limited"}
    config = Source("keys.toml", KEYS % "").config(keys)
    http = MemoryHTTPClient(*[MemoryResponse.of_json(ANSWER)] * 3)
    body = {"model": "openai/embed-1", "input": "Hi", "user": "carl"}
    async with serving(http=http, providers=OWN, config=config, keys=["unnamed"]) as gateway:
        for key in (*keys.values(), "unnamed"):
            headers = {"Authorization": f"Bearer {key}"}
            assert (await ask(gateway, "/v1/embeddings", body, headers=headers)).status == 200
    assert [sent["user"] for sent in http.bodies] == [
        hashed("free", "carl"), hashed("limited", "carl"), "carl",
    ]  # fmt: skip


PLACE = "projects/web/src/index.ts"
"""A text that has the form of the full name of a resource of Google Cloud."""

TEXTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/embeddings", {"model": "openai/embed-1", "input": PLACE}),
    ("/v1/embeddings", {"model": "openai/embed-1", "input": ["Hi", "@preset/x"]}),
    (
        "/v1beta/models/gemini/embed-1:embedContent",
        {"content": {"parts": [{"text": PLACE}]}, "title": PLACE},
    ),
    (
        "/v1beta/models/gemini/embed-1:batchEmbedContents",
        {"requests": [{"content": {"parts": [{"text": PLACE}]}, "title": PLACE}]},
    ),
    ("/api/embed", {"model": "ollama/embed-1", "input": [PLACE]}),
    ("/api/embeddings", {"model": "ollama/embed-1", "prompt": "Hi"}),
    ("/api/embeddings", {"model": "ollama/embed-1", "prompt": PLACE}),
]


@pytest.mark.parametrize(("path", "body"), TEXTS, ids=str)
async def test_a_text_of_any_form_is_embedded_for_a_key_of_the_file(
    path: str, body: dict[str, Any]
) -> None:
    config = Source("keys.toml", KEYS % "").config({"ANY": "free", "OTHER": "limited"})
    http = MemoryHTTPClient(MemoryResponse.of_json(ANSWER))
    async with serving(http=http, providers=OWN, config=config) as gateway:
        answer = await ask(gateway, path, body, headers={"Authorization": "Bearer free"})
    assert (answer.status, answer.json) == (200, ANSWER)


FOREIGN: list[tuple[str, dict[str, Any]]] = [
    ("/v1/embeddings", {"model": "openai/embed-1", "input": [{"file_id": "x"}]}),
    ("/v1/embeddings", {"model": "openai/embed-1", "input": "Hi", "prompt": "x"}),
    ("/v1/embeddings", {"model": "openai/embed-1", "input": "Hi", "index": "projects/p/a/x"}),
    (
        "/v1beta/models/gemini/embed-1:batchEmbedContents",
        {"requests": [{"content": {"parts": [{"fileData": {"fileUri": "x"}}]}}]},
    ),
    ("/api/embeddings", {"model": "ollama/embed-1", "prompt": {"id": "x"}}),
]


@pytest.mark.parametrize(("path", "body"), FOREIGN, ids=str)
async def test_an_id_beside_the_texts_is_not_found(path: str, body: dict[str, Any]) -> None:
    config = Source("keys.toml", KEYS % "").config({"ANY": "free", "OTHER": "limited"})
    http = MemoryHTTPClient()
    async with serving(http=http, providers=OWN, config=config) as gateway:
        answer = await ask(gateway, path, body, headers={"Authorization": "Bearer free"})
    assert answer.status == 404
    assert b"not found for this key" in answer.body
    assert http.requests == []


# what limits the second key, the status of its request
LIMITED: list[tuple[str, int]] = [
    ('models = ["openai/*"]', 200),
    ('models = ["gemini/*"]', 404),
    ("requests_per_minute = 5", 403),
    ("tokens_per_minute = 5", 403),
    ("streams = 5", 403),
    ("dollars_per_day = 5", 403),
]


@pytest.mark.parametrize(("limit", "status"), LIMITED)
async def test_keys_whose_use_is_counted_are_refused(limit: str, status: int) -> None:
    keys = {"ANY": "free", "OTHER": "limited"}
    config = Source("keys.toml", KEYS % limit).config(keys)
    statuses = []
    for key in keys.values():
        http = MemoryHTTPClient(MemoryResponse.of_json(ANSWER))
        async with serving(http=http, providers=OWN, config=config) as gateway:
            body = {"model": "openai/embed-1", "input": "Hi"}
            headers = {"Authorization": f"Bearer {key}"}
            answer = await ask(gateway, "/v1/embeddings", body, headers=headers)
        statuses.append(answer.status)
    assert statuses == [200, status]
    if status == 403:
        error = answer.json["error"]
        assert (error["code"], error["message"].partition("\n")[0]) == (
            "unsupported",
            "the key 'limited' has a budget or a rate, and embeddings are not counted",
        )


GUARDED = """
[guards.secrets]
redact = ["secret"]

[keys.team]
key = "${TEAM}"
"""
# what the configuration adds, the path, the body, the status, words of the message
UNCHECKED: list[tuple[str, str, dict[str, Any], int, str]] = [
    (
        'guards = ["secrets"]',
        "/v1/embeddings",
        {"model": "openai/embed-1", "input": "my secret"},
        403,
        "guards",
    ),
    (
        "",
        "/v1beta/models/gemini/embed-1:embedContent",
        {"content": {"parts": [{"fileData": {"fileUri": "https://x.invalid/v1beta/files/a"}}]}},
        404,
        "not found for this key",
    ),
    (
        'models = ["openai/*"]',
        "/v1/embeddings",
        {"model": "openai/embed-1", "input": "Hi", "other_model": "large"},
        400,
        "other_model",
    ),
]


@pytest.mark.parametrize(("more", "path", "body", "status", "words"), UNCHECKED)
async def test_a_request_that_nothing_checks_is_refused(
    more: str, path: str, body: dict[str, Any], status: int, words: str
) -> None:
    config = Source("team.toml", GUARDED + more).config({"TEAM": "team-key"})
    http = MemoryHTTPClient()
    async with serving(http=http, providers=OWN, config=config) as gateway:
        answer = await ask(gateway, path, body, headers={"Authorization": "Bearer team-key"})
    assert answer.status == status
    assert words in answer.body.decode()
    assert http.requests == []


async def test_an_allowed_field_that_names_a_forbidden_model_is_dropped() -> None:
    allowed = 'models = ["openai/embed-*"]\nallowed_fields = ["models", "provider"]'
    config = Source("team.toml", GUARDED + allowed).config({"TEAM": "team-key"})
    http = MemoryHTTPClient(MemoryResponse.of_json(ANSWER))
    body = {"model": "openai/embed-1", "input": "Hi", "provider": {"sort": "price"}, "user": "carl"}
    async with serving(http=http, providers=OWN, config=config) as gateway:
        asked = {**body, "models": ["dear"]}
        headers = {"Authorization": "Bearer team-key"}
        answer = await ask(gateway, "/v1/embeddings", asked, headers=headers)
    assert (answer.status, answer.headers["x-swink-dropped"]) == (200, "models")
    assert http.bodies == [{**body, "model": "embed-1", "user": hashed("team", "carl")}]
