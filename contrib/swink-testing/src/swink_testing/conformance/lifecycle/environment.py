"""The key and base URL that a call takes from the environment."""

from __future__ import annotations

import asyncio
import os
from typing import Any
from unittest.mock import patch

from swink_core.providers import HTTPRequest
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.played import sent_by
from swink_testing.conformance.subject import CANARY_KEY, NOWHERE, Subject
from swink_testing.driver import MemoryResponse
from swink_testing.quiet import quiet

__all__ = ["check_environment_counts"]


def check_environment_counts(subject: Subject) -> None:
    """Calls without a key or base URL take them from the environment at that time."""
    info = subject.info
    if not subject.speaks_http or info is None:
        raise DoesNotApply("it does not speak HTTP")

    async def ask(without: str, **more: Any) -> HTTPRequest | None:
        options = {k: v for k, v in subject.call_options().items() if k != without}
        http = subject.http(*[MemoryResponse(status=400)] * 2)
        client = subject.client(http)  # not closed, or the provider would be made anew
        async with client.stream(subject.model, "Hello", **options | more) as stream:
            async for _ in stream:
                pass
        return http.requests[0] if http.requests else None

    with quiet():
        given = asyncio.run(ask(""))
        require(given is not None, "a call with a key and an address sends nothing")
        assert given is not None
        path = given.url.removeprefix(NOWHERE)
        if given.url.startswith(NOWHERE) and path.startswith("/"):
            slashed = asyncio.run(ask("base_url", base_url=f"{NOWHERE}/"))
            url = slashed and slashed.url
            require(url == given.url, f"a base_url that ends with / goes to {url}", url, given.url)
        sent = sent_by(given)
        require(info.auth != "key" or CANARY_KEY in sent, "the key of a call is not sent")
        if info.api_key_env and CANARY_KEY in sent:
            for key in ("sk-swink-first-of-two-19f2", "sk-swink-second-of-two-7b3e"):
                with patch.dict(os.environ, {info.api_key_env[0]: key}):
                    sent = sent_by(asyncio.run(ask("api_key")))
                require(key in sent, f"the key that {info.api_key_env[0]} holds is not sent")
        if info.base_url_env and given.url.startswith(NOWHERE):
            for address in ("http://first.invalid/v1", "http://second.invalid/v1"):
                with patch.dict(os.environ, {info.base_url_env[0]: address}):
                    asked = asyncio.run(ask("base_url"))
                url = asked.url if asked else "nowhere"
                there = url == f"{address}{path}"
                name = info.base_url_env[0]
                require(there, f"a call goes to {url}, though {name} is {address}", url, address)
        if info.base_url is not None and "{" not in info.base_url:
            asked = asyncio.run(ask("base_url"))  # which may need to know more than that
            url = asked.url if asked else info.base_url
            there = url.startswith(info.base_url.rstrip("/"))
            require(there, f"a call goes to {url}, not to {info.base_url}", url, info.base_url)
