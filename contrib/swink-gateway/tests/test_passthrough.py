"""A protocol's own fields reach providers with the same protocol, over the API in use."""

from __future__ import annotations

from typing import Any

import pytest
from serving import Answer, Scripted, ask, serving

import swink_core as swink
from swink_core import AssistantMessage, StopReason, ThinkingBlock, ThinkingEnd, ThinkingStart
from swink_gateway.policy.config import Source
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque"}
ITEMS = [
    {"role": "user", "content": "Hi"},
    REASONING,
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "so"},
]
THOUGHT = ThinkingEnd(0, metadata={"item": REASONING})
ANSWER = [swink.Start(), ThinkingStart(0), THOUGHT, swink.Done(StopReason.STOP)]


async def asked_of(
    model: str, providers: Any = None, routes: Any = None, **more: Any
) -> tuple[Scripted, Answer]:
    upstream = Scripted(ANSWER)
    body = {"model": model, "input": ITEMS, "truncation": "auto", **more}
    async with serving(upstream, providers=providers, routes=routes) as gateway:
        return upstream, await ask(gateway, "/v1/responses", body)


CHAT, RESPONSES = {"api": "chat"}, {"api": "responses"}

# the model, the operator's settings for the provider, whether that is the same API
OWNERS: list[tuple[str, dict[str, Any], bool]] = [
    ("openai/gpt-5.1", {}, True),
    ("openai/gpt-5.1", {"openai": CHAT}, False),
    ("openai/gpt-5.1", {"openai": {"settings": CHAT}}, False),
    ("groq/any", {}, False),
    ("groq/any", {"groq": RESPONSES}, True),
    ("azure/mine", {}, False),
    ("azure/mine", {"azure": RESPONSES}, True),
    ("azure/mine", {"azure": {**RESPONSES, "deployment": "d"}}, True),
    ("anthropic/claude-haiku-4-5", {"openai": RESPONSES}, False),
]


@pytest.mark.parametrize(
    ("model", "providers", "is_own"), OWNERS, ids=[f"{m}-{p}" for m, p, _ in OWNERS]
)
async def test_the_operators_choice_of_an_api_is_respected(
    model: str, providers: dict[str, Any], is_own: bool
) -> None:
    upstream, answer = await asked_of(model, providers)
    assert answer.status == 200
    said = upstream.context.messages[1]
    assert isinstance(said, AssistantMessage)
    thought = said.content[0]
    assert isinstance(thought, ThinkingBlock)
    (item,) = answer.json["output"]
    assert said.provider == "openai"  # nobody else sends opaque data unsealed over this protocol
    assert (upstream.options.extra == {"truncation": "auto"}) is is_own
    assert ("truncation" in answer.headers.get("x-swink-dropped", "")) is not is_own
    assert (item["id"] == REASONING["id"]) is is_own
    assert (item == REASONING) is (is_own and model.startswith("openai/"))  # others' is sealed


COMPACTION = {"type": "compaction", "id": "cmp_1", "encrypted_content": "opaque"}
BOTH = [
    *ANSWER[:-1],
    swink.Extension(1, "azure", "compaction", COMPACTION),
    swink.TextStart(2),
    swink.TextDelta(2, "so"),
    swink.TextEnd(2, {"item": {"phase": "commentary"}}),
    ANSWER[-1],
]


@pytest.mark.parametrize("model", ["azure/mine", "openai/gpt-5.1", "xai/grok-4.7"])
async def test_encrypted_content_belongs_to_one_provider_with_the_protocol(model: str) -> None:
    upstream = Scripted(BOTH)
    own = dict.fromkeys(("azure", "openai", "xai"), RESPONSES)
    async with serving(upstream, providers=own) as gateway:
        first = await ask(gateway, "/v1/responses", {"model": "azure/mine", "input": "Hi"})
        items = [ITEMS[0], *first.json["output"], ITEMS[0]]
        await ask(gateway, "/v1/responses", {"model": model, "input": items})
    said = upstream.context.messages[1]
    assert isinstance(said, AssistantMessage)
    assert said.provider == "azure"
    thought, compaction, text = said.content
    assert thought == ThinkingBlock("", metadata={"item": REASONING})
    assert compaction == swink.ExtensionBlock("azure", "compaction", COMPACTION)
    assert text == swink.TextBlock("so", {"item": {"phase": "commentary"}})


LOGIT_BIAS = {"logit_bias": {"7": 1}}

# the model, what a chat client says besides, whether it is asked over Chat Completions
OVER_CHAT: list[tuple[str, dict[str, Any], bool]] = [
    ("openai/gpt-5.1", {}, False),
    ("openai/gpt-5.1", {"stop": "END"}, True),
    ("openai/gpt-5.1", LOGIT_BIAS, True),
    ("openai/gpt-5.1", {"any_field": 1}, True),
    ("openai/gpt-5.1", {"tool_choice": {"type": "allowed_tools"}}, True),
    ("openai/gpt-5.1", {"store": True}, False),  # which both APIs have
    ("openai/gpt-5.3-codex", LOGIT_BIAS, False),  # which Chat Completions does not serve
]


@pytest.mark.parametrize(("model", "said", "is_over_chat"), OVER_CHAT, ids=str)
async def test_a_field_that_one_api_lacks_chooses_the_clients_own(
    model: str, said: dict[str, Any], is_over_chat: bool
) -> None:
    upstream = Scripted(ANSWER)
    body = {"model": model, "messages": ITEMS[:1], **said}
    async with serving(upstream) as gateway:
        answer = await ask(gateway, "/v1/chat/completions", body)
    own = {name: value for name, value in said.items() if name != "stop"}
    shared = is_over_chat or "store" in said
    assert upstream.options.extra == (own if shared else {})
    assert ("x-swink-dropped" in answer.headers) is not (shared or not own)


async def test_opaque_data_is_sealed_for_a_chain_with_two_apis_of_a_provider() -> None:
    chain = ["openai/gpt-5.1", "openai/gpt-4o-audio-preview"]
    _, answer = await asked_of("mine", routes={"mine": chain})
    (item,) = answer.json["output"]
    assert item["encrypted_content"].startswith("swink1.")


FIELDS = {
    "metadata": {"a": "b"},
    "prompt_cache_retention": "24h",
    "safety_identifier": "u1",
    "service_tier": "flex",
    "store": True,
}
OF_CHAT_ALONE = {"logit_bias": {"7": 1}}


@pytest.mark.parametrize(
    ("model", "is_own"), [("openai/gpt-5.1", True), ("anthropic/claude-haiku-4-5", False)]
)
async def test_fields_of_both_apis_of_a_vendor_reach_it_over_either(
    model: str, is_own: bool
) -> None:
    upstream = Scripted(ANSWER)
    body = {"model": model, "messages": ITEMS[:1], **FIELDS, **OF_CHAT_ALONE}
    over_the_other = {"openai": RESPONSES}
    async with serving(upstream, providers=over_the_other) as gateway:
        answer = await ask(gateway, "/v1/chat/completions", body)
    dropped = {*answer.headers["x-swink-dropped"].split(", ")}
    assert upstream.options.extra == (FIELDS if is_own else {})
    assert dropped == {*OF_CHAT_ALONE, *({} if is_own else FIELDS)}


CACHED = {"cache_control": {"type": "ephemeral"}}
MARKED = {
    **CACHED,
    "max_tokens": 9,
    "system": [{"type": "text", "text": "A", **CACHED}, {"type": "text", "text": "B"}],
    "tools": [{"name": "f", "input_schema": {"type": "object"}, **CACHED}],
    "messages": [{"role": "user", "content": "Hi"}],
}


async def test_cache_marks_reach_anthropic_where_the_client_placed_them() -> None:
    upstream = Scripted(ANSWER)
    async with serving(upstream) as gateway:
        model = "anthropic/claude-haiku-4-5"
        answer = await ask(gateway, "/v1/messages", {"model": model, **MARKED})
    assert upstream.context.system_prompt == [swink.TextBlock("A", CACHED), swink.TextBlock("B")]
    assert upstream.context.tools[0].metadata == {"anthropic": CACHED}
    assert (upstream.options.cache, upstream.options.extra) == (None, CACHED)
    assert "x-swink-dropped" not in answer.headers


BREAK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
# the path, the field with the messages, and parts of them
PARTS: list[tuple[str, str, list[dict[str, Any]]]] = [
    (
        "/v1/responses",
        "input",
        [
            {"type": "input_text", "text": "Hi"},
            {"type": "input_image", "image_url": "https://a.example/b.png", "detail": "low"},
            {"type": "input_image", "file_id": "file_1"},
            {"type": "input_file", "file_url": "https://a.example/b.pdf"},
            {"type": "input_file", "file_id": "file_2"},
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        ],
    ),
    (
        "/v1/chat/completions",
        "messages",
        [
            {"type": "text", "text": "Hi"},
            {"type": "image_url", "image_url": {"url": "https://a.example/b.png", "detail": "low"}},
            {"type": "image_url", "image_url": "https://a.example/b.png"},
            {"type": "file", "file": {"file_data": "JVBERi0="}},
            {"type": "file", "file": {"file_id": "file_2"}},
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
            {"type": "input_audio", "input_audio": "aGk="},
        ],
    ),
]


@pytest.mark.parametrize(("path", "field", "parts"), PARTS, ids=[path for path, *_ in PARTS])
async def test_cache_marks_reach_openai_on_parts_of_every_kind(
    path: str, field: str, parts: list[dict[str, Any]]
) -> None:
    upstream = Scripted(ANSWER)
    marked = [{**part, **BREAK} for part in parts]
    rules = [{**parts[0], **BREAK}]
    messages = [{"role": "developer", "content": rules}, {"role": "user", "content": marked}]
    async with serving(upstream) as gateway:
        answer = await ask(gateway, path, {"model": "openai/gpt-5.1", field: messages})
    blocks = [block for message in upstream.context.messages for block in message.content]
    assert len(blocks) == 1 + len(parts)
    assert all(BREAK.items() <= (getattr(b, "metadata", None) or {}).items() for b in blocks)
    assert "x-swink-dropped" not in answer.headers


WORDS = {"type": "text", "text": "Hi"}
HIT = {"type": "search_result", "source": "s", "title": "t", "content": [WORDS]}


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ("Hi", [WORDS]),
        ([HIT, WORDS], [HIT, WORDS]),
        ([WORDS, HIT], [WORDS, HIT]),
        ([WORDS, {"type": "text", "text": ""}], [WORDS]),
    ],
)
async def test_a_cache_mark_on_a_tool_result_reaches_anthropic(content: Any, sent: Any) -> None:
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "busy"}}, 503))
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": content, **CACHED}
    turns = [("user", "Hi"), ("assistant", [call]), ("user", [result])]
    body: dict[str, Any] = {**MARKED, "model": "anthropic/claude-opus-5"}
    body["messages"] = [{"role": role, "content": said} for role, said in turns]
    async with serving(http=http, providers={"anthropic": {"api_key": "a"}}) as gateway:
        await ask(gateway, "/v1/messages", body)
    assert http.bodies[0]["messages"][-1]["content"] == [{**result, "content": sent}]


ADAPTIVE = {"type": "adaptive", "display": "summarized"}
MAX: dict[str, Any] = {"thinking": ADAPTIVE, "output_config": {"effort": "max"}}
LOW: dict[str, Any] = {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}
BUDGET: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 20_000}}
LEFT_OUT = "transforms.leave_out = ['thinking']"
LOST = "output_config.effort"

# the models, more lines of the route, what each model gets, and what is reported as dropped
OF_EFFORT_MAX: list[tuple[list[str], str, list[dict[str, Any]], str | None]] = [
    (["anthropic/claude-opus-5"], "", [MAX], None),
    (["anthropic/claude-opus-4-6", "anthropic/claude-opus-4-5"], "", [MAX, BUDGET], None),
    (["anthropic/claude-haiku-4-5", "anthropic/claude-opus-5"], "", [BUDGET, MAX], LOST),
    (
        ["anthropic/claude-opus-5", "openai/gpt-5.1"],
        "",
        [MAX, {"reasoning": {"effort": "high", "summary": "auto"}}],
        None,
    ),
    (
        ["openai/gpt-5.1", "anthropic/claude-opus-5"],
        "",
        [{"reasoning": {"effort": "high", "summary": "auto"}}, MAX],
        LOST,
    ),
    (["anthropic/claude-opus-5"], "options.thinking = 'low'", [LOW], LOST),
    (["anthropic/claude-opus-5"], LEFT_OUT, [{}], "thinking"),
    (
        ["anthropic/claude-opus-5"],
        f"{LEFT_OUT}\ntransforms.defaults.thinking = 'low'",
        [LOW],
        "thinking",
    ),
]


@pytest.mark.parametrize(("models", "more", "expected", "dropped"), OF_EFFORT_MAX)
async def test_an_effort_without_a_level_reaches_each_model_that_has_efforts(
    models: list[str], more: str, expected: list[dict[str, Any]], dropped: str | None
) -> None:
    route = Source("team.toml", f"[routes.best]\ntiers = {models}\n{more}").config({})
    said = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}
    hi = [{"role": "user", "content": "Hi"}]
    body = {"model": "best", "max_tokens": 50_000, "temperature": 1, "messages": hi}
    busy = [MemoryResponse.of_json({"error": {"message": "busy"}}, 503) for _ in models]
    http, key = MemoryHTTPClient(*busy), {"api_key": "k"}
    keys = {"anthropic": key, "openai": key}
    async with serving(http=http, providers=keys, config=route) as gateway:
        answer = await ask(gateway, "/v1/messages", {**body, **said})
    about = ("thinking", "output_config", "reasoning")
    assert [{n: v for n, v in b.items() if n in about} for b in http.bodies] == expected
    assert answer.headers.get("x-swink-dropped") == dropped


OVER_RESPONSES = ("/v1/responses", {"input": "Hi", "reasoning": {"effort": "max"}})
OVER_CHAT = (
    "/v1/chat/completions",
    {"messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "max"},
)

# the path and body, the model, the effort that it gets, and what is reported as dropped
HIGHEST: list[tuple[tuple[str, dict[str, Any]], str, str, str | None]] = [
    (OVER_RESPONSES, "openai/gpt-5.5", "xhigh", "reasoning.effort"),
    (OVER_RESPONSES, "openai/gpt-5.1", "high", "reasoning.effort"),
    (OVER_CHAT, "openai/gpt-5.5", "xhigh", "reasoning_effort"),
    (OVER_CHAT, "openrouter/any", "xhigh", "reasoning_effort"),
    (OVER_CHAT, "cerebras/kimi-k3", "max", None),
]


@pytest.mark.parametrize(("how", "model", "effort", "dropped"), HIGHEST)
async def test_a_lowered_effort_is_reported(
    how: tuple[str, dict[str, Any]], model: str, effort: str, dropped: str | None
) -> None:
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "busy"}}, 503))
    keys = {model.partition("/")[0]: {"api_key": "k"}}
    async with serving(http=http, providers=keys) as gateway:
        answer = await ask(gateway, how[0], {"model": model, **how[1]})
    [sent] = http.bodies
    assert effort in (sent.get("reasoning_effort"), sent.get("reasoning", {}).get("effort"))
    assert answer.headers.get("x-swink-dropped") == dropped


async def test_the_rules_for_thinking_apply_to_an_effort_without_a_level() -> None:
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "busy"}}, 503))
    hi = [{"role": "user", "content": "Hi"}]
    body = {"model": "anthropic/claude-opus-4-6", "max_tokens": 9, "messages": hi, **MAX}
    async with serving(http=http, providers={"anthropic": {"api_key": "a"}}) as gateway:
        await ask(gateway, "/v1/messages", {**body, "temperature": 0.3})
    (sent,) = http.bodies
    assert (sent["output_config"], "temperature" in sent) == ({"effort": "max"}, False)


NO_KEEPING = {"provider": {"data_collection": "deny"}}

# the options of the first account and of the second one
ACCOUNTS: list[tuple[str, str]] = [
    ("options.base_url = 'http://a.invalid'", ""),
    ("", "options.base_url = 'http://b.invalid'"),
    ("options.base_url = 'http://a.invalid'", "options.base_url = 'http://b.invalid'"),
    ("options.base_url = 'http://a.invalid'", "options.headers = { x-team = 'red' }"),
]


@pytest.mark.parametrize(("first", "second"), ACCOUNTS)
@pytest.mark.parametrize(
    ("path", "model", "fields"),
    [
        ("/v1/chat/completions", "openrouter/any", NO_KEEPING),
        ("/v1/chat/completions", "groq/any", {"logit_bias": {"7": 1}, "n": 2}),
        ("/v1/messages", "anthropic/claude-opus-5", {"service_tier": "auto", "max_tokens": 50}),
        (
            "/v1/messages",
            "anthropic/claude-opus-5",
            {"service_tier": "auto", "max_tokens": 50_000, **MAX},
        ),
    ],
    ids=["a choice of hosts", "several answers", "a field", "a field and an effort"],
)
async def test_the_clients_fields_reach_every_account_of_a_provider(
    path: str, model: str, fields: dict[str, Any], first: str, second: str
) -> None:
    tiers = "".join(
        f"[[routes.best.tiers]]\nmodel = '{model}'\n{each}\n" for each in (first, second)
    )
    busy = MemoryResponse.of_json({"error": {"message": "busy"}}, 503)
    http, keys = MemoryHTTPClient(busy, busy), {model.partition("/")[0]: {"api_key": "k"}}
    body = {"model": "best", "messages": [{"role": "user", "content": "Hi"}], **fields}
    config = Source("team.toml", tiers).config({})
    async with serving(http=http, providers=keys, config=config) as gateway:
        answer = await ask(gateway, path, body)
    assert [{n: v for n, v in sent.items() if n in fields} for sent in http.bodies] == [fields] * 2
    assert "x-swink-dropped" not in answer.headers


@pytest.mark.parametrize("team", ["x-team", "Anthropic-Beta"])
async def test_headers_of_clients_and_of_accounts_are_sent_together(team: str) -> None:
    account = f"model = 'anthropic/claude-opus-5'\noptions.headers = {{ {team} = 'red' }}\n"
    config = Source("team.toml", f"[[routes.best.tiers]]\n{account}" * 2).config({})
    busy = MemoryResponse.of_json({"error": {"message": "busy"}}, 503)
    http = MemoryHTTPClient(busy, busy)
    body = {"model": "best", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    async with serving(http=http, providers={"anthropic": {"api_key": "k"}}, config=config) as g:
        await ask(g, "/v1/messages", body, headers={"anthropic-beta": "context-management"})
    sent = [{n.lower(): v for n, v in request.headers.items()} for request in http.requests]
    beta = "red" if team == "Anthropic-Beta" else "context-management"
    assert [(each["anthropic-beta"], each[team.lower()]) for each in sent] == [(beta, "red")] * 2


async def test_an_option_stands_for_cache_marks_at_other_providers() -> None:
    upstream = Scripted(ANSWER)
    async with serving(upstream) as gateway:
        answer = await ask(gateway, "/v1/messages", {"model": "openrouter/any", **MARKED})
    assert upstream.context.system_prompt == "A\n\nB"
    assert upstream.context.tools[0].metadata is None
    assert (upstream.options.cache, upstream.options.extra) == (swink.CacheStrategy(), {})
    assert "x-swink-dropped" not in answer.headers


# the path, a field with parts that are not options, and these parts
PARTLY_READ: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "/v1/messages",
        {"thinking": {"type": "adaptive", "block_binding": {"a": 1}}},
        {"thinking": {"block_binding": {"a": 1}}},
    ),
    (
        "/v1/messages",
        {"output_config": {"effort": "low", "task_budget": {"total": 9}}},
        {"output_config": {"effort": "low", "task_budget": {"total": 9}}},
    ),
    (
        "/v1/responses",
        {"reasoning": {"effort": "high", "mode": "pro"}},
        {"reasoning": {"mode": "pro"}},
    ),
]


@pytest.mark.parametrize(("path", "said", "kept"), PARTLY_READ, ids=str)
async def test_unknown_parts_of_known_fields_reach_their_vendor(
    path: str, said: dict[str, Any], kept: dict[str, Any]
) -> None:
    is_messages = path == "/v1/messages"
    body = {"messages": ITEMS[:1], "max_tokens": 9} if is_messages else {"input": "Hi"}
    own = "anthropic/claude-opus-5" if is_messages else "openai/gpt-5.1"
    for model, extra in ((own, kept), ("openrouter/any", {})):
        upstream = Scripted(ANSWER)
        async with serving(upstream) as gateway:
            answer = await ask(gateway, path, {"model": model, **body, **said})
        assert upstream.options.extra == extra
        ((name, parts),) = kept.items()
        lost = [] if extra else [f"{name}.{part}" for part in parts]
        assert answer.headers.get("x-swink-dropped", "") == ", ".join(lost)


async def test_metadata_of_a_response_reaches_its_vendor_and_comes_back() -> None:
    upstream, answer = await asked_of("openai/gpt-5.1", metadata={"a": "b"})
    assert upstream.options.extra == {"truncation": "auto", "metadata": {"a": "b"}}
    assert answer.json["metadata"] == {"a": "b"}


async def test_a_response_in_the_background_is_refused() -> None:
    upstream, answer = await asked_of("openai/gpt-5.1", background=True)
    assert answer.status == 400
    assert answer.json["error"]["message"].startswith("background: true")
    assert upstream.calls == []
