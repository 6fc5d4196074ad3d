"""Routing: rules, aliases, tiers, weights, options and transforms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from serving import Scripted, ask, serving

import swink_core as swink
from swink_core import (
    AssistantMessage,
    Done,
    Start,
    StopReason,
    TextBlock,
    TextDelta,
    TextEnd,
    TextStart,
)
from swink_gateway.policy.config import Config, Source, When
from swink_gateway.policy.routing import Routing
from swink_gateway.policy.rules import fits, is_named
from swink_gateway.policy.served_models import ServedModels
from swink_gateway.protocols import Asked
from swink_gateway.protocols.chat.protocol import ChatProtocol
from swink_gateway.protocols.gemini.protocol import GeminiProtocol
from swink_gateway.protocols.messages.protocol import MessagesProtocol
from swink_gateway.protocols.ollama.protocol import OllamaProtocol
from swink_gateway.protocols.responses.protocol import ResponsesProtocol
from swink_testing.driver import MemoryHTTPClient, MemoryResponse
from swink_testing.freeze import FREEZE, cpu_seconds

ANSWER = [
    [Start(), TextStart(0), TextDelta(0, "Hi"), TextEnd(0), Done(StopReason.STOP, swink.Usage())]
]


def config_of(text: str) -> Config:
    return Source("team.toml", text).config({})


async def asked_for(text: str, body: Mapping[str, Any]) -> Scripted:
    """Return the upstream call that a Chat Completions request leads to."""
    script = Scripted(*ANSWER)
    async with serving(script, config=config_of(text)) as gateway:
        said = {"model": "best", "messages": [{"role": "user", "content": "Hi"}], **body}
        answer = await ask(gateway, "/v1/chat/completions", said)
        assert answer.status == 200, answer.body
    return script


# -- rules -----------------------------------------------------------------------------------------

HI = [{"role": "user", "content": "Hi"}]
LONG = [{"role": "user", "content": "word " * 1000}]
TITLE = {"role": "system", "content": "You are a title generator. You output ONLY a thread title."}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
PARTS = [{"role": "user", "parts": [{"text": "Hi"}]}]

PATH = {"model": "m", "method": "generateContent"}

CHAT, MESSAGES, GEMINI = ChatProtocol(), MessagesProtocol(), GeminiProtocol()
RESPONSES, OLLAMA = ResponsesProtocol(), OllamaProtocol()

REQUESTS: list[tuple[str, Any, dict[str, Any], set[str]]] = [
    ("a word", CHAT, {"messages": HI}, set()),
    ("a word", MESSAGES, {"messages": HI, "max_tokens": 9}, set()),
    ("a word", GEMINI, {"contents": PARTS}, set()),
    ("a word", RESPONSES, {"input": "Hi"}, set()),
    ("a word", OLLAMA, {"messages": HI}, set()),
    ("effort", CHAT, {"messages": HI, "reasoning_effort": "high"}, {"thinking"}),
    ("no effort", CHAT, {"messages": HI, "reasoning_effort": "none"}, set()),
    ("effort", RESPONSES, {"input": "Hi", "reasoning": {"effort": "low"}}, {"thinking"}),
    (
        "Claude Code's",
        MESSAGES,
        {
            "messages": HI, "max_tokens": 32000, "thinking": {"type": "adaptive"},
            "output_config": {"effort": "high"}, "tools": [TOOL],
        },
        {"thinking", "tools"},
    ),
    ("disabled", MESSAGES, {"messages": HI, "thinking": {"type": "disabled"}}, set()),
    (
        "a budget",
        GEMINI,
        {"contents": PARTS, "generationConfig": {"thinkingConfig": {"thinkingBudget": 512}}},
        {"thinking"},
    ),
    ("think", OLLAMA, {"messages": HI, "think": True}, {"thinking"}),
    ("a tool", CHAT, {"messages": HI, "tools": [FUNCTION]}, {"tools"}),
    (
        "a tool", GEMINI, {"contents": PARTS, "tools": [{"functionDeclarations": [{"name": "f"}]}]},
        {"tools"},
    ),
    ("a search", CHAT, {"messages": HI, "web_search_options": {}}, {"web_search"}),
    ("a search", RESPONSES, {"input": "Hi", "tools": [{"type": "web_search"}]}, {"web_search"}),
    (
        "Claude Code's search",
        MESSAGES,
        {"messages": HI, "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"web_search"},
    ),
    ("a search", GEMINI, {"contents": PARTS, "tools": [{"googleSearch": {}}]}, {"web_search"}),
    ("a long text", CHAT, {"messages": LONG}, {"longer_than"}),
    ("opencode's title", CHAT, {"messages": [TITLE, *HI]}, {"background"}),
    (
        "opencode's title",
        MESSAGES,
        {"messages": HI, "max_tokens": 9, "system": [{"type": "text", "text": TITLE["content"]}]},
        {"background"},
    ),
    (
        "Crush's title",
        CHAT,
        {
            "messages": [
                {"role": "system", "content": "You will generate a short title based on the first"},
                *HI,
            ]
        },
        {"background"},
    ),
    (
        "Claude Code's topic",
        MESSAGES,
        {
            "messages": HI, "max_tokens": 9,
            "system": "Analyze if this message indicates a new conversation topic.",
        },
        {"background"},
    ),
    (
        "Claude Code's title",
        MESSAGES,
        {
            "max_tokens": 9,
            "messages": [
                {"role": "user", "content": "Please write a 5-10 word title for the following talk"}
            ],
        },
        {"background"},
    ),
    (
        "a person's title",
        CHAT,
        {"messages": [{"role": "user", "content": "Write a title for my essay on bees"}]},
        set(),
    ),
    ("a title with tools", CHAT, {"messages": [TITLE, *HI], "tools": [FUNCTION]}, {"tools"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def client() -> swink.Client:
    """Return a client that sends no requests."""
    return swink.Client()


FEATURES = {
    "thinking": "true",
    "tools": "true",
    "web_search": "true",
    "background": "true",
    "longer_than": "1000",
}


@pytest.mark.parametrize(
    ("protocol", "body", "features"),
    [request[1:] for request in REQUESTS],
    ids=[f"{protocol.name}-{name}" for name, protocol, _, _ in REQUESTS],
)
def test_a_rule_matches_exactly_these_requests(
    client: swink.Client, protocol: Any, body: dict[str, Any], features: set[str]
) -> None:
    asked: Asked = protocol.read({"model": "m", **body}, PATH, {})
    found = set()
    for name, value in FEATURES.items():
        rules = f'[[rules]]\nwhen.{name} = {value}\nto = "echo/think"'
        routing = Routing(client, config_of(f'{rules}\n[aliases]\nm = "echo/echo"'))
        (((model, _),), _) = routing.routed(asked, "")
        if model.id == "think":
            found.add(name)
    assert found == features


async def test_the_first_rule_whose_conditions_all_hold_decides() -> None:
    config = config_of(
        """
        [aliases]
        claude-haiku = "echo/echo"
        [[rules]]
        when = { models = ["claude-*"], tools = true, thinking = true }
        to = "echo/slow"
        [[rules]]
        when = { models = ["claude-*"], tools = false }
        to = "echo/think"
        [[rules]]
        when = {}
        to = "claude-haiku"
        """
    )
    tool = swink.Tool("f", "", {"type": "object"})
    hi = [swink.UserMessage("Hi")]
    cases = [
        (Asked("claude-haiku", swink.Context(hi, tools=[tool]), {"thinking": "low"}), "slow"),
        (Asked("claude-haiku", swink.Context(hi, tools=[tool])), "echo"),
        (Asked("claude-haiku", swink.Context(hi)), "think"),
        (Asked("gpt", swink.Context(hi)), "echo"),
    ]
    async with swink.Client() as client:
        for asked, model in cases:
            (((found, _),), _) = Routing(client, config).routed(asked, "")
            assert found.id == model


NAMES = [
    ("best", "best", True),
    ("best", "bes", False),
    ("claude-haiku-4", "claude-*", True),
    ("claude-haiku-4", "*haiku*", True),
    ("claude_code/opus", "claude*", False),
    ("groq/openai/gpt-oss", "groq/*", True),
    ("groq/openai/gpt-oss", "*/*oss", True),
    ("groq/x", "*", False),
    ("a.b", "a?b", False),
    ("abcbc", "a*bc", True),
    ("abc", "a*bc*c", False),
    ("aXbXc", "a*b*c", True),
    ("ac", "a*c*c", False),
    ("axb", "a.b", False),
]


@pytest.mark.parametrize(("name", "pattern", "expected"), NAMES)
def test_a_pattern_matches_names_of_its_own_kind(name: str, pattern: str, expected: bool) -> None:
    assert is_named(name, ["nothing", pattern]) is expected


def test_matching_rules_is_fast_for_every_request() -> None:
    many = [swink.SystemMessage("generate a " * 300)] * 10_000
    asked = Asked("a" * 1_000_000, swink.Context([*many, swink.UserMessage("5 " * 1_000_000)]))
    when = When(models=("*a*a*a*a*b*", "*a"), background=True, web_search=False)
    assert not fits(asked, when)
    assert cpu_seconds(lambda: fits(asked, when)) < FREEZE


# -- tiers -----------------------------------------------------------------------------------------

TIERS = """
[routes.best]
tiers = [
  [{ model = "echo/echo", weight = 3 }, "echo/think"],
  "echo/slow",
]
"""


async def test_weights_decide_how_often_a_model_is_first_in_a_tier() -> None:
    asked = Asked("best", swink.Context([swink.UserMessage("Hi")]))
    async with swink.Client() as client:
        routing = Routing(client, config_of(TIERS), Random(1).random)
        chains = [routing.routed(asked, "")[0] for _ in range(1000)]
    ids = [[model.id for model, _ in one] for one in chains]
    assert all(sorted(one[:2]) == ["echo", "think"] and one[2:] == ["slow"] for one in ids)
    first = Counter(one[0] for one in ids)
    assert first["echo"] / first["think"] == pytest.approx(3, rel=0.2)


LONG = "word " * 2000


def turns(first: str, count: int = 1, system: str = "Be brief.") -> swink.Context:
    messages: list[Any] = [swink.UserMessage(first)]
    for number in range(count - 1):
        messages += [AssistantMessage([TextBlock(str(number))]), swink.UserMessage("Go on.")]
    return swink.Context(messages, system)


async def test_all_turns_of_a_conversation_try_the_same_account_first() -> None:
    async with swink.Client() as client:
        routing = Routing(client, config_of(TIERS))
        for number in range(20):
            firsts = {
                routing.routed(Asked("best", turns(f"{number} {LONG}", count)), "")[0][0][0].id
                for count in range(1, 8)
            }
            assert len(firsts) == 1


async def test_a_clients_session_tries_the_same_account_first() -> None:
    async with swink.Client() as client:
        routing = Routing(client, config_of(TIERS))
        for number in range(20):
            options = {"session_id": f"s{number}"}
            firsts = {
                routing.routed(Asked("best", turns(str(n)), options), "")[0][0][0].id
                for n in range(8)
            }
            assert len(firsts) == 1


async def test_conversations_are_spread_over_accounts_by_weight() -> None:
    async with swink.Client() as client:
        routing = Routing(client, config_of(TIERS))
        chains = [
            routing.routed(Asked("best", turns(f"{number} {LONG}")), "")[0]
            for number in range(1000)
        ]
    first = Counter(chain[0][0].id for chain in chains)
    assert first["echo"] / first["think"] == pytest.approx(3, rel=0.3)
    assert all(chain[2][0].id == "slow" for chain in chains)


async def test_a_tier_is_tried_after_the_one_before_it_failed() -> None:
    config = config_of('[routes.best]\ntiers = ["echo/fail-overloaded", "echo/echo"]')
    async with serving(config=config) as gateway:
        said = {"model": "best", "messages": HI}
        answer = await ask(gateway, "/v1/chat/completions", said)
    assert (answer.status, answer.headers["x-swink-model"]) == (200, "echo/echo")


async def test_a_models_options_override_the_routes_and_those_the_clients() -> None:
    route = """
    [routes.best]
    tiers = { model = "echo/echo", options = { top_p = 0.5 } }
    options = { temperature = 0.1, top_p = 0.9 }
    time_limits = { total = 5, idle = false }
    """
    script = await asked_for(route, {"temperature": 2, "top_p": 1, "seed": 3})
    options = script.options
    assert (options.temperature, options.top_p, options.seed) == (0.1, 0.5, 3)
    assert (options.timeouts.total, options.timeouts.idle) == (5, None)


# options of the route, options of the model, the client's options, the number that is sent
CAPPED: list[tuple[str, str, dict[str, Any], int]] = [
    ("max_tokens = 512", "", {}, 256),
    ("max_tokens = 512", "", {"max_tokens": 9}, 256),
    ("", "max_tokens = 512", {"max_tokens": 9}, 256),
    ("max_tokens = 512", "max_tokens = 100", {}, 100),
    ("", "top_p = 0.5", {"max_tokens": 9}, 9),
]


@pytest.mark.parametrize(("routes", "models", "body", "sent"), CAPPED)
async def test_the_maximum_of_a_route_also_limits_its_own_options(
    routes: str, models: str, body: dict[str, Any], sent: int
) -> None:
    route = f"""
    [routes.best]
    tiers = {{ model = "echo/echo", options = {{ {models} }} }}
    options = {{ {routes} }}
    transforms.max_tokens = 256
    """
    script = await asked_for(route, body)
    assert script.options.max_tokens == sent


async def test_the_total_limit_of_a_route_applies_to_all_its_models_together() -> None:
    route = '[routes.best]\ntiers = ["echo/echo", "echo/tool"]\ntime_limits.total = 5'
    script = await asked_for(route, {})
    assert script.options.timeouts.total == 5


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_routes_retry_policy_applies_and_a_complete_answer_may_restart(
    streamed: bool,
) -> None:
    route = "[routes.best]\ntiers = 'echo/echo'\noptions.retry.budget = 7"
    script = await asked_for(route, {"stream": streamed})
    retry = script.options.retry
    assert (retry.budget, retry.restart_after_output) == (7, not streamed)


TRANSFORMS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("defaults = { seed = 1 }", {}, {"seed": 1}),
    ("defaults = { seed = 1 }", {"seed": 2}, {"seed": 2}),
    ("leave_out = ['seed']", {"seed": 2}, {"seed": None}),
    ("leave_out = ['seed']\ntransforms.defaults.seed = 1", {"seed": 2}, {"seed": 1}),
    ("max_tokens = 10", {"max_tokens": 50}, {"max_tokens": 10}),
    ("max_tokens = 10", {"max_tokens": 5}, {"max_tokens": 5}),
    ("max_tokens = 10", {}, {"max_tokens": 10}),
    ("leave_out = ['tools']", {"tools": [FUNCTION], "tool_choice": "required"}, {"tools": []}),
    ("system_prompt = 'Be kind.'", {}, {"system": "Be kind."}),
    (
        "system_prompt = 'Be kind.'",
        {"messages": [{"role": "system", "content": "Be brief."}, *HI]},
        {"system": "Be kind.", "first": "Be brief."},
    ),
]


@pytest.mark.parametrize(("said", "body", "expected"), TRANSFORMS)
async def test_transforms(said: str, body: dict[str, Any], expected: dict[str, Any]) -> None:
    route = f"[routes.best]\ntiers = 'echo/echo'\ntransforms.{said}"
    script = await asked_for(route, body)
    context, found = script.context, dict.fromkeys(expected)
    first: Any = context.messages[0].content
    found["tools"], found["system"], found["first"] = context.tools, context.system_prompt, first
    for name in expected.keys() & swink.StreamOptions.names():
        found[name] = getattr(script.options, name)
    assert {name: found[name] for name in expected} == expected


async def test_options_that_a_transform_drops_are_reported() -> None:
    route = "[routes.best]\ntiers = 'echo/echo'\ntransforms.leave_out = ['seed', 'tools']"
    async with serving(Scripted(*ANSWER), config=config_of(route)) as gateway:
        said = {"model": "best", "messages": HI, "seed": 3, "tools": [FUNCTION]}
        answer = await ask(gateway, "/v1/chat/completions", said)
    assert answer.headers["x-swink-dropped"] == "seed, tools"


VENDORS_WORDS: list[tuple[str, dict[str, Any], str]] = [
    ("max_tokens = 10", {"max_new_tokens": 99, "n": 2}, "max_new_tokens"),
    ("leave_out = ['seed']", {"random_seed": 3, "top_k": 2}, "random_seed"),
    ("leave_out = ['tools']", {"web_search_options": {}}, "web_search_options"),
    ("leave_out = ['thinking']", {"reasoning": {"effort": "high"}, "top_k": 2}, "reasoning"),
    ("leave_out = ['thinking']", {"reasoning_effort": "ultra", "top_k": 2}, "reasoning_effort"),
    ("leave_out = ['thinking']", {"thinking_budget": 9}, "thinking_budget"),
    ("leave_out = ['tool_choice']", {"tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
    ("leave_out = ['tool_choice']", {"function_call": "auto"}, "function_call"),
]
"""A transform, fields of a body of Chat Completions, and the fields that are dropped."""


@pytest.mark.parametrize(("said", "fields", "dropped"), VENDORS_WORDS)
async def test_a_transform_drops_a_vendors_words_for_what_it_limits(
    said: str, fields: dict[str, Any], dropped: str
) -> None:
    route = f"[routes.best]\ntiers = 'openai/gpt-6'\ntransforms.{said}"
    upstream = Scripted(*ANSWER)
    async with serving(upstream, config=config_of(route)) as gateway:
        said_by = {"model": "best", "messages": HI, **fields}
        answer = await ask(gateway, "/v1/chat/completions", said_by)
        own = {"extra": {"max_completion_tokens": 99, "seed": 3, "tools": [{"type": "x"}]}}
        asked = {"model": "best", "messages": HI, "options": own}
        native = await ask(gateway, "/v1/stream", asked)
    assert answer.headers["x-swink-dropped"] == dropped
    extra = upstream.calls[0].options.extra or {}
    assert fields.keys() & extra.keys() == fields.keys() - {dropped}
    assert native.headers["x-swink-dropped"] == "options.extra"
    assert not upstream.calls[1].options.extra


GEMINI, CLAUDE = "/v1beta/models/best:generateContent", "/v1/messages"

NESTED_WORDS: list[tuple[str, str, dict[str, Any], str, dict[str, Any]]] = [
    (
        "leave_out = ['thinking']",
        GEMINI,
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1}, "audioTimestamp": True}},
        "generationConfig.thinkingConfig",
        {"generationConfig": {"audioTimestamp": True}},
    ),
    (
        "leave_out = ['thinking']",
        GEMINI,
        {"generationConfig": {"thinking_config": {"thinking_level": "ULTRA"}}},
        "generationConfig.thinkingConfig",
        {},
    ),
    (
        "leave_out = ['tool_choice']",
        GEMINI,
        {"toolConfig": {"functionCallingConfig": {"mode": "OTHER"}, "retrievalConfig": {}}},
        "toolConfig.functionCallingConfig",
        {"toolConfig": {"retrievalConfig": {}}},
    ),
    (
        "max_tokens = 10",
        GEMINI,
        {"generationConfig": {"MaxOutputTokens": 99}},
        "generationConfig.MaxOutputTokens",
        {},
    ),
    (
        "leave_out = ['thinking']",
        CLAUDE,
        {"output_config": {"effort": "high"}},
        "output_config.effort",
        {},
    ),
    (
        "max_tokens = 10",
        "/v1/chat/completions",
        {"reasoning": {"max_tokens": 99, "exclude": True}, "metadata": {"max_tokens": "9"}},
        "reasoning.max_tokens",
        {"reasoning": {"exclude": True}, "metadata": {"max_tokens": "9"}},
    ),
    (
        "leave_out = ['thinking']",
        "/v1/chat/completions",
        {"chat_template_kwargs": {"enable_thinking": True, "style": "kind"}},
        "chat_template_kwargs.enable_thinking",
        {"chat_template_kwargs": {"style": "kind"}},
    ),
]
"""A transform, a path, fields of a body, the fields that are dropped, and the rest."""

SPEAKERS = {GEMINI: "gemini/gemini-3-pro", CLAUDE: "anthropic/claude-sonnet-5-5"}


@pytest.mark.parametrize(("said", "path", "fields", "dropped", "rest"), NESTED_WORDS)
async def test_a_transform_drops_a_vendors_words_inside_other_fields(
    said: str, path: str, fields: dict[str, Any], dropped: str, rest: dict[str, Any]
) -> None:
    model = SPEAKERS.get(path, "openai/gpt-6")
    route = f"[routes.best]\ntiers = '{model}'\ntransforms.{said}"
    upstream = Scripted(*ANSWER)
    body: dict[str, Any] = {"model": "best", "messages": HI, "max_tokens": 5}
    if path == GEMINI:
        body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    async with serving(upstream, config=config_of(route)) as gateway:
        answer = await ask(gateway, path, {**body, **fields})
    assert answer.status == 200, answer.body
    assert answer.headers["x-swink-dropped"] == dropped
    assert (upstream.options.extra or {}) == rest


MARK = {"cache_control": {"type": "ephemeral"}}
TEXT = {"type": "text", "text": "Hi", **MARK}
HIT = {"type": "search_result", "source": "s", "title": "t", "content": [TEXT], **MARK}
WEB = {"type": "web_search_20250305", "name": "web_search", **MARK}

POINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}

MARKED: list[tuple[str, str, dict[str, Any]]] = [
    (
        "anthropic/claude-opus-5",
        "/v1/messages",
        {
            **MARK,
            "system": [TEXT],
            "messages": [{"role": "user", "content": [HIT, TEXT]}],
            "tools": [{"name": "f", "input_schema": {"type": "object"}, **MARK}, WEB],
        },
    ),
    (
        "openrouter/anthropic/claude-sonnet-4.5",
        "/v1/messages",
        {"system": [TEXT, TEXT], "messages": [{"role": "user", "content": [TEXT]}]},
    ),
    (
        "openrouter/anthropic/claude-sonnet-4.5",
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [TEXT]}], "tools": [{**FUNCTION, **MARK}]},
    ),
    (
        "openai/gpt-5.1",
        "/v1/responses",
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi", **POINT}]}]},
    ),
    (
        "openai/gpt-5.1",
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", **POINT}]}]},
    ),
    (
        "anthropic/claude-opus-5",
        "/v1/stream",
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hi", "metadata": MARK}]}
            ],
            "tools": [{"name": "f", "description": "f", "metadata": {"anthropic": MARK}}],
        },
    ),
]
"""A model, a path, and a body with cache marks."""


@pytest.mark.parametrize(("model", "path", "fields"), MARKED)
async def test_a_route_without_the_option_cache_sends_no_cache_marks(
    model: str, path: str, fields: dict[str, Any]
) -> None:
    route = f"[routes.best]\ntiers = '{model}'\ntransforms.leave_out = ['cache']"
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "busy"}}, 503))
    keys = {model.partition("/")[0]: {"api_key": "k"}}
    async with serving(http=http, providers=keys, config=config_of(route)) as gateway:
        answer = await ask(gateway, path, {"model": "best", **fields})
    (sent,) = http.requests
    assert b"Hi" in sent.body
    assert b"cache_control" not in sent.body
    assert b"prompt_cache_breakpoint" not in sent.body
    assert "cache" in answer.headers["x-swink-dropped"].split(", ")


async def test_a_route_without_cache_marks_of_the_client_may_set_a_strategy() -> None:
    route = """
[routes.best]
tiers = "anthropic/claude-opus-5"
transforms = { leave_out = ["cache"], defaults = { cache = "auto" } }
"""
    upstream = Scripted(*ANSWER)
    body = {"model": "best", "max_tokens": 9, "messages": [{"role": "user", "content": [TEXT]}]}
    async with serving(upstream, config=config_of(route)) as gateway:
        await ask(gateway, "/v1/messages", body)
    assert upstream.options.cache == swink.CacheStrategy()


async def test_a_route_without_tools_refuses_a_block_that_defines_one() -> None:
    route = "[routes.best]\ntiers = 'openai/gpt-6'\ntransforms.leave_out = ['tools']"
    item = {"type": "additional_tools", "tools": [{"type": "web_search"}]}
    async with serving(Scripted(*ANSWER), config=config_of(route)) as gateway:
        said = {"model": "best", "input": [item, {"role": "user", "content": "Hi"}]}
        answer = await ask(gateway, "/v1/responses", said)
    assert answer.status == 400
    assert "offered without tools" in answer.json["error"]["message"]


async def test_only_an_alias_may_name_a_file_path() -> None:
    asked = Asked("/etc/model.gguf", swink.Context([swink.UserMessage("Hi")]))
    aliased = Asked("mine", asked.context)
    async with swink.Client() as client:
        routing = Routing(client, config_of('[aliases]\nmine = "local//etc/model.gguf"'))
        (((model, _),), _) = routing.routed(aliased, "")
        assert model.id == "/etc/model.gguf"
        asked.model = "local//etc/model.gguf"
        with pytest.raises(swink.InvalidModel, match="cannot name files"):
            routing.routed(asked, "")


async def test_clients_can_use_a_provider_that_runs_commands_only_in_a_route() -> None:
    routes = '[routes.agent]\ntiers = "claude-code/opus"\n[aliases]\nmine = "claude-code/opus"'
    context = swink.Context([swink.UserMessage("@/etc/passwd")])
    async with swink.Client() as client:
        routing = Routing(client, config_of(f'{routes}\n[keys.b]\nkey = "sha256:{"0" * 64}"'))
        for name in ("agent", "mine"):
            (((model, _),), _) = routing.routed(Asked(name, context), "b")
            assert str(model) == "claude-code/opus"
        for owner in ("b", ""):
            with pytest.raises(swink.InvalidModel, match="only in a route"):
                routing.routed(Asked("claude-code/opus", context), owner)
        served = ServedModels(routing, "b")
        assert "claude-code" not in {*served.providers(), *(m.provider for m in served.models())}
        assert "openai" in served.providers()
