"""Handle one client request: read it, call a provider, and send the answer.

The number of concurrent answers is limited; a slot is taken before the body is read. An upstream
failure is reported in the client's protocol: inside the stream for a streaming request, otherwise
as an HTTP status.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import partial
from secrets import token_hex
from typing import Any
from weakref import WeakSet, proxy

from aiohttp import web
from attrs import Factory, define, field

from swink_core import (
    AssistantMessage,
    Client,
    Error,
    EventStream,
    Model,
    RetryPolicy,
    StreamErrorKind,
    StreamOptions,
    SwinkError,
)
from swink_core.providers import prompt_of
from swink_gateway.policy.charging import KeyCharge, Payer, charged, stated_tags
from swink_gateway.policy.client_data import ClientDataGate
from swink_gateway.policy.config import Key
from swink_gateway.policy.cooldowns import CALLER
from swink_gateway.policy.guards import CallGuards, Prepared
from swink_gateway.policy.limits import Entry, Ledger, StoreUnavailable
from swink_gateway.policy.own_api import with_own_api
from swink_gateway.policy.passthrough import (
    Spoken,
    addressed,
    answerable,
    answering,
    lowers_effort,
    with_exact_thinking,
    with_shared,
)
from swink_gateway.policy.relaxing import STRICT, relaxed
from swink_gateway.policy.routing import Chain, Routing, persistent
from swink_gateway.policy.tenancy import Names, check_ids, distinct, ids_in_request
from swink_gateway.protocols import Asked, ClientProtocol, Facts
from swink_gateway.protocols.bodies import MUCH_MEMORY_BYTES, asks_for_logprobs
from swink_gateway.protocols.failures import Refused, of_bad_request, of_exception, status_of
from swink_gateway.protocols.frames import JSON
from swink_gateway.serving.access_log import REFUSED, STREAM, AccessLog, LogLine
from swink_gateway.serving.admission import UNAVAILABLE, Admission, Holding
from swink_gateway.serving.answers import OneAnswer, respond
from swink_gateway.serving.bodies import check_size, has_arrived, read_body, receive_body, size_of
from swink_gateway.serving.limits import Limits, stated_patience, time_limit, timeouts_within
from swink_gateway.serving.upstream_call import Claims, UpstreamCall, account_of

__all__ = ["OWNER", "REQUESTS", "Calls", "note_refused", "refused", "refusing"]

log = logging.getLogger(__name__)

Answering = Callable[[web.Request, Asked], Awaitable[web.StreamResponse]]
"""A function that answers a parsed request."""


OWNER = web.RequestKey("owner", str)
"""The name under which a request stores the owner of the client's API key.

The owner of a key without a name is `""`.
"""

REQUESTS = "ccr_requests_total"
"""Counts calls requested by clients."""

ESTIMATED = "x-swink-estimated"
"""The response header that names estimated values."""

STORE_SECONDS = 5.0
"""The Retry-After in seconds if the limits of a key cannot be checked."""


@contextmanager
def refusing() -> Iterator[None]:
    """Convert the errors of an invalid call to Refused."""
    try:
        yield
    except SwinkError as error:
        wrong = of_exception(error)
        raise Refused(wrong, status_of(wrong)) from error


@contextmanager
def _store_needed() -> Iterator[None]:
    """Convert StoreUnavailable to Refused: the limits of the call cannot be checked."""
    try:
        yield
    except StoreUnavailable as error:
        log.error("a request is refused because its limits cannot be checked: %s", error)
        failed = Error(
            error_message="the limits of this key cannot be checked at the moment; retry later"
        )
        failed.error_kind, failed.retry_after = StreamErrorKind.OVERLOADED, STORE_SECONDS
        raise Refused(failed, UNAVAILABLE) from error


def refused(request: web.Request, protocol: ClientProtocol, refusal: Refused) -> web.Response:
    """Return the response for a refusal in the client's protocol."""
    note_refused(request, refusal)
    return respond(protocol.failure(refusal.error, refusal.status))


def note_refused(request: web.Request, refusal: Refused) -> None:
    """Store the kind of a refusal for the access log and the metrics."""
    if (kind := refusal.error.error_kind) is not None:
        request[REFUSED] = str(kind)


def _grows_with_logprobs(chain: Chain, asked: Asked) -> bool:
    """Return True if the client, or a model's own options, ask for log probabilities."""
    options = (asked.options, *(own for _, own in chain))
    fields = (asked.own, asked.extra, *(each.get("extra") for each in options))
    return any(map(asks_for_logprobs, fields))


@define
class Calls:
    """Routes and sends clients' calls, and charges their keys.

    `routing` chooses the models and may be replaced at any time. `ledger` records the spending;
    `counters` count events by name. `heard` is called with each row of the ledger once its final
    charge is known, and `failed` with the account and the kind of failure of each attempt that
    failed at its provider. If there is an `access_log`, it writes a line for each request.
    """

    client: Client
    routing: Routing
    ledger: Ledger
    retry: RetryPolicy
    limits: Limits = field(factory=Limits)
    counters: Counter[str] = field(factory=Counter)
    heard: Callable[[Entry], None] = lambda entry: None
    failed: Callable[[str, str], None] = lambda account, kind: None
    access_log: AccessLog | None = None
    _spoken: Spoken = field(default=Factory(lambda self: Spoken(self.client), takes_self=True))
    _names: Names = field(default=Factory(lambda self: Names(self.client), takes_self=True))
    admission: Admission = field(
        default=Factory(lambda self: Admission(self.limits, self.counters), takes_self=True),
        init=False,
    )
    _streams: WeakSet[EventStream] = field(factory=WeakSet)

    def log_line(self, request: web.Request, method: str) -> AbstractContextManager[LogLine]:
        """Return a context manager that writes the log line of a request if there is a log."""
        if self.access_log is None:
            return nullcontext(LogLine())
        return self.access_log.line(request, method)

    async def end_all(self) -> None:
        """End all answers in progress with errors in their protocols."""
        for stream in [*self._streams]:
            await stream.aclose()

    async def answer(
        self, request: web.Request, protocol: ClientProtocol, go_on: Answering | None = None
    ) -> web.StreamResponse:
        """Answer an authorized request; `go_on` replaces the usual handling of a parsed request."""
        try:
            with await self.place(request) as hold:
                body, memory = await self.read(request, hold)
                async with self.admission.turn(request[OWNER], memory) as prepared:
                    asked = await self._parsed(request, protocol, body)
                    asked.memory, asked.prepared = memory, prepared
                    if go_on is not None:
                        return await go_on(request, asked)
                    return await self.answer_to(request, protocol, asked)
        except Refused as refusal:
            return refused(request, protocol, refusal)

    async def place(self, request: web.Request) -> AbstractContextManager[Holding]:
        """Return a context manager that takes a slot for a request; see `Admission.place`.

        Raises Refused for a body that is too large, without waiting for it.
        """
        check_size(request)
        is_whole = request.content.is_eof()
        if not is_whole and self.admission.is_scarce:
            is_whole = await has_arrived(request)
        return self.admission.place(size_of(request), request[OWNER], is_whole)

    async def answer_to(
        self,
        request: web.Request,
        protocol: ClientProtocol,
        asked: Asked,
        done: Callable[[AssistantMessage, Facts, Any], None] | None = None,
    ) -> web.StreamResponse:
        """Answer a request; call `done` with the answer and its encoder if it is complete."""
        if asked.idle is not None:
            return self._idle(protocol, asked, request[OWNER])
        async with self.begun(protocol, asked, request[OWNER]) as begun:
            request[STREAM] = begun.stream
            answer = OneAnswer(request, protocol, asked, begun, self.limits, self.counters)
            response = await (answer.streamed() if asked.stream else answer.whole())
            if done is not None and answer.completed:
                done(begun.stream.message, begun.facts, answer.encoder)
            return response

    async def count(
        self, request: web.Request, protocol: ClientProtocol, name: str
    ) -> web.StreamResponse:
        """Answer with the number of tokens in a conversation, in the field `name`."""

        async def counted(request: web.Request, asked: Asked) -> web.StreamResponse:
            estimate = prompt_of(None, asked.context, StreamOptions())
            return web.json_response({name: int(estimate.tokens)}, headers={ESTIMATED: name})

        return await self.answer(request, protocol, counted)

    @asynccontextmanager
    async def begun(
        self, protocol: ClientProtocol, asked: Asked, owner: str
    ) -> AsyncIterator[UpstreamCall]:
        """Start a call that is charged to the owner of a key.

        The call ends at the end of the `async with` block. Raises Refused for an invalid call.
        """
        self.counters[REQUESTS] += 1
        CALLER.set(owner)
        routing = self.routing
        with refusing():
            guards = routing.guards(asked, owner)
            chain, request = relaxed(self.client, *routing.routed(asked, owner))
            chain = [
                (model, with_own_api(self.client, model, request, protocol.wire_format, own))
                for model, own in chain
            ]
        key = routing.config.keys.get(owner)
        account: Any = nullcontext()
        if key is not None:
            with _store_needed():
                await self.check_ids(request, key, owner)
            names = self._names.options
            chain = [(model, {**names(model, request, owner), **own}) for model, own in chain]
        with refusing():
            chain, spoken = self._spoken_by(protocol, chain, request)
        if key is not None:
            payer = Payer(owner, key, asked.tags, partial(account_of, routing), self.heard)
            account = charged(self.client, self.ledger, payer, chain, request)
        async with AsyncExitStack() as stack:
            with _store_needed():
                charge: KeyCharge | None = await stack.enter_async_context(account)
            with refusing():
                stream, facts = self._stream(protocol, chain, spoken, request, owner)
            asked.dropped, asked.notices = request.dropped, request.notices
            stream.call.gates = (ClientDataGate(stream.call.context),)
            guarding: CallGuards | None = None
            if guards:  # a cycle of references would keep the texts of calls that have ended
                guarding = CallGuards(owner, proxy(stream.call), guards, asked.memory)
                stream.call.guards = (guarding,)
                stream.call.gates = (*stream.call.gates, guarding)
            if asked.memory > MUCH_MEMORY_BYTES:
                stream.call.guards = (*stream.call.guards, Prepared(asked.prepared))
            if charge is not None:
                charge.call = stream.call.id
                charge.first = stream.call.attempt.target
                charge.guards = guarding
                stream.call.gates = (*stream.call.gates, charge)
            if _grows_with_logprobs(chain, request):
                stream.call.room = stack.enter_context(self.admission.growing())
            async with stream:
                claims = None if key is None else Claims(self.ledger, owner)
                yield UpstreamCall(
                    stream, facts, len(chain), routing, claims, self.failed, asked.prepared
                )
                if claims is not None:
                    await claims.made()

    async def check_ids(self, asked: Asked, key: Key, owner: str) -> None:
        """Raise Refused for a request with ids that belong to another key."""
        if asked.memory > MUCH_MEMORY_BYTES:
            named = await asyncio.to_thread(ids_in_request, asked)
        else:
            named = ids_in_request(asked)
        if named:
            owned = await self.ledger.owned(owner, distinct(named))
            check_ids(named, owned, key.vendor_ids)

    def _spoken_by(
        self, protocol: ClientProtocol, chain: Chain, asked: Asked
    ) -> tuple[Chain, Sequence[str]]:
        """Return the models that can answer, and the wire formats of the requests to them."""
        spoken = [self._spoken.by(one, asked, protocol.wire_format, own) for one, own in chain]
        if asked.answers > 1:
            return answering(chain, spoken, asked, protocol.wire_format)
        return chain, spoken

    def _stream(
        self,
        protocol: ClientProtocol,
        chain: Chain,
        spoken: Sequence[str],
        asked: Asked,
        owner: str,
    ) -> tuple[EventStream, Facts]:
        asked.context = answerable(asked)
        wire_formats: dict[str, str] = {}
        for (one, _), speaks in zip(chain, spoken, strict=True):
            if wire_formats.setdefault(one.provider, speaks) != speaks:
                wire_formats[one.provider] = ""  # sealed data is valid for both
        first = chain[0][0].provider
        own = self._spoken.is_own(first, protocol.wire_format)
        found = addressed(asked, protocol.wire_format, first, wire_formats[first], own)
        asked.dropped = found.dropped
        if lowers_effort(chain[0][0], asked):
            asked.dropped.append(asked.highest_effort)
        unseen = not asked.stream
        options = persistent({"retry": self.retry, **found.options}, unseen)
        most = asked.patience
        if most is not None and (unseen or most > self.routing.config.head_wait):
            options.setdefault("timeouts", timeouts_within(most, unseen))
        models: list[Any] = [one for one, _ in chain]
        if (limits := chain[0][1].get("timeouts")) is not None:
            options["timeouts"] = limits  # of the route, so they apply to all its models together
        if asked.inherited:
            models, options = self._inheriting(models, options, asked)
        targets: Any = list(zip(models, (own for _, own in chain), strict=True))
        if asked.exact_thinking:
            del options["thinking"]
            targets = with_exact_thinking(self.client, chain, spoken, asked, protocol.wire_format)
        targets = with_shared(targets, chain, options)
        targets = [(target, persistent(own, unseen)) for target, own in targets]
        stream = self.client.stream(targets, found.context, **options)
        stream.call.tenant = owner
        self._streams.add(stream)
        return stream, Facts(stream.call.id, int(time.time()), wire_formats)

    def _inheriting(
        self, models: Sequence[Model], options: dict[str, Any], asked: Asked
    ) -> tuple[list[Any], dict[str, Any]]:
        """Split the options of a swink client into options of the targets and of the call.

        Options that a swink client sets for all its calls become options of the targets. Therefore
        `extra` of the call overrides them, as it does without a gateway.
        """
        inherited = {name: options[name] for name in asked.inherited if name in options}
        own = {name: value for name, value in options.items() if name not in inherited}
        merged = own.pop("extra", {})
        targets = [
            self.client.target(
                model, **inherited, extra=merged if model.provider == models[0].provider else {}
            )
            for model in models
        ]
        return targets, {**own, "extra": asked.extra}

    def _idle(self, protocol: ClientProtocol, asked: Asked, owner: str) -> web.Response:
        """Answer a request that asks for no output; the model must be valid nevertheless."""
        with refusing():
            self.routing.routed(asked, owner)
        nothing = AssistantMessage([], model=asked.model)
        encoder = protocol.encoder(asked, Facts(self.new_id(), int(time.time())))
        return web.Response(body=encoder.whole(nothing), content_type=JSON)

    async def _parsed(self, request: web.Request, protocol: ClientProtocol, body: bytes) -> Asked:
        """Parse a request. Raises Refused if it is invalid."""
        path = {**request.query, **request.match_info}
        asked = await read_body(protocol, body, path, request.headers)
        asked.patience = stated_patience(request.headers)
        asked.tags = stated_tags(request.headers)
        asked.is_strict = asked.is_strict or request.headers.get(STRICT, "").lower() == "true"
        return asked

    async def read(self, request: web.Request, hold: Holding) -> tuple[bytes, int]:
        """Receive the body of a request, and reserve its memory as it arrives.

        Return the body, and the bytes of memory that it takes. Raises Refused if it takes too long
        or is too large.
        """
        if request.content.is_eof():  # the whole body has arrived
            return await receive_body(request, hold)
        try:
            async with time_limit(self.limits.clock, self.limits.patience):
                return await receive_body(request, hold)
        except TimeoutError as error:
            why = f"the body was not received within {self.limits.patience:g} s"
            raise Refused(of_bad_request(why), 408) from error

    def new_id(self) -> str:
        """Return a new id for an answer for which no provider is called."""
        return token_hex(6)
