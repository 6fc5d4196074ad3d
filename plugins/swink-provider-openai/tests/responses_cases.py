"""The recorded streams of the Responses API, and what each should become."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from swink_core import Model, ModelInfo, StopReason
from swink_core.providers import (
    SSEDecoder,
)
from swink_provider_openai import OpenAIProvider
from swink_test_helpers.corpus import Case, error_cases, stream_cases

__all__ = [
    "ERRORS",
    "MODEL",
    "STREAMS",
    "TRIMMED",
    "completes_after",
    "expected_calls",
    "expected_stop",
    "expected_text",
    "provider_of",
]

PRESETS = {
    "openai_responses": "openai",
    "lmstudio": "lmstudio",
    "azure_responses": "openai",
    "xai_responses": "openai",
    "openrouter_responses": "openrouter",
}
"""The preset that reads the cases of a folder; no package's dialect concerns the parser."""

STREAMS = [case for folder in PRESETS for case in stream_cases(folder)]
ERRORS = [case for folder in PRESETS for case in error_cases(folder)]

MODEL = Model("openai", "any", ModelInfo("any", api="responses"))
"""A model whose API is this one."""

TRIMMED = "openai_responses/vercel-openai-phase-1"
"""Its deltas were cut out of the middle by hand; the `.done` events have the texts whole. The
independent reading takes the deltas alone, the SDK the whole texts, which is right."""


def provider_of(case: Case) -> OpenAIProvider:
    """Return the provider that reads a case."""
    return _provider(PRESETS[case.name.partition("/")[0]])


@cache
def _provider(preset: str) -> OpenAIProvider:
    """Make a preset's provider, once: its hooks take longer to find than a short body to read."""
    return OpenAIProvider(preset)


def expected_text(case: Case) -> str:
    """Return the answer's text; a refusal is the text of an answer."""
    if case.name == TRIMMED:
        text: str = case.expect["sdk"]["summary"]["output_text"]
        return text
    return (case.reference["text"] or "") + (case.reference["refusal"] or "")


def expected_calls(case: Case) -> list[tuple[str, str, Any]]:
    """Return id, name and arguments of the calls; free text becomes one argument."""
    return [
        (
            call["id"],
            call["name"],
            {"input": call["input"]} if call.get("custom") else call["arguments"],
        )
        for call in case.reference["tool_calls"]
    ]


FOR_THE_CALLER = {
    "openai_responses/pydantic-ai-openai-client-tool-search-streaming",
    "openai_responses/vercel-openai-apply-patch-tool-1",
    "openai_responses/vercel-openai-local-shell-tool-1",
    "openai_responses/vercel-openai-mcp-tool-approval-3",
}
"""Answers that ask the caller to run, or to allow, a tool that OpenAI defines."""


def expected_stop(case: Case) -> StopReason:
    """Return the stop reason of a complete answer."""
    if case.name in FOR_THE_CALLER:
        return StopReason.TOOL_USE
    reference = case.reference
    if reference["status"] == "incomplete":
        return StopReason.LENGTH
    if reference["refusal"]:
        return StopReason.CONTENT_FILTER
    return StopReason.TOOL_USE if reference["tool_calls"] else StopReason.STOP


def completes_after(body: bytes) -> int:
    """Return after how many frames an answer is complete or failed; 0 for never."""
    decoder = SSEDecoder()
    for number, frame in enumerate([*decoder.feed(body), *decoder.finish()], 1):
        kind = msgspec.json.decode(frame)["type"] if frame.strip() != b"[DONE]" else ""
        if kind in ("response.completed", "response.incomplete", "response.failed", "error"):
            return number
    return 0
