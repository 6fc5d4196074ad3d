"""What parsers write to. It can only produce event sequences that the grammar allows.

A parser says what it learnt (text, reasoning, a fragment of a tool call) and the writer opens,
numbers and closes the blocks. At most one text or thinking block is open, any number of tool
calls: fragments of parallel calls interleave on the wire. Which call a fragment belongs to is
decided in `_find` by the provider's key, id and name, never by "the latest"; a call whose id or
name has not come yet is held back until it can be announced.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from swink_core.failures.failure import Failure
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.messages import is_synthetic_id, parse_arguments, synthetic_id
from swink_core.vocabulary.outcome import StopReason, Usage


class _ToolCall:
    __slots__ = ("id", "index", "key", "metadata", "name", "named_before", "parts")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.id: str | None = None
        self.name: str | None = None
        self.parts: list[str] = []
        self.index = -1  # not announced yet
        self.named_before = False
        self.metadata: dict[str, Any] | None = None

    def is_complete(self) -> bool:
        # some servers repeat the name in each fragment: all of them are looked at only at a brace
        last = next((part for part in reversed(self.parts) if part.strip()), "}")
        if not self.parts or not last.rstrip().endswith("}"):
            return False
        return parse_arguments("".join(self.parts)) is not None


class EventWriter:
    """Turns what a parser learns into events.

    `provider` labels extension blocks; `id_prefix` makes synthetic tool-call ids unique; `model`
    (`provider/id`) is the one that was asked, for the event that announces a restart. What
    was said is in `usage`, `cost` (US dollars, as the provider reported), `stop_reason` (set:
    the provider completed its answer), `failure`, `response_id` and `model`; `finished` means
    that no further input is wanted.
    """

    def __init__(self, provider: str = "", id_prefix: str = "0", model: str = "") -> None:
        self.provider = provider
        self._asked = model
        self._tries = 1
        self.usage_seen: Usage | None = None
        self.voided: Usage | None = None  # what answers took that were begun anew
        self.cost: float | None = None
        self.stop_reason: StopReason | None = None
        self.failure: Failure | None = None
        self.response_id: str | None = None
        self.model: str | None = None
        self.finished = False
        self.has_answer = False
        self.held = 0
        """Characters of arguments whose call cannot be announced yet."""
        self._prefix = id_prefix
        self._events: list[ev.AssistantMessageEvent] = []
        self._append = self._events.append
        self._started = 0
        self._run = -1
        self._run_kind = ""
        self._run_key: Hashable = None
        self._run_metadata: dict[str, Any] | None = None
        self._signature: str | None = None
        self._redacted = False
        self._calls: list[_ToolCall] = []  # open ones, in order
        self._by_key: dict[Hashable, _ToolCall] = {}
        self._by_id: dict[str, _ToolCall] = {}
        self._has_calls = False

    # -- what a parser says ------------------------------------------------------------------

    def text(
        self, delta: str, key: Hashable = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Add text to the block of `key` (`None`: the current one).

        Empty text without metadata opens no block. Metadata is merged into the block's.
        """
        if not delta and metadata is None:
            return
        if self._run_kind != "text" or self._run_key != key:
            self._open_run("text", key)
        if delta:
            self.has_answer = True  # a block of metadata alone answers nothing
            self._append(ev.TextDelta(self._run, delta))
        if metadata is not None:
            self._run_metadata = {**(self._run_metadata or {}), **metadata}

    def thinking(
        self,
        delta: str,
        key: Hashable = None,
        signature: str | None = None,
        redacted: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Add reasoning to the block of `key` (`None`: the current one).

        A signature replaces the block's earlier one. `redacted` says that the provider hides
        the text, and that `signature` holds what it wants back.
        """
        if not (delta or signature or redacted or metadata is not None):
            return
        if self._run_kind != "thinking" or self._run_key != key:
            self._open_run("thinking", key)
        if delta:
            self._append(ev.ThinkingDelta(self._run, delta))
        if signature:
            self._signature = signature
        if redacted:
            self._redacted = True
        if metadata is not None:
            self._run_metadata = {**(self._run_metadata or {}), **metadata}

    def tool_call(
        self,
        key: Hashable,
        id: str | None = None,
        name: str | None = None,
        arguments: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a fragment to a tool call, or begin one.

        `key` is whatever the provider tells its calls apart by (`None`: it sends nothing).
        `arguments` is a piece of JSON text. A new id or name begins a new call.
        """
        call = self._find(key, id, name)
        if call is None:
            if not (id or name or arguments or metadata is not None):
                return
            call = self._begin(key)
        if id:
            call.id = call.id or id
            self._by_id[id] = call
        if metadata is not None:
            call.metadata = {**(call.metadata or {}), **metadata}
        if arguments:
            call.parts.append(arguments)
            if call.index >= 0:
                self._append(ev.ToolCallDelta(call.index, arguments))
                return
            self.held += len(arguments)
        if call.index < 0:
            if name and not call.name:
                call.name = name
            # an id may come one fragment late; servers that send none must not wait for ever
            if call.name and (call.id or call.named_before):
                self._announce(call)
            call.named_before = call.name is not None

    def extension(self, kind: str, data: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """Add a whole opaque block, to be sent back to this provider unchanged."""
        self._close_run()
        self._announce_waiting()
        self.has_answer = True
        self._append(
            ev.Extension(
                self._started, self.provider, kind, data, dict(metadata) if metadata else None
            )
        )
        self._started += 1

    def end(self, key: Hashable) -> None:
        """Close the block of `key`, for formats that say so; unknown keys are ignored."""
        if self._run_kind and self._run_key == key:
            self._close_run()
        elif (call := self._by_key.get(key)) is not None and call in self._calls:
            self._close_call(call)

    def usage(
        self,
        input: int | None = None,
        output: int | None = None,
        cache_read: int | None = None,
        cache_write: int | None = None,
        reasoning: int | None = None,
        total: int | None = None,
        cost: float | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Record token counts; the last known value of each wins.

        `input` includes what was read from or written to a cache, `output` includes
        reasoning. `cost` is in US dollars, where the provider reports it.
        """
        seen = self.usage_seen = self.usage_seen or Usage(reported=True)
        for name, value in (
            ("input", input),
            ("output", output),
            ("cache_read", cache_read),
            ("cache_write", cache_write),
            ("reasoning", reasoning),
            ("total", total),
        ):
            if value is not None:
                setattr(seen, name, int(value))
        if extra:
            seen.extra.update(extra)
        if cost is not None:
            self.cost = cost

    def response(self, id: str | None = None, model: str | None = None) -> None:
        """Record the provider's id of the response and the model that answers."""
        self.response_id = id or self.response_id
        self.model = model or self.model

    def restart(self, why: str) -> None:
        """Void all that was said: the provider's side begins its answer anew.

        For intermediaries that lose their upstream and put a second answer into the same body.
        Callers are told as they are of any other attempt, by a `Retry` without a wait.
        """
        self.close()
        self._tries += 1
        self._append(ev.Retry(self._tries, self._tries, 0.0, why, self._asked))
        self._append(ev.Start())
        self._started = 0
        self._has_calls = self.has_answer = False
        self._by_key.clear()
        self._by_id.clear()
        if self.usage_seen is not None:
            self.voided = self.usage_seen + (self.voided or Usage())
        self.stop_reason = self.usage_seen = self.response_id = self.model = None

    def notice(self, code: str, detail: str = "") -> None:
        """Tell observers something that is not content."""
        self._append(ev.Notice(code, detail))

    def stop(self, reason: StopReason) -> None:
        """Record that the provider completed its answer, and why it stopped.

        A plain stop after a tool call is a stop for tool use.
        """
        if reason is StopReason.STOP and self._has_calls:
            reason = StopReason.TOOL_USE
        self.stop_reason = reason

    def finish(self) -> None:
        """Say that nothing of interest follows, so that reading may end."""
        self.finished = True

    def fail(self, failure: Failure) -> None:
        """End the attempt with the provider's own error."""
        self.failure = failure
        self.finished = True

    # -- what the core takes -----------------------------------------------------------------

    def take(self) -> list[ev.AssistantMessageEvent]:
        """Return the events since the last call."""
        events = self._events
        if not events:
            return []
        self._events = []
        self._append = self._events.append
        return events

    def close(self) -> None:
        """Close every open block."""
        self._close_run()
        self._announce_waiting()
        for call in sorted(self._calls, key=lambda call: call.index >= 0):
            self._close_call(call)  # stray fragments first, while their calls are still open

    def final_usage(self) -> Usage | None:
        """Return what is known of the usage, with the sum where both parts are known."""
        seen = self.usage_seen
        if seen and seen.total is None and seen.input is not None and seen.output is not None:
            seen.total = seen.input + seen.output
        return seen

    def _open_run(self, kind: str, key: Hashable) -> None:
        self._close_run()
        self._announce_waiting()
        self._run, self._run_kind, self._run_key = self._started, kind, key
        self._started += 1
        if kind == "text":
            self._append(ev.TextStart(self._run))
        else:
            self._append(ev.ThinkingStart(self._run))

    def _close_run(self) -> None:
        if self._run_kind == "text":
            self._append(ev.TextEnd(self._run, self._run_metadata))
        elif self._run_kind == "thinking":
            self._append(
                ev.ThinkingEnd(self._run, self._signature, self._redacted, self._run_metadata)
            )
            self._signature, self._redacted = None, False
        self._run_kind, self._run_key, self._run_metadata = "", None, None

    def _find(self, key: Hashable, id: str | None, name: str | None) -> _ToolCall | None:
        if id and (known := self._by_id.get(id)) is not None:
            return known if known in self._calls else None
        if key is not None:
            call = self._by_key.get(key)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or call not in self._calls:
            return None
        if id and call.id and not is_synthetic_id(call.id):
            return None  # a second id; one that comes after ours was made up is the first
        if name and call.name and (name != call.name or call.is_complete()):
            return None  # another name, or the same name again after whole arguments
        return call

    def _begin(self, key: Hashable) -> _ToolCall:
        self._close_run()
        self._announce_waiting()
        call = _ToolCall(key)
        self._has_calls = self.has_answer = True
        self._calls.append(call)
        if key is not None:
            self._by_key[key] = call
        return call

    def _announce(self, call: _ToolCall) -> None:
        call.index = self._started
        self._started += 1
        if not call.id:
            call.id = synthetic_id(self._prefix, call.index)
        self._append(ev.ToolCallStart(call.index, call.id, call.name or ""))
        for part in call.parts:
            self._append(ev.ToolCallDelta(call.index, part))
            self.held -= len(part)

    def _announce_waiting(self) -> None:
        for call in self._calls:
            if call.index < 0 and call.name:
                self._announce(call)

    def _close_call(self, call: _ToolCall) -> None:
        if call.index < 0:
            if call.name is None and call.id is None and self._adopt(call):
                self._calls.remove(call)
                return
            self._announce(call)
        self._calls.remove(call)
        self._append(ev.ToolCallEnd(call.index, call.metadata))

    def _adopt(self, stray: _ToolCall) -> bool:
        """Give fragments under a drifted key to the open call that they complete."""
        tail = "".join(stray.parts)
        for call in self._calls:
            if tail and call.index >= 0 and not call.is_complete():
                whole = "".join(call.parts) + tail
                if parse_arguments(whole) is not None:
                    call.parts.append(tail)
                    self._append(ev.ToolCallDelta(call.index, tail))
                    self.held -= len(tail)
                    return True
        return False
