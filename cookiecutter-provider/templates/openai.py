"""{{ cookiecutter.title }} speaks OpenAI's Chat Completions; models.toml says where it differs."""

from swink_provider_openai import OpenAIProvider


class {{ cookiecutter.class_name }}(OpenAIProvider):
    """The address, the variables and the dialect are rows of models.toml."""
