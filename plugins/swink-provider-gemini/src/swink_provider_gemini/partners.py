"""Other vendors' models on Vertex AI: Chat Completions, of a package of its own.

https://cloud.google.com/vertex-ai/generative-ai/docs/maas/call-open-model-apis: one address for all
of them; the body names the model with its publisher, `meta/llama-…`.
"""

from __future__ import annotations

from swink_core import Model, StreamOptions
from swink_provider_gemini.vendors import OfVendor
from swink_provider_openai import OpenAIProvider

__all__ = ["Speaker"]


class Speaker(OfVendor, OpenAIProvider):
    """What is asked of such a model, and who reads the answer; `address` is that of them all."""

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the endpoint's address."""
        return f"{self._address(model, options)}/{self.api(model, options).path}"
