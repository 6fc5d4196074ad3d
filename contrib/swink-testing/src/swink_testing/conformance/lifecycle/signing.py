"""A check of providers that sign requests with the API key, which itself is not sent.

Only the API defines the contents of a signature. The check therefore compares calls: a header that
depends on the key must be different for each key. If such a header depends on the body, it must be
different for each body.
"""

from __future__ import annotations

import asyncio
import os
import re
from datetime import UTC, datetime
from unittest.mock import patch

from attrs import evolve

from swink_core import Host
from swink_testing.clock import DatedClock
from swink_testing.conformance.check import require
from swink_testing.conformance.subject import CANARY_KEY, Subject
from swink_testing.driver import MemoryResponse

__all__ = ["LATER", "require_signed", "states_time"]

_KEYS = (CANARY_KEY, "sk-swink-of-a-second-signer-e1", "sk-swink-of-a-third-signer-0b7")

_QUESTIONS = ("Hello", "Hellp", "Hello, and why is the sky blue?")

_CALLS = (
    *((key, _QUESTIONS[0]) for key in _KEYS),
    *((_KEYS[0], question) for question in _QUESTIONS[1:]),
)

_TRIES = 3
"""Without a function `now`, a provider signs the real time, and calls can only be compared if they
are made in the same second.
"""

_SECOND = 1.05

LATER = DatedClock(datetime(2026, 6, 3, 4, 5, 6, tzinfo=UTC))
"""A clock with another date and time than that of the other calls."""

_TIME = re.compile(
    r"\d{4}-?\d\d-?\d\d[T ]\d\d:?\d\d:?\d\d|\d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d"
    r"|(?<![0-9A-Za-z])[12]\d{9}(?:\d{3}|\.\d+)?(?![0-9A-Za-z])"
)
"""Matches a date with a time: of ISO 8601, of HTTP, or in seconds or milliseconds since 1970."""


def states_time(value: str) -> bool:
    """Return True if a header's value contains a date and a time."""
    return _TIME.search(value) is not None


async def require_signed(subject: Subject) -> None:
    """Check that each call is signed with its own key, body and time."""
    info = subject.info
    if info is None or not info.api_key_env:
        return
    for _ in range(_TRIES):
        used = [await _signed(subject, *call) for call in _CALLS]
        alone = [await _signed(_new(subject), *call) for call in _CALLS]
        by_variable = []
        for key in _KEYS:
            with patch.dict(os.environ, {info.api_key_env[0]: subject.key(key)}):
                by_variable.append(await _signed(subject, None, _QUESTIONS[0]))
        if used[0] == await _signed(subject, *_CALLS[0]):
            break
    else:
        return  # a random value may be signed too
    keys, bodies = (0, 1, 2), (0, 3, 4)
    own = [
        name for name in used[0] if len(_values(used, name, keys) | _values(alone, name, keys)) > 1
    ]
    require(own, "a call with another key makes the same request: its key is not used")
    for name in own:
        for calls in (used, alone):
            different = len(_values(calls, name, keys)) == len(keys)
            require(different, f"{name} is the same for different keys: it is not the call's own")
        by_body = _values(used, name, bodies) | _values(alone, name, bodies)
        if len(by_body) > 1:
            different = all(len(_values(c, name, bodies)) == len(bodies) for c in (used, alone))
            require(different, f"{name} is the same for different bodies: it is not the call's own")
        for given, found in zip(used, by_variable, strict=False):
            same = found.get(name) == given.get(name)
            why = f"{name} is not made from the key that {info.api_key_env[0]} holds"
            require(same, why, found.get(name), given.get(name))
    await _require_time(subject)


async def _require_time(subject: Subject) -> None:
    """Check that a time in a header is that of the call."""
    first = await _signed(subject, *_CALLS[0])
    headers = [name for name in first if name.startswith("the header")]
    dated = [name for name in headers if states_time(first[name])]
    if dated and not callable(getattr(subject.provider, "now", None)):
        await asyncio.sleep(_SECOND)
    later = await _signed(subject, *_CALLS[0], LATER) if dated else {}
    for name in dated:
        why = f"{name} is {first[name]} also in a later call: it is not the time of the call"
        require(later.get(name) != first[name], why)


def _values(calls: list[dict[str, str]], name: str, numbers: tuple[int, ...]) -> set[str | None]:
    return {calls[number].get(name) for number in numbers}


def _new(subject: Subject) -> Subject:
    """Return the subject with a provider that has not made a call."""
    return evolve(subject, host=Host(entry_points=[subject.entry], environ={}))


async def _signed(
    subject: Subject, key: str | None, question: str, clock: DatedClock | None = None
) -> dict[str, str]:
    """Return the headers, URL and body of a call's request; the call gets an error response.

    If `key` is `None`, the key comes from the environment.
    """
    http = subject.http(*[MemoryResponse(status=400)] * 2)
    options = subject.call_options(**({} if key is None else {"api_key": key}))
    if key is None:
        del options["api_key"]
    client = subject.client(http, clock=clock)
    async with client.stream(subject.model, question, **options) as stream:
        async for _ in stream:
            pass
    if not http.requests:
        return {}
    request = http.requests[0]
    headers = {f"the header {name.lower()}": value for name, value in request.headers.items()}
    return {**headers, "the URL": request.url, "the body": request.body.decode("latin-1")}
