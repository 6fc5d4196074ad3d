"""Who may ask: keys, and pages of other sites that a browser lets send requests here.

A key comes as a bearer token or in the header that each vendor's clients use. A request is refused
whose `Host` is not this gateway's name (a name that was made to point here, "DNS rebinding"), or
whose `Origin` is another site's: browsers send both with whatever a page makes them send, forms
and WebSockets included.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

__all__ = ["Guard", "is_loopback"]


class Guard:
    """Says whether a request may be answered.

    `keys` are those that clients may show; none: everybody on this machine may ask. `hosts` are
    names beside loopback's by which the gateway is reached.
    """

    def __init__(self, keys: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]
        self._hosts = {host.lower() for host in hosts}

    @property
    def wants_key(self) -> bool:
        """Whether requests need a key."""
        return bool(self._digests)

    def knows(self, headers: Mapping[str, str], query: Mapping[str, str]) -> bool:
        """Tell whether a request shows a key that is one of ours, in the same time for any."""
        if not self._digests:
            return True
        shown = [
            headers.get("Authorization", "").removeprefix("Bearer ").strip(),
            headers.get("x-api-key", ""),
            headers.get("x-goog-api-key", ""),
            query.get("key", ""),
        ]
        pairs = [(_digest(key), ours) for key in shown if key for ours in self._digests]
        return sum(hmac.compare_digest(*pair) for pair in pairs) > 0

    def is_from_here(self, headers: Mapping[str, str]) -> bool:
        """Tell whether a request was meant for this gateway, and no other site's page made it."""
        host = headers.get("Host", "")
        name = _name(f"//{host}")
        if not name or not (is_loopback(name) or name in self._hosts):
            return False
        origin = headers.get("Origin")
        return origin is None or _place(origin) == host.lower()


def is_loopback(host: str) -> bool:
    """Tell whether an address or a name means this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _place(origin: str) -> str | None:
    """Return the host and port of an origin; `None` for one that is no address."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
