"""A key cannot reach another key's data at a vendor, and shares no user names with it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from made import said
from serving import Scripted, ask, serving

import swink_core as swink
from swink_core import AssistantMessage, ExtensionBlock, StopReason, TextBlock
from swink_gateway.policy.config import Source
from swink_gateway.policy.limits import Ledger, MemoryLedger, memory, sql
from swink_gateway.policy.limits.sqlite import SQLiteLedger
from swink_gateway.policy.routing import Routing
from swink_gateway.policy.tenancy import (
    MOST_NAMED,
    MOST_URL,
    Names,
    hashed,
    ids_in_answer,
    ids_in_request,
)
from swink_gateway.protocols import Asked
from swink_gateway.protocols.sealing import seal

KEYS = """
[keys.alice]
key = "${A}"
vendor_ids = ["vs_of_alice", "file-alice-*"]
[keys.bob]
key = "${B}"
"""
VALUES = {"A": "a", "B": "b"}
ALICE, BOB = ({"Authorization": f"Bearer {key}"} for key in "ab")

SAID = [{"role": "user", "content": "Hi"}]
RESPONSES = ("/v1/responses", {"model": "openai/gpt-5-mini", "input": "Hi"})
CHAT = ("/v1/chat/completions", {"model": "openai/gpt-5-mini", "messages": SAID})
MESSAGES = (
    "/v1/messages",
    {"model": "anthropic/claude-haiku-4-5", "max_tokens": 5, "messages": SAID},
)
GEMINI = (
    "/v1beta/models/gemini/gemini-2.5-flash:generateContent",
    {"contents": [{"parts": [{"text": "Hi"}]}]},
)
NATIVE = ("/v1/stream", {"model": "openai/gpt-5-mini", "messages": SAID, "stream": False})


def parts(kind: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {kind: [{"role": "user", "content": [*content]}]}


def pictured(url: str) -> dict[str, Any]:
    return parts("messages", {"type": "image_url", "image_url": {"url": url}})


def forged(item: dict[str, Any]) -> dict[str, Any]:
    """Return a message with an item of OpenAI's that its client has sealed itself."""
    block = {"type": "extension", "kind": "x", "provider": "openai", "data": item}
    sealed = {"type": "redacted_thinking", "data": seal("openai", block=block)}
    return {"role": "assistant", "content": [sealed, {"type": "text", "text": "Hi"}]}


def extra(**fields: Any) -> dict[str, Any]:
    return {"options": {"extra": fields}}


# (path and body, additional fields)
FOREIGN: list[tuple[tuple[str, Any], dict[str, Any]]] = [
    (RESPONSES, {"conversation": "x"}),
    (RESPONSES, {"conversation": {"id": "x"}}),
    (RESPONSES, {"prompt": {"id": "x"}}),
    (RESPONSES, {"tools": [{"type": "file_search", "vector_store_ids": ["x"]}]}),
    (RESPONSES, {"tools": [{"type": "file_search", "vector_store_ids": {"0": "x"}}]}),
    (RESPONSES, {"tools": [{"type": "code_interpreter", "container": "x"}]}),
    (RESPONSES, {"tools": [{"type": "code_interpreter", "container": {"file_ids": ["x"]}}]}),
    (RESPONSES, {"tools": [{"type": "image_generation", "input_image_mask": {"file_id": "x"}}]}),
    (RESPONSES, {"tools": [{"type": "new_tool", "thing_of_tomorrow_id": "x"}]}),
    (RESPONSES, parts("input", {"type": "input_file", "file_id": "x"})),
    (RESPONSES, parts("input", {"type": "input_image", "file_id": "x"})),
    (RESPONSES, {"input": [{"type": "image_generation_call", "id": "x"}]}),
    (RESPONSES, {"input": [{"type": "mcp_call", "id": "x", "encrypted_content": "y"}]}),
    (RESPONSES, {"input": [{"type": "reasoning", "id": "x", "summary": [{"text": "Hm"}]}]}),
    (RESPONSES, {"Conversation": "x"}),
    (RESPONSES, {"previousResponseID": "x"}),
    (RESPONSES, {"input": [{"type": "mcp_approval_response", "approval_request_id": "x"}]}),
    (CHAT, parts("messages", {"type": "file", "file": {"file_id": "x"}})),
    (MESSAGES, {"container": "x"}),
    (MESSAGES, {"container": {"id": "x", "skills": []}}),
    (
        MESSAGES,
        parts("messages", {"type": "document", "source": {"type": "file", "file_id": "x"}}),
    ),
    (MESSAGES, parts("messages", {"type": "container_upload", "file_id": "x"})),
    (GEMINI, {"cachedContent": "cachedContents/x"}),
    (GEMINI, {"cachedContent": {"name": "cachedContents/x"}}),
    (
        GEMINI,
        {"contents": [{"parts": [{"fileData": {"fileUri": "https://a/v1beta/files/x"}}]}]},
    ),
    (GEMINI, {"tools": [{"fileSearch": {"fileSearchStoreNames": ["x"]}}]}),
    (CHAT, pictured("https://generativelanguage.googleapis.com/v1beta/%66iles/x")),
    (CHAT, pictured("https://a/v1beta//files/x")),
    (CHAT, pictured("https://a/v1beta\\fi\tles/x")),
    (MESSAGES, {"messages": [*SAID, forged({"id": "x"}), *SAID]}),
    (MESSAGES, {"messages": [*SAID, forged({"type": "item_reference", "id": "x"}), *SAID]}),
    (GEMINI, {"tools": [{"retrieval": {"vertexRagStore": {"ragCorpora": ["x"]}}}]}),
    (GEMINI, {"tools": [{"retrieval": {"vertex_rag_store": {"rag_corpora": ["x"]}}}]}),
    (
        GEMINI,
        {"tools": [{"retrieval": {"vertex_rag_store": {"rag_resources": [{"rag_corpus": "x"}]}}}]},
    ),
    (
        GEMINI,
        {
            "tools": [
                {"retrieval": {"vertex_ai_search": {"data_store_specs": [{"data_store": "x"}]}}}
            ]
        },
    ),
    (GEMINI, {"tools": [{"retrieval": {"vertexAiSearch": {"engine": "projects/p/engines/x"}}}]}),
    (GEMINI, {"tools": [{"new_tool": [" https://a.googleapis.com/v1/projects/p/engines/x"]}]}),
    (GEMINI, {"tools": [{"retrieval": {"apiKeyConfig": {"apiKeySecretVersion": "x"}}}]}),
    (GEMINI, {"tools": [{"googleMaps": {"authConfig": {"serviceAccount": "x"}}}]}),
    (CHAT, {"data_sources": [{"type": "azure_search", "parameters": {"index_name": "x"}}]}),
    (
        CHAT,
        {
            "data_sources": [
                {
                    "type": "azure_ml_index",
                    "parameters": {
                        "name": "x",
                        "version": "1",
                        "project_resource_id": "/subscriptions/x",
                    },
                }
            ]
        },
    ),
    (CHAT, {"audio": {"voice": {"id": "x"}, "format": "wav"}}),
    (CHAT, {"preset": "x"}),
    (CHAT, {"model": "openrouter/@preset/x"}),
    (CHAT, {"model": "openrouter/@Preset/x"}),
    (CHAT, {"models": ["@preset/x"]}),
    (CHAT, {"prediction": {"type": "content", "content": [{"file_id": "x"}]}}),
    (CHAT, {"models": ["openai/gpt-5@preset/x"]}),
    (CHAT, {"plugins": [{"id": "fusion", "analysis_models": ["@preset/x"]}]}),
    (
        CHAT,
        {
            "model": "openrouter/openai/gpt-5",
            "tools": [{"type": "openrouter:subagent", "parameters": {"model": "@preset/x"}}],
        },
    ),
    (CHAT, {"model": "bedrock/arn:aws:bedrock:us-east-1:1:prompt/x"}),
    (CHAT, {"messages": [{"role": "system", "content": "Use fileid://x"}, *SAID]}),
    (CHAT, parts("messages", {"type": "text", "text": " fileid://x,fileid://y"})),
    (MESSAGES, {"system": [{"type": "text", "text": "fileid://x"}]}),
    (CHAT, pictured("https://a/" + "a" * MOST_URL)),
    (RESPONSES, {"agent_reference": {"name": "x"}}),
    (NATIVE, extra(previous_response_id="x")),
    (NATIVE, extra(conversation="x")),
    (NATIVE, extra(input=[{"type": "item_reference", "id": "x"}])),
    (NATIVE, extra(tools=[{"type": "file_search", "vector_store_ids": ["x"]}])),
    (NATIVE, {"call": {"extra": {"previous_response_id": "x"}}}),
    (NATIVE, {"options": {"settings": {"starting_after": "resp_x"}}}),
    (
        NATIVE,
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "document",
                            "source": {"type": "file_id", "provider": "openai", "id": "x"},
                        }
                    ],
                }
            ]
        },
    ),
]


@pytest.mark.parametrize(("how", "more"), FOREIGN, ids=str)
async def test_an_id_that_the_key_does_not_own_is_answered_404(
    how: tuple[str, Any], more: dict[str, Any]
) -> None:
    upstream, (path, body) = Scripted(said("Hi")), how
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        answer = await ask(gateway, path, {**body, **more}, headers=BOB)
    assert answer.status == 404, answer.body
    assert b"not found for this key" in answer.body
    assert upstream.calls == []


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "file_search", "vector_store_ids": ["vs_of_alice"]},
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-alice-7"]}},
    ],
    ids=str,
)
async def test_configured_ids_are_only_for_their_key(tool: dict[str, Any]) -> None:
    upstream, (path, body) = Scripted(said("Hi")), RESPONSES
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        asked = {**body, "tools": [tool]}
        mine = await ask(gateway, path, asked, headers=ALICE)
        theirs = await ask(gateway, path, asked, headers=BOB)
    assert (mine.status, theirs.status) == (200, 404)
    assert len(upstream.calls) == 1


async def test_the_ids_in_an_answer_belong_to_its_key() -> None:
    answer = [
        swink.Start(),
        swink.Extension(
            0, "openai", "code_interpreter_call", {"id": "ci_1", "container_id": "cntr_1"}
        ),
        swink.Done(StopReason.STOP),
    ]
    tool = {"type": "code_interpreter", "container": "cntr_1"}
    upstream, (path, body) = Scripted(answer), RESPONSES
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        asked = {**body, "tools": [tool]}
        before = await ask(gateway, path, asked, headers=ALICE)
        await ask(gateway, path, body, headers=ALICE)
        mine = await ask(gateway, path, asked, headers=ALICE)
        theirs = await ask(gateway, path, asked, headers=BOB)
    assert (before.status, mine.status, theirs.status) == (404, 200, 404)


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return MemoryLedger() if request.param == "memory" else SQLiteLedger(tmp_path / "ledger")


async def test_an_id_keeps_its_first_owner(ledger: Ledger) -> None:
    await ledger.claim("alice", {"a", "b"})
    await ledger.claim("bob", {"b", "c"})
    many = {f"x{number}" for number in range(MOST_NAMED - 3)}
    try:
        assert await ledger.owned("alice", {"a", "b", "c", *many}) == {"a", "b"}
        assert await ledger.owned("alice", []) == set()
        assert await ledger.owned("bob", {"a", "b", "c"}) == {"c"}
    finally:
        await ledger.aclose()


async def test_an_owner_with_many_ids_loses_its_own(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (memory, sql):
        monkeypatch.setattr(module, "MOST_IDS", 20)
    monkeypatch.setattr(sql, "PRUNED_AFTER", 5)
    numbers = [f"{number:02}" for number in range(40)]
    try:
        await ledger.claim("alice", ["mine"])
        for number in numbers:
            await ledger.claim("bob", [number])
        assert await ledger.owned("alice", ["mine"]) == {"mine"}
        kept = await ledger.owned("bob", numbers)
        assert kept == set(numbers[-len(kept) :])
        assert 19 <= len(kept) < 25
    finally:
        await ledger.aclose()


async def test_a_request_with_too_many_ids_is_refused_before_they_are_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def owned(ledger: MemoryLedger, owner: str, ids: Collection[str]) -> set[str]:
        raise AssertionError("the ids were looked up")

    monkeypatch.setattr(MemoryLedger, "owned", owned)
    path, body = RESPONSES
    ids = [f"vs_{number}" for number in range(MOST_NAMED + 1)]
    tool = {"type": "file_search", "vector_store_ids": ids}
    async with serving(Scripted(said("Hi")), config=Source("t", KEYS).config(VALUES)) as gateway:
        answer = await ask(gateway, path, {**body, "tools": [tool]}, headers=ALICE)
    assert answer.status == 400
    assert "names 2,001 ids of stored data; at most 2,000" in answer.json["error"]["message"]


def test_references_that_follow_each_other_are_one() -> None:
    text = "fileid://" * 1000
    asked = Asked("m", swink.Context([swink.UserMessage("Hi")], system_prompt=text))
    assert ids_in_request(asked) == [("messages.fileid", text.removeprefix("fileid://"))]


def test_client_defined_names_are_not_ids() -> None:
    own = {
        "metadata": {"order_id": "x"},
        "tools": [{"type": "mcp", "headers": {}, "input_examples": [{"order_id": "x"}]}],
        "messages": [
            {"type": "server_tool_use", "id": "x", "input": {"file_id": "x"}},
            {"type": "function_call", "id": "x", "call_id": "x", "arguments": "{}"},
        ],
    }
    assert ids_in_request(Asked("m", swink.Context.of("Hi"), own=own)) == []


def test_a_text_with_the_name_of_stored_data_is_no_reference() -> None:
    own = {"documents": ["See projects/p/engines/x and @preset/x"], "a": "projects/p"}
    assert ids_in_request(Asked("m", swink.Context.of("projects/p/engines/x"), own=own)) == []


@pytest.mark.parametrize("text", ["projects/web/src/index.ts", "@preset/x"])
def test_a_predicted_text_is_no_reference(text: str) -> None:
    for content in (text, [{"type": "text", "text": text}]):
        own = {"prediction": {"type": "content", "content": content}}
        assert ids_in_request(Asked("m", swink.Context.of("Hi"), own=own)) == []


def test_text_about_a_file_in_a_text_is_no_reference() -> None:
    context = swink.Context.of("What does fileid://x mean?")
    assert ids_in_request(Asked("m", context)) == []


def test_ids_that_a_model_or_an_mcp_server_writes_are_not_claimed() -> None:
    content = [
        TextBlock("a", {"annotations": [{"file_id": "mine"}]}),
        ExtensionBlock("openai", "shell_call", {"action": {"file_id": "theirs"}}),
        ExtensionBlock("openai", "file_search_call", {"results": [{"attributes": {"a_id": "b"}}]}),
        ExtensionBlock("gemini", "toolCall", {"toolCall": {"args": {"fileUri": "theirs"}}}),
        ExtensionBlock("gemini", "toolResponse", {"toolResponse": {"response": {"a_id": "b"}}}),
        ExtensionBlock("openai", "mcp_call", {"output": {"file_id": "theirs"}}),
        ExtensionBlock(
            "cohere",
            "citation",
            {
                "sources": [
                    {"tool_output": {"file_id": "x"}},
                    {"document": {"file_id": "x"}},
                ]
            },
        ),
    ]
    message = AssistantMessage(content, response_id="resp")
    assert ids_in_answer(message, continues=True) == {"mine", "resp"}
    assert ids_in_answer(message, continues=False) == {"mine"}


def test_chosen_fields_of_an_answer_are_not_claimed() -> None:
    message = AssistantMessage("a", metadata={"additionalModelResponseFields": {"file_id": "x"}})
    assert ids_in_answer(message, continues=True) == set()


@pytest.mark.parametrize("place", ["a text", "a name", "an extra field"])
async def test_an_id_in_the_request_is_not_claimed_from_its_answer(place: str) -> None:
    data = {"annotations": [{"file_id": "file-\u00e4 1"}, {"file_id": "file-2"}]}
    answer = [
        swink.Start(), swink.Extension(0, "openai", "note", data), swink.Done(StopReason.STOP),
    ]  # fmt: skip
    path, body = RESPONSES
    written = {
        "a text": {"input": 'see {"file": "file-\u00e4 1"}'},
        "a name": {
            "tools": [{"type": "function", "name": "a", "parameters": {"file-\u00e4 1": 1}}]
        },
        "an extra field": {"metadata": {"a": "file-\u00e4 1"}},
    }[place]
    async with serving(Scripted(answer), config=Source("t", KEYS).config(VALUES)) as gateway:
        assert (await ask(gateway, path, {**body, **written}, headers=BOB)).status == 200
        for id, status in (("file-\u00e4 1", 404), ("file-2", 200)):
            asked = {**body, **parts("input", {"type": "input_file", "file_id": id})}
            assert (await ask(gateway, path, asked, headers=BOB)).status == status


def test_a_name_that_a_model_searches_for_is_not_claimed() -> None:
    message = AssistantMessage("a", metadata={"webSearchQueries": ["projects/p/engines/x"]})
    assert ids_in_answer(message, continues=True) == set()


# (path and body, additional fields, the place of the user name)
NAMED: list[tuple[tuple[str, Any], dict[str, Any]]] = [
    (CHAT, {}),
    (CHAT, {"user": "u", "prompt_cache_key": "k"}),
    (CHAT, {"safety_identifier": "u"}),
    (RESPONSES, {"user": "u"}),
    (MESSAGES, {"metadata": {"user_id": "u"}}),
    (NATIVE, extra(user="u", prompt_cache_key="k", safety_identifier="s")),
    (NATIVE, extra(metadata={"user_id": "u"})),
]


def names_of(options: swink.StreamOptions) -> list[str]:
    fields = {**options.extra, **options.extra.get("metadata", {})}
    names = [options.user, options.session_id]
    names += [
        fields.get(name) for name in ("user", "safety_identifier", "prompt_cache_key", "user_id")
    ]
    return [name for name in names if name is not None]


@pytest.mark.parametrize(("how", "more"), NAMED, ids=str)
async def test_names_of_users_and_caches_are_separate_for_each_key(
    how: tuple[str, Any], more: dict[str, Any]
) -> None:
    upstream, (path, body) = Scripted(said("Hi")), how
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        for headers in (ALICE, BOB, ALICE):
            answer = await ask(gateway, path, {**body, **more}, headers=headers)
            assert answer.status == 200, answer.body
            assert "x-swink-notices" not in answer.headers
    first, other, again = [names_of(call.options) for call in upstream.calls]
    assert first
    assert first == again
    assert not {*first} & {*other}
    assert all(name.startswith("swink-") for name in first + other)


# a model of an API without a field for the end user, and one with such a field
@pytest.mark.parametrize(
    ("model", "is_named"),
    [
        ("gemini/gemini-2.5-flash", False),
        ("ollama/llama3.2", False),
        ("anthropic/claude-haiku-4-5", True),
        ("openai/gpt-5-mini", True),
    ],
)
async def test_the_name_of_a_user_is_set_only_for_models_that_accept_it(
    model: str, is_named: bool
) -> None:
    config = Source("t", KEYS).config(VALUES)
    async with swink.Client() as client:
        chain, asked = Routing(client, config).routed(Asked(model, swink.Context.of("Hi")), "bob")
        options = Names(client).options(chain[0][0], asked, "bob")
        asked = evolve(asked, options={"user": "u"})
        given = Names(client).options(chain[0][0], asked, "bob")
    assert ("user" in options) is is_named
    assert given["user"] == hashed("bob", "u")  # a notice tells the client that it is not sent


async def test_a_call_has_its_tenant_for_caches() -> None:
    upstream, (path, body) = Scripted(said("Hi")), CHAT
    async with serving(upstream, config=Source("t", KEYS).config(VALUES)) as gateway:
        for headers in (ALICE, BOB):
            await ask(gateway, path, body, headers=headers)
    assert [call.tenant for call in upstream.calls] == ["alice", "bob"]
