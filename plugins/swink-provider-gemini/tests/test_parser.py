"""Each frame of `streamGenerateContent`, in small invented answers."""

from __future__ import annotations

from typing import Any

import pytest
from generate_content import body, call, frame, partial, text, thought

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Block,
    Error,
    ExtensionBlock,
    Notice,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolCallDelta,
    ToolCallStart,
)
from swink_core import StreamErrorKind as Kind
from swink_provider_gemini import GeminiProvider
from swink_testing.chunking import every_cut
from swink_testing.driver import comparable, drive_bytes, fold

PROVIDER = GeminiProvider("gemini")


async def _events(*frames: dict[str, Any]) -> list[AssistantMessageEvent]:
    return await drive_bytes(PROVIDER, "any", [body(*frames)])


async def _answer(*frames: dict[str, Any], finish: str = "STOP") -> AssistantMessage:
    return comparable(fold(await _events(*frames, frame(finish=finish)), "gemini"))


def _extension(kind: str, data: dict[str, Any]) -> ExtensionBlock:
    return ExtensionBlock("gemini", kind, data)


def _call(
    raw: str, arguments: dict[str, Any], id: str = "swink_call_any_0", **more: Any
) -> ToolCallBlock:
    return ToolCallBlock(id, "look", arguments, raw, **more)


SIGNED = {"thoughtSignature": "c2lnbmVk"}
OTHER = {"thoughtSignature": "b3RoZXI="}
CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}

PARTS: list[tuple[str, list[dict[str, Any]], list[Block]]] = [
    ("text in pieces", [frame(text("Hel")), frame(text("lo"))], [TextBlock("Hello")]),
    ("text in one frame", [frame(text("Hel"), text("lo"))], [TextBlock("Hello")]),
    ("no text", [frame(text(""))], []),
    ("a part with nothing in it", [frame({})], []),
    (
        "a signature at the end, on empty text",
        [frame(text("Hello")), frame(text("", **SIGNED))],
        [TextBlock("Hello"), TextBlock("", SIGNED)],
    ),
    (
        "a signature on the last text",
        [frame(text("Hel")), frame(text("lo", **SIGNED))],
        [TextBlock("Hel"), TextBlock("lo", SIGNED)],
    ),
    (
        "text after a signed part is not joined to it",
        [frame(text("Hel", **SIGNED)), frame(text("lo")), frame(text("!"))],
        [TextBlock("Hel", SIGNED), TextBlock("lo!")],
    ),
    (
        "two signed parts",
        [frame(text("a", **SIGNED), text("b", **OTHER))],
        [TextBlock("a", SIGNED), TextBlock("b", OTHER)],
    ),
    ("a signature alone", [frame(dict(SIGNED))], [TextBlock("", SIGNED)]),
    (
        "thoughts, then text",
        [frame(thought("Hm")), frame(thought("m.")), frame(text("Yes"))],
        [ThinkingBlock("Hmm."), TextBlock("Yes")],
    ),
    (
        "a thought with a signature",
        [frame(thought("Hmm")), frame(thought("!", **SIGNED)), frame(text("Yes"))],
        [ThinkingBlock("Hmm"), ThinkingBlock("!", SIGNED["thoughtSignature"]), TextBlock("Yes")],
    ),
    (
        "thoughts after text",
        [frame(text("Yes"), thought("Hm"), text("No"))],
        [TextBlock("Yes"), ThinkingBlock("Hm"), TextBlock("No")],
    ),
    (
        "thought: false marks no thought",
        [frame(text("Yes", thought=False))],
        [TextBlock("Yes")],
    ),
    (
        "a call without id",
        [frame(call("look", {"x": 1}))],
        [_call('{"x":1}', {"x": 1})],
    ),
    (
        "a call with id and signature",
        [frame(call("look", {"x": 1}, id="k1", **SIGNED))],
        [_call('{"x":1}', {"x": 1}, "k1", metadata=SIGNED)],
    ),
    ("a call without arguments", [frame(call("look"))], [_call("{}", {})]),
    ("a call with no arguments", [frame(call("look", {}))], [_call("{}", {})]),
    (
        "parallel calls of one tool without ids",
        [frame(call("look", {"x": 1}, **SIGNED), call("look", {"x": 2})), frame(call("look"))],
        [
            _call('{"x":1}', {"x": 1}, metadata=SIGNED),
            _call('{"x":2}', {"x": 2}, "swink_call_any_1"),
            _call("{}", {}, "swink_call_any_2"),
        ],
    ),
    (
        "text between calls",
        [frame(call("look"), text("and"), call("look"))],
        [_call("{}", {}), TextBlock("and"), _call("{}", {}, "swink_call_any_1")],
    ),
    (
        "code and its result",
        [frame(text("So:"), CODE), frame({"codeExecutionResult": {"output": "1"}})],
        [
            TextBlock("So:"),
            _extension("executableCode", CODE),
            _extension("codeExecutionResult", {"codeExecutionResult": {"output": "1"}}),
        ],
    ),
    (
        "a signed image among thoughts",
        [frame({"thought": True, **SIGNED, **IMAGE})],
        [_extension("inlineData", {"thought": True, **SIGNED, **IMAGE})],
    ),
    (
        "an unknown kind of part",
        [frame({"hologram": {"depth": 3}})],
        [_extension("hologram", {"hologram": {"depth": 3}})],
    ),
    (
        "a second candidate is another answer",
        [{"candidates": [{"index": 1, "content": {"parts": [text("No")]}}]}, frame(text("Yes"))],
        [TextBlock("Yes")],
    ),
    ("no candidates", [{"candidates": []}, {"candidates": None}, {}], []),
    ("no content", [{"candidates": [{"index": 0, "content": None}]}], []),
]


@pytest.mark.parametrize(("name", "frames", "blocks"), PARTS, ids=[name for name, *_ in PARTS])
async def test_parts_become_blocks(
    name: str, frames: list[dict[str, Any]], blocks: list[Block]
) -> None:
    assert (await _answer(*frames, finish="MAX_TOKENS")).content == blocks


async def test_other_answers_are_left_out_with_one_notice() -> None:
    first, second = ({"index": n, "content": {"parts": [text(f"{n}")]}} for n in range(2))
    frames = [{"candidates": [first, second]}, {"candidates": [second]}, frame(finish="STOP")]
    events = await _events(*frames)
    assert fold(events).text == "0"
    assert [e.code for e in events if isinstance(e, Notice)] == ["other_choices"]


@pytest.mark.parametrize(("name", "frames", "blocks"), PARTS, ids=[name for name, *_ in PARTS])
async def test_where_a_read_ends_does_not_matter(
    name: str, frames: list[dict[str, Any]], blocks: list[Block]
) -> None:
    data = body(*frames, frame(finish="MAX_TOKENS"))
    whole = await drive_bytes(PROVIDER, "any", [data])
    for chunks in every_cut(data):
        assert await drive_bytes(PROVIDER, "any", chunks) == whole


# -- arguments in pieces -----------------------------------------------------------------------


def _open(name: str = "look", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "willContinue": True}, **more}


def _piece(path: str, value: str, more: bool = False) -> dict[str, Any]:
    piece: dict[str, Any] = {"jsonPath": path, "stringValue": value}
    return {**piece, "willContinue": True} if more else piece


async def test_arguments_in_pieces_are_handed_on_as_they_come() -> None:
    events = await _events(
        frame(_open(**SIGNED)),
        frame(partial(_piece("$.word", "key", more=True))),
        frame(partial(_piece("$.word", "hole", more=True))),
        frame(partial(_piece("$.word", ""))),
        frame(partial()),
        frame(partial({"jsonPath": "$.times", "numberValue": 2})),
        frame(partial(more=False), finish="STOP"),
    )
    told = [e for e in events if isinstance(e, ToolCallStart | ToolCallDelta)]
    assert isinstance(told[0], ToolCallStart)
    assert [event.delta for event in told[1:] if isinstance(event, ToolCallDelta)] == [
        '{"word":"key',
        "hole",
        '"',
        ',"times":2',
        "}",
    ]
    raw, arguments = '{"word":"keyhole","times":2}', {"word": "keyhole", "times": 2}
    message = comparable(fold(events, "gemini"))
    assert message.content == [_call(raw, arguments, metadata=SIGNED)]


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("the end", []),
        ("text", [frame(text("Well"))]),
        ("another call", [frame(call("look", {}))]),
        ("another call in pieces", [frame(_open())]),
        ("a server's tool", [frame(CODE)]),
    ],
)
async def test_a_call_in_pieces_is_over_when_something_else_begins(
    name: str, after: list[dict[str, Any]]
) -> None:
    message = await _answer(frame(_open()), frame(partial(_piece("$.x", "1", more=True))), *after)
    assert message.content[0] == _call('{"x":"1"}', {"x": "1"})


async def test_a_call_in_pieces_cut_by_the_limit_is_truncated() -> None:
    message = await _answer(
        frame(_open()), frame(partial(_piece("$.x", "half of", more=True))), finish="MAX_TOKENS"
    )
    assert message.content == [_call('{"x":"half of', {}, state="truncated")]
    assert message.stop_reason is StopReason.LENGTH


async def test_a_call_in_pieces_cut_by_the_network_keeps_what_came() -> None:
    events = await _events(frame(_open()), frame(partial(_piece("$.x", "half of", more=True))))
    message = comparable(fold(events, "gemini"))
    assert message.content == [_call('{"x":"half of', {}, state="truncated")]
    assert message.error_kind is Kind.NETWORK


async def test_whole_arguments_may_come_before_pieces() -> None:
    whole = {"functionCall": {"name": "look", "args": {"x": [1]}, "willContinue": True}}
    message = await _answer(frame(whole), frame(partial(_piece("$.y", "2"), more=False)))
    assert message.content == [_call('{"x":[1],"y":"2"}', {"x": [1], "y": "2"})]


async def test_a_signature_may_come_with_a_later_piece() -> None:
    message = await _answer(frame(_open()), frame({**partial(more=False), **SIGNED}))
    assert message.content == [_call("{}", {}, metadata=SIGNED)]


async def test_pieces_of_no_call_say_nothing() -> None:
    message = await _answer(frame(text("Hi"), partial(_piece("$.x", "1"), more=False)))
    assert message.content == [TextBlock("Hi")]


async def test_a_piece_that_cannot_be_placed_fails_instead_of_being_lost() -> None:
    *_, last = await _events(
        frame(_open()),
        frame(partial(_piece("$.a.b", "1"))),
        frame(partial(_piece("$.c", "2"))),
        frame(partial(_piece("$.a.d", "3"))),
        frame(finish="STOP"),
    )
    assert isinstance(last, Error)
    assert last.error_kind is Kind.PROTOCOL


# -- about the answer ----------------------------------------------------------------------------


async def test_sources_go_with_the_text() -> None:
    chunks = {"groundingChunks": [{"web": {"uri": "https://a.example"}}]}
    one, two = {"startIndex": 0, "uri": "https://a"}, {"startIndex": 9, "uri": "https://b"}
    message = await _answer(
        frame(text("As "), groundingMetadata={}, citationMetadata={"citations": [one]}),
        frame(text("said"), citationMetadata={"citations": [one, two]}),
        frame(groundingMetadata=chunks, urlContextMetadata={"urlMetadata": []}),
    )
    assert message.content == [
        TextBlock(
            "As said",
            {
                "citationMetadata": {"citations": [one, two]},
                "groundingMetadata": chunks,
                "urlContextMetadata": {"urlMetadata": []},
            },
        )
    ]


async def test_sources_join_the_signature_of_the_last_text() -> None:
    found = {"webSearchQueries": ["lighthouse"]}
    message = await _answer(frame(text("a")), frame(text("", **SIGNED), groundingMetadata=found))
    about = {**SIGNED, "groundingMetadata": found}
    assert message.content == [TextBlock("a"), TextBlock("", about)]


# (model version, queries in the answer, searches that Google bills): empty queries are free, and
# equal queries count once. Source: https://ai.google.dev/gemini-api/docs/google-search
SEARCHES: list[tuple[str, list[str], int | None]] = [
    ("gemini-3.5-flash", ["", "a", "", "b", "a"], 2),
    ("gemini-3.5-flash", [""], None),
    ("gemini-2.5-flash", ["a", "b"], 1),
    ("gemini-2.5-flash", [""], None),
]


@pytest.mark.parametrize(("model", "queries", "billed"), SEARCHES)
async def test_only_billed_searches_are_counted(
    model: str, queries: list[str], billed: int | None
) -> None:
    first = {**frame(text("So.")), "modelVersion": model}
    last = frame(finish="STOP", groundingMetadata={"webSearchQueries": queries})
    usage = fold(await _events(first, last), "gemini").usage
    assert (usage.extra.get("searches") if usage else None) == billed


async def test_sources_without_text_have_a_block_of_their_own() -> None:
    found = {"webSearchQueries": ["lighthouse"]}
    message = await _answer(frame(call("look"), groundingMetadata=found))
    assert message.content == [_call("{}", {}), TextBlock("", {"groundingMetadata": found})]
