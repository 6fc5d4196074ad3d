"""An HTTP client that answers all requests of a call from recordings, in place of a server.

A check supplies the answer that it tests. Every other request of the call (for a token, a job or a
count) gets its recorded response. Each issued token is unique, so that a check can determine to
which call a token belongs. A `leg` is one recorded request with its response.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from attrs import define, evolve, field

from swink_core.providers import HTTPClient, HTTPRequest, HTTPResponse
from swink_recorder.legs import STREAMED, RecordedLeg
from swink_recorder.recording import Recording
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

__all__ = [
    "Played",
    "PlayedClient",
    "Through",
    "exchange_of",
    "sent_by",
    "shown",
    "text_pattern",
    "token_legs",
]

_SOURCE = re.compile(r"\[(\d+)\.([\w.-]+)\]")
"""The placeholder in a recording for a credential from an earlier response."""

_MARK = re.compile(r"\[key\]|\[hidden\]|\[\d+\.[\w.-]+\]|\*{8,}")


def text_pattern(recorded: str, texts: Mapping[str, str]) -> re.Pattern[str]:
    """Return a pattern for texts that differ from a recorded text only in its placeholders.

    `texts` maps the placeholders of credentials to patterns of the credentials. Any other
    placeholder matches any text.
    """
    parts: list[str] = []
    end = 0
    for mark in _MARK.finditer(recorded):
        parts += [re.escape(recorded[end : mark.start()]), texts.get(mark[0], ".+")]
        end = mark.end()
    return re.compile("".join([*parts, re.escape(recorded[end:])]), re.DOTALL)


@define
class Through:
    """Sends requests through another HTTP client. If `url` is set, they go to that server."""

    http: HTTPClient
    url: str | None = None

    async def send(self, request: HTTPRequest) -> HTTPResponse:
        """Send a request."""
        if self.url is not None:
            request = evolve(request, url=f"{self.url}{urlsplit(request.url).path}")
        return await self.http.send(request, None)


@define
class Played:
    """A request and its response; `leg` is the number of the recorded request, if there is one."""

    leg: int | None
    request: HTTPRequest
    response: Any
    token: str = ""
    """The token that the response contains, if any."""


@define
class _Token:
    """A recorded request that fetches a token, and the request's origin (scheme and host).

    `path` is the request's path, without the path of the call's base URL if it begins with that.
    """

    leg: RecordedLeg
    origin: str
    number: int
    path: str


def token_legs(recordings: Iterable[Recording]) -> list[_Token]:
    """Return the recorded requests that fetch tokens, one request for each address."""
    found: dict[tuple[str, str], _Token] = {}
    for recording in recordings:
        for number, leg in enumerate(recording.legs):
            if leg.kind == "token" and 200 <= leg.status < 300:
                origin = _origin_of(recording, leg)
                path = _path_below(recording, leg)
                found.setdefault((origin, path), _Token(leg, origin, number, path))
    return list(found.values())


def exchange_of(recordings: Sequence[Recording]) -> Recording | None:
    """Return the recording whose call made the most requests, not counting those for tokens.

    Return `None` if no call made several requests.
    """

    def size(recording: Recording) -> int:
        return sum(leg.kind in ("stream", "whole") for leg in recording.legs)

    longest = max(recordings, key=size, default=None)
    return longest if longest is not None and size(longest) > 1 else None


@define
class _Call:
    """The progress of a call: the recorded requests that it has already repeated."""

    home: str
    asked: list[int] = field(factory=list)


class PlayedClient(MemoryHTTPClient):
    """An HTTP client that gives `answers` to requests for a model's answer.

    Other requests of a call, for example for a token, get the recorded responses.

    If an item of `answers` is an exception or an error response, the first request of a call gets
    it, because a provider sends no further request after a failure. `requests` lists the requests
    that were answered from `answers`; `played` lists all requests. `faults` maps the number of a
    recorded request to its response, or to a function that returns the response (`None`: the
    recorded one). `expires` replaces the lifetime of tokens, in seconds.
    """

    def __init__(
        self,
        recordings: Sequence[Recording],
        *answers: Any,
        recording: Recording | None = None,
        faults: Mapping[int, Any] | None = None,
    ) -> None:
        super().__init__(*answers)
        self.played: list[Played] = []
        self.expires: float | None = None
        self.refused_tokens: set[str] = set()
        self.is_open = False
        """Whether every request gets the same answer, the first of `answers`."""
        self._tokens = token_legs(recordings)
        legs = [leg for each in recordings for leg in each.legs]
        self._abandon_methods = {leg.request.method for leg in legs if leg.kind == "abandon"}
        self._recording = recording or exchange_of(recordings)
        self.faults = faults or {}
        self._call = _Call("")

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        """Return the response to a request: one of `answers`, or the recorded response."""
        for token in self._tokens:
            if _is_to(token, request):
                return self._give_token(token, request)
        if any(token in str(dict(request.headers)) for token in self.refused_tokens):
            response = MemoryResponse.of_json({"error": {"message": "token expired"}}, 401)
            self.played.append(Played(None, request, response))
            return response
        number = self._number(request)
        if (fault := self._fault(number)) is not None:
            return await self._answer(fault, number, request)
        if number is None or self._is_answered_here(number):
            if not self._answers:
                if self._is_abandon(request):
                    return await self._answer(MemoryResponse.of_json({}), None, request)
                self.requests.append(request)
                raise AssertionError(f"a request that is not recorded: {shown(request)}")
            self.requests.append(request)
            answer = self._answers[0] if self.is_open else self._answers.pop(0)
            return await self._answer(answer, number, request)
        assert self._recording is not None
        return await self._answer(self._leg(number), number, request)

    @property
    def plays(self) -> bool:
        """Whether the client replays a recording with several requests."""
        return self._recording is not None

    @property
    def has_life(self) -> bool:
        """Whether the responses that contain a token also state the token's lifetime."""
        bodies = [_json(token.leg.body) for token in self._tokens]
        return any(_issued(body, "", -1.0) != _issued(body, "", None) for body in bodies)

    def tokens_of(self, key: str) -> set[str]:
        """Return the tokens that were fetched with the API key `key`."""
        names = {played.token for played in self.played if played.token}
        return {name for name in names if key in _owners[name]}

    def _fault(self, number: int | None) -> Any:
        fault = None if number is None else self.faults.get(number)
        return fault() if callable(fault) else fault

    async def _answer(self, answer: Any, number: int | None, request: HTTPRequest) -> HTTPResponse:
        if isinstance(answer, Through):
            answer = await answer.send(request)
        elif callable(answer):
            answer = answer()
        self.played.append(Played(number, request, answer))
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]  # what a check gave

    def _give_token(self, token: _Token, request: HTTPRequest) -> HTTPResponse:
        place = token.number
        if (answer := self._fault(place)) is not None:
            self.played.append(Played(place, request, answer))
            if isinstance(answer, Exception):
                raise answer
            return answer  # type: ignore[no-any-return]  # what a check gave
        name = f"swink-token-{next(_numbers)}"
        body = token.leg.body
        if (data := _json(body)) is not None:
            body = msgspec.json.encode(_issued(data, name, self.expires))
        elif _MARK.search(body.decode("utf-8", "replace")):
            body = f"{name}-value".encode()
        _owners[name] = f"{sent_by(request)} {unquote(request.body.decode('latin-1'))}"
        response = MemoryResponse([body], token.leg.status, token.leg.headers)
        self.played.append(Played(place, request, response, name))
        return response

    def _is_answered_here(self, number: int) -> bool:
        """Return True if a request gets one of `answers` instead of the recorded response."""
        assert self._recording is not None
        if number == len(self._recording.before):
            return True
        answer: Any = self._answers[0] if self._answers else None
        if isinstance(answer, Through):
            is_refusal = answer.url is None
        else:
            is_failure = isinstance(answer, Exception)
            is_refusal = is_failure or getattr(answer, "status", 200) not in STREAMED
        return is_refusal and number <= len(self._recording.before)

    def _number(self, request: HTTPRequest) -> int | None:
        """Return the number of the matching recorded request; `None` without a match."""
        recording = self._recording
        if recording is None:
            return None
        legs = recording.legs
        own = [number for number, leg in enumerate(legs) if leg.kind != "token"]
        found = [number for number in own if self._is_leg(recording, legs[number], request)]
        if not found:
            found = [n for n in own if legs[n].request.method == request.method]
            shape = urlsplit(request.url).path.count("/")
            found = [n for n in found if _depth(legs[n]) == shape] or found
            found = [n for n in found if legs[n].request.origin == 0] or found
        if not found:
            return None
        if found[0] == own[0]:
            self._call = _Call(_origin(request.url))
        asked = self._call.asked
        left = [number for number in found if number not in asked]
        number = left[0] if left else found[-1]
        asked.append(number)
        return number

    def _is_leg(self, recording: Recording, leg: RecordedLeg, request: HTTPRequest) -> bool:
        asked = leg.request
        if asked.method != request.method:
            return False
        here, there = urlsplit(request.url), urlsplit(asked.path)
        if asked.origin and recording.origins:
            if _origin(request.url) != recording.origins[asked.origin]:
                return False
        elif recording.origins and _origin(request.url) in recording.origins[1:]:
            return False
        path = text_pattern(there.path, {})
        return any(path.fullmatch(here.path[at:]) for at in range(len(here.path))) or (
            f"{there.path}".endswith(here.path) and len(here.path) > 1
        )

    def _is_abandon(self, request: HTTPRequest) -> bool:
        """Return True for a request that cancels work as in another recording than the played one.

        Its path may contain ids, so only the method is compared.
        """
        recording = self._recording
        return (
            recording is not None
            and request.method in self._abandon_methods
            and not any(self._is_leg(recording, leg, request) for leg in recording.legs)
        )

    def _leg(self, number: int) -> Any:
        """Return a recorded response, in which this call's origin replaces the recorded origin."""
        assert self._recording is not None
        leg = self._recording.legs[number]
        if not leg.status and not leg.body:
            if leg.kind == "abandon":
                return MemoryResponse.of_json({})
            return OSError("the connection was lost")
        body = leg.body
        if self._recording.origins:
            body = body.replace(self._recording.origins[0].encode(), self._call.home.encode())
        return MemoryResponse([body], leg.status, leg.headers)


_numbers = count(1)

_owners: dict[str, str] = {}
"""Maps each token to the text of the request that fetched the token."""

_ISSUED = re.compile(r"swink-token-\d+")


def sent_by(request: HTTPRequest | None) -> str:
    """Return the URL and headers of a request, and of the request that fetched its token.

    The text includes the body of the request that fetched the token. If `request` is `None`, the
    text is empty.
    """
    if request is None:
        return ""
    text = f"{request.url} {dict(request.headers)}"
    owners = [_owners[name] for name in _ISSUED.findall(text) if name in _owners]
    return " ".join([text, *owners])


def shown(request: HTTPRequest) -> str:
    """Return a request's method and URL without the query, for messages."""
    return f"{request.method} {request.url.partition('?')[0]}"


def _is_to(token: _Token, request: HTTPRequest) -> bool:
    asked = token.leg.request
    here = urlsplit(request.url).path
    if asked.method != request.method or not f"{here}/".endswith(f"{token.path}/"):
        return False
    return _origin(request.url) == token.origin or asked.origin == 0


_LIFE = re.compile(r"expires?_?in|valid|ttl|life|max_?age", re.IGNORECASE)
"""Names of fields with the lifetime of a token: in seconds, or in milliseconds."""

_MILLISECONDS = re.compile(r"ms$|milli", re.IGNORECASE)


def _issued(data: Any, name: str, expires: float | None) -> Any:
    """Replace the token and its lifetime in the data of a response, and return the new data."""
    if isinstance(data, str):
        return _SOURCE.sub(lambda found: f"{name}-{found[2]}", data)
    if isinstance(data, list):
        return [_issued(value, name, expires) for value in data]
    if not isinstance(data, dict):
        return data
    found = {key: _issued(value, name, expires) for key, value in data.items()}
    for key, value in found.items():
        if expires is not None and type(value) in (int, float) and _LIFE.search(key):
            found[key] = expires * 1000 if _MILLISECONDS.search(key) else expires
    return found


def _origin_of(recording: Recording, leg: RecordedLeg) -> str:
    origins = recording.origins
    return origins[leg.request.origin] if leg.request.origin < len(origins) else ""


def _path_below(recording: Recording, leg: RecordedLeg) -> str:
    """Return the path of a recorded request, without that of the base URL if it is below it."""
    path = urlsplit(leg.request.path).path
    base = urlsplit((recording.asked or {}).get("address") or "").path.rstrip("/")
    is_below = leg.request.origin == 0 and path.startswith(f"{base}/")
    return path.removeprefix(base) if is_below else path


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _depth(leg: RecordedLeg) -> int:
    return urlsplit(leg.request.path).path.count("/")


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
