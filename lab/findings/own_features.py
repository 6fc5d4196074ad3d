"""Print which features that only one API has reach that API.

    python -m lab.findings.own_features

By `extra`, by `settings`, by metadata of blocks and tools, and by extension blocks. Each case names
text that the request has to contain, or a notice or a failure has to explain.
"""

from __future__ import annotations

import asyncio
from typing import Any

import swink
from lab.findings.lost_values import (
    BEDROCK,
    CALL,
    CHAT_GPT,
    CLAUDE,
    GEMINI,
    GPT,
    TOOL,
    Case,
    assistant,
    check,
    user,
)

OPUS = "anthropic/claude-opus-5-5"
GEMINI_IMAGE = "gemini/gemini-3.1-flash-image"
STRICT = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


def extension(provider: str, kind: str, **data: Any) -> swink.ExtensionBlock:
    """Return a block that only one API has, and that names its own type."""
    return swink.ExtensionBlock(provider, kind, {"type": kind, **data})


def by_extra() -> list[Case]:
    """Return the cases of fields of the request."""
    tools: dict[str, list[tuple[str, dict[str, Any]]]] = {
        OPUS: [
            ("mcp_servers", {"mcp_servers": [{"type": "url", "url": "https://x", "name": "m"}]}),
            (
                "compact_20260112",
                {"context_management": {"edits": [{"type": "compact_20260112"}]}},
            ),
            ("task_budget", {"output_config": {"task_budget": {"type": "tokens", "total": 5}}}),
            ('"max"', {"output_config": {"effort": "max"}}),
            ('"speed":"fast"', {"speed": "fast"}),
            ("container_1", {"container": "container_1"}),
        ],
        GPT: [
            (
                "allowed_tools",
                {
                    "tool_choice": {
                        "type": "allowed_tools",
                        "mode": "required",
                        "tools": [{"type": "function", "name": "look"}],
                    }
                },
            ),
            ("conv_1", {"conversation": "conv_1", "store": True}),
            (
                '"grammar"',
                {
                    "tools": [
                        {
                            "type": "custom",
                            "name": "sql",
                            "format": {
                                "type": "grammar",
                                "syntax": "lark",
                                "definition": 'start: "x"',
                            },
                        }
                    ]
                },
            ),
            (
                "compact_threshold",
                {"context_management": [{"type": "compaction", "compact_threshold": 1000}]},
            ),
            ('"pro"', {"reasoning": {"mode": "pro"}}),
            ("verbosity", {"text": {"verbosity": "low"}}),
        ],
        CHAT_GPT: [("prediction", {"prediction": {"type": "content", "content": "x"}})],
        GEMINI: [
            (
                "BLOCK_NONE",
                {
                    "safetySettings": [
                        {"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "BLOCK_NONE"}
                    ]
                },
            ),
            ("cachedContents/x", {"cachedContent": "cachedContents/x"}),
            ("includeServerSideToolInvocations", SERVER_SIDE),
            ("allowedFunctionNames", SUBSET),
        ],
        GEMINI_IMAGE: [
            (
                "imageConfig",
                {
                    "generationConfig": {
                        "responseModalities": ["IMAGE", "TEXT"],
                        "imageConfig": {"aspectRatio": "1:1"},
                    }
                },
            )
        ],
        BEDROCK: [
            (
                "guardrailIdentifier",
                {"guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"}},
            ),
            ("requestMetadata", {"requestMetadata": {"a": "b"}, "serviceTier": {"type": "flex"}}),
            ("optimized", {"performanceConfig": {"latency": "optimized"}}),
        ],
        "mistral/mistral-large-latest": [("safe_prompt", {"safe_prompt": True})],
        "cohere/command-a-plus-05-2026": [
            (
                "citation_options",
                {
                    "documents": [{"id": "1", "data": {"text": "x"}}],
                    "citation_options": {"mode": "accurate"},
                },
            )
        ],
        "xai/grok-4.7": [("x_search", {"tools": [{"type": "x_search"}]})],
        "groq/groq/compound": [
            ("enabled_tools", {"compound_custom": {"tools": {"enabled_tools": ["web_search"]}}})
        ],
        "openrouter/openai/gpt-5.4-mini": [
            ("plugins", {"models": ["a"], "plugins": [{"id": "web"}]})
        ],
        "ollama/llama3.2": [("num_ctx", {"options": {"num_ctx": 8192}, "keep_alive": "5m"})],
    }
    return [
        Case(
            f"{needed.replace(chr(34), '')} by extra, {model}",
            model,
            [user()],
            needed,
            {"extra": extra, **({"tools": [TOOL]} if "tool" in needed.lower() else {})},
        )
        for model, cases in tools.items()
        for needed, extra in cases
    ]


SERVER_SIDE = {
    "tools": [{"googleSearch": {}}],
    "toolConfig": {"includeServerSideToolInvocations": True},
}
SUBSET = {
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
}


def by_blocks() -> list[Case]:
    """Return the cases of extension blocks."""
    search = extension(
        "anthropic",
        "search_result",
        source="s",
        title="t",
        content=[{"type": "text", "text": "x"}],
    )
    addition = extension(
        "anthropic",
        "tool_addition",
        tool={"type": "tool_reference", "tool_name": "look"},
    )
    upload = extension("anthropic", "container_upload", file_id="file_1")
    compaction = extension("openai", "compaction", encrypted_content="xx")
    more = extension("openai", "additional_tools", tools=[{"type": "function", "name": "z"}])
    guard = swink.ExtensionBlock(
        "bedrock",
        "guardContent",
        {"guardContent": {"text": {"text": "x", "qualifiers": ["query"]}}},
    )
    drawn = swink.ExtensionBlock(
        "gemini",
        "inlineData",
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "zz"},
    )
    image = swink.AssistantMessage([drawn], provider="gemini")
    words = swink.TextBlock("Why?")
    tools = {"tools": [TOOL]}
    result = swink.ToolResultMessage("call_1", "look", [search])
    return [
        Case(
            "a search result in a tool's result",
            OPUS,
            [user(), assistant(CALL), result],
            "search_result",
            tools,
        ),
        Case(
            "a tool that is added later",
            OPUS,
            [user(), assistant("A."), swink.UserMessage([addition]), user("More?")],
            "tool_addition",
            tools,
        ),
        Case(
            "an uploaded file",
            OPUS,
            [swink.UserMessage([words, upload])],
            "container_upload",
        ),
        Case("a compaction", GPT, [swink.UserMessage([compaction, words])], "compaction"),
        Case("additional tools", GPT, [swink.UserMessage([words, more])], "additional_tools"),
        Case("guarded content", BEDROCK, [swink.UserMessage([words, guard])], "guardContent"),
        Case(
            "an image of the model's",
            GEMINI_IMAGE,
            [user("Draw."), image, user("Bluer.")],
            '"thoughtSignature":"zz"',
        ),
    ]


def by_options() -> list[Case]:
    """Return the cases of swink's own options, with metadata and settings."""
    deferred = swink.Tool(
        "look", "Look.", TOOL.parameters, metadata={"anthropic": {"defer_loading": True}}
    )
    named = {"text": {"format": {"name": "my_name", "strict": True}}}
    video = swink.DocumentBlock(
        swink.UrlSource("https://www.youtube.com/watch?v=1"),
        metadata={"videoMetadata": {"fps": 1}},
    )
    stored = swink.DocumentBlock(swink.UrlSource("s3://b/k.mp4", "video/mp4"))
    search = {"tools": [{"type": "tool_search_tool_bm25_20251119", "name": "search"}]}
    return [
        Case(
            "a tool that is loaded on demand",
            OPUS,
            [user()],
            "defer_loading",
            {"tools": [deferred], "extra": search},
        ),
        Case(
            "a required tool, not in parallel",
            CLAUDE,
            [user()],
            "disable_parallel_tool_use",
            {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
        ),
        Case(
            "previous_response_id by settings",
            GPT,
            [user()],
            "resp_1",
            {"settings": {"previous_response_id": "resp_1"}},
        ),
        Case("strict response format", GPT, [user()], '"strict":true', {"response_format": STRICT}),
        Case(
            "name of a schema by extra",
            GPT,
            [user()],
            "my_name",
            {"extra": named, "response_format": STRICT},
        ),
        Case("rate of a video", GEMINI, [swink.UserMessage([video])], "videoMetadata"),
        Case(
            "a video in S3",
            "bedrock/us.amazon.nova-2-lite-v1:0",
            [swink.UserMessage([stored, swink.TextBlock("Why?")])],
            "s3Location",
        ),
    ]


async def run() -> None:
    """Print the lines of all cases."""
    for case in (*by_extra(), *by_blocks(), *by_options()):
        await check(case)


def main() -> None:
    """Run the program."""
    asyncio.run(run())


if __name__ == "__main__":
    main()
