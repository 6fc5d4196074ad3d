"""Hooli's own model service: OpenAI's wire format, and tokens that an agent here renews."""

import asyncio
import os
from pathlib import Path

from attrs import define

import swink_core as swink
from swink_core import providers
from swink_provider_openai import OpenAIProvider

__all__ = ["Hooli"]


SECONDS = 60.0
"""How long a token is used before the file is read again."""


class Hooli(OpenAIProvider):
    """Takes HOOLI_TOKEN, or the token in the file that HOOLI_TOKEN_FILE names.

    The address, the prices and what the service takes are in models.toml.
    """

    def credential(
        self, request: providers.HTTPRequest, options: swink.StreamOptions
    ) -> str | providers.Token | providers.Grant | None:
        """Return the token in the file, or else the caller's."""
        path = os.environ.get("HOOLI_TOKEN_FILE")
        return self.api_key(options) if path is None else TokenFile(path)


@define(frozen=True)
class TokenFile(providers.Grant):
    """A file in which the agent leaves tokens; it is read again once a token is refused."""

    path: str

    async def fetch(self, http: providers.TokenHTTP) -> providers.Token:
        """Read the token of the moment."""
        try:
            text = await asyncio.to_thread(Path(self.path).read_text, "utf-8")
        except OSError as error:
            raise swink.ProviderFailure(
                swink.Failure(
                    "request",
                    kind=swink.StreamErrorKind.AUTH,
                    message=f"{self.path}: {error.strerror}",
                    resolution="Start the agent, or set HOOLI_TOKEN in place of HOOLI_TOKEN_FILE.",
                )
            ) from None
        return providers.Token(text.strip(), SECONDS)
