"""Checks of API keys, and of the access tokens that some providers fetch with an API key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from swink_core import Client, Error, Host, StreamErrorKind
from swink_core.vocabulary.grammar import CONTENT
from swink_recorder.recording import Recording
from swink_testing.clock import ManualClock
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.played import (
    PlayedClient,
    exchange_of,
    sent_by,
    shown,
    token_legs,
)
from swink_testing.conformance.subject import CANARY_KEY, Subject
from swink_testing.driver import MemoryResponse
from swink_testing.quiet import quiet

__all__ = ["check_credentials"]

LIFE = 60.0
"""Lifetime of the check's tokens, in seconds.

A provider that renews every token minutes before it expires would fetch a new token for each call,
and fail the check.
"""

_OTHERS = ("sk-swink-of-another-user-77c1", "sk-swink-of-a-third-user-03d9")

_REFUSED_KEY = "sk-swink-of-nobody-5e20"

_ELSEWHERE = "http://elsewhere.invalid"


def check_credentials(subject: Subject) -> None:
    """Each call uses its own key or token; tokens are renewed when expired or rejected.

    Keys and tokens are not sent to another server, even if a response contains its URL.
    """
    subject.require_http()
    tokens = token_legs(subject.recordings)
    answers = subject.answers()
    recording = exchange_of(answers)
    if not tokens and recording is None:
        raise DoesNotApply("no recording has a request for a token, or several requests")
    recording = recording or answers[0]
    http = subject.http(lambda: MemoryResponse.of_recording(recording), recording=recording)
    http.is_open = True
    http.expires = LIFE
    session = _Session(subject, http)
    work = session.run(tokens[0].number) if tokens else session.run_keys()
    with quiet():
        asyncio.run(work)
        for each in subject.recordings:
            for answers_elsewhere, is_left in _elsewhere(each):
                asyncio.run(_require_kept_at_home(subject, each, answers_elsewhere, is_left))


def _elsewhere(recording: Recording) -> Iterator[tuple[dict[int, Any], bool]]:
    """Yield recorded responses, changed so that their URL for a later request is on another server.

    The second value is `True` if the later request is sent only when the call is abandoned.
    """
    for number, leg in enumerate(recording.legs):
        path = leg.request.path
        for earlier, source in enumerate(recording.legs[:number]):
            body = source.body
            for place in (path, *(f"{origin}{path}" for origin in recording.origins)):
                body = body.replace(f'"{place}"'.encode(), f'"{_ELSEWHERE}{path}"'.encode())
            if path and body != source.body:
                response = MemoryResponse([body], source.status, source.headers)
                yield {earlier: response}, leg.kind == "abandon"


async def _require_kept_at_home(
    subject: Subject, recording: Recording, answers: dict[int, Any], is_left: bool
) -> None:
    """Check that keys and tokens are not sent to another server whose URL is in a response."""
    answer = lambda: MemoryResponse.of_recording(recording)  # noqa: E731
    http = subject.http(answer, recording=recording, faults=answers)
    http.is_open = True
    model, options = subject.model_of(recording), subject.call_options()
    async with (
        subject.client(http, clock=ManualClock(jump=True)) as client,
        client.stream(model, "Hello", **options) as stream,
    ):
        async for event in stream:
            if is_left and type(event) in CONTENT:
                break
    for played in http.played:
        request = played.request
        sent = f"{sent_by(request)} {request.body.decode('latin-1')}"
        is_kept = not request.url.startswith(_ELSEWHERE) or CANARY_KEY not in sent
        require(is_kept, f"{shown(request)}, which a response names, is sent with the key")


class _StillClock(ManualClock):
    """A clock that only the check advances: a sleep, such as one between polls, takes no time."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0.0)


class _Session:
    """Calls of one client, whose clock the check advances."""

    def __init__(self, subject: Subject, http: PlayedClient) -> None:
        self._subject = subject
        self._http = http
        self._clock = _StillClock()

    def _client(self) -> Client:
        """Make a client of a provider that has no token yet."""
        host = Host(entry_points=[self._subject.entry], environ={})
        return self._subject.client(self._http, host, self._clock)

    async def run_keys(self) -> None:
        """Make calls with several keys; check that each request contains the call's key."""
        http = self._http
        async with self._client() as client:
            for key in (CANARY_KEY, *_OTHERS, CANARY_KEY):
                before = len(http.played)
                await self._call(client, key)
                for played in http.played[before:]:
                    what = shown(played.request)
                    require(key in sent_by(played.request), f"{what} has not the key of its call")

    async def run(self, token_leg: int) -> None:
        """Make calls whose keys are exchanged for tokens; check which tokens are sent and when."""
        http = self._http
        async with self._client() as client:
            await self._require(client, "a first call", 1)
            await self._require(client, "a second call with the same key", 0)
            before = len(http.played)
            keys = (*_OTHERS, CANARY_KEY, *_OTHERS)
            terminals = await asyncio.gather(*(self._call(client, key) for key in keys))
            for key, terminal in zip(keys, terminals, strict=True):
                said = f"of calls with several keys, that with {key} ends in {terminal!r:.200}"
                require(terminal.type == "done", said)
            self._require_own(before, keys)
            fetched = self._fetched(before)
            require(fetched == 2, f"calls with two new keys fetch {fetched} tokens, expected 2")
            if http.has_life:
                await self._clock.advance(LIFE / 2)
                await self._require(client, "a call at half of a token's life", 0)
                await self._clock.advance(LIFE / 2 + 1)
                await self._require(client, "a call after a token has expired", 1)
            http.refused_tokens = http.tokens_of(CANARY_KEY)
            await self._require(client, "a call whose token is refused with HTTP 401", 1)
            info = self._subject.info
            for name, values in (info.settings if info else {}).items():
                if isinstance(values, list | tuple):
                    await self._require_setting(client, name, list(values))
                elif values == "string":
                    await self._require_sent(name)
            http.faults = {token_leg: lambda: MemoryResponse.of_json({}, 401)}
            before = len(http.played)
            terminal = await self._call(client, _REFUSED_KEY)
            is_auth = isinstance(terminal, Error) and terminal.error_kind is StreamErrorKind.AUTH
            require(is_auth, f"a key that gets no token ends in {terminal!r:.200}")
            sent = len(http.played) - before
            require(sent == 1, f"a key that gets no token makes {sent} requests, expected 1")

    async def _require_sent(self, name: str) -> None:
        """Check that a setting's value is in a request, or is the URL of a request."""
        sent: list[bool] = []
        for value in ("swink-setting", "https://swink-setting.invalid/own"):
            before = len(self._http.played)
            async with self._client() as new:
                await self._call(new, CANARY_KEY, settings={name: value})
            for played in self._http.played[before:]:
                request = played.request
                sent.append(value in f"{request.url} {dict(request.headers)} {request.body!r}")
        require(any(sent) or not sent, f"no request has the setting {name} or goes to it")

    async def _require_setting(self, client: Client, name: str, choices: list[Any]) -> None:
        """Check that requests use the setting's value even after calls with other values."""
        sent: list[list[str]] = []
        for choice in choices:
            settings = {name: choice}
            later = await self._requests(client, settings)
            async with self._client() as new:
                alone = await self._requests(new, settings)
            missing = [request for request in alone[:-1] if request not in later]
            where = f"a call with {name}={choice!r} after calls with other choices"
            known = choice == choices[0]  # its token may be cached already
            require(known or not missing, f"{where} does not send {missing}")
            require(alone not in sent, f"{name}={choice!r} changes no request")
            sent.append(alone)

    async def _requests(self, client: Client, settings: dict[str, Any]) -> list[str]:
        before = len(self._http.played)
        await self._call(client, CANARY_KEY, settings=settings)
        requests = [played.request for played in self._http.played[before:]]
        return [f"{shown(request)} {request.body.decode('latin-1')}" for request in requests]

    async def _require(self, client: Client, what: str, tokens: int) -> None:
        before = len(self._http.played)
        terminal = await self._call(client, CANARY_KEY)
        require(terminal.type == "done", f"{what} ends in {terminal!r:.300}")
        fetched = self._fetched(before)
        require(fetched == tokens, f"{what} fetches {fetched} tokens, expected {tokens}")
        self._require_own(before, (CANARY_KEY,))

    def _require_own(self, before: int, keys: tuple[str, ...]) -> None:
        """Check that requests contain tokens that were issued for `keys`, but not the keys."""
        used = set[str]()
        for played in self._http.played[before:]:
            if played.token:
                continue
            request = played.request
            sent = sent_by(request)
            used |= {key for key in keys if key in sent}
            bare = f"{request.url} {dict(request.headers)} {request.body!r}"
            for key in keys:
                require(key not in bare, f"{request.method} {request.url} has the key itself")
        missing = [key for key in dict.fromkeys(keys) if key not in used]
        require(not missing, f"no request has the token of {', '.join(missing)}: another's is sent")

    def _fetched(self, before: int) -> int:
        return sum(bool(played.token) for played in self._http.played[before:])

    async def _call(self, client: Client, key: str, **more: Any) -> Any:
        options = self._subject.call_options(api_key=key, **more)
        async with client.stream(self._subject.model, "Hello", **options) as stream:
            return [event async for event in stream][-1]
