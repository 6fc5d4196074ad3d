"""Two clients ask for one model at once, and one of them meets every failure."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

import swink
from lab.clients.scenes import FAILURES
from lab.vendor import Fault, Vendor
from swink_gateway.policy.cooldowns import Cooldowns
from swink_gateway.serving.server import Gateway

KEY = "key-alpha"
MODELS = {
    "/v1/messages": ("anthropic", "claude-haiku-4-5"),
    "/v1/chat/completions": ("openai", "gpt-4.1"),
}
ROUNDS = 6
"""More than the failures in a row that open a circuit."""

FAULTS = {name: scene.fault for name, scene in FAILURES.items() if scene.fault is not None}


async def asked(session: aiohttp.ClientSession, url: str, prompt: str) -> tuple[int, str]:
    """Return the status and the text of a streamed answer."""
    messages = [{"role": "user", "content": prompt}]
    body = {"model": "route", "max_tokens": 99, "stream": True, "messages": messages}
    async with session.post(url, json=body) as response:
        return response.status, await response.text()


@pytest.mark.parametrize("path", MODELS)
@pytest.mark.parametrize(("name", "fault"), FAULTS.items(), ids=FAULTS)
async def test_a_client_does_not_notice_the_failures_of_another(
    name: str, fault: Fault, path: str
) -> None:
    provider, model = MODELS[path]
    failing = f"[[vendor {json.dumps({'fault': {**fault.as_json(), 'times': 1}})}]]"
    async with Vendor() as vendor:
        folder = "/v1" if provider == "openai" else ""
        own: dict[str, Any] = {provider: {"base_url": vendor.url + folder, "api_key": KEY}}
        routes = {"route": [f"{provider}/{model}"]}
        async with (
            swink.Client(providers=own, gates=[Cooldowns()]) as client,
            Gateway(client, routes=routes) as gateway,
            aiohttp.ClientSession() as session,
        ):
            url = gateway.url + path
            for number in range(ROUNDS):
                broken, whole = await asyncio.gather(
                    asked(session, url, failing), asked(session, url, f"Hello {number}")
                )
                assert "error" in broken[1], name
                assert whole[0] == 200
                assert "error" not in whole[1]
                assert "[DONE]" in whole[1] or "message_stop" in whole[1]
