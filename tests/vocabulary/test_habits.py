"""Names of other libraries: which are understood, and what the others are answered with."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core.vocabulary.habits import (
    CONTEXT_WORDS,
    HABITS,
    READ_AS,
    in_own_words,
    missing_part,
)

# (name, value, the option that means the same, its value)
UNDERSTOOD: list[tuple[str, Any, str, Any]] = [
    ("api_base", "x", "base_url", "x"),
    ("budget_tokens", 5, "thinking", 5),
    ("extra_body", {}, "extra", {}),
    ("extra_headers", {}, "headers", {}),
    ("instructions", "x", "system_prompt", "x"),
    ("max_completion_tokens", 5, "max_tokens", 5),
    ("max_new_tokens", 5, "max_tokens", 5),
    ("max_output_tokens", 5, "max_tokens", 5),
    ("max_retries", 0, "retry", False),
    ("max_tokens_to_sample", 5, "max_tokens", 5),
    ("num_retries", None, "retry", None),
    ("random_seed", 5, "seed", 5),
    ("reasoning", {"effort": "none"}, "thinking", "off"),
    ("reasoning", {"max_tokens": 5}, "thinking", 5),
    ("reasoning_effort", "low", "thinking", "low"),
    ("reasoning_effort", "xhigh", "thinking", "extra_high"),
    ("reasoning_effort", None, "thinking", None),
    ("retries", 0, "retry", False),
    ("stop_sequences", ["x"], "stop", ["x"]),
    ("system", "x", "system_prompt", "x"),
    ("system_instruction", "x", "system_prompt", "x"),
    ("thinking_budget", 5, "thinking", 5),
]

# by name, a part of the advice
ANSWERED: dict[str, str] = {
    "attachments": "image(",
    "budget": "Limits(",
    "callbacks": "plugins=",
    "default_headers": "providers=",
    "fallbacks": "list of models",
    "function_call": "tool_choice=",
    "functions": "tools=",
    "images": "image(",
    "limit": "gather(",
    "logit_bias": "{'logit_bias': …}",
    "logprobs": "{'logprobs': …}",
    "max_budget": "Limits(",
    "max_cost": "Limits(",
    "max_tool_calls": "Limits(tool_calls=",
    "metadata": "{'metadata': …}",
    "mock_response": "echo/echo",
    "model_name": "first argument",
    "output_format": "answer(",
    "output_schema": "answer(",
    "output_type": "answer(",
    "request_timeout": "timeout=",
    "response_model": "answer(",
    "response_schema": "answer(",
    "result_type": "answer(",
    "schema": "answer(",
    "service_tier": "{'service_tier': …}",
    "store": "{'store': …}",
    "stream": "complete(",
    "top_logprobs": "{'top_logprobs': …}",
    "usage_limits": "Limits(",
}


def test_the_tables_above_have_every_name() -> None:
    assert {row[0] for row in UNDERSTOOD} | set(ANSWERED) | {"n"} == set(HABITS)


@pytest.mark.parametrize(("name", "value", "option", "converted"), UNDERSTOOD)
def test_a_name_that_means_the_same_stands_for_the_option(
    name: str, value: Any, option: str, converted: Any
) -> None:
    assert in_own_words({name: value, "top_p": 1}) == {option: converted, "top_p": 1}
    with pytest.raises(ValueError, match=f"{name} and {option} are the same option") as caught:
        in_own_words({name: value, option: None})
    assert caught.value.args[1] == f"Write {option} alone."


@pytest.mark.parametrize("name", ANSWERED)
def test_another_name_is_answered_with_advice(name: str) -> None:
    with pytest.raises(ValueError, match=f"no option '{name}'") as caught:
        in_own_words({name: 1})
    assert ANSWERED[name] in caught.value.args[1]


# (name, a value that means something else, a part of the advice)
OTHER_VALUES: list[tuple[str, Any, str]] = [
    ("n", 2, "gather("),
    ("max_retries", 3, "RetryPolicy("),
    ("num_retries", False, "RetryPolicy("),
    ("retries", True, "RetryPolicy("),
    ("reasoning", {"effort": "low", "summary": "auto"}, "thinking="),
    ("reasoning", {"max_tokens": 5, "effort": "low"}, "thinking="),
    ("reasoning", {"max_tokens": "5"}, "thinking="),
    ("reasoning", {"effort": 5}, "thinking="),
]


@pytest.mark.parametrize(("name", "value", "advice"), OTHER_VALUES)
def test_a_value_that_means_something_else_is_answered_with_advice(
    name: str, value: Any, advice: str
) -> None:
    with pytest.raises(ValueError, match=f"no option '{name}'") as caught:
        in_own_words({name: value})
    assert advice in caught.value.args[1]


def test_options_without_such_names_are_copied_unchanged() -> None:
    given: dict[str, Any] = {"top_p": 1, "stop": ["x"]}
    options = in_own_words(given)
    assert options == given
    assert options is not given


def test_one_answer_is_what_a_call_has_anyway() -> None:
    assert in_own_words({"n": 1}) == {}


def test_names_of_the_context_are_those_of_other_libraries() -> None:
    expected = {"contents", "conversation", "input", "inputs", "messages", "prompt", "text"}
    assert set(CONTEXT_WORDS) == expected


# by whole and name of an attribute, a part of the advice
ATTRIBUTES: dict[tuple[str, str], str] = {
    ("message", "choices"): "message.text is",
    ("message", "content_blocks"): "message.content has",
    ("message", "finish_reason"): "message.stop_reason",
    ("message", "message"): "this is the message",
    ("message", "output"): "message.content has",
    ("message", "output_text"): "message.text is",
    ("message", "parsed"): "answer(",
    ("message", "reasoning_content"): "message.thinking",
    ("message", "usage_metadata"): "message.usage",
    ("event", "choices"): "event.delta",
    ("event", "content"): "stream.text",
    ("event", "text"): "stream.text",
}


def test_every_attribute_of_other_libraries_is_answered() -> None:
    assert {(whole, name) for whole in READ_AS for name in READ_AS[whole]} == set(ATTRIBUTES)
    for (whole, name), advice in ATTRIBUTES.items():
        error = missing_part(whole, 5, name)
        assert str(error).startswith(f"'int' object has no attribute {name!r}; ")
        assert advice in str(error)
        assert (error.name, error.obj) == (name, 5)
    assert str(missing_part("message", 5, "colour")) == "'int' object has no attribute 'colour'"
