"""What each client protocol cannot carry of an answer, as data: a row for each, with its reason.

Between two protocols that is lost what the one says and the other has no field for. All that swink
itself knows passes between any two; so what is lost from A to B is what B's rows say, as far as A
could say it. A row names the section of B's published schema in which the field is missing. What is
sealed is not lost: it comes back with the client's next request.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["LOSSES", "SOURCES", "Loss", "losses_between"]


class Loss(NamedTuple):
    """What a protocol cannot carry, and the section of its schema that has no field for it."""

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
"""The published schema of each protocol, whose sections rows name."""

ORDER = "order of blocks"
SIGNATURES = "signatures and other opaque data of thinking and calls"
EXTENSIONS = "server-side tools, generated media and other opaque blocks"
TEXT_METADATA = "facts of a text that the protocol has no field for"
ANSWER_METADATA = "facts of a whole answer that the protocol has no field for"
COST_PARTS = "parts of the cost; its total stands beside the counts"
PAUSE = "that the provider wants to be called again"
RETRY = "a restart after words were shown, which is told as a failure"
RAW_ARGUMENTS = "arguments that are no JSON"
COUNTS = "counts of tokens that the protocol has no field for"
IDS = "the id of a call"

LOSSES: dict[str, tuple[Loss, ...]] = {
    "native": (),
    "chat": (
        Loss(ORDER, "The chat completion object: message"),
        Loss(SIGNATURES, "The chat completion object: message"),
        Loss(EXTENSIONS, "The chat completion object: message"),
        Loss(TEXT_METADATA, "The chat completion object: message.annotations, choices.logprobs"),
        Loss(ANSWER_METADATA, "The chat completion object"),
        Loss(COST_PARTS, "The chat completion object: usage"),
        Loss(PAUSE, "The chat completion object: finish_reason"),
        Loss(RETRY, "The chat completion chunk object"),
    ),
    "messages": (
        Loss(TEXT_METADATA, "Text block: citations"),
        Loss(RAW_ARGUMENTS, "Tool use block: input"),
        Loss(ANSWER_METADATA, "Message: stop_sequence, stop_details, container"),
        Loss(COST_PARTS, "Usage"),
        Loss(RETRY, "Streaming: event types"),
    ),
    "responses": (
        Loss(TEXT_METADATA, "Output text: annotations, logprobs"),
        Loss(ANSWER_METADATA, "The response object"),
        Loss(COST_PARTS, "The response object: usage"),
        Loss(PAUSE, "The response object: status"),
        Loss(RETRY, "Streaming events"),
    ),
    "gemini": (
        Loss(RAW_ARGUMENTS, "FunctionCall: args"),
        Loss(ANSWER_METADATA, "GenerateContentResponse"),
        Loss(COST_PARTS, "UsageMetadata"),
        Loss(PAUSE, "FinishReason"),
        Loss(RETRY, "GenerateContentResponse"),
    ),
    "ollama": (
        Loss(ORDER, "Response: message"),
        Loss(SIGNATURES, "Response: message.thinking"),
        Loss(EXTENSIONS, "Response: message"),
        Loss(TEXT_METADATA, "Response: message.content"),
        Loss(RAW_ARGUMENTS, "Response: message.tool_calls.function.arguments"),
        Loss(IDS, "Response: message.tool_calls"),
        Loss(ANSWER_METADATA, "Response"),
        Loss(COUNTS, "Response: prompt_eval_count, eval_count"),
        Loss(COST_PARTS, "Response"),
        Loss(PAUSE, "Response: done_reason"),
        Loss(RETRY, "Streaming"),
    ),
}
"""The rows of each protocol; what is not in them is carried."""


def losses_between(source: str, target: str) -> list[Loss]:
    """Return what is lost of an answer in the protocol `source` that is told in `target`."""
    unsaid = {loss.what for loss in LOSSES[source]}
    return [loss for loss in LOSSES[target] if loss.what not in unsaid]
