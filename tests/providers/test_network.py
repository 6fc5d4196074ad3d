"""Addresses of this machine and of private networks, and the exceptions of aiohttp."""

from __future__ import annotations

import errno
from typing import Any

import aiohttp
import pytest
from yarl import URL

from swink_core import StreamErrorKind as Kind
from swink_core.providers.network import failure_of, is_own_address

# (address, whether it is this machine, whether it is this machine or a private network)
ADDRESSES: list[tuple[str, bool, bool]] = [
    ("http://localhost", True, True),
    ("http://LOCALHOST:8080/v1", True, True),
    ("http://box.localhost", True, True),
    ("http://127.0.0.1:9", True, True),
    ("http://127.8.0.1", True, True),
    ("http://[::1]:9", True, True),
    ("http://10.0.0.1", False, True),
    ("http://192.168.1.2", False, True),
    ("http://[fd00::1]", False, True),
    ("http://8.8.8.8", False, False),
    ("http://notlocalhost", False, False),
    ("http://localhost.example", False, False),
    ("http:///v1", False, False),
]


@pytest.mark.parametrize(("url", "own", "private"), ADDRESSES, ids=[row[0] for row in ADDRESSES])
def test_an_address_is_of_this_machine_or_of_a_private_network(
    url: str, own: bool, private: bool
) -> None:
    assert is_own_address(url) is own
    assert is_own_address(url, private=True) is private


REQUEST: Any = aiohttp.RequestInfo(URL("http://a.invalid"), "POST", {}, URL())  # type: ignore[arg-type]
PLACE: Any = aiohttp.client_reqrep.ConnectionKey("a.invalid", 443, True, True, None, None, None)


def compressed() -> Exception:
    error = aiohttp.ClientPayloadError("400")
    error.__cause__ = aiohttp.http_exceptions.ContentEncodingError("deflate")
    return error


# (what aiohttp raises, kind, code, message)
RAISED: list[tuple[Exception, Kind, str, str]] = [
    (aiohttp.ServerDisconnectedError(), Kind.NETWORK, "disconnected",
     "the server closed the connection without an answer"),
    (aiohttp.ClientPayloadError("400"), Kind.NETWORK, "connection",
     "the connection was closed before the end of the response"),
    (compressed(), Kind.PROTOCOL, "encoding", "the response cannot be decompressed"),
    (aiohttp.ClientResponseError(REQUEST, (), message="no HTTP"), Kind.PROTOCOL, "http", "no HTTP"),
    (aiohttp.ClientConnectorError(PLACE, OSError(errno.EMFILE, "x")), Kind.RESOURCE,
     "no_descriptors", "too many open files"),
    (aiohttp.ServerTimeoutError("slow"), Kind.TIMEOUT, "connect",
     "no connection within the connect timeout"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "kind", "code", "message"), RAISED, ids=lambda value: repr(value)[:40]
)
def test_what_aiohttp_raises_has_a_kind_a_code_and_a_message(
    error: Exception, kind: Kind, code: str, message: str
) -> None:
    failure = failure_of(error, "streaming")
    assert (failure.phase, failure.kind, failure.code) == ("streaming", kind, code)
    assert failure.message == message
    assert failure.exception is error
