"""A key for some models cannot reach another model through other fields of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from serving import Answer, Scripted, ask, serving

import swink_core as swink
from swink_core import StopReason, TextDelta, TextEnd, TextStart
from swink_gateway.policy.config import Source

KEYS = """
[keys.alice]
key = "${A}"
models = [
    "openrouter/cheap", "anthropic/claude-haiku-*", "openai/*-mini", "gemini/*-flash", "ollama/*",
]
[keys.bob]
key = "${B}"
[keys.carol]
key = "${C}"
dollars_per_day = 1000
[keys.dave]
key = "${D}"
models = ["openrouter/cheap", "anthropic/claude-haiku-*", "gemini/*-flash"]
allowed_fields = ["models", "route", "provider", "fallback", "fallbacks", "generationConfig"]
[keys.erin]
key = "${E}"
dollars_per_day = 1000
allowed_fields = ["tools.image_generation", "tools.code_execution_20250825"]
"""
VALUES = {"A": "a", "B": "b", "C": "c", "D": "d", "E": "e"}

ALICE, BOB, CAROL, DAVE, ERIN = ({"Authorization": f"Bearer {key}"} for key in "abcde")

ANSWER = [
    swink.Start(), TextStart(0), TextDelta(0, "Hi"), TextEnd(0), swink.Done(StopReason.STOP),
]  # fmt: skip

HAIKU = "anthropic/claude-haiku-4-5"
SAID = [{"role": "user", "content": "Hi"}]

CHAT = ("/v1/chat/completions", {"model": "openrouter/cheap", "messages": SAID, "stop": "END"})
MESSAGES = ("/v1/messages", {"model": HAIKU, "max_tokens": 5, "messages": SAID})
RESPONSES = ("/v1/responses", {"model": "openai/gpt-5-mini", "input": "Hi"})
NATIVE = ("/v1/stream", {"model": "openrouter/cheap", "messages": SAID})
GEMINI = (
    "/v1/models/gemini/gemini-2.5-flash:generateContent",
    {"contents": [{"parts": [{"text": "Hi"}]}]},
)

OLLAMA = ("/api/chat", {"model": "ollama/llama3.2", "messages": SAID})

MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}

ADVISOR = {"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-4-7"}
MODEST = {**ADVISOR, "model": "claude-haiku-4-5"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
IMAGES = {"type": "image_generation", "model": "gpt-image-1"}
ROUTED = {"seed": 1, "routingConfig": {"manualMode": {"modelName": "gemini-2.5-pro"}}}
PREFERRED = {"modelConfig": {"featureSelectionPreference": "PRIORITIZE_QUALITY"}}
AUTOMATIC = {"routing_config": {"autoMode": {}}}

# (path and body, additional fields, forwarded fields, fields reported as dropped)
FIELDS: list[tuple[tuple[str, Any], dict[str, Any], dict[str, Any], str]] = [
    (CHAT, {"top_k": 4, "min_p": [0.1]}, {"top_k": 4, "min_p": [0.1]}, ""),
    (CHAT, {"service_tier": "flex"}, {"service_tier": "flex"}, ""),
    (CHAT, {"reasoning": {"model": "x/dear"}}, {}, "reasoning"),
    (MESSAGES, {"tools": [ADVISOR, SEARCH]}, {"tools": [SEARCH]}, "tools (advisor_20260301)"),
    (MESSAGES, {"tools": [MODEST]}, {"tools": [MODEST]}, ""),
    (MESSAGES, {"speed": "fast"}, {"speed": "fast"}, ""),
    (MESSAGES, MARK, MARK, ""),
    (OLLAMA, {"truncate": True, "shift": True}, {"truncate": True, "shift": True}, ""),
    (RESPONSES, {"tools": [IMAGES]}, {}, "tools (image_generation)"),
    (RESPONSES, {"truncation": "auto"}, {"truncation": "auto"}, ""),
    (GEMINI, {"generationConfig": ROUTED}, {}, "generationConfig"),
]

# (path and body, additional fields, the path of the refused field)
UNKNOWN: list[tuple[tuple[str, Any], dict[str, Any], str]] = [
    (CHAT, {"models": ["x/dear"], "route": "fallback"}, "models"),
    (CHAT, {"provider": {"order": ["dear"]}}, "provider"),
    (CHAT, {"preset": "p"}, "preset"),
    (CHAT, {"plugins": [{"id": "fusion"}]}, "plugins"),
    (CHAT, {"draft_model": "m"}, "draft_model"),
    (CHAT, {"number_of_tomorrow": 5}, "number_of_tomorrow"),
    (GEMINI, {"generationConfig": AUTOMATIC}, "generationConfig.routingConfig"),
    (MESSAGES, {"fallbacks": [{"model": "claude-opus-4-7"}]}, "fallbacks"),
    (NATIVE, {"options": {"extra": {"models": ["m"]}}}, "options.extra.models"),
    (NATIVE, {"options": {"extra": {"model": "m"}}}, "options.extra.model"),
    (NATIVE, {"call": {"extra": {"models": ["m"]}}}, "call.extra.models"),
]


async def asked(
    how: tuple[str, Any], more: dict[str, Any], headers: dict[str, str]
) -> tuple[dict[str, Any], Answer]:
    upstream, (path, body) = Scripted(ANSWER), how
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        answer = await ask(gateway, path, {**body, **more}, headers=headers)
    assert answer.status == 200
    return dict(upstream.options.extra), answer


@pytest.mark.parametrize(("how", "more", "out", "dropped"), FIELDS, ids=str)
async def test_fields_that_choose_another_model_are_dropped_and_reported(
    how: tuple[str, Any], more: dict[str, Any], out: dict[str, Any], dropped: str
) -> None:
    extra, answer = await asked(how, more, ALICE)
    assert extra == out
    assert answer.headers.get("x-swink-dropped", "") == dropped


@pytest.mark.parametrize(
    ("config", "name"), [(ROUTED, "routingConfig"), (PREFERRED, "modelConfig")]
)
async def test_a_key_with_a_budget_cannot_choose_another_gemini_model(
    config: dict[str, Any], name: str
) -> None:
    upstream, (path, body) = Scripted(ANSWER), GEMINI
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        answer = await ask(gateway, path, {**body, "generationConfig": config}, headers=CAROL)
    assert answer.status == 400
    assert answer.json["error"]["message"].startswith(f"generationConfig.{name}: ")
    assert upstream.calls == []


@pytest.mark.parametrize(("how", "more", "place"), UNKNOWN, ids=str)
@pytest.mark.parametrize("headers", [ALICE, CAROL], ids=["models", "budget"])
async def test_an_unknown_field_is_refused_for_a_key_with_limits(
    how: tuple[str, Any], more: dict[str, Any], place: str, headers: dict[str, str]
) -> None:
    upstream, (path, body) = Scripted(ANSWER), how
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        answer = await ask(gateway, path, {**body, **more}, headers=headers)
    assert answer.status == 400
    message = answer.json["error"]["message"]
    assert message.startswith(f"{place}: ")
    assert "allowed_fields" in message
    assert upstream.calls == []


# (path and body, additional fields)
ALLOWED: list[tuple[tuple[str, Any], dict[str, Any]]] = [
    (CHAT, {"models": ["cheap"], "route": "fallback"}),
    (CHAT, {"provider": {"order": ["dear"], "allow_fallbacks": True}}),
    (MESSAGES, {"fallbacks": [{"model": "claude-haiku-4-5", "speed": "fast"}]}),
    (GEMINI, {"generationConfig": {"routingConfig": {"autoMode": {}}}}),
]


@pytest.mark.parametrize(("how", "more"), ALLOWED, ids=str)
@pytest.mark.parametrize("headers", [BOB, DAVE], ids=["no limits", "allowed"])
async def test_a_key_without_limits_or_with_allowed_fields_may_set_any_field(
    how: tuple[str, Any], more: dict[str, Any], headers: dict[str, str]
) -> None:
    extra, answer = await asked(how, more, headers)
    assert extra == more
    assert "x-swink-dropped" not in answer.headers


OPUS = "claude-opus-5-5"

# (path and body, an allowed field that names a forbidden model)
ALLOWED_BUT_CLOSED: list[tuple[tuple[str, Any], dict[str, Any]]] = [
    (CHAT, {"models": ["x/dear"]}),
    (CHAT, {"models": ["cheap", "x/dear"]}),
    (CHAT, {"models": "x/dear"}),
    (CHAT, {"models": [{"id": "x/dear"}]}),
    (CHAT, {"provider": {"draft": [{"Model": "x/dear"}]}}),
    (MESSAGES, {"fallbacks": [{"model": OPUS}]}),
    (MESSAGES, {"fallbacks": [{"model": "claude-haiku-4-5"}, {"model": OPUS}]}),
    (MESSAGES, {"fallbacks": [OPUS]}),
    (MESSAGES, {"fallbacks": {"x": OPUS}}),
    (MESSAGES, {"fallbacks": "default"}),
    (MESSAGES, {"fallback": OPUS}),
    (GEMINI, {"generationConfig": ROUTED}),
]


@pytest.mark.parametrize(("how", "more"), ALLOWED_BUT_CLOSED, ids=str)
async def test_an_allowed_field_that_names_a_forbidden_model_is_dropped(
    how: tuple[str, Any], more: dict[str, Any]
) -> None:
    extra, answer = await asked(how, more, DAVE)
    assert extra == {}
    assert answer.headers["x-swink-dropped"] == ", ".join(more)


CODE = {"type": "code_execution_20250825", "name": "code_execution"}
INTERPRETER = {"type": "code_interpreter", "container": {"type": "auto"}}

# (path and body, tool, the name of the tool in the message)
UNCHARGED: list[tuple[tuple[str, Any], Any, str]] = [
    (MESSAGES, CODE, "code_execution_20250825"),
    (MESSAGES, ADVISOR, "advisor_20260301"),
    (RESPONSES, INTERPRETER, "code_interpreter"),
    (RESPONSES, {"type": "image_generation"}, "image_generation"),
    (RESPONSES, {"type": "tool_of_tomorrow"}, "tool_of_tomorrow"),
    (RESPONSES, {"type": "code_execution"}, "code_execution"),
    (RESPONSES, {"type": "web_search_\u0662\u0660"}, "web_search_\u0662\u0660"),
    (GEMINI, {"googleSearch": {}, "googleMaps": {}}, "googleMaps"),
    (GEMINI, {"type": "function", "googleMaps": {}}, "googleMaps"),
    (GEMINI, {"type": None, "googleMaps": {}}, "googleMaps"),
]


@pytest.mark.parametrize(("how", "tool", "name"), UNCHARGED, ids=str)
async def test_a_tool_whose_price_is_not_reported_is_refused_for_a_key_with_a_budget(
    how: tuple[str, Any], tool: Any, name: str
) -> None:
    upstream, (path, body) = Scripted(ANSWER), how
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        answer = await ask(gateway, path, {**body, "tools": [tool]}, headers=CAROL)
    assert answer.status == 400
    assert f'allowed_fields = ["tools.{name}"]' in answer.json["error"]["message"]
    assert upstream.calls == []


@pytest.mark.parametrize("place", ["options", "call"])
@pytest.mark.parametrize(
    "value", [None, "x", {}, {"include_usage": False}, {"include_usage": True}]
)
async def test_a_key_with_a_budget_cannot_turn_off_the_report_of_its_usage(
    place: str, value: Any
) -> None:
    upstream, (path, body) = Scripted(ANSWER), NATIVE
    asked = {**body, place: {"extra": {"stream_options": value}}, **OPENAI}
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        answer = await ask(gateway, path, asked, headers=CAROL)
    is_reported = value == {"include_usage": True}
    assert (answer.status, len(upstream.calls)) == ((200, 1) if is_reported else (400, 0))


OPENAI = {"model": "openai/gpt-5-mini"}

# (path and body, the fields in which a client writes `background`)
GOES_ON: list[tuple[tuple[str, Any], Callable[[Any], dict[str, Any]]]] = [
    (NATIVE, lambda value: {"options": {"extra": {"background": value}}, **OPENAI}),
    (NATIVE, lambda value: {"call": {"extra": {"background": value}}, **OPENAI}),
    (CHAT, lambda value: {"background": value, "model": "openai/gpt-4.1"}),
    (MESSAGES, lambda value: {"background": value, **OPENAI}),
]


@pytest.mark.parametrize("how", range(len(GOES_ON)))
@pytest.mark.parametrize("value", [True, "yes", False])
async def test_a_key_with_a_budget_cannot_start_a_response_that_goes_on_without_it(
    how: int, value: Any
) -> None:
    upstream, ((path, body), fields) = Scripted(ANSWER), GOES_ON[how]
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        answer = await ask(gateway, path, {**body, **fields(value)}, headers=CAROL)
    assert (answer.status, len(upstream.calls)) == ((400, 0) if value else (200, 1))


ADDED = {"type": "additional_tools", "role": "developer", "tools": [INTERPRETER]}
OUTPUT = {"type": "tool_search_output", "call_id": "c", "execution": "client"}
ADDITION = {"type": "tool_addition", "tool": CODE}
GROUNDING = {"systemTool": {"name": "nova_grounding"}}
NOVA = {"model": "bedrock/amazon.nova-lite-v1:0"}


def _changed(provider: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
    metadata = {provider: fields}
    return [{"name": "f", "description": "", "parameters": {}, "metadata": metadata}]


# (path and body, additional fields, the name of the tool in the message)
HIDDEN: list[tuple[tuple[str, Any], dict[str, Any], str]] = [
    (RESPONSES, {"input": [ADDED, *SAID]}, "code_interpreter"),
    (RESPONSES, {"input": [*SAID, {**OUTPUT, "tools": [INTERPRETER]}]}, "code_interpreter"),
    (RESPONSES, {"tools": [{"type": "namespace", "name": "n", "tools": [INTERPRETER]}]},
     "code_interpreter"),
    (MESSAGES, {"messages": [{"role": "user", "content": [ADDITION]}]}, CODE["type"]),
    (GEMINI, {"toolConfig": {"tools": [{"googleMaps": {}}]}}, "googleMaps"),
    (NATIVE, {"options": {"extra": {"toolConfig": {"tools": [GROUNDING]}}}, **NOVA}, "systemTool"),
    (NATIVE, {"call": {"extra": {"tools": [INTERPRETER]}}, **OPENAI}, "code_interpreter"),
    (NATIVE, {"messages": [{"role": "user", "content": [
        {"type": "extension", "provider": "openai", "kind": "additional_tools", "data": ADDED}]}],
        **OPENAI}, "code_interpreter"),
    (NATIVE, {"tools": _changed("bedrock", {"toolSpec": None, **GROUNDING}), **NOVA},
     "systemTool"),
    (NATIVE, {"tools": _changed("openai", INTERPRETER), **OPENAI}, "code_interpreter"),
    (NATIVE, {"tools": _changed("openai", {"type": {}}), **OPENAI}, "{}"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "more", "name"), HIDDEN, ids=str)
async def test_such_a_tool_is_found_in_messages_in_other_fields_and_in_the_fields_of_a_tool(
    how: tuple[str, Any], more: dict[str, Any], name: str
) -> None:
    upstream, (path, body) = Scripted(ANSWER), how
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        answer = await ask(gateway, path, {**body, **more}, headers=CAROL)
    assert answer.status == 400
    assert f"does not report the price of the tool {name!r}" in answer.json["error"]["message"]
    assert upstream.calls == []


# fields of a client's tool for a provider
HARMLESS: list[dict[str, Any]] = [
    {"type": "custom", "name": None, "parameters": None},
    {"type": None, "name": None},
    {"strict": True},
    {"cache_control": {"type": "ephemeral"}},
]


@pytest.mark.parametrize("fields", HARMLESS, ids=str)
async def test_fields_that_leave_a_tool_to_the_client_are_sent(fields: dict[str, Any]) -> None:
    upstream = Scripted(ANSWER)
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        body = {**NATIVE[1], **OPENAI, "tools": _changed("openai", fields)}
        answer = await ask(gateway, NATIVE[0], body, headers=CAROL)
    assert answer.status == 200
    assert [tool.metadata for tool in upstream.context.tools] == [{"openai": fields}]


# (path and body, tool, headers)
CHARGED: list[tuple[tuple[str, Any], Any, dict[str, str]]] = [
    (MESSAGES, SEARCH, CAROL),
    (MESSAGES, {"type": "tool_search_tool_regex_20251119", "name": "t"}, CAROL),
    (MESSAGES, CODE, ERIN),
    (MESSAGES, CODE, BOB),
    (RESPONSES, {"type": "web_search_preview_2025_03_11"}, CAROL),
    (RESPONSES, {"type": "image_generation"}, ERIN),
    (RESPONSES, INTERPRETER, BOB),
    (GEMINI, {"googleSearch": {}, "codeExecution": {}}, CAROL),
]


@pytest.mark.parametrize(("how", "tool", "headers"), CHARGED, ids=str)
async def test_a_tool_passes_whose_price_is_reported_or_that_the_configuration_allows(
    how: tuple[str, Any], tool: Any, headers: dict[str, str]
) -> None:
    extra, _ = await asked(how, {"tools": [tool]}, headers)
    assert extra == {"tools": [tool]}


ARGUMENTS = {"tools": ["saw"], "tool": {"type": "hammer"}}
USED = {"type": "mcp_tool_use", "id": "m", "name": "f", "server_name": "s", "input": ARGUMENTS}
SCHEMA = {"type": "object", "properties": {"tool": {"type": "string"}, "tools": {"type": "array"}}}

# (path and body, additional fields) of requests without a tool of the vendor
PLAIN: list[tuple[tuple[str, Any], dict[str, Any]]] = [
    (MESSAGES, {"messages": [*SAID, {"role": "assistant", "content": [USED]}, *SAID]}),
    (MESSAGES, {"tools": [{"name": "f", "input_schema": SCHEMA, "input_examples": [ARGUMENTS]}]}),
    (CHAT, {"model": "openai/gpt-5-mini", "guided_json": SCHEMA}),
    (RESPONSES, {"tools": [{"type": "shell", "environment": {"type": "local"}}]}),
    (NATIVE, {"model": HAIKU, "options": {"extra": {"tools": [{"input_schema": {}}]}}}),
]


@pytest.mark.parametrize(("how", "more"), PLAIN, ids=str)
async def test_a_request_without_a_tool_of_the_vendor_is_sent(
    how: tuple[str, Any], more: dict[str, Any]
) -> None:
    await asked(how, more, CAROL)


FRANK = """
[routes.first-haiku]
tiers = ["anthropic/claude-haiku-4-5", "openrouter/cheap"]
[keys.frank]
key = "${A}"
models = ["first-haiku", "anthropic/dear", "openrouter/cheap"]
"""


@pytest.mark.parametrize(
    ("config", "model", "named"),
    [(KEYS, "openrouter/cheap", "x/dear"), (FRANK, "first-haiku", "dear")],
    ids=["the model", "a fallback"],
)
async def test_a_tools_fields_that_name_another_model_are_dropped(
    config: str, model: str, named: str
) -> None:
    own = {"openrouter": {"model": named}}
    tool = {"name": "f", "description": "", "parameters": {}, "metadata": own}
    upstream = Scripted(ANSWER)
    async with serving(upstream, config=Source("t", config).config(VALUES)) as gateway:
        said = {**NATIVE[1], "model": model, "tools": [tool]}
        answer = await ask(gateway, NATIVE[0], said, headers=ALICE)
    assert [tool.metadata for tool in upstream.context.tools] == [None]
    assert answer.headers["x-swink-dropped"] == "tools.f"


@pytest.mark.parametrize("count", [1, 2])
async def test_several_answers_of_a_fallback_do_not_reach_a_model_that_is_forbidden_there(
    count: int,
) -> None:
    tool = {"type": "subagent", "model": "dear"}
    body = {"model": "first-haiku", "messages": SAID, "n": count, "tools": [tool]}
    upstream = Scripted(ANSWER)
    async with serving(upstream, config=Source("t", FRANK).config(VALUES)) as gateway:
        answer = await ask(gateway, CHAT[0], body, headers=ALICE)
    assert "tools" not in upstream.options.extra
    assert "tools (subagent)" in answer.headers["x-swink-dropped"]
    assert upstream.calls[-1].model.provider == ("anthropic" if count == 1 else "openrouter")
