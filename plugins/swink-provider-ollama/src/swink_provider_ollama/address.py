"""Addresses as Ollama allows them in `OLLAMA_HOST`: https://docs.ollama.com/faq."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

__all__ = ["address_of"]

DEFAULT_PORT = 11434
CLOUD_HOST = "ollama.com"


def address_of(text: str) -> str:
    """Return the address that `OLLAMA_HOST` or another variable means."""
    scheme, _, rest = text.rpartition("://")
    place, slash, path = rest.partition("/")
    parts = _PLACE.fullmatch(_bracketed(place))
    if parts is None:  # a user's name, or nothing that the HTTP client would take
        return text
    host, port = parts.groups("")
    if not scheme:
        scheme, default = ("https", "") if host == CLOUD_HOST else ("http", f":{DEFAULT_PORT}")
        port = port or default
    return f"{scheme}://{_LISTENING.get(host, host)}{port}{slash}{path}".rstrip("/")


_PLACE = re.compile(r"(\[[^]]*\]|[^:]*)(:\d+)?")
_LISTENING = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
"""Where to connect to for what a server may listen on."""


def _bracketed(host: str) -> str:
    try:
        return f"[{IPv6Address(host)}]"
    except ValueError:
        return host
