"""Checks of finish reasons: unknown, missing, exchanged between answers, and sent too early."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeAlias

from attrs import define

from swink_core import AssistantMessage, Block, Error, Event, ExtensionBlock, StopReason, replace
from swink_testing.conformance.answers.recorded_answers import (
    GONE,
    Changes,
    Path,
    RecordedAnswer,
    at,
    details,
    message_of,
    names_of,
    read_answers,
    with_value,
)
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import Subject

__all__ = ["check_finish_reasons"]

UNHEARD = "swink_unknown"

WORDS = ("stop", "length", "tool_calls", "end_turn", "max_tokens", "tool_use", "MAX_TOKENS")
"""Names of finish reasons in several APIs."""

MOST_TRIES = 150
"""How many answers are read to find the fields with the finish reason."""

_NONE_YET = ("null", "")
"""Values of the field with the finish reason that APIs send before an answer ends."""

_CUT = (StopReason.LENGTH, StopReason.CONTENT_FILTER)

_Names: TypeAlias = tuple[str, ...]


@define
class _Ended:
    """A recorded answer; `places` are the frame number and path of each finish reason in it."""

    answer: RecordedAnswer
    places: Sequence[tuple[int, Path]]

    @property
    def words(self) -> dict[_Names, str]:
        """The finish reasons in the answer, by the names in the path of their field."""
        return {names_of(path): at(self.answer.frames[n], path) for n, path in self.places}

    def ending(self, words: Mapping[_Names, Any] | Any) -> Changes:
        """Return the changes of frames that give the answer another finish reason.

        `words` is a word for all fields, or a mapping with a word for each field.
        """
        by_field = words if isinstance(words, Mapping) else dict.fromkeys(self.words, words)
        return self.answer.replaced({(n, p): by_field[names_of(p)] for n, p in self.places})


def check_finish_reasons(subject: Subject) -> None:
    """Every finish reason is understood, or is an error, or a Notice reports it.

    An unknown or missing reason must be reported. A missing reason need not be reported if a
    recorded answer of the API has no reason either. A reason such as truncated, refused or
    interrupted is never treated as a normal end, whatever the answer contains. A reason that is
    repeated in each frame does not end the answer early. A field counts as the finish reason if its
    name ends with "reason", or if a change of the field changes only the stop reason of the
    message.
    """

    async def compare() -> None:
        answers = await read_answers(subject)
        fields = await _fields(answers)
        ended = [_Ended(answer, list(_places(answer, fields))) for answer in answers]
        without = {each.answer.recording.wire_format for each in ended if not each.places}
        ended = [each for each in ended if each.places]
        if not ended:
            raise DoesNotApply("no recording names a reason to stop")
        by_size = sorted(ended, key=lambda each: -len(each.answer.recording.body))
        for smallest in {each.answer.recording.wire_format: each for each in by_size}.values():
            await _require_meant(subject, smallest)
        for each in ended:
            await _require_reported(each, "unknown", UNHEARD)
            if each.answer.recording.wire_format not in without:
                await _require_reported(each, "missing", GONE)
            await _require_not_early(each)
            for other in ended:
                if _can_end(each, other, ended):
                    await _require_as_other(each, other)
        known = [each for each in ended if not details(each.answer.whole)]
        require(known, "each recorded finish reason is reported as unknown by a Notice")

    asyncio.run(compare())


async def _require_meant(subject: Subject, ended: _Ended) -> None:
    """Check that no API's finish reason for an incomplete answer is treated as a normal end."""
    answer = ended.answer
    parser = subject.provider.parser(subject.model_of(answer.recording))
    for word in dict.fromkeys([*NOT_WHOLE, *filter(_NOT_WHOLE.search, _vocabulary(parser))]):
        changes = ended.ending(word)
        events = await answer.events(changes)
        reason = message_of(events).stop_reason
        require(
            reason not in (StopReason.STOP, StopReason.TOOL_USE)
            or {*details(events)} - {*details(answer.whole)},
            f"{answer.where}: where the reason to stop is {word!r}, it is said to be {reason}, and "
            "no Notice tells of it",
            answer.body(changes),
        )


async def _require_reported(ended: _Ended, what: str, word: Any) -> None:
    """Check that an unknown or missing reason is reported, and that the content is kept."""
    answer = ended.answer
    changes = ended.ending(word)
    events = await answer.events(changes)
    reason = message_of(events).stop_reason
    if reason is StopReason.ERROR:
        return
    notices = details(events)
    where = f"{answer.where}: where the reason to stop is {what}"
    told = {*notices} - {*details(answer.whole)}
    require(told, f"{where}, it is said to be {reason}, and no Notice tells of it")
    require(
        word is GONE or any(UNHEARD in notice for notice in notices),
        f"{where}, the Notice does not name it: {', '.join(notices)}",
    )
    lost = _lost(events, answer.whole)
    require(lost is None, f"{where}, {lost} is another", answer.body(changes))


async def _require_not_early(ended: _Ended) -> None:
    """Check that no text is lost without a notice if each frame repeats the finish reason."""
    answer = ended.answer
    named = [(number, path) for number, path in ended.places if _is_named(names_of(path))]
    if not named:
        return
    last, path = named[-1]
    word = at(answer.frames[last], path)
    changes = {
        number: [with_value(data, path, word)]
        for number, data in enumerate(answer.frames[:last])
        if _has_object(data, path[:-1])
    }
    if not changes:
        return
    events = await answer.events(changes)
    text, expected = ((m.thinking, m.text) for m in (message_of(events), answer.message))
    told = len(details(events)) > len(details(answer.whole))
    require(
        text == expected or isinstance(events[-1], Error) or told,
        f"{answer.where}: where each frame says the reason to stop, the text is another, and "
        "nothing tells of it",
        answer.body(changes),
        expected,
    )


def _has_object(data: Any, path: Path) -> bool:
    try:
        return not isinstance(data, bytes) and isinstance(at(data, path), dict)
    except (LookupError, TypeError):
        return False


async def _require_as_other(one: _Ended, other: _Ended) -> None:
    changes = one.ending(other.words)
    reason = message_of(await one.answer.events(changes)).stop_reason
    expected = other.answer.message.stop_reason
    require(
        reason is expected,
        f"{one.answer.where}: where it ends as {other.answer.recording.name}, which is {expected}, "
        f"it is said to be {reason}",
        one.answer.body(changes),
        expected,
    )


def _can_end(one: _Ended, other: _Ended, ended: Sequence[_Ended]) -> bool:
    """Return True if the finish reason of the truncated answer `other` can be inserted in `one`.

    It can be inserted only if the words of that reason have the same meaning in all answers
    (`ended`).
    """
    reason = other.answer.message.stop_reason
    if reason not in _CUT or one.words.keys() - other.words.keys():
        return False
    meant = {
        each.answer.message.stop_reason
        for each in ended
        for names in one.words
        if each.words.get(names) == other.words[names]
    }
    alike = one.answer.recording.wire_format == other.answer.recording.wire_format
    return alike and meant == {reason} and one.answer.message.stop_reason is not reason


def _lost(events: Sequence[Event], whole: Sequence[Event]) -> str | None:
    """Return the name of a field in which the messages differ, or `None`.

    The finish reason and metadata are not compared.
    """
    found, expected = _without_reason(events), _without_reason(whole)
    names = (n for n in AssistantMessage.__struct_fields__ if not n.startswith("total_"))
    return next((n for n in names if getattr(found, n) != getattr(expected, n)), None)


def _without_reason(events: Sequence[Event]) -> AssistantMessage:
    message = message_of(events)
    blocks = [block for block in message.content if not isinstance(block, ExtensionBlock)]
    content: list[Block] = [replace(block, metadata=None) for block in blocks]
    return replace(message, content=content, stop_reason=None, metadata=None)


NOT_WHOLE = (
    "length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "model_length", "context_length",
    "context_limit", "model_context_window_exceeded", "token_limit", "ERROR_LIMIT", "truncated",
    "incomplete", "content_filter", "content_filtered", "SAFETY", "refusal", "blocked", "guardrail",
    "PROHIBITED_CONTENT", "ERROR_TOXIC", "sensitive", "error", "ERROR", "failed", "cancelled",
    "abort", "timeout", "network_error", "overloaded", "insufficient_system_resource",
)  # fmt: skip
"""Finish reasons, in several APIs, that mean that an answer is incomplete."""

_NOT_WHOLE = re.compile(
    r"max|length|limit|window|truncat|incomplete|filter|safety|refus|block|prohibit|toxic|guardrail|"
    r"error|fail|cancel|abort|timeout|overload|insufficient|malformed|recitation",
    re.IGNORECASE,
)


def _vocabulary(parser: Any) -> Iterator[str]:
    """Yield the strings in a parser's modules, which may be finish reasons that it knows."""
    for made in type(parser).__mro__[:-1]:
        for value in vars(sys.modules[made.__module__]).values():
            yield from _words(value, made.__module__)


def _words(value: Any, module: str) -> Iterator[str]:
    match value:
        case str():
            if _WORD.fullmatch(value):
                yield value
        case dict() | tuple() | list() | set() | frozenset():
            for each in value:
                yield from _words(each, module)
        case type(__module__=where) if where == module:
            for each in vars(value).values():
                yield from _words(each, module)
        case FunctionType(__code__=code):
            for each in code.co_consts:
                yield from _words(each, module)


_WORD = re.compile(r"[A-Za-z_-]{2,32}")


async def _fields(answers: Sequence[RecordedAnswer]) -> set[_Names]:
    """Return the fields with the finish reason, found by their names or by their effect."""
    said: dict[_Names, set[str]] = {}
    for answer in answers:
        for _, path, value in _strings(answer):
            said.setdefault(names_of(path), set()).add(value)
    found = set(filter(_is_named, said))
    named = {a.recording.wire_format for a in answers if any(_places(a, found))}
    tries = MOST_TRIES
    for answer in sorted(answers, key=lambda answer: len(answer.recording.body)):
        fields = list(dict.fromkeys(names_of(path) for _, path, _ in _strings(answer)))
        if answer.recording.wire_format in named or not found.isdisjoint(fields):
            continue
        for names in fields:
            if len(said[names]) > len(WORDS) or not all(map(_WORD.fullmatch, said[names])):
                continue
            ended = _Ended(answer, list(_places(answer, {names})))
            for word in dict.fromkeys([UNHEARD, *sorted(said[names]), *WORDS]):
                if not tries:
                    return found
                tries -= 1
                try:
                    events = await answer.events(ended.ending(word))
                except Exception:
                    continue  # a fault; if this is the reason's field, the check reports it
                if _says_why(events, answer):
                    found.add(names)
                    break
    return found


def _is_named(names: _Names) -> bool:
    return names[-1].lower().replace("_", "").endswith("reason")


def _says_why(events: Sequence[Event], answer: RecordedAnswer) -> bool:
    """Return True if only the message's stop reason changed, or an event reports it as unknown."""
    message = message_of(events)
    if message.content != answer.message.content:
        return False
    if message.stop_reason is StopReason.ERROR:
        return UNHEARD in (message.error_message or "")
    told = any(UNHEARD in detail for detail in details(events))
    return told or message.stop_reason is not answer.message.stop_reason


def _strings(answer: RecordedAnswer) -> Iterator[tuple[int, Path, str]]:
    for number, path, value in answer.values():
        if path and isinstance(path[-1], str) and isinstance(value, str):
            yield number, path, value


def _places(answer: RecordedAnswer, fields: set[_Names]) -> Iterator[tuple[int, Path]]:
    for number, path, value in _strings(answer):
        if names_of(path) in fields and value not in _NONE_YET:
            yield number, path
