"""Fetch tokens of Microsoft Entra ID, by client credentials or by a managed identity.

Source: the client credentials grant of RFC 6749 section 4.4 and
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
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec
from attrs import define, field

from swink_core import Failure, ProviderFailure, StreamErrorKind
from swink_core.providers import Grant, Token, TokenHTTP

__all__ = ["ClientCredentials", "managed_identity"]

PUBLIC = "https://login.microsoftonline.com"
CLOUDS = {
    "login.microsoftonline.us": "https://cognitiveservices.azure.us/.default",
    "login.chinacloudapi.cn": "https://cognitiveservices.azure.cn/.default",
    "login.partner.microsoftonline.cn": "https://cognitiveservices.azure.cn/.default",
}
"""The scope to request in each sovereign cloud, by the authority's host."""
SCOPE = "https://cognitiveservices.azure.com/.default"


class _Token(msgspec.Struct):
    access_token: str
    expires_in: float = 3600.0


class _Refusal(msgspec.Struct):
    error: str = ""
    error_description: str = ""


@define(frozen=True)
class ClientCredentials(Grant):
    """An application that signs in with a secret.

    `authority` is the base URL of the token endpoint, which differs between clouds.
    """

    issuer: ClassVar[str] = "Entra ID"

    tenant: str
    client: str
    secret: str = field(repr=False)
    authority: str = PUBLIC

    @classmethod
    def of_environment(cls, environ: Mapping[str, str] | None = None) -> ClientCredentials | None:
        """Return the application that environment variables name; `None` if they are not set.

        The variables are `AZURE_TENANT_ID`, `AZURE_CLIENT_ID`, `AZURE_CLIENT_SECRET` and,
        optionally, `AZURE_AUTHORITY_HOST`.
        """
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
        """The OAuth scope for the cloud of the authority."""
        return CLOUDS.get(urlsplit(self.authority).hostname or "", SCOPE)

    async def fetch(self, http: TokenHTTP) -> Token:
        """Sign in with the secret."""
        form = {
            "grant_type": "client_credentials",
            "client_id": self.client,
            "client_secret": self.secret,
            "scope": self.scope,
        }
        token = await http.form(f"{self.authority}/{self.tenant}/oauth2/v2.0/token", form, _Token)
        return Token(token.access_token, token.expires_in)

    def error_facts(self, failure: Failure) -> None:
        """Keep only the first line of the reason in Entra ID's response."""
        refusal = msgspec.json.decode(failure.body, type=_Refusal)
        reason = refusal.error_description or refusal.error
        failure.message = reason.splitlines()[0] if reason else None


@define(frozen=True)
class _ManagedIdentity(Grant):
    scope: str

    async def fetch(self, http: TokenHTTP) -> Token:
        try:
            token = await asyncio.to_thread(_identity_token, self.scope)
        except Exception as error:  # azure-identity's own exceptions, unknown without importing it
            reason = (str(error) or type(error).__name__).splitlines()[0]
            message = (
                f"no key or client secret is set, and azure-identity returned no token: {reason}"
            )
            kind, code = StreamErrorKind.AUTH, "no_credentials"
            failure = Failure("request", kind=kind, code=code, message=message)
            raise ProviderFailure(failure) from error
        return Token(token.token, token.expires_on - time.time())


def _identity_token(scope: str) -> Any:
    """Return a token from azure-identity. This call blocks."""
    # azure-identity logs a warning for every source of credentials that it finds empty. Without a
    # handler, these warnings would be printed on the terminal.
    logging.getLogger("azure.identity").addHandler(logging.NullHandler())
    with import_module("azure.identity").DefaultAzureCredential() as credential:
        return credential.get_token(scope)


def managed_identity(environ: Mapping[str, str] | None = None) -> _ManagedIdentity | None:
    """Return the default credential of azure-identity; `None` if that package is not installed."""
    environ = os.environ if environ is None else environ
    try:
        installed = find_spec("azure.identity")
    except ModuleNotFoundError:
        return None
    host = environ.get("AZURE_AUTHORITY_HOST") or ""
    scope = CLOUDS.get(urlsplit(host).hostname or host, SCOPE)
    return _ManagedIdentity(scope) if installed else None
