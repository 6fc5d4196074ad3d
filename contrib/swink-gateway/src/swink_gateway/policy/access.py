"""Who may ask: keys, and pages of other sites that a browser lets send requests here.

A key comes as a bearer token or in the header that each vendor's clients use. A request is refused
whose `Host` is not this gateway's name (a name that was made to point here, "DNS rebinding"), or
whose `Origin` is another site's: browsers send both with whatever a page makes them send, forms
and WebSockets included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from swink_gateway.protocols.table import PROTOCOLS

__all__ = ["NOT_FROM_HERE", "NO_KEY", "Guard", "is_loopback"]

MOST_HOSTS = 100
"""Names of hosts that are remembered with what they mean: nearly all requests say the same."""

NOT_FROM_HERE = (
    "this gateway does not answer to that Host or Origin: its owner names a host with --name"
)

KEY_HEADERS = tuple(row.key_header for row in PROTOCOLS.values() if row.key_header is not None)
"""The headers in which vendors' clients show a key, beside `Authorization`."""

NO_KEY = (
    "the gateway's key is missing or wrong: show it as "
    f"{', '.join(('Authorization: Bearer', *KEY_HEADERS[:-1]))} or {KEY_HEADERS[-1]}"
)


class Guard:
    """Says whether a request may be answered.

    `keys` are those that clients may show, `owners` the names that go with the digests of others;
    none of either: everybody on this machine may ask. `hosts` are names beside loopback's by which
    the gateway is reached.
    """

    def __init__(self, keys: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        self._digests = dict.fromkeys(map(_digest, keys), "")
        self._hosts = {host.lower() for host in hosts}
        self.owners = {}

    @property
    def owners(self) -> Mapping[bytes, str]:
        """The names that go with the digests of keys."""
        return self._owners

    @owners.setter
    def owners(self, owners: Mapping[bytes, str]) -> None:
        self._owners = owners
        self._known = {**self._digests, **owners}  # a name, and its limits, go before none

    @property
    def wants_own_key(self) -> bool:
        """Whether there are keys without a name."""
        return bool(self._digests)

    @property
    def wants_key(self) -> bool:
        """Whether requests need a key."""
        return bool(self._known)

    def owner(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
        """Return whose key a request shows; `None` for nobody's.

        `""` is the owner of keys without a name, and whoever asks where no key is wanted. The time
        depends on neither the number of keys nor how much of a key is right: keys are found by
        their digests.
        """
        if not self.wants_key:
            return ""
        said = headers.get("Authorization", "")
        scheme, _, token = said.partition(" ")
        shown = [
            (token if scheme.lower() == "bearer" else said).strip(),
            *(headers.get(name, "") for name in KEY_HEADERS),
            query.get("key", ""),
        ]
        found = [self._known.get(_digest(key)) for key in shown if key]
        return next((owner for owner in found if owner is not None), None)

    def is_from_here(self, headers: Mapping[str, str]) -> bool:
        """Tell whether a request was meant for this gateway, and no other site's page made it."""
        host = headers.get("Host", "")
        name = _name(f"//{host}")
        if not name or not (is_loopback(name) or name in self._hosts):
            return False
        origin = headers.get("Origin")
        return origin is None or _place(origin) == host.lower()


@lru_cache(MOST_HOSTS)
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


@lru_cache(MOST_HOSTS)
def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
