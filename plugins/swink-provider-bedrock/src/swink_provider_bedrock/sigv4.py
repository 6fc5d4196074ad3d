"""Sign AWS requests with Signature Version 4, which uses a secret without sending it.

A request is converted to a canonical form and hashed. The hash is signed with a key that is derived
from the secret for one day, region and service. Source:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html.

In the canonical form, the path of the request is URL-encoded, and every service except S3 requires
that it was URL-encoded before. The signature must match the request that is sent. Therefore the
caller passes the encoded path (for S3, the path without encoding), and only headers that the HTTP
client and proxies leave unchanged.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime
from urllib.parse import quote, urlsplit

from attrs import define, field

__all__ = ["Credentials", "authorization", "canonical_request", "signed_headers", "string_to_sign"]

ALGORITHM = "AWS4-HMAC-SHA256"
TIME = "%Y%m%dT%H%M%SZ"

_UNRESERVED = "-_.~"


@define(frozen=True)
class Credentials:
    """An access key. `token` is set only for temporary keys."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def signed_headers(
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes,
    *,
    credentials: Credentials,
    region: str,
    service: str,
    now: datetime,
) -> dict[str, str]:
    """Return the headers to add to the request: date, token and signature.

    `headers` are further headers to sign; the host is taken from the URL. `now` is in UTC.
    """
    stamp = now.strftime(TIME)
    added = {"X-Amz-Date": stamp}
    if credentials.token is not None:
        added["X-Amz-Security-Token"] = credentials.token
    signed = [("host", _host(url)), *headers.items(), *added.items()]
    request = canonical_request(method, url, signed, body, normalize=service != "s3")
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = string_to_sign(request, stamp, scope)
    added["Authorization"] = authorization(credentials, text, scope, _names(signed))
    return added


def canonical_request(
    method: str,
    url: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
    *,
    normalize: bool = True,
) -> str:
    """Return the canonical form of a request, which the client signs and the server computes again.

    `normalize` resolves `.`, `..` and `//` in the path; S3 does not.
    """
    parts = urlsplit(url)
    headers = list(headers)
    folded = [f"{name}:{','.join(values)}\n" for name, values in sorted(_folded(headers).items())]
    return "\n".join(
        (
            method,
            quote(
                _normalized(parts.path) if normalize else parts.path or "/", safe=f"/{_UNRESERVED}"
            ),
            _query(parts.query),
            "".join(folded),
            _names(headers),
            hashlib.sha256(body).hexdigest(),
        )
    )


def string_to_sign(request: str, stamp: str, scope: str) -> str:
    """Return the text to sign for a canonical request, with its time stamp and scope."""
    return "\n".join((ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()))


def authorization(credentials: Credentials, text: str, scope: str, names: str) -> str:
    """Return the value of the Authorization header that signs `text`."""
    key = f"AWS4{credentials.secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"{credentials.access_key}/{scope}"
    return f"{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"


def _host(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    return host.removesuffix({"https": ":443", "http": ":80"}.get(parts.scheme, " "))


def _folded(headers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    folded: dict[str, list[str]] = {}
    for name, value in headers:
        folded.setdefault(name.lower(), []).append(" ".join(value.split()))
    return folded


def _names(headers: Iterable[tuple[str, str]]) -> str:
    return ";".join(sorted(_folded(headers)))


def _normalized(path: str) -> str:
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            kept[-1:] = []
        elif segment not in ("", "."):
            kept.append(segment)
    slash = "/" if kept and path.endswith(("/", "/.", "/..")) else ""
    return f"/{'/'.join(kept)}{slash}"


def _query(query: str) -> str:
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return "&".join(
        f"{name}={value}" for name, value in sorted((_once(n), _once(v)) for n, _, v in pairs)
    )


def _once(text: str) -> str:
    """URL-encode a name or value; parts that are already encoded stay unchanged."""
    return quote(text, safe=f"%{_UNRESERVED}")
