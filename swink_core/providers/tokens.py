"""Access tokens: grants, which contain the data for fetching a token, and a cache of tokens.

The fields of a `Grant` are all the data on which its token depends, such as a key, an address and a
scope. The code that fetches the token cannot access the call or its options. Therefore equal grants
can share a token, and unequal ones never do. Tokens are kept only in memory. Calls that need the
same token at the same time share one fetch, which runs in a task of the client, so that cancelling
one call does not affect the others. A token is renewed before it expires, while calls still use the
old one. A token is discarded when a server refuses a request with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlencode, urlsplit
from weakref import WeakKeyDictionary

from attrs import define, evolve, field, fields, has

from swink_core.failures.exceptions import PluginError, ProviderFailure
from swink_core.failures.failure import Failure
from swink_core.failures.redaction import redact
from swink_core.plugins.call import Call
from swink_core.plugins.time_limits import time_limit
from swink_core.providers.answers import decoded, failure_of_answer, read_error, read_whole
from swink_core.vocabulary.http import HTTPRequest, ResponseHead
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

log = logging.getLogger(__name__)

T = TypeVar("T")

EARLY_SECONDS = 300.0
"""A token is renewed this many seconds before it expires.

A token with a short lifetime is renewed after four fifths of it.
"""

AGAIN_SECONDS = 30.0
"""How long to wait before a failed renewal is retried, in seconds, while the old token is valid."""

FETCH_SECONDS = 60.0
"""The maximum time for a fetch, in seconds."""

MOST_TOKENS = 1024
"""The maximum number of tokens that a provider keeps; the least recently used are dropped."""

NO_TOKEN = "token"
"""The code of a failed fetch."""

_NOT_SET = ("no_credentials", "no_variable")
"""The codes of a fetch that asked no service, because something is not set."""

TOKEN_BYTES = 64 * 1024
"""The maximum size of a response with a token, in bytes."""


@define(frozen=True)
class Token:
    """A fetched credential, and its lifetime in seconds (`inf`: it does not expire).

    A credential with several parts needs a subclass with further fields. Fields with `repr=False`
    are secrets, which are removed from all error messages and logs.
    """

    value: str = field(repr=False)
    seconds: float = inf


class Grant:
    """The data with which a token is fetched. Write a subclass with `@attrs.define(frozen=True)`.

    The token depends only on the fields of the grant. The fields are the key of the token cache:
    equal grants share a token. Fields with `repr=False` are secrets. `issuer` names the service in
    error messages (empty: its host).
    """

    issuer: ClassVar[str] = ""

    async def fetch(self, http: TokenHTTP) -> Token:
        """Fetch a token. An implementation must run blocking code in `asyncio.to_thread`.

        Raises ProviderFailure if no token can be fetched.
        """
        raise NotImplementedError("fetch() has to be written")

    def refuses(self, failure: Failure) -> bool:
        """Return True if a failed request means that its token is no longer accepted.

        The default returns True for HTTP 401. If the result is True, the core discards the token
        and sends the request once more with a new one.
        """
        return failure.status == 401

    def error_facts(self, failure: Failure) -> None:
        """Set `code`, `type` and `message` from the body of a response without a token."""
        read_error(failure)


class TokenHTTP:
    """Sends the requests with which `Grant.fetch` gets a token, over the client's connections.

    The API key, the headers and other options of a call are not added to these requests.
    """

    def __init__(self, grant: Grant, call: Call) -> None:
        self._grant = grant
        self._call = call
        self._attempt = call.attempt

    async def form(self, url: str, fields: Mapping[str, str], into: type[T]) -> T:
        """Send a form by POST and return the decoded JSON response, as in RFC 6749 section 4.

        `into` and the exceptions are as in `read`.
        """
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return await self.read(HTTPRequest(url, urlencode(fields).encode(), headers), into)

    async def read(self, request: HTTPRequest, into: type[T]) -> T:
        """Send a request and return the decoded JSON response.

        `into` is a type that msgspec decodes, or `bytes` for the raw body. If the service refuses
        the request, raises ProviderFailure of kind `auth`; HTTP 408, 429, 5xx and lost connections
        are of kind `network`, which is retried.
        """
        try:
            return await self._read(request, into)
        except ProviderFailure as error:
            failure = error.failure
            if failure.phase != "connect":
                why = failure.message or f"HTTP {failure.status}"
                who = self._grant.issuer or urlsplit(request.url).hostname
                failure.message = f"{who} issued no token: {why}"
                failure.code = failure.code or NO_TOKEN
            raise ProviderFailure(failure) from error

    async def _read(self, request: HTTPRequest, into: type[T]) -> T:
        call = self._call
        if call.http is None:
            raise PluginError("the call has no HTTP client")
        headers = {"Accept": "application/json", **request.headers}
        request = evolve(request, headers=headers)
        leg = self._attempt.ask(request, "token", call.clock.time())
        response = await call.http.send(request, call.options.timeouts.connect)
        head = ResponseHead(response.status, response.headers, call.clock.time())
        self._attempt.answer(head, None, leg)
        try:
            if 200 <= response.status < 300:
                data = await read_whole(response, TOKEN_BYTES)
                call.tap(data, leg)
                return decoded(data, into)
            failure = await failure_of_answer(response, call.secrets, self._grant.error_facts)
            transient = response.status >= 500 or response.status in (408, 429)
            failure.kind = failure.kind or (Kind.NETWORK if transient else Kind.AUTH)
        except ProviderFailure as error:
            if error.failure.kind is Kind.PROTOCOL:
                error.failure.kind = Kind.AUTH  # the response contains no valid token
            raise
        finally:
            response.close()
        call.tap(failure.body, leg)
        raise ProviderFailure(failure)


@define
class _Kept:
    token: Token
    due: float
    until: float
    secrets: set[str]


class Tokens:
    """The cached tokens of one provider. Times are seconds of the calls' clock."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Grant, _Kept] = OrderedDict()
        # by event loop, because a task can be awaited only in its own loop
        self._fetches: WeakKeyDictionary[Any, dict[Grant, asyncio.Task[Any]]] = WeakKeyDictionary()

    async def get(self, grant: Grant, call: Call) -> Token:
        """Return a grant's token for a call: from the cache, renewed or new.

        Raises ProviderFailure if the token cannot be fetched.
        """
        kept = self._kept.get(grant)
        now = call.clock.time()
        if kept is None or now >= kept.until:
            call.secrets |= secrets_of(grant)
            kept = await self._fetched(grant, call)
        else:
            self._kept.move_to_end(grant)
            if now >= kept.due:
                self._fetch(grant, call)
        call.secrets |= kept.secrets
        return kept.token

    def drop_refused(self, grant: Grant, token: Token, failure: Failure) -> bool:
        """Return True if a failure shows that a token was refused, and remove it from the cache.

        If the cache already contains a newer token, that token is kept.
        """
        refuses = grant.refuses(failure)
        kept = self._kept.get(grant)
        if refuses and kept is not None and kept.token is token:
            del self._kept[grant]
        return refuses

    async def _fetched(self, grant: Grant, call: Call) -> _Kept:
        while True:
            task = self._fetch(grant, call)
            await asyncio.wait((task,))  # cancelling this does not cancel the task
            if not task.cancelled():  # the client that began the task was closed
                break
        result = task.result()
        if isinstance(result, _Kept):
            return result
        if isinstance(result, ProviderFailure):
            raise ProviderFailure(evolve(result.failure)) from result
        raise result

    def _fetch(self, grant: Grant, call: Call) -> asyncio.Task[Any]:
        """Return the task that is fetching a grant's token, or start such a task."""
        fetches = self._fetches.setdefault(asyncio.get_running_loop(), {})
        task = fetches.get(grant)
        if task is None or task.done():
            if type(grant).__eq__ is object.__eq__:
                name = type(grant).__name__
                raise PluginError(
                    f"{name} compares by identity, so its tokens cannot be cached",
                    resolution=f"Decorate {name} with @attrs.define(frozen=True).",
                )
            task = call.tasks.start(self._renew(grant, call, fetches), finish=False)
            fetches[grant] = task
        return task

    async def _renew(
        self, grant: Grant, call: Call, fetches: dict[Grant, asyncio.Task[Any]]
    ) -> _Kept | Exception:
        """Fetch a token and cache it.

        An exception is returned, not raised, because several calls wait for the result of the task.
        """
        asked_at = call.clock.time()
        try:
            async with time_limit(FETCH_SECONDS):
                token = await grant.fetch(TokenHTTP(grant, call))
            if not isinstance(token, Token):
                raise TypeError(f"fetch() returned a {type(token).__name__}, not a Token")
        except TimeoutError as error:
            why = f"no token was received within {FETCH_SECONDS:g} s"
            failure = Failure("request", kind=Kind.TIMEOUT, code=NO_TOKEN, message=why)
            failure.exception = error
            return self._failed(grant, call, ProviderFailure(failure))
        except Exception as error:
            return self._failed(grant, call, error)
        finally:
            fetches.pop(grant, None)
        until = asked_at + token.seconds
        due = until - min(EARLY_SECONDS, token.seconds / 5)
        kept = _Kept(token, due, until, secrets_of(grant) | secrets_of(token))
        self._kept[grant] = kept
        self._kept.move_to_end(grant)
        while len(self._kept) > MOST_TOKENS:
            self._kept.popitem(last=False)
        return kept

    def _failed(self, grant: Grant, call: Call, error: Exception) -> Exception:
        """Record a failed fetch and return its error.

        The code of the token service is replaced by the code of failed fetches. If the old token is
        still valid, set the time of the next attempt to renew it.
        """
        if isinstance(error, ProviderFailure) and error.failure.phase != "connect":
            code = error.failure.code
            error.failure.code = code if code in _NOT_SET else NO_TOKEN
        kept = self._kept.get(grant)
        now = call.clock.time()
        if kept is not None and now < kept.until:
            kept.due = min(kept.until, now + AGAIN_SECONDS)
            why = redact(str(error), call.secrets | kept.secrets)
            log.warning(
                "%s: a token could not be renewed, and the old one is still used: %s",
                call.model.provider,
                why,
            )
        return error


def secrets_of(value: Any) -> set[str]:
    """Return the strings in the fields of an attrs object that its repr does not show."""
    found: set[str] = set()
    for each in fields(type(value)) if has(type(value)) else ():
        inner = getattr(value, each.name)
        if isinstance(inner, str):
            found |= set() if each.repr else {inner}
        else:
            found |= secrets_of(inner)
    return found - {""}
