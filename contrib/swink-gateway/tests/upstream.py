"""Recorded answers of providers, to stand behind a gateway."""

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
"""Who reads which part of the corpus, with which settings."""

UNREADABLE = {
    "gemini/prism-stream-with-tools-1": "a thoughtSignature, written by hand, that is no base64",
    "gemini/prism-stream-basic-text-1": "a line for each frame, which begins with nothing",
    "ollama/openllmetry-ollama-streaming-generation-legacy": "of /api/generate",
    "ollama/openllmetry-ollama-streaming-metrics": "of /api/generate",
}
"""What the vendor's own SDK does not read, and why."""

PACKAGES = (
    "anthropic", "azure", "bedrock", "cohere", "gemini", "local", "mistral", "ollama", "openai",
    "proxy", "xai",
)  # fmt: skip
"""Whose recordings are here: all providers' that are asked over HTTP."""

PATHS = {"/responses": "responses", "/chat/completions": "chat"}

EVERYTHING = bool(CHOSEN)
"""Whether all of the corpus is read, and all that providers ship is cut at every frame."""


_DIRECT: dict[tuple[str, bytes | None], tuple[swink.AssistantMessage, Any]] = {}


@define
class Upstream:
    """A recorded answer and who gave it."""

    name: str
    provider: str
    settings: Mapping[str, Any]
    source: Case | Recording

    def answer(self, body: bytes | None = None) -> MemoryResponse:
        """Make one answer as recorded, or with another body."""
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
        """Return the message, and the last event, that swink reads without a gateway."""
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
    """Return the recordings that the providers' packages ship, failures among them.

    They are in groups of one provider with the same settings.
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
    """List streams of a part of the corpus, where there is one, taken evenly."""
    provider, settings = FOLDERS[folder]
    found = [
        Upstream(case.name, provider, settings, case)
        for case in stream_cases(folder)
        if "json-array-stream" not in case.features and case.name not in UNREADABLE
    ]
    return found[:: max(1, len(found) // most)]


BEGUN_ANEW = ("anthropic/vercel-spliced-message-start", "anthropic/begun-anew")
"""Recorded answers that begin anew."""

CANNOT_TAKE_BACK = ("chat", "responses", "socket", "messages")
"""Protocols for which an answer that begins anew is a failure."""


class Vendor(LoopbackServer):
    """Answers everything with what was recorded of a vendor, as it was."""

    answer: Upstream

    async def respond(self, exchange: Exchange) -> None:
        usual = "application/x-ndjson" if self.answer.provider == "ollama" else "text/event-stream"
        kind = self.answer.source.headers.get("content-type") or usual
        await exchange.start(200, {"Content-Type": kind})
        await exchange.write(self.answer.source.body)
        await exchange.end()


class Answers:
    """An `HTTPClient` that gives the one answer that is put into it; no server shows a model."""

    next: MemoryResponse
    last: HTTPRequest

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        if request.url.endswith("/api/show"):
            return MemoryResponse.of_json({"error": "not recorded"}, 404)
        self.last = request
        return self.next

    def close_idle(self) -> None:
        """There are no connections."""

    async def aclose(self) -> None:
        """There are no connections."""


@contextmanager
def about(upstream: Upstream) -> Iterator[None]:
    """Name the recorded answer that something is wrong with."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"recorded: {upstream.name}")
        raise
