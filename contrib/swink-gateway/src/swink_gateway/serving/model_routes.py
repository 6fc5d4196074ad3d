"""The routes that list and describe models and create embeddings, in the protocols' formats."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from swink_gateway.policy.served_models import ServedModels
from swink_gateway.protocols.bodies import json_of
from swink_gateway.protocols.failures import Refused
from swink_gateway.protocols.fields import Fields
from swink_gateway.protocols.frames import JSON
from swink_gateway.protocols.model_list import listed_models
from swink_gateway.protocols.ollama.model_list import ollama_model
from swink_gateway.protocols.ollama.protocol import OllamaProtocol
from swink_gateway.protocols.table import MODEL_PATH, PROTOCOLS
from swink_gateway.serving.bodies import within
from swink_gateway.serving.calls import OWNER, Calls, refused
from swink_gateway.serving.embeddings import Embeddings, Expecting
from swink_gateway.serving.refusals import refusal

__all__ = ["ModelRoutes"]

LIST_SECONDS = 5.0
"""How many seconds a list of models is sent again without a look at the catalogue."""

MOST_LISTS = 32
"""The maximum number of cached lists; keys with the same `models` share them."""


class ModelRoutes:
    """Lists the models that the owner of a key may use."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._routing = calls.routing
        self._lists: dict[tuple[Any, ...], tuple[float, bytes]] = {}

    def add_to(self, app: web.Application, expect: Expecting) -> None:
        """Add the routes, including the routes of embeddings.

        `expect` answers a client that waits before it sends a body.
        """
        app.router.add_get("/{version:v1|v1beta}/models", self._models)
        app.router.add_get(MODEL_PATH, self._model)
        for row in PROTOCOLS.values():
            for path, make in row.lists.items():
                app.router.add_get(path, self._list(make))
        app.router.add_post("/api/show", self._show, expect_handler=expect)
        Embeddings(self._calls).add_to(app, expect)

    def served(self, request: web.Request) -> ServedModels:
        """Return the models that the owner of a request's key may use."""
        return ServedModels(self._calls.routing, request[OWNER])

    def _listed(self, request: web.Request) -> dict[str, Any]:
        served = self.served(request)
        return listed_models(served.names(), served.models())

    def _list(
        self, make: Callable[[Sequence[Mapping[str, Any]]], Any]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            return self._answer(request, lambda listed: make(listed["data"]))

        return handle

    async def _models(self, request: web.Request) -> web.Response:
        return self._answer(request, lambda listed: listed)

    def _answer(self, request: web.Request, make: Callable[[dict[str, Any]], Any]) -> web.Response:
        """Return a list in a protocol's format; making it takes much longer than sending it."""
        routing, now = self._calls.routing, self._calls.limits.clock.time()
        key = routing.config.keys.get(request[OWNER])
        if routing is not self._routing:
            self._routing = routing
            self._lists.clear()
        which = (request.path, None if key is None else key.models)
        made_at, body = self._lists.get(which, (0.0, b""))
        if not body or now - made_at > LIST_SECONDS:
            body = msgspec.json.encode(make(self._listed(request)))
            if len(self._lists) >= MOST_LISTS:
                self._lists.clear()
            self._lists[which] = now, body
        return web.Response(body=body, content_type=JSON)

    async def _model(self, request: web.Request) -> web.Response:
        rows = self._listed(request)["data"]
        name = request.match_info["model"]
        row = next((row for row in rows if row["id"] == name), None)
        if row is None:
            return refusal(404, f"unknown model {name!r}: GET /v1/models lists the models")
        return web.json_response(row)

    async def _show(self, request: web.Request) -> web.Response:
        """Describe a model to Ollama's clients."""
        try:
            with await self._calls.place(request) as hold:
                body, _ = await self._calls.read(request, hold)
                name = await within(lambda: _named(body), len(body))
        except Refused as refusal:
            return refused(request, OllamaProtocol(), refusal)
        model = self.served(request).model(name)
        if model is None:
            return web.json_response({"error": f"model {name!r} not found"}, status=404)
        return web.json_response(ollama_model(model))


def _named(body: bytes) -> str:
    """Return the model name in a request body of an Ollama client.

    Raises BadRequest if the body contains no name.
    """
    said = Fields(json_of(body))
    return said.text("model") or said.required("name")
