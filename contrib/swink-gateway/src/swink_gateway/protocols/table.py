"""The table of client protocols; everything else about a protocol derives from its row.

A row lists the paths and the class of a protocol, the setup for clients, and the data that the
protocol loses. The server's routes, the page at `/`, the headers with keys, the fields that limited
keys may set, and the reference page of losses are made from these rows. The class of a protocol
formats its errors (`ClientProtocol.failure`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field

from swink_gateway.protocols import ClientProtocol
from swink_gateway.protocols.chat.protocol import ChatProtocol
from swink_gateway.protocols.gemini.protocol import GeminiProtocol
from swink_gateway.protocols.losses import (
    ANSWER_METADATA,
    BORDERS,
    BROKEN_CALLS,
    COST_PARTS,
    COUNTS,
    CUT_CALLS,
    EXTENSIONS,
    EXTENSIONS_AND_IMAGES,
    GENERATED,
    IDS,
    LAST_TEXT_METADATA,
    ORDER,
    PAUSE,
    RAW_ARGUMENTS,
    RETRY,
    SIGNATURES,
    TEXT_METADATA,
    Loss,
)
from swink_gateway.protocols.messages.protocol import MessagesProtocol
from swink_gateway.protocols.native.protocol import NativeProtocol
from swink_gateway.protocols.ollama.model_list import ollama_models, ollama_version
from swink_gateway.protocols.ollama.protocol import OllamaGenerateProtocol, OllamaProtocol
from swink_gateway.protocols.responses.protocol import ResponsesProtocol

__all__ = [
    "ID_FIELDS",
    "MODEL_PATH",
    "PRICED_FIELDS",
    "PROTOCOLS",
    "Endpoint",
    "Row",
    "Setup",
    "losses_between",
]


@define(frozen=True, kw_only=True)
class Endpoint:
    """A path to which clients POST their requests.

    `path` may have variable parts in aiohttp's syntax. `counts` names the response field for the
    estimated number of tokens, on a path that counts them; `None` on a path that calls a model.
    `continues` means that clients may continue from the id of an earlier answer, and may connect to
    the same path over a WebSocket. `takes_settings` means that `protocol` is called with the names
    of settings that clients may set.
    """

    path: str
    protocol: Callable[..., ClientProtocol]
    counts: str | None = None
    continues: bool = False
    takes_settings: bool = False

    def make(self, settings: Iterable[str] = ()) -> ClientProtocol:
        """Create the protocol that reads requests to this path."""
        return self.protocol(settings) if self.takes_settings else self.protocol()


@define(frozen=True, kw_only=True)
class Setup:
    """The environment variables that point clients at the gateway, as the page at `/` shows them.

    `address` and `key` are names of variables; `path` is appended to the gateway's URL. `needs_key`
    means that these clients do not start without a key. `example` is a command to try.
    """

    clients: str
    address: str
    key: str
    path: str = ""
    needs_key: bool = False
    example: str = ""


@define(frozen=True, kw_only=True)
class Row:
    """The facts about a protocol that code outside its package uses.

    `losses` name types of the vendor's API, and `schema` is the URL of these types. `lists` are
    paths of model lists, each with the function that formats the rows of `listed_models`.
    `key_header` is the header in which clients send their key, besides `Authorization`. The other
    fields list body fields that map to no option of swink: `safe_fields` neither choose the model,
    nor refer to stored data, nor change the price; `id_fields` refer, at any nesting depth of the
    body, to data that the vendor stores; `priced_fields` change the price. A key with limited
    models or a budget may set only fields in these lists, fields that map to options, and the
    fields that its configuration allows.
    """

    name: str
    schema: str
    endpoints: Sequence[Endpoint]
    losses: Sequence[Loss] = ()
    setup: Setup | None = None
    lists: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], Any]] = field(factory=dict)
    key_header: str | None = None
    safe_fields: frozenset[str] = frozenset()
    id_fields: frozenset[str] = frozenset()
    priced_fields: frozenset[str] = frozenset()


MODEL_PATH = "/{version:v1|v1beta}/models/{model:.+}"

_OPENAI = Setup(
    clients="OpenAI's SDKs, Codex, opencode, Qwen Code, aider",
    address="OPENAI_BASE_URL",
    path="/v1",
    key="OPENAI_API_KEY",
    needs_key=True,
)

_OPENAI_FIELDS = frozenset({
    "client_metadata", "context_management", "function_call", "functions", "include", "logit_bias",
    "logprobs", "max_tool_calls", "metadata", "moderation", "prediction",
    "prompt_cache_options", "prompt_cache_retention", "reasoning", "reasoning_effort",
    "safety_identifier", "store", "stream_options", "text", "tool_choice", "top_logprobs",
    "truncation", "verbosity",
})  # fmt: skip

_OPENAI_IDS = frozenset({
    "approval_request_id", "batch_id", "container", "container_id", "conversation", "file_id",
    "file_ids", "input_file_id", "previous_response_id", "prompt", "response_id", "skill_id",
    "starting_after", "vector_store_id", "vector_store_ids",
})  # fmt: skip

_OPENAI_PRICED = frozenset(
    {"audio", "background", "best_of", "modalities", "n", "service_tier", "web_search_options"}
)

_ROWS = (
    Row(
        name="chat",
        schema="https://developers.openai.com/api/reference/resources/chat",
        endpoints=(Endpoint(path="/v1/chat/completions", protocol=ChatProtocol),),
        setup=_OPENAI,
        safe_fields=_OPENAI_FIELDS,
        id_fields=_OPENAI_IDS,
        priced_fields=_OPENAI_PRICED,
        losses=(
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
    ),
    Row(
        name="messages",
        schema="https://platform.claude.com/docs/en/api/messages",
        endpoints=(
            Endpoint(path="/v1/messages", protocol=MessagesProtocol),
            Endpoint(
                path="/v1/messages/count_tokens",
                protocol=MessagesProtocol,
                counts="input_tokens",
            ),
        ),
        setup=Setup(
            clients="Anthropic's SDKs, Claude Code",
            address="ANTHROPIC_BASE_URL",
            key="ANTHROPIC_API_KEY",
            needs_key=True,
        ),
        key_header="x-api-key",
        safe_fields=frozenset(
            {
                "cache_control",
                "context_hint",
                "context_management",
                "diagnostics",
                "mcp_servers",
                "metadata",
                "output_config",
                "thinking",
            }
        ),
        id_fields=frozenset({"container", "file_id", "skill_id", "user_profile_id"}),
        priced_fields=frozenset({"inference_geo", "service_tier", "speed"}),
        losses=(
            Loss(GENERATED, "Message.content"),
            Loss(LAST_TEXT_METADATA, "TextBlock"),
            Loss(RAW_ARGUMENTS, "ToolUseBlock.input"),
            Loss(ANSWER_METADATA, "Message"),
            Loss(COUNTS, "Usage"),
            Loss(COST_PARTS, "Usage"),
            Loss(RETRY, "RawMessageStreamEvent"),
        ),
    ),
    Row(
        name="responses",
        schema="https://developers.openai.com/api/reference/resources/responses",
        endpoints=(Endpoint(path="/v1/responses", protocol=ResponsesProtocol, continues=True),),
        setup=_OPENAI,
        safe_fields=_OPENAI_FIELDS,
        id_fields=_OPENAI_IDS,
        priced_fields=_OPENAI_PRICED,
        losses=(
            Loss(ANSWER_METADATA, "Response"),
            Loss(COUNTS, "ResponseUsage"),
            Loss(COST_PARTS, "ResponseUsage"),
            Loss(PAUSE, "Response.status"),
            Loss(RETRY, "ResponseStreamEvent"),
        ),
    ),
    Row(
        name="gemini",
        schema="https://ai.google.dev/api/generate-content",
        endpoints=(
            Endpoint(
                path=MODEL_PATH + ":{method:generateContent|streamGenerateContent}",
                protocol=GeminiProtocol,
            ),
            Endpoint(
                path=MODEL_PATH + ":{method:countTokens}",
                protocol=GeminiProtocol,
                counts="totalTokens",
            ),
        ),
        setup=Setup(
            clients="Google's SDKs, Gemini CLI",
            address="GOOGLE_GEMINI_BASE_URL",
            key="GEMINI_API_KEY",
            needs_key=True,
        ),
        key_header="x-goog-api-key",
        safe_fields=frozenset({"generationConfig", "labels", "safetySettings", "toolConfig"}),
        id_fields=frozenset(
            {
                "cachedContent",
                "cached_content",
                "corpus",
                "datastore",
                "dataStore",
                "fileSearchStoreNames",
                "file_search_store_names",
                "fileUri",
                "file_uri",
                "gcsUri",
                "ragCorpus",
            }
        ),
        priced_fields=frozenset({"serviceTier"}),
        losses=(
            Loss(BORDERS, "Part"),
            Loss(BROKEN_CALLS, "FunctionCall.args"),
            Loss(ANSWER_METADATA, "GenerateContentResponse"),
            Loss(COUNTS, "GenerateContentResponseUsageMetadata"),
            Loss(COST_PARTS, "GenerateContentResponseUsageMetadata"),
            Loss(RETRY, "GenerateContentResponse"),
        ),
    ),
    Row(
        name="ollama",
        schema="https://docs.ollama.com/api/chat",
        endpoints=(
            Endpoint(path="/api/chat", protocol=OllamaProtocol),
            Endpoint(path="/api/generate", protocol=OllamaGenerateProtocol),
        ),
        setup=Setup(clients="Ollama's", address="OLLAMA_HOST", key="OLLAMA_API_KEY"),
        lists={
            "/api/tags": ollama_models,
            "/api/ps": ollama_models,
            "/api/version": ollama_version,
        },
        safe_fields=frozenset({"shift", "truncate"}),
        losses=(
            Loss(ORDER, "Message.content"),
            Loss(SIGNATURES, "Message"),
            Loss(EXTENSIONS_AND_IMAGES, "Message"),
            Loss(TEXT_METADATA, "Message"),
            Loss(RAW_ARGUMENTS, "Message.ToolCall.Function.arguments"),
            Loss(IDS, "Message.ToolCall"),
            Loss(ANSWER_METADATA, "ChatResponse"),
            Loss(COUNTS, "ChatResponse"),
            Loss(COST_PARTS, "ChatResponse"),
            Loss(PAUSE, "ChatResponse.done_reason"),
            Loss(RETRY, "ChatResponse"),
        ),
    ),
    Row(
        name="native",
        schema="docs/reference/events.md",
        endpoints=(Endpoint(path="/v1/stream", protocol=NativeProtocol, takes_settings=True),),
        setup=Setup(
            clients="swink",
            address="SWINK_PROXY_URL",
            key="SWINK_PROXY_KEY",
            example='swink ask -m proxy/echo/echo "Why is the sky blue?"',
        ),
    ),
)

PROTOCOLS: Mapping[str, Row] = {row.name: row for row in _ROWS}
"""The rows by name."""


ID_FIELDS = frozenset(name for row in _ROWS for name in row.id_fields) | {
    "library_ids",
    "s3Location",
}
"""Fields that refer to stored data, in all protocols and in similar APIs of other vendors."""

PRICED_FIELDS = frozenset(name for row in _ROWS for name in row.priced_fields)
"""Fields that change the price of a call, in all protocols."""


def losses_between(source: str, target: str) -> list[Loss]:
    """List the data that an answer loses when converted from the protocol `source` to `target`."""
    unsaid = {loss.what for loss in PROTOCOLS[source].losses}
    return [loss for loss in PROTOCOLS[target].losses if loss.what not in unsaid]
