"""What an API may say tomorrow, and what it said yesterday and takes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from attrs import evolve

from swink_core import (
    AssistantMessage,
    Block,
    Context,
    Message,
    Model,
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
from swink_testing.beginnings import BY_API, beginning
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.edited import Place, answers, edited, places, remove
from swink_testing.conformance.subject import Subject
from swink_testing.driver import comparable, fold
from swink_testing.request_readers import strings_of

__all__ = [
    "check_answers_go_back",
    "check_missing_usage",
    "check_unknown_frames",
]

_UNKNOWN = json.dumps({"type": "swink_unknown", "swink_unknown": {"a": [1, "b", None]}}).encode()

_WITH_DIALECTS = ("none", "openai-chat", "swink")
"""Wire formats of which one provider wants back what another refuses."""


def check_unknown_frames(subject: Subject) -> None:
    """A frame of a type that nobody knows yet changes nothing."""

    async def compare() -> None:
        for recording, answer in answers(subject):
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


def check_missing_usage(subject: Subject) -> None:
    """An answer that counts no tokens is the same message, whose counts are unknown, not 0."""

    async def compare() -> None:
        counted = False
        for recording, answer in answers(subject):
            if (body := edited(answer, _counts, remove)) is None:
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


def _counts(data: Any) -> Iterator[Place]:
    return places(data, lambda name, value: "usage" in name or name.endswith("evalcount"))
