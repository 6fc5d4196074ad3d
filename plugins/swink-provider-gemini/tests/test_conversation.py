"""Conversations as the API gets them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    FileSource,
    Host,
    ImageBlock,
    MediaError,
    Message,
    ProviderFailure,
    StopReason,
    StreamErrorKind,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core.providers import Catalog
from swink_provider_gemini import GeminiProvider

PROVIDER = GeminiProvider("gemini")
CATALOG = Catalog(Host(environ={}), environ={})
OLDER, NEWER = "gemini-2.5-flash", "gemini-3.5-flash"
SIGNED = {"thoughtSignature": "c2lnbmVk"}
PNG = Base64Source("image/png", "iVBORw0KGgo=")
DUMMY = "skip_thought_signature_validator"


def _converted(context: Context, model: str = OLDER) -> dict[str, Any]:
    known = CATALOG.resolve(f"gemini/{model}")
    native: dict[str, Any] = PROVIDER.convert_messages(known, context, StreamOptions())
    return native


def _contents(*messages: Message, model: str = OLDER) -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = _converted(Context(list(messages)), model)["contents"]
    return contents


def _user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def _model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def _said(*blocks: Any, **more: Any) -> AssistantMessage:
    return AssistantMessage(list(blocks), provider="gemini", **more)


def _result(id: str, content: Any = "done", **more: Any) -> ToolResultMessage:
    return ToolResultMessage(id, "look", content, **more)


def _call(id: str, **more: Any) -> ToolCallBlock:
    return ToolCallBlock(id, "look", {"x": id}, **more)


HI = UserMessage("Hi")
TEXTS: list[tuple[str, list[Message], list[dict[str, Any]]]] = [
    ("a string", [HI], [_user({"text": "Hi"})]),
    (
        "blocks",
        [UserMessage([TextBlock("a"), TextBlock(""), TextBlock("b")])],
        [_user({"text": "a"}, {"text": "b"})],
    ),
    (
        "turns take turns",
        [HI, HI, _said(TextBlock("Yes")), _said(TextBlock("No")), HI],
        [
            _user({"text": "Hi"}, {"text": "Hi"}),
            _model({"text": "Yes"}, {"text": "No"}),
            _user({"text": "Hi"}),
        ],
    ),
    (
        "empty messages are left out",
        [HI, _said(), UserMessage(""), _said(TextBlock("")), UserMessage([TextBlock("")])],
        [_user({"text": "Hi"})],
    ),
    (
        "parts of another provider are not sent",
        [
            HI,
            AssistantMessage(
                [ThinkingBlock("Hm", "sig"), TextBlock("Yes", SIGNED)], provider="elsewhere"
            ),
        ],
        [_user({"text": "Hi"}), _model({"text": "Yes"})],
    ),
]


@pytest.mark.parametrize(("name", "messages", "contents"), TEXTS, ids=[name for name, *_ in TEXTS])
def test_turns(name: str, messages: list[Message], contents: list[dict[str, Any]]) -> None:
    assert _contents(*messages) == contents


def test_the_system_prompt_and_the_tools_stand_beside_the_contents() -> None:
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {}}}
    inlined = {"type": "object", "properties": {"x": {}}}
    bare = {"type": "object", "properties": {}}
    tools = [Tool("look", "Looks.", schema), Tool("wait", "", bare), Tool("any", "", {})]
    assert _converted(Context([HI], "Be brief.", tools)) == {
        "contents": [_user({"text": "Hi"})],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "look", "description": "Looks.", "parametersJsonSchema": inlined},
                    {"name": "wait"},
                    {"name": "any"},
                ]
            }
        ],
    }


MEDIA: list[tuple[str, Any, dict[str, Any]]] = [
    (
        "an image",
        ImageBlock(PNG),
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
    ),
    (
        "a document",
        DocumentBlock(Base64Source("application/pdf", "JVBERg=="), "page.pdf"),
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
    ),
    (
        "sound",
        AudioBlock(Base64Source("audio/wav", "UklGRg==")),
        {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}},
    ),
    (
        "an address with a type",
        ImageBlock(UrlSource("https://a.example/b", "image/webp")),
        {"fileData": {"fileUri": "https://a.example/b", "mimeType": "image/webp"}},
    ),
    (
        "an address whose name tells the type",
        DocumentBlock(UrlSource("gs://bucket/page.pdf")),
        {"fileData": {"fileUri": "gs://bucket/page.pdf", "mimeType": "application/pdf"}},
    ),
    (
        "an address of no known type",
        DocumentBlock(UrlSource("https://generativelanguage.googleapis.com/v1beta/files/a1")),
        {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/a1"}},
    ),
    (
        "an uploaded file",
        ImageBlock(FileIdSource("gemini", "files/a1")),
        {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/a1"}},
    ),
    (
        "an uploaded file by its number alone",
        DocumentBlock(FileIdSource("gemini", "a1")),
        {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/a1"}},
    ),
    (
        "a file with its media type",
        DocumentBlock(FileIdSource("gemini", "gs://a/b"), metadata={"mimeType": "video/mp4"}),
        {"fileData": {"fileUri": "gs://a/b", "mimeType": "video/mp4"}},
    ),
    (
        "an uploaded file by its address",
        DocumentBlock(FileIdSource("gemini", "https://a.example/files/a1")),
        {"fileData": {"fileUri": "https://a.example/files/a1"}},
    ),
    (
        "a film",
        DocumentBlock(Base64Source("video/quicktime", "AAAA"), "a.mov"),
        {"inlineData": {"mimeType": "video/mov", "data": "AAAA"}},
    ),
    (
        "text of a type that the API does not name",
        DocumentBlock(Base64Source("text/x-go; charset=utf-8", "AAAA")),
        {"inlineData": {"mimeType": "text/plain", "data": "AAAA"}},
    ),
    (
        "an image with an alternative media type",
        ImageBlock(Base64Source("image/jpg", "AAAA")),
        {"inlineData": {"mimeType": "image/jpeg", "data": "AAAA"}},
    ),
    (
        "with a resolution",
        ImageBlock(PNG, {"mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"}, "elsewhere": 1}),
        {
            "inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="},
            "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"},
        },
    ),
]


@pytest.mark.parametrize(("name", "block", "part"), MEDIA, ids=[name for name, *_ in MEDIA])
def test_media(name: str, block: Any, part: dict[str, Any]) -> None:
    assert _contents(UserMessage([block, TextBlock("What is it?")])) == [
        _user(part, {"text": "What is it?"})
    ]


DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (ImageBlock(Base64Source("image/gif", "AAAA")), "image/webp, not image/gif"),
        (DocumentBlock(Base64Source(DOCX, "AAAA")), "not application/vnd"),
        (DocumentBlock(UrlSource("https://a.example/b.zip")), "not application/zip"),
        (AudioBlock(Base64Source("audio/midi", "AAAA")), "audio/webm, not audio/midi"),
    ],
)
def test_media_that_the_api_refuses_are_refused_in_words(block: Any, words: str) -> None:
    with pytest.raises(ProviderFailure, match=words) as caught:
        _contents(UserMessage([block]))
    assert caught.value.failure.kind is StreamErrorKind.UNSUPPORTED


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "sound.mp3"
    file.write_bytes(b"ID3")
    [turn] = _contents(UserMessage([AudioBlock(FileSource(str(file)))]))
    [part] = turn["parts"]
    assert base64.b64decode(part["inlineData"]["data"]) == b"ID3"
    assert part["inlineData"]["mimeType"] == "audio/mpeg"


def test_a_file_that_is_not_there_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"gone\.png"):
        _contents(UserMessage([ImageBlock(FileSource(str(tmp_path / "gone.png")))]))


# -- tools -------------------------------------------------------------------------------------


def _response(response: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"functionResponse": {**more, "name": "look", "response": response}}


def test_calls_and_results_name_each_other() -> None:
    assert _contents(HI, _said(_call("k1", metadata=SIGNED)), _result("k1")) == [
        _user({"text": "Hi"}),
        _model({"functionCall": {"id": "k1", "name": "look", "args": {"x": "k1"}}, **SIGNED}),
        _user(_response({"output": "done"}, id="k1")),
    ]


def test_an_id_that_we_made_up_is_not_sent() -> None:
    made_up = "swink_call_c_0"
    assert _contents(HI, _said(_call(made_up)), _result(made_up)) == [
        _user({"text": "Hi"}),
        _model({"functionCall": {"name": "look", "args": {"x": made_up}}}),
        _user(_response({"output": "done"})),
    ]


def test_results_go_in_the_order_of_their_calls() -> None:
    first, second, third = (f"swink_call_c_{number}" for number in range(3))
    *_, turn = _contents(
        HI,
        _said(_call(first), _call(second), _call(third)),
        _result(third, "3"),
        _result(first, "1"),
        _result(second, "2"),
    )
    assert turn == _user(*(_response({"output": word}) for word in "123"))


def test_a_failed_tool_says_so() -> None:
    *_, turn = _contents(HI, _said(_call("k1")), _result("k1", "No such word.", is_error=True))
    assert turn == _user(_response({"error": "No such word."}, id="k1"))


def test_a_call_without_result_gets_one_that_says_so() -> None:
    *_, turn = _contents(HI, _said(_call("k1")), UserMessage("Never mind."))
    [response, words] = turn["parts"]
    assert response["functionResponse"]["id"] == "k1"
    assert set(response["functionResponse"]["response"]) == {"error"}
    assert words == {"text": "Never mind."}


IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        (NEWER, [_response({"output": "Here:"}, id="k1", parts=[IMAGE])]),
        (OLDER, [_response({"output": "Here:"}, id="k1"), IMAGE]),
    ],
)
def test_media_of_a_tool_go_into_its_result_where_the_model_takes_them(
    model: str, parts: list[dict[str, Any]]
) -> None:
    *_, turn = _contents(
        HI,
        _said(_call("k1", metadata=SIGNED)),
        _result("k1", [TextBlock("Here:"), ImageBlock(PNG)]),
        model=model,
    )
    assert turn == _user(*parts)


@pytest.mark.parametrize(
    ("state", "raw"), [("invalid", "{nonsense"), ("truncated", '{"x": 1'), ("truncated", None)]
)
def test_arguments_that_are_no_object_travel_in_one(state: Any, raw: str | None) -> None:
    block = ToolCallBlock("k1", "look", {}, raw, state)
    _, turn, _ = _contents(HI, _said(block, stop_reason=StopReason.LENGTH), _result("k1"))
    assert turn["parts"][0]["functionCall"]["args"] == {"INVALID_JSON": raw or ""}


@pytest.mark.parametrize(
    ("model", "signature"), [(OLDER, {}), (NEWER, {"thoughtSignature": DUMMY})]
)
def test_a_call_made_elsewhere_has_a_stand_in_for_its_signature_where_one_is_wanted(
    model: str, signature: dict[str, str]
) -> None:
    foreign = AssistantMessage(
        [ToolCallBlock("toolu_1", "look", {}, metadata={"a": 1}), ToolCallBlock("toolu_2", "look")],
        provider="elsewhere",
    )
    _, turn, _ = _contents(HI, foreign, _result("toolu_1"), _result("toolu_2"), model=model)
    assert turn == _model(
        {"functionCall": {"id": "toolu_1", "name": "look", "args": {}}, **signature},
        {"functionCall": {"id": "toolu_2", "name": "look", "args": {}}},
    )


@pytest.mark.parametrize("kind", ["toolCall", "executableCode"])
@pytest.mark.parametrize(
    ("stop_reason", "kept"),
    [(StopReason.ABORTED, False), (StopReason.LENGTH, False), (StopReason.STOP, True)],
)
def test_what_the_server_was_asked_and_never_answered_is_left_out(
    kind: str, stop_reason: StopReason, kept: bool
) -> None:
    part = {kind: {"id": "s1"}}
    answer = _said(TextBlock("So:"), ExtensionBlock("gemini", kind, part), stop_reason=stop_reason)
    assert _contents(HI, answer)[1] == _model({"text": "So:"}, *([part] if kept else []))


def test_extensions_of_others_stay_at_home() -> None:
    foreign = ExtensionBlock("vertex", "executableCode", {"executableCode": {}})
    assert _contents(HI, _said(foreign, TextBlock("1")))[1] == _model({"text": "1"})
