"""Play recordings through the adapters of all installed providers for `swink demo`.

A loopback server replays the bytes that real services sent, with their timing; a real client with a
dummy key calls it. A provider that does not use HTTP (but, for example, a child process) gets the
bytes directly, and a provider without a service, such as `echo`, is called without a recording. The
table reports failures, which do not stop the other providers.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from attrs import define, field

import swink_core as swink
from swink_cli.summary import amount, money, seconds
from swink_core import ProviderInfo
from swink_core.providers import LoopClock
from swink_recorder.recording import Recording, bundled_recordings
from swink_recorder.replay import ReplayServer

__all__ = ["HEADINGS", "DemoClock", "Performance", "perform", "plan", "remarks", "result"]

PROMPT = "Why do all providers stream the same events here?"
LIMITS = swink.Timeouts(first_event=60, idle=60)
NO_WIRE = "none"
"""The wire format of a provider without a service; such a provider has no recordings."""
AGREEABLE = 12.0
"""A recording that takes more seconds than this is chosen only if all others do, too."""

_STYLES = {swink.TextDelta: "text", swink.ThinkingDelta: "thinking", swink.ToolCallDelta: "tool"}


class DemoClock(LoopClock):
    """A running clock with a fixed date.

    The recordings do not change, so their costs must not change either: some prices depend on the
    hour, and a model may be retired after the recording was made.
    """

    def now(self) -> datetime:
        """Return noon of a fixed working day, in UTC."""
        return datetime(2026, 11, 23, 12, tzinfo=UTC)


@define(eq=False)
class Performance:
    """One stream of the demo and its progress; `pieces` is its output as (style, text) pairs.

    `problem` is a text about the failure of the stream (`None`: it has not failed). `broken` is
    true if the stream failed although its recorded answer does not end with an error.
    """

    provider: str
    title: str
    wire_format: str
    model: str = ""
    recording: Recording | None = field(default=None, repr=False)
    pieces: list[tuple[str, str]] = field(factory=list)
    events: int = 0
    first_token: float | None = None
    message: swink.AssistantMessage | None = None
    problem: str | None = None
    over: bool = False
    changed: asyncio.Event = field(factory=asyncio.Event, repr=False)

    @property
    def broken(self) -> bool:
        """True if the stream failed, although its recorded answer does not end with an error."""
        recorded = self.recording.message if self.recording else None
        expected = recorded is not None and recorded.error_kind is not None
        return self.problem is not None and not expected

    def feed(self, batch: Sequence[swink.AssistantMessageEvent], seconds: float) -> None:
        """Process the events of one network read, which arrived `seconds` after the start."""
        self.events += len(batch)
        for event in batch:
            style = _STYLES.get(type(event))
            if style is not None:
                if self.first_token is None:
                    self.first_token = seconds
                self.pieces.append((style, event.delta))  # type: ignore[attr-defined]  # a delta
            elif isinstance(event, swink.ToolCallStart):
                self.pieces.append(("tool", f"\n{event.name} "))
            elif isinstance(event, swink.ThinkingEnd):
                self.pieces.append(("thinking", "\n"))
            elif isinstance(event, swink.Error):
                self.problem = f"{event.title or 'failed'}: {event.error_message}"
        self.changed.set()


def plan(client: swink.Client, names: Sequence[str] = ()) -> list[Performance]:
    """Choose one stream per installed provider, or all recordings of the providers in `names`.

    Providers that need a network and have no recordings are omitted. Raises UnknownProvider for a
    name that is not installed.
    """
    chosen: list[Performance] = []
    borrowers: Counter[str] = Counter()
    for name in names or client.host.provider_names():
        if names:
            client.host.entry(name)
        try:
            chosen += _plan_one(client, name, borrowers, everything=bool(names))
        except swink.SwinkError as error:
            chosen.append(Performance(name, name, "-", problem=error.message, over=True))
    return chosen


def _plan_one(
    client: swink.Client, name: str, borrowers: Counter[str], *, everything: bool
) -> list[Performance]:
    info = client.catalog.provider(name) or ProviderInfo(name)
    wire_format = info.wire_format or "-"
    package = client.host.entry(name).package
    found = sorted(map(Recording.load, bundled_recordings(package)), key=_dullness)
    shown = [one for one in found if one.provider == name]
    if not shown:
        # Providers of one package may differ only in their address; each of them plays a different
        # recording.
        shown = [one for one in found if one.wire_format == wire_format]
        turn = borrowers[package] % max(1, sum(map(_answered, shown)))
        shown = shown[turn:] + shown[:turn]
        borrowers[package] += 1
    if shown:
        return [
            Performance(
                name,
                f"{name} {one.name}" if everything else name,
                one.wire_format or wire_format,
                f"{name}/{one.model}",
                one,
            )
            for one in (shown if everything else shown[:1])
        ]
    models = client.catalog.models(name)
    if wire_format == NO_WIRE and models:
        return [Performance(name, name, wire_format, f"{name}/{models[0].id}")]
    return []


def _dullness(recording: Recording) -> tuple[bool, bool, int, int]:
    """Return the sort key of a recording.

    Answers are sorted before failures, and short recordings before long ones. Among equals, the
    recordings with the most kinds of content come first.
    """
    message = recording.message
    kinds = {block.type for block in message.content} if message else set()
    long = bool(recording.chunks) and recording.chunks[-1][0] > AGREEABLE
    return (not _answered(recording), long, -len(kinds), -len(recording.chunks))


def _answered(recording: Recording) -> bool:
    return recording.message is not None and recording.message.error_kind is None


async def perform(client: swink.Client, shown: Sequence[Performance], speed: float) -> None:
    """Run all streams at the same time, at `speed` times the recorded speed.

    All streams have ended when this function returns, even if some of them failed.
    """
    # Otherwise, the first token of every stream would wait for this import.
    import_module("aiohttp")
    try:
        async with ReplayServer(speed=speed) as server:
            ready = [(one, _open(client, one, server)) for one in shown if not one.over]
            async with asyncio.TaskGroup() as tasks:
                for one, stream in ready:
                    if stream is not None:
                        tasks.create_task(_read(one, stream))
    finally:
        for one in shown:
            one.over = True
            one.changed.set()


def _open(client: swink.Client, one: Performance, server: ReplayServer) -> swink.EventStream | None:
    options: dict[str, Any] = {}
    try:
        if one.recording is not None:
            provider = client.host.bind(one.provider).provider
            base_url = server.play(provider, one.title.replace(" ", "."), one.recording)
            options = {"base_url": base_url, "api_key": "demo-key"}
        return client.stream(
            one.model, PROMPT, timeouts=LIMITS, retry=swink.RetryPolicy.none(), **options
        )
    except swink.SwinkError as error:
        one.problem, one.over = error.message, True
    return None


async def _read(one: Performance, stream: swink.EventStream) -> None:
    began = time.monotonic()
    try:
        async with stream:
            async for batch in stream.batches():
                one.feed(batch, time.monotonic() - began)
        one.message = stream.message
    except Exception as error:
        one.problem = f"{type(error).__name__}: {error}"
    one.over = True
    one.changed.set()


HEADINGS = ("PROVIDER", "WIRE FORMAT", "EVENTS", "FIRST TOKEN", "IN/OUT", "STOP", "COST")


def result(one: Performance) -> tuple[str, ...]:
    """Return the table row with the result of a stream."""
    message = one.message or swink.AssistantMessage([])
    usage, cost = message.usage or swink.Usage(), message.cost
    return (
        one.title,
        one.wire_format,
        str(one.events) if one.events else "-",
        "-" if one.first_token is None else seconds(one.first_token),
        f"{amount(usage.input)}/{amount(usage.output)}" if message.usage else "-",
        message.error_kind or message.stop_reason or "broken",
        "-" if cost is None or cost.total is None else money(cost.total),
    )


def remarks(shown: Sequence[Performance], names: Iterable[str]) -> list[str]:
    """List providers that replayed another provider's recordings, or that had none to replay."""
    silent = sorted(set(names) - {one.provider for one in shown})
    lines = _borrowings(shown)
    if silent:
        lines.append(f"nothing to replay: {', '.join(silent)} (no recordings in the package)")
    return lines


def _borrowings(shown: Iterable[Performance]) -> list[str]:
    borrowers: dict[str, list[str]] = {}
    for one in shown:
        if one.recording is not None and one.recording.provider != one.provider:
            names = borrowers.setdefault(one.recording.provider, [])
            if one.provider not in names:
                names.append(one.provider)
    return [
        f"{', '.join(names)}: replayed from {owner}, which has the same wire format"
        for owner, names in borrowers.items()
    ]
