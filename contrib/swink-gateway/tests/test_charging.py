"""The charge of a call: from reported usage, or else from estimates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from attrs import define
from serving import Answer, ask, serving, until

import swink_core as swink
from swink_core.providers import cost_of, prompt_of, reservation
from swink_core.vocabulary.prices import PriceCase, Prices
from swink_gateway.policy.charging import Payer, charged, most_of
from swink_gateway.policy.config import Key, Price, Source
from swink_gateway.policy.limits import MemoryLedger, Refusal, Ticket
from swink_gateway.policy.prices import repriced
from swink_gateway.protocols import Asked
from swink_gateway.protocols.failures import Refused
from swink_gateway.protocols.messages.requests import read_messages
from swink_gateway.serving.admission import ACTIVE
from swink_gateway.serving.server import Gateway
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

MODEL = "openai/gpt-5.4-mini"
PROMPT = "word " * 8_000


def tokens_in(text: str) -> int:
    """Return the core's estimate for a user message."""
    context = swink.Context([swink.UserMessage(text)])
    return int(prompt_of(None, context, swink.StreamOptions()).tokens)


PROMPT_TOKENS = tokens_in(PROMPT)

KEY = {"Authorization": "Bearer key-a"}

CONFIG = """
[keys.alice]
key = "${A}"
"""

USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


def chunk(content: str | None = None, end: str | None = None, **more: Any) -> bytes:
    """Return an event of a Chat Completions stream."""
    delta = {"role": "assistant"} if content is None else {"content": content}
    choice = {"index": 0, "delta": {} if end else delta, "finish_reason": end}
    data = {"id": "c1", "object": "chat.completion.chunk", "choices": [choice], **more}
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


class Vendor(LoopbackServer):
    """A server that follows `script`, one behaviour per request, and then repeats the last one.

    A behaviour is an HTTP status; "waits": begins an answer and sends no text; "breaks": the same,
    and then resets the connection after some text; "answers", with or "without usage"; "is
    damaged": sends usage, and later an invalid frame.
    """

    script: tuple[int | str, ...] = ("answers",)

    async def respond(self, exchange: Exchange) -> None:
        behaviour = self.script[0]
        self.script = self.script[1:] or self.script
        if isinstance(behaviour, int):
            await exchange.start(behaviour, {"Content-Type": "application/json"})
            await exchange.write(b'{"error": {"message": "no"}}')
            await exchange.end()
            return
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        if behaviour == "waits":
            await exchange.write(b": keep\n\n")
            await exchange.disconnected()
            return
        begun = {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}
        first = chunk(usage=begun) if behaviour == "is damaged" else chunk()
        await exchange.write(first + chunk("word " * 20))
        if behaviour == "is damaged":
            await exchange.write(b'data: {"choices": [{"index": 0, "us\n\n')
        if behaviour == "breaks":
            exchange.reset()
            return
        await exchange.write(chunk(end="stop"))
        if behaviour == "answers":
            await exchange.write(chunk(end="stop", choices=[], usage=USAGE))
        await exchange.write(b"data: [DONE]\n\n")
        await exchange.end()


@define
class Team:
    """A gateway with one key, in front of a vendor."""

    vendor: Vendor
    gateway: Gateway
    ledger: MemoryLedger

    def body(self, path: str, stream: bool) -> dict[str, Any]:
        """Return a request with the prompt."""
        said = {"role": "user", "content": PROMPT}
        name = "input" if path.endswith("responses") else "messages"
        return {"model": MODEL, "stream": stream, name: [said]}

    async def ask(self, stream: bool = False) -> Answer:
        """Request a chat completion and read the complete answer."""
        path = "/v1/chat/completions"
        return await ask(self.gateway, path, self.body(path, stream), headers=KEY)

    async def hang_up(self, path: str, stream: bool) -> None:
        """Send a request, and disconnect as soon as the vendor has it."""
        before = len(self.vendor.exchanges)

        async def asking() -> None:
            async with (
                aiohttp.ClientSession(headers=KEY) as session,
                session.post(self.gateway.url + path, json=self.body(path, stream)) as response,
            ):
                await response.read()

        request = asyncio.ensure_future(asking())
        await until(lambda: len(self.vendor.exchanges) > before)
        request.cancel()
        await asyncio.wait([request])
        await until(lambda: self.gateway.counters[ACTIVE] == 0)

    async def spent(self) -> tuple[float, float]:
        """Return the tokens and US dollars that the key was charged."""
        (found,) = await self.ledger.spending(["alice"])
        return found.tokens, found.dollars_today


@asynccontextmanager
async def team(
    *script: int | str, limits: str = "", retry: Any = None, api: str = "chat", url: str = ""
) -> AsyncIterator[Team]:
    config = Source("team.toml", CONFIG + limits).config({"A": "key-a"})
    ledger = MemoryLedger()
    async with Vendor() as vendor:
        vendor.script = script
        own = {"openai": {"base_url": url or vendor.url, "api_key": "k", "api": api}}
        again = retry or swink.RetryPolicy.none()
        async with serving(providers=own, config=config, ledger=ledger, retry=again) as gateway:
            yield Team(vendor, gateway, ledger)


async def price_of(prompt: int, output: int) -> float:
    async with swink.Client() as client:
        info = client.catalog.resolve(MODEL).info
    assert info is not None
    cost = cost_of(swink.Usage(prompt, output), info.prices)
    assert cost is not None
    assert cost.total
    return cost.total


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_disconnect_before_the_first_token_charges_the_prompt(
    api: str, path: str, stream: bool
) -> None:
    async with team("waits", api=api) as one:
        await one.hang_up(path, stream)
        tokens, dollars = await one.spent()
    assert PROMPT_TOKENS <= tokens < PROMPT_TOKENS + 100
    assert dollars == pytest.approx(await price_of(PROMPT_TOKENS, 0), rel=0.01)


async def test_disconnected_calls_count_against_the_budget() -> None:
    budget = 2.5 * await price_of(PROMPT_TOKENS, 0)
    async with team("waits", limits=f"dollars_per_day = {budget:.9f}") as one:
        for _ in range(3):
            await one.hang_up("/v1/chat/completions", True)
        assert (await one.ask()).status == 429
        assert len(one.vendor.exchanges) == 3


AGAIN = swink.RetryPolicy(
    retries=dict.fromkeys(swink.StreamErrorKind, 2), base=0.0, restart_after_output=True
)


async def test_each_attempt_without_usage_is_charged() -> None:
    async with team("breaks", "breaks", "answers", retry=AGAIN) as one:
        assert (await one.ask()).status == 200
        tokens, dollars = await one.spent()
        assert len(one.vendor.exchanges) == 3
    words = tokens_in("word " * 20) - 4
    prompts = 2 * PROMPT_TOKENS
    assert prompts + 2 * words + 12 <= tokens < prompts + 2 * words + 12 + 100
    expected = 2 * await price_of(PROMPT_TOKENS, words) + await price_of(7, 5)
    assert dollars == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503, 529])
async def test_refused_attempts_cost_nothing(status: int) -> None:
    async with team(status, retry=AGAIN) as one:
        assert (await one.ask()).status >= 400
        await one.ask(stream=True)
        assert await one.spent() == (0, 0.0)
        assert len(one.vendor.exchanges) >= 2


async def test_a_refused_attempt_before_an_answer_costs_nothing() -> None:
    async with team(503, "answers", retry=AGAIN) as one:
        assert (await one.ask()).status == 200
        tokens, dollars = await one.spent()
    assert (tokens, dollars) == (12, pytest.approx(await price_of(7, 5)))


async def test_attempts_that_do_not_reach_the_vendor_cost_nothing() -> None:
    async with team("answers", url="http://127.0.0.9:9/v1", retry=AGAIN) as one:
        assert (await one.ask()).status == 502
        assert await one.spent() == (0, 0.0)


async def test_an_answer_without_usage_is_charged_by_estimates() -> None:
    async with team("without usage") as one:
        assert (await one.ask()).status == 200
        tokens, dollars = await one.spent()
    words = tokens_in("word " * 20) - 4
    assert PROMPT_TOKENS + words <= tokens < PROMPT_TOKENS + words + 100
    assert dollars == pytest.approx(await price_of(PROMPT_TOKENS, words), rel=0.01)


async def test_usage_before_a_damaged_frame_is_the_minimum_charge() -> None:
    async with team("is damaged") as one:
        assert (await one.ask()).status == 502
        tokens, _ = await one.spent()
    words = tokens_in("word " * 20) - 4
    assert 7 + words <= tokens < 7 + words + 100


def total_of(usage: swink.Usage, prices: Any) -> Any:
    cost = cost_of(usage, prices)
    assert cost is not None
    return cost.total


@pytest.mark.parametrize("prompt", [10_000, pytest.param(300_000, marks=pytest.mark.heavy)])
async def test_a_key_reserves_the_catalogs_cost_of_a_call(prompt: int) -> None:
    asked = Asked(MODEL, swink.Context([swink.UserMessage("x" * 4 * prompt)]))
    asked.options["max_tokens"] = 2000
    options = swink.StreamOptions(max_tokens=2000)
    wrong, rows, with_cases = [], 0, 0
    async with swink.Client() as client:
        for provider in client.host.provider_names():
            for info in client.catalog.models(provider):
                if info.prices is None:
                    continue
                known = client.catalog.provider(provider)
                charge = reservation(info, known, asked.context, options)
                prompt = charge.tokens - 2000
                used: Any = [
                    swink.Usage(prompt, 2000, cache_write=written) for written in (0, prompt)
                ]
                before = [total_of(each, info.prices) for each in used]
                dollars = most_of(client, swink.Model(provider, info.id, info), {}, asked).cost
                # prices may change at an hour
                after = [total_of(each, info.prices) for each in used]
                if None not in before and dollars not in (max(before), max(after)):
                    wrong.append(f"{provider}/{info.id}")
                rows += 1
                with_cases += bool(info.prices.cases)
    assert wrong == []
    assert rows > with_cases > 0


async def test_a_cache_mark_of_an_hour_costs_the_same_for_the_request_and_on_a_block() -> None:
    text: dict[str, Any] = {"type": "text", "text": "word " * 5000}
    body: dict[str, Any] = {"model": "m", "max_tokens": 5}

    def marked(mark: dict[str, Any], where: str) -> Asked:
        on_text, on_body = (mark if where == place else {} for place in ("block", "request"))
        turn = {"role": "user", "content": [{**text, **on_text}]}
        return read_messages({**body, **on_body, "messages": [turn]}, {})

    hour, short = ({"cache_control": {"type": "ephemeral", "ttl": ttl}} for ttl in ("1h", "5m"))
    async with swink.Client() as client:
        model = client.target("anthropic/claude-haiku-4-5").model

        def cost(mark: dict[str, Any], where: str) -> float:
            found = most_of(client, model, {}, marked(mark, where)).cost
            assert found is not None
            return found

        assert cost(hour, "request") == pytest.approx(cost(hour, "block"), rel=0.01)
        assert cost(hour, "request") > 1.5 * cost(short, "request")


INHERITED = frozenset({"extra"})


@pytest.mark.parametrize(
    "field",
    [
        {"n": 3},
        {"best_of": 5},
        {"service_tier": "priority"},
        {"prediction": {"content": "a b " * 5000}},
    ],
    ids=str,
)
async def test_fields_that_pass_unchanged_raise_the_reservation(field: dict[str, Any]) -> None:
    context, options = swink.Context.of("Hi"), {"max_tokens": 100}
    async with swink.Client() as client:
        model = client.target("openai/gpt-6.1-sol").model
        plain = most_of(client, model, {}, Asked(MODEL, context, options)).cost
        for asked in (
            Asked(MODEL, context, options, own=field),
            Asked(MODEL, context, {**options, "extra": field}),
            Asked(MODEL, context, options, extra=field, inherited=INHERITED),
        ):
            cost = most_of(client, model, {}, asked).cost
            assert cost is not None
            assert plain is not None
            assert cost > 1.5 * plain


SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 100}
FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}

# requests with SEARCH in one layer of fields, and another value of the same field in the next
LAYERS: list[Callable[[dict[str, Any]], Asked]] = [
    lambda other: Asked(
        MODEL,
        swink.Context.of("Hi"),
        {"extra": {"tools": [SEARCH]}},
        extra=other,
        inherited=INHERITED,
    ),
    lambda other: Asked(
        MODEL,
        swink.Context.of("Hi"),
        own={"tools": [SEARCH]},
        extra={"seed": 1, **other},
        inherited=INHERITED,
    ),
]


@pytest.mark.parametrize("layered", LAYERS)
@pytest.mark.parametrize("other", [{"tools": [FETCH]}, {"tools": []}, {"enable_search": None}])
async def test_fields_of_a_request_are_merged_for_the_reservation_as_they_are_sent(
    layered: Callable[[dict[str, Any]], Asked], other: dict[str, Any]
) -> None:
    async with swink.Client() as client:
        model = client.target("anthropic/claude-haiku-4-5").model
        cost = most_of(client, model, {}, layered(other)).cost
    assert cost is not None
    assert cost > 1.0  # the fees of 100 searches


async def test_fields_of_a_call_that_are_not_sent_do_not_lower_the_reservation() -> None:
    options = {"max_tokens": 10_000, "extra": {"n": 8, "service_tier": "priority"}}
    context, removed = swink.Context.of("Hi"), {"n": None, "service_tier": None}
    async with swink.Client() as client:
        model = client.target("openai/gpt-6.1-sol").model
        plain = most_of(client, model, {}, Asked(MODEL, context, options))
        assert most_of(client, model, {}, Asked(MODEL, context, options, extra=removed)) == plain
        own = {"extra": {"seed": 1}}
        plain = most_of(client, model, own, Asked(MODEL, context, options))
        asked = Asked(MODEL, context, options, extra=removed, inherited=INHERITED)
        assert most_of(client, model, own, asked) == plain


FASTER = PriceCase(terms=("priority",), factor=2.0)

# (fields of the request, whether the gateway can charge it)
CHARGEABLE: list[tuple[dict[str, Any], bool]] = [
    ({"service_tier": "priority"}, True),
    ({"service_tier": "sometime"}, False),
    ({"enable_search": True}, False),
]


@pytest.mark.parametrize(("fields", "is_charged"), CHARGEABLE, ids=str)
async def test_a_key_with_a_budget_cannot_ask_for_what_has_no_price(
    fields: dict[str, Any], is_charged: bool
) -> None:
    priced = swink.ModelInfo("m", prices=Prices(input=1.0, output=1.0, cases=(FASTER,)))
    chain = [(swink.Model("echo", "m", priced), dict[str, Any]())]
    asked = Asked("echo/m", swink.Context.of("Hi"), own=fields)
    payer = Payer("ann", Key(key=(b"k",), dollars_per_day=1.0))
    async with swink.Client() as client, aclosing(MemoryLedger()) as ledger:
        if is_charged:
            async with charged(client, ledger, payer, chain, asked):
                pass
        else:
            with pytest.raises(Refused, match="the price of echo/m is unknown"):
                async with charged(client, ledger, payer, chain, asked):
                    pass


# (price in the file, prices of the catalog, prices of a request)
REPRICED: list[tuple[Price, dict[str, Any], dict[str, Any]]] = [
    (
        Price(input=2.0, output=8.0),
        {"input": 1.0, "output": 4.0, "cache_read": 0.1, "fees": {"searches": 0.01},
         "cases": [{"above": 9, "input": 1.5}, {"terms": ["batch"], "factor": 0.5}]},
        {"input": 2.0, "output": 8.0, "cache_read": 2.0, "cache_write": 2.0,
         "fees": {"searches": 0.01},
         "cases": [{"above": 9, "input": 3.0}, {"terms": ["batch"], "factor": 0.5}]},
    ),
    (
        Price(input=0.0, output=0.0, cache_read=0.0, cache_write=0.0, search=0.02),
        {"input": 1.0, "output": 4.0, "input_audio": 3.0, "cases": [{"above": 9, "output": 5.0}]},
        {"input": 0.0, "output": 0.0, "cache_read": 0.0, "cache_write": 0.0, "input_audio": 3.0,
         "fees": {"searches": 0.02, "file_searches": 0.02}, "cases": [{"above": 9, "output": 0.0}]},
    ),
    (
        Price(input=2.0, output=8.0),
        {},
        {"input": 2.0, "output": 8.0, "cache_read": 2.0, "cache_write": 2.0},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("price", "before", "after"), REPRICED, ids=str)
def test_a_price_of_the_file_keeps_fees_and_the_ratios_of_special_cases(
    price: Price, before: dict[str, Any], after: dict[str, Any]
) -> None:
    info = msgspec.convert(
        {"id": "m", "prices": before} if before else {"id": "m"}, swink.ModelInfo
    )
    assert repriced(info, price).prices == msgspec.convert(after, Prices)


@pytest.mark.parametrize("most", [0, -1, 10**21, 10**400])
async def test_an_impossible_max_tokens_of_a_key_with_a_budget_is_refused(most: int) -> None:
    asked = Asked(MODEL, swink.Context.of("Hi"), {"max_tokens": most})
    async with swink.Client() as client:
        model = client.target("openai/gpt-6.1-sol").model
        with pytest.raises(Refused, match="tokens") as refused:
            most_of(client, model, {}, asked)
    assert refused.value.status == 400


async def test_a_fallback_that_the_budget_refuses_has_the_status_of_the_limit() -> None:
    """The failure of the model before it does not make the limit one of the gateway."""
    file = """
[keys.alice]
key = "${A}"
dollars_per_day = 0.01
[routes.best]
tiers = ["openai/gpt-4.1-mini", "openai/gpt-4.1"]
"""
    body = {"model": "best", "max_tokens": 1000, "messages": [{"role": "user", "content": "Hi"}]}
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "busy"}}, 503))
    async with serving(
        http=http,
        providers={"openai": {"api_key": "k", "api": "chat"}},
        config=Source("t", file).config({"A": "a"}),
        ledger=OnlyOnce(),
    ) as gateway:
        answer = await ask(
            gateway, "/v1/chat/completions", body, headers={"Authorization": "Bearer a"}
        )
    assert (answer.status, answer.json["error"]["code"]) == (429, "insufficient_quota")


class OnlyOnce(MemoryLedger):
    """A ledger whose budget is spent after the first attempt."""

    async def admit(self, *given: Any, begins: bool = True, **more: Any) -> Ticket | Refusal:
        if begins:
            return await super().admit(*given, begins=begins, **more)
        return Refusal("0.01 US dollars a day", 3600.0, spent=True)


class SlowlyAcknowledged(MemoryLedger):
    """A ledger that stores a settlement at once, and returns later."""

    def __init__(self) -> None:
        super().__init__()
        self.stored, self.go = asyncio.Event(), asyncio.Event()

    async def settle(self, *given: Any, ends: bool = True) -> None:
        await super().settle(*given, ends=ends)
        if not ends:
            self.stored.set()
            await self.go.wait()


async def test_a_disconnect_during_a_settlement_does_not_settle_it_again() -> None:
    file = """
[keys.alice]
key = "${A}"
dollars_per_day = 1
[routes.best]
tiers = ["openai/gpt-4.1-mini", "openai/gpt-4.1"]
"""
    ledger = SlowlyAcknowledged()
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "busy"}}, 503))
    async with serving(
        http=http,
        providers={"openai": {"api_key": "k", "api": "chat"}},
        config=Source("t", file).config({"A": "key-a"}),
        ledger=ledger,
    ) as gateway:
        body = {
            "model": "best",
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": "Hi"}],
        }
        path = "/v1/chat/completions"
        asking = asyncio.ensure_future(ask(gateway, path, body, headers=KEY))
        await ledger.stored.wait()
        asking.cancel()
        await asyncio.wait([asking])
        await asyncio.sleep(0.1)  # the gateway notices the disconnect
        ledger.go.set()
        await until(lambda: gateway.counters[ACTIVE] == 0)
    (spent,) = await ledger.spending(["alice"])
    assert (spent.dollars_today, spent.tokens, spent.streams) == (0.0, 0, 0)
