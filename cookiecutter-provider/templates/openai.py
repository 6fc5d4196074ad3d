"""{{ cookiecutter.title }} speaks OpenAI's Chat Completions; models.toml says where it differs."""
{% if cookiecutter.auth == "header" %}
from typing import Any

import swink_core as swink
from swink_core import providers
{%- endif %}
from swink_provider_openai import OpenAIProvider


class {{ cookiecutter.class_name }}(OpenAIProvider):
    """The base URL, the environment variables and the dialect are in models.toml."""
{%- if cookiecutter.auth == "header" %}

    credential_headers = ("authorization", "x-api-key")

    def sign(
        self, request: providers.HTTPRequest, credential: Any, options: swink.StreamOptions
    ) -> None:
        request.headers["x-api-key"] = credential
{%- endif %}
