"""Evidence for a provider's correctness: recordings of a real server, and rows of JSONL files.

The checks only compare a provider with its own recordings. The evidence is the list of requests,
options, finish reasons, failures and kinds of content that occur in the data from a real server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
from attrs import define, field

from swink_core import StopReason, StreamErrorKind, ThinkingBlock, ToolCallBlock
from swink_core.providers import HTTPProvider
from swink_recorder.recording import Recording
from swink_testing.conformance.answers.expected_messages import LISTED_ANSWERS
from swink_testing.conformance.failures.errors import LISTED_ERRORS
from swink_testing.conformance.loopback_only import is_here
from swink_testing.conformance.requests.listed_requests import LISTED_REQUESTS
from swink_testing.conformance.subject import Subject

__all__ = ["Evidence", "Item", "evidence_of", "is_of_a_server"]

_MADE_UP = ("by hand", "made up")
"""Words in a recording's note which state that no real server has sent the answer."""

_FAILURES = (
    StreamErrorKind.AUTH,
    StreamErrorKind.THROTTLED,
    StreamErrorKind.INVALID_REQUEST,
    StreamErrorKind.MODEL_NOT_FOUND,
    StreamErrorKind.CONTEXT_WINDOW_EXCEEDED,
    StreamErrorKind.QUOTA_EXHAUSTED,
)
"""Kinds of failure whose error format differs between APIs, so that each kind needs evidence."""

_REFUSED_TOKEN = "refused token"
"""A token that the API does not accept although it was just issued."""

_OPTIONS = ("stop", "tool_choice", "response_format", "thinking")
"""Options that a provider supports if a feature with the option's name is in its features."""


@define(frozen=True)
class Item:
    """A behaviour of a server that a recording can confirm.

    `how` is the command that records the behaviour, or other advice on how to record it.
    """

    kind: str
    name: str
    how: str = field(eq=False)


@define
class Evidence:
    """The items that recordings or rows confirm (`backed`), and the `missing` ones.

    `recordings` counts the recordings of a real server. `confirmed` counts the recordings whose
    message was confirmed by a person. `uncalled` counts the recordings that do not contain the
    arguments of the call: of their requests, only the address, the headers and the model's name
    can be compared.
    """

    backed: list[Item]
    missing: list[Item]
    recordings: int
    confirmed: int = 0
    uncalled: int = 0

    def line(self) -> str:
        """Return a line with two numbers: of items that have evidence, and of recordings."""
        total = len(self.backed) + len(self.missing)
        if not total:
            return "evidence: none is needed, it has no wire format"
        from_server = f"{self.recordings} recording{'s' * (self.recordings != 1)} of a real server"
        confirmed = f" ({self.confirmed} confirmed by a person)" if self.recordings else ""
        return f"evidence: {len(self.backed)} of {total}, from {from_server}{confirmed} and rows"

    def lines(self) -> list[str]:
        """Return `line()`, then lines with the items without evidence, and what to record next."""
        missing: dict[str, list[str]] = {}
        for item in self.missing:
            missing.setdefault(item.kind, []).append(item.name)
        without = [
            f"without evidence: {kind}: {', '.join(names)}" for kind, names in missing.items()
        ]
        if self.uncalled:
            count = f"{self.uncalled} recording{'s' * (self.uncalled != 1)}"
            without.append(f"without evidence: {count} without the call: most of its request")
        following = list(dict.fromkeys(item.how for item in self.missing))[:3]
        return [self.line(), *without, *(f"record next: {how}" for how in following)]

    def data(self) -> dict[str, Any]:
        """Return the evidence as JSON data."""
        return {
            "backed": [f"{item.kind}: {item.name}" for item in self.backed],
            "missing": [f"{item.kind}: {item.name}" for item in self.missing],
            "recordings": self.recordings,
            "confirmed": self.confirmed,
            "without_call": self.uncalled,
        }


def evidence_of(subject: Subject) -> Evidence:
    """Collect the evidence in a provider's recordings and rows."""
    if subject.fault is not None or not subject.parses:
        return Evidence([], [], 0)
    own = [r for r in (*subject.recordings, *subject.whole_answers) if r.provider == subject.name]
    real = [recording for recording in own if is_of_a_server(recording)]
    shown = {(item.kind, item.name) for item in _shown(subject, real)}
    backed: list[Item] = []
    missing: list[Item] = []
    for item in _items(subject, own):
        (backed if (item.kind, item.name) in shown else missing).append(item)
    confirmed = sum(bool(recording.confirmed) for recording in real)
    uncalled = sum(recording.asked is None for recording in real)
    return Evidence(backed, missing, len(real), confirmed, uncalled)


def is_of_a_server(recording: Recording) -> bool:
    """Return True if the answer in a recording was sent by a real server.

    The result is False if the recording's note states that it was written by hand, or if the
    address is on the loopback interface.
    """
    if any(words in recording.note.lower() for words in _MADE_UP):
        return False
    homes = [urlsplit(origin).hostname or "" for origin in recording.origins[:1]]
    return not any(map(is_here, homes)) or "live" in recording.note.lower()  # an engine runs here


def _items(subject: Subject, recordings: Iterable[Recording]) -> Iterator[Item]:
    """Yield all behaviours that recordings of this provider could confirm."""
    name = subject.model
    record = f'swink record -m {name} "Why is the sky blue?" --output recordings'
    yield Item("request", "stream", f"{record}/text")
    kinds = {leg.kind for recording in recordings for leg in recording.legs} - {"stream"}
    makes_several = subject.speaks_http and type(subject.provider).exchange is not _EXCHANGE
    if makes_several:
        kinds.add("whole")
    for kind in sorted(kinds):
        yield Item("request", kind, f"{record}/text, whose call makes this request")
    features: frozenset[str] = getattr(subject.provider, "features", frozenset())
    knobs = {*getattr(subject.provider, "knobs", ())} - {"session_id", "user", "cache"}
    options = knobs | {option for option in _OPTIONS if option in features}
    if "structured_output" in features:
        options.add("response_format")
    for option in sorted(options):
        how = f"{record}/{option} -o {option}=VALUE, or a row of requests.jsonl"
        yield Item("option", option, how)
    yield Item("stop", StopReason.STOP.value, f"{record}/text")
    yield Item("stop", StopReason.LENGTH.value, f"{record}/cut --max-tokens 5")
    if "tools" in features:
        how = f"{record}/tool-call, with a tool that the question needs"
        yield Item("stop", StopReason.TOOL_USE.value, how)
        yield Item("content", "tool call", how)
    yield Item("content", "text", f"{record}/text")
    yield Item("content", "usage", f"{record}/text")
    infos = subject.catalog.models(subject.name)
    if any("thinking" in (info.capabilities or ()) for info in infos):
        yield Item("content", "thinking", f"{record}/thinking with a model that thinks")
    for failure in _FAILURES:
        how = f"a row of errors.jsonl, or {record}/{failure.value} of a call that fails so"
        yield Item("failure", failure.value, how)
    if "token" in kinds:
        how = f"{record}/no-access with a key that gets a token and has no access to the model"
        yield Item("failure", _REFUSED_TOKEN, how)


_EXCHANGE = HTTPProvider.exchange


def _shown(subject: Subject, recordings: Iterable[Recording]) -> Iterator[Item]:
    for recording in recordings:
        yield from (Item("request", leg.kind, "") for leg in recording.legs)
        asked = recording.asked or {}
        yield from (Item("option", name, "") for name in asked.get("options", ()))
        message = recording.message
        if message is None:
            continue
        if message.stop_reason is not None:
            yield Item("stop", message.stop_reason.value, "")
        is_refused = recording.status in (401, 403)
        if is_refused and any(leg.kind == "token" for leg in recording.legs):
            yield Item("failure", _REFUSED_TOKEN, "")
        if message.error_kind is not None:
            yield Item("failure", message.error_kind.value, "")
        if message.text:
            yield Item("content", "text", "")
        if message.usage is not None and message.usage.reported:
            yield Item("content", "usage", "")
        for block in message.content:
            if isinstance(block, ThinkingBlock):
                yield Item("content", "thinking", "")
            if isinstance(block, ToolCallBlock):
                yield Item("content", "tool call", "")
    for row in _rows(subject, LISTED_ERRORS):
        yield Item("failure", str(row.get("kind")), "")
    for row in _rows(subject, LISTED_REQUESTS):
        yield from (Item("option", name, "") for name in row.get("options", {}))
    for row in _rows(subject, LISTED_ANSWERS):
        message = row.get("message", {})
        yield Item("stop", str(message.get("stop_reason")), "")


def _rows(subject: Subject, file: str) -> list[dict[str, Any]]:
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(dict[str, Any]).decode_lines
    rows = subject.shipped(file, decode) or []
    return [
        row
        for row in rows
        if row.get("provider") in (None, subject.name) and "by hand" not in json.dumps(row)
    ]
