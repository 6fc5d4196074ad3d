"""The recorded streams of Chat Completions in all dialects, and what each should become.

For the tests of the package that speaks the wire format, and of packages that declare a dialect
of it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from corpus import Case, error_cases, stream_cases

from swink_core import StopReason
from swink_core.providers import SSEDecoder
from swink_provider_openai import OpenAIProvider

__all__ = [
    "ERRORS",
    "STREAMS",
    "completes_after",
    "expected_calls",
    "expected_stop",
    "expected_text",
    "expected_thinking",
    "provider_of",
]

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

STOPS = {
    "stop": StopReason.STOP,
    "length": StopReason.LENGTH,
    "tool_calls": StopReason.TOOL_USE,
    "content_filter": StopReason.CONTENT_FILTER,
}


def provider_of(case: Case) -> OpenAIProvider:
    """Make the provider that reads a case."""
    folder = case.name.partition("/")[0]
    name = "perplexity" if "perplexity" in case.name else PRESETS[folder]
    return OpenAIProvider(name)


def expected_text(case: Case) -> str:
    """Return the answer's text; a refusal is the text of an answer."""
    text: str = (case.reference["text"] or "") + (case.reference["refusal"] or "")
    return text.partition("</think>")[2] if case.name == THINK_TAGS else text


def expected_thinking(case: Case) -> str:
    """Return the visible reasoning."""
    if case.name == THINK_TAGS:
        inside: str = case.reference["text"].partition("</think>")[0]
        return inside.removeprefix("<think>")
    if case.name == ONLY_DETAILS:
        return "15 * 27 = 405"
    return case.reference["reasoning"] or ""


def expected_calls(case: Case) -> list[tuple[str, str, str]]:
    """Return id, name and text of the arguments of choice 0's calls."""
    return [
        (call["id"], call["name"], call["arguments"] or "")
        for call in case.reference["tool_calls"]
        if not call.get("choice")
    ]


def expected_stop(case: Case) -> StopReason:
    """Return why the answer stopped, an answer that says so or ends with `[DONE]`."""
    word = next((word for word in case.reference["finish_reasons"] if word), None)
    reason = STOPS[word] if word else StopReason.STOP
    if reason is StopReason.STOP and case.reference["refusal"]:
        return StopReason.CONTENT_FILTER
    if reason is StopReason.STOP and expected_calls(case):
        return StopReason.TOOL_USE
    return reason


def completes_after(body: bytes) -> tuple[int | None, int | None]:
    """Return after how many frames an answer is complete, and its error, if ever."""
    complete = error = None
    counted = False
    decoder = SSEDecoder()
    for number, frame in enumerate([*decoder.feed(body), *decoder.finish()], 1):
        data: dict[str, Any] = {}
        done = frame.strip() == b"[DONE]"
        if not done:
            data = msgspec.json.decode(frame)
        counted |= bool(data.get("usage") or (data.get("x_groq") or {}).get("usage"))
        done &= counted  # what lost the answer may send the marker too
        choices = data.get("choices") or ()
        done |= any(c.get("finish_reason") and not c.get("index") for c in choices)
        if done and complete is None:
            complete = number
        if data.get("error") and error is None:
            error = number
    return complete, error
