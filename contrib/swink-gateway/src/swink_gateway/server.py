"""`Gateway`: the HTTP server, its routes, and who is let in.

    async with Gateway(client) as gateway:
        print(gateway.url)

One `swink_core.Client` answers everything; its plugins, gates and credentials are the gateway's.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Self

from aiohttp import web

from swink_core import Client, RetryPolicy, SwinkError
from swink_gateway.calls import Calls
from swink_gateway.connections import Connections
from swink_gateway.guard import Guard, is_loopback
from swink_gateway.listing import listed_models
from swink_gateway.ollama_lists import API_VERSION, ollama_model, ollama_models
from swink_gateway.page import page
from swink_gateway.protocols import ClientProtocol
from swink_gateway.protocols.chat import ChatProtocol
from swink_gateway.protocols.fields import Fields
from swink_gateway.protocols.gemini import GeminiProtocol
from swink_gateway.protocols.messages import MessagesProtocol
from swink_gateway.protocols.native import NativeProtocol
from swink_gateway.protocols.ollama import OllamaGenerateProtocol, OllamaProtocol
from swink_gateway.reading import MOST_BODY_BYTES, Refused, json_of, within
from swink_gateway.relay import Limits
from swink_gateway.responses_serving import ResponsesRoutes

__all__ = ["LOOPBACK", "MOST_BODY_BYTES", "Gateway"]

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"

PLAIN = "identity"
"""How a body has to be coded: no vendor's client compresses it, and a MB of it may be a GB."""

GRACE_SECONDS = 5
"""For answers that are on their way when the gateway stops."""

_GOOGLE = "/{version:v1|v1beta}/models/{model:.+}"

_POSTS: dict[str, ClientProtocol] = {
    "/v1/chat/completions": ChatProtocol(),
    "/v1/messages": MessagesProtocol(),
    _GOOGLE + ":{method:generateContent|streamGenerateContent}": GeminiProtocol(),
    "/api/chat": OllamaProtocol(),
    "/api/generate": OllamaGenerateProtocol(),
}
"""Where clients ask, and what they speak there."""

_COUNTS: dict[str, tuple[ClientProtocol, str]] = {
    "/v1/messages/count_tokens": (MessagesProtocol(), "input_tokens"),
    _GOOGLE + ":{method:countTokens}": (GeminiProtocol(), "totalTokens"),
}
"""Where they ask how long a conversation is, and the field that tells them."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_PUBLIC = frozenset({"/health", "/ready"})
"""Paths that need no key: they tell nothing but that the gateway is up."""


class Gateway:
    """Serves `client` to clients of other APIs.

    `keys` are those that clients show; without one only this machine can be served. `hosts` are
    names, beside loopback's, by which the gateway is reached. `routes` are further model names, a
    chain of models each; `settings` are names of settings that clients of swink's own protocol may
    say; `limits` bound what clients may take. Port 0 is a free one. Raises SwinkError for an
    address beyond this machine without a key.
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
    ) -> None:
        self.guard = Guard(keys, [host, *hosts])
        if not is_loopback(host) and not self.guard.wants_key:
            raise SwinkError(
                f"{host} can be reached from other machines, and there is no key",
                title="The gateway was not started",
                resolution="Set a key that clients have to show, or serve 127.0.0.1 alone.",
            )
        self.client = client
        self._routes = dict(routes or {})
        limits = limits or Limits()
        self._calls = Calls(client, self._routes, retry or RetryPolicy(), limits)
        self._host, self._port = host, port
        self._native = NativeProtocol(settings)
        self._runner = Connections(
            self._app(), limits, self._calls.counters, auto_decompress=False,
            handler_cancellation=True, access_log=None, shutdown_timeout=GRACE_SECONDS,
        )  # fmt: skip

    @property
    def counters(self) -> Mapping[str, int]:
        """What happened how often since the start."""
        return self._calls.counters

    @property
    def url(self) -> str:
        """Where the gateway listens."""
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._runner.cleanup()

    # -- routes --------------------------------------------------------------------------------

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=MOST_BODY_BYTES, middlewares=[self._let_in])
        app.router.add_get("/", self._page)
        app.router.add_get("/health", _fine)
        app.router.add_get("/ready", _fine)
        app.router.add_get("/{version:v1|v1beta}/models", self._models)
        app.router.add_get(_GOOGLE, self._model)
        app.router.add_get("/api/tags", self._tags)
        app.router.add_get("/api/ps", self._tags)
        app.router.add_post("/api/show", self._show)
        app.router.add_get("/api/version", _version)
        app.router.add_post("/v1/stream", self._serve(self._native))
        responses = ResponsesRoutes(self._calls, MOST_BODY_BYTES)
        app.router.add_post("/v1/responses", responses.post)
        app.router.add_get("/v1/responses", responses.get, allow_head=False)
        for path, protocol in _POSTS.items():
            app.router.add_post(path, self._serve(protocol))
        for path, (protocol, name) in _COUNTS.items():
            app.router.add_post(path, self._count(protocol, name))
        return app

    def _serve(self, protocol: ClientProtocol) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._calls.answer(request, protocol)

        return handle

    def _count(self, protocol: ClientProtocol, name: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._calls.count(request, protocol, name)

        return handle

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response(listed_models(self.client, self._routes))

    async def _model(self, request: web.Request) -> web.Response:
        rows = listed_models(self.client, self._routes)["data"]
        name = request.match_info["model"]
        row = next((row for row in rows if row["id"] == name), None)
        if row is None:
            return self._refuse(404, f"no model {name!r} is listed")
        return web.json_response(row)

    async def _tags(self, request: web.Request) -> web.Response:
        return web.json_response({"models": ollama_models(self.client, self._routes)})

    async def _show(self, request: web.Request) -> web.Response:
        try:
            body = await self._calls.read(request)
            name = await within(lambda: _shown(body), len(body))
        except Refused as refusal:
            return web.json_response({"error": str(refusal)}, status=refusal.status)
        found = ollama_model(self.client, self._routes, name)
        if found is None:
            return web.json_response({"error": f"model {name!r} not found"}, status=404)
        return web.json_response(found)

    async def _page(self, request: web.Request) -> web.Response:
        return page(self.client, self._routes)

    # -- who is let in -------------------------------------------------------------------------

    @web.middleware
    async def _let_in(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        with self._runner.answering(request.transport):
            return await self._answer(request, handler)

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self.guard.is_from_here(request.headers):
            return self._refuse(403, "this gateway does not answer to that Host or Origin")
        if request.path not in _PUBLIC and not self.guard.knows(request.headers, request.query):
            return self._refuse(401, "the gateway's key is missing or wrong")
        if request.headers.get("Content-Encoding", PLAIN).lower() != PLAIN:
            return self._refuse(415, "the gateway takes no compressed bodies")
        try:
            return await handler(request)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return self._refuse(error.status, error.reason)
        except ConnectionError:
            return self._refuse(503, "the client has left")  # aiohttp finds out, and is silent
        except Exception:
            log.exception("the gateway failed at %r", request.path)
            return self._refuse(500, "the gateway failed to answer")

    def _refuse(self, status: int, why: str) -> web.Response:
        """Answer in a form that the SDKs of all protocols read a message from."""
        return web.json_response(
            {
                "type": "error",
                "error": {
                    "type": _TYPES.get(status, "invalid_request_error"),
                    "message": why,
                    "code": status,
                },
            },
            status=status,
        )


_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


def _shown(body: bytes) -> str:
    """Return the name of the model that is asked about. Raises BadRequest."""
    said = Fields(json_of(body))
    return said.text("model") or said.required("name")


async def _version(request: web.Request) -> web.Response:
    return web.json_response({"version": API_VERSION})


async def _fine(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})
