"""Answers that pass from one protocol through swink to another and back lose only declared parts.

An answer is encoded in the first protocol, its client sends it back, and swink encodes it in the
second protocol, whose client sends it back. The result must equal the original minus the losses in
the table of both protocols. Each row of the table is a reduction in this module; nothing else is
removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from turned import is_empty, whole

import swink_core as swink
from swink_core import AssistantMessage, TextBlock, ThinkingBlock, ToolCallBlock, replace
from swink_core.providers import arguments_object, synthetic_id
from swink_gateway.protocols import ClientProtocol, losses
from swink_gateway.protocols.chat.protocol import ChatProtocol
from swink_gateway.protocols.gemini.protocol import GeminiProtocol
from swink_gateway.protocols.messages.protocol import MessagesProtocol
from swink_gateway.protocols.native.protocol import NativeProtocol
from swink_gateway.protocols.ollama.protocol import OllamaProtocol
from swink_gateway.protocols.responses.protocol import ResponsesProtocol
from swink_gateway.protocols.table import PROTOCOLS, losses_between
from swink_test_helpers.event_strategies import event_streams
from swink_testing.driver import comparable, fold

HI = {"role": "user", "content": "Hi"}
GEMINI_HI = {"role": "user", "parts": [{"text": "Hi"}]}

BODIES: dict[str, tuple[ClientProtocol, Callable[[Any], dict[str, Any]]]] = {
    "native": (NativeProtocol(), lambda said: {"messages": [HI, said]}),
    "chat": (ChatProtocol(), lambda said: {"messages": [HI, said["choices"][0]["message"]]}),
    "messages": (
        MessagesProtocol(),
        lambda said: {"messages": [HI, {"role": "assistant", "content": said["content"]}]},
    ),
    "responses": (ResponsesProtocol(), lambda said: {"input": [HI, *said["output"]]}),
    "gemini": (
        GeminiProtocol(),
        lambda said: {"contents": [GEMINI_HI, said["candidates"][0]["content"]]},
    ),
    "ollama": (OllamaProtocol(), lambda said: {"messages": [HI, _by_schema(said["message"])]}),
}
"""The messages that a client sends back after an answer, by protocol."""


def _by_schema(said: dict[str, Any]) -> dict[str, Any]:
    """Return a message as Ollama's SDK sends it back: its calls have no ids."""
    calls = [{"function": call["function"]} for call in said.get("tool_calls", ())]
    return {**said, "tool_calls": calls}


PATH = {"model": "m", "method": "generateContent"}
"""The URL parameters of Google's clients."""


def sent_back(protocol: str, message: AssistantMessage) -> AssistantMessage:
    spoken, body = BODIES[protocol]
    said = msgspec.json.decode(whole(spoken, message))
    turns = spoken.read({"model": "m", **body(said)}, PATH, {}).context.messages
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
        else replace(b, metadata=None)
        if isinstance(b, ToolCallBlock)
        else b
        for b in blocks
    ]


def _bordered(blocks: Blocks) -> Blocks:
    """Join adjacent texts; metadata of a text ends it."""
    joined: Blocks = []
    for block in blocks:
        last = joined[-1] if joined else None
        if isinstance(block, TextBlock) and isinstance(last, TextBlock) and not last.metadata:
            joined[-1] = replace(block, text=last.text + block.text)
        else:
            joined.append(block)
    return joined


def _is_broken(block: Any) -> bool:
    return isinstance(block, ToolCallBlock) and block.state != "complete"


def _cut(block: Any) -> Any:
    """Replace a call that was cut off before its arguments by a call without arguments."""
    cut = _is_broken(block) and not block.raw_arguments.strip(" \t\n\r")
    return replace(block, raw_arguments="{}", state="complete") if cut else block


def _parsed(block: Any) -> Any:
    given = arguments_object(block)
    raw = msgspec.json.encode(given).decode()
    return replace(block, arguments=given, raw_arguments=raw, state="complete")


def _without_ids(blocks: Blocks) -> Blocks:
    return [
        replace(b, id=synthetic_id("any", n)) if isinstance(b, ToolCallBlock) else b
        for n, b in enumerate(blocks)
    ]


REDUCTIONS: dict[str, Callable[[Blocks], Blocks]] = {
    losses.SIGNATURES: _unsigned,
    losses.EXTENSIONS: lambda bs: [b for b in bs if not isinstance(b, swink.ExtensionBlock)],
    losses.EXTENSIONS_AND_IMAGES: lambda bs: [
        b for b in bs if not isinstance(b, swink.ExtensionBlock)
    ],
    losses.TEXT_METADATA: lambda bs: [
        TextBlock(b.text) if isinstance(b, TextBlock) else b for b in bs
    ],
    losses.LAST_TEXT_METADATA: lambda bs: [
        TextBlock(b.text) if isinstance(b, TextBlock) and b is bs[-1] else b for b in bs
    ],
    losses.CUT_CALLS: lambda bs: [_cut(b) for b in bs],
    losses.RAW_ARGUMENTS: lambda bs: [_parsed(b) if _is_broken(b) else b for b in bs],
    losses.BROKEN_CALLS: lambda bs: [b for b in bs if not _is_broken(b)],
    losses.IDS: _without_ids,
    losses.BORDERS: _bordered,
    losses.ORDER: _joined,
}
"""The reductions of an answer's content by row, in this order."""

OF_WHOLE_ANSWERS = {
    losses.ANSWER_METADATA, losses.COST_PARTS, losses.PAUSE, losses.RETRY, losses.COUNTS,
}  # fmt: skip
"""Rows about data that no client sends back; the tests of each protocol cover them."""


READ_BY_NOBODY = {losses.GENERATED}
"""Rows about what clients send back and cannot read."""


def reduced(message: AssistantMessage, *protocols: str) -> Blocks:
    """Return an answer's content without the losses of the protocols, one after the other."""
    blocks: Blocks = [_plain(block) for block in message.content if not _is_empty(block)]
    for protocol in protocols:
        rows = {loss.what for loss in PROTOCOLS[protocol].losses}
        for what, reduce in REDUCTIONS.items():
            if what in rows:
                blocks = [block for block in reduce(blocks) if not _is_empty(block)]
    return comparable(AssistantMessage(blocks)).content


def _is_empty(block: Any) -> bool:
    nothing = isinstance(block, TextBlock) and not (block.text or block.metadata)
    return nothing or is_empty(block)


def _plain(block: Any) -> Any:
    """Normalize a block's metadata and arguments."""
    if isinstance(block, ToolCallBlock):
        raw = block.raw_arguments
        if block.state == "complete":
            raw = msgspec.json.encode(block.arguments).decode()
        block = replace(block, raw_arguments=raw or "")
        block.state = "complete" if block.state == "complete" else "invalid"
    return replace(block, metadata=block.metadata or None)


def finished(events: list[Any]) -> AssistantMessage:
    """Return the message made of events, whatever its finish reason; a failure has none."""
    message = fold(events, "acme")
    assume(message.stop_reason not in ("error", "aborted"))
    return message


@given(event_streams().map(finished))
def test_between_any_two_protocols_only_declared_losses_occur(
    original: AssistantMessage,
) -> None:
    for source in BODIES:
        there = sent_back(source, original)
        there.stop_reason = original.stop_reason  # no client sends it back
        assert reduced(there) == reduced(original, source), source
        for target in BODIES:
            back = sent_back(target, there)
            expected = reduced(original, source, target)
            assert reduced(back) == expected, f"{source} to {target}"


def test_calls_with_the_same_id_get_back_their_own_data() -> None:
    calls = [
        ToolCallBlock("same", name, {}, "{}", metadata={"of": name}) for name in ("f", "g", "f")
    ]
    original = AssistantMessage([calls[0], TextBlock("so"), *calls[1:]], provider="acme")
    for protocol in ("native", "messages", "responses", "gemini"):
        said = [b for b in sent_back(protocol, original).content if isinstance(b, ToolCallBlock)]
        assert [(c.id, c.metadata) for c in said] == [(c.id, c.metadata) for c in calls], protocol


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-5-5", "gemini/gemini-3.8-flash"])
def test_over_two_protocols_a_model_continues_without_its_thoughts(model: str) -> None:
    provider = model.partition("/")[0]
    thought = ThinkingBlock("I see", "c2ln")
    original = AssistantMessage([thought, ToolCallBlock("c1", "look", {})], provider=provider)
    client, without = swink.Client(), set()
    for protocol in BODIES:
        answer = sent_back(protocol, original)
        result = swink.ToolResultMessage(answer.tool_calls[0].id, "look", "so")
        turns = [swink.UserMessage("Hi"), answer, result]
        if "I see" not in str(client.stream(model, turns).call.convert()):
            without.add(protocol)
        assert answer.thinking == "I see"
    assert without == {"chat", "ollama"}


def test_every_row_is_tested() -> None:
    rows = {loss.what for row in PROTOCOLS.values() for loss in row.losses}
    assert rows == REDUCTIONS.keys() | OF_WHOLE_ANSWERS | READ_BY_NOBODY
    assert PROTOCOLS.keys() == BODIES.keys()


def test_data_that_the_source_cannot_represent_is_not_a_loss() -> None:
    between = losses_between
    assert between("messages", "native") == []
    assert {loss.what for loss in between("messages", "chat")} > {losses.SIGNATURES, losses.ORDER}
    assert between("chat", "responses") == []
