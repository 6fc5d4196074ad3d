"""Recorded answers of providers, to stand behind a gateway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import define
from serving import ONCE

import swink_core as swink
from swink_core.providers import HTTPRequest, HTTPResponse
from swink_recorder.loopback import Exchange, LoopbackServer
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

UNREADABLE = {"gemini/prism-stream-with-tools-1"}
"""Whose `thoughtSignature`, written by hand, is no base64, as which the vendor's SDK reads it."""

PACKAGES = ("anthropic", "gemini", "ollama", "openai")

PATHS = {"/responses": "responses", "/chat/completions": "chat"}


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
        return {self.provider: {"api_key": "k", **self.settings}}

    @property
    def model(self) -> str:
        return f"{self.provider}/any"

    async def direct(self, body: bytes | None = None) -> tuple[swink.AssistantMessage, Any]:
        """Return the message, and the last event, that swink reads without a gateway."""
        http = MemoryHTTPClient(self.answer(body))
        async with (
            swink.Client(http=http, providers=self.providers) as client,
            client.stream(self.model, "Hi", retry=ONCE) as stream,
        ):
            events = [event async for event in stream]
            return stream.message, events[-1]


def shipped() -> dict[str, list[Upstream]]:
    """Return completed answers among the recordings that the providers' packages ship.

    They are in groups of one provider with the same settings.
    """
    groups: dict[str, list[Upstream]] = {}
    for package in PACKAGES:
        for one in shipped_answers(f"swink_provider_{package}"):
            if one.provider != "vertex":  # which asks elsewhere for a token first
                settings = _api(one)
                group = groups.setdefault("-".join([one.provider, *settings.values()]), [])
                group.append(Upstream(f"{one.provider}/{one.name}", one.provider, settings, one))
    return groups


def _api(recording: Recording) -> dict[str, Any]:
    path = recording.request.path
    found = [api for end, api in PATHS.items() if recording.provider == "openai" and end in path]
    return {"api": found[0]} if found else {}


def corpus(folder: str, most: int = 8) -> list[Upstream]:
    """List streams of a part of the corpus, where there is one, taken evenly."""
    provider, settings = FOLDERS[folder]
    found = [
        Upstream(case.name, provider, settings, case)
        for case in stream_cases(folder)
        if "json-array-stream" not in case.features and case.name not in UNREADABLE
    ]
    return found[:: max(1, len(found) // most)]


class Vendor(LoopbackServer):
    """Answers everything with what was recorded of a vendor, as it was."""

    answer: Upstream

    async def respond(self, exchange: Exchange) -> None:
        await exchange.start(
            200,
            {"Content-Type": self.answer.source.headers.get("content-type") or "text/event-stream"},
        )
        await exchange.write(self.answer.source.body)
        await exchange.end()


class Answers:
    """An `HTTPClient` that gives the one answer that is put into it."""

    next: MemoryResponse

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
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
