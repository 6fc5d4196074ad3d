"""What goes from one protocol through swink to another and back is all there but what is declared.

An answer is told in the first protocol, its client sends it back, and swink tells it in the second,
whose client sends it back. Then it is what it was, minus what the table says that the two cannot
carry; each row of the table is a reduction here, and nothing else is taken away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from attrs import evolve
from hypothesis import Phase, given, settings
from turned import last_attempt, names_calls_twice, whole

import swink_core as swink
from swink_core import AssistantMessage, TextBlock, ThinkingBlock, ToolCallBlock
from swink_gateway.protocols import ClientProtocol, losses
from swink_gateway.protocols.chat import ChatProtocol
from swink_gateway.protocols.messages import MessagesProtocol
from swink_gateway.protocols.native import NativeProtocol
from swink_gateway.protocols.responses import ResponsesProtocol
from swink_testing.driver import fold
from swink_testing.event_strategies import event_streams

HI = {"role": "user", "content": "Hi"}
NATIVE, CHAT = NativeProtocol(), ChatProtocol()
MESSAGES, RESPONSES = MessagesProtocol(), ResponsesProtocol()

BODIES: dict[str, tuple[ClientProtocol, Callable[[Any], dict[str, Any]]]] = {
    "native": (NATIVE, lambda said: {"messages": [HI, said]}),
    "chat": (CHAT, lambda said: {"messages": [HI, said["choices"][0]["message"]]}),
    "messages": (
        MESSAGES,
        lambda said: {"messages": [HI, {"role": "assistant", "content": said["content"]}]},
    ),
    "responses": (RESPONSES, lambda said: {"input": [HI, *said["output"]]}),
}
"""What a client sends back of an answer, by protocol."""


def sent_back(protocol: str, message: AssistantMessage) -> AssistantMessage:
    spoken, body = BODIES[protocol]
    said = msgspec.json.decode(whole(spoken, message))
    turns = spoken.read({"model": "m", **body(said)}, {}, {}).context.messages
    answers = [turn for turn in turns if isinstance(turn, AssistantMessage)]
    assert len(answers) <= 1
    return answers[0] if answers else AssistantMessage([])


Blocks = list[Any]


def _joined(blocks: Blocks) -> Blocks:
    thought = "".join(b.thinking for b in blocks if isinstance(b, ThinkingBlock))
    text = "".join(b.text for b in blocks if isinstance(b, TextBlock))
    rest = [b for b in blocks if not isinstance(b, ThinkingBlock | TextBlock)]
    return [*([ThinkingBlock(thought)] * bool(thought)), *([TextBlock(text)] * bool(text)), *rest]


def _unsigned(blocks: Blocks) -> Blocks:
    return [
        ThinkingBlock(b.thinking)
        if isinstance(b, ThinkingBlock)
        else evolve(b, metadata=None)
        if isinstance(b, ToolCallBlock)
        else b
        for b in blocks
    ]


def _parsed(blocks: Blocks) -> Blocks:
    return [
        evolve(b, arguments={}, raw_arguments="{}", state="complete")
        if isinstance(b, ToolCallBlock) and b.state != "complete"
        else b
        for b in blocks
    ]


REDUCTIONS: dict[str, Callable[[Blocks], Blocks]] = {
    losses.SIGNATURES: _unsigned,
    losses.EXTENSIONS: lambda bs: [b for b in bs if not isinstance(b, swink.ExtensionBlock)],
    losses.TEXT_METADATA: lambda bs: [
        TextBlock(b.text) if isinstance(b, TextBlock) else b for b in bs
    ],
    losses.RAW_ARGUMENTS: _parsed,
    losses.ORDER: _joined,
}
"""What is taken away of an answer's content for a row, in this order."""

OF_WHOLE_ANSWERS = {
    losses.ANSWER_METADATA, losses.COST_PARTS, losses.PAUSE, losses.RETRY, losses.COUNTS,
    losses.IDS,
}  # fmt: skip
"""Rows about what no client sends back; the tests of each protocol look at these."""


def reduced(message: AssistantMessage, *protocols: str) -> Blocks:
    rows = {loss.what for protocol in protocols for loss in losses.LOSSES[protocol]}
    blocks: Blocks = [_plain(block) for block in message.content if not _is_empty(block)]
    for what, reduce in REDUCTIONS.items():
        if what in rows:
            blocks = reduce(blocks)
    return [block for block in blocks if not _is_empty(block)]


def _is_empty(block: Any) -> bool:
    if isinstance(block, ThinkingBlock):
        return not (block.thinking or block.signature or block.metadata)
    return isinstance(block, TextBlock) and not (block.text or block.metadata)


def _plain(block: Any) -> Any:
    """Write a block's metadata and arguments in one way."""
    if isinstance(block, ToolCallBlock):
        raw = block.raw_arguments
        if block.state == "complete":
            raw = msgspec.json.encode(block.arguments).decode()
        state = "complete" if block.state == "complete" else "invalid"
        block = evolve(block, raw_arguments=raw or "{}", state=state)
        if not (raw or "").strip():
            block = evolve(block, state="complete")
    return evolve(block, metadata=block.metadata or None)


@pytest.mark.parametrize("target", BODIES)
@pytest.mark.parametrize("source", BODIES)
def test_nothing_is_lost_between_two_protocols_but_what_is_declared(
    source: str, target: str
) -> None:
    @settings(max_examples=15, phases=[Phase.generate], database=None)
    @given(event_streams())
    def holds(events: list[Any]) -> None:
        original = fold(last_attempt(events), "acme")
        if original.stop_reason in ("error", "aborted", "length") or names_calls_twice(original):
            return
        there = sent_back(source, original)
        back = sent_back(target, evolve(there, stop_reason=swink.StopReason.STOP))
        assert reduced(there, source) == reduced(original, source)
        assert reduced(back, source, target) == reduced(original, source, target)

    holds()


def test_every_row_is_tried_somewhere() -> None:
    rows = {loss.what for table in losses.LOSSES.values() for loss in table}
    assert rows == REDUCTIONS.keys() | OF_WHOLE_ANSWERS
    assert losses.LOSSES.keys() == losses.SOURCES.keys()


def test_what_the_source_cannot_say_is_not_lost_on_the_way() -> None:
    between = losses.losses_between
    assert between("messages", "native") == []
    assert {loss.what for loss in between("messages", "chat")} > {losses.SIGNATURES, losses.ORDER}
    assert between("chat", "responses") == []
