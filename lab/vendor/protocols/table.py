"""All APIs, in the order in which paths are tried."""

from __future__ import annotations

from lab.vendor.protocols.base import API
from lab.vendor.protocols.bedrock import Bedrock
from lab.vendor.protocols.chat import Chat
from lab.vendor.protocols.cohere import Cohere
from lab.vendor.protocols.gemini import Gemini
from lab.vendor.protocols.messages import Messages
from lab.vendor.protocols.ollama import Ollama
from lab.vendor.protocols.responses import Responses

__all__ = ["APIS", "PROVIDERS"]

APIS: tuple[API, ...] = (Chat(), Responses(), Messages(), Gemini(), Bedrock(), Ollama(), Cohere())

PROVIDERS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "vertex": "gemini",
    "bedrock": "bedrock",
    "ollama": "ollama",
    "cohere": "cohere",
}
"""The vendors that may lead a path. The others that have rules speak OpenAI's protocols."""
