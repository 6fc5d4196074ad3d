"""Fields of recorded answers that messages omit, with the reason for each."""

from __future__ import annotations

from typing import ClassVar

from swink_core import Model, StreamOptions
from swink_provider_openai import OpenAIProvider
from swink_provider_openai.responses.api import ResponsesAPI
from swink_test_helpers.kept_fields import KeptFields


class _Responses(OpenAIProvider):
    def api(self, model: Model, options: StreamOptions) -> ResponsesAPI:
        return self._responses


PADDING = "padding against those who measure frames"
CLOCK = "when the frame was made, by the server's clock"
FRAME = "the type of the frame or item, which the block expresses"
PLACE = "where a piece belongs, which the blocks say by their order"
FIRST = "one answer is read, and a notice reports others"
CUMULATIVE = "counted again in every frame; the last count is the message's usage"
COST = "becomes the message's cost, which the client sets"
REQUEST = "the request, said back"


class TestChatCompletions(KeptFields):
    provider = OpenAIProvider("openai")
    folders: ClassVar = dict.fromkeys(
        (
            "openai_chat", "azure", "openai_compat_other", "deepseek", "groq", "llamacpp",
            "lmstudio", "openrouter", "together", "vllm", "xai",
        ),
        "any",
    )  # fmt: skip
    package = "swink_provider_openai"
    left_out: ClassVar = {
        "obfuscation": PADDING,
        "created": CLOCK,
        "sla_metrics.ts_us": CLOCK,
        "object": FRAME,
        "choices.delta.tool_calls.type": FRAME,
        "choices.delta.tool_calls.index": PLACE,
        "choices.delta.channel": "what the field says in which the text stands (Groq)",
        "choices.index": FIRST,
        "choices.delta.content": FIRST,
        "choices.logprobs.content.token": FIRST,
        "choices.logprobs.content.bytes": FIRST,
        "timings.*": FIRST,
        "choices.delta.token_id": "the text is there; the tokens' numbers are the model's own",
        "choices.content_filter_offsets.*": "the filter's progress; its findings are kept",
        "choices.finish_reason": "becomes the message's stop reason",
        "choices.native_finish_reason": "becomes the message's stop reason",
        "id": "some name every frame anew; the first one is the response's id",
        "usage.completion_tokens": CUMULATIVE,
        "usage.total_tokens": CUMULATIVE,
        "usage.cost": COST,
        "usage.cost.total_cost": COST,
        "usage.cost_in_usd_ticks": COST,
        "stream_options.include_usage": REQUEST,
    }


class TestResponses(KeptFields):
    provider = _Responses("openai")
    folders: ClassVar = dict.fromkeys(
        ("openai_responses", "azure_responses", "xai_responses", "openrouter_responses"), "any"
    )
    package = "swink_provider_openai"
    left_out: ClassVar = {
        "obfuscation": PADDING,
        "sequence_number": PLACE,
        "*_index": PLACE,
        "item_id": PLACE,
        "*.created_at": CLOCK,
        "*.completed_at": CLOCK,
        "type": FRAME,
        "*.type": FRAME,
        "*.status": "how far it was; the message's stop reason says how it ended",
        "response.service_tier": "the request, until the end: the result is kept",
        "response.incomplete_details.reason": "becomes the message's stop reason",
        "response.usage.cost": COST,
        "response.usage.cost.total_cost": COST,
        "thought": "that a search goes on (Perplexity), of which what it found is kept",
        "response.usage.cost_in_usd_ticks": COST,
        "*.encrypted_content": "the state before the item was done, or again after",
        "*.fingerprint": "the state before the item was done, or again after",
        "item.id": "of a message without any text",
        "response.output.id": "of a message without any text",
        **dict.fromkeys(
            (
                "response.background", "response.instructions", "response.max_output_tokens",
                "response.parallel_tool_calls",
                "response.previous_response_id", "response.prompt_cache_*",
                "response.reasoning.*", "response.store", "response.temperature",
                "response.text.*", "response.tool_choice", "response.tools.*",
                "response.top_logprobs", "response.top_p", "response.truncation",
                "response.user",
            ),
            REQUEST,
        ),
    }  # fmt: skip
