"""Addresses and reasoning parameters of services that differ only in data."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Context,
    ProviderFailure,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    UserMessage,
)
from swink_provider_openai import OpenAIProvider
from swink_test_helpers.outgoing import leaving

THINKING: list[tuple[str, Any, dict[str, Any]]] = [
    ("moonshot/kimi-k3", "medium", {"reasoning_effort": "high"}),
    ("moonshot/kimi-k3", "extra_high", {"reasoning_effort": "max"}),
    ("moonshot/kimi-k2.6", "off", {"thinking": {"type": "disabled"}}),
    ("moonshot/kimi-k2.6", "low", {"thinking": {"type": "enabled"}}),
    ("moonshot/kimi-k2.7-code", "off", {"thinking": {"type": "enabled"}}),
    ("zai/glm-5.1", "off", {"thinking": {"type": "disabled"}}),
    ("zai/glm-5.1", "high", {"thinking": {"type": "enabled"}}),
    ("zai/glm-5.3", "off", {"reasoning_effort": "low"}),
    ("zai/glm-5.3", "extra_high", {"reasoning_effort": "max"}),
    ("minimax/MiniMax-M3", "off", {"thinking": {"type": "disabled"}}),
    ("minimax/MiniMax-M2.7", "off", {"thinking": {"type": "adaptive"}}),
    ("dashscope/qwen3.8-max", "off", {"enable_thinking": False}),
    ("dashscope/qwen3.8-max", "low", {"enable_thinking": True, "thinking_budget": 2048}),
    ("dashscope/qwq-plus", "off", {}),
    ("siliconflow/any", 40_000, {"enable_thinking": True, "thinking_budget": 32_768}),
    ("vercel/anthropic/claude-sonnet-5.5", 3000, {"reasoning": {"max_tokens": 3000}}),
    ("vercel/anthropic/claude-sonnet-5.5", "low", {"reasoning": {"effort": "low"}}),
    ("baseten/openai/gpt-oss-120b", "low", {"reasoning_effort": "low"}),
]
ALL = ("reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget")


@pytest.mark.parametrize(("model", "level", "fields"), THINKING)
def test_each_is_asked_to_think_in_its_own_way(
    model: str, level: Any, fields: dict[str, Any]
) -> None:
    found = leaving(OpenAIProvider(model.partition("/")[0]), model, thinking=level)
    assert {name: found.body[name] for name in ALL if name in found.body} == fields
    assert found.refused_by == []


LIMITS = [
    ("moonshot/kimi-k3", "max_completion_tokens"),
    ("minimax/MiniMax-M3", "max_completion_tokens"),
    ("zai/glm-5.3", "max_tokens"),
    ("dashscope/qwen3.8-max", "max_tokens"),
]


@pytest.mark.parametrize(("model", "field"), LIMITS)
def test_the_limit_of_an_answer_has_their_name_for_it(model: str, field: str) -> None:
    found = leaving(OpenAIProvider(model.partition("/")[0]), model, max_tokens=99)
    assert found.body[field] == 99


def test_sampling_that_is_fixed_is_left_out_and_told() -> None:
    found = leaving(OpenAIProvider("moonshot"), "moonshot/kimi-k3", temperature=0.2)
    assert "temperature" not in found.body
    assert found.notices == ["does not support temperature; it was not sent"]


@pytest.mark.parametrize("model", ["zai/glm-5.3", "minimax/MiniMax-M3"])
def test_a_call_cannot_be_forced_everywhere(model: str) -> None:
    found = leaving(OpenAIProvider(model.partition("/")[0]), model, tool_choice="required")
    assert found.refusal is not None


def test_reasoning_comes_apart_from_the_text_and_goes_back() -> None:
    details = [{"type": "reasoning.text", "text": "Hm.", "index": 0}]
    said = AssistantMessage(
        [ThinkingBlock("Hm.", metadata={"reasoning_details": details}), TextBlock("Yes.")],
        provider="minimax",
    )
    turns = Context([UserMessage("Hi"), said, UserMessage("Sure?")])
    body = leaving(OpenAIProvider("minimax"), "minimax/MiniMax-M3", turns).body
    assert body["reasoning_split"] is True
    assert body["messages"][1]["reasoning_details"] == details


def test_a_field_that_every_request_has_gives_way_to_extra() -> None:
    found = leaving(
        OpenAIProvider("minimax"), "minimax/MiniMax-M3", extra={"reasoning_split": False}
    )
    assert found.body["reasoning_split"] is False


ACCOUNTS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"settings": {"account": "a b"}}, {}),
    ({}, {"CLOUDFLARE_ACCOUNT_ID": "a b"}),
]


@pytest.mark.parametrize(("options", "environ"), ACCOUNTS)
def test_an_address_names_the_account(options: dict[str, Any], environ: dict[str, str]) -> None:
    url = OpenAIProvider("cloudflare").base_url(StreamOptions(**options), environ)
    assert url == "https://api.cloudflare.com/client/v4/accounts/a%20b/ai/v1"


def test_an_account_that_is_not_said_is_asked_for() -> None:
    with pytest.raises(ProviderFailure, match="CLOUDFLARE_ACCOUNT_ID"):
        OpenAIProvider("cloudflare").base_url(StreamOptions(), {})
