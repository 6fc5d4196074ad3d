"""Print what the gateway's clients get for a kind of failure that the gateway does not know.

    python -m lab.findings.new_kind

A core that is one version newer may report one. Needed by the work on one taxonomy of failures.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import patch

import aiohttp

import swink
from lab.findings.upstreams import verdict
from swink_core.providers import KINDS
from swink_gateway.serving.server import Gateway

KIND = "retired"
MODEL = "echo/echo"
HI = [{"role": "user", "content": "Hi"}]

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"model": MODEL, "messages": HI}),
    "chat, streamed": ("/v1/chat/completions", {"model": MODEL, "messages": HI, "stream": True}),
    "messages": ("/v1/messages", {"model": MODEL, "messages": HI, "max_tokens": 9}),
    "responses": ("/v1/responses", {"model": MODEL, "input": "Hi"}),
    "gemini": (
        f"/v1beta/models/{MODEL}:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    ),
    "ollama": ("/api/chat", {"model": MODEL, "messages": HI, "stream": False}),
}

MESSAGE = "This model was retired."


def unknown_kind() -> swink.StreamErrorKind:
    """Return a kind that only a newer core has."""
    kind = str.__new__(swink.StreamErrorKind, KIND)
    kind._name_ = KIND.upper()
    kind._value_ = KIND
    return kind


UNKNOWN = unknown_kind()


class Retiring:
    """Answer every call with the unknown failure."""

    @swink.hookimpl(tryfirst=True)
    def stream(self, model: Any, context: Any, options: Any, call: Any) -> AsyncIterator[Any]:
        """Answer one call."""

        async def events() -> AsyncIterator[Any]:
            yield swink.Start()
            error = swink.Error(error_message=MESSAGE)
            error.error_kind = UNKNOWN
            yield error

        return events()


async def run() -> None:
    """Print one line for each protocol."""
    async with (
        swink.Client(plugins=[Retiring()], retry=False) as client,
        Gateway(client) as gateway,
        aiohttp.ClientSession() as session,
    ):
        for name, (path, body) in REQUESTS.items():
            async with session.post(gateway.url + path, json=body) as response:
                text = await response.text()
            verdict(MESSAGE in text, f"{name} reports it", f"{response.status} {text[:70]!r}")


def main() -> None:
    """Run the program."""
    logging.disable(logging.CRITICAL)
    table: Any = KINDS
    with patch.dict(table, {UNKNOWN: KINDS[swink.StreamErrorKind.INTERNAL]}):
        asyncio.run(run())


if __name__ == "__main__":
    main()
