"""All APIs, with the files and batches that belong to them."""

from __future__ import annotations

from lab.vendor.protocols import (
    anthropic_batches,
    gemini_batches,
    gemini_caches,
    openai_batches,
    openai_embeddings,
    openai_models,
    openai_things,
)
from lab.vendor.protocols.base import API
from lab.vendor.protocols.bedrock import Bedrock
from lab.vendor.protocols.chat import Chat
from lab.vendor.protocols.cohere import Cohere
from lab.vendor.protocols.gemini import Gemini
from lab.vendor.protocols.messages import Messages
from lab.vendor.protocols.mistral import Mistral
from lab.vendor.protocols.ollama import Ollama
from lab.vendor.protocols.responses import Responses

__all__ = ["APIS", "PROVIDERS"]


def _apis() -> tuple[API, ...]:
    chat = Chat()
    responses = Responses()
    messages = Messages()
    gemini = Gemini()
    endpoints = {"/v1/chat/completions": chat, "/v1/responses": responses}
    chat.routes += (*openai_models.ROUTES, *openai_batches.routes(endpoints))
    chat.routes += (*openai_things.ROUTES, *openai_embeddings.ROUTES)
    messages.routes += anthropic_batches.routes(messages)
    gemini.routes += (*gemini_batches.routes(gemini), *gemini_caches.routes(gemini))
    return (chat, responses, messages, gemini, Bedrock(), Ollama(), Cohere(), Mistral())


APIS = _apis()
"""The APIs, in the order in which paths are tried."""

PROVIDERS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "vertex": "gemini",
    "bedrock": "bedrock",
    "ollama": "ollama",
    "cohere": "cohere",
    "mistral": "mistral",
}
"""The vendors that may lead a path. The others that have rules speak OpenAI's protocols."""
