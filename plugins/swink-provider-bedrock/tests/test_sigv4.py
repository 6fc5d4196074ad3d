"""Signatures: AWS's vectors, botocore's opinion, and what the wire makes of a signed request."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from yarl import URL

from swink_provider_bedrock.sigv4 import (
    Credentials,
    authorization,
    canonical_request,
    signed_headers,
    string_to_sign,
)
from swink_test_helpers.corpus import Case, cases, ids

NOW = datetime(2026, 11, 20, 9, 5, 7, tzinfo=UTC)
KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "a/session+token==")


class _Vector:
    """A case of AWS's test suite: a request as text, with each step of its signature."""

    def __init__(self, case: Case) -> None:
        data = json.loads(case.body)
        self.context: dict[str, Any] = data["context"]
        self.files: dict[str, str] = data["files"]
        head, _, body = self.files["request.txt"].partition("\n\n")
        start, *lines = head.rstrip("\n").split("\n")
        self.body = body.encode()
        self.method, target = start.removesuffix(" HTTP/1.1").split(" ", 1)
        self.url = f"https://example.amazonaws.com{target}"
        self.headers: list[tuple[str, str]] = []
        for line in lines:
            name, _, value = line.partition(":")
            if line.startswith(" "):  # a value that goes on
                name, value = self.headers.pop()
                value = f"{value}\n{line}"
            self.headers.append((name, value))
        self.stamp = self.context["timestamp"].replace("-", "").replace(":", "")
        self.headers.append(("X-Amz-Date", self.stamp))
        token = self.context["credentials"].get("token")
        if token and not self.context.get("omit_session_token"):
            self.headers.append(("X-Amz-Security-Token", token))
        if self.context["sign_body"]:
            digest = hashlib.sha256(self.body).hexdigest()
            self.headers.append(("X-Amz-Content-Sha256", digest))


@pytest.mark.parametrize("case", cases("sigv4"), ids=ids)
def test_every_step_of_every_vector(case: Case) -> None:
    vector = _Vector(case)
    context, files = vector.context, vector.files
    request = canonical_request(
        vector.method, vector.url, vector.headers, vector.body, normalize=context["normalize"]
    )
    assert request == files["header-canonical-request.txt"]

    scope = f"{vector.stamp[:8]}/{context['region']}/{context['service']}/aws4_request"
    text = string_to_sign(request, vector.stamp, scope)
    assert text == files["header-string-to-sign.txt"]

    keys = context["credentials"]
    credentials = Credentials(keys["access_key_id"], keys["secret_access_key"])
    names = request.split("\n")[-2]
    signed = authorization(credentials, text, scope, names)
    assert signed.endswith(f"Signature={files['header-signature.txt'].strip()}")
    assert f"Authorization:{signed}\n" in files["header-signed-request.txt"]


def _ours(url: str, headers: dict[str, str], body: bytes, keys: Credentials) -> dict[str, str]:
    return signed_headers(
        "POST", url, headers, body, credentials=keys, region="eu-west-1", service="bedrock", now=NOW
    )


def _botocores(url: str, headers: dict[str, str], body: bytes, keys: Credentials) -> dict[str, str]:
    """Sign the same request with botocore at the same time."""
    pytest.importorskip("botocore", reason="botocore is not installed")
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials as BotocoreCredentials

    request = AWSRequest("POST", url, headers=headers, data=body)
    given = BotocoreCredentials(keys.access_key, keys.secret_key, keys.token)
    auth = SigV4Auth(given, "bedrock", "eu-west-1")
    request.context["timestamp"] = NOW.strftime("%Y%m%dT%H%M%SZ")
    request.headers["X-Amz-Date"] = request.context["timestamp"]
    if keys.token:
        request.headers["X-Amz-Security-Token"] = keys.token
    canonical = auth.canonical_request(request)
    text = auth.string_to_sign(request, canonical)
    signed = f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders="
    signed += f"{auth.signed_headers(auth.headers_to_sign(request))}, Signature="
    request.headers["Authorization"] = signed + auth.signature(text, request)
    names = ("X-Amz-Date", "X-Amz-Security-Token", "Authorization")
    return {name: request.headers[name] for name in names if name in request.headers}


def test_slashes_in_the_name_of_an_s3_object_are_signed() -> None:
    signed = [
        signed_headers(
            "PUT", f"https://rows.s3.eu-west-1.amazonaws.com/{key}", {}, b"",
            credentials=Credentials("AKID", "secret"), region="eu-west-1", service="s3", now=NOW,
        )
        for key in ("folder/rows", "folder//rows")
    ]  # fmt: skip
    assert signed[0] != signed[1]


JSON = {"Content-Type": "application/json"}
HOST = "https://bedrock-runtime.eu-west-1.amazonaws.com"
REQUESTS: list[tuple[str, str, dict[str, str], bytes]] = [
    ("a model's id", f"{HOST}/model/anthropic.claude-v1:0/converse-stream", JSON, b"{}"),
    ("an escaped slash", f"{HOST}/model/arn:aws:bedrock::1:x%2Fy/converse", JSON, b'{"a":1}'),
    ("escaped characters", f"{HOST}/model/a%3Ab%20c%25/converse", JSON, "ä€😀".encode()),
    ("a non-default port", "http://127.0.0.1:8080/model/a/converse", JSON, b""),
    ("the usual port", "https://example.com:443/model/a/converse", JSON, b""),
    ("a path before it", "http://localhost/v1/gateway/model/a/converse", JSON, b""),
    ("headers to fold", f"{HOST}/", {**JSON, "X-Amz-Meta": "  a   b\tc  "}, b""),
    ("no header", f"{HOST}/", {}, b""),
    ("a query", f"{HOST}/x?b=2&a=1&a=0&empty=&bare", JSON, b""),
]


@pytest.mark.parametrize("token", [None, KEYS.token], ids=["a key", "a session"])
@pytest.mark.parametrize(("name", "url", "headers", "body"), REQUESTS)
def test_botocore_signs_alike(
    name: str, url: str, headers: dict[str, str], body: bytes, token: str | None
) -> None:
    keys = Credentials(KEYS.access_key, KEYS.secret_key, token)
    assert _ours(url, headers, body, keys) == _botocores(url, headers, body, keys)


_SEGMENTS = st.lists(
    st.text(st.sampled_from("abzAZ019-._~:@!$&'()*+,;=%2F"), min_size=1, max_size=12), max_size=4
)
_VALUES = st.text(st.sampled_from("abc 09=/+;,\t"), max_size=20)


@given(
    _SEGMENTS,
    st.dictionaries(st.sampled_from(["X-Amz-A", "x-amz-b", "Content-Type"]), _VALUES, max_size=3),
    st.binary(max_size=64),
)
def test_botocore_signs_any_request_alike(
    segments: list[str], headers: dict[str, str], body: bytes
) -> None:
    assume(segments[-1:] not in (["."], [".."]))  # see the next test
    url = f"{HOST}/{'/'.join(segments)}"
    assert _ours(url, headers, body, KEYS) == _botocores(url, headers, body, KEYS)


@pytest.mark.parametrize("path", ["/0/.", "/0/..", "/a/b/..", "/a/./b", "/a/../b", "/.", "/.."])
def test_a_path_with_dots_is_signed_as_aiohttp_sends_it(path: str) -> None:
    """botocore signs `/0` for `/0/.`, which aiohttp sends as `/0/`."""
    sent = URL(f"{HOST}{path}")
    assert _ours(f"{HOST}{path}", {}, b"", KEYS) == _ours(f"{HOST}{sent.raw_path}", {}, b"", KEYS)


def test_a_repr_shows_no_secret() -> None:
    assert repr(KEYS) == "Credentials(access_key='AKIDEXAMPLE')"
