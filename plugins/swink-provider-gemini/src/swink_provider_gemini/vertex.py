"""`vertex/<model>`: Vertex AI, with Google Cloud's credentials.

The address holds a location and a project. Credentials are an API key (sent as such), an access
token, or Application Default Credentials, which the package google-auth finds and renews; it is
imported when they are first needed. With a key alone, and no project, the API is in "express
mode" (https://cloud.google.com/vertex-ai/generative-ai/docs/start/express-mode/overview).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from swink_core import Call, Failure, Model, ProviderFailure, StreamOptions
from swink_core import StreamErrorKind as Kind
from swink_core.providers import HTTPRequest, first_set, model_path
from swink_provider_gemini.provider import GeminiProvider, has_credentials

__all__ = ["VertexProvider"]

log = logging.getLogger(__name__)

PROJECT_ENV = "GOOGLE_CLOUD_PROJECT"
LOCATION_ENV = "GOOGLE_CLOUD_LOCATION"

SCOPE = "https://www.googleapis.com/auth/cloud-platform"

VERSIONS = ("/v1", "/v1beta1")

MULTI_REGIONS = ("us", "eu")

KEY_PREFIXES = ("AIza", "AQ.")
"""How API keys begin; other credentials are access tokens."""

_PUBLISHED = "/publishers/google/models/"


class VertexProvider(GeminiProvider):
    """Gemini models on Vertex AI."""

    features = GeminiProvider.features - {"file_ids"}  # files are in Cloud Storage: gs://…

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._credentials: Any = None
        self._default_project: str | None = None
        self._finding = asyncio.Lock()

    def base_url(self, options: StreamOptions, environ: Mapping[str, str] | None = None) -> str:
        """Return the address up to the project's location.

        `base_url` may be a host, or already name a version, a project and a location.
        """
        said = options.settings
        location = said.get("location") or first_set([LOCATION_ENV], environ) or "global"
        given = options.base_url or first_set(self.info.base_url_env, environ)
        base = (given or f"https://{_host(location)}").rstrip("/")
        if "/projects/" in base:
            return base
        if not base.endswith(VERSIONS):
            base += VERSIONS[0]
        return _in_project(base, said.get("project") or first_set([PROJECT_ENV], environ), location)

    def model_url(self, model: Model, options: StreamOptions) -> str:
        """Return the address of a model, which may be named with its collection."""
        base, name = self.base_url(options), model_path(model, model.id, "/")
        if name.startswith("projects/"):
            return f"{base.partition('/projects/')[0]}/{name}"
        return f"{base}/{name}" if "/" in name else f"{base}{_PUBLISHED}{name}"

    async def authorize(self, request: HTTPRequest, options: StreamOptions, call: Call) -> None:
        """Add a key or an access token, unless the caller's headers carry one."""
        if has_credentials(request):
            return
        key = self.api_key(options)
        if key is not None and key.startswith(KEY_PREFIXES):
            request.headers["x-goog-api-key"] = key
            return
        token = key or await self._token()
        request.headers["Authorization"] = f"Bearer {token}"
        if "/projects/" not in request.url:
            self._add_project(request)

    async def refresh(self, call: Call) -> bool:
        """Renew the access token, if it is not the caller's own.

        Where it cannot be renewed, that the old one was refused says enough.
        """
        if self._credentials is None or self.api_key(call.options) is not None:
            return False
        try:
            await self._renewed(self._credentials)
        except ProviderFailure as error:
            log.warning("%s: the access token was not renewed: %s", self.name, error)
            return False
        return True

    def _add_project(self, request: HTTPRequest) -> None:
        """Only keys know their project; that of other credentials may be known from them."""
        base, published, rest = request.url.partition(_PUBLISHED)
        if self._default_project is not None:
            location = os.environ.get(LOCATION_ENV) or "global"
            request.url = f"{_in_project(base, self._default_project, location)}{published}{rest}"
        elif ".googleapis.com/" in request.url:
            raise ProviderFailure(
                Failure(
                    "request",
                    kind=Kind.INVALID_REQUEST,
                    code="no_project",
                    message=f"no project for {self.name}: {PROJECT_ENV} is not set",
                )
            )

    async def _token(self) -> str:
        async with self._finding:  # calls that begin together look for credentials once
            if self._credentials is None:
                self._credentials, self._default_project = await asyncio.to_thread(self._find)
            if not _is_fresh(self._credentials):
                await self._renewed(self._credentials)
            return str(self._credentials.token)

    async def _renewed(self, credentials: Any) -> None:
        transport = import_module("google.auth.transport.requests")
        exceptions = import_module("google.auth.exceptions")
        try:
            await asyncio.to_thread(credentials.refresh, transport.Request())
        except exceptions.TransportError as error:
            raise _failed(Kind.NETWORK, "token", str(error), error) from error
        except exceptions.GoogleAuthError as error:
            raise _failed(Kind.AUTH, "token", str(error), error) from error

    def _find(self) -> tuple[Any, str | None]:
        names = " or ".join(self.info.api_key_env)
        try:
            auth = import_module("google.auth")
            exceptions = import_module("google.auth.exceptions")
        except ImportError as error:
            how = "for those of Google Cloud install swink-provider-gemini[vertex]"
            message = f"no credentials for {self.name}: {names} is not set; {how}"
            raise _failed(Kind.AUTH, "no_credentials", message, error) from error
        try:
            credentials, project = auth.default(scopes=[SCOPE])
        except exceptions.GoogleAuthError as error:
            message = f"no credentials for {self.name}: {names} is not set, and {error}"
            raise _failed(Kind.AUTH, "no_credentials", message, error) from error
        return credentials, project


def _failed(kind: Kind, code: str, message: str, error: Exception) -> ProviderFailure:
    return ProviderFailure(
        Failure("request", kind=kind, code=code, message=message, exception=error)
    )


def _host(location: str) -> str:
    """Return a location's host.

    https://cloud.google.com/vertex-ai/generative-ai/docs/learn/locations
    """
    if location == "global":
        return "aiplatform.googleapis.com"
    if location in MULTI_REGIONS:
        return f"aiplatform.{location}.rep.googleapis.com"
    return f"{location}-aiplatform.googleapis.com"


def _in_project(base: str, project: str | None, location: str) -> str:
    return f"{base}/projects/{project}/locations/{location}" if project else base


def _is_fresh(credentials: Any) -> bool:
    """google-auth's own judgement: it has a token as stale some minutes before it expires."""
    return bool(credentials.valid)
