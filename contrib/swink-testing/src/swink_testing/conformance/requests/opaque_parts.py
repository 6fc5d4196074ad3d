"""The provider's own parts and thinking, and the unchanged context."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

from swink_core import (
    AssistantMessage,
    Block,
    Context,
    StopReason,
    TextBlock,
    ThinkingBlock,
    UserMessage,
)
from swink_judge.matrix.asker import Asker
from swink_judge.matrix.cases import Case
from swink_judge.matrix.conversations import conversation
from swink_judge.matrix.expected_values import Said
from swink_judge.matrix.models import AskedModel
from swink_judge.matrix.options import alone
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.subject import Subject

__all__ = ["check_context_is_kept", "check_own_thinking_goes_back"]

_SIGNATURE = "c2lnbmF0dXJl"

_KEPT = ("own part", "own thinking", "tool used", "marks for the cache", "schema deep and strict")
"""Conversations that hold what a converter may take for its own; the first goes with all values of
each option, the others with one."""


def check_context_is_kept(subject: Subject) -> None:
    """A call does not change its context and its options."""
    if not subject.speaks_http:
        raise DoesNotApply("it sends no HTTP request that could be looked at")
    id = subject.model.id
    a_value_each = {tuple(options): options for options in alone()}.values()

    async def ask() -> None:
        async with subject.asker() as asker:
            for name in _KEPT:
                context = conversation(name, subject.name).context
                for options in alone() if name == _KEPT[0] else a_value_each:
                    given = deepcopy((context, options))  # what others use too stays as it is
                    asker.hold(subject.name, Said(name, given[0]))
                    case = Case(subject.name, AskedModel(id, "listed", id), name, given[1])
                    await asker.outcome(case)
                    kept = given == (context, options)
                    require(kept, f"the call changes what it was given: {case}", given[0])

    asyncio.run(ask())


def check_own_thinking_goes_back(subject: Subject) -> None:
    """Signed thinking without text is sent back, as signed thinking with text is."""
    if not subject.speaks_http:
        raise DoesNotApply("it sends no HTTP request that could be looked at")
    id = subject.model.id

    async def sent(asker: Asker, name: str, thought: ThinkingBlock) -> tuple[bool, bool, Any]:
        """Tell whether a request has the signature, and whether a notice or refusal came."""
        content: list[Block] = [thought, TextBlock("nonce_said")]
        answer = AssistantMessage(
            content, provider=subject.name, model=id, stop_reason=StopReason.STOP
        )
        context = Context([UserMessage("nonce_question"), answer, UserMessage("nonce_more")])
        asker.hold(subject.name, Said(name, context))
        case = Case(subject.name, AskedModel(id, "listed", id), name, {})
        outcome = await asker.outcome(case)
        body = outcome.request.body if outcome.request else b""
        told = bool(outcome.notices) or outcome.refusal is not None
        return _SIGNATURE.encode() in body, told, body

    async def ask() -> None:
        async with subject.asker() as asker:
            readable, _, _ = await sent(asker, "signed thinking", ThinkingBlock("Why?", _SIGNATURE))
            if not readable:
                raise DoesNotApply("its own thinking does not go back by a signature")
            for redacted in (False, True):
                name = "redacted thinking" if redacted else "signed thinking without a text"
                thought = ThinkingBlock("", _SIGNATURE, redacted=redacted)
                there, told, body = await sent(asker, name, thought)
                if not (there or told):
                    fail(f"{name} does not go back, and no Notice says so", body, _SIGNATURE)

    asyncio.run(ask())
