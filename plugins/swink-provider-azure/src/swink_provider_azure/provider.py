"""`azure/<deployment>`: OpenAI's APIs on an Azure resource.

There are two forms of URLs. With an API version, the URL is
`{resource}/openai/deployments/{deployment}/…`. Without one, it is `{resource}/openai/v1/…`, and the
body's `model` names the deployment. By default, the deployment has the same name as the model; the
setting `deployment` overrides this. Credentials are a key, an application's secret, or an identity
that azure-identity finds. Source: https://learn.microsoft.com/azure/ai-foundry/openai/reference and
…/api-version-lifecycle.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import msgspec

from swink_core import Classification, Context, Failure, Model, ProviderFailure, StreamOptions
from swink_core import StreamErrorKind as Kind
from swink_core.providers import Grant, HTTPRequest, Token, by_tables, first_set
from swink_provider_azure.entra import ClientCredentials, managed_identity
from swink_provider_openai import OpenAIProvider

__all__ = ["AzureProvider"]

VERSION_ENV = ("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION")

CODES = {"OperationNotSupported": Kind.UNSUPPORTED}
"""Error codes that only Azure returns; the OpenAI package classifies the others."""


class _Filtered(msgspec.Struct):
    """A response to a rejected prompt, with nothing but the results of the content filters."""

    choices: list[Any] | None = None
    error: Any = None
    prompt_filter_results: list[Any] | None = None


class AzureProvider(OpenAIProvider):
    """Azure OpenAI's endpoints, for the resource in `base_url` or the environment."""

    credential_headers = ("authorization", "api-key")

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the deployment's URL, in the form that the API version requires.

        The version comes from the setting `api_version`, the query of the base URL, or the
        environment variables `AZURE_OPENAI_API_VERSION` and `OPENAI_API_VERSION`, in this order.
        """
        api = self.api(model, options)
        parts = urlsplit(self.base_url(options))
        path = parts.path.rstrip("/")
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        version = options.settings.get("api_version") or query.get("api-version")
        version = version or first_set(VERSION_ENV)
        if not path.endswith("/openai/v1") and "/deployments/" not in path:
            path = path.removesuffix("/openai")
            if version and api.path == "responses":
                path = f"{path}/openai"  # the body contains the deployment as `model`
            elif version:
                deployment = self.model_path(model, _deployment(model, options))
                path = f"{path}/openai/deployments/{deployment}"
            else:
                path = f"{path}/openai/v1"
        if version and not path.endswith("/openai/v1"):
            query["api-version"] = version
        where = parts._replace(path=f"{path}/{api.path}", query=urlencode(query))
        return urlunsplit(where)

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body with the deployment in place of the model's name."""
        body = super().convert(model, context, options)
        return {**body, "model": _deployment(model, options)}

    def credential(
        self, request: HTTPRequest, options: StreamOptions
    ) -> str | Token | Grant | None:
        """Return the API key, or else a grant that fetches tokens for an application."""
        try:
            return self.api_key(options)
        except ProviderFailure:
            grant = ClientCredentials.of_environment() or managed_identity()
            if grant is None:
                raise
            return grant

    def sign(self, request: HTTPRequest, credential: str | Token, options: StreamOptions) -> None:
        """Send a key as `api-key`, and a token as a bearer token."""
        if isinstance(credential, Token):
            super().sign(request, credential, options)
        else:
            request.headers["api-key"] = credential

    def error_facts(self, failure: Failure) -> None:
        """Read an error and its inner error.

        If the response contains no error, read the results of the content filters.
        """
        super().error_facts(failure)
        try:
            body = msgspec.json.decode(failure.body, type=_Filtered)
        except msgspec.DecodeError:
            return
        inner = body.error.get("innererror") if isinstance(body.error, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("code"), str):
            failure.type = inner["code"]
        if body.error is None and (body.choices or body.prompt_filter_results):
            failure.code = "content_filter"
            failure.message = "the prompt was refused by a content filter"

    def classify(self, failure: Failure) -> Classification | None:
        """Classify a failure by Azure's own codes, then as the OpenAI package does."""
        return by_tables(failure, CODES) or super().classify(failure)


def _deployment(model: Model, options: StreamOptions) -> str:
    name: str = options.settings.get("deployment") or model.id
    return name
