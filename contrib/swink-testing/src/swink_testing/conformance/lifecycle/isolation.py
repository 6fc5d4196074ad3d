"""Calls of one provider with different base URLs, keys and headers."""

from __future__ import annotations

import asyncio
import os
import re
from typing import Any
from unittest.mock import patch

from swink_core import Client
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.lifecycle.interleaving import require_apart_while_waiting
from swink_testing.conformance.played import sent_by
from swink_testing.conformance.subject import CANARY_KEY, NOWHERE, Subject
from swink_testing.driver import MemoryResponse
from swink_testing.quiet import quiet

__all__ = ["check_calls_are_apart"]

_OTHER_KEY = "sk-swink-of-another-call-51b0c7"

_HELD = "sk-swink-held-by-the-caller-6ac1"

_ENVIRONMENT_KEY = "sk-swink-of-the-environment-9d2e"


def check_calls_are_apart(subject: Subject) -> None:
    """Each call has its own base URL, key and headers, whatever other calls had.

    A call that waits for a response is not affected by one that is made meanwhile.
    """
    if not subject.speaks_http:
        raise DoesNotApply("it does not speak HTTP")

    async def ask() -> None:
        calls: tuple[dict[str, Any], ...] = (
            {"headers": {"X-Nonce": "nonce_first"}},
            {"api_key": _OTHER_KEY, "base_url": "http://another.invalid/v1"},
            {},
        )
        http = subject.http(*[MemoryResponse(status=400)] * len(calls))
        async with subject.client(http) as client:
            for more in calls:
                async with client.stream(
                    subject.model, "Hello", **subject.call_options(**more)
                ) as stream:
                    async for _ in stream:
                        pass
        first, other, last = http.requests
        require(first.headers.get("X-Nonce") == "nonce_first", "a call's headers are not sent")
        require("X-Nonce" not in other.headers, "headers of one call go out with another")
        require(
            other.url.startswith("http://another.invalid/v1"),
            f"a call with another base_url goes to {other.url}",
        )
        there = last.url.startswith(NOWHERE)
        require(there, f"a call goes to {last.url}, as the one before it, not to its own base_url")
        sent = [sent_by(request) for request in (first, other, last)]
        if CANARY_KEY in sent[0]:
            require(_OTHER_KEY in sent[1], "a call's own key is not sent after another call")
            require(CANARY_KEY not in sent[1], "the key of one call goes out with another")
            require(CANARY_KEY in sent[2], "the key of one call goes out with another")

        if subject.info is not None and subject.info.auth == "key":
            require(CANARY_KEY in sent[0], "the environment's key is sent instead of the call's")
        if CANARY_KEY in sent[0]:
            await _require_apart_at_once(subject)
        await require_apart_while_waiting(subject)
        for name, value in first.headers.items():
            if CANARY_KEY in value:
                await _require_held(subject, name, value.replace(CANARY_KEY, _HELD))

        path = other.url.removeprefix("http://another.invalid/v1").partition("?")[0]
        if version := re.match(r"/v\d\w*(?=/)", path):
            http = subject.http(MemoryResponse(status=400))
            address = f"http://another.invalid{version[0]}"
            async with subject.client(http) as client:
                options = subject.call_options(base_url=address)
                async with client.stream(subject.model, "Hello", **options) as stream:
                    async for _ in stream:
                        pass
            url = http.requests[0].url
            twice = url.startswith(address + version[0])
            require(not twice, f"a base_url that ends with {version[0]} goes to {url}")

    names = subject.info.api_key_env if subject.info is not None else ()
    with quiet(), patch.dict(os.environ, dict.fromkeys(names, _ENVIRONMENT_KEY)):
        asyncio.run(ask())


async def _require_held(subject: Subject, name: str, value: str) -> None:
    """Credentials in the caller's headers are sent unchanged, and no key is added."""
    options = {k: v for k, v in subject.call_options().items() if k != "api_key"}
    options["headers"] = {**options.get("headers", {}), name: value}
    keys = [n for n, v in os.environ.items() if v == _ENVIRONMENT_KEY]
    for unset in ([], keys):
        http = subject.http(MemoryResponse(status=400))
        with patch.dict(os.environ):
            for key in unset:
                del os.environ[key]
            async with (
                subject.client(http) as client,
                client.stream(subject.model, "Hello", **options) as stream,
            ):
                async for _ in stream:
                    pass
        require(http.requests, f"without a key, a call with a {name} of its own is not made")
        sent = [v for n, v in http.requests[0].headers.items() if n.lower() == name.lower()]
        require(sent == [value], f"a call's own {name} does not go out as it is", sent, value)
        added = f"{http.requests[0].url} {dict(http.requests[0].headers)}"
        require(_ENVIRONMENT_KEY not in added, f"a key goes out beside a call's own {name}")


async def _require_apart_at_once(subject: Subject) -> None:
    """Calls that are made at the same time have each its own address and key."""
    http = subject.http(*[MemoryResponse(status=400)] * 3)

    async def call(client: Client, number: int) -> None:
        own = {"api_key": f"{_OTHER_KEY}-{number}", "base_url": f"http://at-once-{number}.invalid"}
        options = subject.call_options(**own)
        async with client.stream(subject.model, f"Hello {number}", **options) as stream:
            async for _ in stream:
                pass

    async with subject.client(http) as client:
        await asyncio.gather(*(call(client, number) for number in range(3)))
    for request in http.requests:
        number = request.url.removeprefix("http://at-once-")[:1]
        sent = sent_by(request)
        own = f"{_OTHER_KEY}-{number}" in sent and f"Hello {number}".encode() in request.body
        require(own, "of calls at the same time, one goes out with another's key or question")
