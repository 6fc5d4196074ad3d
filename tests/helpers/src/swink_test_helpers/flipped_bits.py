"""One flipped bit in a recorded answer is reported, or changes nothing that a caller reads.

    for body in recorded_bodies():
        for place, bit in flips(body, sample=16, seed=1):
            assert (await body.fault(place, bit)) is None

A completed answer is right where one of these is true:

* its text, tool calls and usage are those of the undamaged body;
* a notice names the line that was ignored, or the last frame that does not parse;
* no frame is missing, and each frame that differs is valid JSON in valid UTF-8: such damage cannot
  be detected.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

from attrs import define, field

from swink_core import Done, Event, Host, Model, Notice
from swink_core.providers import Catalog
from swink_recorder.recording import Recording, bundled_recordings
from swink_test_helpers.corpus import stream_cases
from swink_testing.conformance.subject import Subject
from swink_testing.driver import drive_bytes, fold

__all__ = ["RecordedBody", "corpus_bodies", "flips", "recorded_bodies"]

CORPUS_MODELS = {
    "anthropic": "anthropic/claude-opus-5-5",
    "azure": "openai/gpt-5.4-mini",
    "bedrock": "bedrock/us.amazon.nova-pro-v1:0",
    "claude_cli": "claude-code/sonnet",
    "deepseek": "deepseek/deepseek-v4-flash",
    "gemini": "gemini/gemini-3.5-flash",
    "groq": "groq/openai/gpt-oss-20b",
    "llamacpp": "llamacpp/local",
    "mistral": "mistral/mistral-medium-3-5",
    "ollama": "ollama/qwen3:4b",
    "openai_chat": "openai/gpt-5.4-mini",
    "openai_compat_other": "openai/gpt-5.4-mini",
    "openai_responses": "openai/gpt-5.3-codex",
    "openrouter": "openrouter/anthropic/claude-sonnet-4.5",
    "together": "together/openai/gpt-oss-20b",
    "vllm": "vllm/local",
    "xai": "xai/grok-4.7",
}
"""A model whose provider reads the bodies of each folder of the corpus."""

NAMED = ("unknown_field", "cut_frame")
"""Codes of the notices about a line or frame that was ignored."""

LONGEST_BODY = 64 * 1024
"""Bytes of a body of the corpus. Each flip reads the whole body."""


@define(eq=False)
class RecordedBody:
    """The recorded body of an answer, and the provider that reads it."""

    name: str
    provider: Any
    model: Model
    body: bytes
    _answer: tuple[Any, ...] | None = field(default=None, init=False)
    _frames: Counter[bytes] = field(factory=Counter, init=False)

    async def fault(self, place: int, bit: int) -> str | None:
        """Describe why the answer is wrong after one bit was flipped; `None` if it is right."""
        if self._answer is None:
            self._answer = _answer(await self._events(self.body))
            self._frames = Counter(self._split(self.body))
        flipped = bytearray(self.body)
        flipped[place] ^= 1 << bit
        events = await self._events(bytes(flipped))
        answer = _answer(events)
        if not answer or answer == self._answer or _names_a_line(events):
            return None
        frames = Counter(self._split(bytes(flipped)))
        if frames.total() < self._frames.total():
            return f"a frame is missing: {answer!r}"
        broken = [frame for frame in frames - self._frames if not _is_json(frame)]
        if broken:
            return f"a damaged frame is ignored: {broken!r}"
        return None

    async def _events(self, body: bytes) -> list[Event]:
        return await drive_bytes(self.provider, self.model, [body])

    def _split(self, body: bytes) -> list[bytes]:
        decoder = type(self.provider).decoder()
        try:
            return [*decoder.feed(body), *decoder.finish()]
        except ValueError as error:
            return list(getattr(error, "frames", ()))


def recorded_bodies() -> list[RecordedBody]:
    """List the streams that the installed providers ship."""
    packages = sorted({entry.package for entry in Host().entries()})
    folders = [folder for package in packages for folder in bundled_recordings(package)]
    return [
        _body(folder.name, f"{recording.provider}/{recording.model}", recording.body)
        for folder in folders
        if (recording := Recording.load(folder)).status == 200
    ]


def corpus_bodies() -> list[RecordedBody]:
    """List the streams of the corpus; none where the corpus is absent."""
    return [
        _body(case.name, model, case.body)
        for folder, model in CORPUS_MODELS.items()
        for case in stream_cases(folder)
        if case.status == 200 and len(case.body) <= LONGEST_BODY
    ]


def flips(body: RecordedBody, sample: int | None, seed: int) -> Iterator[tuple[int, int]]:
    """Yield places and bits: all eight bits of each byte, or of `sample` bytes of the body."""
    places: Any = range(len(body.body))
    if sample is not None and sample < len(body.body):
        places = sorted(random.Random(f"{seed} {body.name}").sample(places, sample))
    for place in places:
        for bit in range(8):
            yield place, bit


def _body(name: str, model: str, body: bytes) -> RecordedBody:
    resolved = _catalog().resolve(model)
    return RecordedBody(f"{resolved}, {name}", _provider(resolved.provider), resolved, body)


@cache
def _catalog() -> Catalog:
    return Catalog(Host())


@cache
def _provider(name: str) -> Any:
    return Subject.find(name).provider


def _answer(events: list[Event]) -> tuple[Any, ...]:
    """Return text, tool calls and usage of a completed answer; an empty tuple for a failed one."""
    if not isinstance(events[-1], Done):
        return ()
    message = fold(events)
    calls = [(call.name, call.state, call.arguments) for call in message.tool_calls]
    return message.text, calls, message.usage


def _names_a_line(events: list[Event]) -> bool:
    return any(isinstance(event, Notice) and event.code in NAMED for event in events)


def _is_json(frame: bytes) -> bool:
    try:
        json.loads(frame.decode())
    except ValueError:
        return False
    return True
