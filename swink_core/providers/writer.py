"""`EventWriter`: creates events, in an allowed order, from the method calls of a parser.

A parser reports what it read (text, reasoning, a fragment of a tool call), and the writer opens,
numbers and closes the blocks. At most one text or thinking block, called the run, is open at a
time; any number of tool calls may be open at the same time, see `tool_calls`. No event is written
for a tool call until its name is known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar, TypeVar

import msgspec

from swink_core.failures.exceptions import PluginError
from swink_core.failures.failure import Failure, MalformedFrame
from swink_core.providers.intact import LONE_SURROGATE, REPAIRED, TOO_DEEP, repaired_json
from swink_core.providers.open_blocks import TEXT, THINKING, Metadata, Run, measured
from swink_core.providers.tool_calls import OpenCalls, ToolCall
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.depth import is_too_deep
from swink_core.vocabulary.events import TextDelta
from swink_core.vocabulary.messages import synthetic_id
from swink_core.vocabulary.outcome import TOKENS, Cost, StopReason, Usage, valid_dollars
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

T = TypeVar("T")

_NO_RUN = Run(None, kind="")

_NOT_JSON_TEXT = "the arguments of a tool call are of type {}, not JSON text; encode them as JSON"


class EventWriter:
    """Converts the method calls of a parser to events.

    The argument `provider` is stored in extension blocks, `id_prefix` makes generated tool call ids
    unique, and the argument `model` (`provider/id`) is the requested model. The values that the
    parser has reported are in the attributes `cost` (US dollars), `stop_reason` (if set, the answer
    is complete), `failure`, `response_id` and `model` (the responding model). If the attribute
    `finished` is true, the rest of the input is not parsed.
    """

    most_blocks: ClassVar[int] = 4_096
    """The maximum number of blocks in an answer. Longer answers fail as `output_too_large`."""

    cost_parts: Cost | None = None
    """The cost of the answer in place of the catalogue's prices for its usage.

    `None`: those prices apply. A cost whose parts and total are `None`: the cost is unknown.
    """

    def __init__(self, provider: str = "", id_prefix: str = "0", model: str = "") -> None:
        self.provider = provider
        self._asked = model
        self._prefix = id_prefix
        self.names: Mapping[str, str] = {}  # maps tool names as sent to the caller's names
        self._tries = 1
        self.voided: list[tuple[Usage, float | None]] = []  # see `Attempt.voided`
        self.discarded = 0  # characters of the answers before the last restart
        self.failure: Failure | None = None
        self.finished = False
        self._is_full = False
        self._events: list[ev.Event] = []
        self._append = self._events.append
        self._run = _NO_RUN
        self._begin()

    def _begin(self) -> None:
        self.usage_seen: Usage | None = None
        self.cost: float | None = None
        self.stop_reason: StopReason | None = None
        self.damage: Failure | None = None  # why a completed answer lacks a part
        self.response_id: str | None = None
        self.model: str | None = None
        self._answered = False  # contains more than text
        self._has_calls = False
        self._said = 0  # characters of text
        self._kept = 0  # characters of other content
        self._blocks = 0  # blocks begun, with those held back
        self._started = 0  # blocks announced
        self._calls = OpenCalls()
        self._extra = Metadata()
        self._facts = Metadata()

    @property
    def stopped(self) -> bool:
        """Whether the parser has read the stop reason or an error."""
        return self.finished or self.stop_reason is not None or self.failure is not None

    # -- called by parsers -------------------------------------------------------------------

    def text(
        self, delta: str, key: Hashable = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Add text to the open text block with this key, or begin a new text block.

        `key` is the provider's key for the block, `None` if the provider sends none. Empty text
        without metadata does not begin a block. `metadata` is merged into the block's metadata.
        """
        run = self._run
        # compare by identity first: this runs for every delta
        if run.kind is not TEXT or (run.key is not key and run.key != key):
            if not delta and metadata is None:
                return
            run = self._open_run(TEXT, key)
        if delta:
            self._said += len("" + delta)  # raises TypeError for bytes, faster than a check
            self._append(TextDelta(run.index, delta))
        if metadata is not None:
            self._kept += run.note(metadata)

    def thinking(
        self,
        delta: str,
        key: Hashable = None,
        signature: str | None = None,
        redacted: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Add reasoning to the open thinking block with this key, or begin a new thinking block.

        `key` is the provider's key for the block, `None` if the provider sends none. A signature
        replaces the block's earlier one. `redacted` means that the provider hides the text; then
        `signature` contains the data that the provider needs in the next request.
        """
        run = self._run
        if run.kind is not THINKING or (run.key is not key and run.key != key):
            if not (delta or signature or redacted or metadata is not None):
                return
            run = self._open_run(THINKING, key)
        if delta:
            self._kept += len("" + delta)
            self._append(ev.ThinkingDelta(run.index, delta))
        if signature:
            self._kept += len(signature) - len(run.signature or "")
            run.signature = signature
        if redacted:
            run.redacted = True
        if metadata is not None:
            self._kept += run.note(metadata)

    def tool_call(
        self,
        key: Hashable,
        id: str | None = None,
        name: str | None = None,
        arguments: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a fragment to a tool call, or begin a new one.

        `key` is the index or id with which the provider distinguishes calls (`None`: the provider
        sends none). `arguments` is a piece of JSON text. A fragment with another id or name than
        the open call's begins a new call. So does one with the same id after whole arguments, if it
        has at least two of these: a new key, the name, and the beginning of another object. Raises
        PluginError for arguments that are not text.
        """
        if name:
            name = self.names.get(name, name)
        calls = self._calls
        call = calls.find(key, id, name, arguments)
        if call is None:
            if not (id or name or arguments or metadata is not None):
                return
            if not isinstance(arguments, str | None):
                raise PluginError(_NOT_JSON_TEXT.format(type(arguments).__name__))
            self._make_room()
            self._has_calls = True
            self._answered = True
            call = calls.begin(key)
        if id:
            self._kept += calls.identify(call, id)
        if metadata is not None:
            self._kept += call.note(metadata)
        if arguments:
            self._kept += len("" + arguments)
            call.parts.append(arguments)
            if call.index >= 0:
                self._append(ev.ToolCallDelta(call.index, arguments))
                return
        if call.index < 0:
            if name and not call.name:
                self._kept += len("" + name)
                calls.name(call, name)
            # the id may arrive one fragment late, but some servers send none at all
            if call.name and (call.id or call.named_before):
                self._announce(call)
            call.named_before = call.name is not None

    def extension(self, kind: str, data: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """Add a complete extension block, whose data is later sent back to the provider."""
        size = measured((data, metadata))
        self._make_room()
        self._answered = True
        self._kept += len(kind) + size
        noted = dict(metadata) if metadata else None
        self._append(ev.Extension(self._started, self.provider, kind, data, noted))
        self._started += 1

    def end(self, key: Hashable) -> None:
        """Close the block that `key` identifies, when the provider reports its end.

        Unknown keys are ignored.
        """
        if self._run.kind and self._run.key == key:
            self._close_run()
        elif (call := self._calls.of(key)) is not None:
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
        """Record token counts; any count but `None` replaces an earlier one of the same name.

        `input` includes tokens read from or written to a cache, and `output` includes reasoning;
        `cost` is in US dollars. An invalid count or cost is ignored, with a notice.
        """
        seen = self.usage_seen or Usage(reported=True)
        self.usage_seen = seen
        numbers = (input, output, cache_read, cache_write, reasoning, total)
        for name, value in zip(TOKENS, numbers, strict=True):
            if value is not None and not seen.count(name, value):
                self.notice("usage", f"the usage of {name} tokens is not a valid count")
        if extra:
            self._kept += self._extra.merge(extra)
            seen.extra.update(extra)
        if cost is not None:
            dollars = valid_dollars(cost)
            if dollars is None:
                self.notice("usage", f"the reported cost is not a valid amount: {cost!r:.40}")
            else:
                self.cost = dollars

    def response(
        self,
        id: str | None = None,
        model: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Record the response's id, the responding model, and further metadata of the answer."""
        self.response_id = id or self.response_id
        self.model = model or self.model
        if metadata:
            self._kept += self._facts.merge(metadata)

    def restart(self, why: str) -> None:
        """Discard the answer so far, because the provider restarts it.

        Use this if an intermediary loses the connection to its upstream and sends a second answer
        in the same body. The caller gets a `Retry` event, as for a new attempt, without a delay.
        """
        self.close()
        self._tries += 1
        self._append(ev.Retry(self._tries, self._tries, 0.0, why, self._asked))
        self._append(ev.Start())
        if self.usage_seen is not None:
            self.voided.append((self.usage_seen.added_up(), self.cost))
        self.discarded += self.kept
        self._begin()

    def notice(self, code: str, detail: str = "") -> None:
        """Add a `Notice` event; `code` identifies its kind, and `detail` is text for people."""
        self._append(ev.Notice(code, detail))

    def stop(self, reason: StopReason) -> None:
        """Record that the answer is complete, and its stop reason.

        If the answer contains a tool call, `StopReason.TOOL_USE` is recorded instead of
        `StopReason.STOP`. Raises PluginError for an invalid reason.
        """
        if not isinstance(reason, StopReason):
            raise PluginError(f"{reason!r} is not a StopReason; use one of {', '.join(StopReason)}")
        if reason is StopReason.STOP and self._has_calls:
            reason = StopReason.TOOL_USE
        self.stop_reason = reason

    def finish(self) -> None:
        """Stop parsing the response, because the rest of it does not belong to the answer."""
        self.finished = True

    def fail(self, failure: Failure) -> None:
        """End the attempt with the provider's own error."""
        self.failure = failure
        self.finished = True

    def overflow(self) -> None:
        """End the attempt because the answer has more than `most_blocks` blocks.

        The rest of the frame, which may be long, is ignored.
        """
        self.close()
        self._is_full = True
        self._append = lambda event: None
        why = f"the answer has more than {self.most_blocks} blocks"
        self.fail(Failure("streaming", kind=Kind.OUTPUT_TOO_LARGE, code="blocks", message=why))

    def decode_json(self, text: bytes, decode: Callable[[bytes], T]) -> T:
        """Decode JSON, with the same checks as for the frames of a stream.

        Use this for JSON in a binary frame, and for an answer that was not streamed. Text with lone
        surrogate escapes is repaired, with a notice. Raises msgspec.DecodeError for invalid JSON,
        UnicodeDecodeError for invalid UTF-8, and MalformedFrame for deep nesting.
        """
        if not text.isascii():
            text.decode()
        if is_too_deep(text):
            raise MalformedFrame(TOO_DEEP)
        try:
            return decode(text)
        except msgspec.DecodeError:
            repaired = repaired_json(text)
            if repaired is None:
                raise
        data = decode(repaired)
        self.notice(LONE_SURROGATE, REPAIRED)
        return data

    # -- called by the core ------------------------------------------------------------------

    def take(self) -> list[ev.Event]:
        """Return the events since the last call."""
        events = self._events
        if not events:
            return []
        self._events = []
        if not self._is_full:
            self._append = self._events.append
        return events

    @property
    def pending(self) -> list[ev.Event]:
        """The events that the next call of `take` will return."""
        return self._events

    @property
    def has_answer(self) -> bool:
        """Whether the answer has content.

        An answer without text has content if its metadata contain the stop sequence that ended it.
        Other metadata do not count as content.
        """
        return self._answered or self._said > 0 or "stop_sequence" in self._facts.data

    @property
    def metadata(self) -> dict[str, Any] | None:
        """The metadata of the answer, or `None`."""
        return self._facts.data or None

    def hold(self, chars: int) -> None:
        """Add to `kept` the number of characters that a parser stores, except those in events."""
        self._kept += chars

    @property
    def kept(self) -> int:
        """The size of the content in memory, in characters.

        The size of metadata and extensions is approximate.
        """
        return self._said + self._kept

    def close(self) -> None:
        """Close every open block."""
        self._close_run()
        if self._has_calls:
            self._announce(*self._calls.take_named())
            for call in self._calls.strays_first():
                self._close_call(call)

    def _make_room(self) -> None:
        """Close the open text or thinking block, and check that another block is allowed."""
        self._close_run()
        if self._has_calls:
            self._announce(*self._calls.take_named())
        self._blocks += 1
        if self._blocks > self.most_blocks and not self._is_full:
            self.overflow()

    def _open_run(self, kind: str, key: Hashable) -> Run:
        self._make_room()
        run = Run(key, self._started, kind=kind)
        self._run = run
        self._started += 1
        self._append(run.start())
        return run

    def _close_run(self) -> None:
        if self._run is not _NO_RUN:
            self._append(self._run.end())
            self._run = _NO_RUN

    def _announce(self, *calls: ToolCall) -> None:
        for call in calls:
            call.index = self._started
            self._started += 1
            if not call.id:
                call.id = synthetic_id(self._prefix, call.index)
            self._append(ev.ToolCallStart(call.index, call.id, call.name or ""))
            for part in call.parts:
                self._append(ev.ToolCallDelta(call.index, part))

    def _close_call(self, call: ToolCall) -> None:
        if call.index < 0:
            stray = call.name is None and call.id is None
            if stray and (completed := self._calls.completed_by(call)) is not None:
                self._calls.close(call)
                self._blocks -= 1
                self._append(ev.ToolCallDelta(completed.index, completed.parts[-1]))
                return
            self._announce(call)
        self._calls.close(call)
        self._append(ev.ToolCallEnd(call.index, call.metadata))
