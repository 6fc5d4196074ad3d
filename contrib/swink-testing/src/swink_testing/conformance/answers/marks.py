"""Compares messages with the bytes of their answers, independently of the parser.

Each text and number of a recorded answer is replaced by a mark. The mark must appear in the
message, in the field for that kind and in the answer's order, or it must change something else,
such as the reason to stop. A field that does neither is lost, unless the package says why it is
ignored.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
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
from swink_recorder.recording import Recording
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.answers.edited_answers import data_of
from swink_testing.conformance.answers.joined_frames import Path, at, with_value
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse, comparable, fold

__all__ = ["IGNORED_FILE", "check_answers_are_read"]

IGNORED_FILE = "ignored_fields.toml"
"""The file of a package that names fields of answers which no message has, each with a reason."""

LONGEST = 20_000
"""Bytes of a recording; a longer one has hardly more kinds of fields."""

_NUMBER = 40_000_003

_Read: TypeAlias = Callable[[Mapping[int, Any]], Awaitable[list[Event]]]
"""Reads an answer in which the data of some parts is replaced."""

_PLAIN = re.compile(
    r"(^|_)(id|ids|type|object|role|index|model|version|fingerprint|tier|event|status|format)$"
    r"|^(created|created_at|timestamp|time|sequence_number|obfuscation)$|(Id|Index|Version)$"
    r"|(_time|Time|_at|_url|Url)$",
)
"""Names of fields that identify or sort content and carry none."""

_COUNTED = re.compile(r"usage|token|count|eval", re.IGNORECASE)

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("cache_write", re.compile(r"cache.*(creat|writ)", re.IGNORECASE)),
    ("cache_read", re.compile(r"cache", re.IGNORECASE)),
    ("reasoning", re.compile(r"reason|think|thought", re.IGNORECASE)),
    ("total", re.compile(r"total", re.IGNORECASE)),
    ("input", re.compile(r"prompt|input", re.IGNORECASE)),
    ("output", re.compile(r"output|completion|candidates|generated|^eval_count$", re.IGNORECASE)),
)
"""Which count of `Usage` a number is, by its name."""

_THOUGHT = re.compile(r"reason|think|thought", re.IGNORECASE)

_ARGUMENTS = re.compile(r"argument|partial_json", re.IGNORECASE)


@define(frozen=True)
class _Leaf:
    """A text or a number of an answer: in which part, where in it, and what it is."""

    part: int
    path: Path
    value: Any
    name: str = field(eq=False)
    """The path for people, shared by all leaves of one kind."""


@define
class _Answer:
    """An answer whose parts can be replaced: frames, or the bodies of further answers."""

    where: str
    name: str
    """The recording's name."""
    parts: Sequence[Any]
    read: _Read
    wire_format: str
    addresses: str
    """The addresses of all requests, in which texts of earlier answers may be."""
    whole: list[Event] = field(factory=list)


def check_answers_are_read(subject: Subject) -> None:
    """Each text and number of an answer is in its message, in order, or ignored with a reason."""
    if not subject.parses:
        raise DoesNotApply("it has no parser: no bytes can be put through it")
    ignored = subject.shipped(IGNORED_FILE, partial(msgspec.toml.decode, type=_Ignored)) or {}
    read = list(_answers(subject))
    if not read:
        raise DoesNotApply("no recorded answer has frames of JSON that can be written")
    asyncio.run(_Reader(ignored).read(read))


_Ignored: TypeAlias = dict[str, dict[str, str]]


def _answers(subject: Subject) -> Iterator[_Answer]:
    legs = [leg for recording in subject.recordings for leg in recording.legs]
    addresses = " ".join(leg.request.path for leg in legs)
    for recording in subject.whole_calls:
        if recording.status != 200 or recording.message is None:
            continue
        answer = Answer.of_recording(recording, type(subject.provider).decoder)
        where = f"recording {recording.name}"
        of = recording.wire_format, addresses
        if answer.is_data and len(recording.body) <= LONGEST:
            frames = [next(data_of(answer, frame), frame) for frame in answer.frames]
            read = partial(_read_frames, subject, recording, answer, frames)
            yield _Answer(where, recording.name, frames, read, *of)
        if not subject.speaks_http or len(recording.legs) == 1:
            continue
        place = len(recording.before)
        others = [
            leg.body if number == place or leg.kind in ("token", "abandon") else _json(leg.body)
            for number, leg in enumerate(recording.legs)
        ]
        played = partial(_read_legs, subject, recording)
        yield _Answer(f"{where}, other requests", recording.name, others, played, *of)


async def _read_frames(
    subject: Subject,
    recording: Recording,
    answer: Answer,
    frames: Sequence[Any],
    changed: Mapping[int, Any],
) -> list[Event]:
    pieces = [
        answer.frame(json.dumps(changed[number]).encode()) if number in changed else frame
        for number, frame in enumerate(answer.frames)
    ]
    rest = recording.body[answer.ends[-1] :] if answer.ends else recording.body
    if not subject.speaks_http or len(recording.legs) == 1:
        return await subject.parse(recording, [b"".join(pieces), rest])
    body = [b"".join(pieces) + rest]
    return await subject.played_events(recording, MemoryResponse.of_recording(recording, body))


async def _read_legs(
    subject: Subject, recording: Recording, changed: Mapping[int, Any]
) -> list[Event]:
    def answered(number: int) -> Any:
        leg = recording.legs[number]
        return lambda: MemoryResponse.of_json(changed[number], leg.status, leg.headers)

    faults = {number: answered(number) for number in changed}
    answer = MemoryResponse.of_recording(recording)
    return await subject.played_events(recording, answer, faults=faults)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body


class _Reader:
    """Reads answers with marks in them, one of each kind of field alone and then all together."""

    def __init__(self, ignored: _Ignored) -> None:
        self._ignored = ignored
        self._places: dict[tuple[str, str], str | None] = {}
        self._lost: dict[str, str] = {}
        self._silent: dict[tuple[str, str], str] = {}

    async def read(self, answers: Sequence[_Answer]) -> None:
        """Read all answers, and report each kind of field that is lost everywhere."""
        for answer in answers:
            answer.whole = await answer.read({})
            counts = [leaf for leaf in _leaves(answer) if _kind_of(leaf)]
            for leaf in _leaves(answer):
                await self._try(answer, leaf, counts)
        for name, why in self._lost.items():
            require(False, f"{why}; say why in {IGNORED_FILE} if it is right to ignore {name!r}")
        for kind, why in self._silent.items():
            require(self._places.get(kind) != _REASON, why)
        for answer in answers:
            await self._require_order(answer)

    async def _try(self, answer: _Answer, leaf: _Leaf, counts: Sequence[_Leaf]) -> None:
        kind = (answer.wire_format, leaf.name)
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
            reason = fold(answer.whole).stop_reason
            why = f"{leaf.name} ({shown}): any other value is {reason} too, without a Notice"
            self._silent.setdefault(kind, f"{answer.where}: {why}")
        if place is None and (known or _is_plain(leaf) or _is_repeated(answer, leaf)):
            place = known or "plain"
        if place is None and len(shown) > 3 and str(leaf.value) in answer.addresses:
            place = "address"  # of a further request, which `recorded_requests` holds
        if place is None:
            why = f"{answer.where}: {leaf.name} ({shown}) is nowhere in the message"
            self._lost.setdefault(leaf.name, why)
        else:
            self._lost.pop(leaf.name, None)
        self._places[kind] = place

    def _is_ignored(self, answer: _Answer, leaf: _Leaf) -> bool:
        rows = self._ignored.get(answer.wire_format, {})
        names = leaf.name, f"{answer.name}/{leaf.name}"
        return any(
            name == row or name.startswith((f"{row}.", f"{row}[")) for name in names for row in rows
        )

    async def _require_order(self, answer: _Answer) -> None:
        """All texts are in their blocks, once each and in the order of the answer."""
        said = [
            leaf
            for leaf in _leaves(answer)
            if self._places.get((answer.wire_format, leaf.name)) in _CONTENT
            and isinstance(leaf.value, str)
            and leaf.value
        ]
        if not said:
            return
        marks = {leaf: f"swkm{number:05}k" for number, leaf in enumerate(said)}
        changed: dict[int, Any] = {}
        for leaf, mark in marks.items():
            data = changed.get(leaf.part, answer.parts[leaf.part])
            changed[leaf.part] = _replaced(data, leaf.path, mark)
        blocks = [_said(block) for block in fold(await answer.read(changed)).content]
        found = [re.findall(r"swkm(\d{5})k", text) for text in blocks]
        flat = [number for each in found for number in each]
        for number, leaf in enumerate(said):
            times = flat.count(f"{number:05}")
            if times != 1:
                await self._require_once(answer, leaf, times)
        for numbers, text in zip(found, blocks, strict=True):
            require(numbers == sorted(numbers), f"{answer.where}: texts are out of order: {text}")

    async def _require_once(self, answer: _Answer, leaf: _Leaf, times: int) -> None:
        """Hold one text alone, where those around it may have changed its meaning."""
        if _notices(answer.whole) or self._is_ignored(answer, leaf):
            return  # the recording's notices.json says that a part is left out
        place, _ = await _place_of(answer, leaf, ())
        what = f"{answer.where}, part {leaf.part + 1}: {leaf.name} ({leaf.value!r:.60})"
        require(place is not None, f"{what} is in the message {times} times")


_REASON = "reason"
"""The place of a text that only changes the reason to stop."""

_CONTENT = ("text", "thinking", "arguments")


async def _place_of(
    answer: _Answer, leaf: _Leaf, counts: Sequence[_Leaf]
) -> tuple[str | None, str | None]:
    """Return where a mark is in the message, and what is wrong with that.

    The place is `None` where nothing differs, and `effect` where something does without it.
    """
    mark: Any = _NUMBER if not isinstance(leaf.value, str) else "swkm99999k"
    if isinstance(leaf.value, float):
        mark = float(_NUMBER)
    data = _replaced(answer.parts[leaf.part], leaf.path, mark)
    try:
        events = await answer.read({leaf.part: data})
    except Exception:  # a parser that cannot read it has noticed it; `unknown_frames` says more
        return "effect", None
    found, before = fold(events), fold(answer.whole)
    kind = _kind_of(leaf)
    if kind is not None:
        return _counted(answer, leaf, kind, found, before, counts)
    text = f"{mark}"
    for name, said in _places(found, events).items():
        if text in said:
            return name, _misplaced(leaf, name)
    reasons = found.stop_reason, before.stop_reason
    if StopReason.ERROR not in reasons and reasons[0] is not reasons[1]:
        return _REASON, None
    same = _comparable(found) == _comparable(before) and _notices(events) == _notices(answer.whole)
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
    answer: _Answer,
    leaf: _Leaf,
    kind: str,
    found: AssistantMessage,
    before: AssistantMessage,
    counts: Sequence[_Leaf],
) -> tuple[str | None, str | None]:
    """Compare a count with the usage, whose field holds it, alone or plus known parts."""
    was, is_ = _usage(before), _usage(found)
    changed = [name for name, value in is_.items() if value != was.get(name)]
    if not changed:
        is_other = _comparable(found) != _comparable(before)
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
    values = list(dict.fromkeys(parts.values()))[:6]
    sums = {
        sum(sign * value for sign, value in zip(signs, values, strict=True))
        for signs in product((-1, 0, 1), repeat=len(values))
    }
    count = is_[kind] or 0
    if count - _NUMBER not in sums and kind != "total":
        return kind, f"{what}: where it is {_NUMBER}, the usage says {kind}={count}"
    return kind, None


def _usage(message: AssistantMessage) -> dict[str, Any]:
    usage = message.usage or Usage()
    names = ("input", "output", "cache_read", "cache_write", "reasoning", "total", "extra")
    return {name: getattr(usage, name) for name in names}


def _kind_of(leaf: _Leaf) -> str | None:
    """Tell which count of tokens a number is; `None` for any other number."""
    if isinstance(leaf.value, str | float):
        return None
    name = str(leaf.path[-1])
    above = ".".join(str(step) for step in leaf.path)
    if not _COUNTED.search(above):
        return None
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), None)


def _leaves(answer: _Answer) -> Iterator[_Leaf]:
    for number, data in enumerate(answer.parts):
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
"""A step of a path into JSON that a text holds."""


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


def _is_repeated(answer: _Answer, leaf: _Leaf) -> bool:
    """Tell whether a text says again what other fields have said."""
    if not isinstance(leaf.value, str):
        return False
    whole = json.dumps(dump(fold(answer.whole)), ensure_ascii=False)
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


def _comparable(message: AssistantMessage) -> str:
    return repr(comparable(message))
