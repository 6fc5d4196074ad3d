"""Other vendors' models on Vertex AI, called by the Chat Completions code of swink-provider-openai.

https://cloud.google.com/vertex-ai/generative-ai/docs/maas/call-open-model-apis: all models have the
same URL. The body names the model with its publisher, such as `meta/llama-…`.
"""

from __future__ import annotations

from swink_core import Model, StreamOptions
from swink_provider_gemini.vendors import OfVendor
from swink_provider_openai import OpenAIProvider

__all__ = ["Speaker"]


class Speaker(OfVendor, OpenAIProvider):
    """The provider of models with the Chat Completions API. All models have the same URL."""

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the URL of the endpoint."""
        return f"{self._address(model, options)}/{self.api(model, options).path}"
