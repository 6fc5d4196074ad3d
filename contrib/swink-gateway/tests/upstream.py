"""Recorded answers of providers as upstreams of a gateway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import define
from sdks import CHOSEN
from serving import ONCE

import swink_core as swink
from swink_core.providers import HTTPRequest, HTTPResponse
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_recorder.recording import Recording, bundled_recordings
from swink_test_helpers.corpus import Case, stream_cases
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

CHAT, RESPONSES = {"api": "chat"}, {"api": "responses"}

FOLDERS: dict[str, tuple[str, dict[str, str]]] = {
    "anthropic": ("anthropic", {}),
    "azure": ("azure", CHAT),
    "azure_responses": ("azure", RESPONSES),
    "bedrock": ("bedrock", {}),
    "deepseek": ("deepseek", {}),
    "gemini": ("gemini", {}),
    "groq": ("groq", {}),
    "llamacpp": ("llamacpp", {}),
    "lmstudio": ("lmstudio", {}),
    "mistral": ("mistral", {}),
    "ollama": ("ollama", {}),
    "openai_chat": ("openai", CHAT),
    "openai_responses": ("openai", RESPONSES),
    "openrouter": ("openrouter", {}),
    "together": ("together", {}),
    "vllm": ("vllm", {}),
    "xai": ("xai", CHAT),
    "xai_responses": ("xai", RESPONSES),
}
"""The provider and the settings for each part of the corpus."""

UNREADABLE = {
    "gemini/prism-stream-with-tools-1": "a handwritten thoughtSignature that is not base64",
    "gemini/prism-stream-basic-text-1": "lines without the prefix of a frame",
    "ollama/openllmetry-ollama-streaming-generation-legacy": "of /api/generate",
    "ollama/openllmetry-ollama-streaming-metrics": "of /api/generate",
}
"""Recordings that the vendor's SDK cannot read, with reasons."""

PACKAGES = (
    "anthropic", "azure", "bedrock", "cohere", "gemini", "local", "mistral", "ollama", "openai",
    "proxy", "xai",
)  # fmt: skip
"""The providers over HTTP, whose packages ship recordings."""

PATHS = {"/responses": "responses", "/chat/completions": "chat"}

EVERYTHING = bool(CHOSEN)
"""Whether the whole corpus is read, and all shipped recordings are cut at every frame."""


_DIRECT: dict[tuple[str, bytes | None], tuple[swink.AssistantMessage, Any]] = {}


@define
class Upstream:
    """A recorded answer and its provider."""

    name: str
    provider: str
    settings: Mapping[str, Any]
    source: Case | Recording

    def answer(self, body: bytes | None = None) -> MemoryResponse:
        """Return the answer as recorded, or with another body."""
        data = self.source.body if body is None else body
        return MemoryResponse([data], self.source.status, self.source.headers)

    @property
    def providers(self) -> Any:
        there = {"base_url": "http://upstream.invalid/v1", "api_key": "k"}
        return {self.provider: {**there, **self.settings}}

    @property
    def model(self) -> str:
        return f"{self.provider}/{getattr(self.source, 'model', 'any')}"

    async def direct(self, body: bytes | None = None) -> tuple[swink.AssistantMessage, Any]:
        """Return the message and the last event that swink reads without a gateway."""
        key = (self.name, body)
        if key not in _DIRECT:
            _DIRECT[key] = await self._direct(body)
        return _DIRECT[key]

    async def _direct(self, body: bytes | None) -> tuple[swink.AssistantMessage, Any]:
        http = MemoryHTTPClient(self.answer(body))
        async with (
            swink.Client(http=http, providers=self.providers) as client,
            client.stream(self.model, "Hi", retry=ONCE) as stream,
        ):
            events = [event async for event in stream]
            return stream.message, events[-1]


def shipped() -> dict[str, list[Upstream]]:
    """Return the recordings in the providers' packages, including failures.

    They are grouped by provider and settings.
    """
    groups: dict[str, list[Upstream]] = {}
    for package in PACKAGES:
        for folder in bundled_recordings(f"swink_provider_{package}"):
            one = Recording.load(folder)
            settings = _api(one)
            group = groups.setdefault("-".join([one.provider, *settings.values()]), [])
            group.append(Upstream(f"{one.provider}/{one.name}", one.provider, settings, one))
    return groups


def _api(recording: Recording) -> dict[str, Any]:
    path = recording.request.path
    found = [api for end, api in PATHS.items() if recording.provider == "openai" and end in path]
    return {"api": found[0]} if found else {}


def corpus(folder: str, most: int) -> list[Upstream]:
    """List at most about `most` streams of a part of the corpus; none if it is not available."""
    provider, settings = FOLDERS[folder]
    found = [
        Upstream(case.name, provider, settings, case)
        for case in stream_cases(folder)
        if "json-array-stream" not in case.features and case.name not in UNREADABLE
    ]
    return found[:: max(1, len(found) // most)]


BEGUN_ANEW = ("anthropic/vercel-spliced-message-start", "anthropic/begun-anew")
"""Recorded answers that restart."""

CANNOT_TAKE_BACK = ("chat", "responses", "socket", "messages")
"""Protocols in which a restart after output is a failure."""


class Vendor(LoopbackServer):
    """A server that answers every request with a recorded answer."""

    answer: Upstream

    async def respond(self, exchange: Exchange) -> None:
        usual = "application/x-ndjson" if self.answer.provider == "ollama" else "text/event-stream"
        kind = self.answer.source.headers.get("content-type") or usual
        await exchange.start(200, {"Content-Type": kind})
        await exchange.write(self.answer.source.body)
        await exchange.end()


class Answers:
    """An `HTTPClient` that returns the answer in `next`, and 404 to `/api/show`."""

    next: MemoryResponse
    last: HTTPRequest

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        if request.url.endswith("/api/show"):
            return MemoryResponse.of_json({"error": "not recorded"}, 404)
        self.last = request
        return self.next

    def close_idle(self) -> None:
        """Do nothing, for lack of connections."""

    async def aclose(self) -> None:
        """Do nothing, for lack of connections."""


@contextmanager
def about(upstream: Upstream) -> Iterator[None]:
    """Add the name of the recorded answer to an exception."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"recorded: {upstream.name}")
        raise
