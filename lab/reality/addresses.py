"""Name the provider that a recorded request was sent to, and the API, by the address alone."""

from __future__ import annotations

import re
from functools import cache
from urllib.parse import urlsplit

from attrs import evolve

from lab.reality.cassettes import Exchange
from swink_core import Client
from swink_judge import Asked, asked_of

__all__ = ["asked", "provider_at"]

_TEMPLATES = (
    (r"^bedrock-runtime[.-]", "bedrock"),
    (r"\.(openai|services\.ai|cognitiveservices)\.azure\.com$", "azure"),
    (r"(^|-)aiplatform\.googleapis\.com$", "vertex"),
    (r"^(localhost|127\.0\.0\.1)$", "ollama"),
    (r"^api\.cohere\.(ai|com)$", "cohere"),
    (r"^api\.z\.ai$", "zai"),
)
"""Hosts that depend on a region or an account, of which no catalogue row has an address."""


@cache
def _hosts() -> dict[str, str]:
    """Return the provider of each host in the catalogue; the shortest name where several share."""
    found: dict[str, str] = {}
    client = Client()
    for name in sorted(client.host.provider_names(), key=len):
        info = client.catalog.provider(name)
        host = urlsplit(info.base_url or "").hostname if info else None
        if host:
            found.setdefault(host, name)
    return found


def provider_at(url: str) -> str | None:
    """Return the provider at an address; `None` for one that swink has no plugin for."""
    host = urlsplit(url).hostname or ""
    if host in _hosts():
        return _hosts()[host]
    return next((name for pattern, name in _TEMPLATES if re.search(pattern, host)), None)


def asked(exchange: Exchange) -> Asked | None:
    """Read what an exchange asks; `None` for an API that swink does not speak."""
    provider = provider_at(exchange.url)
    if provider is None or exchange.method != "POST":
        return None
    found = asked_of(provider, exchange.url, exchange.request)
    if found is None:
        return None
    if provider == "ollama" and found.api != "chat":
        return None
    if not found.model:
        deployment = re.search(r"/deployments/([^/]+)/", exchange.url)
        found = evolve(found, model=deployment[1] if deployment else "")
    return found if found.model else None
