"""Texts for people, without secrets."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import unquote, urlsplit, urlunsplit

BODY_CAP = 64 * 1024
"""Bytes of an error body that are kept."""

_HIDDEN = "[hidden]"


def public_url(url: str) -> str:
    """Return a URL without what may be secret in it: user information and query."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # a password that was not escaped is taken for one
    except ValueError:
        return _HIDDEN
    if not parts.netloc:
        return _HIDDEN
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def address_fault(url: str) -> str:
    """Return what is wrong with an address, in no words of its own."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return "its brackets do not match"
    if not url.lower().startswith(("http://", "https://")):
        return "it does not begin with https://"
    return "its port is no number" if host else "it names no host"


def basic_credentials(url: str) -> tuple[str, str]:
    """Return a URL without its user information, and that as HTTP's Basic credentials (RFC 7617),
    empty where there is none."""
    user = _user_information(url)
    if not user:
        return url, ""
    words = unquote(user) if ":" in user else f"{unquote(user)}:"
    return url.replace(f"{user}@", "", 1), f"Basic {b64encode(words.encode()).decode()}"


def _user_information(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[0] if "@" in url else ""
    except ValueError:
        return ""


def excerpt(data: bytes, secrets: Iterable[str], size: int) -> str:
    """Return the beginning of a body or frame, in characters, to show to people; of one that is
    no text, its size."""
    # hidden before it is cut: a piece of a secret would not be found
    text = redact(data[:BODY_CAP].decode("utf-8", "replace"), secrets)[:size].strip()
    return f"{len(data)} bytes that are no text" if "\0" in text else repr(text)


def redact(text: str, secrets: Iterable[str]) -> str:
    """Replace every secret of six characters or more in a text for people."""
    # one may be a part of another
    for secret in sorted(secrets, key=len, reverse=True) if text else ():
        if len(secret) >= 6 and secret in text:
            text = text.replace(secret, _HIDDEN)
    return text


def credentials_in(headers: Mapping[str, str], url: str = "") -> set[str]:
    """Return what is secret in a request: every word of the headers that carry credentials, and
    the address's user information, as it is, unescaped and as Basic credentials."""
    found: set[str] = set()
    for name, value in headers.items():
        kind = _credential(name)
        if kind is None:
            continue
        words = value.replace(";" if kind == "cookie" else ",", " ").split()
        # a first word of several names the scheme
        for word in words[1:] if kind == "auth" and len(words) > 1 else words:
            found.add(word)
            if "=" in word:
                found.add(word.partition("=")[2].strip('"'))
    if user := _user_information(url):
        password = user.partition(":")[2] or user
        found |= {user, password, unquote(password), basic_credentials(url)[1].split()[1]}
    found.discard("")
    return found


_CREDENTIAL_WORDS = ("cookie", "auth", "key", "token", "secret", "password")


@lru_cache(maxsize=256)
def _credential(header: str) -> str | None:
    """Return which word in a header's name says that it carries credentials."""
    name = header.lower()
    return next((word for word in _CREDENTIAL_WORDS if word in name), None)
