"""Mistral models on Vertex AI: the chat API at `rawPredict`, from `swink_provider_mistral`.

https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/mistral: both the URL and
the body contain the model's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from swink_core import Context, Model, StreamOptions
from swink_provider_gemini.vendors import AtRawPredict
from swink_provider_mistral import MistralProvider

__all__ = ["Speaker"]


class Speaker(AtRawPredict, MistralProvider):
    """The provider of Mistral models, with requests and answers in Mistral's format."""

    def __init__(self, name: str, address: Callable[[Model, StreamOptions], str]) -> None:
        own = MistralProvider("mistral").dialect
        adds = own.adds - {"file_ids"}  # on Vertex AI, files are in Cloud Storage
        here = evolve(own, cache_key=None, adds=adds)  # type: ignore[arg-type]  # a converter's
        super().__init__(name, address, here)

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body, whose model name does not contain the publisher."""
        body = super().convert(model, context, options)
        return {**body, "model": model.id.rpartition("/")[2]}
