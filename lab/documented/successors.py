"""Thirty invented models, named as their makers name models."""

from __future__ import annotations

__all__ = ["SUCCESSORS"]

SUCCESSORS = {
    "openai": ("gpt-6.3", "gpt-6.4-mini", "gpt-7", "gpt-7-nano-2027-02-01", "o5", "o5-pro"),
    "azure": ("gpt-7.1",),
    "anthropic": (
        "claude-opus-5-8", "claude-sonnet-6-1", "claude-haiku-5-5-20270101", "claude-opus-6",
    ),
    "bedrock": (
        "us.anthropic.claude-opus-6-v1:0", "global.anthropic.claude-sonnet-6-1-20270101-v1:0",
        "us.amazon.nova-3-pro-v1:0", "us.meta.llama5-70b-instruct-v1:0",
    ),
    "gemini": ("gemini-4.2-pro", "gemini-5-flash", "gemini-5-flash-lite-preview-02-2027"),
    "vertex": ("gemini-4.5-pro", "claude-opus-6@20270101"),
    "mistral": ("mistral-large-5", "magistral-medium-2702", "ministral-9b-latest"),
    "cohere": ("command-b-03-2027",),
    "deepseek": ("deepseek-v5-chat",),
    "xai": ("grok-6", "grok-5-mini"),
    "groq": ("llama-5-70b-versatile",),
    "moonshot": ("kimi-k4",),
    "ollama": ("qwen5:8b",),
}  # fmt: skip
