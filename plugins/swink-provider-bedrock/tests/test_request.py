"""Requests apart from the body: addresses, regions, credentials, signatures, rejections."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from converse import CONTENT_TYPE, TEXT, said
from converse_model import OLDEST_JUDGE

from swink_core import Client, Done, Error, Host, Message, Notice, RetryPolicy
from swink_core import StreamErrorKind as Kind
from swink_core.providers import Catalog
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

HAIKU = "bedrock/global.anthropic.claude-haiku-5-5"
NOVA = "bedrock/us.amazon.nova-pro-v1:0"
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
HOST = "https://bedrock-runtime.eu-west-1.amazonaws.com"

KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI-secret",
    "AWS_REGION": "eu-west-1",
}


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def _answer() -> MemoryResponse:
    return MemoryResponse([said(TEXT)], headers={"Content-Type": CONTENT_TYPE})


async def _ask(
    model: str = NOVA, messages: str | list[Message] = "Hi", **options: Any
) -> tuple[Any, Any]:
    http = MemoryHTTPClient(_answer())
    async with (
        Client(http=http, retry=RetryPolicy.none()) as client,
        client.stream(model, messages, **options) as stream,
    ):
        events = [event async for event in stream]
    return (http.requests[0] if http.requests else None), events


def _set(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


async def test_a_request_as_it_goes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, {"AWS_BEARER_TOKEN_BEDROCK": "a-token", "AWS_REGION": "eu-west-1"})
    request, events = await _ask(max_tokens=50)
    assert isinstance(events[-1], Done)
    assert request.method == "POST"
    assert request.url == f"{HOST}/model/us.amazon.nova-pro-v1:0/converse-stream"
    assert request.headers == {
        "Content-Type": "application/json",
        "Accept": CONTENT_TYPE,
        "Authorization": "Bearer a-token",
    }
    assert msgspec.json.decode(request.body) == {
        "messages": [{"role": "user", "content": [{"text": "Hi"}]}],
        "inferenceConfig": {"maxTokens": 50},
    }


OTHER = "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("name", "variables", "option", "expected"),
    [
        ("a region", {"AWS_REGION": "eu-west-1"}, None, HOST),
        ("the older variable", {"AWS_DEFAULT_REGION": "eu-west-1"}, None, HOST),
        ("both", {"AWS_DEFAULT_REGION": "us-west-2", "AWS_REGION": "eu-west-1"}, None, HOST),
        ("an endpoint", {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": OTHER}, None, OTHER),
        ("one for all services", {"AWS_ENDPOINT_URL": f"{OTHER}/"}, None, OTHER),
        (
            "both endpoints",
            {"AWS_ENDPOINT_URL": "http://no", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": OTHER},
            None,
            OTHER,
        ),
        ("the caller's", {"AWS_ENDPOINT_URL": "http://no"}, f"{OTHER}/v1", f"{OTHER}/v1"),
    ],
)
async def test_addresses(
    name: str,
    variables: dict[str, str],
    option: str | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _set(monkeypatch, variables)
    request, _ = await _ask(base_url=option, api_key="test")
    assert request.url == f"{expected}/model/us.amazon.nova-pro-v1:0/converse-stream"


async def test_the_profile_may_have_the_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("[profile work]\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_PROFILE", "work")
    request, _ = await _ask(api_key="test")
    assert request.url.startswith(HOST)


async def test_a_call_may_have_a_region_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, {**KEYS, "AWS_REGION": "us-east-1"})
    request, _ = await _ask(settings={"region": "eu-west-1"})
    assert request.url.startswith(HOST)
    assert "/eu-west-1/bedrock/aws4_request" in request.headers["Authorization"]


async def test_without_a_region_nothing_is_sent() -> None:
    request, events = await _ask(api_key="test")
    assert request is None
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.INVALID_REQUEST
    assert "AWS_REGION" in events[-1].error_message


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
async def test_credentials_in_headers_stand_for_all_others(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(monkeypatch, {**KEYS, "AWS_BEARER_TOKEN_BEDROCK": "not-this"})
    request, _ = await _ask(headers={name: "Bearer of-a-gateway"})
    found = {k: v for k, v in request.headers.items() if k.lower() == "authorization"}
    assert found == {name: "Bearer of-a-gateway"}


@pytest.mark.parametrize(
    ("option", "expected"), [(None, "Bearer of-the-environment"), ("mine", "Bearer mine")]
)
async def test_a_bearer_token_wins_over_keys(
    option: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(monkeypatch, {**KEYS, "AWS_BEARER_TOKEN_BEDROCK": "of-the-environment"})
    request, _ = await _ask(api_key=option)
    assert request.headers["Authorization"] == expected
    assert "X-Amz-Date" not in request.headers


# -- signatures ------------------------------------------------------------------------------


class _Verifier(LoopbackServer):
    """Signs what arrived, with botocore and the same secret, and compares."""

    def __init__(self, region: str = "eu-west-1") -> None:
        super().__init__()
        self.region = region
        self.verified: list[bool] = []

    async def respond(self, exchange: Exchange) -> None:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        given = exchange.headers["authorization"]
        names = given.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        assert {"host", "content-type", "x-amz-date"} <= set(names)
        headers = {name: exchange.headers[name] for name in names}
        request = AWSRequest(
            exchange.method,
            f"http://{headers['host']}{exchange.path}",
            headers=headers,
            data=exchange.body,
        )
        request.context["timestamp"] = headers["x-amz-date"]
        keys = Credentials(KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"])
        auth = SigV4Auth(keys, "bedrock", self.region)
        text = auth.string_to_sign(request, auth.canonical_request(request))
        self.verified.append(given.endswith(f"Signature={auth.signature(text, request)}"))
        await exchange.start(200, {"Content-Type": CONTENT_TYPE})
        await exchange.write(said(TEXT))
        await exchange.end()


@pytest.mark.parametrize(
    ("name", "model", "path"),
    [
        ("an id", "anthropic.claude-v2", "/model/anthropic.claude-v2/converse-stream"),
        ("a version", "us.amazon.nova-pro-v1:0", "/model/us.amazon.nova-pro-v1:0/converse-stream"),
        ("an ARN", PROFILE, f"/model/{PROFILE.replace('/', '%2F')}/converse-stream"),
        ("an unknown model name", "a b%2F+ü", "/model/a%20b%252F%2B%C3%BC/converse-stream"),
    ],
)
@pytest.mark.parametrize("before", ["", "/v1", "/a%20b"])
async def test_what_arrives_is_what_was_signed(
    name: str, model: str, path: str, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(monkeypatch, {**KEYS, "AWS_SESSION_TOKEN": "a/session+token=="})
    pytest.importorskip("botocore", reason="botocore is not installed")
    async with _Verifier() as server, Client(retry=RetryPolicy.none()) as client:
        await client.complete(
            f"bedrock/{model}",
            "Hi ä€😀",
            base_url=server.url + before,
            headers={"x-amz-meta": " a  b ", "x-trace": "not signed"},
        )
        [exchange] = server.exchanges
        assert (exchange.path, server.verified) == (before + path, [True])
        assert exchange.headers["x-amz-security-token"] == "a/session+token=="


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://bedrock-runtime.us-east-2.amazonaws.com", "us-east-2"),
        ("https://bedrock-runtime-fips.us-west-2.amazonaws.com", "us-west-2"),
        ("https://vpce-1.bedrock-runtime.us-east-2.vpce.amazonaws.com", "us-east-2"),
        ("http://gateway.example", "eu-west-1"),
    ],
)
async def test_the_address_says_which_region_signs(
    url: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(monkeypatch, KEYS)
    request, _ = await _ask(base_url=url)
    assert f"/{region}/bedrock/aws4_request" in request.headers["Authorization"]


@pytest.mark.parametrize(
    "place",
    [
        "us-gov-west-1", "cn-north-1", "us-iso-east-1", "us-isob-east-1", "us-isof-south-1",
        "eu-isoe-west-1", "eusc-de-east-1", "eu-west-1",
    ],
)  # fmt: skip
async def test_the_host_is_of_the_regions_partition(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("botocore", OLDEST_JUDGE)
    from botocore import loaders

    known = loaders.Loader().load_data("endpoints")["partitions"]
    [suffix] = (p["dnsSuffix"] for p in known if re.match(p["regionRegex"], place))
    _set(monkeypatch, KEYS)
    request, _ = await _ask(settings={"region": place})
    assert request.url.startswith(f"https://bedrock-runtime.{place}.{suffix}/model/")
    assert f"/{place}/bedrock/aws4_request" in request.headers["Authorization"]


@pytest.mark.parametrize(
    "name",
    [
        "inference-profile/us.anthropic.claude-sonnet-5-5",
        "inference-profile/global.anthropic.claude-sonnet-5-5",
        "foundation-model/anthropic.claude-sonnet-5-5",
    ],
)
def test_an_arn_has_the_prices_of_the_model_that_it_ends_in(name: str) -> None:
    catalog = Catalog(Host())
    by_arn = catalog.resolve(f"bedrock/arn:aws:bedrock:us-east-1:123456789012:{name}").info
    by_id = catalog.resolve(f"bedrock/{name.partition('/')[2]}").info
    assert by_arn is not None
    assert by_id is not None
    assert by_arn.prices == by_id.prices
    assert by_arn.prices is not None


def test_an_arn_of_a_profile_of_ones_own_has_no_prices() -> None:
    assert Catalog(Host()).resolve(f"bedrock/{PROFILE}").info is None


async def test_the_date_is_that_of_the_providers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, KEYS)
    http = MemoryHTTPClient(_answer())
    async with Client(http=http, retry=RetryPolicy.none()) as client:
        provider: Any = client.host.bind("bedrock").provider
        provider.now = lambda: datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
        await client.complete(NOVA, "Hi")
    assert http.requests[0].headers["X-Amz-Date"] == "20260203T040506Z"
    assert "/20260203/eu-west-1/bedrock/" in http.requests[0].headers["Authorization"]


async def test_a_secret_that_the_answer_repeats_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, {**KEYS, "AWS_SESSION_TOKEN": "a-session-token"})
    words = f"no {KEYS['AWS_SECRET_ACCESS_KEY']} and no a-session-token here"
    http = MemoryHTTPClient(MemoryResponse.of_json({"message": words}, 400))
    async with (
        Client(http=http, retry=RetryPolicy.none()) as client,
        client.stream(NOVA, "Hi") as stream,
    ):
        last = [event async for event in stream][-1]
    assert isinstance(last, Error)
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in last.error_message
    assert "a-session-token" not in last.error_message


# -- options ---------------------------------------------------------------------------------


async def test_extra_fields_join_those_of_the_options() -> None:
    guardrail = {"guardrailIdentifier": "g", "guardrailVersion": "1"}
    request, _ = await _ask(
        HAIKU,
        api_key="test",
        base_url=OTHER,
        max_tokens=9,
        thinking="low",
        extra={
            "guardrailConfig": guardrail,
            "inferenceConfig": {"maxTokens": 1, "stopSequences": ["x"]},
            "additionalModelRequestFields": {"top_k": 4, "thinking": {"type": "enabled"}},
        },
    )
    body = msgspec.json.decode(request.body)
    assert body["guardrailConfig"] == guardrail
    assert body["inferenceConfig"] == {"maxTokens": 9, "stopSequences": ["x"]}
    assert body["additionalModelRequestFields"] == {
        "top_k": 4,
        "thinking": {"type": "adaptive", "display": "summarized"},
    }


async def test_notices_come_before_the_answer() -> None:
    _, events = await _ask(api_key="test", base_url=OTHER, seed=1, cache="auto", thinking=0)
    assert [event for event in events if isinstance(event, Notice)] == [
        Notice("option_ignored", f"{NOVA} has no option seed; it was not sent", ("options.seed",))
    ]
    assert isinstance(events[-1], Done)
