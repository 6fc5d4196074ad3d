"""Reservations and charges: tables of prices, options and usage."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    AudioBlock,
    CacheStrategy,
    Charge,
    Context,
    Cost,
    ExtensionBlock,
    Model,
    ModelInfo,
    StreamOptions,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    UrlSource,
    Usage,
    UserMessage,
    replace,
)
from swink_core.vocabulary.charges import (
    OUTPUT_RATE,
    SEARCH_TOKENS,
    TYPICAL_OUTPUT,
    completed_usage,
    reservation,
    reserved,
    reserved_output,
    tokens_of,
)
from swink_core.vocabulary.hosted_tools import SEARCHES, hosted_tools, searches_of
from swink_core.vocabulary.outcome import dollars_of
from swink_core.vocabulary.prices import PriceCase, Prices
from swink_core.vocabulary.tokens import MediaTokens
from swink_testing.calls import call_of

AT = datetime(2026, 11, 25, tzinfo=UTC)
M = 1_000_000

PRICES = Prices(
    input=1.0,
    output=4.0,
    cache_read=0.1,
    cache_write=1.25,
    cache_write_long=2.0,
    fees={"requests": 0.5},
    cases=(
        PriceCase(above=200_000, input=3.0),
        PriceCase(terms=("priority",), factor=2.0),
        PriceCase(terms=("us",), factor=1.1),
        PriceCase(terms=("flex",), factor=0.5),
    ),
)
MODEL = ModelInfo("large", "acme", prices=PRICES, max_output=8_000)

SEARCHING = replace(MODEL, prices=replace(PRICES, fees={"searches": 0.01, "file_searches": 0.0025}))

# (extra, searches)
SEARCHES_OF: list[tuple[dict[str, Any], dict[str, int]]] = [
    ({"tools": [{"type": "web_search_20250305", "max_uses": 100}]}, {"searches": 100}),
    ({"tools": [{"type": "web_search_20250305", "max_uses": "7"}]}, {"searches": 7}),
    ({"tools": [{"type": "web_search_20250305", "max_uses": 10**400}]}, {"searches": 2**62}),
    ({"tools": [{"type": "web_search_20250305", "max_uses": "-Infinity"}]},
     {"searches": SEARCHES}),
    ({"tools": [{"type": "web_search_20250305"}], "max_tool_calls": 9}, {"searches": SEARCHES}),
    ({"tools": [{"type": "web_search_preview"}], "max_tool_calls": 9}, {"searches": 9}),
    ({"tools": [{"type": "web_search_preview"}], "max_tool_calls": 2}, {"searches": SEARCHES}),
    ({"tools": [{"type": "web_search", "max_uses": 1}]}, {"searches": SEARCHES}),
    ({"tools": [{"type": "web_search"}]}, {"searches": SEARCHES}),
    ({"tools": [{"type": "web_search_20250305", "max_uses": 0}]}, {"searches": SEARCHES}),
    ({"tools": [{"type": "web_search_20250305", "max_uses": -9}]}, {"searches": SEARCHES}),
    ({"tools": [{"type": "web_search"}], "max_tool_calls": "-9"}, {"searches": SEARCHES}),
    ({"tools": [{"googleSearch": {}, "urlContext": {}}]}, {"searches": SEARCHES}),
    ({"tools": [{"type": "x_search"}, {"type": "web_search"}]}, {"searches": 2 * SEARCHES}),
    ({"tools": [{"type": "mcp", "googleSearch": {}}]}, {"searches": SEARCHES}),
    ({"tools": ["web_search"]}, {"searches": SEARCHES}),
    ({"tools": [["web_search"]]}, {"searches": SEARCHES}),
    ({"enable_search": False}, {}),
    ({"tools": [{"type": "namespace", "tools": [{"type": "web_search"}]}]},
     {"searches": SEARCHES}),
    ({"toolConfig": {"tools": [{"googleSearch": {}}]}}, {"searches": SEARCHES}),
    ({"tools": [{"type": "web_search"}], "web_search_options": {}}, {"searches": 2 * SEARCHES}),
    ({"tools": [{"type": "web_search"}], "enable_search": None}, {"searches": SEARCHES}),
    ({"web_search_options": {}, "tools": [{"type": "web_search"}]}, {"searches": 2 * SEARCHES}),
    ({"tools": [{"type": "file_search"}, {"type": "web_search"}]},
     {"file_searches": SEARCHES, "searches": SEARCHES}),
    ({"web_search_options": {}, "search_mode": "web"}, {"searches": SEARCHES}),
    ({"tools": [{"type": "tool_search_tool_regex_20251119"}, {"type": "mcp"}]}, {}),
    ({"tool_choice": {"type": "allowed_tools", "tools": [{"type": "web_search"}]}}, {}),
    ({"tools": [{"type": "function", "parameters": {"tools": ["web_search"]}}]}, {}),
    ({"tools": [{"type": "tool_search"}]}, {}),
    ({"tools": [{"fileSearch": {}}]}, {"file_searches": SEARCHES}),
    ({"tools": {"type": "web_search"}}, {}),
    ({"seed": 1}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("extra", "searches"), SEARCHES_OF, ids=str)
def test_searches_by_tools_of_the_provider_are_counted_by_the_limit_of_the_request(
    extra: dict[str, Any], searches: dict[str, int]
) -> None:
    assert searches_of(Context([]), StreamOptions(extra=extra)) == searches


# fields of requests whose values are no tools of the provider, though they may look like them
NOT_TOOLS = [
    "arguments", "chat_template_kwargs", "configs", "documents", "guided_json", "input_examples",
    "input_schema", "inputSchema", "json_schema", "parameters", "responseJsonSchema",
    "responseSchema", "response_json_schema", "response_schema", "schema", "structured_outputs",
    "toolChoice", "tool_choice",
]  # fmt: skip


@pytest.mark.parametrize("field", NOT_TOOLS)
def test_no_search_is_counted_for_a_schema_arguments_or_a_choice(field: str) -> None:
    options = StreamOptions(extra={field: {"tools": [{"type": "web_search"}]}})
    assert searches_of(Context([]), options) == {}


FOUND = {"type": "web_search"}
ADDITION = {"type": "tool_addition", "tool": FOUND}
HIDDEN = {"type": "mcp_list_tools", "item": {"tools": [FOUND]}}
USED = {"type": "mcp_tool_use", "input": {"tools": ["web_search"], "tool": FOUND}}
LISTED = {"type": "mcp_list_tools", "tools": [{**FOUND, "name": "search", "input_schema": {}}]}

# (where a tool of the provider is, searches)
ELSEWHERE: list[tuple[Context, int]] = [
    (Context([SystemMessage([ExtensionBlock("a", "b", {"tools": [FOUND]})])]), SEARCHES),
    (Context([UserMessage([ExtensionBlock("a", "b", ADDITION)])]), SEARCHES),
    (Context([AssistantMessage([ExtensionBlock("a", "b", [{"tools": [FOUND]}])])]), SEARCHES),
    (Context([UserMessage([TextBlock("Hi", {"tools": [FOUND]})])]), SEARCHES),
    (Context([], None, [Tool("f", "", {}, metadata={"a": FOUND})]), SEARCHES),
    (Context([], None, [Tool("f", "", {}, metadata={"a": {"tools": [FOUND]}})]), SEARCHES),
    (Context([AssistantMessage([ThinkingBlock("Hm", metadata=HIDDEN)])]), SEARCHES),
    (Context([UserMessage([ExtensionBlock("a", "b", {**ADDITION, "of": ["web_search"]})])]),
     SEARCHES),
    (Context([UserMessage([ExtensionBlock("a", "b", {"type": "x", "tool": FOUND})])]), 0),
    (Context([UserMessage([ExtensionBlock("a", "b", {"input": [{"tools": [FOUND]}]})])]), SEARCHES),
    (Context([AssistantMessage([ExtensionBlock("a", "b", LISTED)])]), 0),
    (Context([AssistantMessage([ExtensionBlock("a", "b", USED)])]), 0),
    (Context([], None, [Tool("search", "web_search", {}, metadata={"a": {"strict": True}})]), 0),
]  # fmt: skip


@pytest.mark.parametrize(("context", "searches"), ELSEWHERE, ids=repr)
def test_tools_of_the_provider_in_a_conversation_are_counted_too(
    context: Context, searches: int
) -> None:
    assert searches_of(context, StreamOptions()).get("searches", 0) == searches


def test_fields_of_a_clients_tool_are_those_of_a_function_unless_they_say_otherwise() -> None:
    metadata: dict[str, dict[str, Any]] = {"a": {"strict": True}, "b": {"type": "custom"}}
    context = Context([], None, [Tool("f", metadata=metadata), Tool("g")])
    assert list(hosted_tools(context)) == [
        {"type": "function", "strict": True},
        {"type": "custom"},
    ]


# (extra, US dollars)
SEARCH_COSTS: list[tuple[dict[str, Any], float]] = [
    ({"tools": [{"type": "web_search_20250305", "max_uses": 100}]}, 2.403 + 0.004 + 1.0),
    ({"tools": [{"type": "web_search"}], "n": 2}, 0.081 * 1.25 + 0.008 + 10 * 0.01),
    ({"tools": [{"type": "file_search"}]}, 0.041 * 1.25 + 0.004 + 5 * 0.0025),
    ({"tools": [{"type": "web_search_20250305", "max_uses": 1}], "service_tier": "priority"},
     2 * (0.009 * 1.25 + 0.004) + 0.01),
]  # fmt: skip


@pytest.mark.parametrize(("extra", "dollars"), SEARCH_COSTS, ids=str)
def test_a_reservation_has_the_fees_and_the_results_of_searches(
    extra: dict[str, Any], dollars: float
) -> None:
    options = StreamOptions(max_tokens=1_000, extra=extra)
    charge = reserved(1_000, SEARCHING, Context([]), options, AT)
    assert charge.cost == pytest.approx(dollars)


# (prompt, options, US dollars)
RESERVED: list[tuple[int, dict[str, Any], float]] = [
    (100_000, {"max_tokens": 1_000}, 0.125 + 0.004 + 0.5),
    (300_000, {"max_tokens": 1_000}, 0.9 + 0.004 + 0.5),
    (100_000, {"max_tokens": 1_000, "extra": {"n": 5}}, 0.125 + 0.020 + 0.5),
    (100_000, {"max_tokens": 1_000, "extra": {"service_tier": "priority"}}, 0.258 + 0.5),
    (100_000, {"max_tokens": 1_000, "extra": {"serviceTier": "priority"}}, 0.258 + 0.5),
    (100_000, {"max_tokens": 1_000, "extra": {"speed": "priority"}}, 0.258 + 0.5),
    (100_000, {"max_tokens": 1_000, "extra": {"inference_geo": "us"}}, 0.1419 + 0.5),
    (100_000, {"max_tokens": 1_000, "extra": {"service_tier": "flex"}}, 0.104 + 0.5),
    (100_000, {"max_tokens": 1_000, "cache": CacheStrategy()}, 0.125 + 0.004 + 0.5),
    (100_000, {"max_tokens": 1_000, "cache": CacheStrategy(ttl=3600)}, 0.2 + 0.004 + 0.5),
    (100_000, {}, 0.125 + TYPICAL_OUTPUT * 4 / M + 0.5),
]


@pytest.mark.parametrize(("prompt", "options", "dollars"), RESERVED)
def test_a_reservation_has_cases_tiers_fees_cache_and_the_number_of_answers(
    prompt: int, options: dict[str, Any], dollars: float
) -> None:
    charge = reserved(prompt, MODEL, Context([]), StreamOptions(**options), AT)
    assert charge.cost == pytest.approx(dollars)
    assert charge.estimated


SPEAKING = ModelInfo(
    "voice",
    prices=Prices(
        input=2.0, output=10.0, input_audio=32.0, output_audio=64.0, fees={"audio_seconds": 0.001}
    ),
    media=MediaTokens(audio_second=10),
)
SILENT = Context([])
SOUND = Context([UserMessage([AudioBlock(UrlSource("https://a.example"))])])
DEAR_TEXT = ModelInfo("text", prices=Prices(input=2.0, output=10.0, output_audio=1.0))
VOICE = {"modalities": ["text", "audio"]}

# (model, prompt, conversation, extra, US dollars of the prompt and of 1,000 tokens of output)
AUDIO: list[tuple[ModelInfo, int, Context, dict[str, Any], float]] = [
    (SPEAKING, 10_000, Context([]), {}, 0.02 + 0.01),
    (SPEAKING, 10_000, SOUND, {}, 6_000 * 32 / M + 4_000 * 2 / M + 0.6 + 0.01),
    (SPEAKING, 1_000, SOUND, {}, 0.032 + 0.6 + 0.01),
    (SPEAKING, 10_000, Context([]), VOICE, 0.02 + 0.064),
    (SPEAKING, 10_000, Context([]), {"modalities": ["text"]}, 0.02 + 0.01),
    (SPEAKING, 10_000, Context([]), {"generationConfig": {"responseModalities": ["AUDIO"]}},
     0.02 + 0.064),
    (SPEAKING, 10_000, Context([]), {"response_modalities": ["audio"]}, 0.02 + 0.064),
    (SPEAKING, 10_000, Context([]), {**VOICE, "service_tier": "flex"}, 0.02 + 0.064),
    (DEAR_TEXT, 10_000, Context([]), VOICE, 0.02 + 0.01),
]  # fmt: skip


@pytest.mark.parametrize(("model", "prompt", "context", "extra", "dollars"), AUDIO)
def test_a_reservation_has_the_price_of_audio(
    model: ModelInfo, prompt: int, context: Context, extra: dict[str, Any], dollars: float
) -> None:
    options = StreamOptions(max_tokens=1_000, extra=extra)
    assert reserved(prompt, model, context, options, AT).cost == pytest.approx(dollars)


# (usage that the provider reports, is complete, quantities of audio)
ESTIMATED_AUDIO: list[tuple[Usage | None, bool, dict[str, Any]]] = [
    (None, False, {"input_audio": 600, "audio_seconds": 60, "output_audio": 30}),
    (Usage(800), False, {"output_audio": 30}),
    (Usage(800, 40, extra={"output_audio": 20}), True, {"output_audio": 20}),
    (Usage(None, 40), True, {"input_audio": 600, "audio_seconds": 60}),
]


@pytest.mark.parametrize(("reported", "is_complete", "audio"), ESTIMATED_AUDIO)
def test_an_estimate_counts_audio(
    reported: Usage | None, is_complete: bool, audio: dict[str, Any]
) -> None:
    options = StreamOptions(extra=VOICE)
    usage = completed_usage(reported, 700, 30, 0.0, is_complete, SPEAKING, options, SOUND)
    assert usage.extra == audio


COMPACT = {"edits": [{"type": "clear_tool_uses_20250919"}, {"type": "compact_20260112"}]}

# (prompt, context management, reserved tokens)
COMPACTIONS: list[tuple[int, Any, int]] = [
    (50_000, COMPACT, 100_000 + TYPICAL_OUTPUT + 7),
    (49_999, COMPACT, 49_999 + 7),
    (50_000, {"edits": [{"type": "clear_tool_uses_20250919"}]}, 50_000 + 7),
    (50_000, {"edits": None}, 50_000 + 7),
    (50_000, {"edits": ["compact"]}, 50_000 + 7),
    (10, [{"type": "compaction", "compact_threshold": 5}], 20 + TYPICAL_OUTPUT + 7),
]


@pytest.mark.parametrize(("prompt", "setting", "tokens"), COMPACTIONS)
def test_a_reservation_has_the_tokens_of_a_compaction(
    prompt: int, setting: Any, tokens: int
) -> None:
    options = StreamOptions(max_tokens=7, extra={"context_management": setting})
    assert reserved(prompt, None, Context([]), options, AT).tokens == tokens


HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
MINUTES = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}
HALF_AN_HOUR = {"cache_control": {"type": "ephemeral", "ttl": "30m"}}

# (where a mark of the cache is, with the mark)
MARKED: list[Callable[[dict[str, Any]], tuple[Context, dict[str, Any]]]] = [
    lambda mark: (Context([UserMessage([TextBlock("Hi", mark)])]), {}),
    lambda mark: (Context([UserMessage("Hi")], [TextBlock("Hi", mark)]), {}),
    lambda mark: (
        Context([UserMessage("Hi")], None, [Tool("f", "", {}, metadata={"a": mark})]),
        {},
    ),
    lambda mark: (Context([UserMessage([ExtensionBlock("a", "b", {"c": [mark]})])]), {}),
    lambda mark: (Context([UserMessage("Hi")]), {"extra": mark}),
    lambda mark: (Context([UserMessage("Hi")]), {"extra": {"tools": [mark]}}),
]


@pytest.mark.parametrize("marked", MARKED)
def test_a_mark_for_an_hour_reserves_the_price_of_long_cache_writes(
    marked: Callable[[dict[str, Any]], tuple[Context, dict[str, Any]]],
) -> None:
    for mark, price in ((HOUR, 2.0), (MINUTES, 1.25), (HALF_AN_HOUR, 1.25)):
        context, options = marked(mark)
        sent = StreamOptions(max_tokens=1_000, **options)
        charge = reservation(MODEL, None, context, sent)
        prompt = charge.tokens - 1_000
        assert charge.cost == pytest.approx(prompt * price / M + 0.004 + 0.5)


# (model, options, tokens)
OUTPUTS: list[tuple[ModelInfo | None, dict[str, Any], int]] = [
    (None, {}, TYPICAL_OUTPUT),
    (MODEL, {}, TYPICAL_OUTPUT),
    (ModelInfo("small", max_output=500), {}, 500),
    (ModelInfo("long", typical_output=20_000), {}, 20_000),
    (MODEL, {"max_tokens": 7}, 7),
    (MODEL, {"max_tokens": 7, "extra": {"generationConfig": {"candidateCount": 3}}}, 21),
    (MODEL, {"max_tokens": 7, "extra": {"generationConfig": {"candidate_count": 3}}}, 21),
    (MODEL, {"max_tokens": 7, "extra": {"n": 3.0}}, 21),
    (MODEL, {"max_tokens": 7, "extra": {"n": "3"}}, 21),
    (MODEL, {"max_tokens": 7, "extra": {"best_of": 3}}, 21),
    (MODEL, {"max_tokens": 7, "extra": {"n": "many", "best_of": None}}, 7),
    (MODEL, {"max_tokens": 7, "extra": {"generationConfig": {"maxOutputTokens": 9_000}}}, 9_000),
    (MODEL, {"max_tokens": 7, "extra": {"max_output_tokens": "9000", "max_tokens": 1}}, 9_000),
    (MODEL, {"extra": {"options": {"num_predict": 90_000}, "n": 2}}, 180_000),
    (MODEL, {"max_tokens": 7, "extra": {"max_completion_tokens": None}}, 7),
]


@pytest.mark.parametrize(("model", "options", "tokens"), OUTPUTS)
def test_without_max_tokens_a_typical_output_is_reserved(
    model: ModelInfo | None, options: dict[str, Any], tokens: int
) -> None:
    assert reserved_output(model, StreamOptions(**options)) == tokens


# (fields of a request, whether MODEL's prices cover it)
COVERED: list[tuple[dict[str, Any], bool]] = [
    ({"service_tier": "priority"}, True),
    ({"service_tier": "ultrafast"}, False),
    ({"serviceTier": {"type": "priority"}}, True),
    ({"serviceTier": {"type": "reserved"}}, False),
    ({"service_tier": "flex", "speed": "standard"}, True),
    ({"service_tier": "default", "speed": "fast"}, False),
    ({"generationConfig": {"serviceTier": "SLOW"}}, False),
    ({"service_tier": None}, True),
    ({"inference_geo": "us"}, True),
    ({"tools": [{"type": "web_search"}]}, False),
    ({"web_search_options": {}}, False),
]


@pytest.mark.parametrize(("extra", "is_covered"), COVERED, ids=str)
def test_a_request_for_a_search_or_a_tier_without_a_price_has_no_reserved_cost(
    extra: dict[str, Any], is_covered: bool
) -> None:
    charge = reserved(10, MODEL, Context([]), StreamOptions(max_tokens=5, extra=extra), AT)
    assert (charge.cost is not None) == is_covered
    assert charge.tokens >= 15


def test_a_model_without_prices_has_tokens_and_no_cost() -> None:
    options = StreamOptions(max_tokens=5)
    assert reserved(10, None, Context([]), options, AT) == Charge(15, None, True)


# (reported, estimated prompt, tokens seen, seconds, is complete, input, output)
COMPLETED = [
    (None, 100, 0, 0.0, False, 100, 0),
    (None, 100, 30, 0.0, False, 100, 30),
    (None, 100, 30, 2.0, False, 100, int(2 * OUTPUT_RATE)),
    (None, 100, 30, 1e6, False, 100, 2_000),
    (None, 100, 3_000, 1e6, False, 100, 3_000),
    (Usage(70, 1), 100, 30, 0.0, False, 70, 30),
    (Usage(70, 50), 100, 30, 0.0, False, 70, 50),
    (Usage(None, 50), 100, 30, 9.0, True, 100, 50),
]


@pytest.mark.parametrize(
    ("reported", "prompt", "seen", "seconds", "is_complete", "input", "output"), COMPLETED
)
def test_missing_usage_is_completed(
    reported: Usage | None,
    prompt: int,
    seen: int,
    seconds: float,
    is_complete: bool,
    input: int,
    output: int,
) -> None:
    options = StreamOptions(max_tokens=2_000)
    usage = completed_usage(reported, prompt, seen, seconds, is_complete, MODEL, options, SILENT)
    assert (usage.input, usage.output, usage.total) == (input, output, input + output)


@pytest.mark.parametrize(
    ("info", "rate"),
    [(None, OUTPUT_RATE), (ModelInfo("a"), OUTPUT_RATE), (ModelInfo("a", output_rate=40), 40)],
)
def test_an_answer_that_broke_off_was_written_at_the_rate_of_its_model(
    info: ModelInfo | None, rate: float
) -> None:
    usage = completed_usage(None, 100, 0, 2.0, False, info, StreamOptions(), SILENT)
    assert usage.output == 2 * rate


TEN = {"tools": [{"type": "web_search_20250305", "max_uses": 10}]}

# (reported usage, seconds, is complete, counted searches, prompt tokens)
SEARCHED: list[tuple[Usage | None, float, bool, int, int]] = [
    (None, 0.0, False, 0, 100),
    (None, 0.1, False, 1, 100 + SEARCH_TOKENS),
    (None, 2.0, False, 4, 100 + 4 * SEARCH_TOKENS),
    (None, 1e6, False, 10, 100 + 10 * SEARCH_TOKENS),
    (Usage(70, 1), 2.0, False, 4, 70 + 4 * SEARCH_TOKENS),
    (Usage(70, 1, extra={"searches": 3}), 2.0, False, 4, 70 + SEARCH_TOKENS),
    (Usage(70, 1, extra={"searches": 12}), 2.0, False, 12, 70),
    (Usage(None, 1), 2.0, True, 0, 100),
]


@pytest.mark.parametrize(("reported", "seconds", "is_complete", "searches", "prompt"), SEARCHED)
def test_searches_of_an_answer_that_broke_off_are_counted_by_its_time(
    reported: Usage | None, seconds: float, is_complete: bool, searches: int, prompt: int
) -> None:
    options = StreamOptions(max_tokens=2_000, extra=TEN)
    usage = completed_usage(reported, 100, 30, seconds, is_complete, SEARCHING, options, SILENT)
    assert (usage.extra.get("searches", 0), usage.input) == (searches, prompt)


def test_several_answers_are_written_at_the_same_time() -> None:
    options = StreamOptions(max_tokens=2_000, extra={"n": 3})
    for seconds, output in ((2.0, 3 * int(2 * OUTPUT_RATE)), (1e6, 6_000)):
        usage = completed_usage(None, 100, 30, seconds, False, MODEL, options, SILENT)
        assert usage.output == output


# (usage that the provider reports, US dollars of 1,000 tokens of prompt and 1,000 of output)
BY_TIER: list[tuple[Usage | None, float]] = [
    (None, 2 * 0.005 + 0.5),
    (Usage(1_000), 2 * 0.005 + 0.5),
    (Usage(1_000, extra={"service_tier": "default"}), 0.005 + 0.5),
]


@pytest.mark.parametrize(("reported", "dollars"), BY_TIER)
def test_an_estimate_has_the_price_of_the_requested_tier(
    reported: Usage | None, dollars: float
) -> None:
    options = StreamOptions(max_tokens=1_000, extra={"service_tier": "priority"})
    attempt = call_of(None, Model("acme", "large", MODEL), options=options).attempt
    attempt.about(Context([]), lambda model, context: 1_000)
    attempt.begin(0.0)
    attempt.end(0.0)
    attempt.settle(reported, None, 1_000, is_complete=False, at=AT)
    assert attempt.charge.cost == pytest.approx(dollars)
    assert attempt.charge.estimated


# (cost, US dollars)
DOLLARS: list[tuple[Cost | None, float | None]] = [
    (None, None),
    (Cost(), None),
    (Cost(1.0, 2.0, 4.0, 8.0, 32.0, fees=16.0), 32.0),
    (Cost(total=0.0), 0.0),
    (Cost(1.0, 2.0, 4.0, 8.0, None, fees=16.0), 31.0),
    (Cost(1.0), 1.0),
    (Cost(output=2.0), 2.0),
    (Cost(cache_read=4.0), 4.0),
    (Cost(cache_write=8.0), 8.0),
    (Cost(fees=16.0), 16.0),
    (Cost(0.0), 0.0),
]


@pytest.mark.parametrize(("cost", "dollars"), DOLLARS)
def test_a_cost_without_a_total_is_the_sum_of_its_known_parts(
    cost: Cost | None, dollars: float | None
) -> None:
    assert dollars_of(cost) == dollars


# (usage, tokens of the prompt and the output)
TOKENS: list[tuple[Usage, int]] = [
    (Usage(), 0),
    (Usage(3), 3),
    (Usage(output=4), 4),
    (Usage(3, 4), 7),
    (Usage(3, 4, total=9), 9),
    (Usage(3, 4, total=5), 7),
    (Usage(total=5), 5),
]


@pytest.mark.parametrize(("usage", "tokens"), TOKENS)
def test_the_tokens_of_a_usage_are_its_prompt_and_output(usage: Usage, tokens: int) -> None:
    assert tokens_of(usage) == tokens


def test_charges_add_up() -> None:
    one, unknown = Charge(1, 0.5), Charge(2, None, True)
    assert one + one == Charge(2, 1.0)
    assert one + unknown == Charge(3, 0.5, True)
    assert unknown + unknown == Charge(4, None, True)
