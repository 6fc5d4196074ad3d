"""What an API may say tomorrow, and what it said yesterday and takes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from attrs import evolve

from swink_core import (
    AssistantMessage,
    Block,
    Context,
    Event,
    Message,
    Model,
    Notice,
    ProviderFailure,
    StopReason,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UsageError,
    UserMessage,
)
from swink_core.providers import NDJSONDecoder, SSEDecoder
from swink_recorder.recording import Recording
from swink_testing.beginnings import BY_API, beginning
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import comparable, fold
from swink_testing.request_readers import strings_of

__all__ = [
    "check_answers_go_back",
    "check_missing_usage",
    "check_stop_reasons",
    "check_unknown_frames",
]

_UNKNOWN = json.dumps({"type": "swink_unknown", "swink_unknown": {"a": [1, "b", None]}}).encode()

_UNHEARD = "swink_unknown"

_WITH_DIALECTS = ("none", "openai-chat", "swink")
"""Wire formats of which one provider wants back what another refuses."""

_LONGEST = 20_000
"""Bytes of a recording; a longer one says nothing more about what is unknown."""


def check_unknown_frames(subject: Subject) -> None:
    """A frame of a type that nobody knows yet changes nothing."""

    async def compare() -> None:
        for recording, answer in _answers(subject):
            whole = comparable(fold(await subject.parse(recording)))
            frames, unknown = answer.frames, answer.frame(_UNKNOWN, "swink_unknown")
            for place in sorted({0, 1, len(frames) // 2, len(frames) - 1}):
                body = b"".join([*frames[:place], unknown, *frames[place:]])
                found = comparable(fold(await subject.parse(recording, [body])))
                where = f"recording {recording.name}, a frame of an unknown type after {place}"
                if found.stop_reason is StopReason.ERROR:
                    fail(f"{where} fails: {found.error_message}")
                require(found == whole, f"{where} changes the message")

    asyncio.run(compare())


def check_stop_reasons(subject: Subject) -> None:
    """A reason to stop that is unknown or missing is an error, or told in a Notice.

    That it may be missing, a recording shows that has none.
    """
    recorded = {r.wire_format: r for r, answer in _answers(subject) if not _has_reason(answer)}

    async def compare() -> None:
        named = known = False
        for recording, answer in _answers(subject):
            before = _told(await subject.parse(recording))
            for what, change in (("unknown", _rename), ("missing", _remove)):
                body = _edited(answer, _reasons, change)
                if body is None or (change is _remove and recording.wire_format in recorded):
                    continue
                named, known = True, known or not before
                events = await subject.parse(recording, [body])
                reason, told = fold(events).stop_reason, _told(events)
                where = f"recording {recording.name}: where the reason to stop is {what}"
                require(
                    {*told} - {*before} or reason is StopReason.ERROR,
                    f"{where}, it is said to be {reason}, and no Notice tells of it",
                )
                require(
                    reason is StopReason.ERROR
                    or what == "missing"
                    or any(_UNHEARD in n for n in told),
                    f"{where}, the Notice does not name it: {', '.join(told)}",
                )
        if not named:
            raise DoesNotApply("no recording names a reason to stop")
        require(known, "each recorded reason to stop is told in a Notice, as if it were unknown")

    asyncio.run(compare())


def check_missing_usage(subject: Subject) -> None:
    """An answer that counts no tokens is the same message, whose counts are unknown, not 0."""

    async def compare() -> None:
        counted = False
        for recording, answer in _answers(subject):
            if (body := _edited(answer, _counts, _remove)) is None:
                continue
            counted = True
            whole = comparable(fold(await subject.parse(recording)))
            found = comparable(fold(await subject.parse(recording, [body])))
            where = f"recording {recording.name}: where no tokens are counted"
            if found.stop_reason is StopReason.ERROR:
                fail(f"{where}, it fails: {found.error_message}", body)
            for name in ("input", "output"):
                told = getattr(found.usage, name, None)
                require(
                    told in (None, getattr(whole.usage, name, None)),
                    f"{where}, {name} tokens are said to be {told}",
                    body,
                )
            same = evolve(found, usage=whole.usage) == whole
            require(same, f"{where}, the message is another", body)
        if not counted:
            raise DoesNotApply("no recording counts tokens")

    asyncio.run(compare())


def check_answers_go_back(subject: Subject) -> None:
    """What a recorded answer says goes back with the next turn: texts, calls, signatures.

    So does what the wire format is known to want back, such as its reasoning.
    """
    hook = subject.binding.hook.convert_messages
    if not hook.get_hookimpls():
        raise DoesNotApply("it has no convert_messages hook")

    async def answered() -> list[_Answered]:
        found: list[_Answered] = []
        for recording in subject.answers():
            message = fold(await subject.parse(recording), subject.name, recording.model)
            if message.stop_reason is not StopReason.ERROR:  # another check tells of it
                where = f"recording {recording.name}: sent back, its answer"
                model = subject.model_of(recording)
                found.append((where, model, message, [*_said(message)]))
        return found

    options = StreamOptions(**subject.call_options())
    for where, model, message, wanted in [*asyncio.run(answered()), *_known(subject)]:
        try:
            payload: Any = hook(model=model, context=_continued(message), options=options)
            if subject.speaks_http:
                payload = json.loads(subject.provider.request(model, payload, options).body)
        except (ProviderFailure, UsageError) as error:
            fail(f"{where} is refused: {error}")
        texts = "\n".join(strings_of(json.loads(json.dumps(payload))))
        for said in wanted:
            forms = (said, json.dumps(said)[1:-1])
            is_there = any(form in texts for form in forms)
            require(is_there, f"{where} loses {said!r:.100}", payload, said)


_Answered: TypeAlias = tuple[str, Model, AssistantMessage, Sequence[str]]


def _known(subject: Subject) -> Iterator[_Answered]:
    """Yield an answer as the wire format has it, with all that its API wants back."""
    wire_format = subject.info.wire_format if subject.info else ""
    name = subject.name if subject.name in BY_API else wire_format
    if name in BY_API and name not in _WITH_DIALECTS:
        known = beginning(name, subject.name)
        message = AssistantMessage(known.content, provider=subject.name, model=subject.model.id)
        where = f"an answer of {name}: sent back, it"
        yield where, subject.model, message, known.returned
        content: list[Block] = [b for b in known.content if not isinstance(b, ToolCallBlock)]
        yield (
            f"{where}, without calls,",
            subject.model,
            evolve(message, content=content),
            known.kept,
        )


def _continued(message: AssistantMessage) -> Context:
    calls = message.tool_calls
    results = [ToolResultMessage(call.id, call.name, "done") for call in calls]
    tools = [Tool(name, "", {"type": "object"}) for name in dict.fromkeys(c.name for c in calls)]
    messages: list[Message] = [UserMessage("Hello"), message, *results, UserMessage("Go on.")]
    return Context(messages, tools=tools)


def _said(message: AssistantMessage) -> Iterator[str]:
    for block in message.content:
        match block:
            case TextBlock(text):
                yield text.strip()
            case ThinkingBlock(signature=str(signature)):
                yield signature
            case ToolCallBlock(name=name, arguments=arguments):
                yield name
                yield from (value for value in strings_of(arguments) if value.strip())


def _answers(subject: Subject) -> Iterator[tuple[Recording, Answer]]:
    """Yield recordings of complete answers whose frames can be written."""
    found = False
    for recording in subject.answers():
        answer = Answer.of_recording(recording, type(subject.provider).decoder)
        if answer.framing is None and answer.content_type.startswith("text/event-stream"):
            answer = evolve(answer, framing="sse")
        if answer.framing is not None and len(recording.body) <= _LONGEST:
            found = True
            yield recording, answer
    if not found:
        raise DoesNotApply("its frames are neither SSE nor NDJSON")


_Place: TypeAlias = tuple[dict[str, Any], str]


def _edited(
    answer: Answer, find: Callable[[Any], Iterator[_Place]], change: Callable[..., None]
) -> bytes | None:
    """Return the body with every place changed that is found; `None` where there is none."""
    frames, found = [], False
    for frame in answer.frames:
        for data in _data(answer, frame):
            if places := list(find(data)):
                found = True
                for holder, name in places:
                    change(holder, name)
                frame = answer.frame(json.dumps(data).encode())
        frames.append(frame)
    return b"".join(frames) if found else None


def _told(events: Sequence[Event]) -> list[str]:
    return [event.detail for event in events if isinstance(event, Notice)]


def _has_reason(answer: Answer) -> bool:
    return _edited(answer, _reasons, _rename) is not None


def _data(answer: Answer, frame: bytes) -> Iterator[Any]:
    """Yield the JSON data of a frame."""
    decoder = SSEDecoder() if answer.framing == "sse" else NDJSONDecoder()
    for payload in decoder.feed(frame):
        with suppress(ValueError):
            yield json.loads(payload)


def _reasons(data: Any) -> Iterator[_Place]:
    return _places(data, lambda name, value: isinstance(value, str) and name.endswith("reason"))


def _counts(data: Any) -> Iterator[_Place]:
    return _places(data, lambda name, value: "usage" in name or name.endswith("evalcount"))


def _places(data: Any, wanted: Callable[[str, Any], bool]) -> Iterator[_Place]:
    """Yield where JSON data holds something, by its name in small letters without `_`."""
    if isinstance(data, dict):
        for name, value in data.items():
            if wanted(name.lower().replace("_", ""), value):
                yield data, name
            else:
                yield from _places(value, wanted)
    elif isinstance(data, list):
        for value in data:
            yield from _places(value, wanted)


def _rename(holder: dict[str, Any], name: str) -> None:
    holder[name] = _UNHEARD


def _remove(holder: dict[str, Any], name: str) -> None:
    del holder[name]
