"""Requests to Cohere."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Base64Source,
    Context,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_provider_cohere import CohereProvider
from swink_test_helpers.outgoing import Leaving, leaving

PROVIDER = CohereProvider("cohere")
TIDE = Tool("tide", "Tells the tide.", {"type": "object", "required": ["harbour"]})
WIND = Tool("wind", "Tells the wind.", {"type": "object", "properties": {}})
NOTES = DocumentBlock(
    Base64Source("text/plain", base64.b64encode(b"High water at 14:20.").decode()), name="Tides"
)
PIXEL = base64.b64encode(b"\x89PNG").decode()
CALL = ToolCallBlock("tide_1", "tide", {"harbour": "Dover"}, '{"harbour": "Dover"}')
RESULT = ToolResultMessage("tide_1", "tide", "14:20")


def _leaving(context: Context | str, model: str = "command-a-03-2025", **options: Any) -> Leaving:
    found = leaving(PROVIDER, f"cohere/{model}", context, **options)
    assert found.refused_by == []
    return found


def _messages(*messages: Any, model: str = "command-a-03-2025", **options: Any) -> Any:
    return _leaving(Context([UserMessage("Hi"), *messages]), model, **options).body["messages"][1:]


OPTIONS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("nothing", {}, {}),
    ("temperature", {"temperature": 0}, {"temperature": 0}),
    ("top_p", {"top_p": 0.5}, {"p": 0.5}),
    ("top_k", {"top_k": 0}, {"k": 0}),
    ("a penalty", {"presence_penalty": 0.5}, {"presence_penalty": 0.5}),
    ("max_tokens", {"max_tokens": 64}, {"max_tokens": 64}),
    ("seed", {"seed": 0}, {"seed": 0}),
    ("stop", {"stop": ["A", "B"]}, {"stop_sequences": ["A", "B"]}),
    ("json", {"response_format": "json"}, {"response_format": {"type": "json_object"}}),
    (
        "a schema",
        {"response_format": {"type": "object"}},
        {"response_format": {"type": "json_object", "json_schema": {"type": "object"}}},
    ),
    ("a field", {"extra": {"safety_mode": "STRICT"}}, {"safety_mode": "STRICT"}),
    ("buffered", {"transport": "buffered"}, {"stream": False}),
]


@pytest.mark.parametrize(("name", "options", "expected"), OPTIONS, ids=[row[0] for row in OPTIONS])
def test_options_become_fields(
    name: str, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = _leaving("Hello", **options)
    plain = {
        "messages": [{"role": "user", "content": "Hello"}],
        "model": "command-a-03-2025",
        "stream": True,
    }
    assert found.body == {**plain, **expected}
    assert found.notices == []


THINKING = [
    ("off", {"type": "disabled"}),
    (0, {"type": "disabled"}),
    ("low", {"type": "enabled", "token_budget": 2048}),
    (500, {"type": "enabled", "token_budget": 500}),
    (40_000, {"type": "enabled", "token_budget": 31_000}),
]


@pytest.mark.parametrize(("asked", "sent"), THINKING)
def test_thinking_has_a_budget_of_tokens(asked: Any, sent: dict[str, Any]) -> None:
    assert _leaving("Hi", "command-a-reasoning-08-2025", thinking=asked).body["thinking"] == sent


NOTICES: list[tuple[dict[str, Any], str]] = [
    ({"temperature": 1.5}, "temperature was changed from 1.5 to 1"),
    ({"top_p": 1}, "top_p was changed from 1 to 0.99"),
    ({"frequency_penalty": -1.0}, "frequency_penalty was changed from -1.0 to 0.0"),
    ({"session_id": "s"}, "does not support session_id; it was not sent"),
    ({"thinking": "high"}, "does not support thinking; it was not sent"),
]


@pytest.mark.parametrize(("options", "notice"), NOTICES)
def test_what_is_bent_is_told(options: dict[str, Any], notice: str) -> None:
    assert _leaving("Hi", **options).notices == [notice]


REFUSED: list[tuple[str, Context, dict[str, Any]]] = [
    ("a named tool", Context([UserMessage("Hi")], tools=[TIDE]), {"tool_choice": "tide"}),
    ("JSON beside tools", Context([UserMessage("Hi")], tools=[TIDE]), {"response_format": "json"}),
    (
        "JSON beside documents",
        Context([UserMessage([NOTES, TextBlock("When?")])]),
        {"response_format": {"type": "object"}},
    ),
    ("six stops", Context([UserMessage("Hi")]), {"stop": list("abcdef")}),
    (
        "a PDF",
        Context([UserMessage([DocumentBlock(Base64Source("application/pdf", PIXEL))])]),
        {},
    ),
    (
        "a document's address",
        Context([UserMessage([DocumentBlock(UrlSource("https://example.com/a.txt"))])]),
        {},
    ),
]


@pytest.mark.parametrize(("name", "context", "options"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_would_be_lost_is_refused_before_anything_is_sent(
    name: str, context: Context, options: dict[str, Any]
) -> None:
    found = leaving(PROVIDER, "cohere/command-a-plus-05-2026", context, **options)
    assert found.body == {}
    assert found.refusal is not None


def test_the_system_prompt_is_the_first_message() -> None:
    body = _leaving(Context([UserMessage("Hi")], system_prompt="Be brief.")).body
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}


def test_documents_stand_beside_the_messages_under_ids() -> None:
    body = _leaving(Context([UserMessage([NOTES, TextBlock("When?")])])).body
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "When?"}]}]
    assert body["documents"] == [
        {"id": "doc:0", "data": {"title": "Tides", "text": "High water at 14:20."}}
    ]


def test_a_message_of_documents_alone_says_their_text() -> None:
    body = _leaving(Context([UserMessage([NOTES])])).body
    assert body["messages"][0]["content"] == [{"type": "text", "text": "High water at 14:20."}]
    assert "documents" not in body


def test_images_go_out_as_data_or_address_with_their_detail() -> None:
    images = [
        ImageBlock(Base64Source("image/png", PIXEL), metadata={"detail": "low"}),
        ImageBlock(UrlSource("https://example.com/a.png")),
    ]
    (message,) = _leaving(Context([UserMessage(images)]), "command-a-plus-05-2026").body["messages"]
    assert [part["image_url"] for part in message["content"]] == [
        {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"},
        {"url": "https://example.com/a.png"},
    ]


def test_what_was_said_before_tool_calls_is_the_plan() -> None:
    plan = ThinkingBlock("I look.", metadata={"tool_plan": True})
    answer, result = _messages(AssistantMessage([plan, CALL], provider="cohere"), RESULT)
    assert answer == {
        "role": "assistant",
        "tool_calls": [
            {
                "id": "tide_1",
                "type": "function",
                "function": {"name": "tide", "arguments": '{"harbour": "Dover"}'},
            }
        ],
        "tool_plan": "I look.",
    }
    assert result == {"role": "tool", "tool_call_id": "tide_1", "content": "14:20"}


def test_a_model_that_reasons_takes_it_as_thinking() -> None:
    said = AssistantMessage([TextBlock("I look."), CALL], provider="another")
    answer, _ = _messages(said, RESULT, model="command-a-plus-05-2026")
    assert answer["content"] == [{"type": "thinking", "thinking": "I look."}]
    assert "tool_plan" not in answer


def test_thinking_and_citations_go_back_as_they_came() -> None:
    cited = {"start": 0, "end": 2, "text": "At", "sources": [], "content_index": 1}
    answer, _ = _messages(
        AssistantMessage(
            [ThinkingBlock("Hm."), TextBlock("At 14:20.", {"citations": [cited]})],
            provider="cohere",
        ),
        UserMessage("Thanks."),
        model="command-a-plus-05-2026",
    )
    assert answer == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm."},
            {"type": "text", "text": "At 14:20."},
        ],
        "citations": [cited],
    }


def test_a_document_that_a_tool_found_is_one_in_its_result() -> None:
    found = ToolResultMessage("tide_1", "tide", [TextBlock("Found:"), NOTES])
    _, result = _messages(AssistantMessage([CALL]), found)
    assert result["content"] == [
        {"type": "text", "text": "Found:"},
        {
            "type": "document",
            "document": {
                "id": "tide_1:1",
                "data": {"title": "Tides", "text": "High water at 14:20."},
            },
        },
    ]


def test_an_image_that_a_tool_made_follows_its_result() -> None:
    image = ImageBlock(Base64Source("image/png", PIXEL))
    said = AssistantMessage([CALL]), ToolResultMessage("tide_1", "tide", [image])
    _, result, shown = _messages(*said, model="command-a-plus-05-2026")
    assert result["content"] == "{}"
    assert shown["role"] == "user"
    assert [part["type"] for part in shown["content"]] == ["text", "image_url"]


@pytest.mark.parametrize(
    ("result", "content"),
    [(ToolResultMessage("tide_1", "tide", "No.", is_error=True), "Error: No."),
     (ToolResultMessage("tide_1", "tide", ""), "{}")],
)  # fmt: skip
def test_a_result_always_says_something(result: ToolResultMessage, content: str) -> None:
    assert _messages(AssistantMessage([CALL]), result)[1]["content"] == content


def test_strict_is_for_all_tools_or_none() -> None:
    strict = Tool("tide", "Tells the tide.", TIDE.parameters, strict=True)
    assert _leaving(Context([UserMessage("Hi")], tools=[strict])).body["strict_tools"] is True

    found = _leaving(Context([UserMessage("Hi")], tools=[strict, WIND]))
    assert "strict_tools" not in found.body
    assert found.notices == ["strict was not sent, because no parameter is required by wind"]


def test_the_base_url_may_have_the_version() -> None:
    asked = leaving(PROVIDER, "cohere/command-a-03-2025", base_url="https://example.com/v2")
    assert asked.body["model"] == "command-a-03-2025"
