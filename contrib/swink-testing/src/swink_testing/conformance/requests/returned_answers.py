"""Recorded answers that are sent back with the next turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

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
    replace,
)
from swink_judge.opening_answers import BY_API, beginning
from swink_judge.request_readers import strings_of
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import fold

__all__ = ["check_answers_go_back"]

_WITH_DIALECTS = ("none", "openai-chat", "swink")
"""Wire formats of which one provider wants back what another refuses."""


def check_answers_go_back(subject: Subject) -> None:
    """The texts, calls and signatures of a recorded answer are sent with the next turn.

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
            replace(message, content=content),
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
