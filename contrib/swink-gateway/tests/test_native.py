"""swink's native protocol through the gateway, with its own client."""

from __future__ import annotations

from typing import Any

import pytest
from serving import ONCE, Scripted, ask, serving

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

HI = {"model": "echo/echo", "messages": [{"role": "user", "content": "one two"}]}


@pytest.mark.parametrize("model", ["echo/echo", "echo/think", "echo/tool"])
async def test_a_model_answers_through_the_gateway_as_it_does_directly(model: str) -> None:
    async with serving() as gateway, swink.Client() as client:
        async with client.stream(model, "one two") as stream:
            direct = [event async for event in stream]
        there = {"base_url": gateway.url, "retry": ONCE}
        async with client.stream(f"proxy/{model}", "one two", **there) as stream:
            relayed = [event async for event in stream]
    assert [type(event) for event in relayed] == [type(event) for event in direct]
    assert relayed[1:-1] == direct[1:-1]
    assert relayed[-1].usage == direct[-1].usage  # type: ignore[attr-defined]  # Done


ANSWER = b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'

# (the client's `extra` and options, the call's `extra` and options)
LAYERS: list[list[dict[str, Any]]] = [
    [{}, {"temperature": 0.2}, {"temperature": 0.3}, {}],
    [{}, {"temperature": 0.2, "seed": 1}, {"temperature": None}, {"seed": 2}],
    [{"temperature": 0.1, "n": 1}, {"temperature": 0.2}, {"seed": 2}, {}],
    [{"temperature": 0.1}, {"temperature": 0.2}, {"temperature": 0.3}, {"temperature": 0.4}],
]


async def test_later_options_override_earlier_ones_behind_the_gateway() -> None:
    there = MemoryHTTPClient(*(MemoryResponse([ANSWER]) for _ in LAYERS))
    async with serving(http=there, providers={"groq": {"api_key": "k"}}) as gateway:
        for extra, given, later, last in LAYERS:
            here, call = MemoryHTTPClient(MemoryResponse([ANSWER])), {**last, "extra": later}
            groq: Any = {"groq": {"api_key": "k", "extra": extra}}
            async with swink.Client(http=here, providers=groq, **given) as client:
                await client.complete("groq/any", "Hi", **call)
            proxy: Any = {"proxy": {"base_url": gateway.url, "extra": extra}}
            async with swink.Client(providers=proxy, **given) as client:
                await client.complete("proxy/groq/any", "Hi", **call)
            assert there.bodies[-1] == here.bodies[0], (extra, given, later, last)


async def test_settings_and_extra_reach_the_call_behind_the_gateway() -> None:
    upstream = Scripted([swink.Start(), swink.Done(swink.StopReason.LENGTH)])
    async with (
        serving(upstream) as gateway,
        swink.Client() as client,
        client.stream(
            "proxy/echo/echo",
            "Hi",
            base_url=gateway.url,
            retry=ONCE,
            settings={"script": {"reply": "No."}},
            extra={"a": {"b": [1, None]}, "c": None},
            cache=swink.CacheStrategy(ttl=60),
            thinking="low",
        ) as stream,
    ):
        async for _ in stream:
            pass
    options = upstream.options
    assert options.settings == {"script": {"reply": "No."}}
    assert options.extra == {"a": {"b": [1, None]}, "c": None}
    assert options.cache == swink.CacheStrategy(ttl=60)
    assert options.thinking is swink.ThinkingLevel.LOW


REFUSED: list[tuple[str, Any, int, str]] = [
    ("no JSON", b"{oops", 400, "not valid JSON"),
    ("no object", [], 400, "expected an object"),
    ("no model", {"messages": []}, 400, "model is missing"),
    ("no conversation", {"model": "echo/echo"}, 400, "empty"),
    ("an unknown option", {**HI, "options": {"mood": 1}}, 400, "options.mood"),
    ("an address", {**HI, "options": {"base_url": "http://x"}}, 400, "options.base_url"),
    (
        "a setting of an adapter on this machine",
        {**HI, "options": {"settings": {"args": ["--dangerous"]}}},
        400,
        "options.settings.args",
    ),
    *(
        ("a file for a model", {**HI, "model": f"local/{file}"}, 404, "cannot name files")
        for file in ("/etc/model.gguf", "~/model.gguf", "model.gguf", "a/b:model.gguf", "C:\\m")
    ),
    ("a key", {**HI, "options": {"api_key": "k"}}, 400, "options.api_key"),
    ("an unknown provider", {**HI, "model": "nobody/any"}, 404, "nobody"),
    ("an unknown bare name", {**HI, "model": "any"}, 404, "provider/id"),
    (
        "a file of this machine",
        {
            **HI,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "source": {"type": "file", "path": "/etc/passwd"}}
                    ],
                }
            ],
        },
        400,
        "file",
    ),
]


@pytest.mark.parametrize(
    ("body", "status", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
async def test_invalid_requests_are_refused_with_a_reason(
    body: Any, status: int, said: str
) -> None:
    async with serving() as gateway:
        answer = await ask(gateway, "/v1/stream", body)
    assert answer.status == status
    assert said in answer.json["error"]["message"]


async def test_an_unknown_field_is_reported_in_a_header() -> None:
    async with serving() as gateway:
        answer = await ask(gateway, "/v1/stream", {**HI, "mood": "good", "stream": False})
    assert answer.status == 200
    assert answer.headers["x-swink-dropped"] == "mood"
    assert swink.load(swink.AssistantMessage, answer.json).text == "one two"


async def test_the_operator_may_allow_a_setting() -> None:
    upstream = Scripted([swink.Start(), swink.Done(swink.StopReason.LENGTH)])
    asked = {**HI, "model": "openai/gpt-5.4-mini"}
    asked["options"] = {"settings": {"resume": "resp_1"}}
    async with serving(upstream, settings=["resume"]) as gateway:
        assert (await ask(gateway, "/v1/stream", asked)).status == 200
    assert upstream.options.settings == {"resume": "resp_1"}


async def test_an_exception_in_an_encoder_is_a_failure_with_a_message(monkeypatch: Any) -> None:
    from swink_gateway.protocols.chat.protocol import ChatEncoder

    monkeypatch.setattr(ChatEncoder, "_begin", None)
    async with serving() as gateway:
        answer = await ask(gateway, "/v1/chat/completions", {**HI, "stream": True})
    assert answer.frames[-1] == b"[DONE]"
    assert "failed to translate" in answer.frames[-2]["error"]["message"]


@pytest.mark.parametrize(
    ("kind", "status"), [(Kind.THROTTLED, 429), (Kind.OVERLOADED, 503), (Kind.AUTH, 502)]
)
async def test_a_failed_answer_without_streaming_has_its_kinds_status(
    kind: Kind, status: int
) -> None:
    upstream = Scripted(
        [swink.Start(), swink.Error(error_message="no", error_kind=kind, retry_after=7)]
    )
    async with serving(upstream) as gateway:
        answer = await ask(gateway, "/v1/stream", {**HI, "stream": False})
    assert (answer.status, answer.headers["Retry-After"]) == (status, "7")
    assert answer.json["error"]["error_kind"] == kind


@pytest.mark.parametrize("extra", [5, "x", [1]])
async def test_an_extra_that_is_no_object_is_refused(extra: object) -> None:
    upstream = Scripted([swink.Start(), swink.Done(swink.StopReason.STOP)])
    async with serving(upstream) as gateway:
        for place in ("options", "call"):
            refused = await ask(gateway, "/v1/stream", {**HI, place: {"extra": extra}})
            assert refused.status == 400
            told = refused.json["error"]["message"]
            assert f"{place}.extra is a" in told
            assert "expected an object" in told
    assert upstream.calls == []


def media(url: str) -> dict[str, Any]:
    block = {"type": "image", "source": {"type": "url", "url": url, "media_type": "image/png"}}
    return {"messages": [{"role": "user", "content": [block]}]}


ADDRESSES = [
    media("file:///etc/passwd"),
    media("FILE:/etc/passwd"),
    media("ftp://192.0.2.1/a.png"),
    {"options": {"extra": {"messages": [{"image_url": {"url": "file:///etc/passwd"}}]}}},
    {"call": {"extra": {"image": "file:///etc/passwd"}}},
]


@pytest.mark.parametrize("more", ADDRESSES, ids=str)
async def test_a_file_url_is_refused(more: dict[str, Any]) -> None:
    upstream = Scripted([swink.Start(), swink.Done(swink.StopReason.STOP)])
    async with serving(upstream) as gateway:
        refused = await ask(gateway, "/v1/stream", {**HI, **more})
        sent = await ask(gateway, "/v1/stream", {**HI, **media("https://example.org/a.png")})
    assert (refused.status, sent.status) == (400, 200)
    assert len(upstream.calls) == 1
