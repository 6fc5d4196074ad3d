"""Pass embedding requests on to a vendor that uses the client's protocol.

The body is sent to the first model in the fallback chain of the requested name, with the vendor's
id for the model, hashes of the names of end users, and the gateway's credentials. The client
receives the vendor's response unchanged while it arrives, except that credentials are removed from
errors. The usage of embeddings is not counted, guards do not check the input, and failed requests
are not retried. Therefore requests of keys with a budget or a rate limit, and requests that a guard
would have to check, are refused.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aiohttp import web
from attrs import define

from swink_core import Call, Client, Context, Error, ProviderFailure, StreamErrorKind, Target
from swink_core.providers import Attempt, Grant, HTTPProvider, HTTPRequest, HTTPResponse
from swink_gateway.policy.config import Key
from swink_gateway.policy.tenancy import renamed, without_texts
from swink_gateway.protocols import Asked, ClientProtocol
from swink_gateway.protocols.bodies import json_of
from swink_gateway.protocols.chat.protocol import ChatProtocol
from swink_gateway.protocols.failures import OWN_KEY, Refused, header_text, passed_on, status_of
from swink_gateway.protocols.fields import Fields
from swink_gateway.protocols.frames import JSON
from swink_gateway.protocols.gemini.protocol import GeminiProtocol
from swink_gateway.protocols.ollama.protocol import OllamaProtocol
from swink_gateway.protocols.table import MODEL_PATH
from swink_gateway.serving.access_log import call_id
from swink_gateway.serving.answers import DROPPED
from swink_gateway.serving.bodies import within
from swink_gateway.serving.calls import OWNER, Calls, refused, refusing

__all__ = ["PATHS", "Embeddings", "Expecting"]

log = logging.getLogger(__name__)

SECONDS = 120.0
"""How many seconds a vendor may take to respond."""

MOST_BYTES = 256 * 1024 * 1024
"""The size limit of a vendor's response: 2,048 embeddings of 3,072 numbers take about 150 MB."""

MOST_ERROR_BYTES = 64 * 1024
"""The size limit of a vendor's error response."""

_AUTH = (401, 403, 407)

_FIELDS = frozenset(
    (
        "content", "dimensions", "encoding_format", "input", "keep_alive", "model", "options",
        "outputDimensionality", "prompt", "requests", "taskType", "title", "truncate", "user",
    )
)  # fmt: skip
"""The request fields of embeddings at OpenAI, Google and Ollama.

A client whose key is limited to some models may set no other fields.
"""


@define(frozen=True)
class _Form:
    """The path and body of embedding requests in a protocol, and how they are passed on.

    Vendors support these requests if their wire format begins with `wire_format`. The part of a
    vendor's URL that matches `answers` is replaced with `embeddings`. `texts` are the paths of the
    body's fields for the texts that are embedded.
    """

    path: str
    protocol: ClientProtocol
    wire_format: str
    answers: re.Pattern[str]
    embeddings: str
    texts: tuple[tuple[str, ...], ...]


_FORMS = (
    _Form(
        "/v1/embeddings",
        ChatProtocol(),
        "openai-",
        re.compile(r"/(?:chat/completions|responses)(?=\?|$)"),
        "/embeddings",
        (("input",),),
    ),
    _Form(
        MODEL_PATH + ":{method:embedContent|batchEmbedContents}",
        GeminiProtocol(),
        "gemini",
        re.compile(r":\w+(?:\?.*)?$"),
        ":{method}",
        (
            ("content", "parts", "text"),
            ("title",),
            ("requests", "content", "parts", "text"),
            ("requests", "title"),
        ),
    ),
    _Form(
        "/api/embed",
        OllamaProtocol(),
        "ollama",
        re.compile(r"/api/chat$"),
        "/api/embed",
        (("input",),),
    ),
    _Form(
        "/api/embeddings",
        OllamaProtocol(),
        "ollama",
        re.compile(r"/api/chat$"),
        "/api/embeddings",
        (("prompt",),),
    ),
)


Expecting = Callable[[web.Request], Awaitable[None]]
"""A function that answers a request with the header `Expect`, before the body is sent."""

PATHS = tuple(form.path for form in _FORMS)
"""The paths of embeddings, in aiohttp's notation."""


class Embeddings:
    """Serves the embeddings path of each protocol that has one."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def add_to(self, app: web.Application, expect: Expecting) -> None:
        """Add the routes; `expect` answers a client that waits before it sends a body."""
        for form in _FORMS:
            app.router.add_post(form.path, self._serve(form), expect_handler=expect)

    def _serve(self, form: _Form) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                with await self._calls.place(request) as hold:
                    raw, _ = await self._calls.read(request, hold)
                    return await self._embed(form, request, raw)
            except Refused as refusal:
                return refused(request, form.protocol, refusal)

        return handle

    async def _embed(self, form: _Form, request: web.Request, raw: bytes) -> web.StreamResponse:
        body: dict[str, Any] = await within(lambda: Fields(json_of(raw)).all(), len(raw))
        name = request.match_info.get("model")
        if name is None:
            name = await within(lambda: Fields(body).required("model"), 0)
        target, asked = await self._target(form, name, body, request[OWNER])
        body = _permitted(body, asked, request[OWNER])
        sent = self._request(form, target, body, request.match_info)
        try:
            async with asyncio.timeout(SECONDS):
                response = await self._calls.client.http.send(sent, target.options.timeouts.connect)
                redact = self._redact(target, sent)
                return await _passed_on(request, response, redact, asked.dropped)
        except ProviderFailure as failed:
            call = call_id(request)
            log.warning("%s: embeddings failed: %s (call %s)", target.model, failed, call)
            raise _failure(StreamErrorKind.NETWORK, "the model's provider failed") from failed
        except TimeoutError as late:
            why = f"the model's provider did not answer within {SECONDS:g} s"
            raise _failure(StreamErrorKind.TIMEOUT, why) from late

    async def _target(
        self, form: _Form, name: str, body: Mapping[str, Any], owner: str
    ) -> tuple[Target, Asked]:
        """Return the target for the first model in the chain of a requested name.

        The second value contains the permitted fields that are not in `_FIELDS`. Raises Refused if
        the model's provider does not use the client's protocol, or if the key may not make the
        request.
        """
        routing, client = self._calls.routing, self._calls.client
        key = routing.config.keys.get(owner)
        if key is not None and _is_metered(key):
            why = f"the key {owner!r} has a budget or a rate, and embeddings are not counted"
            raise _failure(StreamErrorKind.UNSUPPORTED, why, 403)
        unknown = {field: value for field, value in body.items() if field not in _FIELDS}
        asked = Asked(name, Context([]), own=unknown)
        with refusing():
            if routing.guards(asked, owner):
                why = "guards check this request, and they cannot check embeddings"
                raise _failure(StreamErrorKind.UNSUPPORTED, why, 403)
            if key is not None:
                searched = {**without_texts(body, form.texts)}
                await self._calls.check_ids(Asked(name, Context([]), own=searched), key, owner)
            chain, asked = routing.routed(asked, owner)
            model, own = chain[0]
            info = client.catalog.provider(model.provider)
            target = client.target(model, **own)
        if info is None or not info.wire_format.startswith(form.wire_format):
            raise _unserved(name, model.provider)
        return target, asked

    def _redact(self, target: Target, sent: HTTPRequest) -> Callable[[str], str]:
        """Return the function that removes the credentials of a request from a text."""
        call = Call(Attempt(target), Context([]), clock=self._calls.limits.clock)
        call.turn_to(call.attempt)
        call.hide(sent.headers, sent.url)
        return call.redact

    def _request(
        self, form: _Form, target: Target, body: Mapping[str, Any], found: Mapping[str, str]
    ) -> HTTPRequest:
        """Return the request for a vendor, with the gateway's credentials.

        Raises Refused if the vendor has no embeddings URL or the gateway has no suitable
        credentials.
        """
        model, options = target.model, target.options
        provider = _provider(self._calls.client, model.provider)
        try:
            address = provider.url(model, options)
            there, count = form.answers.subn(form.embeddings.format(**found), address)
            if not count:
                raise _unserved(str(model), model.provider)
            made = provider.json_request(there, _named(body, model.id), options.headers)
            if not provider.has_credentials(made):
                credential = provider.credential(made, options)
                if isinstance(credential, Grant):
                    raise _unserved(str(model), model.provider)
                if credential is not None:
                    provider.sign(made, credential, options)
        except ProviderFailure as failed:
            raise _failure(StreamErrorKind.AUTH, "the gateway has no credentials") from failed
        return made


def _is_metered(key: Key) -> bool:
    return bool(key.has_budget or key.requests_per_minute or key.tokens_per_minute or key.streams)


def _provider(client: Client, name: str) -> HTTPProvider:
    """Return the plugin of a provider. Raises Refused for a provider that does not use HTTP."""
    provider: Any = client.host.bind(name).provider
    if not isinstance(provider, HTTPProvider):
        raise _unserved(name, name)
    return provider


def _permitted(body: Mapping[str, Any], asked: Asked, owner: str) -> dict[str, Any]:
    """Return the fields in `_FIELDS`, with hashed names of end users, and those of `asked`."""
    known = {name: value for name, value in body.items() if name in _FIELDS}
    return {**(renamed(known, owner) if owner else known), **asked.own}


def _named(body: Mapping[str, Any], id: str) -> dict[str, Any]:
    """Insert the vendor's id of the model into a body wherever the client names the model."""
    named = {**body, "model": id} if "model" in body else {**body}
    if str(body.get("model", "")).startswith("models/"):
        named["model"] = f"models/{id}"
    if isinstance(requests := body.get("requests"), list):
        named["requests"] = [
            {**one, "model": f"models/{id}"} if isinstance(one, dict) else one for one in requests
        ]
    return named


async def _passed_on(
    request: web.Request,
    response: HTTPResponse,
    redact: Callable[[str], str],
    dropped: Sequence[str],
) -> web.StreamResponse:
    """Send a vendor's response to the client, with credentials removed from errors.

    A header lists the `dropped` fields of the request. Raises Refused if the vendor rejected the
    gateway's key, or if the response is too large.
    """
    if response.status in _AUTH:
        response.close()
        raise _failure(StreamErrorKind.AUTH, OWN_KEY)
    found = passed_on(response)
    if (wait := response.headers.get("Retry-After")) is not None:
        found["Retry-After"] = wait
    if dropped:
        found[DROPPED] = ", ".join(dropped)
    headers = {name: header_text(redact(value)) for name, value in found.items()}
    if response.status < 400:
        return await _relayed(request, response, headers)
    body = bytearray()
    async for piece in response:
        body += piece
        if len(body) > MOST_ERROR_BYTES:
            response.close()
            raise _failure(StreamErrorKind.OUTPUT_TOO_LARGE, "the answer is too large")
    said = redact(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return web.Response(body=said, status=response.status, headers=headers, content_type=JSON)


async def _relayed(
    request: web.Request, response: HTTPResponse, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Send a response to the client while it arrives, because it may be too large for the memory.

    If the vendor or the client disconnects, the connection to the client is closed before the end
    of the response.
    """
    relayed = web.StreamResponse(status=response.status, headers=headers)
    relayed.content_type = JSON
    size = 0
    try:
        async for piece in response:
            size += len(piece)
            if size > MOST_BYTES:
                raise ConnectionError("the answer is too large")
            if not relayed.prepared:
                await relayed.prepare(request)
            await relayed.write(piece)
        if not relayed.prepared:
            await relayed.prepare(request)
        await relayed.write_eof()
    except (ConnectionError, ProviderFailure, asyncio.CancelledError) as error:
        response.close()
        if not relayed.prepared and not isinstance(error, ConnectionError):
            raise
        what = "an answer with embeddings was broken off after %d bytes: %s (call %s)"
        log.warning(what, size, error, call_id(request))
        if request.transport is not None:
            request.transport.abort()
        if isinstance(error, asyncio.CancelledError):
            raise
    return relayed


def _unserved(name: str, provider: str) -> Refused:
    why = (
        f"{name}: {provider} has no embeddings in this protocol; ask for a model whose provider "
        "speaks the protocol of the request"
    )
    return _failure(StreamErrorKind.UNSUPPORTED, why, 404)


def _failure(kind: StreamErrorKind, why: str, status: int | None = None) -> Refused:
    error = Error(error_message=why, error_kind=kind)
    return Refused(error, status_of(error) if status is None else status)
