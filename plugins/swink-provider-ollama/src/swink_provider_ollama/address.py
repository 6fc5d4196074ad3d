"""Parse an address in any form that `OLLAMA_HOST` allows. Source: https://docs.ollama.com/faq."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

__all__ = ["address_of"]

DEFAULT_PORT = 11434
CLOUD_HOST = "ollama.com"


def address_of(text: str) -> str:
    """Return the URL for the value of `OLLAMA_HOST` or another variable."""
    scheme, _, rest = text.rpartition("://")
    place, slash, path = rest.partition("/")
    parts = _PLACE.fullmatch(_bracketed(place))
    if parts is None:  # with a user name, or not valid for an HTTP client
        return text
    host, port = parts.groups("")
    if not scheme:
        scheme, default = ("https", "") if host == CLOUD_HOST else ("http", f":{DEFAULT_PORT}")
        port = port or default
    return f"{scheme}://{_LISTENING.get(host, host)}{port}{slash}{path}".rstrip("/")


_PLACE = re.compile(r"(\[[^]]*\]|[^:]*)(:\d+)?")
_LISTENING = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
"""Maps an address on which a server listens to the address to which a client connects."""


def _bracketed(host: str) -> str:
    try:
        return f"[{IPv6Address(host)}]"
    except ValueError:
        return host
