"""Several answers to one request: a client of Gemini's API gets the candidates of the vendor."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sdks import google
from serving import Scripted, Watched, ask, serving

import swink_core as swink
from swink_core import Extension, ExtensionBlock, StopReason, StreamErrorKind
from swink_gateway.policy.config import Config, Route, Source, Upstream
from swink_gateway.policy.limits import MemoryLedger
from swink_recorder.loopback import Exchange, LoopbackServer

HI = [{"role": "user", "parts": [{"text": "Hi"}]}]
PATH = "/v1beta/models/{}:generateContent"
USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 30, "totalTokenCount": 37}


def candidate(index: int, *parts: Any, finish: str = "STOP", **more: Any) -> dict[str, Any]:
    content = {"parts": list(parts), "role": "model"}
    return {"content": content, "finishReason": finish, "index": index, **more}


CANDIDATES = [
    candidate(0, {"text": "One."}, avgLogprobs=-0.25),
    candidate(1, {"text": "Hm.", "thought": True}, {"text": "Two.", "thoughtSignature": "c2ln"}),
    candidate(
        2,
        *({"functionCall": {"name": name, "args": {"at": "Rome"}}} for name in ("look", "plan")),
    ),
    candidate(3, {"text": "Fo"}, finish="MAX_TOKENS", avgLogprobs=-0.5),
    {"finishReason": "SAFETY", "index": 4,
     "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH",
                        "blocked": True}]},
    candidate(5, {"text": "Six."}, citationMetadata={"citationSources": [{"uri": "http://a"}]}),
]  # fmt: skip
MOST = len(CANDIDATES)


class Vendor(LoopbackServer):
    """Answers with the requested number of candidates."""

    def __init__(self) -> None:
        super().__init__()
        self.methods: list[str] = []
        self.counts: list[int] = []

    async def respond(self, exchange: Exchange) -> None:
        count = json.loads(exchange.body)["generationConfig"]["candidateCount"]
        self.methods.append(exchange.path.rpartition(":")[2])
        self.counts.append(count)
        said = {"usageMetadata": USAGE, "modelVersion": "m", "responseId": "r"}
        whole = {"candidates": CANDIDATES[:count], **said}
        if self.methods[-1] == "generateContent":
            await exchange.start(200, {"Content-Type": "application/json"})
            await exchange.write(json.dumps(whole).encode())
        else:
            await exchange.start(200, {"Content-Type": "text/event-stream"})
            for one in whole["candidates"]:
                frame = json.dumps({**whole, "candidates": [one]})
                await exchange.write(b"data: %s\n\n" % frame.encode())
        await exchange.end()


@asynccontextmanager
async def vendor_and_gateway(**options: Any) -> AsyncIterator[tuple[Vendor, Any]]:
    async with Vendor() as vendor:
        providers = {"gemini": {"base_url": vendor.url, "api_key": "k"}}
        async with serving(providers=providers, **options) as gateway:
            yield vendor, gateway


async def candidates_of(models: Any, model: str, count: int, stream: bool) -> list[Any]:
    """Return the candidates that Google's SDK reads, in order."""
    config = {"candidate_count": count, "thinking_config": {"include_thoughts": True}}
    asked = {"model": model, "contents": "Hi", "config": config}
    if stream:
        read = [each async for each in await models.generate_content_stream(**asked)]
    else:
        read = [await models.generate_content(**asked)]
    assert read[-1].usage_metadata.candidates_token_count == 30
    return [one.model_dump(exclude_none=True) for each in read for one in each.candidates]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-of-the-future"])
async def test_googles_sdk_reads_the_same_candidates_directly_and_through_the_gateway(
    model: str, stream: bool
) -> None:
    async with (
        vendor_and_gateway() as (vendor, gateway),
        google(vendor.url) as direct,
        google(gateway.url) as through,
    ):
        for count in (2, MOST):
            plain = await candidates_of(direct._models, "m", count, stream)
            assert len(plain) == count
            named = f"gemini/{model}"
            assert await candidates_of(through._models, named, count, stream) == plain
        asked, sent = vendor.methods[::2], vendor.methods[1::2]
        assert {method.partition("?")[0] for method in asked} == {
            "streamGenerateContent" if stream else "generateContent"
        }
        assert set(sent) == {"generateContent"}
        assert vendor.counts == [2, 2, MOST, MOST]


@pytest.mark.parametrize("shown", [False, True])
async def test_a_stream_as_a_json_array_has_all_candidates(shown: bool) -> None:
    thinking = {"thinkingBudget": 512, "includeThoughts": shown}
    body = {
        "contents": HI,
        "generationConfig": {"candidateCount": MOST, "thinkingConfig": thinking},
    }
    async with vendor_and_gateway() as (_, gateway):
        path = "/v1beta/models/gemini/gemini-2.5-flash:streamGenerateContent"
        answer = await ask(gateway, path, body)
        [last] = answer.json
        assert [last["candidates"][0], *last["candidates"][2:]] == [CANDIDATES[0], *CANDIDATES[2:]]
        parts = CANDIDATES[1]["content"]["parts"]
        assert last["candidates"][1]["content"]["parts"] == (parts if shown else parts[1:])
        assert last["usageMetadata"].items() >= USAGE.items()


@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent"])
@pytest.mark.parametrize("model", ["anthropic/claude-opus-5-5", "openai/gpt-4.1", "ollama/gemma3"])
async def test_over_another_protocol_several_answers_are_refused(model: str, method: str) -> None:
    upstream = Scripted([swink.Start(), swink.Done(StopReason.STOP)])
    path = f"/v1beta/models/{model}:{method}"
    async with serving(upstream) as gateway:
        for count, status in ((2, 400), (1, 200)):
            body = {"contents": HI, "generationConfig": {"candidateCount": count}}
            answer = await ask(gateway, path, body)
            assert answer.status == status
            if status == 400:
                error = answer.json["error"]
                assert error["status"] == "INVALID_ARGUMENT"
                assert error["message"].startswith(
                    f"generationConfig.candidateCount is 2: {model} does not use the client's"
                )
                assert not upstream.calls


async def test_a_fallback_gets_the_number_of_answers_or_is_left_out() -> None:
    fails = swink.Error(error_message="No", error_kind=StreamErrorKind.OVERLOADED)
    upstream = Watched([swink.Start(), fails])
    own = {"extra": {"labels": None, "generationConfig": {"mediaResolution": "LOW"}}}
    tiers = [
        [Upstream(model="openai/gpt-4.1")],
        [Upstream(model="gemini/gemini-2.5-pro")],
        [Upstream(model="gemini/gemini-2.5-flash", options=own)],
        [Upstream(model="vertex/gemini-2.5-flash")],
    ]
    config = Config(routes={"team": Route(tiers=tiers)})
    body = {"contents": HI, "generationConfig": {"candidateCount": 3}}
    async with serving(upstream, config=config) as gateway:
        assert (await ask(gateway, PATH.format("team"), body)).status >= 500
    count = {"generationConfig": {"candidateCount": 3}}
    assert upstream.seen == [
        ("gemini/gemini-2.5-pro", count),
        (
            "gemini/gemini-2.5-flash",
            {"labels": None, "generationConfig": {"mediaResolution": "LOW", "candidateCount": 3}},
        ),
        ("vertex/gemini-2.5-flash", count),
    ]


async def test_a_key_with_limits_pays_for_all_answers() -> None:
    file = """
[keys.alice]
key = "${A}"
models = ["gemini/gemini-2.5-flash"]
dollars_per_day = 1
"""
    config, ledger = Source("t", file).config({"A": "a"}), MemoryLedger()
    body = {"contents": HI, "generationConfig": {"candidateCount": 3}}
    async with vendor_and_gateway(config=config, ledger=ledger) as (_, gateway):
        path = PATH.format("gemini/gemini-2.5-flash")
        answer = await ask(gateway, path, body, headers={"x-goog-api-key": "a"})
        assert len(answer.json["candidates"]) == 3
    [spent] = await ledger.spending(["alice"])
    assert spent.tokens == USAGE["totalTokenCount"]


async def test_a_choice_of_another_provider_is_left_out() -> None:
    other = Extension(0, "openai", ExtensionBlock.CHOICE, CANDIDATES[1])
    upstream = Scripted([swink.Start(), other, swink.Done(StopReason.STOP)])
    body = {"contents": HI, "generationConfig": {"candidateCount": 2}}
    async with serving(upstream) as gateway:
        answer = await ask(gateway, PATH.format("gemini/gemini-2.5-flash"), body)
        [found] = answer.json["candidates"]
        assert found == candidate(0, {"text": ""})
