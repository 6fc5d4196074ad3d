"""Texts for people, without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

BODY_CAP = 64 * 1024
"""Bytes of an error body that are kept."""

_HIDDEN = "[hidden]"


def public_url(url: str) -> str:
    """Return a URL without what may be secret in it: user information and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return _HIDDEN
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def excerpt(data: bytes, secrets: Iterable[str], size: int) -> str:
    """Return the beginning of a body or frame, in characters, to show to people."""
    # hidden before it is cut: a piece of a secret would not be found
    text = redact(data[:BODY_CAP].decode("utf-8", "replace"), secrets)
    return repr(text[:size].strip())


def redact(text: str, secrets: Iterable[str]) -> str:
    """Replace every secret of six characters or more in a text for people."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be a part of another
        if len(secret) >= 6 and secret in text:
            text = text.replace(secret, _HIDDEN)
    return text


def credentials_in(headers: Mapping[str, str]) -> set[str]:
    """Return what is secret in these headers: the last word of each that carries credentials."""
    return {
        word
        for name, value in headers.items()
        if _is_credential(name)
        for word in value.split()[-1:]
    }


_CREDENTIAL_WORDS = ("auth", "key", "token", "secret", "cookie", "password")


@lru_cache(maxsize=256)
def _is_credential(header: str) -> bool:
    name = header.lower()
    return any(word in name for word in _CREDENTIAL_WORDS)
