"""Authentication, and protection from other sites' pages."""

from __future__ import annotations

import asyncio
import pickle
import socket
from hashlib import sha256
from typing import Any

import aiohttp
import pytest
from serving import ask, serving

import swink_core as swink
from swink_gateway.policy.access import NO_KEY, Guard, is_loopback
from swink_gateway.serving.server import Gateway

HI = {"model": "echo/echo", "stream": False, "messages": [{"role": "user", "content": "Hi"}]}
PUBLIC = ("/health", "/ready")


def routes(gateway: Gateway) -> list[str]:
    """Return a path of each route, and one that does not exist."""
    app = gateway._runner.app
    assert app is not None
    names = {"{version}": "v1", "{model}": "echo/echo"}
    paths = [resource.canonical for resource in app.router.resources()]
    for name, value in names.items():
        paths = [path.replace(name, value) for path in paths]
    assert {"/v1/stream", "/v1/messages", "/v1/responses", "/api/chat"} < set(paths)
    methods = ("generateContent", "streamGenerateContent", "countTokens")
    return ["/nowhere", *(path.replace("{method}", one) for path in paths for one in methods)]


STRANGERS = [
    {"Host": "evil.example"},
    {"Host": "evil.example:8117"},
    {"Host": "127.0.0.1.evil.example"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://[bad"},
]


@pytest.mark.parametrize("headers", STRANGERS, ids=lambda h: "-".join(*h.items()))
async def test_another_sites_request_is_refused_on_every_route(headers: dict[str, str]) -> None:
    async with serving() as gateway:
        for path in dict.fromkeys(routes(gateway)):
            for method in ("GET", "HEAD", "POST"):
                answer = await ask(gateway, path, HI, method=method, headers=headers)
                assert answer.status == 403, path


async def test_a_form_that_another_site_posts_is_refused_on_every_route() -> None:
    headers = {"Content-Type": "text/plain", "Origin": "http://evil.example"}
    async with serving() as gateway:
        for path in dict.fromkeys(routes(gateway)):
            assert (await ask(gateway, path, HI, headers=headers)).status == 403, path


async def test_a_websocket_of_another_site_is_refused() -> None:
    async with serving() as gateway, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(
                f"{gateway.url}/v1/responses", headers={"Origin": "http://evil.example"}
            )
    assert refused.value.status == 403


async def test_its_own_page_and_a_configured_host_are_accepted() -> None:
    async with serving(hosts=["gateway.test"]) as gateway:
        own = {"Origin": gateway.url}
        assert (await ask(gateway, "/v1/stream", HI, headers=own)).status == 200
        named = {"Host": "gateway.test:80", "Origin": "https://gateway.test:80"}
        assert (await ask(gateway, "/v1/stream", HI, headers=named)).status == 200


OWN_NAME = socket.gethostname()
# (the address to listen on, the keys, the header Host, whether the request is answered)
HOSTS = [
    ("0.0.0.0", ["k1"], "192.0.2.2:8117", True),
    ("0.0.0.0", ["k1"], "[2001:db8::1]:8117", True),
    ("0.0.0.0", ["k1"], f"{OWN_NAME}:8117", True),
    ("0.0.0.0", ["k1"], "evil.example:8117", False),
    ("0.0.0.0", ["k1"], "192.0.2.2.evil.example", False),
    ("127.0.0.1", ["k1"], "192.0.2.2:8117", False),
    ("127.0.0.1", [], "192.0.2.2:8117", False),
    ("127.0.0.1", [], f"{OWN_NAME}:8117", OWN_NAME == "localhost"),
]


@pytest.mark.parametrize(("address", "keys", "host", "is_answered"), HOSTS)
async def test_a_public_gateway_with_keys_accepts_its_name_and_addresses(
    address: str, keys: list[str], host: str, is_answered: bool
) -> None:
    async with serving(host=address, keys=keys) as gateway:
        headers = {"Host": host, "x-api-key": "k1"}
        answer = await ask(gateway, "/v1/models", headers=headers)
    assert answer.status == (200 if is_answered else 403)


KEYS = [
    ({"Authorization": "Bearer k1"}, 200),
    ({"Authorization": "Bearer k2"}, 200),
    ({"x-api-key": "k1"}, 200),
    ({"x-goog-api-key": "k1"}, 200),
    ({"Authorization": "Bearer wrong", "x-api-key": "k1"}, 200),
    ({"Authorization": "bearer k2"}, 200),
    ({"Authorization": "BEARER  k2"}, 200),
    ({"Authorization": "Bearer k"}, 401),
    ({"Authorization": "Bearer "}, 401),
    ({"x-api-key": "k1k1"}, 401),
    ({}, 401),
]


@pytest.mark.parametrize(("headers", "status"), KEYS)
async def test_a_key_is_accepted_in_each_vendors_header(
    headers: dict[str, str], status: int
) -> None:
    async with serving(keys=["k1", "k2"]) as gateway:
        assert (await ask(gateway, "/v1/stream", HI, headers=headers)).status == status


# (headers, path, status, advice)
ADVISED = [
    ({"Host": "evil.example"}, "/v1/models", 403, "can add a host with --name"),
    ({"Host": "evil.example:1"}, "/v1/models", 403, "the Host 'evil.example:1' is not allowed"),
    ({"Origin": "http://a.test"}, "/v1/models", 403, "the Origin 'http://a.test' is not allowed"),
    ({}, "/v1/models", 401, "send it as Authorization: Bearer, x-api-key or x-goog-api-key"),
    ({"x-api-key": "k1"}, "/v1/models/nope", 404, "GET /v1/models lists the models"),
    (
        {"x-api-key": "k1", "Content-Encoding": "gzip"},
        "/v1/models",
        415,
        "without Content-Encoding",
    ),
    (
        {"x-api-key": "k1", "Transfer-Encoding": "gzip, chunked"},
        "/v1/models",
        501,
        "chunked is the only Transfer-Encoding",
    ),
]


def test_a_wrong_key_has_the_words_by_which_litellm_recognizes_it() -> None:
    assert "Incorrect API key provided" in NO_KEY


@pytest.mark.parametrize(("headers", "path", "status", "advice"), ADVISED)
async def test_refusals_have_advice(
    headers: dict[str, str], path: str, status: int, advice: str
) -> None:
    async with serving(keys=["k1"]) as gateway:
        answer = await ask(gateway, path, headers=headers)
    assert answer.status == status
    assert advice in answer.json["error"]["message"]


@pytest.mark.parametrize(("headers", "status"), [KEYS[0], *KEYS[2:4], KEYS[-1]])
async def test_every_route_requires_a_key_in_any_header(
    headers: dict[str, str], status: int
) -> None:
    async with serving(keys=["k1"]) as gateway:
        for path in dict.fromkeys(routes(gateway)):
            for body in (None, b"{}"):
                answer = await ask(gateway, path, body, headers=headers)
                is_refused = NO_KEY in answer.body.decode()
                assert is_refused is (status == 401 and path not in PUBLIC), path
                if is_refused:
                    assert answer.status == (400 if ":" in path else 401), path
                    assert answer.headers["x-should-retry"] == "false"


GOOGLES = {
    "code": 400,
    "message": f"API key not valid. {NO_KEY}",
    "status": "INVALID_ARGUMENT",
    "details": [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
        }
    ],
}
OPENAIS = {
    "message": NO_KEY,
    "type": "invalid_request_error",
    "param": None,
    "code": "invalid_api_key",
}
FORMS = {
    "/v1/chat/completions": {"error": OPENAIS},
    "/v1/responses": {"error": OPENAIS},
    "/v1/messages": {
        "type": "error",
        "error": {"type": "authentication_error", "message": NO_KEY, "code": 401},
    },
    "/v1beta/models/echo/echo:streamGenerateContent": {"error": GOOGLES},
    "/api/chat": {"error": NO_KEY},
}


@pytest.mark.parametrize("path", FORMS)
async def test_a_wrong_key_is_refused_in_the_error_format_of_the_api(path: str) -> None:
    async with serving(keys=["k1"]) as gateway:
        answer = await ask(gateway, path, b"{}")
    assert answer.json == FORMS[path]


def test_keys_are_stored_as_digests() -> None:
    guard = Guard(["first-secret", "second-secret"])
    assert b"secret" not in pickle.dumps(vars(guard))


@pytest.mark.parametrize("count", [10, 100_000])
def test_a_key_is_found_by_a_single_digest_lookup(count: int) -> None:
    class Looked(dict[bytes, str]):
        looks = 0

        def get(self, *key: Any) -> Any:
            self.looks += 1
            return super().get(*key)

        def __iter__(self) -> Any:
            raise AssertionError("no key is compared with all others")

        items = values = keys = __iter__  # type: ignore[assignment]

    guard = Guard()
    guard.owners = {sha256(b"%d" % number).digest(): str(number) for number in range(count)}
    guard._known = known = Looked(guard._known)
    assert guard.owner({"Authorization": "Bearer 7"}, {}) == "7"
    assert guard.owner({"x-api-key": "nobody's"}, {}) is None
    assert known.looks == 2


EXPECTING = b"Expect: 100-continue\r\n"

# (a client's key, the size of the body, further headers, the status of the first response)
HEADS = [
    (b"wrong", 30_000_000, b"", b"401"),
    (b"wrong", 30_000_000, EXPECTING, b"401"),
    (b"k1", 30_000_000, EXPECTING, b"100"),
    (b"k1", 30_000_000, b"Expect: anything\r\n", b"417"),
    (b"wrong", 50_000_000, EXPECTING, b"401"),
    (b"k1", 50_000_000, EXPECTING, b"413"),
    (b"k1", 50_000_000, b"", b"413"),
]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses", "/v1/embeddings", "/api/show"])
@pytest.mark.parametrize(("key", "size", "more", "status"), HEADS)
async def test_the_key_and_the_size_are_checked_before_the_body_is_read(
    path: str, key: bytes, size: int, more: bytes, status: bytes
) -> None:
    head = (
        b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\nx-api-key: %b\r\n%b\r\n"
        % (path.encode(), size, key, more)
    )
    async with serving(keys=["k1"]) as gateway:
        host, port = gateway.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head)
        assert (await reader.readline()).split()[1] == status
        if status == b"413":
            assert b"\r\nConnection: close\r\n" in await reader.readuntil(b"\r\n\r\n")
        writer.close()


def test_a_key_with_a_name_belongs_to_its_owner() -> None:
    guard = Guard(["both", "none"])
    guard.owners = {sha256(b"both").digest(): "alice"}
    owners = {key: guard.owner({"x-api-key": key}, {}) for key in ("both", "none", "another")}
    assert owners == {"both": "alice", "none": "", "another": None}


async def test_a_key_in_the_url_authenticates_a_browser() -> None:
    async with serving(keys=["k1"]) as gateway:
        assert (await ask(gateway, "/?key=k1")).status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.test"])
def test_other_machines_need_a_key(host: str) -> None:
    with pytest.raises(swink.SwinkError, match="no key"):
        Gateway(swink.Client(), host=host)
    Gateway(swink.Client(), host=host, keys=["k"])


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("LOCALHOST", True),
     ("0.0.0.0", False), ("localhost.evil.example", False), ("10.0.0.1", False)],
)  # fmt: skip
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


async def test_a_body_beyond_the_limit_is_refused_with_a_message() -> None:
    async with serving() as gateway:
        answer = await ask(gateway, "/v1/messages", b" " * (32 * 1024 * 1024 + 1))
    assert answer.status == 413
    assert answer.json["error"]["type"] == "request_too_large"
    assert answer.json["error"]["message"] == "the body has more than 33554432 bytes"
