"""Compares messages with the bytes of their answers, independently of the parser.

Each text and number of a recorded answer is replaced by a unique value, the mark. The parsed
message must contain the mark in a suitable field, and must contain several marks in the order of
the answer. A mark in a field such as the finish reason may instead change the message in another
way. Otherwise the provider loses the field, which is a fault, unless the package gives a reason to
ignore the field.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import msgspec
from attrs import define, field

from swink_core import (
    AssistantMessage,
    Event,
    Notice,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
    dump,
)
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.answers.pieces import (
    is_once,
    require_calls,
    require_pieces,
    require_together,
)
from swink_testing.conformance.answers.recorded_answers import (
    LONGEST,
    Changes,
    Path,
    RecordedAnswer,
    at,
    data_of,
    message_of,
    with_value,
    writer,
)
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse

__all__ = ["IGNORED_FILE", "check_answers_are_read"]

IGNORED_FILE = "ignored_fields.toml"
"""The file in which a package lists the fields of answers that its messages lack, with reasons."""

_NUMBER = 40_000_003

_PLAIN = re.compile(
    r"(^|_)(id|ids|type|object|role|index|model|version|fingerprint|tier|event|status|format)$"
    r"|^(created|created_at|timestamp|time|sequence_number|obfuscation)$|(Id|Index|Version)$"
    r"|(_time|Time|_at|_url|Url)$",
)
"""Matches names of fields that identify or classify content, but do not contain content."""

_COUNTED = re.compile(r"usage|token|count|eval", re.IGNORECASE)

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("cache_write", re.compile(r"cache.*(creat|writ)", re.IGNORECASE)),
    ("cache_read", re.compile(r"cache", re.IGNORECASE)),
    ("reasoning", re.compile(r"reason|think|thought", re.IGNORECASE)),
    ("total", re.compile(r"total", re.IGNORECASE)),
    ("input", re.compile(r"prompt|input", re.IGNORECASE)),
    ("output", re.compile(r"output|completion|candidates|generated|^eval_count$", re.IGNORECASE)),
)
"""Token counts of `Usage`, each with a pattern for the names of this count in APIs."""

_IN, _OUT = re.compile(r"^(in|input|prompt)$"), re.compile(r"^(out|output|completion)$")
"""Match names of token counts that do not contain the word token."""

_THOUGHT = re.compile(r"reason|think|thought", re.IGNORECASE)

_ARGUMENTS = re.compile(r"argument|partial_json", re.IGNORECASE)


@define(frozen=True)
class _Leaf:
    """A text or number in an answer, with the frame's number and the path in the frame."""

    part: int
    path: Path
    value: Any
    name: str = field(eq=False)
    """The path as error messages show it. All leaves of one kind have the same path."""


@define
class _PlayedAnswer(RecordedAnswer):
    """The last answer of a call with several requests. Only this answer is changed."""

    async def events(self, changes: Changes) -> list[Event]:
        body = MemoryResponse.of_recording(self.recording, [self.body(changes)])
        return await self.subject.played_events(self.recording, body)


@define
class _OtherAnswers(RecordedAnswer):
    """The answers to a call's additional requests; `frames` contains the data of each answer."""

    @property
    def where(self) -> str:
        return f"recording {self.recording.name}, other requests"

    async def events(self, changes: Changes) -> list[Event]:
        def answered(number: int) -> Any:
            leg = self.recording.legs[number]
            return lambda: MemoryResponse.of_json(changes[number][0], leg.status, leg.headers)

        faults = {number: answered(number) for number in changes}
        answer = MemoryResponse.of_recording(self.recording)
        return await self.subject.played_events(self.recording, answer, faults=faults)


def check_answers_are_read(subject: Subject) -> None:
    """Each text and number of an answer is in its message, in order, or ignored with a reason.

    No text is lost, whatever it contains, wherever it is, and however often it occurs.
    """
    subject.require_parser()
    ignored = subject.shipped(IGNORED_FILE, partial(msgspec.toml.decode, type=_Ignored)) or {}

    async def read() -> None:
        found = [answer async for answer in _answers(subject)]
        if not found:
            raise DoesNotApply("no recorded answer has frames of JSON that can be written")
        await _Reader(subject, ignored).read(found)

    asyncio.run(read())


_Ignored: TypeAlias = dict[str, dict[str, str]]


async def _answers(subject: Subject) -> AsyncIterator[RecordedAnswer]:
    for recording in subject.whole_calls:
        if recording.status != 200 or recording.message is None:
            continue
        is_streamed = recording.kind == "stream"
        answer = writer(subject)
        if is_streamed:
            answer = Answer.of_recording(recording, type(subject.provider).decoder)
        is_alone = not subject.speaks_http or len(recording.legs) == 1
        found: list[RecordedAnswer] = []
        if is_streamed and answer.is_data and len(recording.body) <= LONGEST:
            made = RecordedAnswer if is_alone else _PlayedAnswer
            found.append(made(recording, answer, data_of(answer), (), subject))
        if not is_alone:
            place = len(recording.before)
            others = [
                _json(leg.body)
                if leg.kind == "whole" or (leg.kind == "stream" and number != place)
                else leg.body
                for number, leg in enumerate(recording.legs)
            ]
            found.append(_OtherAnswers(recording, answer, others, (), subject))
        for each in found:
            each.whole = await each.events({})
            yield each


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body


class _Reader:
    """Parses answers in which one field, and then all fields, are replaced by marks."""

    def __init__(self, subject: Subject, ignored: _Ignored) -> None:
        legs = [leg for recording in subject.recordings for leg in recording.legs]
        self._addresses = " ".join(leg.request.path for leg in legs)
        self._ignored = ignored
        self._places: dict[_Kind, str | None] = {}
        self._lost: dict[str, str] = {}
        self._silent: dict[_Kind, str] = {}

    async def read(self, answers: Sequence[RecordedAnswer]) -> None:
        """Check all answers; fail for a kind of field that is lost in every answer."""
        for answer in answers:
            counts = [leaf for leaf in _leaves(answer) if _kind_of(leaf)]
            for leaf in _leaves(answer):
                await self._try(answer, leaf, counts)
        for name, why in self._lost.items():
            require(False, f"{why}; say why in {IGNORED_FILE} if it is right to ignore {name!r}")
        for kind, why in self._silent.items():
            require(self._places.get(kind) != _REASON, why)
        seen: set[_Kind] = set()
        for answer in answers:
            await self._require_order(answer)
            is_complete = answer.message.stop_reason is not _FAILED
            if is_complete and not isinstance(answer, _OtherAnswers):
                await self._require_pieces(answer, seen)

    async def _require_pieces(self, answer: RecordedAnswer, seen: set[_Kind]) -> None:
        """Put texts such as white space and markup into fields, and check that they are kept.

        One field is checked for each wire format and field name.
        """
        places: dict[tuple[int, Path], _Kind] = {}
        for leaf in self._content(answer):
            depth = leaf.path.index(_JSON) if _JSON in leaf.path else len(leaf.path)
            if leaf.value.strip():
                kind = (answer.recording.wire_format, leaf.name.partition(f".{_JSON}")[0])
                places[leaf.part, leaf.path[:depth]] = kind
        tried: list[_Kind] = []
        for place, kind in places.items():
            tried.append(kind)
            if kind not in seen and tried.count(kind) <= _TRIES and await is_once(answer, *place):
                seen.add(kind)
                await require_pieces(answer, *place)
        if places:
            await require_together(answer, *list(places)[-1])
        await require_calls(answer)

    def _content(self, answer: RecordedAnswer) -> list[_Leaf]:
        """Return the texts of an answer that become part of a block of the message."""
        return [
            leaf
            for leaf in _leaves(answer)
            if self._places.get((answer.recording.wire_format, leaf.name)) in _CONTENT
            and isinstance(leaf.value, str)
            and leaf.value
        ]

    async def _try(self, answer: RecordedAnswer, leaf: _Leaf, counts: Sequence[_Leaf]) -> None:
        kind = (answer.recording.wire_format, leaf.name)
        known = self._places.get(kind)
        if self._is_ignored(answer, leaf):
            return
        if known not in (None, _REASON) and not _kind_of(leaf):
            return
        place, fault = await _place_of(answer, leaf, counts)
        if fault is not None:
            require(False, f"{answer.where}: {fault}")
        shown = json.dumps(leaf.value, ensure_ascii=False)[:80]
        if place is None:
            reason = answer.message.stop_reason
            why = f"{leaf.name} ({shown}): any other value is {reason} too, without a Notice"
            self._silent.setdefault(kind, f"{answer.where}: {why}")
        if place is None and (known or _is_plain(leaf) or _is_repeated(answer, leaf)):
            place = known or "plain"
        if place is None and len(shown) > 3 and str(leaf.value) in self._addresses:
            place = "address"  # of another request, which check_recorded_requests compares
        if place is None:
            why = f"{answer.where}: {leaf.name} ({shown}) is nowhere in the message"
            self._lost.setdefault(leaf.name, why)
        else:
            self._lost.pop(leaf.name, None)
        self._places[kind] = place

    def _is_ignored(self, answer: RecordedAnswer, leaf: _Leaf) -> bool:
        rows = self._ignored.get(answer.recording.wire_format, {})
        names = leaf.name, f"{answer.recording.name}/{leaf.name}"
        return any(
            name == row or name.startswith((f"{row}.", f"{row}[")) for name in names for row in rows
        )

    async def _require_order(self, answer: RecordedAnswer) -> None:
        """Check that the message contains each text once, in the order of the answer."""
        said = self._content(answer)
        if not said:
            return
        marks = {leaf: f"swkm{number:05}k" for number, leaf in enumerate(said)}
        changed: dict[int, list[Any]] = {}
        for leaf, mark in marks.items():
            [data] = changed.get(leaf.part, [answer.frames[leaf.part]])
            changed[leaf.part] = [_replaced(data, leaf.path, mark)]
        blocks = [_said(block) for block in message_of(await answer.events(changed)).content]
        found = [re.findall(r"swkm(\d{5})k", text) for text in blocks]
        flat = [number for each in found for number in each]
        for number, leaf in enumerate(said):
            times = flat.count(f"{number:05}")
            if times != 1:
                await self._require_once(answer, leaf, times)
        for numbers, text in zip(found, blocks, strict=True):
            require(numbers == sorted(numbers), f"{answer.where}: texts are out of order: {text}")

    async def _require_once(self, answer: RecordedAnswer, leaf: _Leaf, times: int) -> None:
        """Check one text while the other fields are unchanged.

        If several fields are changed together, the meaning of the text can change. `times` is how
        often the message contained the text when several fields were changed.
        """
        if _notices(answer.whole) or self._is_ignored(answer, leaf):
            return  # the recording's notices.json says that a part is left out
        place, _ = await _place_of(answer, leaf, ())
        what = f"{answer.where}, part {leaf.part + 1}: {leaf.name} ({leaf.value!r:.60})"
        require(place is not None, f"{what} is in the message {times} times")


_REASON = "reason"
"""The result of `_place_of` for a text that changes only the finish reason of the message."""

_CONTENT = ("text", "thinking", "arguments")

_FAILED = StopReason.ERROR

_TRIES = 3
"""How many fields of one kind to try at most, to find one whose text is in the message once."""

_Kind: TypeAlias = tuple[str, str]
"""The wire format and the name of a field."""


async def _place_of(
    answer: RecordedAnswer, leaf: _Leaf, counts: Sequence[_Leaf]
) -> tuple[str | None, str | None]:
    """Replace one field of an answer by a mark, and return where the message contains the mark.

    The first result is the name of the message's field; it is `None` if the message is unchanged,
    and `effect` if the message changed but does not contain the mark. The second result describes
    the fault if the field is wrong.
    """
    mark: Any = _NUMBER if not isinstance(leaf.value, str) else "swkm99999k"
    if isinstance(leaf.value, float):
        mark = float(_NUMBER)
    data = _replaced(answer.frames[leaf.part], leaf.path, mark)
    try:
        events = await answer.events({leaf.part: [data]})
    except Exception:  # the parser reads the field; check_other_forms tests more
        return "effect", None
    found, before = message_of(events), answer.message
    kind = _kind_of(leaf)
    if kind is not None:
        return _counted(answer, leaf, kind, found, before, counts)
    is_number = type(leaf.value) is int and not isinstance(answer, _OtherAnswers)
    if is_number and (moved := _moved(answer, leaf, found, before)) is not None:
        return "effect", moved
    text = f"{mark}"
    for name, said in _places(found, events).items():
        if text in said:
            return name, _misplaced(leaf, name)
    reasons = found.stop_reason, before.stop_reason
    if StopReason.ERROR not in reasons and reasons[0] is not reasons[1]:
        return _REASON, None
    same = repr(found) == repr(before) and _notices(events) == _notices(answer.whole)
    return (None if same else "effect"), None


def _misplaced(leaf: _Leaf, place: str) -> str | None:
    names = [str(step) for step in leaf.path]
    is_thought = any(map(_THOUGHT.search, [*names[-2:], leaf.name.partition(":")[0]]))
    if place == "text" and is_thought:
        return f"{leaf.name} is thinking, and becomes text"
    if place != "arguments" and _ARGUMENTS.search(names[-1]) and place in ("text", "thinking"):
        return f"{leaf.name} is of a call, and becomes {place}"
    if {names[-1], place} == {"name", "id"}:
        return f"the {names[-1]} of a call ({leaf.name}) becomes its {place}"
    return None


def _counted(
    answer: RecordedAnswer,
    leaf: _Leaf,
    kind: str,
    found: AssistantMessage,
    before: AssistantMessage,
    counts: Sequence[_Leaf],
) -> tuple[str | None, str | None]:
    """Check that the message's usage contains a changed count.

    The field of the usage must equal the count, or its sum or difference with other counts of the
    answer. The results have the same meaning as those of `_place_of`.
    """
    was, is_ = _usage(before), _usage(found)
    changed = [name for name, value in is_.items() if value != was.get(name)]
    if not changed:
        is_other = repr(found) != repr(before)
        return ("effect" if is_other else None), None
    what = f"{leaf.name} ({leaf.value})"
    other = {"input": "output", "output": "input"}.get(kind)
    if kind in ("input", "output") and kind not in changed and other in changed:
        return kind, f"{what} is counted as {other}, not as {kind}"
    if kind not in changed:
        return kind, None  # another name of the same count, or a part of it
    parts = {
        number.path: number.value
        for number in counts
        if _kind_of(number) in ("cache_read", "cache_write", "reasoning", "input", "output")
        and number.path != leaf.path
    }
    count = is_[kind] or 0
    if count - _NUMBER not in _sums(parts) and kind != "total":
        return kind, f"{what}: where it is {_NUMBER}, the usage says {kind}={count}"
    return kind, None


def _moved(
    answer: RecordedAnswer, leaf: _Leaf, found: AssistantMessage, before: AssistantMessage
) -> str | None:
    """Describe the fault if a number that is not named like a count changes a token count wrongly.

    A count may be the sum or difference of the number and other numbers, such as cached tokens. A
    number whose name refers to the input must not change the output count, and vice versa.
    """
    others = {
        other.path: other.value
        for other in _leaves(answer)
        if type(other.value) is int and other.path != leaf.path
    }
    was, is_ = _usage(before), _usage(found)
    named = str(leaf.path[-1])
    for name, other in (("input", _OUT), ("output", _IN)):
        if was[name] is None or is_[name] is None or is_[name] == was[name]:
            continue
        if other.search(named):
            return f"{leaf.name} ({leaf.value}) is counted as {name}"
        distance = is_[name] - _NUMBER
        if was[name] - leaf.value == distance and distance not in _sums(others):
            return f"{leaf.name} ({leaf.value}): where it is {_NUMBER}, {name} is {is_[name]}"
    return None


def _sums(parts: Mapping[Path, int]) -> set[int]:
    """Return all results of adding and subtracting some of the first six different numbers."""
    values = list(dict.fromkeys(parts.values()))[:6]
    return {
        sum(sign * value for sign, value in zip(signs, values, strict=True))
        for signs in product((-1, 0, 1), repeat=len(values))
    }


def _usage(message: AssistantMessage) -> dict[str, Any]:
    usage = message.usage or Usage()
    names = ("input", "output", "cache_read", "cache_write", "reasoning", "total", "extra")
    return {name: getattr(usage, name) for name in names}


def _kind_of(leaf: _Leaf) -> str | None:
    """Return which tokens a number counts, such as `input`; `None` if it is not a token count."""
    if isinstance(leaf.value, str | float):
        return None
    name = str(leaf.path[-1])
    above = ".".join(str(step) for step in leaf.path)
    if not _COUNTED.search(above):
        return None
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), None)


def _leaves(answer: RecordedAnswer) -> Iterator[_Leaf]:
    for number, data in enumerate(answer.frames):
        if isinstance(data, bytes):
            continue
        named = data.get("type") if isinstance(data, dict) else None
        prefix = f"{named}: " if isinstance(named, str) else ""
        for path, value in _values(data, ()):
            name = "".join(
                f"[{'+' * (step > 0)}]" if isinstance(step, int) else f".{step}" for step in path
            )
            yield _Leaf(number, path, value, prefix + name.removeprefix("."))


_JSON = "{}"
"""The step of a path that leads from a text into the JSON data that the text contains."""


def _replaced(data: Any, path: Path, value: Any) -> Any:
    """Return a copy of data with another value at a path."""
    if _JSON not in path:
        return with_value(data, path, value)
    place = path.index(_JSON)
    inner = _replaced(json.loads(at(data, path[:place])), path[place + 1 :], value)
    return with_value(data, path[:place], json.dumps(inner))


def _values(data: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(data, str) and data.startswith("{"):
        with suppress(ValueError):
            data = json.loads(data)
            path = (*path, _JSON)
    if isinstance(data, dict | list):
        for step, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _values(value, (*path, step))
    elif isinstance(data, str | int | float) and not isinstance(data, bool) and path:
        yield path, data


def _is_plain(leaf: _Leaf) -> bool:
    name = next((str(step) for step in reversed(leaf.path) if isinstance(step, str)), "")
    if leaf.value in ("", 0, "{}") or str(leaf.value).startswith(("http://", "https://")):
        return True
    if name == "code" and isinstance(leaf.value, int):
        return True  # the status, once more
    if _kind_of(leaf) == "total":
        return True  # the sum, which swink computes
    is_error = "error" in leaf.name.lower()
    if is_error and name == "code":
        return True  # an error may have a type and a code, of which the message keeps one
    return bool(_PLAIN.search(name)) and not (is_error and name not in ("type", "status", "index"))


def _is_repeated(answer: RecordedAnswer, leaf: _Leaf) -> bool:
    """Return True if another field of the answer contains the same text."""
    if not isinstance(leaf.value, str):
        return False
    whole = json.dumps(dump(answer.message), ensure_ascii=False)
    return json.dumps(leaf.value, ensure_ascii=False)[1:-1] in whole


def _places(message: AssistantMessage, events: Sequence[Event]) -> dict[str, str]:
    calls = message.tool_calls
    error = message.error_message or ""
    return {
        "thinking": message.thinking,
        "text": message.text,
        "arguments": "".join(_said(call) for call in calls),
        "name": "".join(call.name or "" for call in calls),
        "id": "".join(call.id or "" for call in calls),
        "error": f"{error} {getattr(events[-1], 'code', '')}",
        "elsewhere": json.dumps(dump(message), ensure_ascii=False) + _notices(events),
    }


def _said(block: Any) -> str:
    match block:
        case TextBlock(text=text):
            return text
        case ThinkingBlock(thinking=text):
            return text
        case ToolCallBlock(arguments=arguments, raw_arguments=raw):
            return raw or json.dumps(arguments, ensure_ascii=False)
    return ""


def _notices(events: Sequence[Event]) -> str:
    return " ".join(f"{e.code} {e.detail}" for e in events if isinstance(e, Notice))
