"""Claude on Vertex AI: the Messages API at `rawPredict`, of a package of its own.

https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai: the model stands in the
address, and the version of the API in the body.
"""

from __future__ import annotations

from typing import Any

from swink_core import Model, StreamOptions
from swink_provider_anthropic import AnthropicProvider
from swink_provider_gemini.vendors import AtRawPredict

__all__ = ["Speaker"]

VERSION = "vertex-2023-10-16"


class Speaker(AtRawPredict, AnthropicProvider):
    """What is asked of Claude, and who reads the answer."""

    features = AnthropicProvider.features - {"file_ids"}

    def body(self, model: Model, payload: Any, options: StreamOptions) -> dict[str, Any]:
        """Name the API's version where the model's name would be."""
        body = super().body(model, payload, options)
        del body["model"]
        return {"anthropic_version": VERSION, **body}
