"""Options as fields of the request, by model, with what is left out or changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from converse_model import misfits

from swink_core import Model, ModelInfo, StreamOptions
from swink_provider_bedrock import BedrockProvider
from swink_provider_bedrock.parameters import parameters

PROVIDER = BedrockProvider("bedrock")


def _model(id: str, max_output: int | None = None, **extra: Any) -> Model:
    info = ModelInfo(id, max_output=max_output, extra=extra) if extra or max_output else None
    return Model("bedrock", id, info)


CLAUDE = "us.anthropic.claude-opus-9"
EFFORTS = ["low", "medium", "high", "xhigh", "max"]
NEW = _model(CLAUDE, 64_000, thinking="adaptive", efforts=EFFORTS, sampling=False)
UNKNOWN = _model(CLAUDE)
OLD = _model("us.anthropic.claude-haiku-4-5-v1:0", 64_000, thinking="budget")
OLD_UNLIMITED = _model("us.anthropic.claude-haiku-4-5-v1:0", thinking="budget")
NOVA_2 = _model("us.amazon.nova-2-lite-v1:0")
NOVA = _model("us.amazon.nova-pro-v1:0")
GPT = _model("openai.gpt-oss-120b-1:0")
LLAMA = _model("us.meta.llama3-3-70b-instruct-v1:0")


def _adaptive(effort: str) -> dict[str, Any]:
    thinking = {"type": "adaptive", "display": "summarized"}
    return {
        "outputConfig": {"effort": effort},
        "additionalModelRequestFields": {"thinking": thinking},
    }


def _budget(tokens: int, most: int) -> dict[str, Any]:
    thinking = {"type": "enabled", "budget_tokens": tokens}
    return {
        "inferenceConfig": {"maxTokens": most},
        "additionalModelRequestFields": {"thinking": thinking},
    }


def _nova(effort: str, **inference: Any) -> dict[str, Any]:
    config = {"type": "enabled", "maxReasoningEffort": effort}
    body: dict[str, Any] = {"additionalModelRequestFields": {"reasoningConfig": config}}
    return {**body, "inferenceConfig": inference} if inference else body


TOLD = "thinking: this model cannot be told not to think"

ROWS: list[tuple[str, Model, dict[str, Any], dict[str, Any], list[str]]] = [
    ("nothing", LLAMA, {}, {}, []),
    (
        "tuning",
        LLAMA,
        {"max_tokens": 9, "temperature": 0.2, "top_p": 0.9, "stop": ["A", "B"]},
        {
            "inferenceConfig": {
                "maxTokens": 9,
                "stopSequences": ["A", "B"],
                "temperature": 0.2,
                "topP": 0.9,
            }
        },
        [],
    ),
    ("zero", LLAMA, {"temperature": 0}, {"inferenceConfig": {"temperature": 0}}, []),
    (
        "Claude's either or",
        OLD,
        {"temperature": 0.2, "top_p": 0.9},
        {"inferenceConfig": {"temperature": 0.2}},
        ["top_p: not together with temperature; left out"],
    ),
    ("Claude's top_k", OLD, {"top_k": 5}, {"additionalModelRequestFields": {"top_k": 5}}, []),
    ("top_k of a newer Claude", NEW, {"top_k": 5}, {}, ["top_k: not with this model; left out"]),
    (
        "top_k of others",
        LLAMA,
        {"top_k": 5},
        {},
        ["top_k: how to ask this model for it is not known; left out"],
    ),
    ("top_p alone", OLD, {"top_p": 0.9}, {"inferenceConfig": {"topP": 0.9}}, []),
    (
        "a model without sampling",
        NEW,
        {"temperature": 0.2, "top_p": 0.9},
        {},
        ["temperature: not with this model; left out", "top_p: not with this model; left out"],
    ),
    # thinking, by an effort
    ("minimal", NEW, {"thinking": "minimal"}, _adaptive("low"), []),
    ("medium", NEW, {"thinking": "medium"}, _adaptive("medium"), []),
    ("extra high", NEW, {"thinking": "extra_high"}, _adaptive("xhigh"), []),
    ("a budget", NEW, {"thinking": 9000}, _adaptive("high"), []),
    ("a Claude that nobody knows", UNKNOWN, {"thinking": "extra_high"}, _adaptive("high"), []),
    (
        "one with max",
        _model(CLAUDE, thinking="adaptive", efforts=["low", "high", "max"]),
        {"thinking": "extra_high"},
        _adaptive("max"),
        [],
    ),
    ("a forced call", NEW, {"thinking": "low", "tool_choice": "look"}, _adaptive("low"), []),
    (
        "sampling beside it",
        UNKNOWN,
        {"thinking": "low", "temperature": 0.2, "top_p": 0.9},
        _adaptive("low"),
        [
            "temperature: with thinking it is 1",
            "top_p: with thinking at least 0.95; left out",
        ],
    ),
    (
        "sampling that is allowed",
        UNKNOWN,
        {"thinking": "low", "temperature": 1, "top_p": 0.95},
        {**_adaptive("low"), "inferenceConfig": {"topP": 0.95}},
        [],
    ),
    # thinking, within a budget
    ("a level", OLD, {"thinking": "low"}, _budget(2048, 64_000), []),
    ("a budget that is too small", OLD, {"thinking": 5}, _budget(1024, 64_000), []),
    ("within max_tokens", OLD, {"thinking": 9000, "max_tokens": 5000}, _budget(4999, 5000), []),
    (
        "an older Claude of another region",
        _model("apac.anthropic.claude-sonnet-4-20250514-v1:0"),
        {"thinking": 3000},
        _budget(3000, 7096),
        [],
    ),
    ("without a limit", OLD_UNLIMITED, {"thinking": 3000}, _budget(3000, 7096), []),
    (
        "no room",
        OLD,
        {"thinking": "low", "max_tokens": 1024},
        {"inferenceConfig": {"maxTokens": 1024}},
        ["thinking: max_tokens leaves less than 1024 for it; left out"],
    ),
    (
        "a forced call",
        OLD,
        {"thinking": "low", "tool_choice": "required"},
        {},
        ["thinking: not together with a tool_choice that forces a call; left out"],
    ),
    # thinking, turned off
    ("off, where it is", OLD, {"thinking": "off"}, {}, []),
    ("off, unknown", UNKNOWN, {"thinking": "off"}, {}, []),
    (
        "off, where it thinks",
        _model(CLAUDE, thinking="adaptive", thinking_off="disabled"),
        {"thinking": 0},
        {"additionalModelRequestFields": {"thinking": {"type": "disabled"}}},
        [],
    ),
    ("off, never", _model(CLAUDE, thinking_off="never"), {"thinking": "off"}, {}, [TOLD]),
    # the others' ways
    ("Nova", NOVA_2, {"thinking": "low", "max_tokens": 9}, _nova("low", maxTokens=9), []),
    (
        "Nova's highest",
        NOVA_2,
        {"thinking": "extra_high", "max_tokens": 9, "temperature": 0.2, "top_p": 0.9},
        _nova("high"),
        [
            "max_tokens: not together with the highest effort; left out",
            "temperature: not with this model; left out",
            "top_p: not with this model; left out",
        ],
    ),
    (
        "Nova, off",
        NOVA_2,
        {"thinking": "off"},
        {"additionalModelRequestFields": {"reasoningConfig": {"type": "disabled"}}},
        [],
    ),
    (
        "GPT",
        GPT,
        {"thinking": "minimal"},
        {"additionalModelRequestFields": {"reasoning_effort": "low"}},
        [],
    ),
    ("GPT, off", GPT, {"thinking": "off"}, {}, [TOLD]),
    (
        "a model of which nothing is known",
        LLAMA,
        {"thinking": "low"},
        {},
        ["thinking: how to ask this model for it is not known; left out"],
    ),
    ("the same, off", LLAMA, {"thinking": "off"}, {}, []),
    # caching
    ("a cache", UNKNOWN, {"cache": "auto"}, {}, []),
    (
        "no cache",
        LLAMA,
        {"cache": "auto"},
        {},
        ["cache: this model takes no cache points; left out"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "model", "options", "expected", "changed"), ROWS, ids=[row[0] for row in ROWS]
)
def test_fields(
    name: str,
    model: Model,
    options: dict[str, Any],
    expected: dict[str, Any],
    changed: list[str],
) -> None:
    body, found = parameters(model, StreamOptions(**options))
    assert (body, found) == (expected, changed)
    assert misfits(body) == []


@pytest.mark.parametrize("model", [NOVA, NOVA_2], ids=["Nova", "Nova 2"])
def test_a_ttl_that_the_model_does_not_take_is_said(model: Model) -> None:
    from swink_core import CacheStrategy

    _, changed = parameters(model, StreamOptions(cache=CacheStrategy(ttl=3600)))
    assert changed == ["cache: this model keeps caches as long as it does; the ttl was left out"]


def test_a_schema_is_sent_as_text_and_closed() -> None:
    schema = {"type": "object", "properties": {"ключ": {"type": "string"}}}
    body, _ = parameters(NEW, StreamOptions(response_format=schema, thinking="low"))
    assert misfits(body) == []
    assert body["outputConfig"]["effort"] == "low"
    form = body["outputConfig"]["textFormat"]
    text = form["structure"]["jsonSchema"].pop("schema")
    assert form == {"type": "json_schema", "structure": {"jsonSchema": {}}}
    assert json.loads(text) == {**schema, "additionalProperties": False}
    assert "ключ" in text


def test_a_model_that_does_not_think_is_not_asked_to() -> None:
    model = Model("bedrock", CLAUDE, ModelInfo(CLAUDE, capabilities=frozenset({"tools"})))
    options = StreamOptions(thinking="high")
    assert parameters(model, options) == ({}, [])
    assert [n.code for n in PROVIDER.notices(model, options)] == ["option_ignored"]
