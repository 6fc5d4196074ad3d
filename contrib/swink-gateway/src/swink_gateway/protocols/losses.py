"""What each client protocol cannot carry of an answer, as data: a row for each, with its reason.

Between two protocols that is lost what the one says and the other has no field for. All that swink
itself knows passes between any two; so what is lost from A to B is what B's rows say, as far as A
could say it. A row names the type of B's published schema, or the field of it, that would have to
have room, as the vendor's own SDK calls it. What is sealed is not lost: it comes back with the
client's next request.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["LOSSES", "SOURCES", "Loss", "losses_between"]


class Loss(NamedTuple):
    """What a protocol cannot carry, and the type of its schema, or field, without room for it."""

    what: str
    section: str


SOURCES = {
    "native": "docs/reference/events.md",
    "chat": "https://developers.openai.com/api/reference/resources/chat",
    "messages": "https://platform.claude.com/docs/en/api/messages",
    "responses": "https://developers.openai.com/api/reference/resources/responses",
    "gemini": "https://ai.google.dev/api/generate-content",
    "ollama": "https://docs.ollama.com/api/chat",
}
"""The published schema of each protocol, whose types rows name."""

ORDER = "order of blocks, and where one text ends and the next begins"
BORDERS = "where one text ends and the next begins"
SIGNATURES = "signatures and other opaque data of thinking and calls"
EXTENSIONS = "server-side tools, generated media and other opaque blocks of other providers"
TEXT_METADATA = "facts of a text that the protocol has no field for"
LAST_TEXT_METADATA = "facts of the text that ends an answer, beside its sources"
ANSWER_METADATA = "facts of a whole answer that the protocol has no field for"
COST_PARTS = "parts of the cost; its total stands beside the counts"
PAUSE = "that the provider wants to be called again"
RETRY = "a restart after words were shown, which is told as a failure"
RAW_ARGUMENTS = "arguments that are no JSON; their text is the field `INVALID_JSON` of an object"
BROKEN_CALLS = "a call whose arguments are no JSON, which is told in words"
CUT_CALLS = "that a call was cut off before its arguments, beside why the answer ended"
COUNTS = "counts of tokens that the protocol has no field for"
IDS = "the id of a call, for clients that know the schema alone"

LOSSES: dict[str, tuple[Loss, ...]] = {
    "native": (),
    "chat": (
        Loss(ORDER, "ChatCompletionMessage.content"),
        Loss(SIGNATURES, "ChatCompletionMessage"),
        Loss(EXTENSIONS, "ChatCompletionMessage"),
        Loss(CUT_CALLS, "ChatCompletionMessageFunctionToolCall"),
        Loss(TEXT_METADATA, "ChatCompletionMessage"),
        Loss(ANSWER_METADATA, "ChatCompletion"),
        Loss(COUNTS, "CompletionUsage"),
        Loss(COST_PARTS, "CompletionUsage"),
        Loss(PAUSE, "Choice.finish_reason"),
        Loss(RETRY, "ChatCompletionChunk"),
    ),
    "messages": (
        Loss(LAST_TEXT_METADATA, "TextBlock"),
        Loss(RAW_ARGUMENTS, "ToolUseBlock.input"),
        Loss(ANSWER_METADATA, "Message"),
        Loss(COUNTS, "Usage"),
        Loss(COST_PARTS, "Usage"),
        Loss(RETRY, "RawMessageStreamEvent"),
    ),
    "responses": (
        Loss(ANSWER_METADATA, "Response"),
        Loss(COUNTS, "ResponseUsage"),
        Loss(COST_PARTS, "ResponseUsage"),
        Loss(PAUSE, "Response.status"),
        Loss(RETRY, "ResponseStreamEvent"),
    ),
    "gemini": (
        Loss(BORDERS, "Part"),
        Loss(BROKEN_CALLS, "FunctionCall.args"),
        Loss(ANSWER_METADATA, "GenerateContentResponse"),
        Loss(COUNTS, "GenerateContentResponseUsageMetadata"),
        Loss(COST_PARTS, "GenerateContentResponseUsageMetadata"),
        Loss(RETRY, "GenerateContentResponse"),
    ),
    "ollama": (
        Loss(ORDER, "Message.content"),
        Loss(SIGNATURES, "Message"),
        Loss(EXTENSIONS, "Message"),
        Loss(TEXT_METADATA, "Message"),
        Loss(RAW_ARGUMENTS, "Message.ToolCall.Function.arguments"),
        Loss(IDS, "Message.ToolCall"),
        Loss(ANSWER_METADATA, "ChatResponse"),
        Loss(COUNTS, "ChatResponse"),
        Loss(COST_PARTS, "ChatResponse"),
        Loss(PAUSE, "ChatResponse.done_reason"),
        Loss(RETRY, "ChatResponse"),
    ),
}
"""The rows of each protocol; what is not in them is carried."""


def losses_between(source: str, target: str) -> list[Loss]:
    """Return what is lost of an answer in the protocol `source` that is told in `target`."""
    unsaid = {loss.what for loss in LOSSES[source]}
    return [loss for loss in LOSSES[target] if loss.what not in unsaid]
