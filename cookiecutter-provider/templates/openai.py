"""{{ cookiecutter.title }} speaks OpenAI's Chat Completions; models.toml says where it differs."""
{% if cookiecutter.auth == "header" %}
import swink_core as swink
from swink_core import providers
{%- endif %}
from swink_provider_openai import OpenAIProvider


class {{ cookiecutter.class_name }}(OpenAIProvider):
    """The address, the variables and the dialect are rows of models.toml."""
{%- if cookiecutter.auth == "header" %}

    credential_headers = ("authorization", "x-api-key")

    async def authorize(
        self, request: providers.HTTPRequest, options: swink.StreamOptions, call: swink.Call
    ) -> None:
        if not self.has_credentials(request):
            request.headers["x-api-key"] = self.api_key(options) or ""
{%- endif %}
