"""`HTTPProvider`: the template of a provider that speaks over HTTP.

Four pure methods make a provider: `convert`, `request`, `parser` and `classify`; everything else
is attributes. The hooks are final: one overridden without its decorator would silently be none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Container, Mapping
from datetime import date
from operator import is_
from typing import Any, final
from weakref import WeakKeyDictionary

import msgspec
from attrs import evolve

from swink_core.failures.exceptions import PluginError, ProviderFailure
from swink_core.failures.failure import Classification, Failure
from swink_core.failures.redaction import redact
from swink_core.framing.frame import Decoder
from swink_core.framing.sse import SSEDecoder
from swink_core.plugins.binding import Target, first_set
from swink_core.plugins.call import Call
from swink_core.plugins.hookspecs import hookimpl
from swink_core.plugins.package_data import package_catalog
from swink_core.providers.buffered import BufferedDecoder, BufferedParser
from swink_core.providers.conversion import is_text
from swink_core.providers.exchange import (
    Body,
    failure_of_answer,
    is_answer,
    override,
    read_error,
    request_id_of,
)
from swink_core.providers.features import API
from swink_core.providers.fields import body_as_extra_says
from swink_core.providers.intact import lenient_json
from swink_core.providers.knobs import Knobs
from swink_core.providers.media import MOST_ENCODED_AT_ONCE, size_of
from swink_core.providers.rules import Fitted
from swink_core.providers.source import EventSource, Parser
from swink_core.vocabulary.events import Notice
from swink_core.vocabulary.http import HTTPRequest, HTTPResponse, ResponseHead
from swink_core.vocabulary.messages import Context
from swink_core.vocabulary.models import Model, ProviderInfo
from swink_core.vocabulary.options import StreamOptions
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

KNOBS: Knobs = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_tokens"}
"""What most APIs take, under its own name."""

_NOTHING = (None, None, None, None)

_WHOLE = ("application/json",)
"""What an answer may be that was asked for whole."""


class HTTPProvider:
    """The base of providers that stream over HTTP; made once per host, with its entry's name.

    Facts that do not need the plugin (address, variables, wire format) come from the package's
    `models.toml`. Attributes of the class: `features` (what a call may need: `tools`, `images`,
    `documents`, `audio`, `assistant_images` and so on for media in assistant messages, `json`,
    `structured_output`, `stop`, `tool_choice`, `file_ids`, `extensions`; and `strict` tools and
    `system_messages` anywhere, without which they go out otherwise), `knobs` (the options that
    tune an answer and their fields of the request, see `sent_options`), `decoder` (makes a
    decoder), `content_types` of a stream, `malformed` (the policy for damaged frames), `websocket`
    (may be asked for), `api_name` (what rules call it), `credential_headers` (where a caller may
    send credentials, in lower case).
    """

    features: frozenset[str] = frozenset({"tools", "tool_choice", "stop"})
    knobs: Knobs = KNOBS
    decoder: Callable[[], Decoder] = SSEDecoder
    content_types: tuple[str, ...] = ("text/event-stream",)
    malformed: str = "read_on"
    api_name: str = ""
    buffered: bool = False
    """Whether the provider also reads whole answers: `request` asks for one where
    `options.transport` is `buffered`, and the parser has `buffered(body, out)`."""

    system_marks: Container[str] | None = None
    """Fields of a block's metadata, cache marks for one, that a block of system text has too.
    `None`: system text is one string, and `convert` gets leading system messages folded into the
    system prompt. Otherwise they stay, and `convert` splits them off with `system_blocks`."""

    websocket: bool = False
    credential_headers: tuple[str, ...] = ("authorization",)

    def __init__(self, name: str) -> None:
        self.name = name
        self._renewals = 0
        self._fitted: Any = _NOTHING  # the call that was last begun, until it is converted
        self._text: Any = _NOTHING  # when a call of one text was fitted last, and to what
        self._renewing: Any = WeakKeyDictionary()  # by event loop, whose lock serves no other
        catalog = package_catalog(type(self).__module__.partition(".")[0])
        self.info = catalog.providers.get(name) or ProviderInfo(name, name)

    # -- what a provider writes --------------------------------------------------------------

    def convert(self, model: Model, context: Context, options: StreamOptions) -> Any:
        """Return the conversation as the provider's JSON data. Pure."""
        raise NotImplementedError("convert() has to be written")

    def request(self, model: Model, payload: Any, options: StreamOptions) -> HTTPRequest:
        """Return the request that carries `payload`. Pure; credentials come later."""
        raise NotImplementedError("request() has to be written")

    def parser(self, model: Model) -> Parser:
        """Make a parser for one response."""
        raise NotImplementedError("parser() has to be written")

    def classify(self, failure: Failure) -> Classification | None:
        """Say what a failure means, or `None` to leave it to the core's defaults."""
        return None

    def api(self, model: Model, options: StreamOptions) -> API:
        """Return the API that answers this call, of a provider that has several. Pure."""
        return self

    def speaker(self, model: Model) -> HTTPProvider:
        """Return the provider whose errors a model's are: another, where that speaks for it."""
        return self

    def notices(self, model: Model, options: StreamOptions) -> tuple[Notice, ...]:
        """Say which of the call's options are not sent as they were given. Pure.

        The options are those that API and rules have left (`Fitted`), of which the default says
        nothing. A provider whose `request` bends an option tells of it here.
        """
        return ()

    def fit(self, model: Model, context: Context, options: StreamOptions) -> Fitted:
        """Return the call as the API and the model take it. Pure.

        Who wants what no rule can say adds to it. One text is as another until `fit_anew`.
        """
        return Fitted(model, context, options).fit(self.api(model, options))

    def fit_anew(self) -> None:
        """Forget how a call was fitted, since more is known of a model than then."""
        self._text = _NOTHING

    def error_facts(self, failure: Failure) -> None:
        """Fill `code`, `type` and `message` from the body of an HTTP error.

        The default reads what most APIs have: `error` (parts or a text), `message`, `request_id`.
        """
        read_error(failure)

    def buffers(self, model: Model, context: Context, options: StreamOptions) -> bool:
        """Tell whether this call is better not streamed: the endpoint does it badly."""
        return False

    async def authorize(self, request: HTTPRequest, options: StreamOptions, call: Call) -> None:
        """Add credentials to a request whose headers may carry the caller's own already.

        The default is a bearer token. Raises ProviderFailure where there are none.
        """
        if not self.has_credentials(request) and (key := self.api_key(options)) is not None:
            request.headers["Authorization"] = f"Bearer {key}"

    def expired(self, response: HTTPResponse) -> bool:
        """Tell whether a response refuses credentials that `refresh` may renew.

        The default is HTTP 401; an API that says it otherwise adds to it. The body is unread.
        """
        return response.status == 401

    async def refresh(self, call: Call) -> bool:
        """Renew credentials that have expired, and tell whether to send again."""
        return False

    # -- what it may use ---------------------------------------------------------------------

    def has_credentials(self, request: HTTPRequest) -> bool:
        """Tell whether a request's headers carry credentials."""
        return any(name.lower() in self.credential_headers for name in request.headers)

    def api_key(
        self, options: StreamOptions, environ: Mapping[str, str] | None = None
    ) -> str | None:
        """Return the caller's key, or that of the environment; `None` if none is needed.

        Raises ProviderFailure (`auth`) where one is needed and none is set.
        """
        key = options.api_key or first_set(self.info.api_key_env, environ)
        key = key and key.strip()  # one that was read from a file ends in a newline
        if not key and self.info.auth == "key":
            names = " or ".join(self.info.api_key_env) or "api_key"
            why = f"no API key for {self.name}: {names} is not set"
            kind, code = Kind.AUTH, "no_credentials"
            raise ProviderFailure(Failure("request", kind=kind, code=code, message=why))
        return key or None

    def base_url(self, options: StreamOptions, environ: Mapping[str, str] | None = None) -> str:
        """Return the address to use, without a slash at its end."""
        url = options.base_url or first_set(self.info.base_url_env, environ) or self.info.base_url
        if not url:
            why = f"no address for {self.name}: pass base_url=…"
            why += "".join(f" or set {name}" for name in self.info.base_url_env[:1])
            kind, code = Kind.INVALID_REQUEST, "no_base_url"
            raise ProviderFailure(Failure("request", kind=kind, code=code, message=why))
        return url.rstrip("/")

    def json_request(
        self, url: str, payload: Any, headers: Mapping[str, str] | None = None
    ) -> HTTPRequest:
        """Make a POST of JSON data."""
        try:
            body = msgspec.json.encode(payload)
        except UnicodeEncodeError:
            body = lenient_json(payload)
        own = {"Content-Type": "application/json", "Accept": ", ".join(self.content_types)}
        return HTTPRequest(url, body, {**own, **(headers or {})})

    # -- the hooks, final --------------------------------------------------------------------

    @final
    @hookimpl
    def convert_messages(self, model: Model, context: Context, options: StreamOptions) -> Any:
        """Delegate to `convert`, with the call as API and model take it."""
        (*asked, call), self._fitted = self._fitted, _NOTHING
        if not all(map(is_, asked, (model, context, options))):
            fit = self.fit(model, context, options)
            call = fit.context, fit.options
        return self.convert(model, *call)

    @final
    @hookimpl
    def classify_error(self, model: Model, failure: Failure) -> Classification | None:
        """Delegate to `classify`, except where the core itself made the failure."""
        return None if failure.kind is not None else self.speaker(model).classify(failure)

    @final
    @hookimpl
    def stream(
        self, model: Model, context: Context, options: StreamOptions, call: Call
    ) -> AsyncIterable[Any]:
        """Join request, connection, decoder and parser."""
        fit, said = self._fit(model, context, options, call.clock.now().date())
        self._fitted = model, context, options, (said, fit.options)
        options, notices = fit.options, (*fit.notices,)
        api = self.api(model, options)
        if options.transport == "auto" and self.buffers(model, context, options):
            options = evolve(options, transport="buffered")
            notices += (Notice("buffered", f"{model} streams this badly; asked for it whole"),)
            api = self.api(model, options)
        parser, decoder = api.parser(model), type(self).decoder()
        if options.transport == "buffered" and api.buffered:
            parser, decoder = BufferedParser(parser), BufferedDecoder()
        body, bad = self.chunks(model, context, options, call), options.malformed or self.malformed
        told: dict[str, Any] = {"malformed": bad, "notices": notices, "names": fit.names}
        return EventSource(call, body, decoder, parser, **told)

    def _fit(
        self, model: Model, context: Context, options: StreamOptions, today: date
    ) -> tuple[Fitted, Context]:
        """Return a call and its conversation as they go out today; one text after another, with the
        same options, as the first. Raises ProviderFailure."""
        last, text = self._text, is_text(context)
        if text and last[0] == today and last[1] is model and last[2] is options:
            return last[3], context
        fit = self.fit(model, context, options)
        fit.age(today)
        if fit.failure is not None:
            raise ProviderFailure(fit.failure)
        fit.notices += self.notices(model, fit.options)
        if text and fit.context == context:
            self._text = today, model, options, fit
        return fit, fit.context

    def chunks(
        self, model: Model, context: Context, options: StreamOptions, call: Call
    ) -> AsyncIterator[bytes]:
        """Yield the bytes of the answer as they come. The default is an HTTP response's
        body; a provider whose bytes come from elsewhere (a process, a socket) overrides it.

        Raises ProviderFailure. What it holds open it closes when it is closed.
        """
        return Body(lambda: self.respond(model, call.convert(), options, call))

    async def respond(
        self, model: Model, payload: Any, options: StreamOptions, call: Call
    ) -> HTTPResponse:
        """Send the request and return a response that is a stream, or a WebSocket.

        Raises ProviderFailure. A provider with two ways to ask overrides it and tries both in turn.
        """
        types = {*self.content_types, *(_WHOLE if options.transport == "buffered" else ())}
        renewed, facts = False, self.speaker(model).error_facts
        is_large = size_of(call.context) > MOST_ENCODED_AT_ONCE
        while True:
            asked = (model, payload, options, call.attempt.target)
            if is_large:
                request = await asyncio.to_thread(self._written, *asked)
            else:
                request = self._written(*asked)
            call.attempt.ask(request)
            request.headers.update(call.headers)
            if options.transport == "buffered":
                request.headers["Accept"] = _WHOLE[0]
            override(request.headers, options.headers)
            await self.authorize(request, options, call)
            override(request.headers, options.headers)
            call.hide(request.headers, request.url)
            renewals = self._renewals
            response = await self.send(request, call)
            head = ResponseHead(response.status, response.headers, call.clock.time())
            call.attempt.answer(head, redact(request_id_of(response), call.secrets))
            try:
                expired = not renewed and self.expired(response)
                if not (expired and await self._renew(call, renewals)):
                    if is_answer(response, types):
                        return response
                    failure = await failure_of_answer(response, call.secrets, facts)
                    call.tap(failure.body)
                    raise ProviderFailure(failure)
            except BaseException:
                response.close()
                raise
            response.close()
            renewed = True

    def _written(
        self, model: Model, payload: Any, options: StreamOptions, target: Target
    ) -> HTTPRequest:
        """Return the request, with the target's `extra` over inherited options."""
        request = self.request(model, payload, options)
        if request.body and target.extra and target.inherited:
            none: dict[str, Any] = dict.fromkeys(target.inherited)
            other = self.request(model, payload, evolve(options, **none)).body
            request.body = body_as_extra_says(request.body, other, target.extra)
        return request

    async def send(self, request: HTTPRequest, call: Call) -> HTTPResponse:
        """Send one request; a provider that also speaks something else than HTTP overrides it.

        Raises ProviderFailure.
        """
        if call.http is None:
            raise PluginError("the call has no HTTP client")
        return await call.http.send(request, call.options.timeouts.connect)

    async def _renew(self, call: Call, renewals: int) -> bool:
        """Renew once for calls that fail together: whoever comes later finds it done."""
        async with self._renewing.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if self._renewals == renewals:
                if not await self.refresh(call):
                    return False
                self._renewals += 1
            return True
