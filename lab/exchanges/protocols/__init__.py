"""The clients' protocols, spoken by their vendors' documents: a module for each."""

from __future__ import annotations

from lab.exchanges.protocols import chat, gemini, messages, ollama, responses
from lab.exchanges.protocols.base import Protocol

__all__ = ["PROTOCOLS", "Protocol"]

PROTOCOLS: dict[str, Protocol] = {
    "chat": chat.PROTOCOL,
    "responses": responses.PROTOCOL,
    "messages": messages.PROTOCOL,
    "gemini": gemini.PROTOCOL,
    "ollama": ollama.PROTOCOL,
}
"""The protocols, by the name that a plan gives them."""
