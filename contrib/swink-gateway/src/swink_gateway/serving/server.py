"""`Gateway`: the HTTP server, its routes and authentication.

    async with Gateway(client) as gateway:
        print(gateway.url)

All calls are made by a single `swink_core.Client`, with its plugins and credentials.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from aiohttp import web
from attrs import evolve

from swink_core import Client, RetryPolicy, SwinkError
from swink_gateway.policy.access import NO_KEY, NOT_FROM_HERE, Guard, is_loopback
from swink_gateway.policy.config import Config, Route, Upstream
from swink_gateway.policy.limits import Ledger, MemoryLedger
from swink_gateway.policy.routing import Routing
from swink_gateway.protocols import ClientProtocol
from swink_gateway.protocols.bodies import MOST_BODY_BYTES
from swink_gateway.protocols.table import PROTOCOLS, Endpoint
from swink_gateway.serving.accepting import SharedSite
from swink_gateway.serving.access_log import (
    CALL,
    REFUSED,
    SENT,
    SHOWN_PATH,
    STREAM,
    AccessLog,
    call_id,
    forget_stream,
)
from swink_gateway.serving.admission import UNAVAILABLE
from swink_gateway.serving.bodies import TOO_LARGE, is_too_large
from swink_gateway.serving.calls import OWNER, Calls
from swink_gateway.serving.connections import Connections
from swink_gateway.serving.limits import Limits
from swink_gateway.serving.model_routes import ModelRoutes
from swink_gateway.serving.operator_routes import OperatorRoutes
from swink_gateway.serving.page import page
from swink_gateway.serving.refusals import is_unserved, refusal, refused_key, unserved
from swink_gateway.serving.responses import ResponsesRoutes
from swink_gateway.serving.unread import UnreadAnswers
from swink_gateway.serving.workers import Room

if TYPE_CHECKING:
    from swink_gateway.serving.metrics import Monitor

__all__ = ["LOOPBACK", "Gateway"]

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"

PLAIN = "identity"
"""The only supported Content-Encoding.

Vendors' clients do not compress requests, and 1 MB of compressed data may become 1 GB.
"""

CHUNKED = "chunked"
"""The only supported Transfer-Encoding, besides none."""

CONTINUE = "100-continue"
"""The only supported value of the header `Expect`."""

GRACE_SECONDS = 5
"""When the gateway stops, active answers may continue for at most this many seconds."""

_GENERAL = frozenset({"Not Found", "Method Not Allowed"})
"""HTTP reason phrases of errors that the router raises; routes give more specific reasons."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_PUBLIC = frozenset({"/health", "/ready"})
"""Paths that need no key: they only show that the gateway is running."""


class Gateway:
    """Lets clients of other APIs call the models of `client`, a swink client.

    Clients must send one of `keys`. Without keys, the gateway accepts only an address that other
    machines cannot reach. `hosts` are host names of the gateway besides loopback names. `routes`
    are further model names, each with a fallback chain of models. `settings` are names of settings
    that native clients may set. `retry` is the retry policy (`None`: no retries, because clients
    retry themselves; the other models of a chain are still tried). `limits` restrict clients'
    connections, streams and memory. `config` is a configuration from a file, with further routes
    and keys; `ledger` records the keys' usage; `monitor` collects metrics. Port 0 picks a free
    port. `shared` is a listening socket to use instead of opening one, and the room of the workers
    that share the socket. `access_log` writes a line for each request. Raises SwinkError if other
    machines can reach the address and no keys are given.
    """

    def __init__(
        self,
        client: Client,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        keys: Iterable[str] = (),
        hosts: Iterable[str] = (),
        routes: Mapping[str, Sequence[str]] | None = None,
        settings: Iterable[str] = (),
        retry: RetryPolicy | None = None,
        limits: Limits | None = None,
        config: Config | None = None,
        ledger: Ledger | None = None,
        monitor: Monitor | None = None,
        shared: tuple[socket.socket, Room] | None = None,
        access_log: AccessLog | None = None,
    ) -> None:
        self.guard = Guard(keys, [host, *hosts], not is_loopback(host))
        self.client = client
        tiers = {n: tuple((Upstream(model=m),) for m in c) for n, c in (routes or {}).items()}
        self._routes = {name: Route(tiers=chain) for name, chain in tiers.items()}
        self._host, self._port, self._shared = host, port, shared
        self.draining = False
        routing, ledger = Routing(client, Config()), ledger or MemoryLedger()
        counters = Counter[str]() if monitor is None else monitor.counters
        retry, limits = retry or RetryPolicy.none(), limits or Limits()
        self._calls = Calls(client, routing, ledger, retry, limits, counters)
        self._refused = (lambda status, kind: None) if monitor is None else monitor.hear_refusal
        self._unread = UnreadAnswers(limits.memory // 2)
        self._calls.access_log = access_log
        if monitor is not None:
            self._calls.heard = monitor.hear
            self._calls.failed = monitor.hear_failure
        self._operators = OperatorRoutes(self._calls, monitor, self._owner)
        self.reconfigure(config or Config())
        self._settings = frozenset(settings)
        self._models = ModelRoutes(self._calls)
        self._runner = Connections(
            self._app(), limits, self._calls.counters, auto_decompress=False,
            handler_cancellation=True, access_log=None, shutdown_timeout=GRACE_SECONDS,
        )  # fmt: skip

    def reconfigure(self, config: Config) -> None:
        """Use another configuration for further requests.

        Raises SwinkError for a configuration without keys if other machines can reach the gateway's
        address, or if the current configuration has keys.
        """
        owners: dict[bytes, str] = {
            digest: name for name, key in config.keys.items() for digest in key.key
        }
        if not (is_loopback(self._host) or owners or self.guard.wants_own_key):
            raise SwinkError(
                f"other machines can reach {self._host}, but no key is set",
                title="The gateway was not started",
                resolution="Set a key for clients (in SWINK_GATEWAY_KEY, or in "
                "[keys] of a --config file), or use --host 127.0.0.1.",
            )
        if self.guard.wants_key and not (owners or self.guard.wants_own_key):
            raise SwinkError(
                "the new configuration has no keys, so any client could use the gateway",
                title="The configuration is not used",
                resolution="Restore the [keys]. To run without keys, restart the gateway.",
            )
        merged = evolve(config, routes={**self._routes, **config.routes})
        self._calls.routing = Routing(self.client, merged)
        self.guard.owners = owners

    @property
    def routing(self) -> Routing:
        """The current routing."""
        return self._calls.routing

    @property
    def ledger(self) -> Ledger:
        """The ledger with the usage of keys."""
        return self._calls.ledger

    @property
    def counters(self) -> Mapping[str, int]:
        """Counts of events since the start, by name."""
        return self._calls.counters

    @property
    def url(self) -> str:
        """The gateway's URL."""
        if self._shared is None:
            host, port = self._runner.addresses[0][:2]
        else:
            host, port = self._shared[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        if self._shared is None:
            await web.TCPSite(self._runner, self._host, self._port).start()
        else:
            await SharedSite(self._runner, *self._shared, self._calls.limits.clock).start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._runner.cleanup()

    async def drain(self, seconds: float, notice: float = 0.0) -> None:
        """Stop: wait `seconds` for active answers, then fail the rest with an error.

        `/ready` fails at once; new requests are still accepted for `notice` seconds, so that load
        balancers can react.
        """
        self.draining = True
        await asyncio.sleep(notice)
        for site in self._runner.sites:
            await site.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._calls.admission.all_ended()
        await self._calls.end_all()

    # -- routes ------------------------------------------------------------------------------------

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._let_in])
        app.router.add_get("/", self._page)
        app.router.add_get("/health", _fine)
        app.router.add_get("/ready", self._ready)
        app.on_response_prepare.append(self._prepare)
        self._models.add_to(app, self._expect)
        self._operators.add_to(app)
        for row in PROTOCOLS.values():
            for endpoint in row.endpoints:
                self._add(endpoint, app)
        return app

    def _add(self, endpoint: Endpoint, app: web.Application) -> None:
        protocol = endpoint.make(self._settings)
        if endpoint.continues:
            responses = ResponsesRoutes(self._calls, MOST_BODY_BYTES, self._owner)
            self._add_post(app, endpoint.path, responses.post)
            app.router.add_get(endpoint.path, responses.get, allow_head=False)
            responses.stored.add_to(app, endpoint.path)
        elif endpoint.counts is not None:
            self._add_post(app, endpoint.path, self._count(protocol, endpoint.counts))
        else:
            self._add_post(app, endpoint.path, self._serve(protocol))

    def _add_post(self, app: web.Application, path: str, handler: Handler) -> None:
        app.router.add_post(path, handler, expect_handler=self._expect)

    async def _expect(self, request: web.Request) -> None:
        """Tell a client to send the body (`100 Continue`) if its key and the size are valid."""
        if request.headers["Expect"].lower() != CONTINUE:
            raise web.HTTPExpectationFailed(text=f"only {CONTINUE} can be expected")
        if self._owner(request) is not None and not is_too_large(request):
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0  # the response has not begun

    def _serve(self, protocol: ClientProtocol) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._calls.answer(request, protocol)

        return handle

    def _count(self, protocol: ClientProtocol, name: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._calls.count(request, protocol, name)

        return handle

    async def _ready(self, request: web.Request) -> web.Response:
        if self.draining:
            return web.json_response({"status": "draining"}, status=503)
        return await _fine(request)

    async def _prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the id of the call, and close a connection that is not to be used again.

        It may be one that another process can serve, or one on which the rest of a body that is too
        large would arrive.
        """
        response.headers[CALL] = call_id(request)
        status = response.status
        is_refusal = status == UNAVAILABLE and not self._runner.has_room(0)
        has_rest = status == TOO_LARGE and not request.content.is_eof()
        if self.draining or has_rest or (is_refusal and self._shared is not None):
            response.headers["Connection"] = "close"
            response.force_close()

    async def _page(self, request: web.Request) -> web.Response:
        return page(self._models.served(request))

    # -- authentication ----------------------------------------------------------------------------

    @web.middleware
    async def _let_in(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        request[SHOWN_PATH] = self.guard.without_keys(request.path)
        with (
            self._runner.answering(request.transport),
            self._calls.log_line(request, request.method) as line,
        ):
            try:
                response = self._counted(request, await self._answer(request, handler))
                line.status = response.status
                return response
            finally:
                line.call = call_id(request)
                line.owner, line.stream = request.get(OWNER), request.get(STREAM)
                line.refused = request.get(REFUSED)
                if line.status is None:
                    line.status = request.get(SENT)
                forget_stream(request)

    def _counted(self, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        """Count a request that the gateway refused before a call."""
        if response.status >= 400 and STREAM not in request:
            self._refused(response.status, request.get(REFUSED, ""))
        return response

    def _owner(self, request: web.Request) -> str | None:
        """Return the owner of a request's key; `None` if the configuration in use lacks the key."""
        return self.guard.owner(request.headers, request.query)

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if (stranger := self.guard.stranger(request.headers)) is not None:
            request[REFUSED] = f"unknown {stranger}"
            return refusal(403, NOT_FROM_HERE.format(stranger))
        owner = self._owner(request)
        if owner is None and request.path not in _PUBLIC:
            return refused_key(request.path, NO_KEY)
        request[OWNER] = owner or ""
        if request.headers.get("Content-Encoding", PLAIN).lower() != PLAIN:
            return refusal(
                415, "compressed bodies are not supported: send the body without Content-Encoding"
            )
        if request.headers.get("Transfer-Encoding", CHUNKED).lower() != CHUNKED:
            return refusal(501, "chunked is the only Transfer-Encoding that is supported")
        try:
            return self._if_read(request, await handler(request))
        except web.HTTPException as error:
            if error.status < 400:
                raise
            if is_unserved(request, error) and error.reason in _GENERAL:
                return unserved(request)
            refused = refusal(error.status, error.reason)
            refused.headers.update({n: v for n, v in error.headers.items() if n == "Allow"})
            return refused
        except ConnectionError:
            return refusal(503, "the client has left")  # aiohttp does not send this response
        except Exception:
            log.exception("internal error in %r", request[SHOWN_PATH])
            return refusal(500, "the gateway failed to answer")

    def _if_read(self, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        """Return a response, or a refusal if earlier answers to its key are still unread."""
        body = response.body if isinstance(response, web.Response) else None
        transport = request.transport
        if not isinstance(body, bytes) or transport is None:
            return response
        if self._unread.has_room(request[OWNER], transport, len(body)):
            return response
        refused = refusal(UNAVAILABLE, "earlier answers to this key are still unread")
        refused.headers["Retry-After"] = "1"
        return refused


async def _fine(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})
