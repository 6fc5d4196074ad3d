"""Tokens of Microsoft Entra ID, by client credentials or by a managed identity.

A token is kept until five minutes before it expires, and calls that need a new one together
fetch it once. Source: the client credentials grant of RFC 6749 section 4.4 and
https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
from attrs import define, field

from swink_core import Call, Failure, ProviderFailure, StreamErrorKind
from swink_core.providers import HTTPRequest

__all__ = ["ClientCredentials", "TokenCache", "managed_identity"]

EARLY = 300.0
"""Seconds before its end at which a token is renewed."""

PUBLIC = "https://login.microsoftonline.com"
CLOUDS = {
    "login.microsoftonline.us": "https://cognitiveservices.azure.us/.default",
    "login.chinacloudapi.cn": "https://cognitiveservices.azure.cn/.default",
    "login.partner.microsoftonline.cn": "https://cognitiveservices.azure.cn/.default",
}
"""The scope to ask for in each sovereign cloud, by its authority's host."""
SCOPE = "https://cognitiveservices.azure.com/.default"

TOKEN_BYTES = 64 * 1024


class _Token(msgspec.Struct):
    access_token: str
    expires_in: float = 3600.0


class _Refusal(msgspec.Struct):
    error: str = ""
    error_description: str = ""


@define
class ClientCredentials:
    """An application that signs in with a secret. `authority` is the cloud's sign-in address."""

    tenant: str
    client: str
    secret: str = field(repr=False)
    authority: str = PUBLIC

    @classmethod
    def of_environment(cls, environ: Mapping[str, str] | None = None) -> ClientCredentials | None:
        """Read `AZURE_TENANT_ID`, `_CLIENT_ID`, `_CLIENT_SECRET`, `_AUTHORITY_HOST`."""
        environ = os.environ if environ is None else environ
        tenant, client, secret = (
            environ.get(f"AZURE_{name}") for name in ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET")
        )
        if not (tenant and client and secret):
            return None
        authority = environ.get("AZURE_AUTHORITY_HOST") or PUBLIC
        if "://" not in authority:
            authority = f"https://{authority}"
        return cls(tenant, client, secret, authority.rstrip("/"))

    @property
    def scope(self) -> str:
        """What the token is for, in the cloud of the authority."""
        return CLOUDS.get(urlsplit(self.authority).hostname or "", SCOPE)

    async def fetch(self, call: Call) -> tuple[str, float]:
        """Return a token and for how many seconds it is good. Raises ProviderFailure."""
        form = {
            "grant_type": "client_credentials",
            "client_id": self.client,
            "client_secret": self.secret,
            "scope": self.scope,
        }
        request = HTTPRequest(
            f"{self.authority}/{self.tenant}/oauth2/v2.0/token",
            urlencode(form).encode(),
            {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"},
        )
        call.secrets.add(self.secret)
        assert call.http is not None  # every call of a client has one
        response = await call.http.send(request, call.options.timeouts.connect)
        body = b""
        try:
            async for data in response:
                body += data
                if len(body) >= TOKEN_BYTES:
                    break
        finally:
            response.close()
        try:
            token = msgspec.json.decode(body, type=_Token, strict=False)  # seconds, also as text
        except msgspec.DecodeError:
            raise ProviderFailure(_refused(response.status, body)) from None
        return token.access_token, token.expires_in


def _refused(status: int, body: bytes) -> Failure:
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except msgspec.DecodeError:
        refusal = _Refusal()
    transient = status >= 500 or status == 429
    reason = refusal.error_description or refusal.error or f"HTTP {status}"
    return Failure(
        "request",
        status,
        kind=StreamErrorKind.NETWORK if transient else StreamErrorKind.AUTH,
        code="entra",
        message=f"Entra ID gave no token: {reason.splitlines()[0]}",
    )


class TokenCache:
    """One token, shared by all calls of a provider."""

    def __init__(self) -> None:
        self._token = ""
        self._good_until = 0.0
        self._fetching: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}

    async def get(self, source: Any, call: Call) -> str:
        """Return the token, fetched by `source.fetch(call)` when it is due."""
        async with self._turn():
            if not self._token or call.clock.time() >= self._good_until:
                token, seconds = await source.fetch(call)
                self._token, self._good_until = token, call.clock.time() + seconds - EARLY
        call.secrets.add(self._token)
        return self._token

    def _turn(self) -> asyncio.Lock:
        """Return the running event loop's lock: one of asyncio's serves no other."""
        for over in [loop for loop in self._fetching if loop.is_closed()]:
            self._fetching.pop(over, None)
        return self._fetching.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    def forget(self) -> bool:
        """Drop the token and tell whether there was one."""
        had, self._token = bool(self._token), ""
        return had


class _ManagedIdentity:
    def __init__(self, scope: str) -> None:
        self._scope = scope

    async def fetch(self, call: Call) -> tuple[str, float]:
        try:
            token = await asyncio.to_thread(_identity_token, self._scope)
        except Exception as error:  # azure-identity's own tree, unknown without importing it
            reason = (str(error) or type(error).__name__).splitlines()[0]
            message = f"no key or client secret is set, and azure-identity gave no token: {reason}"
            kind, code = StreamErrorKind.AUTH, "no_credentials"
            failure = Failure("request", kind=kind, code=code, message=message)
            raise ProviderFailure(failure) from error
        return token.token, token.expires_on - time.time()


def _identity_token(scope: str) -> Any:
    """Asks azure-identity, which does all its work in the calling thread."""
    # it warns of every place that it looked in vain; without a handler that ends on the terminal
    logging.getLogger("azure.identity").addHandler(logging.NullHandler())
    with import_module("azure.identity").DefaultAzureCredential() as credential:
        return credential.get_token(scope)


def managed_identity(environ: Mapping[str, str] | None = None) -> _ManagedIdentity | None:
    """Return azure-identity's default credential; `None` where it is not installed."""
    environ = os.environ if environ is None else environ
    try:
        installed = find_spec("azure.identity")
    except ModuleNotFoundError:
        return None
    host = environ.get("AZURE_AUTHORITY_HOST") or ""
    scope = CLOUDS.get(urlsplit(host).hostname or host, SCOPE)
    return _ManagedIdentity(scope) if installed else None
