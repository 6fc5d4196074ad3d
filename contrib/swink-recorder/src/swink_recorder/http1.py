"""Parse and format HTTP/1.1 (RFC 9112) for the loopback server, without sockets."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

__all__ = ["Request", "chunked_head", "take_request"]

_OWN = frozenset({"content-length", "transfer-encoding", "content-encoding", "connection"})
"""Headers of a recorded response that are not replayed, because the server sets its own."""

Request = tuple[str, str, dict[str, str], bytes]
"""A request: method, target, headers by lower-case names, body."""


def take_request(data: bytearray) -> Request | None:
    """Remove a request from the input and return it; return `None` if the input is incomplete."""
    head, blank, _ = data.partition(b"\r\n\r\n")
    if not blank:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _version = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    start = len(head) + 4
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body, end = _unchunk(data, start)
        if end is None:
            return None
    else:
        end = start + int(headers.get("content-length", "0"))
        if len(data) < end:
            return None
        body = bytes(data[start:end])
    del data[:end]
    return method, target, headers, body


def _unchunk(data: bytearray, at: int) -> tuple[bytes, int | None]:
    """Return the data of a chunked body (RFC 9112 section 7.1), and the offset at which it ends.

    The offset is `None` if the end of the body has not arrived.
    """
    body = b""
    while (line := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line].partition(b";")[0], 16)
        at = line + 2 + size + 2
        if len(data) < at:
            break
        if size == 0:
            return body, at
        body += data[line + 2 : line + 2 + size]
    return body, None


def chunked_head(status: int, headers: Mapping[str, str]) -> bytes:
    """Format a response's head; its body follows in chunks."""
    lines = [f"HTTP/1.1 {status} {_reason(status)}"]
    lines += [f"{name}: {value}" for name, value in headers.items() if name.lower() not in _OWN]
    return "\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode("latin-1")


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Other"
