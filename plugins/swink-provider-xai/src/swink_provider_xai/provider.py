"""`xai/<model>`. The `dialect` in models.toml describes differences from OpenAI's APIs, and the
rules there describe the models.

Its errors are `{"code", "error": "text"}`, its reasoning is counted beside the completion, and
its usage names the cost: the wire format's package reads all of these. It searches by tools of
the Responses API, `extra={"tools": [{"type": "web_search"}]}` or `x_search`; citations come as
metadata of the text. Source: https://docs.x.ai/docs/api-reference.
"""

from __future__ import annotations

from swink_core import Classification, Failure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import by_tables
from swink_provider_openai import OpenAIProvider

__all__ = ["XAIProvider"]

WORDINGS = (  # besides those of the wire format's package
    ("monthly spending limit", Kind.QUOTA_EXHAUSTED),  # with a 429
    ("model not found", Kind.MODEL_NOT_FOUND),  # with a 400
    ("does not exist or your team", Kind.MODEL_NOT_FOUND),  # with a 404 or a 400
    ("image inputs are not supported", Kind.UNSUPPORTED),  # "by this model", with a 400
    ("does not support parameter", Kind.UNSUPPORTED),
)


class XAIProvider(OpenAIProvider):
    """xAI's endpoints."""

    def classify(self, failure: Failure) -> Classification | None:
        """Ask xAI's own wordings first; its codes are prose."""
        return by_tables(failure, {}, WORDINGS) or super().classify(failure)
