"""Print how the gateway answers malformed and hostile HTTP requests.

    python -m lab.findings.raw_requests

Each request is bytes on a socket. The gateway must refuse it with a fitting status, and answer
no hidden second request.
"""

from __future__ import annotations

import gzip
import re
import socket
from urllib.parse import urlsplit

from lab.findings.gateways import MODEL, gateway, key_of, owner, verdict
from lab.vendor import Vendor

KEY = key_of("alice").encode()

HEAD = b"Host: localhost\r\nAuthorization: Bearer " + KEY + b"\r\n"

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\n" + HEAD

MODELS = b"GET /v1/models HTTP/1.1\r\n"

CLOSE = b"Connection: close\r\n"

SECONDS = 8.0


def chat(body: bytes, headers: bytes = CLOSE) -> bytes:
    """Return a request with a body and its length."""
    return CHAT + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


def asks(model: bytes, content: bytes = b"Hi") -> bytes:
    """Return the body of a chat."""
    return b'{"model":"%s","messages":[{"role":"user","content":"%s"}]}' % (model, content)


GOOD = asks(MODEL.encode())

BOTH = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"

SMUGGLED = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

REQUESTS: dict[str, tuple[bytes, set[int]]] = {
    "a key in a header": (MODELS + HEAD + CLOSE + b"\r\n", {200}),
    "no key": (MODELS + b"Host: localhost\r\n" + CLOSE + b"\r\n", {401}),
    "an absolute address of another host": (
        b"GET http://evil.example/v1/models HTTP/1.1\r\n" + HEAD + CLOSE + b"\r\n",
        {200, 400, 403, 421},
    ),
    "two Hosts": (MODELS + b"Host: evil\r\n" + HEAD + CLOSE + b"\r\n", {400, 403, 421}),
    "length and chunks, and a second request": (CHAT + BOTH + SMUGGLED, {400}),
    "two lengths": (CHAT + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", {400}),
    "an unknown transfer coding": (
        CHAT + b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        {400, 501},
    ),
    "a space before the colon": (
        MODELS + b"Host: localhost\r\nAuthorization : Bearer " + KEY + b"\r\n\r\n",
        {400, 401},
    ),
    "a bearer in lower case": (
        MODELS + b"Host: localhost\r\nAuthorization: bearer " + KEY + b"\r\n" + CLOSE + b"\r\n",
        {200},
    ),
    "bytes in a header that are not UTF-8": (
        MODELS + b"Host: localhost\r\nAuthorization: Bearer \xff\xfe\r\n" + CLOSE + b"\r\n",
        {400, 401},
    ),
    "bytes in a body that are not UTF-8": (chat(asks(b"best", b"\xff\xfe")), {400}),
    "10,000 headers": (
        MODELS + HEAD + b"".join(b"X-%d: y\r\n" % number for number in range(10_000)) + b"\r\n",
        {400, 431},
    ),
    "an address of 100,000 characters": (
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
        {400, 414, 431},
    ),
    "nested arrays": (
        chat(b'{"model":"best","messages":' + b"[" * 90_000 + b"]" * 90_000 + b"}"),
        {400},
    ),
    "a number of a million digits": (
        chat(b'{"model":"best","max_tokens":' + b"9" * 1_000_000 + b',"messages":[]}'),
        {400},
    ),
    "gzip": (
        chat(gzip.compress(GOOD), CLOSE + b"Content-Encoding: gzip\r\n"),
        {200, 400, 415},
    ),
    "a line break in the model": (chat(asks(b"openai/x\\r\\nX: y")), {400, 404}),
    "a model of 600 characters": (chat(asks(b"openai/" + b"a" * 600)), {400, 404}),
    "a preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}),
    "five requests at once": (chat(GOOD, b"") * 4 + chat(GOOD), {200}),
}


def statuses(url: str, request: bytes) -> list[int]:
    """Send bytes, and return the statuses of all responses."""
    parts = urlsplit(url)
    received = b""
    with socket.create_connection((parts.hostname, parts.port or 80), SECONDS) as connection:
        try:
            connection.sendall(request)
            while data := connection.recv(65536):
                received += data
        except OSError:
            pass  # a response may have come before
    return [int(found) for found in re.findall(rb"HTTP/1\.[01] (\d{3}) ", received)]


def main() -> None:
    """Print one line for each request."""
    with Vendor() as vendor, gateway(vendor, owner("alice", models=["openai/*"])) as served:
        for name, (request, expected) in REQUESTS.items():
            found = statuses(served.url, request)
            many = 5 if name == "five requests at once" else 1
            right = len(found) == many and set(found) <= expected
            verdict(right, f"{name}: {found}")
        verdict(served.ask("/health", None).status == 200, "the gateway is healthy afterwards")


if __name__ == "__main__":
    main()
