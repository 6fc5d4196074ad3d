"""Expected differences, each with its reason."""

from __future__ import annotations

import re

from attrs import define

__all__ = ["EXPLAINED", "Explanation", "reason_of"]


@define(frozen=True)
class Explanation:
    """`pattern` is searched in a difference's text, `place` in where it was found."""

    pattern: str
    reason: str
    place: str = ""

    def covers(self, difference: str, place: str) -> bool:
        """Tell whether this explains a difference."""
        return bool(re.search(self.pattern, difference) and re.search(self.place, place))


EXPLAINED = (
    Explanation(
        r"does not exist|is not found|not_found|Resource not found|identifier is invalid"
        r"|Publisher Model .* not found|404, by no rule: model: ",
        "Only a server knows its models and deployments.",
    ),
    Explanation(
        r"Error while downloading|unsupported image",
        "The server looked at the image itself.",
    ),
    Explanation(
        r"finishReason",
        "The client asked for numbers in place of enum names, which swink never does.",
    ),
    Explanation(
        r"empty_response",
        "The answer has neither text nor a tool call, which swink reports.",
    ),
    Explanation(
        r"content_filtered",
        "The provider's filter cut the answer, which swink reports.",
    ),
    Explanation(
        r"is application/json, not a stream",
        "The recording gives a stream the media type of JSON.",
        place=r"/openai/cassettes/v1/",
    ),
    Explanation(
        r"",
        "The recording is of a gateway that speaks another protocol at this address.",
        place=r"test_mirascope_provider|test_call_non_openai_models_through_openai",
    ),
    Explanation(
        r"anthropic-result-unlisted",
        "The answer continues the turn before it, which the replayed conversation lacks.",
        place=r"test_unpaired_native_tool_calls|test_pause_turn",
    ),
    Explanation(
        r"anthropic-result-unlisted",
        "The recording was written by hand: no server has these ids.",
        place=r"tools_call_with_tool_result_stream",
    ),
    Explanation(
        r"bedrock-claude-format-open",
        "The recording was written by hand: its latency and its tokens are round numbers.",
        place=r"bedrock_converse_(boolean|categorical|score)",
    ),
    Explanation(
        r"differs in text",
        "The model wrote its thoughts between tags into the text; swink makes a thinking block.",
        place=r"groq-qwen3-effort",
    ),
)


def reason_of(difference: str, place: str) -> str | None:
    """Return the reason of a difference; `None` without an explanation."""
    found = (row.reason for row in EXPLAINED if row.covers(difference, place))
    return next(found, None)
