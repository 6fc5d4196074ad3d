"""Conversion of requests in Google's API to swink's conversations and options."""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    Host,
    ImageBlock,
    Model,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
    replace,
)
from swink_gateway.policy.passthrough import addressed
from swink_gateway.protocols import Asked, BadRequest
from swink_gateway.protocols.gemini.protocol import GeminiProtocol
from swink_gateway.protocols.gemini.schemas import json_schema
from swink_gateway.protocols.sealing import seal
from swink_test_helpers.strategies import contexts

GEMINI = GeminiProtocol()
WIRE = GEMINI.wire_format
HI = {"role": "user", "parts": [{"text": "Hi"}]}
PNG = {"mimeType": "image/png", "data": "AAAA"}
UPLOADED = "https://generativelanguage.googleapis.com/v1beta/files/1"
NO_SIGNATURE = "skip_thought_signature_validator"
NO_SIGNATURE_IN_BYTES = b64encode(NO_SIGNATURE.encode()).decode()
SEALED = b64encode(
    seal(
        "acme",
        before=[{"type": "thinking", "thinking": "hm", "signature": "s"}],
        metadata={"a": 1},
    ).encode()
).decode()  # fmt: skip


def read(contents: Any = (HI,), method: str = "generateContent", **fields: Any) -> Asked:
    body = {"contents": list(contents), **fields}
    return GEMINI.read(body, {"model": "acme/large", "method": method}, {})


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"a": 1}, **more}}


def result(name: str, response: Any, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": response, **more}}


CONTENTS: list[tuple[str, list[Any], list[Any]]] = [
    ("a text, without a role", [{"parts": {"text": "Hi"}}], [UserMessage("Hi")]),
    (
        "parts of all kinds, in either spelling, none of which is fetched",
        [
            user(
                {"text": "See"},
                {"inlineData": {"mimeType": "image/png", "data": "-_8"}},
                {"inline_data": {"mime_type": "audio/wav", "data": "AAAA"}},
                {"inlineData": {"mimeType": "application/pdf", "data": "AA==", "displayName": "a"}},
                {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://x/a.jpg"}},
                {"file_data": {"file_uri": UPLOADED}},
                {"fileData": {"fileUri": "gs://bucket/a.mp4"}, "videoMetadata": {"fps": 1}},
                {"fileData": {"fileUri": "gs://bucket/b", "mimeType": "video/mp4"}},
            )
        ],
        [
            UserMessage(
                [
                    TextBlock("See"),
                    ImageBlock(Base64Source("image/png", "+/8=")),
                    AudioBlock(Base64Source("audio/wav", "AAAA")),
                    DocumentBlock(Base64Source("application/pdf", "AA=="), "a"),
                    ImageBlock(UrlSource("https://x/a.jpg", "image/jpeg")),
                    DocumentBlock(FileIdSource(WIRE, UPLOADED)),
                    DocumentBlock(
                        FileIdSource(WIRE, "gs://bucket/a.mp4"),
                        metadata={"videoMetadata": {"fps": 1}},
                    ),
                    DocumentBlock(
                        FileIdSource(WIRE, "gs://bucket/b"), metadata={"mimeType": "video/mp4"}
                    ),
                ]
            )
        ],
    ),
    (
        "parallel calls with the same name and no ids, with results in the order of the calls",
        [
            HI,
            model(call("f"), call("f")),
            user(result("f", {"output": "1"}), result("f", {"error": "2"})),
        ],
        [
            UserMessage("Hi"),
            AssistantMessage(
                [
                    ToolCallBlock("swink_call_gemini_1", "f", {"a": 1}),
                    ToolCallBlock("swink_call_gemini_2", "f", {"a": 1}),
                ]
            ),
            ToolResultMessage("swink_call_gemini_1", "f", "1"),
            ToolResultMessage("swink_call_gemini_2", "f", "2", True),
        ],
    ),
    (
        "a call without a result, and a later call of the same function with a result",
        [HI, model(call("f")), HI, model(call("f")), user(result("f", {"output": "2"}))],
        [
            UserMessage("Hi"),
            AssistantMessage([ToolCallBlock("swink_call_gemini_1", "f", {"a": 1})]),
            UserMessage("Hi"),
            AssistantMessage([ToolCallBlock("swink_call_gemini_2", "f", {"a": 1})]),
            ToolResultMessage("swink_call_gemini_2", "f", "2"),
        ],
    ),
    (
        "ids, results next to text and with media, values other than text",
        [
            HI,
            model(call("f", id="c1")),
            user(
                {"text": "And?"},
                result("f", {"n": [1]}, id="c1", parts=[{"inlineData": PNG}]),
            ),
        ],
        [
            UserMessage("Hi"),
            AssistantMessage([ToolCallBlock("c1", "f", {"a": 1})]),
            ToolResultMessage(
                "c1", "f", [TextBlock('{"n":[1]}'), ImageBlock(Base64Source("image/png", "AAAA"))]
            ),
            UserMessage("And?"),
        ],
    ),
    (
        "contents that are pieces of a stream become one answer",
        [HI, model({"text": "a", "thought": True}), model({"text": "b"}), model({"text": "c"})],
        [UserMessage("Hi"), AssistantMessage([ThinkingBlock("a"), TextBlock("bc")])],
    ),
    (
        "signatures of Google's own, on thoughts, texts and calls",
        [
            HI,
            model(
                {"text": "a", "thought": True},
                {"text": "", "thought": True, "thoughtSignature": "AAAA"},
                {"text": "b"},
                {"text": "c", "thoughtSignature": "BBBB"},
                {**call("f", id="c1"), "thoughtSignature": "CCCC"},
            ),
        ],
        [
            UserMessage("Hi"),
            AssistantMessage(
                [
                    ThinkingBlock("a", "AAAA"),
                    TextBlock("b"),
                    TextBlock("c", {"thoughtSignature": "BBBB"}),
                    ToolCallBlock("c1", "f", {"a": 1}, metadata={"thoughtSignature": "CCCC"}),
                ],
                provider=WIRE,
            ),
        ],
    ),
    (
        "opaque data of another provider, next to its visible part",
        [
            HI,
            model(
                {"text": "hm", "thought": True},
                {**call("f", id="c1"), "thoughtSignature": SEALED},
            ),
        ],
        [
            UserMessage("Hi"),
            AssistantMessage(
                [ThinkingBlock("hm", "s"), ToolCallBlock("c1", "f", {"a": 1}, metadata={"a": 1})],
                provider="acme",
            ),
        ],
    ),
    (
        "a call with the placeholder for no signature, as text or base64",
        [
            HI,
            model(
                {**call("f", id="c1"), "thoughtSignature": NO_SIGNATURE},
                {**call("f", id="c2"), "thoughtSignature": NO_SIGNATURE_IN_BYTES},
            ),
        ],
        [
            UserMessage("Hi"),
            AssistantMessage(
                [ToolCallBlock("c1", "f", {"a": 1}), ToolCallBlock("c2", "f", {"a": 1})]
            ),
        ],
    ),
    (
        "parts of Google's own tools",
        [HI, model({"executableCode": {"code": "1"}, "thoughtSignature": "AAAA"}, {"text": "1"})],
        [
            UserMessage("Hi"),
            AssistantMessage(
                [
                    ExtensionBlock(
                        WIRE,
                        "executableCode",
                        {"executableCode": {"code": "1"}, "thoughtSignature": "AAAA"},
                    ),
                    TextBlock("1"),
                ],
                provider=WIRE,
            ),
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("contents", "expected"), [row[1:] for row in CONTENTS], ids=[row[0] for row in CONTENTS]
)
def test_contents(contents: list[Any], expected: list[Any]) -> None:
    asked = read(contents)
    assert asked.context.messages == expected
    assert asked.dropped == []


CONFIGS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"temperature": 0, "topP": 0.5}, {"temperature": 0, "top_p": 0.5}, {}),
    ({"topK": 64.0, "presencePenalty": 0}, {"top_k": 64, "presence_penalty": 0}, {}),
    ({"max_output_tokens": 7, "stop_sequences": ["."]}, {"max_tokens": 7, "stop": (".",)}, {}),
    ({"seed": 0, "candidateCount": 1}, {"seed": 0}, {}),
    ({"candidate_count": "3"}, {}, {"generationConfig": {"candidateCount": 3}}),
    ({"thinkingConfig": {"thinkingLevel": "high"}}, {"thinking": "high"}, {}),
    ({"thinkingConfig": {"thinkingBudget": 0}}, {"thinking": "off"}, {}),
    ({"thinkingConfig": {"thinkingBudget": 512}}, {"thinking": 512}, {}),
    (
        {"thinkingConfig": {"includeThoughts": True}},
        {},
        {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
    ),
    (
        {"thinkingConfig": {"thinkingLevel": "ULTRA"}},
        {},
        {
            "generationConfig": {
                "thinkingConfig": {"includeThoughts": False, "thinkingLevel": "ULTRA"}
            }
        },
    ),
    ({"responseMimeType": "application/json"}, {"response_format": "json"}, {}),
    (
        {"responseMimeType": "application/json", "responseSchema": {"type": "STRING"}},
        {"response_format": {"type": "string"}},
        {},
    ),
    (
        {"responseMimeType": "application/json", "responseJsonSchema": {"type": "string"}},
        {"response_format": {"type": "string"}},
        {},
    ),
    ({"mediaResolution": "LOW"}, {}, {"generationConfig": {"mediaResolution": "LOW"}}),
]  # fmt: skip


@pytest.mark.parametrize(("config", "options", "own"), CONFIGS)
def test_generation_config(
    config: dict[str, Any], options: dict[str, Any], own: dict[str, Any]
) -> None:
    asked = read(generationConfig=config)
    assert (asked.options, asked.own, asked.dropped) == (options, own, [])


CHOICES: list[tuple[dict[str, Any], str | None]] = [
    ({"mode": "AUTO"}, "auto"),
    ({"mode": "ANY"}, "required"),
    ({"mode": "NONE"}, "none"),
    ({"mode": "ANY", "allowedFunctionNames": ["f"]}, "f"),
    ({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}, "required"),
    ({"mode": "VALIDATED"}, None),
]


@pytest.mark.parametrize(("calling", "choice"), CHOICES)
def test_tool_choice(calling: dict[str, Any], choice: str | None) -> None:
    asked = read(toolConfig={"functionCallingConfig": calling})
    assert asked.options.get("tool_choice") == choice
    kept = asked.own.get("toolConfig", {}).get("functionCallingConfig", {})
    assert bool(kept) is (len(asked.own_places) == 1)


def test_tools_in_both_schema_formats_and_googles_own_tools() -> None:
    typed = {"type": "OBJECT", "properties": {"a": {"type": "INTEGER", "format": "int32"}}}
    plain = {"type": "object", "properties": {"a": {"type": "integer", "format": "int32"}}}
    declared = [
        {"name": "f", "description": "does", "parameters": typed},
        {"name": "g", "parametersJsonSchema": plain},
        {"name": "h"},
    ]
    asked = read(tools=[{"functionDeclarations": declared}, {"googleSearch": {}}])
    assert asked.context.tools == [Tool("f", "does", plain), Tool("g", "", plain), Tool("h")]
    assert asked.own == {"tools": [{"googleSearch": {}}]}
    assert asked.own_places == ["tools[1].googleSearch"]


SCHEMAS: list[tuple[Any, Any]] = [
    ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
    (
        {"type": "STRING", "format": "enum", "enum": ["a"], "nullable": True},
        {"type": ["string", "null"], "enum": ["a", None]},
    ),
    ({"type": "ARRAY", "minItems": "1", "items": {"type": "NUMBER"}},
     {"type": "array", "minItems": 1, "items": {"type": "number"}}),
    (
        {"any_of": [{"type": "STRING"}, {"type": "BOOLEAN"}], "nullable": True},
        {"anyOf": [{"type": "string"}, {"type": "boolean"}, {"type": "null"}]},
    ),
    (
        {"type": "OBJECT", "properties": {"any_of": {"type": "STRING"}, "b": {}},
         "propertyOrdering": ["b", "any_of"], "required": ["b"]},
        {"type": "object", "properties": {"b": {}, "any_of": {"type": "string"}},
         "required": ["b"]},
    ),
    ({"type": "TYPE_UNSPECIFIED", "title": "T", "example": 1}, {"title": "T", "examples": [1]}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), SCHEMAS)
def test_schemas(given: Any, expected: Any) -> None:
    made = json_schema(given)
    assert made == expected
    assert list(made.get("properties", ())) == list(expected.get("properties", ()))


def test_unknown_fields_are_reported_and_nothing_is_refused() -> None:
    asked = read(
        [
            {"role": "user", "parts": [{"text": "a", "mood": 1}], "x": 1},
            model({"executableCode": {}}),
        ],
        cachedContent="cachedContents/1",
        safetySettings=[{"category": "C"}],
        generationConfig={"speechConfig": {}, "responseModalities": ["TEXT"]},
        labels={"a": "b"},
        unheardOf=True,
    )
    assert asked.dropped == [
        "contents[0].x",
        "contents[0].parts[0].mood",
    ]
    assert asked.own == {
        "cachedContent": "cachedContents/1",
        "safetySettings": [{"category": "C"}],
        "labels": {"a": "b"},
        "unheardOf": True,
        "generationConfig": {"speechConfig": {}, "responseModalities": ["TEXT"]},
    }
    assert set(asked.own_places) == {
        "contents[1].parts[0].executableCode", "cachedContent", "safetySettings", "labels",
        "unheardOf", "generationConfig.speechConfig", "generationConfig.responseModalities",
    }  # fmt: skip


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"contents": "Hi"}, "contents is a string; expected a list"),
    ({"contents": [{"role": "king"}]}, "contents[0].role is 'king', an unknown role"),
    ({"contents": [{"parts": [{"inlineData": {}}]}]}, "inlineData.mimeType is missing"),
    ({"generationConfig": {"temperature": "hot"}}, "generationConfig.temperature is a string"),
    *(
        (
            {"generationConfig": {"candidateCount": count}},
            f"generationConfig.candidateCount is {count}; expected a whole number from 1 to 8",
        )
        for count in (0, 9, 2.5, -1)
    ),
]


@pytest.mark.parametrize(("fields", "said"), REFUSED)
def test_an_invalid_request_is_refused_with_the_path(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest) as refused:
        GEMINI.read({"contents": [HI], **fields}, {"model": "m", "method": "generateContent"}, {})
    assert said in str(refused.value)


def test_a_count_may_wrap_its_request() -> None:
    wrapped = {"generateContentRequest": {"model": "models/m", "contents": [HI]}}
    asked = GEMINI.read(wrapped, {"model": "m", "method": "countTokens"}, {})
    assert asked.context.messages == [UserMessage("Hi")]


GOOGLE: Any = Host(environ={}).bind("gemini").provider
MODEL = Model("gemini", "gemini-2.5-flash")


def converted(context: Context) -> Any:
    return GOOGLE.convert(MODEL, context, StreamOptions())


@settings(phases=[Phase.explicit, Phase.generate], max_examples=40)
@given(contexts(WIRE, media=False))
def test_requests_of_swinks_own_provider_are_read_unchanged(context: Context) -> None:
    """After one conversion to Google's format, a conversation stays the same."""
    for message in context.messages:
        for block in message.content if isinstance(message, AssistantMessage) else ():
            if isinstance(block, TextBlock | ToolCallBlock) and block.metadata is not None:
                block.metadata = {"thoughtSignature": "AAAA"}
            elif isinstance(block, ThinkingBlock):
                block.signature, block.metadata = "BBBB", None
    first = converted(_as_own(context))
    asked = GEMINI.read(first, {"model": "m", "method": "generateContent"}, {})
    again = converted(_as_own(asked.context))
    assert [_joined(turn) for turn in again["contents"]] == [
        _joined(turn) for turn in first["contents"]
    ]
    assert _instruction(again) == _instruction(first)
    assert asked.dropped == []
    assert asked.context.tools == [
        replace(tool, metadata=None, strict=None) for tool in context.tools
    ]


def _instruction(body: dict[str, Any]) -> str:
    """Return the system text; the gateway joins its parts."""
    parts = body.get("systemInstruction", {"parts": []})["parts"]
    return "\n\n".join(part["text"] for part in parts)


def _joined(turn: Any) -> list[Any]:
    """Return the parts of a turn, with plain texts joined."""
    parts: list[Any] = [turn["role"]]
    for part in turn["parts"]:
        if part.keys() == {"text"} and isinstance(parts[-1], dict) and parts[-1].keys() == {"text"}:
            parts[-1] = {"text": parts[-1]["text"] + part["text"]}
        else:
            parts.append(part)
    return parts


def _as_own(context: Context) -> Context:
    return addressed(Asked("m", context), WIRE, "gemini", WIRE).context


NAMES = [
    "contents", "parts", "role", "text", "functionCall", "name", "args", "tools",
    "generationConfig", "thinkingConfig", "thoughtSignature",
]  # fmt: skip
BODIES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(NAMES), v, max_size=4),
    max_leaves=12,
)


@given(BODIES)
def test_any_body_is_accepted_or_a_bad_request(body: Any) -> None:
    with suppress(BadRequest):
        GEMINI.read(body, {"model": "m", "method": "generateContent"}, {})
