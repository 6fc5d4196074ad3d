"""Remove credentials from stored data; find them by header and parameter names, and by value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from swink_core.providers import codings_of_secret

__all__ = [
    "HIDDEN", "KEY", "SHORTEST_SECRET", "hidden", "hidden_text", "is_mark", "is_secret",
    "is_secret_parameter", "replaced", "scheme_of", "scrub_headers", "scrub_url", "scrubbed",
]  # fmt: skip

HIDDEN = "[hidden]"

KEY = "[key]"
"""The placeholder for a credential from the caller, or one that an earlier call fetched."""

SHORTEST_SECRET = 6
"""The minimum length of a secret; a shorter text would occur in too many places."""

_SECRET_WORDS = (
    "auth", "key", "token", "secret", "cookie", "password", "credential", "signature",
    "organization",
)  # fmt: skip
_HARMLESS_WORDS = ("ratelimit", "idempotency")
"""Words that mark the name of a header or field as harmless, despite `token` or `key` in the name.
"""


_MARK = re.compile(r"\[[\w.-]+\]")

_SCHEME = re.compile(
    r"(Bearer|Basic|Token|Key|ApiKey|Api-Key|Digest|DPoP|Negotiate|AWS4-HMAC-SHA256) +(?=\S)", re.I
)

_ANY_SCHEME = re.compile(rf"(?:{_SCHEME.pattern})|[A-Za-z][A-Za-z-]{{0,19}} +(?=\S)", re.IGNORECASE)
"""Matches the scheme before a credential: a known scheme, or a short word of letters."""

_OF_A_SCHEME = ("authorization", "proxy-authorization")
"""Headers whose value begins with an authentication scheme (RFC 9110 section 11.4)."""


def scrub_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Hide the values of headers whose names indicate credentials.

    A value that already is a placeholder stays unchanged, including its scheme (such as `Bearer`).
    """
    return {
        name: HIDDEN if is_secret(name) and not is_mark(scheme_of(value, name)[1]) else value
        for name, value in headers.items()
    }


def is_mark(text: str) -> bool:
    """Return True if a text is a placeholder of a secret."""
    return _MARK.fullmatch(text) is not None


def scheme_of(value: str, name: str) -> tuple[str, str]:
    """Split the value of a header into its scheme, such as `Bearer `, and the credential."""
    found = (_ANY_SCHEME if name.lower() in _OF_A_SCHEME else _SCHEME).match(value)
    return (found[0], value[found.end() :]) if found else ("", value)


def scrub_url(url: str) -> str:
    """Hide a URL's user name and password, and query parameters whose names indicate credentials.

    A URL without credentials is unchanged.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = parts.query
    pairs = parse_qsl(query, keep_blank_values=True) if query else []
    if any(is_secret_parameter(name) for name, _ in pairs):
        query = "&".join(
            f"{quote(name)}={HIDDEN if is_secret_parameter(name) else quote(value)}"
            for name, value in pairs
        )
    if host == parts.netloc and query == parts.query:
        return url
    return urlunsplit(parts._replace(netloc=host, query=query))


def scrubbed(data: bytes, secrets: Iterable[str]) -> bytes:
    """Replace each character of a secret by an asterisk, even if frames split the secret."""
    secrets = _worth_hiding(secrets)
    suspects = [secret for secret in secrets if _may_hold(data, secret)]
    data = hidden(data, secrets)
    return _without_pieces(data, suspects) if suspects else data


def hidden(data: bytes, secrets: Iterable[str], mark: str = "") -> bytes:
    """Hide secrets that occur in one piece, in each encoding that `codings_of_secret` returns.

    Each secret is replaced by `mark`, or, if `mark` is empty, by one asterisk for each byte.
    """
    for secret in _worth_hiding(secrets):
        for form in codings_of_secret(secret):
            found = form.encode("utf-8", "surrogatepass")
            data = data.replace(found, mark.encode() or b"*" * len(found))
    return data


def replaced(data: bytes, marks: Mapping[str, str]) -> bytes:
    """Replace each secret that occurs in one piece by its placeholder in `marks`."""
    for secret in _worth_hiding(marks):
        data = hidden(data, [secret], marks[secret])
    return data


def hidden_text(text: str, secrets: Iterable[str]) -> str:
    """Hide secrets in a text, keeping its length in characters."""
    for secret in _worth_hiding(secrets):
        for form in codings_of_secret(secret):
            text = text.replace(form, "*" * len(form))
    return text


def _worth_hiding(secrets: Iterable[str]) -> list[str]:
    """Return the secrets of sufficient length, longest first: a secret may contain another one."""
    return sorted((s for s in secrets if len(s) >= SHORTEST_SECRET), key=len, reverse=True)


@lru_cache(maxsize=512)
def is_secret(name: str) -> bool:
    """Return True if the name of a header, parameter or field indicates a credential."""
    lower = name.lower()
    return any(word in lower for word in _SECRET_WORDS) and not any(
        word in lower for word in _HARMLESS_WORDS
    )


def is_secret_parameter(name: str) -> bool:
    """Return True if the name of a query parameter indicates a credential, such as `sig`."""
    return is_secret(name) or name == "sig"


def _may_hold(data: bytes, secret: str) -> bool:
    """Return True if a secret may occur in the data, whole or split; the check is cheap.

    If the secret occurs, any two consecutive characters of it are adjacent somewhere in the data,
    or a string ends after the first of the two. In data without the secret, one of the first pairs
    of characters is usually missing.
    """
    return all(
        re.search(re.escape(first) + b'["' + re.escape(second) + b"]", data)
        for first, second in _PAIRS.findall(secret.encode())
    )


_PAIRS = re.compile(rb"(?=([A-Za-z0-9_-])([A-Za-z0-9_-]))")
"""Matches pairs of adjacent characters that JSON does not escape."""

_STRINGS = re.compile(rb'"(\w+)"\s*:\s*"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
"""Matches a string field of a JSON object: its name and its value."""


def _without_pieces(data: bytes, secrets: Iterable[str]) -> bytes:
    """Hide secrets that are split over several frames, in the same field of each frame."""
    fields: dict[bytes, list[bytes]] = {}
    for name, text in _STRINGS.findall(data):
        fields.setdefault(name, []).append(text)
    left = bytearray(data)
    for name, texts in fields.items():
        whole = b"".join(texts)
        for secret in (secret.encode() for secret in secrets):
            if secret not in whole:
                continue
            spans = (found.span(2) for found in _STRINGS.finditer(data) if found[1] == name)
            places = [place for span in spans for place in range(*span)]
            for found in re.finditer(re.escape(secret), whole):
                for place in places[slice(*found.span())]:
                    left[place] = ord("*")
    return bytes(left)
