"""Names that OpenTelemetry's conventions for generative AI use in place of swink's."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

import swink_core as swink

__all__ = ["FINISH_REASONS", "address_of", "provider_name"]

PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""The values of `gen_ai.provider.name` that differ from the name of the provider plugin."""

FINISH_REASONS = {swink.StopReason.TOOL_USE: "tool_call"}
"""Stop reasons that have another name in the conventions."""

PORTS = {"http": 80, "https": 443}


def provider_name(name: str) -> str:
    """Return the conventions' name for a provider; if they define none, return swink's name."""
    return PROVIDERS.get(name, name)


@lru_cache(maxsize=128)
def address_of(endpoint: str | None) -> tuple[str | None, int | None]:
    """Return the host and port of a URL, or `None` without a host."""
    if endpoint is None:
        return None, None
    parts = urlsplit(endpoint)
    return parts.hostname, parts.port or PORTS.get(parts.scheme)
