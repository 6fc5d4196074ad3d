"""`HTTPProvider`: the template of a provider that speaks over HTTP.

Four pure methods make a provider: `convert`, `request`, `parser` and `classify`; everything else
is attributes. The hooks are final and delegate to these methods, because a hook overridden
without its decorator would silently not be one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, final

import msgspec
from attrs import evolve

from swink_core.failures.exceptions import PluginError, ProviderFailure
from swink_core.failures.failure import Classification, Failure
from swink_core.failures.redaction import BODY_CAP, excerpt, public_url, redact
from swink_core.framing.frame import Decoder
from swink_core.framing.sse import SSEDecoder
from swink_core.plugins.call import Call
from swink_core.plugins.hookspecs import hookimpl
from swink_core.plugins.package_data import package_catalog
from swink_core.providers.buffered import WholeDecoder, WholeParser
from swink_core.providers.conversion import folded_system
from swink_core.providers.exchange import Body
from swink_core.providers.features import API, context_notices, ignored_options, unsupported
from swink_core.providers.source import EventSource, Parser, lenient_json
from swink_core.vocabulary.events import Notice
from swink_core.vocabulary.http import SWITCHED, HTTPRequest, HTTPResponse, ResponseHead
from swink_core.vocabulary.messages import Context
from swink_core.vocabulary.models import Model, ProviderInfo
from swink_core.vocabulary.options import StreamOptions
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

REQUEST_ID_HEADERS = ("request-id", "x-request-id", "x-generation-id", "x-amzn-requestid")


class HTTPProvider:
    """The base of providers that stream over HTTP; made once per host, with its entry's name.

    Facts that do not need the plugin (address, variables, wire format) come from the package's
    `models.toml`. Attributes of the class: `features` (what a call may need: `tools`, `images`,
    `documents`, `audio`, `json`, `structured_output`, `stop`, `tool_choice`, `file_ids`,
    `extensions`), `knobs` (what tunes an answer and is sent: options, and `strict` tools, and
    `system_messages` taken anywhere), `decoder` (makes a decoder), `content_types` that a stream
    may have, and `malformed`, the default policy for frames that do not parse.
    """

    features: frozenset[str] = frozenset({"tools", "tool_choice", "stop"})
    knobs: frozenset[str] = frozenset({"temperature", "top_p", "max_tokens"})
    decoder: Callable[[], Decoder] = SSEDecoder
    content_types: tuple[str, ...] = ("text/event-stream",)
    malformed: str = "skip"
    buffered: bool = False
    """Whether the provider also reads whole answers: `request` asks for one where
    `options.transport` is `buffered`, and the parser has `whole(body, out)`."""

    websocket: bool = False
    """Whether `options.transport` may be `websocket`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._renewals = 0
        self._renewing = asyncio.Lock()
        catalog = package_catalog(type(self).__module__.partition(".")[0])
        info = catalog.providers.get(name) if catalog else None
        self.info = info or ProviderInfo(name, name)

    # -- what a provider writes --------------------------------------------------------------

    def convert(self, model: Model, context: Context, options: StreamOptions) -> Any:
        """Return the conversation as the provider's JSON data. Pure."""
        raise NotImplementedError

    def request(self, model: Model, payload: Any, options: StreamOptions) -> HTTPRequest:
        """Return the request that carries `payload`. Pure; credentials come later."""
        raise NotImplementedError

    def parser(self, model: Model) -> Parser:
        """Make a parser for one response."""
        raise NotImplementedError

    def classify(self, failure: Failure) -> Classification | None:
        """Say what a failure means, or `None` to leave it to the core's defaults."""
        return None

    def api(self, model: Model, options: StreamOptions) -> API:
        """Return the API that answers this call, of a provider that has several. Pure.

        The default is the provider itself. Raises InvalidOption.
        """
        return self

    def notices(self, model: Model, options: StreamOptions) -> tuple[Notice, ...]:
        """Say which of the call's options are not sent as they were given. Pure.

        The default names what `knobs` lacks. A provider whose API bends an option (one that
        excludes another, a limit) adds to it what `request` does then.
        """
        return tuple(
            Notice("option_ignored", f"{model} has no option {name}; it was not sent")
            for name in ignored_options(self.api(model, options), model, options)
        )

    def error_facts(self, failure: Failure) -> None:
        """Fill `code`, `type` and `message` from the body of an HTTP error.

        The default reads the shapes that most APIs use: `{"error": {…}}`, `{"error": "…"}`,
        `{"message": …}`, each perhaps beside a `request_id`.
        """
        try:
            data = msgspec.json.decode(failure.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if isinstance(data, list) and data:
            data = data[0]
        if not isinstance(data, dict):
            return
        failure.request_id = failure.request_id or _word(data.get("request_id"))
        error = data.get("error", data)
        if isinstance(error, str):
            failure.message = error
            error = data
        if not isinstance(error, dict):
            return
        failure.code = failure.code or _word(error.get("code")) or _word(error.get("status"))
        failure.type = failure.type or _word(error.get("type"))
        failure.message = failure.message or _word(error.get("message") or error.get("detail"))

    def buffers(self, model: Model, context: Context, options: StreamOptions) -> bool:
        """Tell whether this call is better not streamed, because the endpoint's
        streaming is known to be broken for it."""
        return False

    async def authorize(self, request: HTTPRequest, options: StreamOptions, call: Call) -> None:
        """Add credentials to a request; the default is a bearer token.

        Raises ProviderFailure where there are none.
        """
        key = self.api_key(options)
        if key is not None:
            request.headers.setdefault("Authorization", f"Bearer {key}")

    def expired(self, response: HTTPResponse) -> bool:
        """Tell whether a response refuses credentials that `refresh` may renew.

        The default is HTTP 401. A provider whose API says it by another status and a header
        adds to it. The body has not been read.
        """
        return response.status == 401

    async def refresh(self, call: Call) -> bool:
        """Renew credentials that have expired, and tell whether to send again."""
        return False

    # -- what it may use ---------------------------------------------------------------------

    def api_key(
        self, options: StreamOptions, environ: Mapping[str, str] = os.environ
    ) -> str | None:
        """Return the caller's key, or that of the environment; `None` if none is needed.

        Raises ProviderFailure (`auth`) where one is needed and none is set.
        """
        key = options.api_key or _first(self.info.api_key_env, environ)
        key = key and key.strip()  # one that was read from a file ends in a newline
        if not key and self.info.auth == "key":
            names = " or ".join(self.info.api_key_env) or "api_key"
            raise ProviderFailure(
                Failure(
                    "request",
                    kind=Kind.AUTH,
                    code="no_credentials",
                    message=f"no API key for {self.name}: {names} is not set",
                )
            )
        return key or None

    def base_url(self, options: StreamOptions, environ: Mapping[str, str] = os.environ) -> str:
        """Return the address to use, without a slash at its end."""
        url = options.base_url or _first(self.info.base_url_env, environ) or self.info.base_url
        if not url:
            raise ProviderFailure(
                Failure(
                    "request",
                    kind=Kind.INVALID_REQUEST,
                    code="no_base_url",
                    message=f"no address for {self.name}: pass base_url=…"
                    + "".join(f" or set {name}" for name in self.info.base_url_env[:1]),
                )
            )
        return url.rstrip("/")

    def json_request(
        self, url: str, payload: Any, headers: Mapping[str, str] | None = None
    ) -> HTTPRequest:
        """Make a POST of JSON data."""
        try:
            body = msgspec.json.encode(payload)
        except UnicodeEncodeError:
            body = lenient_json(payload)
        return HTTPRequest(
            url,
            body,
            {
                "Content-Type": "application/json",
                "Accept": ", ".join(self.content_types),
                **(headers or {}),
            },
        )

    # -- the hooks, final --------------------------------------------------------------------

    @final
    @hookimpl
    def convert_messages(self, model: Model, context: Context, options: StreamOptions) -> Any:
        """Delegate to `convert`; an API without system messages gets the leading ones as prompt."""
        if "system_messages" not in self.api(model, options).knobs:
            context = folded_system(context)
        return self.convert(model, context, options)

    @final
    @hookimpl
    def classify_error(self, model: Model, failure: Failure) -> Classification | None:
        """Delegate to `classify`, except where the core itself made the failure."""
        return None if failure.kind is not None else self.classify(failure)

    @final
    @hookimpl
    def stream(
        self, model: Model, context: Context, options: StreamOptions, call: Call
    ) -> AsyncIterable[Any]:
        """Join request, connection, decoder and parser."""
        self._check_features(model, context, options)
        notices = self.notices(model, options)
        if options.transport == "auto" and self.buffers(model, context, options):
            options = evolve(options, transport="buffered")
            notices += (Notice("buffered", f"{model} streams this badly; asked for it whole"),)
        api = self.api(model, options)
        notices += context_notices(api.knobs, model, context)
        parser, decoder = api.parser(model), type(self).decoder()
        if options.transport == "buffered" and api.buffered:
            parser, decoder = WholeParser(parser), WholeDecoder()
        return EventSource(
            call,
            self.chunks(model, context, options, call),
            decoder,
            parser,
            malformed=options.malformed or self.malformed,
            notices=notices,
        )

    def chunks(
        self, model: Model, context: Context, options: StreamOptions, call: Call
    ) -> AsyncIterator[bytes]:
        """Yield the bytes of the answer as they come. The default is an HTTP response's
        body; a provider whose bytes come from elsewhere (a process, a socket) overrides it.

        Raises ProviderFailure. What it holds open it closes when it is closed.
        """
        return Body(lambda: self.respond(model, call.convert(), options, call))

    def _check_features(self, model: Model, context: Context, options: StreamOptions) -> None:
        failure = unsupported(self.api(model, options), model, context, options)
        if failure is not None:
            raise ProviderFailure(failure)

    async def respond(
        self, model: Model, payload: Any, options: StreamOptions, call: Call
    ) -> HTTPResponse:
        """Send the request and return a response that is a stream, or a WebSocket.

        A provider with two ways to ask overrides it and tries one after the other. Raises
        ProviderFailure.
        """
        if call.http is None:
            raise PluginError("the call has no HTTP client")
        replayed = False
        while True:
            request = self.request(model, payload, options)
            call.attempt.ask(public_url(request.url))
            request.headers.update(call.headers)
            _override(request.headers, options.headers)
            await self.authorize(request, options, call)
            _override(request.headers, options.headers)
            call.hide(request.headers, request.url)
            renewals = self._renewals
            response = await call.http.send(request, options.timeouts.connect)
            ids = (v for n in REQUEST_ID_HEADERS if (v := response.headers.get(n)))
            head = ResponseHead(response.status, response.headers, call.clock.time())
            call.attempt.answer(head, redact(next(ids, ""), call.secrets))
            if not replayed and self.expired(response):
                try:
                    replayed = await self._renew(call, renewals)
                except BaseException:
                    response.close()
                    raise
                if replayed:
                    response.close()
                    continue
            if response.status == SWITCHED:
                return response
            content_type = response.headers.get("Content-Type", "").partition(";")[0].strip()
            buffered = options.transport == "buffered" and content_type.lower() == _JSON
            accepted = buffered or self._accepts(content_type.lower())
            if response.status == 200 and accepted and _is_readable(response):
                return response
            try:
                raise ProviderFailure(await self._failure(response, content_type, call))
            finally:
                response.close()

    async def _renew(self, call: Call, renewals: int) -> bool:
        """Renew once for calls that fail together: whoever comes later finds it done."""
        async with self._renewing:
            if self._renewals == renewals:
                if not await self.refresh(call):
                    return False
                self._renewals += 1
            return True

    def _accepts(self, content_type: str) -> bool:
        return not content_type or content_type in self.content_types

    async def _failure(self, response: HTTPResponse, content_type: str, call: Call) -> Failure:
        body = b""
        with suppress(ProviderFailure, TimeoutError):  # the status says enough
            async with asyncio.timeout(BODY_SECONDS):
                async for data in response:
                    body += data
                    if len(body) >= BODY_CAP:
                        break
        failure = Failure("request", response.status, dict(response.headers), body[:BODY_CAP])
        if 300 <= response.status < 400:
            target = response.headers.get("Location", "an unnamed place")
            failure.code, failure.kind = "redirect", Kind.PROTOCOL
            failure.message = f"redirected (HTTP {response.status}) to {target}"
            return failure
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.error_facts(failure)
        if response.status < 300 and not _is_readable(response):
            failure.kind, failure.code = Kind.PROTOCOL, "encoding"
            encoding = response.headers["Content-Encoding"]
            failure.message = f"the answer is encoded as {encoding}, which was not asked for"
        elif response.status < 300 and not (failure.code or failure.type or failure.message):
            failure.kind, failure.code = Kind.PROTOCOL, "content_type"
            start = excerpt(body, call.secrets, 80)
            failure.message = (
                f"the answer is {content_type or 'of no stated type'}, not a stream: {start}"
            )
        elif not failure.message and body:
            failure.message = f"HTTP {response.status}: {excerpt(body, call.secrets, 200)}"
        return failure


ENCODINGS = frozenset({"", "identity", "gzip", "deflate", "br", "zstd"})
"""Content encodings that the HTTP client undoes, or says that it cannot."""


def _is_readable(response: HTTPResponse) -> bool:
    return response.headers.get("Content-Encoding", "").strip().lower() in ENCODINGS


_JSON = "application/json"

BODY_SECONDS = 5.0
"""How long an error's body is waited for: a server that never ends it must not hide its status."""


def _override(headers: dict[str, str], own: Mapping[str, str]) -> None:
    """Let the caller's headers win, whatever the case of their names."""
    names = {name.lower() for name in own}
    for name in [name for name in headers if name.lower() in names]:
        del headers[name]
    headers.update(own)


def _word(value: Any) -> str | None:
    if value is None or isinstance(value, dict | list):
        return None
    return str(value)


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)
