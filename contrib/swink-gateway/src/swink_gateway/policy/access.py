"""Authentication of clients, and protection against requests from pages of other sites.

A client sends its key as a bearer token, or in the header that the vendor's clients use. The
gateway refuses a request whose `Host` is unknown (DNS rebinding), and a request whose `Origin` is
another site. Browsers send both headers with all requests of a page, including forms and
WebSockets. If the gateway requires keys and other machines can reach it, this machine's name and
every IP address are known hosts: the page of another site has a host name, not an address.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from swink_gateway.policy.config.values import key_digest
from swink_gateway.protocols.table import PROTOCOLS

__all__ = ["NOT_FROM_HERE", "NO_KEY", "Guard", "is_loopback"]

MOST_HOSTS = 100
"""The maximum number of cached `Host` and `Origin` values; most requests repeat earlier values."""

NOT_FROM_HERE = "the {} is not allowed here; the operator can add a host with --name"

MOST_SHOWN = 100
"""The number of characters of a refused `Host` or `Origin` in messages."""

KEY_HEADERS = tuple(row.key_header for row in PROTOCOLS.values() if row.key_header is not None)
"""Headers in which clients of the vendors' APIs send a key, besides `Authorization`."""

_PATH_PART = re.compile("[^/:]+")

NO_KEY = (
    "Incorrect API key provided. The gateway's key is missing or wrong: send it as "
    f"{', '.join(('Authorization: Bearer', *KEY_HEADERS[:-1]))} or {KEY_HEADERS[-1]}"
)
"""The message for a request without a valid key.

It begins with OpenAI's words, by which litellm tells a wrong key from another invalid request.
"""


class Guard:
    """Decides whether a request may be served.

    `keys` are accepted keys without a name. `owners` maps the digests of other keys to the names of
    their owners. Without any keys, every client on this machine is served. `hosts` are the host
    names of the gateway in addition to loopback names. `is_public` is true if other machines can
    reach the gateway.
    """

    def __init__(
        self, keys: Iterable[str] = (), hosts: Iterable[str] = (), is_public: bool = False
    ) -> None:
        self._digests = dict.fromkeys(map(key_digest, keys), "")
        self._hosts = {host.lower() for host in hosts}
        self._own = socket.gethostname().lower()
        self._is_public = is_public
        self.owners = {}

    @property
    def owners(self) -> Mapping[bytes, str]:
        """The owners' names by the digests of their keys."""
        return self._owners

    @owners.setter
    def owners(self, owners: Mapping[bytes, str]) -> None:
        self._owners = owners
        self._known = {**self._digests, **owners}  # a key with a name and limits takes precedence

    @property
    def wants_own_key(self) -> bool:
        """Whether there are keys without a name."""
        return bool(self._digests)

    @property
    def wants_key(self) -> bool:
        """Whether requests need a key."""
        return bool(self._known)

    def owner(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
        """Return the name of the key's owner; `None` if the key is missing or wrong.

        The name is `""` for keys without a name, and for all requests if no key is required. The
        lookup takes the same time for any key, because it compares digests.
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
        found = [self._known.get(key_digest(key)) for key in shown if key]
        return next((owner for owner in found if owner is not None), None)

    def without_keys(self, path: str) -> str:
        """Return a path without parts that are a valid key, for logs."""
        return _PATH_PART.sub(
            lambda part: "[key]" if key_digest(part[0]) in self._known else part[0], path
        )

    def stranger(self, headers: Mapping[str, str]) -> str | None:
        """Return the `Host` or `Origin` of a request that must be refused.

        `None` means that the request is addressed to this gateway, and no other site sent it.
        """
        host = headers.get("Host", "")
        name = _name(f"//{host}")
        if not name or not (is_loopback(name) or name in self._hosts or self._is_own(name)):
            return f"Host {host[:MOST_SHOWN]!r}"
        origin = headers.get("Origin")
        if origin is None or _place(origin) == host.lower():
            return None
        return f"Origin {origin[:MOST_SHOWN]!r}"

    def _is_own(self, host: str) -> bool:
        is_known = self._is_public and self.wants_key
        return is_known and (host == self._own or _is_address(host))


@lru_cache(MOST_HOSTS)
def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@lru_cache(MOST_HOSTS)
def is_loopback(host: str) -> bool:
    """Return True for a loopback address or a loopback host name."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _place(origin: str) -> str | None:
    """Return the host and port of an origin; `None` if it is not a valid URL."""
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
