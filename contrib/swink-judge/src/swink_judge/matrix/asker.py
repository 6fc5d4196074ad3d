"""Make a call as an application would, and capture the request without sending it."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Self
from unittest.mock import patch

import msgspec
from attrs import define, evolve, field

from swink_core import (
    Client,
    Error,
    Failure,
    Host,
    Model,
    Notice,
    ProviderFailure,
    ProviderInfo,
    RetryPolicy,
    StreamErrorKind,
    UsageError,
)
from swink_core.providers import (
    Catalog,
    HTTPClient,
    HTTPProvider,
    HTTPRequest,
    HTTPResponse,
    LoopClock,
)
from swink_judge import Asked, asked_of, is_judged
from swink_judge.matrix.cases import Case
from swink_judge.matrix.conversations import conversation
from swink_judge.matrix.expected_values import Said
from swink_judge.request_readers import scalars_of, strings_of

__all__ = ["Asker", "Outcome", "address_of"]

_ENVIRONMENT = {
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
}
"""Environment variables for Bedrock, because no option sets its region or credentials."""


_USER_CATALOG = "SWINK_MODELS"
"""The variable with the user's own catalogue, which must not affect the result."""

_DATE = datetime(2026, 11, 1, tzinfo=UTC)
"""The date of every call, which determines which models have retired."""


@define
class Outcome:
    """The result of a call: its request, or the reason why it was not sent.

    `asked` is the request; it is `None` if no request was sent or its body is not a JSON object.
    `refusal` is an error that the provider plugin raised before sending (`unsupported`).
    `usage_error` is an error that the client raised, and `fault` is any other error.
    """

    case: Case
    said: Said = field(repr=False)
    asked: Asked | None = None
    request: HTTPRequest | None = field(default=None, repr=False)
    notices: list[Notice] = field(factory=list)
    refusal: Error | None = None
    usage_error: UsageError | None = None
    fault: str | None = None

    @cached_property
    def strings(self) -> list[str]:
        """All strings of the request's body, including names."""
        return strings_of(self.asked.body) if self.asked is not None else []

    @cached_property
    def scalars(self) -> list[tuple[str, Any]]:
        """All scalars of the request's body, with their paths."""
        return scalars_of(self.asked.body) if self.asked is not None else []

    @cached_property
    def leaves(self) -> Counter[tuple[str, Any]]:
        """How often each pair of a path and a scalar occurs in the body; the URL is included."""
        found = Counter(self.scalars)
        found["url", self.request.url if self.request is not None else None] += 1
        return found

    @property
    def headers(self) -> Iterable[str]:
        """The values of the request's headers."""
        return self.request.headers.values() if self.request is not None else ()


def address_of(case: Case) -> str:
    """Return the base URL of a call."""
    return f"http://{case.provider}.invalid/v1"


class _FixedDate(LoopClock):
    """A clock with the event loop's time, but a fixed date."""

    def now(self) -> datetime:
        return _DATE


@define
class _BadRequest:
    """A response with status 400 and an empty body."""

    status: int = 400
    headers: Mapping[str, str] = field(factory=dict)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    def close(self) -> None:
        """Do nothing."""


class _Wall:
    """An HTTP client that captures a request and fails with status 400.

    The matrix examines only the request, so no answer is needed. A request to an API without rules,
    which a provider may send before the actual call, gets an empty response with status 400.
    """

    def __init__(self) -> None:
        self._request: HTTPRequest | None = None

    def take(self) -> HTTPRequest | None:
        """Return the request that was captured since the last call of this method."""
        request, self._request = self._request, None
        return request

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        self._request = request
        if is_judged(request.url):
            raise ProviderFailure(Failure("request", 400, kind=StreamErrorKind.INVALID_REQUEST))
        return _BadRequest()

    def close_idle(self) -> None:
        """Do nothing: no connections are open."""

    async def aclose(self) -> None:
        """Do nothing: no connections are open."""


class Asker:
    """Runs cases with a separate client, in an environment without the user's API keys.

    `async with Asker() as asker: await asker.outcome(case)`. `host` finds the providers. `options`
    apply to every call. `providers` maps names of providers to their client options. `known` is a
    cache of outcomes: a call is not made again if the cache contains its outcome. `through` wraps
    the HTTP client that captures requests, for example to answer a request that a provider sends
    before the actual call.
    """

    def __init__(
        self,
        host: Host | None = None,
        known: dict[str, Outcome] | None = None,
        providers: Mapping[str, Any] | None = None,
        through: Callable[[HTTPClient], HTTPClient] | None = None,
        **options: Any,
    ) -> None:
        self._through = through
        self._host = host or Host(environ={})
        self.catalog = Catalog(self._host, environ={})
        self._wall = _Wall()
        self._known = known
        self._providers = providers
        self._options = {"api_key": "test", **options}
        self._models: dict[tuple[str, str], Model] = {}
        self._said: dict[tuple[str, str], Said] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        logger = logging.getLogger("swink_core")  # silenced, because every call fails on purpose
        self._stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL + 1)
        self._stack.enter_context(patch.dict(os.environ, _ENVIRONMENT))
        os.environ.pop(_USER_CATALOG, None)
        http: HTTPClient = self._wall if self._through is None else self._through(self._wall)
        client = Client(
            host=self._host, http=http, clock=_FixedDate(), retry=RetryPolicy.none(),
            providers=self._providers,
        )  # fmt: skip
        self._client = await self._stack.enter_async_context(client)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._stack.aclose()

    def providers(self, names: Sequence[str] = ()) -> list[ProviderInfo]:
        """Return the catalogue entries of the installed HTTP providers, or of the named ones."""
        asked = [n for n in names or self._host.provider_names() if self._makes_requests(n)]
        return [info for name in asked if (info := self.catalog.provider(name)) is not None]

    def _makes_requests(self, name: str) -> bool:
        provider = self._host.bind(name).provider
        return isinstance(provider, HTTPProvider) and provider.speaks_http

    def hold(self, provider: str, said: Said) -> None:
        """Add a conversation, so that cases of `provider` can refer to it by its name."""
        self._said[provider, said.name] = said

    async def outcome(self, case: Case, **more: Any) -> Outcome:
        """Make a call and return its outcome; an outcome in the cache is returned without a call.

        `more` are options in addition to those of the case.
        """
        if self._known is None or more:
            return await self._asked(case, **more)
        if (key := repr(case)) not in self._known:
            self._known[key] = await self._asked(case)
        return evolve(self._known[key])

    async def _asked(self, case: Case, **more: Any) -> Outcome:
        held = (case.provider, case.conversation)
        if held not in self._said:
            self._said[held] = conversation(case.conversation, case.provider)
        said = self._said[held]
        key = (case.provider, case.model.id)
        if key not in self._models:
            self._models[key] = self.catalog.resolve(Model(*key))
        outcome = Outcome(case, said)
        options = {"base_url": address_of(case), **self._options, **case.options, **more}
        failure: Error | None = None
        try:
            stream = self._client.stream(self._models[key], said.context, **options)
            async with stream:
                async for event in stream:
                    if isinstance(event, Notice):
                        outcome.notices.append(event)
                    elif isinstance(event, Error):
                        failure = event
        except UsageError as error:
            outcome.usage_error = error
        except Exception as error:  # an exception in a plugin is a finding like any other
            outcome.fault = f"{type(error).__name__}: {error}"
        request = outcome.request = self._wall.take()
        if request is not None:
            outcome.asked = asked_of(case.provider, request.url, request.body) or self._elsewhere(
                case, request
            )
            if outcome.asked is None:
                outcome.fault = f"a request that is no JSON object, to {request.url}"
        elif failure is not None:
            self._failed(outcome, failure)
        return outcome

    @staticmethod
    def _elsewhere(case: Case, request: HTTPRequest) -> Asked | None:
        """Return a request that `asked_of` cannot read, with `*` as its API.

        Returns `None` if the body is not a JSON object.
        """
        try:
            body = msgspec.json.decode(request.body or b"{}", type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return Asked(case.provider, "*", case.model.id, body)

    @staticmethod
    def _failed(outcome: Outcome, error: Error) -> None:
        if error.error_kind is StreamErrorKind.UNSUPPORTED:
            outcome.refusal = error
        else:
            outcome.fault = f"{error.error_kind}: {error.error_message}"
