"""Calls Claude on Vertex AI, with the code for the Messages API in `swink_provider_anthropic`.

https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai: the URL contains the
model's name, and the body contains the version of the API.
"""

from __future__ import annotations

from typing import Any

from swink_core import Context, Model, StreamOptions
from swink_provider_anthropic import AnthropicProvider
from swink_provider_gemini.vendors import AtRawPredict

__all__ = ["Speaker"]

VERSION = "vertex-2023-10-16"


class Speaker(AtRawPredict, AnthropicProvider):
    """The provider of Claude models, with requests and answers in Anthropic's format."""

    features = AnthropicProvider.features - {"file_ids"}

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body, without the model's name and with the version of the API."""
        body = super().convert(model, context, options)
        del body["model"]
        return {"anthropic_version": VERSION, **body}
