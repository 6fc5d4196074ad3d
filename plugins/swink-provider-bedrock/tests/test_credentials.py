"""Where keys come from, in which order, and how they are renewed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

import pytest
from converse import CONTENT_TYPE, TEXT, said

from swink_core import Done, Error, ProviderFailure, RetryPolicy
from swink_core import StreamErrorKind as Kind
from swink_provider_bedrock import credentials as module
from swink_provider_bedrock.credentials import AccessKeys, SharedFiles, access_keys, region
from swink_provider_bedrock.sigv4 import Credentials
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

needs_botocore = pytest.mark.skipif(
    find_spec("botocore") is None, reason="botocore is not installed"
)

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "env-secret"}


class _Files:
    """The shared files of a test, and the variables that lead to them."""

    def __init__(self, folder: Path) -> None:
        self.config, self.credentials = folder / "config", folder / "credentials"
        self.environ = {
            "AWS_CONFIG_FILE": str(self.config),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.credentials),
        }


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Files:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    found = _Files(tmp_path)
    for name, value in found.environ.items():  # botocore reads them by itself
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return found


def test_files_in_a_home_that_nobody_has_are_absent() -> None:
    nowhere = {"AWS_CONFIG_FILE": "~nobody-here/x", "AWS_SHARED_CREDENTIALS_FILE": "~nobody-here/y"}
    assert region(SharedFiles(), {**nowhere, "AWS_REGION": "eu-west-1"}) == "eu-west-1"
    assert region(SharedFiles(), nowhere) is None


async def _get(environ: dict[str, str]) -> Credentials:
    return (await _token(environ)).keys


async def _token(environ: dict[str, str]) -> AccessKeys:
    found: Any = access_keys(environ)
    return found if isinstance(found, AccessKeys) else await found.fetch(None)


def _section(title: str, key: str, *more: str) -> str:
    lines = [f"[{title}]", f"aws_access_key_id = {key}", f"aws_secret_access_key = {key}-secret"]
    return "\n".join([*lines, *more, ""])


ORDER: list[tuple[str, dict[str, str], str, str, Credentials]] = [
    (
        "keys of the environment",
        ENVIRONMENT,
        "",
        _section("default", "file"),
        Credentials("env", "env-secret"),
    ),
    (
        "a session of the environment",
        {**ENVIRONMENT, "AWS_SESSION_TOKEN": "t"},
        "",
        "",
        Credentials("env", "env-secret", "t"),
    ),
    (
        "a token that is empty",
        {**ENVIRONMENT, "AWS_SESSION_TOKEN": ""},
        "",
        "",
        Credentials("env", "env-secret"),
    ),
    (
        "half of a pair",
        {"AWS_ACCESS_KEY_ID": "env"},
        "",
        _section("default", "file"),
        Credentials("file", "file-secret"),
    ),
    (
        "the default profile",
        {},
        "",
        _section("default", "file", "aws_session_token = t%=t"),
        Credentials("file", "file-secret", "t%=t"),
    ),
    (
        "the config file",
        {},
        _section("default", "config"),
        "",
        Credentials("config", "config-secret"),
    ),
    (
        "the config file's other name for it",
        {},
        _section("default", "older") + _section("profile default", "config"),
        "",
        Credentials("config", "config-secret"),
    ),
    (
        "both files",
        {},
        _section("default", "config"),
        _section("default", "file"),
        Credentials("file", "file-secret"),
    ),
    (
        "a token that belongs to another key",
        {},
        _section("default", "config", "aws_session_token = t"),
        _section("default", "file"),
        Credentials("file", "file-secret"),
    ),
    (
        "a named profile",
        {"AWS_PROFILE": "work"},
        "",
        _section("default", "file") + _section("work", "work"),
        Credentials("work", "work-secret"),
    ),
    (
        "a named profile of the config file",
        {"AWS_DEFAULT_PROFILE": "work"},
        _section("profile work", "work", "region = eu-west-1", "s3 =", "  max = 3"),
        "",
        Credentials("work", "work-secret"),
    ),
]


@pytest.mark.parametrize(
    ("name", "environ", "config", "credentials", "expected"), ORDER, ids=[row[0] for row in ORDER]
)
async def test_the_order_in_which_keys_are_looked_for(
    name: str,
    environ: dict[str, str],
    config: str,
    credentials: str,
    expected: Credentials,
    files: _Files,
) -> None:
    if config:
        files.config.write_text(config)
    if credentials:
        files.credentials.write_text(credentials)
    assert await _get({**files.environ, **environ}) == expected


@pytest.mark.parametrize(
    ("environ", "config", "expected"),
    [
        ({"AWS_REGION": "a", "AWS_DEFAULT_REGION": "b"}, "[default]\nregion = c", "a"),
        ({"AWS_REGION": "", "AWS_DEFAULT_REGION": "b"}, "[default]\nregion = c", "b"),
        ({}, "[default]\nregion = c", "c"),
        ({}, "", None),
        ({"AWS_REGION": "a", "AWS_PROFILE": "nowhere"}, "", "a"),
    ],
)
def test_the_order_in_which_a_region_is_looked_for(
    environ: dict[str, str], config: str, expected: str | None, files: _Files
) -> None:
    files.config.write_text(config)
    assert region(SharedFiles(), {**files.environ, **environ}) == expected


async def test_a_named_profile_has_to_exist(files: _Files) -> None:
    files.credentials.write_text(_section("default", "file"))
    with pytest.raises(ProviderFailure, match='has a profile "work"') as caught:
        await _get({**files.environ, "AWS_PROFILE": "work"})
    assert caught.value.failure.kind is Kind.AUTH


async def test_a_file_that_does_not_parse_is_named_and_not_quoted(files: _Files) -> None:
    files.credentials.write_text("aws_secret_access_key = a-secret-without-a-section\n")
    with pytest.raises(ProviderFailure, match="credentials cannot be read") as caught:
        await _get(files.environ)
    assert "a-secret" not in str(caught.value)


# -- what botocore finds ---------------------------------------------------------------------


def _process(files: _Files, keys: dict[str, Any], section: str = "default") -> Path:
    """Configure a credential process that counts its calls."""
    script, count = files.config.parent / "keys.py", files.config.parent / "count"
    answer = json.dumps({"Version": 1, **keys})
    script.write_text(f"open({str(count)!r}, 'a').write('x')\nprint({answer!r})\n")
    files.config.write_text(f"[{section}]\ncredential_process = {sys.executable} {script}\n")
    return count


FROM_PROCESS = {"AccessKeyId": "process", "SecretAccessKey": "s", "SessionToken": "t"}
SOON = {**FROM_PROCESS, "Expiration": "2000-01-01T00:00:00Z"}
LATE = {**FROM_PROCESS, "Expiration": "2999-01-01T00:00:00Z"}


@needs_botocore
async def test_a_process_is_left_to_botocore_and_tells_how_long_its_keys_are_good(
    files: _Files,
) -> None:
    count = _process(files, LATE)
    found = await _token(files.environ)
    assert (found.keys, count.read_text()) == (Credentials("process", "s", "t"), "x")
    assert 9e9 < found.seconds < 1e12


@needs_botocore
async def test_keys_without_an_end_are_good_for_ever(files: _Files) -> None:
    _process(files, FROM_PROCESS)
    assert (await _token(files.environ)).seconds == inf


@needs_botocore
async def test_calls_share_the_keys_of_a_process(
    files: _Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    count = _process(files, LATE)
    http = MemoryHTTPClient(*(_answer() for _ in range(6)))
    async with client_with(http=http, **OPTIONS) as client:
        for _ in range(2):
            await asyncio.gather(*(client.complete("bedrock/any", "Hi") for _ in range(3)))
    assert count.read_text() == "x"


async def test_keys_that_cannot_be_renewed_are_a_failure(files: _Files) -> None:
    _process(files, SOON)
    with pytest.raises(ProviderFailure) as caught:
        await _get(files.environ)
    assert caught.value.failure.kind is Kind.AUTH
    assert "botocore" in str(caught.value)


@needs_botocore
async def test_changing_the_profile_changes_the_keys(
    files: _Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    _process(files, LATE, "profile work")
    files.credentials.write_text(_section("default", "file"))
    assert (await _get(files.environ)).access_key == "file"
    monkeypatch.setenv("AWS_PROFILE", "work")
    work = {**files.environ, "AWS_PROFILE": "work"}
    assert (await _get(work)).access_key == "process"
    assert access_keys(work) != access_keys(files.environ)


class _Container(LoopbackServer):
    async def respond(self, exchange: Exchange) -> None:
        keys = {"AccessKeyId": "container", "SecretAccessKey": "s", "Token": "t"}
        await exchange.start(200, {"Content-Type": "application/json"})
        body = json.dumps({**keys, "Expiration": "2999-01-01T00:00:00Z"})
        await exchange.write(body.encode())
        await exchange.end()


@needs_botocore
async def test_a_containers_keys(files: _Files, monkeypatch: pytest.MonkeyPatch) -> None:
    with _Container() as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/keys")
        assert await _get(files.environ) == Credentials("container", "s", "t")


ASSUMED = """<AssumeRoleWithWebIdentityResponse
  xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
  <AccessKeyId>web</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>
  <Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""


class _TokenService(LoopbackServer):
    async def respond(self, exchange: Exchange) -> None:
        await exchange.start(200, {"Content-Type": "text/xml"})
        await exchange.write(ASSUMED.encode())
        await exchange.end()


@needs_botocore
async def test_a_web_identity_outranks_a_profiles_keys(
    files: _Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.credentials.write_text(_section("default", "file"))
    (token := files.config.parent / "token").write_text("an-identity")
    with _TokenService() as server:
        variables = {
            "AWS_ENDPOINT_URL_STS": server.url,
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/reader",
            "AWS_REGION": "eu-west-1",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert await _get({**files.environ, **variables}) == Credentials("web", "s", "t")
        assert b"an-identity" in server.exchanges[0].body


class _Instance(LoopbackServer):
    """The metadata of an instance with a role.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/
    instance-metadata-security-credentials.html, with the session token of version 2.
    """

    async def respond(self, exchange: Exchange) -> None:
        answers = {
            "/latest/api/token": "session",
            "/latest/meta-data/iam/security-credentials/": "reader",
            "/latest/meta-data/iam/security-credentials/reader": json.dumps(
                {
                    "Code": "Success",
                    "LastUpdated": "2026-01-01T00:00:00Z",
                    "Type": "AWS-HMAC",
                    "AccessKeyId": "instance",
                    "SecretAccessKey": "s",
                    "Token": "t",
                    "Expiration": "2999-01-01T00:00:00Z",
                }
            ),
        }
        known = exchange.method == "PUT" or "session" in exchange.headers.values()
        await exchange.start(200 if known else 401, {"Content-Type": "text/plain"})
        await exchange.write(answers[exchange.path].encode())
        await exchange.end()


@needs_botocore
@pytest.mark.filterwarnings(  # what botocore's older ones call, Python 3.12 deprecates
    "ignore:datetime.datetime.utcnow:DeprecationWarning:botocore"
)
async def test_an_instances_keys(files: _Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    with _Instance() as server:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{server.url}/")
        found = await _get(files.environ)
    assert found == Credentials("instance", "s", "t")
    assert [exchange.method for exchange in server.exchanges] == ["PUT", "GET", "GET"]


SESSION = """[sso-session work]
sso_start_url = https://work.example/start
sso_region = eu-west-1
sso_registration_scopes = sso:account:access
"""
SINGLE_SIGN_ON = f"""[default]
sso_session = work
sso_account_id = 123456789012
sso_role_name = reader
{SESSION}"""
OLD_SINGLE_SIGN_ON = """[default]
sso_start_url = https://work.example/start
sso_region = eu-west-1
sso_account_id = 123456789012
sso_role_name = reader
"""


class _SignOn(LoopbackServer):
    """The portal's GetRoleCredentials.

    Source: https://docs.aws.amazon.com/singlesignon/latest/PortalAPIReference/
    API_GetRoleCredentials.html
    """

    async def respond(self, exchange: Exchange) -> None:
        keys = {"accessKeyId": "sso", "secretAccessKey": "s", "sessionToken": "t"}
        body = {"roleCredentials": {**keys, "expiration": 32_000_000_000_000}}  # milliseconds
        await exchange.start(200, {"Content-Type": "application/json"})
        await exchange.write(json.dumps(body).encode())
        await exchange.end()


SIGNED_IN = {
    "startUrl": "https://work.example/start",
    "region": "eu-west-1",
    "accessToken": "signed-in",
    "expiresAt": "2999-01-01T00:00:00Z",
}
"""The token file of `aws sso login`, named after the digest of the session's name."""

PRINT_KEYS = """
import asyncio
from swink_core import ProviderFailure
from swink_provider_bedrock.credentials import access_keys
try:
    found = asyncio.run(access_keys().fetch(None)).keys
    print(found.access_key, found.secret_key, found.token)
except ProviderFailure as error:
    print(error.failure.kind, error.failure.message)
"""


def _keys_at_home(home: Path) -> tuple[str, str]:
    """Finds keys in a process whose home this is: botocore looks for it when it is imported."""
    done = subprocess.run(
        [sys.executable, "-c", PRINT_KEYS],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("config", "name"),
    [(SINGLE_SIGN_ON, "work"), (OLD_SINGLE_SIGN_ON, "https://work.example/start")],
    ids=["a session", "the older form"],
)
@needs_botocore
def test_single_sign_on_outranks_a_profiles_keys(
    config: str, name: str, files: _Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files.config.write_text(config)
    files.credentials.write_text(_section("default", "file"))
    (cache := tmp_path / ".aws" / "sso" / "cache").mkdir(parents=True)
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    (cache / f"{digest}.json").write_text(json.dumps(SIGNED_IN))
    with _SignOn() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", server.url)
        assert _keys_at_home(tmp_path) == ("sso s t", "")
    (asked,) = server.exchanges
    assert asked.query == {"role_name": "reader", "account_id": "123456789012"}
    assert asked.headers["x-amz-sso_bearer_token"] == "signed-in"


@needs_botocore
def test_single_sign_on_without_a_sign_in_says_so_without_a_traceback(
    files: _Files, tmp_path: Path
) -> None:
    files.config.write_text(SINGLE_SIGN_ON)
    said, complaints = _keys_at_home(tmp_path)
    assert said.startswith("auth botocore could not renew the credentials: Error loading SSO Token")
    assert complaints == ""


@needs_botocore
async def test_no_credentials_anywhere(files: _Files) -> None:
    with pytest.raises(ProviderFailure, match="neither the environment, a profile") as caught:
        await _get(files.environ)
    assert caught.value.failure.kind is Kind.AUTH


@pytest.mark.parametrize("setting", ["", "[default]\nsso_session = work\n"])
async def test_without_botocore_the_extra_is_named(
    setting: str, files: _Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    files.config.write_text(setting)
    monkeypatch.setattr(module, "import_module", missing)
    with pytest.raises(ProviderFailure, match=r"swink-provider-bedrock\[botocore\]"):
        await _get(files.environ)


# -- renewing --------------------------------------------------------------------------------

OVER = {"x-amzn-errortype": "ExpiredTokenException:http://internal.amazon.com/coral/"}
DENIED = {"x-amzn-errortype": "AccessDeniedException"}
OPTIONS: dict[str, Any] = {"base_url": "http://bedrock.invalid", "retry": RetryPolicy.none()}


def _answer() -> MemoryResponse:
    return MemoryResponse([said(TEXT)], headers={"Content-Type": CONTENT_TYPE})


def _refusal(status: int, headers: dict[str, str]) -> MemoryResponse:
    return MemoryResponse.of_json({"message": "The token is over"}, status, headers)


async def _ask(http: MemoryHTTPClient, files: _Files, between: str, **options: Any) -> Any:
    """Asks once with the first keys in the file, after which others stand there."""
    first = MemoryHTTPClient(_answer())
    async with client_with(http=first, **OPTIONS) as client:
        files.credentials.write_text(_section("default", "first", "region = eu-west-1"))
        await client.complete("bedrock/any", "Hi", **options)
        first.send = http.send  # type: ignore[method-assign]  # from now on
        files.credentials.write_text(_section("default", between, "region = eu-west-1"))
        async with client.stream("bedrock/any", "Hi", **options) as stream:
            return [event async for event in stream][-1]


@pytest.mark.parametrize(("status", "headers"), [(403, OVER), (401, {})])
async def test_a_session_that_is_over_is_renewed_once(
    status: int, headers: dict[str, str], files: _Files
) -> None:
    http = MemoryHTTPClient(_refusal(status, headers), _answer())
    assert isinstance(await _ask(http, files, "second"), Done)
    used = [request.headers["Authorization"].split("/")[0] for request in http.requests]
    assert used == [f"AWS4-HMAC-SHA256 Credential={key}" for key in ("first", "second")]


async def test_it_is_not_renewed_for_ever(files: _Files) -> None:
    http = MemoryHTTPClient(_refusal(403, OVER), _refusal(403, OVER))
    last = await _ask(http, files, "second")
    assert isinstance(last, Error)
    assert (last.error_kind, len(http.requests)) == (Kind.AUTH, 2)


@pytest.mark.parametrize(
    ("name", "headers", "options", "variables"),
    [
        ("what is not allowed", DENIED, {}, {}),
        ("a caller's own key", OVER, {"api_key": "mine"}, {}),
        ("keys of the environment", OVER, {}, ENVIRONMENT),
    ],
)
async def test_what_renewing_cannot_help_is_not_sent_again(
    name: str,
    headers: dict[str, str],
    options: dict[str, Any],
    variables: dict[str, str],
    files: _Files,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    http = MemoryHTTPClient(_refusal(403, headers))
    last = await _ask(http, files, "second", **options)
    assert isinstance(last, Error)
    assert (last.error_kind, len(http.requests)) == (Kind.AUTH, 1)
