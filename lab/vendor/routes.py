"""Find the API and the route of a request.

An API is known by its path; where paths of two vendors are the same (`/v1/models`, `/v1/files`), by
headers. A first folder in the path that is a vendor's name (`/anthropic/v1/models`) decides it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lab.vendor import judging
from lab.vendor.protocols.base import API, Route
from lab.vendor.protocols.table import APIS, PROVIDERS

__all__ = ["route_of"]


def route_of(
    method: str, raw_path: str, headers: Mapping[str, str]
) -> tuple[API, Route, str, dict[str, str]] | None:
    """Return the API at a path, its route, the provider and what the path names."""
    path = raw_path.partition("?")[0]
    first = path.split("/")[1]
    named = first if first in PROVIDERS or first in judging.providers() else None
    rest = path[len(first) + 1 :] if named else path
    candidates = []
    for api in APIS:
        for route in api.routes:
            match = re.search(route.pattern, rest)
            if match is not None and route.method == method:
                candidates.append((api, route, match.groupdict()))
    if not candidates:
        return None
    wanted = PROVIDERS.get(named, named) if named else _guess(path, headers)
    chosen = next((each for each in candidates if each[0].provider == wanted), candidates[0])
    api, route, found = chosen
    on_vertex = "vertex" if "/publishers/" in path else api.provider
    return api, route, named or on_vertex, found


def _guess(path: str, headers: Mapping[str, str]) -> str:
    """Return whose client it is, by what only that vendor's clients send."""
    if path.startswith(("/v1beta", "/upload/")):
        return "gemini"
    if "anthropic-version" in headers:
        return "anthropic"
    if "x-goog-api-key" in headers or "x-goog-api-client" in headers:
        return "gemini"
    if "x-fern-sdk-name" in headers or "cohere" in headers.get("user-agent", ""):
        return "cohere"
    return "openai"
