"""Refuses connections to other machines while checks run, and reports their addresses.

An audit hook is called for every connection that Python opens, whichever library opens it. A plugin
may catch the error, so each refused address is also stored for the check's result.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

__all__ = ["is_here", "loopback_only"]

_HOSTS = ("", "localhost", "localhost.localdomain")

_watches: list[list[str]] = []
_installed = False


@contextmanager
def loopback_only() -> Iterator[list[str]]:
    """Refuse connections to other machines, and yield a list of the addresses that were refused."""
    global _installed
    if not _installed:
        sys.addaudithook(_audit)  # an audit hook cannot be removed
        _installed = True
    refused: list[str] = []
    _watches.append(refused)
    try:
        yield refused
    finally:
        _watches.remove(refused)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watches or not event.startswith("socket."):
        return
    host: object = None
    port: object = ""
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        if isinstance(address, tuple) and len(address) >= 2:
            host, port = address[:2]
    elif event == "socket.getaddrinfo":
        host, port = arguments[:2]
    elif event in ("socket.gethostbyname", "socket.gethostbyaddr"):
        host = arguments[0]
    if host is None or is_here(host):
        return
    name = host.decode("latin-1") if isinstance(host, bytes) else str(host)
    where = f"{name}:{port}" if port else name
    _watches[-1].append(where)
    raise ConnectionRefusedError(f"a check may not reach {where}")


def is_here(host: object) -> bool:
    """Return True if a host name or address refers to this machine."""
    name = host.decode("latin-1") if isinstance(host, bytes) else str(host)
    if name in _HOSTS or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False
