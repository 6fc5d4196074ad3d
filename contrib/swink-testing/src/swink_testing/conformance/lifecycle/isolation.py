"""Checks that a call uses its own base URL, key and headers, or those in the environment."""

from __future__ import annotations

import asyncio
import os
import re
from typing import Any
from unittest.mock import patch

from swink_core import Error, ProviderInfo, StreamErrorKind
from swink_core.providers import HTTPRequest
from swink_testing.conformance.check import require
from swink_testing.conformance.lifecycle.interleaving import require_apart_while_waiting
from swink_testing.conformance.lifecycle.signing import require_signed
from swink_testing.conformance.loopback_only import loopback_only
from swink_testing.conformance.played import sent_by, shown
from swink_testing.conformance.subject import CANARY_KEY, NOWHERE, Subject
from swink_testing.driver import MemoryResponse
from swink_testing.quiet import quiet

__all__ = ["check_calls_are_apart"]

_OTHER_KEY = "sk-swink-of-another-call-51b0c7"

_HELD = "sk-swink-held-by-the-caller-6ac1"

_ENVIRONMENT_KEY = "sk-swink-of-the-environment-9d2e"

_ELSEWHERE = "http://another.invalid/v1"


def check_calls_are_apart(subject: Subject) -> None:
    """Each call uses its own base URL, key and headers, regardless of other calls.

    A call that waits for a response is not affected by another call. If a call has no key or base
    URL, it takes them from the environment when the call is made.
    """
    subject.require_http()
    info = subject.info
    names = info.api_key_env if info is not None else ()

    async def ask() -> None:
        with patch.dict(os.environ, dict.fromkeys(names, subject.key(_ENVIRONMENT_KEY))):
            first = await _require_own(subject)
            for name, value in first.headers.items():
                if CANARY_KEY in value:
                    await _require_held(subject, name, value.replace(CANARY_KEY, _HELD))
        await _require_key(subject)
        if info is not None:
            await _require_environment(subject, info, first)

    with quiet():
        asyncio.run(ask())


async def _sent(
    subject: Subject, *calls: dict[str, Any], without: str = "", at_once: bool = False
) -> list[HTTPRequest]:
    """Make calls with one client, answer each call with an error, and return the requests.

    `calls` contains the options of each call in addition to the usual options; `without` is the
    name of a usual option to omit.
    """
    http = subject.http(*[MemoryResponse(status=400)] * 2 * len(calls))
    client = subject.client(http)  # not closed, so that the provider is reused

    async def call(number: int, more: dict[str, Any]) -> None:
        options = subject.call_options(**more)
        options = {k: v for k, v in options.items() if k != without or k in more}
        async with client.stream(subject.model, f"Hello {number}", **options) as stream:
            async for _ in stream:
                pass

    made = [call(number, more) for number, more in enumerate(calls)]
    if at_once:
        await asyncio.gather(*made)
    else:
        for each in made:
            await each
    return http.requests


async def _require_own(subject: Subject) -> HTTPRequest:
    """Check the base URLs, keys and headers of three calls; return the first request."""
    nonce = {"headers": {"X-Nonce": "nonce_first"}}
    elsewhere = {"api_key": _OTHER_KEY, "base_url": _ELSEWHERE}
    requests = await _sent(subject, nonce, elsewhere, {})
    require(len(requests) == 3, f"three calls that are refused make {len(requests)} requests")
    first, other, last = requests
    require(first.headers.get("X-Nonce") == "nonce_first", "a call's headers are not sent")
    require("X-Nonce" not in other.headers, "headers of one call go out with another")
    there = other.url.startswith(_ELSEWHERE)
    require(there, f"a call with another base_url goes to {other.url}")
    there = last.url.startswith(NOWHERE)
    require(there, f"a call goes to {last.url}, as the one before it, not to its own base_url")
    sent = [sent_by(request) for request in requests]
    is_other = _ENVIRONMENT_KEY in sent[0]
    require(not is_other, "the environment's key is sent instead of the call's")
    if CANARY_KEY not in sent[0] and not is_other:
        await require_signed(subject)
    if CANARY_KEY in sent[0]:
        require(_OTHER_KEY in sent[1], "a call's own key is not sent after another call")
        require(CANARY_KEY not in sent[1], "the key of one call goes out with another")
        require(CANARY_KEY in sent[2], "the key of one call goes out with another")
        await _require_apart_at_once(subject)
    await require_apart_while_waiting(subject)
    host = _ELSEWHERE.removesuffix("/v1")
    path = other.url.removeprefix(host).partition("?")[0]
    for version in sorted(set(re.findall(r"/v\d\w*(?=/)", path))):
        [request] = await _sent(subject, {"base_url": f"{host}{version}"})
        twice = f"{version}{version}/" in request.url
        require(not twice, f"a base_url that ends with {version} goes to {request.url}")
    return first


async def _require_apart_at_once(subject: Subject) -> None:
    """Check that concurrent calls each use their own address and key."""
    calls = [
        {"api_key": f"{_OTHER_KEY}-{number}", "base_url": f"http://at-once-{number}.invalid"}
        for number in range(3)
    ]
    for request in await _sent(subject, *calls, at_once=True):
        number = request.url.removeprefix("http://at-once-")[:1]
        own = f"{_OTHER_KEY}-{number}" in sent_by(request)
        own = own and f"Hello {number}".encode() in request.body
        why = (
            f"of calls at the same time, {shown(request)} goes out without its own key or question"
        )
        remedy = (
            "build it only from its call's options and messages; "
            "if it fetches a token, add a recording of a call that fetches one"
        )
        require(own, f"{why}: {remedy}")


async def _require_held(subject: Subject, name: str, value: str) -> None:
    """Check that credentials in the caller's headers are sent unchanged, and no key is added."""
    headers = {**subject.call_options().get("headers", {}), name: value}
    keys = [n for n, v in os.environ.items() if v == subject.key(_ENVIRONMENT_KEY)]
    for unset in ([], keys):
        with patch.dict(os.environ):
            for key in unset:
                del os.environ[key]
            requests = await _sent(subject, {"headers": headers}, without="api_key")
        require(requests, f"without a key, a call with a {name} of its own is not made")
        sent = [v for n, v in requests[0].headers.items() if n.lower() == name.lower()]
        require(sent == [value], f"a call's own {name} does not go out as it is", sent, value)
        added = f"{requests[0].url} {dict(requests[0].headers)}"
        require(_ENVIRONMENT_KEY not in added, f"a key goes out beside a call's own {name}")


async def _require_key(subject: Subject) -> None:
    """Check that calls do not change the environment, and that no call is sent without a key."""
    before = dict(os.environ)
    await _sent(subject, {})
    changed = ", ".join(sorted({name for name, _ in before.items() ^ os.environ.items()}))
    require(not changed, f"a call changes the environment: {changed}")
    if subject.info is None or subject.info.auth != "key":
        return
    http = subject.http()
    with loopback_only():  # which may look for an identity of the machine
        terminal = (await subject.events_of_call(http, api_key=None))[-1]
    require(not http.played, "a call without a key is sent")
    is_auth = isinstance(terminal, Error) and terminal.error_kind is StreamErrorKind.AUTH
    require(is_auth, f"a call without a key ends in {terminal!r:.200}")


async def _require_environment(subject: Subject, info: ProviderInfo, given: HTTPRequest) -> None:
    """Check that a call takes a missing key or base URL from the environment or `models.toml`."""
    path = given.url.removeprefix(NOWHERE)
    is_below = given.url.startswith(NOWHERE) and path.startswith("/")
    if is_below:
        [slashed] = await _sent(subject, {"base_url": f"{NOWHERE}/"})
        same = slashed.url == given.url
        why = f"a base_url that ends with / goes to {slashed.url}"
        require(same, why, slashed.url, given.url)
    if info.api_key_env and CANARY_KEY in sent_by(given):
        for key in ("sk-swink-first-of-two-19f2", "sk-swink-second-of-two-7b3e"):
            with patch.dict(os.environ, {info.api_key_env[0]: subject.key(key)}):
                requests = await _sent(subject, {}, without="api_key")
            is_sent = any(key in sent_by(request) for request in requests[:1])
            require(is_sent, f"the key that {info.api_key_env[0]} holds is not sent")
    addresses: list[tuple[str, str]] = []
    if info.base_url_env and given.url.startswith(NOWHERE):
        variable = info.base_url_env[0]
        addresses = [(variable, "http://first.invalid/v1"), (variable, "http://second.invalid/v1")]
    for name, address in addresses:
        with patch.dict(os.environ, {name: address}):
            requests = await _sent(subject, {}, without="base_url")
        url = requests[0].url if requests else "nowhere"
        there = url == f"{address}{path}"
        require(there, f"a call goes to {url}, though {name} is {address}", url, address)
    if info.base_url is not None and "{" not in info.base_url:
        requests = await _sent(subject, {}, without="base_url")  # which may need to know more
        url = requests[0].url if requests else info.base_url
        there = url.startswith(info.base_url.rstrip("/"))
        require(there, f"a call goes to {url}, not to {info.base_url}", url, info.base_url)
