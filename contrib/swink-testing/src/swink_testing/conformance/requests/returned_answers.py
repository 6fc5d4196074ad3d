"""Checks that answers are sent back with the next turn, including signed thinking."""

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
from swink_judge.matrix.asker import Asker, Outcome
from swink_judge.opening_answers import BY_API, beginning
from swink_judge.request_readers import strings_of
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import fold

__all__ = ["check_answers_go_back"]

_SIGNATURE = "c2lnbmF0dXJl"

_THOUGHT = "nonce_thought"

_WITH_DIALECTS = ("none", "openai-chat", "swink")
"""Wire formats whose providers differ: some require a part of an answer to be sent back in the next
turn, and others refuse this part.
"""


def check_answers_go_back(subject: Subject) -> None:
    """The texts, calls and signatures of a recorded answer are sent with the next turn.

    Other parts that the wire format requires in the next request, such as reasoning, are sent too.
    Signed thinking without text is sent if signed thinking with text is sent.
    """
    hook = subject.binding.hook.convert_messages
    if not hook.get_hookimpls():
        raise DoesNotApply("it has no convert_messages hook")

    async def answered() -> list[_Answered]:
        found: list[_Answered] = []
        for recording in subject.answers():
            message = fold(await subject.parse(recording), subject.name, recording.model)
            if message.stop_reason is not StopReason.ERROR:  # another check reports this
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
    if subject.speaks_http:
        asyncio.run(_require_thinking(subject))


async def _require_thinking(subject: Subject) -> None:
    """Check that the provider's own thinking is sent back, or that a Notice reports its omission.

    This includes signed thinking without text.
    """

    async def outcome(
        asker: Asker, name: str, thought: ThinkingBlock, mark: str = _SIGNATURE
    ) -> tuple[bool, Outcome]:
        """Make a call; return whether its request contains `mark`, and the outcome of the call."""
        answer = AssistantMessage(
            [thought, TextBlock("nonce_said")],
            provider=subject.name,
            model=subject.model.id,
            stop_reason=StopReason.STOP,
        )
        context = Context([UserMessage("nonce_question"), answer, UserMessage("nonce_more")])
        made = await subject.outcome(asker, name, context)
        return bool(made.request and mark.encode() in made.request.body), made

    def require_told(name: str, there: bool, made: Outcome) -> None:
        told = made.notices or made.refusal is not None
        body = made.request.body if made.request else b""
        require(there or told, f"{name} does not go back, and no Notice says so", body)

    async with subject.asker() as asker:
        name, unsigned = "thinking without a signature", ThinkingBlock(_THOUGHT)
        require_told(name, *await outcome(asker, name, unsigned, _THOUGHT))
        readable, _ = await outcome(asker, "signed thinking", ThinkingBlock("Why?", _SIGNATURE))
        if not readable:
            return  # this provider sends no signature back
        for redacted in (False, True):
            name = "redacted thinking" if redacted else "signed thinking without a text"
            thought = ThinkingBlock("", _SIGNATURE, redacted=redacted)
            require_told(name, *await outcome(asker, name, thought))


_Answered: TypeAlias = tuple[str, Model, AssistantMessage, Sequence[str]]


def _known(subject: Subject) -> Iterator[_Answered]:
    """Yield an answer that contains all parts that the API requires in the next request.

    Nothing is yielded if no such answer is known for the wire format.
    """
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
