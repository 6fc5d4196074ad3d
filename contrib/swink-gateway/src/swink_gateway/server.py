"""`Gateway`: the HTTP server, its routes, and who is let in.

    async with Gateway(client) as gateway:
        print(gateway.url)

One `swink_core.Client` answers everything; its plugins, gates and credentials are the gateway's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from aiohttp import web

from swink_core import Client, Error, RetryPolicy, StreamErrorKind, SwinkError
from swink_gateway.calls import Calls, read_json, respond
from swink_gateway.guard import Guard, is_loopback
from swink_gateway.listing import listed_models, ollama_model, ollama_models
from swink_gateway.page import page
from swink_gateway.protocols import BadRequest, ClientProtocol
from swink_gateway.protocols.fields import Fields
from swink_gateway.protocols.gemini import GeminiProtocol, counted
from swink_gateway.protocols.native import NativeProtocol
from swink_gateway.protocols.ollama import OllamaGenerateProtocol, OllamaProtocol

__all__ = ["LOOPBACK", "MOST_BODY_BYTES", "Gateway"]

LOOPBACK = "127.0.0.1"

MOST_BODY_BYTES = 32 * 1024 * 1024
"""Of a request: the smallest of coding agents' have 40 kB, those with images some MB."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_PUBLIC = frozenset({"/health", "/ready"})
"""Paths that need no key: they tell nothing but that the gateway is up."""


class Gateway:
    """Serves `client` to clients of other APIs.

    `keys` are those that clients show; without one only this machine can be served. `hosts` are
    names, beside loopback's, by which the gateway is reached. `routes` are further model names, a
    chain of models each. Port 0 is a free one. Raises SwinkError for an address beyond this
    machine without a key.
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
        retry: RetryPolicy | None = None,
    ) -> None:
        self.guard = Guard(keys, [host, *hosts])
        if not is_loopback(host) and not self.guard.wants_key:
            raise SwinkError(
                f"{host} can be reached from other machines, and there is no key",
                title="The gateway was not started",
                resolution="Set a key that clients have to show, or serve 127.0.0.1 alone.",
            )
        self._client = client
        self._routes = dict(routes or {})
        self._calls = Calls(client, self._routes, retry or RetryPolicy())
        self._host, self._port = host, port
        self._native = NativeProtocol()
        self._runner = web.AppRunner(self._app(), handler_cancellation=True, access_log=None)

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
        for version in ("v1", "v1beta"):
            app.router.add_get(f"/{version}/models", self._models)
            app.router.add_get(f"/{version}/models/{{model:.+}}", self._model)
            path = f"/{version}/models/{{model:.+}}"
            app.router.add_post(f"{path}:{{method:{_GENERATE}}}", self._serve(_GEMINI))
            app.router.add_post(f"{path}:{{method:countTokens}}", _count_tokens)
        app.router.add_post("/api/chat", self._serve(OllamaProtocol()))
        app.router.add_post("/api/generate", self._serve(OllamaGenerateProtocol()))
        app.router.add_get("/api/tags", self._tags)
        app.router.add_get("/api/ps", self._tags)
        app.router.add_post("/api/show", self._show)
        app.router.add_get("/api/version", _version)
        app.router.add_post("/v1/stream", self._serve(self._native))
        return app

    def _serve(self, protocol: ClientProtocol) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            path = {**request.query, **request.match_info}
            return await self._calls.answer(request, protocol, path)

        return handle

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response(listed_models(self._client, self._routes))

    async def _model(self, request: web.Request) -> web.Response:
        rows = listed_models(self._client, self._routes)["data"]
        name = request.match_info["model"]
        row = next((row for row in rows if row["id"] == name), None)
        return self._refuse(404, f"no model {name!r} is listed") if row is None else _json(row)

    async def _tags(self, request: web.Request) -> web.Response:
        return _json({"models": ollama_models(self._client, self._routes)})

    async def _show(self, request: web.Request) -> web.Response:
        try:
            body = Fields(await read_json(request))
            name = body.text("model") or body.required("name")
        except BadRequest as error:
            return self._refuse(400, str(error))
        found = ollama_model(self._client, self._routes, name)
        return _json({"error": f"model {name!r} not found"}, 404) if found is None else _json(found)

    async def _page(self, request: web.Request) -> web.Response:
        return page(self._client, self._routes)

    # -- who is let in -------------------------------------------------------------------------

    @web.middleware
    async def _let_in(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self.guard.is_from_here(request.headers):
            return self._refuse(403, "this gateway does not answer to that Host or Origin")
        if request.path not in _PUBLIC and not self.guard.knows(request.headers, request.query):
            return self._refuse(401, "the gateway's key is missing or wrong")
        try:
            return await handler(request)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return self._refuse(error.status, error.reason)

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


_GEMINI = GeminiProtocol()
_GENERATE = "generateContent|streamGenerateContent"

OLLAMA_VERSION = "0.12.0"
"""The version of Ollama whose API is spoken; clients refuse to talk to older ones."""


def _json(data: Any, status: int = 200) -> web.Response:
    return web.json_response(data, status=status)


async def _version(request: web.Request) -> web.Response:
    return _json({"version": OLLAMA_VERSION})


async def _count_tokens(request: web.Request) -> web.Response:
    try:
        return respond(counted(await read_json(request), request.match_info))
    except BadRequest as error:
        wrong = Error(error_message=str(error), error_kind=StreamErrorKind.INVALID_REQUEST)
        return respond(_GEMINI.failure(wrong, 400))


async def _fine(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})
