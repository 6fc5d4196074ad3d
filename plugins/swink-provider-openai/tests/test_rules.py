"""Effect of rules on calls to OpenAI's models and to compatible servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    CacheStrategy,
    Client,
    Context,
    DocumentBlock,
    Error,
    FileIdSource,
    ImageBlock,
    Notice,
    RetryPolicy,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    hookimpl,
)
from swink_core import StreamErrorKind as Kind
from swink_judge import Judge
from swink_recorder.cassette import Cassette
from swink_testing.clock import DatedClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

SSE = {"Content-Type": "text/event-stream"}
CHAT = b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'
WITH_TOOL = Context([UserMessage("Hi")], tools=[Tool("look.up")])


async def asked(
    model: str, context: Context | str = "Hi", *answers: MemoryResponse, **options: Any
) -> tuple[MemoryHTTPClient, list[Any]]:
    """The requests of a call, and its events."""
    http = MemoryHTTPClient(*(answers or [MemoryResponse([CHAT], headers=SSE)]))
    async with Client(http=http, retry=RetryPolicy.none(), clock=DatedClock()) as client:
        stream = client.stream(model, context, **{"api_key": "test", **options})
        return http, [event async for event in stream]


def path_of(http: MemoryHTTPClient, number: int = 0) -> str:
    return http.requests[number].url.split("/v1/")[1]


def details(events: list[Any]) -> list[str]:
    return [event.detail for event in events if isinstance(event, Notice)]


# -- which API -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gpt-5", "responses"),
        ("gpt-5-2025-08-07", "responses"),
        ("gpt-5.6", "responses"),
        ("o3-pro-2025-06-10", "responses"),
        ("gpt-5.3-codex-2026-02-05", "responses"),
        ("ft:gpt-5:acme::b7", "responses"),
        ("gpt-7", "responses"),
        ("gpt-7.5-luna", "responses"),
        ("o-latest", "responses"),
        ("gpt-4o", "chat/completions"),
        ("gpt-4o-2024-08-06", "chat/completions"),
        ("ft:gpt-4.1-mini:acme::b7", "chat/completions"),
        ("gpt-audio", "chat/completions"),
        ("gpt-oss-120b", "chat/completions"),
        ("llama-3", "chat/completions"),
    ],
)
async def test_the_family_of_a_model_decides_which_api_is_asked(model: str, path: str) -> None:
    http, _ = await asked(f"openai/{model}")

    assert path_of(http) == path


async def test_stops_are_asked_for_where_they_exist_and_that_is_said() -> None:
    http, events = await asked("openai/gpt-5.5", stop="END")

    assert path_of(http) == "chat/completions"
    assert http.bodies[0]["stop"] == ["END"]
    assert details(events) == [
        "openai/gpt-5.5: sent to Chat Completions, because the Responses API does not support "
        "the request"
    ]


@pytest.mark.parametrize("status", [404, 405])
async def test_a_server_without_responses_is_asked_over_chat_and_that_is_remembered(
    status: int,
) -> None:
    answers = [MemoryResponse(status=status), *(MemoryResponse([CHAT], headers=SSE),) * 2]
    http = MemoryHTTPClient(*answers)
    options = {"api_key": "test", "base_url": "http://gateway.example/v1", "max_tokens": 99}
    async with Client(http=http) as client:
        first = await _events(client.stream("openai/gpt-5.4", WITH_TOOL, **options))
        second = await _events(client.stream("openai/gpt-5.4", WITH_TOOL, **options))

    assert [path_of(http, n) for n in range(3)] == ["responses", *["chat/completions"] * 2]
    assert http.bodies[1]["max_completion_tokens"] == 99
    assert http.bodies[1]["tools"][0]["function"]["name"] == http.bodies[0]["tools"][0]["name"]
    assert details(first) == ["openai/gpt-5.4: the server has no Responses API"]
    assert details(second) == []
    assert [type(event).__name__ for event in first][-1] == "Done"


RESPONSE = (
    b'data: {"type":"response.completed","response":{"id":"resp_1","status":"completed",'
    b'"output":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
)


async def test_a_server_that_has_answered_over_responses_is_not_taken_for_one_without() -> None:
    http = MemoryHTTPClient(
        MemoryResponse([RESPONSE], headers=SSE),
        MemoryResponse.of_json({"error": {"message": "Vector store not found."}}, 404),
        MemoryResponse([RESPONSE], headers=SSE),
    )
    options = {"api_key": "test", "base_url": "http://gateway.example/v1"}
    async with Client(http=http, retry=False) as client:
        for _ in range(3):
            await _events(client.stream("openai/gpt-5.4", WITH_TOOL, **options))
    assert [path_of(http, n) for n in range(len(http.requests))] == ["responses"] * 3


async def test_data_that_a_server_does_not_find_says_nothing_about_its_apis() -> None:
    http = MemoryHTTPClient(
        MemoryResponse.of_json({"error": {"message": "Vector store not found."}}, 404),
        MemoryResponse([CHAT], headers=SSE),
        MemoryResponse([RESPONSE], headers=SSE),
    )
    options = {"api_key": "test", "base_url": "http://gateway.example/v1"}
    search = {"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}
    async with Client(http=http, retry=False) as client:
        await _events(client.stream("openai/gpt-5.4", WITH_TOOL, extra=search, **options))
        await _events(client.stream("openai/gpt-5.4", WITH_TOOL, **options))
    paths = [path_of(http, n) for n in range(len(http.requests))]
    assert paths == ["responses", "chat/completions", "responses"]


async def test_a_server_without_the_model_is_asked_once() -> None:
    error = {"message": "no such model", "code": "model_not_found"}
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": error}, 404))
    options = {"api_key": "test", "base_url": "http://gateway.example/v1"}
    async with Client(http=http, retry=False) as client:
        events = await _events(client.stream("openai/gpt-5.4", WITH_TOOL, **options))
    assert [path_of(http, n) for n in range(len(http.requests))] == ["responses"]
    assert events[-1].error_kind is Kind.MODEL_NOT_FOUND


async def test_a_server_without_responses_is_sent_what_a_wrapper_makes_of_chat_as_well() -> None:
    class Redactor:
        @hookimpl(wrapper=True)
        def convert_messages(self) -> Generator[None, Any, Any]:
            return json.loads(json.dumps((yield)).replace("hunter2", "***"))

    http = MemoryHTTPClient(MemoryResponse(status=404), MemoryResponse([CHAT], headers=SSE))
    options = {"api_key": "test", "base_url": "http://gateway.example/v1"}
    async with Client(http=http, plugins=[Redactor()]) as client:
        await client.complete("openai/gpt-5.4", "It is hunter2.", extra={"n": "hunter2"}, **options)

    assert [path_of(http, n) for n in range(2)] == ["responses", "chat/completions"]
    assert [("***" in str(body), "hunter2" in str(body)) for body in http.bodies] == [
        (True, False), (True, False),
    ]  # fmt: skip


async def _events(stream: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in stream]


@pytest.mark.parametrize("known", [0, 1], ids=["a new client", "a client that has asked before"])
async def test_calls_to_a_server_without_responses_are_replayed(known: int, tmp_path: Path) -> None:
    whole = (MemoryResponse([CHAT], headers=SSE) for _ in range(2 + known))
    answers = [MemoryResponse(status=404), *whole]
    of_ours = {"openai": {"api_key": "test", "base_url": "http://gateway.example/v1"}}
    tape = tmp_path / "tape.json"
    async with Client(http=MemoryHTTPClient(*answers), providers=of_ours) as client:
        for _ in range(known):
            await client.complete("openai/gpt-5.4", WITH_TOOL)
        with Cassette(tape):
            said = [(await client.complete("openai/gpt-5.4", WITH_TOOL)).text for _ in range(2)]

    async with Client(http=MemoryHTTPClient(), providers=of_ours) as client:
        with Cassette(tape, "none"):
            again = [(await client.complete("openai/gpt-5.4", WITH_TOOL)).text for _ in range(2)]

    assert said == again == ["Hi", "Hi"]


async def test_openai_itself_has_the_api_and_only_lacks_the_model() -> None:
    http, events = await asked("openai/gpt-5.4", "Hi", MemoryResponse(status=404))

    assert len(http.requests) == 1
    assert isinstance(events[-1], Error)


async def test_a_document_goes_to_azure_over_the_api_that_takes_it() -> None:
    page = DocumentBlock(Base64Source("application/pdf", "JVBERi0="), "page.pdf")
    context = Context([UserMessage([TextBlock("Read."), page])])
    base_url = "https://acme.example/openai/v1"
    http, events = await asked("azure/gpt-4o", context, base_url=base_url)

    assert path_of(http) == "responses"
    assert not Judge().refusals("azure", "responses", "gpt-4o", http.bodies[0])
    assert details(events) == [
        "azure/gpt-4o: sent to the Responses API, because Chat Completions does not support the "
        "request"
    ]


async def test_an_image_by_its_id_goes_over_the_api_that_has_a_field_for_it() -> None:
    image = ImageBlock(FileIdSource("openai", "file_1"))
    http, events = await asked("openai/gpt-4o", Context([UserMessage([image])]))

    assert path_of(http) == "responses"
    assert http.bodies[0]["input"][0]["content"][0]["file_id"] == "file_1"
    assert details(events) == [
        "openai/gpt-4o: sent to the Responses API, because Chat Completions does not support the "
        "request"
    ]


@pytest.mark.parametrize("model", ["openai/gpt-5.5", "openai/gpt-4o", "azure/gpt-5.5"])
async def test_sound_is_refused_with_words_where_no_api_of_the_model_takes_it(model: str) -> None:
    sound = AudioBlock(Base64Source("audio/wav", "UklGRg=="))
    http, events = await asked(model, Context([UserMessage([sound])]), base_url="http://a.example")

    assert not http.requests
    assert events[-1].error_message == f"{model} does not support audio"
    assert "gpt-audio" in events[-1].resolution


BEGUN = Context([UserMessage("Count."), AssistantMessage([TextBlock("One, two,")])])


@pytest.mark.parametrize(
    ("model", "told"),
    [("openai/gpt-4o", 1), ("openai/gpt-5.5", 1), ("openai/llama", 0), ("groq/gpt-4o", 0)],
)
async def test_an_answer_that_is_begun_anew_is_told_of(model: str, told: int) -> None:
    http, events = await asked(model, BEGUN)

    assert "One, two," in str(http.bodies[0])
    new = f"{model} starts a new answer; the last assistant message is not continued"
    assert details(events) == [new] * told


# -- options -------------------------------------------------------------------------------------


# (model, options, fields of the body, what is said)
FITTED: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("gpt-5.5", {"cache": CacheStrategy(ttl=3601)}, {"prompt_cache_retention": "24h"}, []),
    ("gpt-5.6", {"cache": CacheStrategy(ttl=1801)}, {"prompt_cache_options": {"ttl": "12h"}}, []),
    ("gpt-7", {"cache": CacheStrategy(ttl=86_400)}, {"prompt_cache_options": {"ttl": "12h"}}, []),
    ("gpt-5.6", {"cache": CacheStrategy(ttl=1800)}, {},
     ["openai/gpt-5.6 caches prompts automatically; cache was not sent"]),
    ("gpt-6-luna", {"cache": CacheStrategy(ttl=86_400), "settings": {"api": "chat"}}, {},
     ["openai/gpt-6-luna caches prompts automatically; cache was not sent"]),
    ("gpt-5", {"temperature": 1}, {"temperature": 1}, []),
    ("gpt-5", {"temperature": 0.2}, {},
     ["openai/gpt-5 does not support this value of temperature; it was not sent"]),
    ("gpt-5.2", {"temperature": 0.2}, {"temperature": 0.2}, []),
    ("gpt-5.2", {"temperature": 0.2, "thinking": "low"}, {"reasoning.effort": "low"},
     ["openai/gpt-5.2 does not support this value of temperature; it was not sent"]),
    ("gpt-5.6-sol", {"top_p": 0.5}, {},
     ["openai/gpt-5.6-sol does not support this value of top_p; it was not sent"]),
    ("gpt-5.6-sol", {"top_p": 0.5, "thinking": "off"},
     {"top_p": 0.5, "reasoning.effort": "none"}, []),
    ("o3", {"thinking": "extra_high"}, {"reasoning.effort": "high"},
     ["openai/o3: thinking was changed from extra_high to high"]),
    ("gpt-5", {"thinking": "off"}, {"reasoning.effort": "minimal"},
     ["openai/gpt-5: thinking was changed from off to minimal"]),
    ("gpt-5.5-pro", {"thinking": 2000}, {"reasoning.effort": "medium"},
     ["openai/gpt-5.5-pro: thinking was changed from 2000 to medium"]),
    ("gpt-5.4", {"max_tokens": 5}, {"max_output_tokens": 16},
     ["openai/gpt-5.4: max_tokens was changed from 5 to 16"]),
    ("gpt-4o", {"thinking": "high"}, {},
     ["openai/gpt-4o does not support thinking; it was not sent"]),
    ("gpt-4o", {"temperature": 3}, {"temperature": 2},
     ["openai/gpt-4o: temperature was changed from 3 to 2"]),
    ("gpt-4o", {"parallel_tool_calls": False}, {},
     ["openai/gpt-4o does not support parallel_tool_calls; it was not sent"]),
    ("llama-3", {"temperature": 3, "parallel_tool_calls": False},
     {"temperature": 3, "parallel_tool_calls": False}, []),
]  # fmt: skip

OWN = {"model", "messages", "input", "stream", "stream_options", "store", "include"}


@pytest.mark.parametrize(("model", "options", "fields", "said"), FITTED)
async def test_a_model_is_sent_what_it_takes_and_the_rest_is_told(
    model: str, options: dict[str, Any], fields: dict[str, Any], said: list[str]
) -> None:
    http, events = await asked(f"openai/{model}", **options)

    body = {name: value for name, value in http.bodies[0].items() if name not in OWN}
    if "reasoning" in body:
        body["reasoning.effort"] = body.pop("reasoning")["effort"]
    assert body == fields
    assert details(events) == said


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gpt-5", {"stop": "END"}),
        ("gpt-5.5-pro", {"stop": "END"}),
        ("gpt-4o", {"stop": ["a", "b", "c", "d", "e"]}),
        ("gpt-6-astra", {"settings": {"api": "chat"}, "context": WITH_TOOL}),
    ],
)
async def test_a_call_that_would_lose_its_meaning_is_refused_unless_rules_are_off(
    model: str, options: dict[str, Any]
) -> None:
    refused, events = await asked(f"openai/{model}", **options)
    assert (len(refused.requests), events[-1].error_kind) == (0, Kind.UNSUPPORTED)

    sent, _ = await asked(f"openai/{model}", rules=False, **options)
    assert len(sent.requests) == 1


async def test_a_users_file_lifts_a_rule_and_adds_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "models.toml"
    file.write_text(
        '[[rules]]\nname = "openai-stop"\n'
        '[[rules]]\nproviders = ["openai"]\nmatch = "^gpt-5$"\ntakes = { user = false }\n'
    )
    monkeypatch.setenv("SWINK_MODELS", str(file))

    http, events = await asked("openai/gpt-5", stop="END", user="u")

    assert http.bodies[0]["stop"] == ["END"]
    assert details(events)[0] == "openai/gpt-5 does not support user; it was not sent"


# -- names, keys and schemas ---------------------------------------------------------------------


async def test_names_that_are_refused_go_out_under_others_and_come_back_as_their_own() -> None:
    long = "look up " * 20
    used = [
        UserMessage("Hi"),
        AssistantMessage([ToolCallBlock("call_1", "look.up", {})]),
        ToolResultMessage("call_1", "look.up", "42"),
    ]
    context = Context(used, tools=[Tool("look.up"), Tool("look_up"), Tool(long)])
    http, _ = await asked("openai/gpt-4o", context, tool_choice="look.up")
    dotted, plain, shortened = [tool["function"]["name"] for tool in http.bodies[0]["tools"]]

    assert plain == "look_up"
    assert len({dotted, plain, shortened}) == 3
    assert len(shortened) <= 64
    assert http.bodies[0]["tool_choice"]["function"]["name"] == dotted
    assert http.bodies[0]["messages"][1]["tool_calls"][0]["function"]["name"] == dotted

    call = (
        b'data: {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": '
        b'{"name": "%s", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]}\n\n'
    )
    answer = MemoryResponse([call % shortened.encode()], headers=SSE)
    _, events = await asked("openai/gpt-4o", context, answer)
    assert [event.name for event in events if event.type == "tool_call_start"] == [long]


async def test_long_keys_are_shortened_alike_every_time() -> None:
    first, _ = await asked("openai/gpt-4o", session_id="s" * 100)
    again, _ = await asked("openai/gpt-4o", session_id="s" * 100)
    other, _ = await asked("openai/gpt-4o", session_id="s" * 101)

    keys = [http.bodies[0]["prompt_cache_key"] for http in (first, again, other)]
    assert keys[0] == keys[1] != keys[2]
    assert max(map(len, keys)) <= 64


async def test_alternatives_at_the_root_of_a_tool_s_schema_are_joined() -> None:
    schema = {
        "anyOf": [{"$ref": "#/$defs/A"}, {"properties": {"kind": {"const": "b"}}}],
        "$defs": {"A": {"properties": {"kind": {"const": "a"}, "x": {"type": "string"}}}},
    }
    tool = Tool("f", "", schema)
    http, events = await asked("openai/gpt-4o", Context([UserMessage("Hi")], tools=[tool]))

    parameters = http.bodies[0]["tools"][0]["function"]["parameters"]
    assert parameters["type"] == "object"
    assert "anyOf" not in parameters
    assert parameters["properties"]["x"] == {"type": "string"}
    assert parameters["properties"]["kind"] == {"anyOf": [{"const": "a"}, {"const": "b"}]}
    assert "the schema of f" in details(events)[0]


@pytest.mark.parametrize(
    ("required", "strict", "said"),
    [
        (["x"], True, []),
        (
            [],
            None,
            ["openai/gpt-4o: the schema of f does not fit strict mode; strict was not sent"],
        ),
    ],
)
async def test_a_strict_tool_is_sent_with_a_schema_that_strict_mode_takes(
    required: list[str], strict: bool | None, said: list[str]
) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": required}
    context = Context([UserMessage("Hi")], tools=[Tool("f", "", schema, strict=True)])
    http, events = await asked("openai/gpt-4o", context)

    function = http.bodies[0]["tools"][0]["function"]
    assert function.get("strict") is strict
    assert function["parameters"].get("additionalProperties") is (False if strict else None)
    assert details(events) == said


# -- other services ------------------------------------------------------------------------------


async def test_deepseek_does_not_think_where_a_call_is_forced() -> None:
    http, events = await asked("deepseek/deepseek-flash", WITH_TOOL, tool_choice="required")

    assert http.bodies[0]["thinking"] == {"type": "disabled"}
    assert details(events) == ["deepseek/deepseek-flash: thinking was changed from unset to off"]
