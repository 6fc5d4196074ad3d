"""Canary credentials: each names its provider, and must reach no other.

    options = given_to("acme")                  # a key, an address, headers
    own, others = sung(http.requests, "acme")   # what requests to Acme hold, of Acme and of others

Every secret has the form that `SONG` finds again, also where it was encoded as Base64.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from typing import Any

from swink_core.providers import Catalog, HTTPRequest

__all__ = ["SONG", "environment_of", "given_to", "sung"]

SONG = re.compile(r"canary-([a-z]+)-of-([\w.-]+?)-end")
"""The form of a secret: its kind and its provider."""


def _secret(what: str, owner: str) -> str:
    return f"canary-{what}-of-{owner}-end"


def _address(owner: str) -> str:
    who = f"{_secret('user', owner)}:{_secret('password', owner)}"
    return f"http://{who}@{_secret('address', owner)}.invalid/v1"


def given_to(owner: str) -> dict[str, Any]:
    """Return options that are for one provider alone: a key, an address with a password in it,
    and headers."""
    headers = {"X-Canary": _secret("header", owner), "Cookie": f"a={_secret('cookie', owner)}"}
    return {"api_key": _secret("key", owner), "base_url": _address(owner), "headers": headers}


def environment_of(catalog: Catalog, providers: Iterable[str]) -> dict[str, str]:
    """Return variables for all providers at once; one that several read is all theirs."""
    variables: dict[str, str] = {}
    readers: dict[str, list[str]] = {}
    for name in providers:
        if (info := catalog.provider(name)) is not None:
            for variable in (*info.api_key_env, *info.base_url_env):
                readers.setdefault(variable, []).append(name)
            for variable in info.base_url_env:
                variables[variable] = _address(name)
    for variable, names in readers.items():
        variables.setdefault(variable, _secret("key", ".".join(names)))
    return variables


def sung(requests: Iterable[HTTPRequest], owner: str) -> tuple[set[str], set[str]]:
    """Return which secrets requests hold of their provider, and which of others."""
    own, others = set[str](), set[str]()
    for request in requests:
        for song in SONG.finditer("\n".join(_texts(request))):
            (own if owner in song[2].split(".") else others).add(song[0])
    return own, others


def _texts(request: HTTPRequest) -> Iterator[str]:
    yield request.url
    yield request.body.decode("utf-8", "replace")
    for name, value in request.headers.items():
        yield f"{name}: {value}"
        for word in value.split():
            try:
                yield base64.b64decode(word, validate=True).decode("utf-8", "replace")
            except (binascii.Error, ValueError):
                continue
