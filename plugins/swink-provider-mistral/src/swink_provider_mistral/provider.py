"""`mistral/<model>`. The `dialect` in models.toml declares most differences from OpenAI.

Other differences are:

* Tool-call ids consist of nine letters and digits. Any other id is replaced by one derived from its
  digest, which is the same in every request, so that prompt caching works.
* A user turn may not directly follow tool results: an assistant turn is inserted, with a notice,
  unless the model is known to need none.
* Reasoning is sent back as a `thinking` chunk in the message's content, which then is an array.
* Audio is sent as a base64 string, without its format.
* If a call requires the model to use a tool, `tool_choice` is `any` instead of OpenAI's `required`.

Pass `safe_prompt` and other fields of Mistral in `extra`. Source:
https://docs.mistral.ai/api/#tag/chat.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Block,
    Classification,
    Context,
    DocumentBlock,
    Failure,
    FileIdSource,
    Message,
    Model,
    StreamOptions,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import by_tables, rule_of
from swink_provider_openai import ChatConverter, OpenAIProvider

__all__ = ["MistralProvider"]

ANSWER = "OK."
"""The text of the assistant turn that is inserted between tool results and a user turn."""

TOOL_ID = re.compile(r"[a-zA-Z0-9]{9}")
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

CODES = {
    "1500": Kind.MODEL_NOT_FOUND,  # invalid_model
    "service_tier_capacity_exceeded": Kind.OVERLOADED,
}
WORDINGS = (
    ("too large for model", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("capacity exceeded", Kind.OVERLOADED),
)


def takes_user_after_results(model: Model) -> bool:
    """Return True if a model is known to accept a user message directly after tool results."""
    return bool(rule_of(model).facts.get("user_after_results"))


def tool_id(given: str) -> str:
    """Return an id that Mistral accepts: the given id, or one derived from its digest."""
    if TOOL_ID.fullmatch(given):
        return given
    number = int.from_bytes(
        hashlib.sha256(given.encode("utf-8", "surrogatepass")).digest()[:8], "big"
    )
    digits = []
    for _ in range(9):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(digits)


class MistralConverter(ChatConverter):
    """Converts messages for Chat Completions in Mistral's dialect."""

    _follows_results = False
    _answers_results = True

    def conversation(self, model: Model, context: Context) -> dict[str, Any]:
        """Convert the messages; if necessary, insert assistant turns after tool results."""
        self._answers_results = not takes_user_after_results(model)
        return super().conversation(model, context)

    def system(self, message: SystemMessage) -> list[Any]:
        """Convert a system message, which may directly follow tool results."""
        self._follows_results = False
        return super().system(message)

    def user(self, message: UserMessage) -> list[Any]:
        """Convert a user message; after tool results, insert an assistant turn before it."""
        native = super().user(message)
        return self._answered_first(native, message) if self._follows_results else native

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        """Convert tool results.

        Media in the results are sent after them, in a user message. An assistant turn is inserted
        before this message.
        """
        native = super().tool_results(messages)
        self._follows_results = native[-1]["role"] == "tool"
        if self._follows_results:
            return native
        return [*native[:-1], *self._answered_first(native[-1:], messages[-1])]

    def _answered_first(self, native: list[Any], message: Message) -> list[Any]:
        self._follows_results = False
        if not self._answers_results or not native or native[0]["role"] != "user":
            return native
        what = (
            f"an assistant message, {ANSWER!r}, was added between the tool results and the user "
            "message"
        )
        self.report(message, what, "content_added")
        return [{"role": "assistant", "content": ANSWER}, *native]

    def tool_id(self, tool_call_id: str) -> str:
        """Map an id to nine letters and digits."""
        return tool_id(tool_call_id)

    def assistant(self, message: AssistantMessage) -> list[Any]:
        """Convert an answer to content chunks: its reasoning, then its text and references."""
        self._follows_results = False
        native = super().assistant(message)
        chunks: list[dict[str, Any]] = []
        for block in message.content:
            if isinstance(block, TextBlock):
                chunks += [{"type": "text", "text": block.text}] if block.text else []
                if ids := (block.metadata or {}).get("reference_ids"):
                    chunks.append({"type": "reference", "reference_ids": ids})
        if thinking := message.thinking:
            said = [{"type": "text", "text": thinking}]
            chunks.insert(0, {"type": "thinking", "thinking": said})
        if all(chunk["type"] == "text" for chunk in chunks):
            return native
        first = native[0] if native else {"role": "assistant"}
        return [{**first, "content": chunks}, *native[1:]]

    def leave_out_reasoning(self, message: AssistantMessage) -> None:
        """Report nothing, because Mistral's API accepts reasoning as a chunk of the content."""
        self.take(message, ThinkingBlock)

    def part(self, block: Block) -> dict[str, Any]:
        """Convert a block to a chunk of the content.

        The field `input_audio` contains only the base64 text of the audio. In OpenAI's API, it is
        an object that also contains the audio format.
        """
        native = super().part(block)
        if isinstance(block, AudioBlock):
            native["input_audio"] = native["input_audio"]["data"]
        return native

    def document(self, block: DocumentBlock) -> dict[str, Any]:
        """Convert a document: an uploaded file, or a URL, which may be a data URL."""
        if isinstance(block.source, FileIdSource):
            self.leave_out_name(block)
            return {"type": "file", "file_id": block.source.id}
        native = super().document(block)
        source = block.source
        url = source.url if isinstance(source, UrlSource) else native["file"]["file_data"]
        named = {"document_name": block.name} if block.name else {}
        return {"type": "document_url", "document_url": url, **named}


class MistralProvider(OpenAIProvider):
    """Mistral's chat completions endpoint."""

    converter = MistralConverter

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body, with `any` in place of OpenAI's `tool_choice` value `required`."""
        body = super().convert(model, context, options)
        if body.get("tool_choice") == "required":
            body["tool_choice"] = "any"
        return body

    def classify(self, failure: Failure) -> Classification | None:
        """Classify a failure by Mistral's own codes, then as in the base class."""
        return by_tables(failure, CODES, WORDINGS) or super().classify(failure)
