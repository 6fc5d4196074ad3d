"""Content other than text is kept through two turns and returns to the API."""

from __future__ import annotations

from messages_api import SERVER_TOOL, START, STOP, TOOL, block, body, ended, input_json, text

from swink_core import ExtensionBlock, TextBlock, ThinkingBlock, ToolCallBlock
from swink_test_helpers.two_turns import two_turns

EDITS = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3}]}
CITED = {"type": "char_location", "cited_text": "Good", "document_index": 0}


async def test_context_edits_a_matched_stop_sequence_and_citations_are_kept() -> None:
    citation = {"type": "citations_delta", "citation": CITED}
    said = block(0, {"type": "text", "text": ""}, text("Good day"), citation)
    end = ended("stop_sequence")
    end["delta"]["stop_sequence"] = "night"
    end["context_management"] = EDITS

    message, sent = await two_turns("anthropic/claude-sonnet-4-5", body(START, *said, end, STOP))

    assert message.metadata == {"stop_sequence": "night", "context_management": EDITS}
    assert message.content == [TextBlock("Good day", {"citations": [CITED]})]
    [back] = sent["messages"][1]["content"]
    assert (back["text"], back["citations"]) == ("Good day", [CITED])


async def test_what_a_refusal_says_of_itself_is_kept() -> None:
    said = block(0, {"type": "text", "text": ""}, text("I"))
    end = ended("refusal")
    end["delta"]["stop_details"] = details = {
        "type": "refusal", "category": "cyber", "fallback_credit_token": "credit_1"
    }  # fmt: skip

    message, _ = await two_turns("anthropic/claude-sonnet-4-5", body(START, *said, end, STOP))

    assert message.metadata == {"stop_details": details}


FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


async def test_thoughts_the_servers_tools_and_calls_go_back_as_they_came() -> None:
    thought = {"type": "thinking", "thinking": "", "signature": ""}
    hidden = {"type": "redacted_thinking", "data": "x+/=="}
    said = [
        *block(0, thought, {"type": "thinking_delta", "thinking": "Hm."},
               {"type": "signature_delta", "signature": "c2ln"}),
        *block(1, hidden),
        *block(2, SERVER_TOOL, input_json('{"query": "tides"}')),
        *block(3, FOUND),
        *block(4, {"type": "text", "text": ""}, text("Let me look.")),
        *block(5, TOOL, input_json('{"at": "noon"}')),
    ]  # fmt: skip

    message, sent = await two_turns(
        "anthropic/claude-opus-5-5", body(START, *said, ended("tool_use"), STOP)
    )

    searched = {**SERVER_TOOL, "input": {"query": "tides"}}
    assert message.content == [
        ThinkingBlock("Hm.", "c2ln"),
        ThinkingBlock("", "x+/==", redacted=True),
        ExtensionBlock("anthropic", "server_tool_use", searched),
        ExtensionBlock("anthropic", "web_search_tool_result", FOUND),
        TextBlock("Let me look."),
        ToolCallBlock("t1", "look", {"at": "noon"}, raw_arguments='{"at": "noon"}'),
    ]
    back = sent["messages"][1]["content"]
    assert back[:4] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, hidden, searched, FOUND,
    ]  # fmt: skip
    assert (back[5]["id"], back[5]["input"]) == ("t1", {"at": "noon"})
