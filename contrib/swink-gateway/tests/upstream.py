"""Recorded answers of providers, to stand behind a gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from attrs import define
from serving import ONCE, serving

import swink_core as swink
from swink_gateway.server import Gateway
from swink_recorder.recording import Recording
from swink_testing.corpus import Case, shipped_answers, stream_cases
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

FOLDERS = {
    "anthropic": ("anthropic", {}),
    "gemini": ("gemini", {}),
    "ollama": ("ollama", {}),
    "openai_chat": ("openai", {"api": "chat"}),
    "openai_responses": ("openai", {"api": "responses"}),
    "groq": ("groq", {}),
    "deepseek": ("deepseek", {}),
    "openrouter": ("openrouter", {}),
}  # fmt: skip
"""Who reads which part of the corpus, with which settings."""

PACKAGES = ("anthropic", "gemini", "ollama", "openai")

PATHS = {"/responses": "responses", "/chat/completions": "chat"}


@define
class Upstream:
    """A recorded answer and who gave it."""

    name: str
    provider: str
    settings: Mapping[str, Any]
    source: Case | Recording

    def http(self, body: bytes | None = None) -> MemoryHTTPClient:
        """Make what answers one request as recorded, or with another body."""
        source = self.source
        data = source.body if body is None else body
        return MemoryHTTPClient(MemoryResponse([data], source.status, source.headers))

    @asynccontextmanager
    async def behind(self, body: bytes | None = None) -> AsyncIterator[Gateway]:
        """Serve the answer, once."""
        async with serving(http=self.http(body), providers=self.providers) as gateway:
            yield gateway

    @property
    def providers(self) -> Any:
        return {self.provider: {"api_key": "k", **self.settings}}

    @property
    def model(self) -> str:
        return f"{self.provider}/any"

    async def direct(self, body: bytes | None = None) -> tuple[swink.AssistantMessage, Any]:
        """Return the message, and the last event, that swink reads without a gateway."""
        http = self.http(body)
        async with (
            swink.Client(http=http, providers=self.providers) as client,
            client.stream(self.model, "Hi", retry=ONCE) as stream,
        ):
            events = [event async for event in stream]
            return stream.message, events[-1]


def shipped() -> list[Upstream]:
    """List completed answers among the recordings that the providers' packages ship."""
    return [
        Upstream(f"{one.provider}/{one.name}", one.provider, _api(one), one)
        for package in PACKAGES
        for one in shipped_answers(f"swink_provider_{package}")
        if one.provider != "vertex"  # which asks elsewhere for a token first
    ]


def _api(recording: Recording) -> dict[str, Any]:
    path = recording.request.path
    found = [api for end, api in PATHS.items() if recording.provider == "openai" and end in path]
    return {"api": found[0]} if found else {}


def corpus() -> list[Upstream]:
    """List the streams of the corpus, where there is one."""
    return [
        Upstream(case.name, provider, settings, case)
        for folder, (provider, settings) in FOLDERS.items()
        for case in stream_cases(folder)
        if "json-array-stream" not in case.features
    ]


def ids(upstream: Upstream) -> str:
    """Name a recorded answer in pytest's output."""
    return upstream.name
