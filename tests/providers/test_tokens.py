"""Tokens that the core keeps: whose they are, when they are fetched, renewed and dropped."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest
from attrs import define, evolve, field
from fakes import HELLO, MODEL, Pipe, Toy, client_of, collect

import swink_core as swink
from swink_core import Failure, ProviderFailure, ResponseHead, StreamOptions, Timeouts
from swink_core import StreamErrorKind as Kind
from swink_core.providers import Grant, HTTPRequest, Token, TokenHTTP
from swink_core.providers.tokens import FETCH_SECONDS, MOST_TOKENS
from swink_testing.calls import call_of
from swink_testing.clock import ManualClock

ISSUER = "https://login.toy.invalid/token"


class Given(msgspec.Struct):
    token: str
    life: float


@define(frozen=True)
class Key(Grant):
    key: str = field(repr=False)
    scope: str = ""

    async def fetch(self, http: TokenHTTP) -> Token:
        given = await http.form(ISSUER, {"key": self.key, "scope": self.scope}, Given)
        return Token(given.token, given.life)


class Exchanging(Toy):
    """A provider whose key is exchanged for a token; the address is a part of what it is for."""

    def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
        return Key(self.api_key(options) or "", options.base_url or "")


class Service:
    """An `HTTPClient` with a token service and a model behind it, that knows whose tokens are
    whose. `gate` holds fetches back; `status` and `body` are answered to them instead of a token.
    """

    def __init__(self) -> None:
        self.fetches: list[dict[str, str]] = []
        self.owners: dict[str, str] = {}
        self.calls: list[str] = []
        self.requests: list[HTTPRequest] = []
        self.answers: list[Pipe] = []
        self.life = 3600.0
        self.status = 200
        self.body: bytes | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> Any:
        self.requests.append(request)
        if request.url == ISSUER:
            form = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
            self.fetches.append(form)
            await self.gate.wait()
            token = f"token-{len(self.fetches)}-secret"
            if self.status == 200:
                self.owners[token] = form["key"]
            given = msgspec.json.encode(Given(token, self.life))
            body = given if self.body is None else self.body
            self.answers.append(Pipe(body, status=self.status, end=True))
            return self.answers[-1]
        token = request.headers["Authorization"].removeprefix("Bearer ")
        self.calls.append(token)
        if token not in self.owners:
            return Pipe(b'{"error": {"message": "unknown token"}}', status=401, end=True)
        return Pipe(*HELLO, end=True)

    def revoke(self) -> None:
        self.owners.clear()

    def close_idle(self) -> None:
        """Keep nothing idle."""

    async def aclose(self) -> None:
        """Hold nothing open."""


def client(service: Service, **options: Any) -> swink.Client:
    clock = options.pop("clock", None) or ManualClock()
    own: dict[str, Any] = {"retry": swink.RetryPolicy.none(), "api_key": "first-key-secret"}
    provider = options.pop("provider", Exchanging)
    return client_of(providers={"toy": provider}, http=service, clock=clock, **{**own, **options})


async def authorized(service: Service) -> None:
    """Sign a request with a token, outside of any stream."""
    provider, options = Exchanging("toy"), StreamOptions(api_key="first-key-secret")
    call = call_of(provider, "large", options=options, http=service)
    await provider.authorize(HTTPRequest("http://toy.invalid"), options, call)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


# -- whose they are ------------------------------------------------------------------------------


async def test_a_token_is_fetched_once_and_kept() -> None:
    service = Service()
    async with client(service) as toy:
        for _ in range(3):
            await toy.complete(MODEL, "Hi")
    assert service.fetches == [{"key": "first-key-secret", "scope": ""}]
    assert service.calls == ["token-1-secret"] * 3


async def test_each_key_and_each_address_has_a_token_of_its_own() -> None:
    service = Service()
    asked = [
        ("a-key-secret", "http://x"),
        ("b-key-secret", "http://x"),
        ("b-key-secret", "http://y"),
    ]
    async with client(service) as toy:
        for _ in range(2):
            for key, scope in asked:
                await toy.complete(MODEL, "Hi", api_key=key, base_url=scope)
    assert [(form["key"], form["scope"]) for form in service.fetches] == asked
    assert service.calls == [f"token-{n}-secret" for n in (1, 2, 3)] * 2


async def test_equal_fields_of_another_class_are_another_grant() -> None:
    @define(frozen=True)
    class Other(Key):
        pass

    class Either(Toy):
        def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
            return (Other if options.base_url else Key)("key-secret")

    service = Service()
    async with client(service, provider=Either) as toy:
        for user in ("", "http://x", "", "http://x"):
            await toy.complete(MODEL, "Hi", base_url=user or None)
    assert service.calls == [f"token-{n}-secret" for n in (1, 2, 1, 2)]


async def test_nothing_of_a_call_goes_to_the_token_service() -> None:
    service = Service()
    async with client(service) as toy, toy.stream(MODEL, "Hi", headers={"X-Mine": "1"}) as stream:
        stream.call.headers["traceparent"] = "00-1-1-01"
        await collect(stream)
    fetch, call = service.requests
    form = "application/x-www-form-urlencoded"
    assert fetch.headers == {"Accept": "application/json", "Content-Type": form}
    assert {"X-Mine", "traceparent", "Authorization"} <= set(call.headers)


async def test_no_more_tokens_are_kept_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swink_core.providers.tokens.MOST_TOKENS", 2)
    assert MOST_TOKENS >= 1000
    service = Service()
    async with client(service) as toy:
        for key in ("key-1", "key-2", "key-3", "key-3", "key-1"):
            await toy.complete(MODEL, "Hi", api_key=key)
    assert [form["key"] for form in service.fetches] == ["key-1", "key-2", "key-3", "key-1"]


@pytest.mark.parametrize(
    ("before", "seconds", "after", "fetched"),
    [("12131", 0.0, "2", "1232"), ("12", 3600.0, "131", "1213")],
    ids=["kept", "fetched again"],
)
async def test_of_too_many_tokens_the_least_recently_used_is_dropped(
    before: str, seconds: float, after: str, fetched: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_core.providers.tokens.MOST_TOKENS", 2)
    service, clock = Service(), ManualClock()
    async with client(service, clock=clock) as toy:
        for keys, passed in ((before, seconds), (after, 0.0)):
            for key in keys:
                await toy.complete(MODEL, "Hi", api_key=f"key-{key}")
            await clock.advance(passed)
    assert [form["key"] for form in service.fetches] == [f"key-{key}" for key in fetched]


async def test_a_grant_that_compares_by_identity_is_a_fault_of_the_plugin() -> None:
    class Careless(Grant):
        async def fetch(self, http: TokenHTTP) -> Token:
            return Token("x")

    class Provider(Toy):
        def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
            return Careless()

    async with client(Service(), provider=Provider) as toy:
        with pytest.raises(swink.StreamError, match=r"Careless compares by identity"):
            await toy.complete(MODEL, "Hi")


# -- together ------------------------------------------------------------------------------------


async def test_calls_that_begin_together_share_one_fetch() -> None:
    service = Service()
    async with client(service) as toy:
        await asyncio.gather(*(toy.complete(MODEL, "Hi") for _ in range(20)))
    assert len(service.fetches) == 1
    assert service.calls == ["token-1-secret"] * 20


async def test_a_cancelled_call_takes_no_other_calls_token_along() -> None:
    service = Service()
    service.gate.clear()
    async with client(service) as toy:
        calls = [asyncio.create_task(toy.complete(MODEL, "Hi")) for _ in range(5)]
        await settle()
        calls[0].cancel()
        await asyncio.wait(calls[:1])
        service.gate.set()
        messages = await asyncio.gather(*calls[1:])
    assert calls[0].cancelled()
    assert [message.text for message in messages] == ["Hello"] * 4
    assert len(service.fetches) == 1


async def test_a_refusal_is_shared_too_and_quotes_no_key() -> None:
    service = Service()
    service.status = 400
    service.body = b'{"error": {"message": "no such key: first-key-secret"}}'
    async with client(service) as toy:
        calls = (toy.complete(MODEL, "Hi") for _ in range(5))
        errors: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
    assert len(service.fetches) == 1
    assert service.calls == []
    assert {error.kind for error in errors} == {Kind.AUTH}
    why = "login.toy.invalid issued no token: no such key: [hidden]"
    assert {error.message for error in errors} == {why}


async def test_a_limit_of_the_call_holds_for_the_wait_and_not_for_the_fetch() -> None:
    service, clock = Service(), ManualClock()
    service.gate.clear()
    async with client(service, clock=clock) as toy:
        limits = Timeouts(first_event=1.0)
        call = asyncio.create_task(toy.complete(MODEL, "Hi", timeouts=limits))
        await settle()
        await clock.advance(1.0)
        with pytest.raises(swink.StreamError) as caught:
            await call
        service.gate.set()
        await toy.complete(MODEL, "Hi")
    assert caught.value.kind is Kind.TIMEOUT
    assert len(service.fetches) == 1


async def test_a_client_that_closes_does_not_wait_for_a_fetch() -> None:
    service = Service()
    service.gate.clear()
    toy = client(service)
    stream = toy.stream(MODEL, "Hi")
    reader = asyncio.create_task(stream.result())
    await settle()
    await stream.aclose()
    await asyncio.wait_for(toy.aclose(), 5)
    with pytest.raises(swink.StreamError):
        await reader


async def test_a_client_that_closes_lets_a_cancelled_fetch_clean_up() -> None:
    did: list[str] = []

    @define(frozen=True)
    class Held(Grant):
        async def fetch(self, http: TokenHTTP) -> Token:
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(3):
                    await asyncio.sleep(0)
                did.append("cleaned up")
            raise AssertionError("nothing sets the event")

    class Holding(Toy):
        def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
            return Held()

    toy = client(Service(), provider=Holding)
    reader = asyncio.create_task(toy.complete(MODEL, "Hi"))
    await settle()
    await toy.aclose()
    assert did == ["cleaned up"]
    with pytest.raises(swink.StreamError):
        await reader


# -- renewing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("life", "early"), [(3600.0, 300.0), (600.0, 120.0), (100.0, 20.0)])
async def test_a_token_is_renewed_early_while_calls_go_on_with_the_old_one(
    life: float, early: float
) -> None:
    service, clock = Service(), ManualClock()
    service.life = life
    async with client(service, clock=clock) as toy:
        await toy.complete(MODEL, "Hi")
        await clock.advance(life - early - 1)
        await toy.complete(MODEL, "Hi")
        assert len(service.fetches) == 1
        await clock.advance(1)
        service.gate.clear()
        await asyncio.gather(*(toy.complete(MODEL, "Hi") for _ in range(10)))
        assert len(service.fetches) == 2
        service.gate.set()
        await settle()
        await toy.complete(MODEL, "Hi")
    assert service.calls == ["token-1-secret"] * 12 + ["token-2-secret"]


async def test_a_token_whose_time_is_over_is_waited_for() -> None:
    service, clock = Service(), ManualClock()
    async with client(service, clock=clock) as toy:
        await toy.complete(MODEL, "Hi")
        await clock.advance(3600)
        await asyncio.gather(*(toy.complete(MODEL, "Hi") for _ in range(10)))
    assert service.calls == ["token-1-secret"] + ["token-2-secret"] * 10


async def test_a_renewal_that_fails_keeps_a_token_that_is_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service, clock = Service(), ManualClock()
    async with client(service, clock=clock) as toy:
        await toy.complete(MODEL, "Hi")
        service.status = 503
        service.body = b'{"error": {"message": "no such key: first-key-secret"}}'
        await clock.advance(3400)
        for _ in range(3):
            await toy.complete(MODEL, "Hi")
            await settle()
        assert len(service.fetches) == 2  # it is put off
        await clock.advance(30)
        await toy.complete(MODEL, "Hi")
        await settle()
        assert len(service.fetches) == 3
        await clock.advance(170)
        with pytest.raises(swink.NetworkError, match="issued no token"):
            await toy.complete(MODEL, "Hi")
    said = "toy: a token could not be renewed, and the old one is still used"
    assert caplog.text.count(said) == 2  # the last failure leaves no token to use
    assert "secret" not in caplog.text


async def test_twenty_refusals_together_fetch_one_more_token() -> None:
    service = Service()
    async with client(service) as toy:
        await toy.complete(MODEL, "Hi")
        service.revoke()
        messages = await asyncio.gather(*(toy.complete(MODEL, "Hi") for _ in range(20)))
    assert len(service.fetches) == 2
    assert {message.text for message in messages} == {"Hello"}


async def test_a_late_refusal_of_an_old_token_leaves_the_new_one() -> None:
    service = Service()
    late = asyncio.Event()

    class Slow(Service):
        async def send(self, request: HTTPRequest, connect_timeout: float | None) -> Any:
            answer = await service.send(request, connect_timeout)
            if getattr(answer, "status", 200) == 401 and not late.is_set():
                late.set()
                await settle()
            return answer

    async with client(Slow()) as toy:
        await toy.complete(MODEL, "Hi")
        service.revoke()
        slow = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await late.wait()
        await toy.complete(MODEL, "Hi")
        assert (await slow).text == "Hello"
    assert len(service.fetches) == 2


async def test_a_refusal_whose_renewal_fails_is_reported_as_the_refusal() -> None:
    service = Service()
    async with client(service) as toy:
        await toy.complete(MODEL, "Hi")
        service.revoke()
        service.status, service.body = 503, b"{}"
        with pytest.raises(swink.AuthenticationError) as caught:
            await toy.complete(MODEL, "Hi")
    assert caught.value.status == 401
    assert caught.value.message == (
        "unknown token (the token was not renewed: login.toy.invalid issued no token: "
        "HTTP 503: '{}')"
    )


async def test_a_token_that_is_refused_twice_is_not_fetched_for_ever() -> None:
    service = Service()

    class Never(Service):
        async def send(self, request: HTTPRequest, connect_timeout: float | None) -> Any:
            service.revoke()
            return await service.send(request, connect_timeout)

    class Deaf(Exchanging):
        def sign(self, request: HTTPRequest, credential: Any, options: StreamOptions) -> None:
            super().sign(request, Token("of nobody"), options)

    async with client(Never(), provider=Deaf) as toy:
        with pytest.raises(swink.AuthenticationError):
            await toy.complete(MODEL, "Hi")
    assert (len(service.fetches), len(service.calls)) == (2, 2)


async def test_what_refuses_a_token_is_the_grants_to_say() -> None:
    @define(frozen=True)
    class Sessions(Key):
        def refuses(self, failure: Failure) -> bool:
            return failure.status == 403 and failure.message == "the session is over"

    class Provider(Toy):
        def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
            return Sessions("key-secret")

    class Over(Service):
        said = iter([b'{"message": "the session is over"}', b'{"message": "not yours"}'])

        async def send(self, request: HTTPRequest, connect_timeout: float | None) -> Any:
            if request.url == ISSUER:
                return await super().send(request, connect_timeout)
            return Pipe(next(self.said), status=403, end=True)

    service = Over()
    async with client(service, provider=Provider) as toy:
        with pytest.raises(swink.AuthenticationError, match="not yours"):
            await toy.complete(MODEL, "Hi")
    assert len(service.fetches) == 2


# -- what a fetch may come back with -------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b"{}", Kind.AUTH),
        (401, b"", Kind.AUTH),
        (404, b"<html>", Kind.AUTH),
        (300, b'{"token": "t", "life": 9}', Kind.PROTOCOL),
        (302, b"", Kind.PROTOCOL),
        (408, b"", Kind.NETWORK),
        (429, b"", Kind.NETWORK),
        (500, b"", Kind.NETWORK),
        (200, b"{}", Kind.AUTH),
        (200, b'{"token": "t", "life": "soon"}', Kind.AUTH),
        (200, b"\xff", Kind.AUTH),
        (200, b'{"token": "t", "life": 9}'.ljust(64 * 1024 + 1), Kind.AUTH),
    ],
)
async def test_an_invalid_token_is_a_classified_failure(
    status: int, body: bytes, kind: Kind
) -> None:
    service = Service()
    service.status, service.body = status, body
    async with client(service) as toy:
        with pytest.raises(swink.StreamError, match="issued no token") as caught:
            await toy.complete(MODEL, "Hi")
    assert (caught.value.kind, service.calls) == (kind, [])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "HTTP 400"),
        (b"{}", "HTTP 400: '{}'"),
        (b'{"error": {"code": "expired"}}', """HTTP 400: '{"error": {"code": "expired"}}'"""),
        (b'{"error": {"code": "expired", "message": "Log in."}}', "Log in."),
    ],
)
async def test_a_refusal_has_the_code_of_tokens_and_the_services_message(
    body: bytes, why: str
) -> None:
    service = Service()
    service.status, service.body = 400, body
    async with client(service) as toy:
        with pytest.raises(swink.AuthenticationError) as caught:
            await toy.complete(MODEL, "Hi")
    assert caught.value.code == "token"
    assert caught.value.message == f"login.toy.invalid issued no token: {why}"


@define(frozen=True)
class Renewed(Key):
    """Uses the code as a token if the service refuses the key."""

    async def fetch(self, http: TokenHTTP) -> Token:
        try:
            return await super().fetch(http)
        except ProviderFailure as error:
            return Token(str(error.failure.code), 60.0)


async def test_a_grant_sees_the_code_of_the_service() -> None:
    class Renewing(Toy):
        def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
            return Renewed(self.api_key(options) or "")

    service = Service()
    service.status, service.body = 400, b'{"error": {"code": "invalid_grant", "message": "No."}}'
    async with client(service, provider=Renewing) as toy:
        with pytest.raises(swink.StreamError):  # the model knows no such token
            await toy.complete(MODEL, "Hi")
    assert service.calls[0] == "invalid_grant"


@pytest.mark.parametrize("status", [200, 400])
async def test_a_response_of_the_token_service_is_closed(status: int) -> None:
    service = Service()
    service.status = status
    async with client(service) as toy, toy.stream(MODEL, "Hi") as stream:
        await collect(stream)
    assert service.answers[0].closed


@pytest.mark.parametrize(("status", "body"), [(200, None), (400, b"{}")])
async def test_taps_get_the_answer_of_the_token_service(status: int, body: bytes | None) -> None:
    seen: list[tuple[str, bytes]] = []
    service = Service()
    service.status, service.body = status, body
    async with client(service) as toy, toy.stream(MODEL, "Hi") as stream:
        stream.call.taps.append(lambda _, leg, data: seen.append((leg.kind, data)))
        await collect(stream)
    said = body or msgspec.json.encode(Given("token-1-secret", 3600.0))
    assert seen[0] == ("token", said)


async def test_calls_that_share_a_refusal_have_a_failure_of_their_own() -> None:
    service, provider = Service(), Exchanging("toy")
    service.status, service.body = 400, b"{}"
    request = HTTPRequest("http://toy.invalid")
    options = StreamOptions(api_key="first-key-secret")
    calls = [call_of(provider, "large", options=options, http=service) for _ in range(2)]
    authorized = (provider.authorize(request, options, call) for call in calls)
    errors: list[Any] = await asyncio.gather(*authorized, return_exceptions=True)
    first, second = (error.failure for error in errors)
    assert len(service.fetches) == 1
    assert first is not second
    assert (first.kind, first.message) == (second.kind, second.message)


async def test_numbers_may_be_written_as_text() -> None:
    service = Service()
    service.body = b'{"token": "token-1-secret", "life": "3600"}'.ljust(64 * 1024)
    async with client(service) as toy:
        await toy.complete(MODEL, "Hi")
    assert service.calls == ["token-1-secret"]


async def test_a_token_that_does_not_arrive_in_time_is_a_timeout_of_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert FETCH_SECONDS == 60
    monkeypatch.setattr("swink_core.providers.tokens.FETCH_SECONDS", 0.0)
    service = Service()
    service.gate.clear()
    async with client(service) as toy:
        with pytest.raises(swink.StreamError) as caught:
            await toy.complete(MODEL, "Hi")
    error = caught.value
    assert (error.kind, error.phase, error.code) == (Kind.TIMEOUT, "request", "token")
    assert error.message == "no token was received within 0 s"
    with pytest.raises(ProviderFailure) as failed:
        await authorized(service)
    assert isinstance(failed.value.failure.exception, TimeoutError)
    assert service.calls == []


async def test_an_attempt_records_the_request_for_its_token_and_the_answer() -> None:
    service, clock = Service(), ManualClock(7.0)
    async with client(service, clock=clock) as toy, toy.stream(MODEL, "Hi") as stream:
        await collect(stream)
    fetch, call = stream.call.attempt.legs
    assert (fetch.kind, call.kind) == ("token", "stream")
    assert fetch.request is service.requests[0]
    assert fetch.sent_at == 7.0
    assert fetch.response == ResponseHead(200, Pipe().headers, 7.0)


async def test_a_fetch_that_returns_no_token_is_a_fault_of_the_plugin() -> None:
    @define(frozen=True)
    class Text(Grant):
        async def fetch(self, http: TokenHTTP) -> Any:
            return "a text"

    class Provider(Toy):
        def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
            return Text()

    async with client(Service(), provider=Provider) as toy:
        with pytest.raises(swink.StreamError, match="returned a str, not a Token") as caught:
            await toy.complete(MODEL, "Hi")
    assert caught.value.kind is Kind.INTERNAL


async def test_a_lost_connection_to_the_token_service_is_tried_again() -> None:
    class Flaky(Service):
        async def send(self, request: HTTPRequest, connect_timeout: float | None) -> Any:
            if not self.requests:
                self.requests.append(request)
                raise ProviderFailure(Failure("connect", kind=Kind.NETWORK, code="disconnected"))
            return await super().send(request, connect_timeout)

    async with client(Flaky(), retry=swink.RetryPolicy(base=0.0)) as toy:
        assert (await toy.complete(MODEL, "Hi")).text == "Hello"


# -- secrets -------------------------------------------------------------------------------------


async def test_neither_key_nor_token_is_shown_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    class Echoing(Service):
        async def send(self, request: HTTPRequest, connect_timeout: float | None) -> Any:
            answer = await super().send(request, connect_timeout)
            if request.url == ISSUER:
                return answer
            said = f'{{"error": {{"message": "first-key-secret {self.calls[-1]}"}}}}'
            return Pipe(said.encode(), status=400, end=True)

    async with client(Echoing()) as toy:
        with pytest.raises(swink.StreamError) as caught:
            await toy.complete(MODEL, "Hi")
    assert "[hidden] [hidden]" in str(caught.value)
    shown = [caplog.text, str(caught.value), repr(Key("first-key-secret")), repr(Token("x-secret"))]
    assert not any("secret" in text for text in shown)


class Vault(Toy):
    """A provider whose grant has a secret that no option of a call has."""

    def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
        return Key("vault-secret")


async def test_secrets_of_a_grant_are_hidden_in_calls_with_a_kept_token_too() -> None:
    class Echoing(Service):
        async def send(self, request: HTTPRequest, connect_timeout: float | None) -> Any:
            if request.url == ISSUER:
                return await super().send(request, connect_timeout)
            return Pipe(b'{"message": "vault-secret"}', status=400, end=True)

    service = Echoing()
    async with client(service, provider=Vault) as toy:
        for _ in range(2):
            with pytest.raises(swink.StreamError) as caught:
                await toy.complete(MODEL, "Hi")
            assert caught.value.message == "[hidden]"
    assert len(service.fetches) == 1


async def test_secrets_of_the_call_are_not_logged_with_a_renewal_that_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service, clock = Service(), ManualClock()
    async with client(service, clock=clock, provider=Vault) as toy:
        await toy.complete(MODEL, "Hi")
        service.status = 503
        service.body = b'{"message": "first-key-secret, vault-secret, token-1-secret"}'
        await clock.advance(3400)
        await toy.complete(MODEL, "Hi")
        await settle()
    assert "[hidden], [hidden], [hidden]" in caplog.text
    assert "secret" not in caplog.text


async def test_parts_of_a_token_that_its_repr_leaves_out_are_hidden() -> None:
    @define(frozen=True)
    class Inner:
        hidden: str = field(default="inner-secret", repr=False)

    @define(frozen=True)
    class Pair(Token):
        public: str = ""
        private: str = field(default="", repr=False)
        inner: Inner = field(factory=Inner)

    class Provider(Toy):
        def credential(self, request: HTTPRequest, options: StreamOptions) -> Token:
            return Pair("value-secret", public="public-name", private="private-secret")

    class Echoing(Service):
        async def send(self, request: HTTPRequest, connect_timeout: float | None) -> Any:
            said = b'{"message": "value-secret, private-secret, inner-secret, public-name"}'
            return Pipe(said, status=400, end=True)

    async with client(Echoing(), provider=Provider) as toy:
        with pytest.raises(swink.StreamError, match=r"(\[hidden\], ){3}public-name"):
            await toy.complete(MODEL, "Hi")


def test_a_token_can_be_copied_with_another_life() -> None:
    assert evolve(Token("x"), seconds=1.0) == Token("x", 1.0)
    assert Counter([Token("x"), Token("x")]) == {Token("x"): 2}
