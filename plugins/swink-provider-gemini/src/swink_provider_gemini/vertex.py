"""`vertex/<model>`: Vertex AI, with Google Cloud's credentials.

The URL contains a location and a project. Credentials are an API key, an access token, or
Application Default Credentials. The package google-auth finds and renews Application Default
Credentials; the package is imported when they are first needed. With an API key and without a
project, the API works in "express mode"
(https://cloud.google.com/vertex-ai/generative-ai/docs/start/express-mode/overview).

On Vertex AI, models of other vendors have the APIs of their vendors. Other packages implement these
APIs: `swink_provider_anthropic` for Claude, `swink_provider_mistral` for Mistral,
`swink_provider_openai` for models named with their publisher (`meta/llama-…`).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from math import inf
from typing import Any

from attrs import define

from swink_core import (
    AssistantMessage,
    Context,
    Failure,
    Model,
    Notice,
    ProviderFailure,
    StreamOptions,
    replace,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import (
    Fitted,
    Grant,
    HTTPProvider,
    HTTPRequest,
    Token,
    TokenHTTP,
    first_set,
)
from swink_provider_gemini.provider import GeminiProvider

__all__ = ["VertexProvider"]

PROJECT_ENV = "GOOGLE_CLOUD_PROJECT"
LOCATION_ENV = "GOOGLE_CLOUD_LOCATION"
FILE_ENV = "GOOGLE_APPLICATION_CREDENTIALS"

SCOPE = "https://www.googleapis.com/auth/cloud-platform"

VERSIONS = ("/v1", "/v1beta1")

MULTI_REGIONS = ("us", "eu")

KEY_PREFIXES = ("AIza", "AQ.")
"""The beginnings of API keys; other credentials are access tokens."""

_PUBLISHED = "/publishers/google/models/"
_AFTER_PROJECT = re.compile(r"/(publishers|endpoints)/")

_FAMILIES = {
    "claude": re.compile(r"(^|/)claude-"),
    "mistral": re.compile(
        r"^((publishers/mistralai/models|mistralai)/|(mistral|ministral|codestral)[-@])"
    ),
    "partners": re.compile(r"^(?!(endpoints|models|tunedModels)/)[^/]+/[^/]+$"),
}
"""The modules for models of other vendors, with patterns of model ids.

Each module needs another package, which an extra of the same name installs.
"""

_PUBLISHERS = {"claude": "anthropic", "mistral": "mistralai"}


class VertexProvider(GeminiProvider):
    """Models on Vertex AI: Gemini models and models of other vendors."""

    # On Vertex AI, files are in Cloud Storage: gs://….
    features = GeminiProvider.features - {"file_ids"}

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._speakers: dict[str, HTTPProvider] = {}

    def base_url(self, options: StreamOptions, environ: Mapping[str, str] | None = None) -> str:
        """Return the beginning of all URLs, up to and including the project and the location.

        The user's option `base_url` contains a host and may contain a version, a project and a
        location; this method adds those that it does not contain.
        """
        location = _location(options, environ)
        given = self.given_url(options, environ)
        base = (given or f"https://{_host(location)}").rstrip("/")
        if "/projects/" in base:
            return base
        if not base.endswith(VERSIONS):
            base += VERSIONS[0]
        project = options.settings.get("project") or first_set([PROJECT_ENV], environ)
        return _in_project(base, project, location)

    def model_url(self, model: Model, options: StreamOptions) -> str:
        """Return the URL of a model, whose name may include the collection."""
        base, name = self.base_url(options), self.model_path(model, model.id, "/@")
        if name.startswith("projects/"):
            return f"{base.partition('/projects/')[0]}/{name}"
        family = _family(model.id) or ""
        if family == "partners":
            return f"{base}/endpoints/openapi"
        if (publisher := _PUBLISHERS.get(family)) and not name.startswith("publishers/"):
            return f"{base}/publishers/{publisher}/models/{name.removeprefix(f'{publisher}/')}"
        return f"{base}/{name}" if "/" in name else f"{base}{_PUBLISHED}{name}"

    # -- other vendors' models -----------------------------------------------------------------

    def api(self, model: Model, options: StreamOptions) -> Any:
        """Return the object that converts requests and parses answers for the model's vendor."""
        speaker = self._speaker(model)
        return speaker.api(model, options) if speaker else super().api(model, options)

    def fit(self, model: Model, context: Context, options: StreamOptions) -> Fitted:
        """Return the call, adapted to the API of the model's vendor."""
        speaker = self._speaker(model)
        return (speaker.fit if speaker else super().fit)(model, context, options)

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body for the API of the model's vendor.

        Earlier answers from models of another vendor are converted like answers of another
        provider, even if they came through this provider.
        """
        speaker, family = self._speaker(model), _family(model.id)
        messages = [
            replace(message, provider=f"{self.name} {_family(message.model)}")
            if isinstance(message, AssistantMessage)
            and message.provider == self.name
            and message.model is not None
            and _family(message.model) != family
            else message
            for message in context.messages
        ]
        told = replace(context, messages=messages)
        native: dict[str, Any] = (speaker.convert if speaker else super().convert)(
            model, told, options
        )
        return native

    def request(self, model: Model, payload: dict[str, Any], options: StreamOptions) -> HTTPRequest:
        """Return the request for the API of the model's vendor."""
        speaker = self._speaker(model)
        return (speaker.request if speaker else super().request)(model, payload, options)

    def notices(self, model: Model, options: StreamOptions) -> tuple[Notice, ...]:
        """Return the notices about options for the API of the model's vendor."""
        speaker = self._speaker(model)
        return (speaker.notices if speaker else super().notices)(model, options)

    def parser(self, model: Model) -> Any:
        """Create a parser for one answer of the model's vendor."""
        speaker = self._speaker(model)
        return speaker.parser(model) if speaker else super().parser(model)

    def speaker(self, model: Model) -> HTTPProvider:
        """Return the provider whose error format the model uses."""
        return self._speaker(model) or self

    def _speaker(self, model: Model) -> HTTPProvider | None:
        """Return the provider of another vendor's model; `None` for Gemini."""
        family = _family(model.id)
        if family is not None and family not in self._speakers:
            try:
                module = import_module(f"{__package__}.{family}")
            except ImportError as error:
                needed = (error.name or family).partition(".")[0].replace("_", "-")
                message = f"{model} uses an API that requires {needed}"
                failure = Failure("request", kind=Kind.UNSUPPORTED, code="extra", message=message)
                failure.resolution = f"pip install 'swink-provider-gemini[{family}]'"
                failure.exception = error
                raise ProviderFailure(failure) from error
            self._speakers[family] = module.Speaker(self.name, self.model_url)
        return self._speakers.get(family or "")

    # -- credentials ---------------------------------------------------------------------------

    def credential(
        self, request: HTTPRequest, options: StreamOptions
    ) -> str | Token | Grant | None:
        """Return the API key or access token, or else a grant for Google's default credentials."""
        key = self.api_key(options)
        names = " or ".join(self.info.api_key_env)
        missing = f"no credentials for {self.name}: {names} is not set"
        return key or _DefaultCredentials(missing, os.environ.get(FILE_ENV))

    def sign(self, request: HTTPRequest, credential: str | Token, options: StreamOptions) -> None:
        """Add the API key or an access token.

        If the URL contains no project, insert the project of the token.
        """
        if isinstance(credential, str) and credential.startswith(KEY_PREFIXES):
            request.headers["x-goog-api-key"] = credential
            return
        HTTPProvider.sign(self, request, credential, options)
        if "/projects/" not in request.url:
            project = credential.project if isinstance(credential, _AccessToken) else None
            self._add_project(request, project, _location(options))

    def _add_project(self, request: HTTPRequest, project: str | None, location: str) -> None:
        """Insert the project into the URL. Raises ProviderFailure if the project is unknown."""
        place = _AFTER_PROJECT.search(request.url)
        if project is not None and place is not None:
            base, rest = request.url[: place.start()], request.url[place.start() :]
            request.url = f"{_in_project(base, project, location)}{rest}"
        elif ".googleapis.com/" in request.url:
            raise ProviderFailure(
                Failure(
                    "request",
                    kind=Kind.INVALID_REQUEST,
                    code="no_project",
                    message=f"no project for {self.name}: {PROJECT_ENV} is not set",
                )
            )


@define(frozen=True)
class _AccessToken(Token):
    project: str | None = None


@define(frozen=True)
class _DefaultCredentials(Grant):
    """Fetches tokens with Application Default Credentials, for example those in `file`."""

    missing: str
    file: str | None

    async def fetch(self, http: TokenHTTP) -> Token:
        return await asyncio.to_thread(self._fetch)

    def _fetch(self) -> Token:
        try:
            auth = import_module("google.auth")
            exceptions = import_module("google.auth.exceptions")
            transport = import_module("google.auth.transport.requests")
        except ImportError as error:
            how = "for credentials of Google Cloud, pip install 'swink-provider-gemini[vertex]'"
            raise _failed(Kind.AUTH, "no_credentials", f"{self.missing}; {how}", error) from error
        try:
            credentials, project = auth.default(scopes=[SCOPE])
        except exceptions.GoogleAuthError as error:
            message = f"{self.missing}, and {error}"
            raise _failed(Kind.AUTH, "no_credentials", message, error) from error
        try:
            credentials.refresh(transport.Request())
        except exceptions.TransportError as error:
            raise _failed(Kind.NETWORK, "token", str(error), error) from error
        except exceptions.GoogleAuthError as error:
            raise _failed(Kind.AUTH, "token", str(error), error) from error
        return _AccessToken(str(credentials.token), _seconds_left(credentials.expiry), project)


def _seconds_left(expiry: datetime | None) -> float:
    """Return the seconds until a token expires. `expiry` is in UTC, without a time zone."""
    return (
        inf if expiry is None else (expiry.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds()
    )


def _family(id: str) -> str | None:
    """Return the name of the module that handles a model id; `None` for Gemini."""
    return next((name for name, pattern in _FAMILIES.items() if pattern.search(id)), None)


def _failed(kind: Kind, code: str, message: str, error: Exception) -> ProviderFailure:
    return ProviderFailure(
        Failure("request", kind=kind, code=code, message=message, exception=error)
    )


def _location(options: StreamOptions, environ: Mapping[str, str] | None = None) -> str:
    location: str | None = options.settings.get("location") or first_set([LOCATION_ENV], environ)
    return location or "global"


def _host(location: str) -> str:
    """Return the host of a location.

    Source: https://cloud.google.com/vertex-ai/generative-ai/docs/learn/locations
    """
    if location == "global":
        return "aiplatform.googleapis.com"
    if location in MULTI_REGIONS:
        return f"aiplatform.{location}.rep.googleapis.com"
    return f"{location}-aiplatform.googleapis.com"


def _in_project(base: str, project: str | None, location: str) -> str:
    return f"{base}/projects/{project}/locations/{location}" if project else base
