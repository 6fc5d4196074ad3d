"""Addresses and credentials of Vertex AI; google-auth is stood in for, since it needs Google."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from generate_content import SSE, body, frame, text

from swink_core import Client, Done, Error, RetryPolicy
from swink_core import StreamErrorKind as Kind
from swink_testing.clock import ManualClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

GLOBAL = "https://aiplatform.googleapis.com/v1"
MODEL = "publishers/google/models/gemini-3.8-flash"
METHOD = ":streamGenerateContent?alt=sse"


def _ok() -> MemoryResponse:
    return MemoryResponse([body(frame(text("Yes"), finish="STOP"))], headers=SSE)


def _unauthorized() -> MemoryResponse:
    error = {"error": {"code": 401, "message": "Expired.", "status": "UNAUTHENTICATED"}}
    return MemoryResponse.of_json(error, 401)


async def _ask(
    *answers: MemoryResponse, model: str = "gemini-3.8-flash", **options: Any
) -> tuple[MemoryHTTPClient, Any]:
    http = MemoryHTTPClient(*(answers or (_ok(),)))
    async with (
        Client(http=http, retry=RetryPolicy.none()) as client,
        client.stream(f"vertex/{model}", "Hi", **options) as stream,
    ):
        events = [event async for event in stream]
    return http, events[-1]


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "VERTEX_API_KEY", "VERTEX_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


ADDRESSES: list[tuple[str, dict[str, str], str | None, str]] = [
    ("a key alone", {}, None, f"{GLOBAL}/{MODEL}"),
    (
        "a project, anywhere",
        {"GOOGLE_CLOUD_PROJECT": "p"},
        None,
        f"{GLOBAL}/projects/p/locations/global/{MODEL}",
    ),
    (
        "a region",
        {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4"},
        None,
        "https://europe-west4-aiplatform.googleapis.com/v1"
        f"/projects/p/locations/europe-west4/{MODEL}",
    ),
    (
        "several regions",
        {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "eu"},
        None,
        f"https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/{MODEL}",
    ),
    (
        "a host",
        {"GOOGLE_CLOUD_PROJECT": "p"},
        "http://localhost:8080/",
        f"http://localhost:8080/v1/projects/p/locations/global/{MODEL}",
    ),
    (
        "a host in a variable",
        {"VERTEX_BASE_URL": "http://localhost:8080"},
        None,
        f"http://localhost:8080/v1/{MODEL}",
    ),
    (
        "a version",
        {"GOOGLE_CLOUD_PROJECT": "p"},
        "http://localhost:8080/v1beta1",
        f"http://localhost:8080/v1beta1/projects/p/locations/global/{MODEL}",
    ),
    (
        "an address that says it all",
        {"GOOGLE_CLOUD_PROJECT": "not-this-one"},
        "http://localhost:8080/v1/projects/q/locations/us-east5",
        f"http://localhost:8080/v1/projects/q/locations/us-east5/{MODEL}",
    ),
]


async def test_a_call_may_have_a_project_and_a_location_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "other")
    settings = {"project": "p", "location": "europe-west4"}
    http, _ = await _ask(api_key="a-token", settings=settings)
    assert http.requests[0].url.startswith(
        "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/"
    )


@pytest.mark.parametrize(
    ("name", "environ", "base_url", "url"), ADDRESSES, ids=[name for name, *_ in ADDRESSES]
)
async def test_addresses(
    name: str,
    environ: dict[str, str],
    base_url: str | None,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    http, last = await _ask(api_key="AIza-test", base_url=base_url)
    assert http.requests[0].url == url + METHOD
    assert isinstance(last, Done)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("endpoints/123", "projects/p/locations/global/endpoints/123"),
        (
            "publishers/google/models/gemini-3.1-pro-preview",
            "projects/p/locations/global/publishers/google/models/gemini-3.1-pro-preview",
        ),
        ("projects/9/locations/us-east5/endpoints/1", "projects/9/locations/us-east5/endpoints/1"),
    ],
)
async def test_models_may_be_named_with_their_collection(
    model: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    http, _ = await _ask(model=model, api_key="AIza-test")
    assert http.requests[0].url == f"{GLOBAL}/{path}{METHOD}"


@pytest.mark.parametrize(
    ("key", "header", "value"),
    [
        ("AIza-test", "x-goog-api-key", "AIza-test"),
        ("AQ.Ab-test", "x-goog-api-key", "AQ.Ab-test"),
        ("ya29.test", "Authorization", "Bearer ya29.test"),
    ],
)
async def test_keys_and_access_tokens_are_told_apart(
    key: str, header: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("VERTEX_API_KEY", key)
    http, _ = await _ask()
    sent = {k: v for k, v in http.requests[0].headers.items() if k in (header, "Authorization")}
    assert sent == {header: value}


async def test_credentials_in_headers_stand_for_a_key() -> None:
    http, _ = await _ask(headers={"authorization": "Bearer of-a-gateway"})
    assert http.requests[0].headers["authorization"] == "Bearer of-a-gateway"
    assert "Authorization" not in http.requests[0].headers


async def test_a_token_without_project_is_not_sent_to_google() -> None:
    http, last = await _ask(api_key="ya29.test")
    assert http.requests == []
    assert isinstance(last, Error)
    assert last.error_kind is Kind.INVALID_REQUEST
    assert "GOOGLE_CLOUD_PROJECT" in last.error_message


async def test_a_callers_own_token_is_not_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    http, last = await _ask(_unauthorized(), api_key="ya29.test")
    assert len(http.requests) == 1
    assert isinstance(last, Error)
    assert last.error_kind is Kind.AUTH


# -- Application Default Credentials -------------------------------------------------------------


class _GoogleAuthError(Exception):
    pass


class _TransportError(_GoogleAuthError):
    pass


class _Credentials:
    """Return numbered tokens, a new one for each refresh."""

    def __init__(self, error: Exception | None = None) -> None:
        self.token: str | None = None
        self.refreshed = 0
        self.life = timedelta(hours=1)
        self.expiry: datetime | None = None
        self.error = error

    def refresh(self, request: object) -> None:
        if self.error is not None:
            raise self.error
        self.refreshed += 1
        self.token = f"token-{self.refreshed}"
        self.expiry = datetime.now(UTC).replace(tzinfo=None) + self.life


class _GoogleAuth:
    """Replace google-auth: the result of `default`, and the number of its calls."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.credentials = _Credentials()
        self.project: str | None = "of-the-credentials"
        self.error: Exception | None = None

    def default(self, scopes: list[str]) -> tuple[_Credentials, str | None]:
        self.asked.append(scopes)
        if self.error is not None:
            raise self.error
        return self.credentials, self.project


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> _GoogleAuth:
    found = _GoogleAuth()
    parts: dict[str, Any] = {
        "google": {},
        "google.auth": {"default": found.default},
        "google.auth.exceptions": {
            "GoogleAuthError": _GoogleAuthError,
            "TransportError": _TransportError,
        },
        "google.auth.transport": {},
        "google.auth.transport.requests": {"Request": SimpleNamespace},
    }
    for name, attributes in parts.items():
        module = ModuleType(name)
        module.__path__ = []
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    return found


async def test_default_credentials_are_found_and_name_the_project(google: _GoogleAuth) -> None:
    http, last = await _ask()
    [request] = http.requests
    assert isinstance(last, Done)
    assert request.headers["Authorization"] == "Bearer token-1"
    assert request.url == (f"{GLOBAL}/projects/of-the-credentials/locations/global/{MODEL}{METHOD}")
    assert google.asked == [["https://www.googleapis.com/auth/cloud-platform"]]


async def test_the_project_of_the_credentials_is_asked_in_the_location_of_the_call(
    google: _GoogleAuth,
) -> None:
    http, _ = await _ask(settings={"location": "europe-west4"})
    assert http.requests[0].url == (
        "https://europe-west4-aiplatform.googleapis.com/v1"
        f"/projects/of-the-credentials/locations/europe-west4/{MODEL}{METHOD}"
    )


async def test_the_variable_outranks_the_project_of_the_credentials(
    google: _GoogleAuth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "of-the-variable")
    http, _ = await _ask()
    assert "/projects/of-the-variable/" in http.requests[0].url


async def test_a_token_is_used_until_it_is_stale(google: _GoogleAuth) -> None:
    http = MemoryHTTPClient(*(_ok() for _ in range(4)))
    clock = ManualClock()
    async with Client(http=http, retry=RetryPolicy.none(), clock=clock) as client:
        for _ in range(2):
            await client.complete("vertex/gemini-3.8-flash", "Hi")
        await clock.advance(3600)
        for _ in range(2):
            await client.complete("vertex/gemini-3.8-flash", "Hi")
    sent = [request.headers["Authorization"] for request in http.requests]
    assert sent == ["Bearer token-1"] * 2 + ["Bearer token-2"] * 2


async def test_calls_that_begin_together_ask_for_one_token(google: _GoogleAuth) -> None:
    http = MemoryHTTPClient(*(_ok() for _ in range(5)))
    async with Client(http=http, retry=RetryPolicy.none()) as client:
        await asyncio.gather(*(client.complete("vertex/gemini-3.8-flash", "Hi") for _ in range(5)))
    assert (len(google.asked), google.credentials.refreshed) == (1, 1)


def test_one_client_asks_for_tokens_in_several_event_loops(google: _GoogleAuth) -> None:
    http = MemoryHTTPClient(*(_ok() for _ in range(6)))
    client = Client(http=http, retry=RetryPolicy.none())
    google.credentials.life = timedelta(0)

    async def ask() -> None:
        await asyncio.gather(*(client.complete("vertex/gemini-3.8-flash", "Hi") for _ in range(3)))

    asyncio.run(ask())
    asyncio.run(ask())
    assert google.credentials.refreshed == 2


async def test_a_token_that_is_refused_is_renewed_once(google: _GoogleAuth) -> None:
    http, last = await _ask(_unauthorized(), _ok())
    assert isinstance(last, Done)
    assert [request.headers["Authorization"] for request in http.requests] == [
        "Bearer token-1",
        "Bearer token-2",
    ]
    http, last = await _ask(_unauthorized(), _unauthorized())
    assert len(http.requests) == 2
    assert isinstance(last, Error)
    assert last.error_kind is Kind.AUTH


async def test_a_refused_token_that_cannot_be_renewed_is_a_refusal(google: _GoogleAuth) -> None:
    http = MemoryHTTPClient(_ok(), _unauthorized())
    async with Client(http=http, retry=RetryPolicy.none()) as client:
        await client.complete("vertex/gemini-3.8-flash", "Hi")
        google.credentials.error = _TransportError("no route")
        async with client.stream("vertex/gemini-3.8-flash", "Hi") as stream:
            *_, last = [event async for event in stream]
    assert len(http.requests) == 2
    assert isinstance(last, Error)
    assert last.error_kind is Kind.AUTH
    assert last.error_message == "Expired. (the token was not renewed: no route)"


async def test_without_credentials_it_says_what_to_do(google: _GoogleAuth) -> None:
    google.error = _GoogleAuthError("Your default credentials were not found.")
    http, last = await _ask()
    assert http.requests == []
    assert isinstance(last, Error)
    assert last.error_kind is Kind.AUTH
    assert last.error_message == (
        "no credentials for vertex: VERTEX_API_KEY is not set, and Your default credentials were "
        "not found."
    )


async def test_without_google_auth_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    http, last = await _ask()
    assert http.requests == []
    assert isinstance(last, Error)
    assert last.error_kind is Kind.AUTH
    assert "VERTEX_API_KEY" in last.error_message
    assert "swink-provider-gemini[vertex]" in last.error_message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (_GoogleAuthError("invalid_grant"), Kind.AUTH),
        (_TransportError("no route"), Kind.NETWORK),
    ],
)
async def test_a_token_that_cannot_be_had_fails_before_the_request(
    error: Exception, kind: Kind, google: _GoogleAuth
) -> None:
    google.credentials = _Credentials(error)
    http, last = await _ask()
    assert http.requests == []
    assert isinstance(last, Error)
    assert (last.error_kind, last.error_message) == (kind, str(error))


async def test_a_project_that_nobody_knows_is_asked_for(google: _GoogleAuth) -> None:
    google.project = None
    http, last = await _ask()
    assert http.requests == []
    assert isinstance(last, Error)
    assert "GOOGLE_CLOUD_PROJECT" in last.error_message
