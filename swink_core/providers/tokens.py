"""Credentials that the core keeps: grants, and the tokens that they are exchanged for.

A `Grant` is a frozen class whose fields are everything that its token depends on: key, address,
scope. Equal grants share a token and unequal ones never do, because fetching sees nothing else: no
option of a call and nothing of the call itself. Tokens are kept in memory alone. Calls that need
one at the same time share one fetch, which runs in a task of the client, so that a call that is
cancelled cancels no other call's token. A token is renewed before it expires, while calls go on
with the one that is still good, and dropped when a request that carries it is refused.
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
from swink_core.providers.answers import decoded, failure_of_answer, read_error, read_whole
from swink_core.vocabulary.http import HTTPRequest, ResponseHead
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

log = logging.getLogger(__name__)

T = TypeVar("T")

EARLY_SECONDS = 300.0
"""A token is renewed this long before it expires, or after four fifths of a shorter life."""

AGAIN_SECONDS = 30.0
"""How long a token that is still good is used before its failed renewal is tried again."""

FETCH_SECONDS = 60.0
"""How long a fetch may take."""

MOST_TOKENS = 1024
"""Tokens that a provider keeps, those used last."""

TOKEN_BYTES = 64 * 1024
"""Bytes of an answer with a token."""


@define(frozen=True)
class Token:
    """A credential that was fetched, and for how many seconds it is good (`inf`: for ever).

    A subclass may add fields, for credentials of several parts; those with `repr=False` are
    secrets, which are hidden in every text for people.
    """

    value: str = field(repr=False)
    seconds: float = inf


class Grant:
    """The entitlement to a token. Write a subclass with `@attrs.define(frozen=True)`.

    Its fields are all that the token depends on, and tokens are kept by them: equal grants share
    one. Fields with `repr=False` are secrets. `issuer` names the service in error messages
    (empty: its host).
    """

    issuer: ClassVar[str] = ""

    async def fetch(self, http: TokenHTTP) -> Token:
        """Fetch a token. Run blocking code in `asyncio.to_thread`. Raises ProviderFailure."""
        raise NotImplementedError("fetch() has to be written")

    def refuses(self, failure: Failure) -> bool:
        """Tell whether a failed request means that its token is not accepted any more.

        The default is HTTP 401. The token is then dropped and the request sent once more.
        """
        return failure.status == 401

    def error_facts(self, failure: Failure) -> None:
        """Fill `code`, `type` and `message` from the body of an answer without a token."""
        read_error(failure)


class TokenHTTP:
    """Sends the requests of a fetch, over the connections of the client.

    Nothing of a call goes with them: neither its key nor its headers.
    """

    def __init__(self, grant: Grant, call: Call) -> None:
        self._grant = grant
        self._call = call
        self._attempt = call.attempt

    async def form(self, url: str, fields: Mapping[str, str], into: type[T]) -> T:
        """POST a form and return the JSON that answers it, as RFC 6749 section 4 has it.

        `into` is a type that msgspec decodes, or `bytes`. Raises ProviderFailure.
        """
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return await self.read(HTTPRequest(url, urlencode(fields).encode(), headers), into)

    async def read(self, request: HTTPRequest, into: type[T]) -> T:
        """Send a request and return the JSON that answers it.

        `into` is a type that msgspec decodes, or `bytes` for the raw body. A refusal is a
        ProviderFailure of kind `auth`; HTTP 408, 429, 5xx and lost connections are of kind
        `network`, which is tried again.
        """
        try:
            return await self._read(request, into)
        except ProviderFailure as error:
            failure = error.failure
            if failure.phase != "connect":
                why = failure.message or f"HTTP {failure.status}"
                who = self._grant.issuer or urlsplit(request.url).hostname
                failure.message = f"{who} gave no token: {why}"
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
                error.failure.kind = Kind.AUTH  # other values are not tokens
            raise
        finally:
            response.close()
        call.tap(failure.body, leg)
        failure.code = failure.code or "token"
        raise ProviderFailure(failure)


@define(eq=False)
class _Kept:
    token: Token
    due: float
    until: float
    secrets: set[str]


class Tokens:
    """The tokens of one provider. Times are seconds of the calls' clock."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Grant, _Kept] = OrderedDict()
        # by event loop, because a task of one can be awaited in no other
        self._fetches: WeakKeyDictionary[Any, dict[Grant, asyncio.Task[Any]]] = WeakKeyDictionary()

    async def get(self, grant: Grant, call: Call) -> Token:
        """Return a grant's token for a call: kept, renewed or new. Raises ProviderFailure."""
        kept = self._kept.get(grant)
        now = call.clock.time()
        if kept is None or now >= kept.until:
            call.secrets |= secrets_of(grant)
            kept = await self._fetched(grant, call)
        elif now >= kept.due:
            self._fetch(grant, call)
        call.secrets |= kept.secrets
        return kept.token

    def drop_refused(self, grant: Grant, token: Token, failure: Failure) -> bool:
        """Drop a token that a failure refuses, and tell whether it does.

        A token that has taken its place stays.
        """
        refuses = grant.refuses(failure)
        kept = self._kept.get(grant)
        if refuses and kept is not None and kept.token is token:
            del self._kept[grant]
        return refuses

    async def _fetched(self, grant: Grant, call: Call) -> _Kept:
        while True:
            task = self._fetch(grant, call)
            await asyncio.wait((task,))  # cancelling this leaves the task alone
            if not task.cancelled():  # by the client that began it, which closed
                break
        result = task.result()
        if isinstance(result, _Kept):
            return result
        if isinstance(result, ProviderFailure):
            raise ProviderFailure(evolve(result.failure)) from result
        raise result

    def _fetch(self, grant: Grant, call: Call) -> asyncio.Task[Any]:
        """Return the fetch of a grant's token that is under way, or begin one."""
        fetches = self._fetches.setdefault(asyncio.get_running_loop(), {})
        task = fetches.get(grant)
        if task is None or task.done():
            if type(grant).__eq__ is object.__eq__:
                name = type(grant).__name__
                raise PluginError(
                    f"{name} compares by identity, so its tokens could not be kept",
                    resolution=f"Decorate {name} with @attrs.define(frozen=True).",
                )
            task = call.tasks.start(self._renew(grant, call, fetches), finish=False)
            fetches[grant] = task
        return task

    async def _renew(
        self, grant: Grant, call: Call, fetches: dict[Grant, asyncio.Task[Any]]
    ) -> _Kept | Exception:
        """Fetch a token and keep it. Return the error instead of raising it, for all who wait."""
        asked_at = call.clock.time()
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                token = await grant.fetch(TokenHTTP(grant, call))
            if not isinstance(token, Token):
                raise TypeError(f"fetch() returned a {type(token).__name__}, not a Token")
        except TimeoutError as error:
            why = f"no token came within {FETCH_SECONDS:g} s"
            failure = Failure("request", kind=Kind.TIMEOUT, code="token", message=why)
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
        """Put a failed renewal off, where the token is still good."""
        kept = self._kept.get(grant)
        now = call.clock.time()
        if kept is not None and now < kept.until:
            kept.due = min(kept.until, now + AGAIN_SECONDS)
            why = redact(str(error), call.secrets | kept.secrets)
            log.warning("%s: a token was not renewed and is used on: %s", call.model.provider, why)
        return error


def secrets_of(value: Any) -> set[str]:
    """Return the texts in an attrs object's fields that its repr leaves out."""
    found: set[str] = set()
    for each in fields(type(value)) if has(type(value)) else ():
        inner = getattr(value, each.name)
        if isinstance(inner, str):
            found |= set() if each.repr else {inner}
        else:
            found |= secrets_of(inner)
    return found - {""}
