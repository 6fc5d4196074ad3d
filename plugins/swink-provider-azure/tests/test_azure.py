"""Addresses, credentials and refusals of Azure OpenAI, and its recorded answers."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any
from urllib.parse import parse_qs

import pytest

import swink_core as swink
from swink_core.providers import AiohttpClient
from swink_provider_azure import AzureProvider, entra
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_test_helpers.capture import CaptureServer
from swink_test_helpers.recorded_chat import RecordedChat
from swink_testing.calls import client_with
from swink_testing.clock import ManualClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

PROVIDER = AzureProvider("azure")
MODEL = swink.Model("azure", "my deployment")
NO_ENV: dict[str, str] = {}
DONE = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'
VARIABLES = (
    "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_VERSION",
    "OPENAI_API_VERSION", "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET",
    "AZURE_AUTHORITY_HOST",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_azure_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


VERSION = {"AZURE_OPENAI_API_VERSION": "2025-01-01"}
DEPLOYED = "/openai/deployments/my%20deployment/chat/completions?api-version=2025-01-01"
ADDRESSES = [
    ("a_resource", "https://r.example", NO_ENV, "https://r.example/openai/v1/chat/completions"),
    ("a_resource_and_a_version", "https://r.example/", VERSION, f"https://r.example{DEPLOYED}"),
    (
        "an_old_variable_for_the_version",
        "https://r.example",
        {"OPENAI_API_VERSION": "2025-01-01"},
        f"https://r.example{DEPLOYED}",
    ),
    (
        "a_version_in_the_address",
        "https://r.example?api-version=2025-01-01",
        NO_ENV,
        f"https://r.example{DEPLOYED}",
    ),
    ("the_openai_folder", "https://r.example/openai", VERSION, f"https://r.example{DEPLOYED}"),
    (
        "the_new_form_needs_no_version",
        "https://r.example/openai/v1",
        VERSION,
        "https://r.example/openai/v1/chat/completions",
    ),
    (
        "the_new_forms_preview",
        "https://r.example/openai/v1?api-version=preview",
        NO_ENV,
        "https://r.example/openai/v1/chat/completions?api-version=preview",
    ),
    (
        "a_whole_deployment",
        "https://r.example/openai/deployments/d",
        VERSION,
        "https://r.example/openai/deployments/d/chat/completions?api-version=2025-01-01",
    ),
    (
        "a_gateway_in_front",
        "https://apim.example/team",
        NO_ENV,
        "https://apim.example/team/openai/v1/chat/completions",
    ),
]


@pytest.mark.parametrize(
    ("base_url", "environ", "expected"),
    [row[1:] for row in ADDRESSES],
    ids=[row[0] for row in ADDRESSES],
)
def test_addresses(
    base_url: str, environ: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    options = swink.StreamOptions(base_url=base_url)
    assert PROVIDER.url(MODEL, options) == expected


async def complete(*responses: MemoryResponse, calls: int = 1, **options: Any) -> MemoryHTTPClient:
    http = MemoryHTTPClient(*responses)
    async with client_with(http=http, base_url="https://r.example", **options) as client:
        await asyncio.gather(*(client.complete("azure/d", "Hi") for _ in range(calls)))
    return http


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        ("https://r.example", "https://r.example/openai/v1/responses"),
        (
            "https://r.example?api-version=2025-04-01-preview",
            "https://r.example/openai/responses?api-version=2025-04-01-preview",
        ),
    ],
)
def test_addresses_of_the_responses_api(base_url: str, expected: str) -> None:
    options = swink.StreamOptions(base_url=base_url, settings={"api": "responses"})
    assert PROVIDER.url(MODEL, options) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"deployment": "mine"}, "https://r.example/openai/v1/chat/completions"),
        ({"deployment": "mine", "api_version": "2026-01-01"},
         "https://r.example/openai/deployments/mine/chat/completions?api-version=2026-01-01"),
        ({"api": "responses", "deployment": "mine", "api_version": "2026-01-01"},
         "https://r.example/openai/responses?api-version=2026-01-01"),
    ],
)  # fmt: skip
async def test_a_deployment_need_not_be_called_like_its_model(
    settings: dict[str, Any], expected: str
) -> None:
    http = MemoryHTTPClient(MemoryResponse([DONE]))
    given = {"base_url": "https://r.example", "api_key": "k", "api": "chat", **settings}
    async with (
        swink.Client(http=http, providers={"azure": given}) as client,
        client.stream("azure/gpt-6.1-sol", "Hi", retry=swink.RetryPolicy.none()) as stream,
    ):
        assert [event async for event in stream]
    assert http.requests[0].url == expected
    assert http.bodies[0]["model"] == "mine"


def test_the_version_stays_in_the_address_of_a_response_that_has_begun() -> None:
    settings = {"api_version": "2026-01-01", "resume": "resp_1"}
    options = swink.StreamOptions(base_url="https://r.example", settings=settings)
    request = PROVIDER.request(MODEL, {}, options)
    assert request.url == (
        "https://r.example/openai/responses/resp_1?api-version=2026-01-01&stream=true"
    )


async def test_a_key_travels_in_its_own_header() -> None:
    http = await complete(MemoryResponse([DONE]), api_key="canary-key")
    assert http.requests[0].headers["api-key"] == "canary-key"
    assert "Authorization" not in http.requests[0].headers
    assert http.bodies[0]["model"] == "d"


@pytest.mark.parametrize("name", ["Authorization", "API-Key"])
async def test_credentials_that_the_caller_holds_are_sent_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "of-the-environment")
    http = await complete(MemoryResponse([DONE]), headers={name: "Bearer mine"})
    sent = {n.lower(): v for n, v in http.requests[0].headers.items()}
    own = {n: sent[n] for n in ("authorization", "api-key") if n in sent}
    assert own == {name.lower(): "Bearer mine"}


async def test_without_any_credentials_nothing_is_sent_and_the_variable_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swink_provider_azure.provider.managed_identity", lambda: None)
    http = MemoryHTTPClient()
    with pytest.raises(swink.AuthenticationError, match="AZURE_OPENAI_API_KEY"):
        async with client_with(http=http, base_url="https://r.example") as client:
            await client.complete("azure/d", "Hi")
    assert http.requests == []


def _sign_in(monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    for name, value in {
        "TENANT_ID": "t",
        "CLIENT_ID": "c",
        "CLIENT_SECRET": "canary",
        **more,
    }.items():
        monkeypatch.setenv(f"AZURE_{name}", value)


def _token(name: str, seconds: int = 3600) -> MemoryResponse:
    return MemoryResponse([json.dumps({"access_token": name, "expires_in": seconds}).encode()])


async def test_an_application_signs_in_and_its_token_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _sign_in(monkeypatch)
    responses = [_token("token-one"), MemoryResponse([DONE]), MemoryResponse([DONE])]
    http = MemoryHTTPClient(*responses)
    async with client_with(http=http, base_url="https://r.example") as client:
        await client.complete("azure/d", "Hi")
        await client.complete("azure/d", "Hi")
    asked, *chats = http.requests
    assert asked.url == "https://login.microsoftonline.com/t/oauth2/v2.0/token"
    form = parse_qs(asked.body.decode())
    assert form["grant_type"] == ["client_credentials"]
    assert form["scope"] == ["https://cognitiveservices.azure.com/.default"]
    assert [chat.headers["Authorization"] for chat in chats] == ["Bearer token-one"] * 2


TOKEN_URL = "https://login.microsoftonline.com/t/oauth2/v2.0/token"


async def test_a_token_is_fetched_by_the_client_that_makes_the_call(
    monkeypatch: pytest.MonkeyPatch, small_json: Any
) -> None:
    _sign_in(monkeypatch)
    small_json.post(TOKEN_URL, payload={"access_token": "token-one", "expires_in": 3600})
    with CaptureServer(DONE) as server:
        async with client_with(http=AiohttpClient(), base_url=server.url) as client:
            await client.complete("azure/d", "Hi")
    (chat,) = server.exchanges
    assert chat.headers["authorization"] == "Bearer token-one"


@pytest.mark.parametrize(
    ("status", "payload", "error"),
    [
        (401, {"error": "invalid_client", "error_description": "AADSTS7000215: no"},
         swink.AuthenticationError),
        (503, {"error": "temporarily_unavailable"}, swink.NetworkError),
        (200, ["no token"], swink.AuthenticationError),
        (200, {"access_token": "t", "expires_in": "soon"}, swink.AuthenticationError),
    ],
)  # fmt: skip
async def test_a_sign_in_that_fails_over_http_says_so(
    monkeypatch: pytest.MonkeyPatch,
    small_json: Any,
    status: int,
    payload: Any,
    error: type[swink.StreamError],
) -> None:
    _sign_in(monkeypatch)
    small_json.post(TOKEN_URL, status=status, payload=payload, repeat=True)
    async with client_with(http=AiohttpClient(), base_url="http://127.0.0.1:1") as client:
        with pytest.raises(error, match="Entra ID issued no token"):
            await client.complete("azure/d", "Hi", retry=swink.RetryPolicy.none())


async def test_calls_that_begin_together_fetch_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    _sign_in(monkeypatch)
    http = await complete(_token("t1"), *(MemoryResponse([DONE]) for _ in range(5)), calls=5)
    assert [request.url.endswith("/token") for request in http.requests].count(True) == 1


async def test_a_token_whose_time_is_over_is_fetched_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    _sign_in(monkeypatch)
    http = MemoryHTTPClient(
        _token("short", 300), MemoryResponse([DONE]), _token("next"), MemoryResponse([DONE])
    )
    clock = ManualClock()
    async with client_with(http=http, base_url="https://r.example", clock=clock) as client:
        await client.complete("azure/d", "Hi")
        await clock.advance(300)
        await client.complete("azure/d", "Hi")
    assert http.requests[3].headers["Authorization"] == "Bearer next"


async def test_a_token_that_is_not_accepted_is_fetched_anew_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _sign_in(monkeypatch)
    http = await complete(
        _token("old"), MemoryResponse([b"{}"], 401), _token("new"), MemoryResponse([DONE])
    )
    assert http.requests[3].headers["Authorization"] == "Bearer new"


async def test_a_sovereign_cloud_has_its_own_sign_in_and_scope(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _sign_in(monkeypatch, AUTHORITY_HOST="https://login.microsoftonline.us/")
    http = await complete(_token("t"), MemoryResponse([DONE]))
    assert http.requests[0].url == "https://login.microsoftonline.us/t/oauth2/v2.0/token"
    form = parse_qs(http.requests[0].body.decode())
    assert form["scope"] == ["https://cognitiveservices.azure.us/.default"]


class _AppService(LoopbackServer):
    """The endpoint that gives an app its identity's tokens.

    Source: https://learn.microsoft.com/azure/app-service/overview-managed-identity, section
    "REST endpoint reference".
    """

    status = 200

    async def respond(self, exchange: Exchange) -> None:
        good = {
            "access_token": "identity-token",
            "expires_on": str(int(time.time()) + 86400),
            "resource": exchange.query.get("resource"),
            "token_type": "Bearer",
        }
        await exchange.start(self.status, {"Content-Type": "application/json"})
        await exchange.write(json.dumps(good if self.status == 200 else {}).encode())
        await exchange.end()


def _in_an_app(server: _AppService, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("azure.identity", reason="azure-identity is not installed")
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{server.url}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "canary-header")
    monkeypatch.setenv("PATH", "")  # no signed-in developer either


@pytest.mark.parametrize(
    ("authority", "resource"),
    [
        ("", "https://cognitiveservices.azure.com"),
        ("login.microsoftonline.us", "https://cognitiveservices.azure.us"),
    ],
)
async def test_a_managed_identity_is_asked_where_there_is_neither_key_nor_secret(
    authority: str, resource: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _AppService() as server:
        _in_an_app(server, monkeypatch)
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", authority)
        http = MemoryHTTPClient(MemoryResponse([DONE]), MemoryResponse([DONE]))
        async with client_with(http=http, base_url="https://r.example") as client:
            await client.complete("azure/d", "Hi")
            await client.complete("azure/d", "Hi")
    (asked,) = server.exchanges  # the token is kept
    assert (asked.query["resource"], asked.headers["x-identity-header"]) == (
        resource,
        "canary-header",
    )
    sent = [request.headers["Authorization"] for request in http.requests]
    assert sent == ["Bearer identity-token"] * 2


async def test_an_identity_that_is_refused_is_a_failure_that_names_the_key_too(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with _AppService() as server:
        server.status = 403
        _in_an_app(server, monkeypatch)
        http = MemoryHTTPClient()
        with pytest.raises(swink.AuthenticationError, match="azure-identity") as caught:
            async with client_with(http=http, base_url="https://r.example") as client:
                await client.complete("azure/d", "Hi")
    assert "AZURE_OPENAI_API_KEY" in caught.value.resolution
    assert (http.requests, capfd.readouterr().err) == ([], "")


def test_with_azure_identity_there_may_be_one() -> None:
    pytest.importorskip("azure.identity", reason="azure-identity is not installed")
    assert entra.managed_identity(NO_ENV) is not None


def test_without_azure_identity_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "azure.identity", raising=False)
    monkeypatch.setitem(sys.modules, "azure", None)
    assert entra.managed_identity(NO_ENV) is None


async def test_a_refused_sign_in_says_why_and_shows_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _sign_in(monkeypatch, CLIENT_SECRET="canary-secret")
    body = {"error": "invalid_client", "error_description": "AADSTS7000215: bad canary-secret\nx"}
    with pytest.raises(swink.AuthenticationError, match="AADSTS7000215") as caught:
        await complete(MemoryResponse([json.dumps(body).encode()], 401))
    assert "canary-secret" not in str(caught.value)
    assert "canary-secret" not in repr(entra.ClientCredentials.of_environment())


class TestRecorded(RecordedChat):
    folder = "azure"
    provider = PROVIDER
    finishes_often = (
        "azure/semantic-kernel-chat-completion-streaming-multiple-function-calls-"
        "test-async-filter-resp",
    )
