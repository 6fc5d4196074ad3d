"""`xai/<model>`. The `dialect` in models.toml declares differences from OpenAI's APIs.

The rules in models.toml state which options each model supports. swink-provider-openai handles the
other differences: errors have the form `{"code", "error": "text"}`, the count of completion tokens
does not include reasoning tokens, and the usage contains the cost. Web search is a tool of the
Responses API: `extra={"tools": [{"type": "web_search"}]}`. The tool type `x_search` searches posts
on X. Citations become metadata of the text. Source: https://docs.x.ai/docs/api-reference.
"""

from __future__ import annotations

from swink_core import Classification, Failure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import by_tables
from swink_provider_openai import OpenAIProvider

__all__ = ["XAIProvider"]

WORDINGS = (  # in addition to those of swink-provider-openai
    ("monthly spending limit", Kind.QUOTA_EXHAUSTED),  # with a 429
    ("model not found", Kind.MODEL_NOT_FOUND),  # with a 400
    ("does not exist or your team", Kind.MODEL_NOT_FOUND),  # with a 404 or a 400
    ("image inputs are not supported", Kind.UNSUPPORTED),  # "by this model", with a 400
    ("does not support parameter", Kind.UNSUPPORTED),
)


class XAIProvider(OpenAIProvider):
    """The provider for xAI's endpoints."""

    def classify(self, failure: Failure) -> Classification | None:
        """Classify by xAI's error messages first, and then like other services with OpenAI's API.

        xAI's error codes are sentences, so a table of codes cannot list them.
        """
        return by_tables(failure, {}, WORDINGS) or super().classify(failure)
