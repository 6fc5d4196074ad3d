"""Two teams share a gateway and an account at the vendor, and reach nothing of each other."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

import swink_core as swink
from lab.vendor import Vendor
from swink_gateway.policy.config import Source
from swink_gateway.serving.server import Gateway

TEXT = "\n".join(
    f'[keys.{name}]\nkey = "${{{name.upper()}}}"\nvendor_ids = ["*_of_{name}", "*-of-{name}"]'
    for name in ("alice", "bob")
)
VALUES = {"ALICE": "key-of-alice", "BOB": "key-of-bob"}

SEEDS = range(6)
REQUESTS = 12


class Rig:
    """A vendor, a gateway with its account, and what each team has there."""

    def __init__(self, vendor: Vendor, gateway: Gateway, session: aiohttp.ClientSession) -> None:
        self.vendor = vendor
        self.gateway = gateway
        self.session = session
        self.ids: dict[str, str] = {}

    async def post(self, url: str, body: Any, key: str) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {key}"}
        async with self.session.post(url, json=body, headers=headers) as response:
            data = await response.read()
            return response.status, json.loads(data) if data[:1] == b"{" else data

    async def keep(self) -> None:
        """Have the vendor keep a thing of each kind for the account."""
        base = f"{self.vendor.url}/v1"
        for kind, path, body in (
            ("conversation", "conversations", {}),
            ("store", "vector_stores", {"name": "s"}),
            ("container", "containers", {"name": "c"}),
            ("response", "responses", {"model": "gpt-5.4-mini", "input": "The secret is 7."}),
        ):
            status, made = await self.post(f"{base}/{path}", body, "key-alpha")
            assert status == 200, made
            self.ids[kind] = made["id"]


@asynccontextmanager
async def rigged() -> AsyncIterator[Rig]:
    async with Vendor() as vendor:
        openai = {"base_url": f"{vendor.url}/v1", "api_key": "key-alpha"}
        config = Source("t", TEXT).config(VALUES)
        async with (
            swink.Client(providers={"openai": openai}, retry=False) as client,
            Gateway(client, config=config) as gateway,
            aiohttp.ClientSession() as session,
        ):
            yield Rig(vendor, gateway, session)


def attempts(ids: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Return requests that name what the vendor keeps, for each way in."""
    search = {"type": "file_search", "vector_store_ids": [ids["store"]]}
    code = {"type": "code_interpreter", "container": ids["container"]}
    responses: list[dict[str, Any]] = [
        {"conversation": ids["conversation"]},
        {"conversation": {"id": ids["conversation"]}},
        {"previous_response_id": ids["response"]},
        {"tools": [search]},
        {"tools": [code]},
    ]
    found = []
    for fields in responses:
        found.append(("/v1/responses", {"input": "Hi", "stream": False, **fields}))
        for how in ("options", "call"):
            body = {"stream": False, "messages": [{"role": "user", "content": "Hi"}]}
            found.append(("/v1/stream", {**body, how: {"extra": fields}}))
    return found


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_that_the_vendor_keeps_is_reached_with_another_teams_key(seed: int) -> None:
    chance = random.Random(seed)
    async with rigged() as rig:
        await rig.keep()
        before = len(rig.vendor.state.record.exchanges)
        bill = json.dumps(rig.vendor.state.bill(), sort_keys=True)
        replies = set()
        unknown = dict.fromkeys(rig.ids, "made_up")
        for _ in range(REQUESTS):
            ids = chance.choice([rig.ids, unknown])
            path, fields = chance.choice(attempts(ids))
            body = {"model": "openai/gpt-5.4-mini", **fields}
            status, data = await rig.post(rig.gateway.url + path, body, "key-of-bob")
            text = json.dumps(data)
            for id in ids.values():
                text = text.replace(id, "ID")
            replies.add((status, "previous_response_id" in fields, text))
        await rig.vendor.idle()
        assert {status for status, _, _ in replies} <= {400, 404}
        assert len(rig.vendor.state.record.exchanges) == before
        assert json.dumps(rig.vendor.state.bill(), sort_keys=True) == bill
        places = {text for _, _, text in replies}
        assert not any(id in text for text in places for id in rig.ids.values())


async def test_a_team_goes_on_from_its_own_answer_and_no_other_team_does() -> None:
    async with rigged() as rig:
        said = [{"role": "user", "content": "Hi"}]
        body: dict[str, Any] = {
            "model": "openai/gpt-5.4-mini", "stream": False, "messages": said,
            "options": {"settings": {"api": "responses"}, "extra": {"store": True}},
        }  # fmt: skip
        status, answer = await rig.post(f"{rig.gateway.url}/v1/stream", body, "key-of-alice")
        assert status == 200, answer
        body["options"]["extra"] = {"previous_response_id": answer["response_id"]}
        mine, _ = await rig.post(f"{rig.gateway.url}/v1/stream", body, "key-of-alice")
        theirs, _ = await rig.post(f"{rig.gateway.url}/v1/stream", body, "key-of-bob")
        assert (mine, theirs) == (200, 404)
        await rig.vendor.idle()
        users = {
            json.loads(each.body).get("safety_identifier") or json.loads(each.body)["user"]
            for each in rig.vendor.state.record.exchanges
        }
        caches = {
            json.loads(each.body)["prompt_cache_key"] for each in rig.vendor.state.record.exchanges
        }
        assert len(users) == len(caches) == 1


async def test_the_vendor_is_told_apart_which_team_asks() -> None:
    async with rigged() as rig:
        body = {
            "model": "openai/gpt-5.4-mini",
            "messages": [{"role": "user", "content": "Hi"}],
            "prompt_cache_key": "the same",
            "user": "the same",
        }
        url = f"{rig.gateway.url}/v1/chat/completions"
        both = [await rig.post(url, body, f"key-of-{name}") for name in ("alice", "bob")]
        assert [status for status, _ in both] == [200, 200]
        await rig.vendor.idle()
        sent = [json.loads(each.body) for each in rig.vendor.state.record.exchanges]
        assert len({one["prompt_cache_key"] for one in sent}) == 2
        assert "the same" not in json.dumps(sent)


BELOW = (("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", ""))
STEPS = 25


@pytest.mark.parametrize("seed", SEEDS)
async def test_responses_are_for_the_team_that_made_them_whatever_the_order(seed: int) -> None:
    """Each reply about an id of the other team is the reply about an id that does not exist."""
    chance = random.Random(seed)
    kept: dict[str, list[str]] = {"alice": [], "bob": []}
    async with rigged() as rig:
        url, generated = f"{rig.gateway.url}/v1/responses", 0

        async def ask(method: str, path: str, name: str) -> tuple[int, str]:
            headers = {"Authorization": f"Bearer key-of-{name}"}
            async with rig.session.request(method, url + path, headers=headers) as response:
                return response.status, await response.text()

        async def create(name: str, previous: str | None) -> tuple[int, Any]:
            body = {"model": "openai/gpt-5.4-mini", "input": f"I am {name}."}
            if previous is not None:
                body["previous_response_id"] = previous
            return await rig.post(url, body, f"key-of-{name}")

        for _ in range(STEPS):
            name = chance.choice([*kept])
            [other] = {*kept} - {name}
            whose = chance.choice([name, other])
            if not kept[whose]:
                status, made = await create(name, None)
                assert status == 200, made
                kept[name].append(made["id"])
                generated += 1
                continue
            id = chance.choice(kept[whose])
            if chance.random() < 0.3:
                status, made = await create(name, id)
                assert status == (200 if whose == name else 400), made
                if whose == name:
                    kept[name].append(made["id"])
                    generated += 1
                continue
            method, below = chance.choice(BELOW)
            status, text = await ask(method, f"/{id}{below}", name)
            if whose == name:
                assert status == (400 if below == "/cancel" else 200)
                if method == "DELETE":
                    kept[name].remove(id)
            else:
                unknown = "x" * len(id)
                expected = await ask(method, f"/{unknown}{below}", name)
                assert (status, text.replace(id, unknown)) == expected
                assert status == 404
        await rig.vendor.idle()
        assert len(rig.vendor.state.record.exchanges) == generated
