"""The recorded streams of Chat Completions, who reads each, and where the readings differ."""

from __future__ import annotations

from functools import cache

from swink_provider_openai import OpenAIProvider
from swink_test_helpers import recorded_chat
from swink_test_helpers.corpus import Case, error_cases, stream_cases

__all__ = ["ERRORS", "STREAMS", "expected_text", "expected_thinking", "provider_of"]

PRESETS = {
    "openai_chat": "openai",
    "deepseek": "deepseek",
    "groq": "groq",
    "openrouter": "openrouter",
    "llamacpp": "llamacpp",
    "vllm": "vllm",
    "together": "together",
    # Packages of their own, or no package at all: nothing of their dialects concerns a parser.
    "azure": "openai",
    "xai": "openai",
    "mistral": "openai",
    "openai_compat_other": "openai",
}
"""The preset that reads the cases of a folder."""

STREAMS = [case for folder in PRESETS for case in stream_cases(folder)]
ERRORS = [case for folder in PRESETS for case in error_cases(folder)]

THINK_TAGS = "together/pydantic-ai-hf-model-thinking-part-iter"
"""The independent reading knows no think tags and calls all of the content text. Together's
DeepSeek R1 writes its reasoning into the content, which its dialect declares."""

ONLY_DETAILS = "openai_compat_other/snowflake-pydantic-ai-snowflake-thinking-streaming"
"""Its reasoning is in `reasoning_details` alone, where the independent reading does not look."""


def provider_of(case: Case) -> OpenAIProvider:
    """Return the provider that reads a case."""
    return _provider(PRESETS[case.name.partition("/")[0]])


@cache
def _provider(preset: str) -> OpenAIProvider:
    """Make a preset's provider, once: its hooks take longer to find than a short body to read."""
    return OpenAIProvider(preset)


def expected_text(case: Case) -> str:
    """Return the answer's text; a refusal is the text of an answer."""
    text = recorded_chat.expected_text(case)
    return text.partition("</think>")[2] if case.name == THINK_TAGS else text


def expected_thinking(case: Case) -> str:
    """Return the visible reasoning."""
    if case.name == THINK_TAGS:
        inside: str = case.reference["text"].partition("</think>")[0]
        return inside.removeprefix("<think>")
    if case.name == ONLY_DETAILS:
        return "15 * 27 = 405"
    return recorded_chat.expected_thinking(case)
