"""Hooli's own model service: OpenAI's wire format, and tokens that an agent here renews."""

import asyncio
import os
from pathlib import Path

import swink_core as swink
from swink_core import providers
from swink_provider_openai import OpenAIProvider

__all__ = ["Hooli"]


class Hooli(OpenAIProvider):
    """Takes HOOLI_TOKEN, or the token in the file that HOOLI_TOKEN_FILE names.

    The address, the prices and what the service takes are in models.toml.
    """

    _token: str | None = None

    async def authorize(
        self, request: providers.HTTPRequest, options: swink.StreamOptions, call: swink.Call
    ) -> None:
        """Send the caller's token, or the one in the file."""
        if not self.has_credentials(request) and (token := await self._of_file()) is not None:
            self._token = token
            request.headers["Authorization"] = f"Bearer {token}"
        await super().authorize(request, options, call)

    async def refresh(self, call: swink.Call) -> bool:
        """Tell whether the agent has written another token than the one that was refused."""
        return await self._of_file() not in {None, self._token}

    async def _of_file(self) -> str | None:
        if (path := os.environ.get("HOOLI_TOKEN_FILE")) is None:
            return None
        try:
            return (await asyncio.to_thread(Path(path).read_text, "utf-8")).strip()
        except OSError as error:
            raise swink.ProviderFailure(
                swink.Failure(
                    "request",
                    kind=swink.StreamErrorKind.AUTH,
                    message=f"{path}: {error.strerror}",
                    resolution="Start the agent, or set HOOLI_TOKEN in place of HOOLI_TOKEN_FILE.",
                )
            ) from None
