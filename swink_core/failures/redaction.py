"""Remove secrets from texts that people read."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit, urlunsplit

_IN_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""The same replacements as in `html.escape`; importing `html` would load a table of entities."""

BODY_CAP = 64 * 1024
"""The maximum number of bytes of an error body that are kept."""

SHORTEST_SECRET = 6
"""The minimum length of a secret, in characters: shorter texts would match in too many places."""

_HIDDEN = "[hidden]"


@lru_cache(maxsize=64)
def public_url(url: str) -> str:
    """Return a URL without its user information and query, which may contain secrets."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # a password that was not escaped is parsed as the port
    except ValueError:
        return _HIDDEN
    if not parts.netloc:
        return _HIDDEN
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def address_fault(url: str) -> str:
    """Describe why an address is invalid, without quoting it."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return "its brackets do not match"
    if not url.lower().startswith(("http://", "https://")):
        return "it does not begin with https://"
    return "its port is not a number" if host else "it names no host"


def basic_credentials(url: str) -> tuple[str, str]:
    """Split a URL into the URL without its user information, and HTTP Basic credentials (RFC 7617).

    The credentials are an empty string if the URL contains no user information.
    """
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
    """Return the first `size` characters of a body or frame, for display, without secrets.

    Binary data is replaced by its size.
    """
    # Redact before cutting: a part of a secret would not be recognised.
    text = redact(data[:BODY_CAP].decode("utf-8", "replace"), secrets)[:size].strip()
    return f"{len(data)} bytes that are not text" if "\0" in text else repr(text)


def redact(text: str, secrets: Iterable[str]) -> str:
    """Replace every secret of six characters or more in a text by a placeholder.

    Secrets are found in each encoding that `codings_of_secret` lists.
    """
    has_hexadecimal = _HEXADECIMAL.search(text) is not None
    # The longest is replaced first, since one secret may be part of another.
    for secret in sorted(secrets, key=len, reverse=True) if text else ():
        if len(secret) < SHORTEST_SECRET:
            continue
        for form in codings_of_secret(secret):
            if (has_hexadecimal or not _HEXADECIMAL.fullmatch(form)) and form in text:
                text = text.replace(form, _HIDDEN)
    return text


_HEXADECIMAL = re.compile(r"(?:[0-9A-Fa-f]{2}){6,}+")
"""Matches text that may be hexadecimal; only such text is searched for secrets in hexadecimal."""


def codings_of_secret(secret: str) -> tuple[str, ...]:
    """Return the encodings in which a server may echo a secret, the longest first.

    They are the secret itself, the secret escaped for JSON, HTML and URLs, and the secret in Base64
    and in hexadecimal.
    """
    return _codings(secret)


@lru_cache(maxsize=256)
def _codings(secret: str) -> tuple[str, ...]:
    data = secret.encode("utf-8", "surrogatepass")
    forms = {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        secret.translate(_IN_HTML),
        secret.translate(_IN_HTML).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
        quote(data, safe=""),
        quote(data),
        quote_plus(data),
        b64encode(data).decode().rstrip("="),
        urlsafe_b64encode(data).decode().rstrip("="),
        data.hex(),
        data.hex().upper(),
    }
    return tuple(sorted(forms, key=len, reverse=True))


def credentials_in(headers: Mapping[str, str], url: str = "") -> set[str]:
    """Return the secrets in the headers and the URL of a request.

    If the name of a header or query parameter indicates credentials, the words in its value are
    secrets. The user information in the URL is secret, too. The user information is returned in
    three forms: unchanged, unescaped, and as HTTP Basic credentials.
    """
    found: set[str] = set()
    for name, value in headers.items():
        kind = _credential(name)
        if kind is None:
            continue
        words = value.replace(";" if kind == "cookie" else ",", " ").split()
        # If the value has several words, the first is the scheme, such as `Bearer`.
        for word in words[1:] if kind == "auth" and len(words) > 1 else words:
            found.add(word)
            if "=" in word:
                found.add(word.partition("=")[2].strip('"'))
    if user := _user_information(url):
        password = user.partition(":")[2] or user
        found |= {user, password, unquote(password), basic_credentials(url)[1].split()[1]}
    if "?" in url:
        found.update(value for name, value in _query(url) if _credential(name))
    return found - {""}


def credentials_in_body(data: Any, name: str = "") -> set[str]:
    """Return the secrets in the fields of a request's JSON data, at any depth.

    Secrets are fields whose names mean nothing but credentials, such as `api_key`, and the secrets
    of nested `headers` and URLs. `name` is the name of the field with this data.
    """
    if isinstance(data, str):
        field = _squashed(name)
        is_secret = field == "token" or field.endswith(_SECRET_FIELDS)
        url = data if field.endswith("url") else ""
        return credentials_in({name: data} if is_secret else {}, url)
    found: set[str] = set()
    if isinstance(data, Mapping):
        if _squashed(name).endswith("headers"):
            found |= credentials_in({str(n): v for n, v in data.items() if isinstance(v, str)})
        for key, value in data.items():
            found |= credentials_in_body(value, str(key))
    elif isinstance(data, list | tuple):
        for value in data:
            found |= credentials_in_body(value, name)
    return found


def _query(url: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(urlsplit(url).query)
    except ValueError:
        return []


_CREDENTIAL_WORDS = ("cookie", "auth", "key", "token", "secret", "password", "signature")


_SECRET_FIELDS = (
    "authorization", "authorizationtoken", "authtoken", "apikey", "apitoken", "accesskey",
    "accesstoken", "bearertoken", "idtoken", "privatekey", "refreshtoken", "secretkey",
    "sessiontoken", "subscriptionkey", "secret", "password", "cookie",
)  # fmt: skip
"""The ends of the names of secret fields in a body, in small letters and without separators.

The words for names of headers do not suit bodies, which have fields such as `max_tokens`,
`prompt_cache_key`, and `key` for the name of a piece of metadata.
"""


@lru_cache(maxsize=256)
def _squashed(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


@lru_cache(maxsize=256)
def _credential(header: str) -> str | None:
    """Return the first word, such as `token`, by which a name indicates credentials.

    Return `None` if the name of the header, parameter or field has no such word.
    """
    name = header.lower()
    return next((word for word in _CREDENTIAL_WORDS if word in name), None)
