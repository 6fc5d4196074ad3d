"""What comes beside the text is kept through two turns, and goes back where the API wants it."""

from __future__ import annotations

from messages_api import START, STOP, block, body, ended, text

from swink_core import TextBlock
from swink_testing.two_turns import two_turns

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
