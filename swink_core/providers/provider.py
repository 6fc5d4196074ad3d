"""`HTTPProvider`: the template of a provider that speaks over HTTP.

Four pure methods make a provider: `convert`, `request`, `parser` and `classify`; everything else is
attributes. The hooks are final: pluggy would silently ignore an override without its decorator.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Container,
    Hashable,
    Mapping,
)
from datetime import date
from functools import partial
from typing import Any, ClassVar, final
from urllib.parse import quote

import msgspec
from attrs import evolve

from swink_core.failures.exceptions import InvalidModel, PluginError, ProviderFailure
from swink_core.failures.failure import Classification, Failure
from swink_core.framing.frame import Decoder
from swink_core.framing.sse import SSEDecoder
from swink_core.plugins.attempt import Plan
from swink_core.plugins.binding import Target, first_set
from swink_core.plugins.call import Call
from swink_core.plugins.hookspecs import hookimpl
from swink_core.plugins.package_data import package_catalog
from swink_core.providers.answers import read_error
from swink_core.providers.buffered import BufferedDecoder, BufferedParser
from swink_core.providers.contexts import FittedContext, is_text
from swink_core.providers.exchange import DrivenExchange, Exchange
from swink_core.providers.features import API
from swink_core.providers.fields import layered_extra
from swink_core.providers.intact import lenient_json
from swink_core.providers.knobs import Knobs, fields_of
from swink_core.providers.network import is_own_address
from swink_core.providers.rules import Fitted
from swink_core.providers.source import EventSource, Parser
from swink_core.providers.tokens import Grant, Token, Tokens, secrets_of
from swink_core.vocabulary.events import Notice
from swink_core.vocabulary.http import HTTPRequest
from swink_core.vocabulary.messages import Context, MediaBlock, UserMessage
from swink_core.vocabulary.models import Model, ProviderInfo
from swink_core.vocabulary.options import StreamOptions
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

KNOBS: Knobs = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_tokens"}
"""Options that most APIs support, under their names."""


class HTTPProvider:
    """The base of providers that stream over HTTP; made once per host, with its entry's name.

    Facts that do not need the plugin (address, variables, wire format) come from the package's
    `models.toml`. Attributes of the class: `features` (what a call may need: by default `tools`,
    `tool_choice` and `stop`; also `images`, `documents`, `audio`, `assistant_images` and so on for
    media in assistant messages, `json`, `structured_output`, `file_ids`, `extensions`; and `strict`
    tools and `system_messages` anywhere, without which they go out otherwise), `knobs` (the options
    that tune an answer and their fields of the request, see `sent_options`), `decoder` (makes a
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
    places: ClassVar[Mapping[str, Collection[str]]] = {}
    """The fields of the body in which an option goes out, as dotted paths, for options that a
    function in `knobs` converts or that `knobs` does not have, unless they go out under their own
    names. A field that the call's `extra` names replaces that of an option of the client."""

    speaks_http: bool = True
    """Whether answers come over HTTP. `False`: they come from a child process, a socket or
    elsewhere, and what `convert` returns goes there; no HTTP request is made."""

    path: str = ""
    """Where requests go, below the base URL: `/chat`, for example. See `url`."""

    buffered: bool = False
    """Whether the provider also reads whole answers: `convert` asks for one where
    `options.transport` is `buffered`, and the parser has `buffered(body, out)`."""

    system_marks: Container[str] | None = None
    """Fields of a block's metadata, cache marks for one, that a block of system text has too.
    `None`: system text is one string, and `convert` gets leading system messages folded into the
    system prompt. Otherwise they stay, and `convert` splits them off with `system_blocks`."""

    websocket: bool = False
    credential_headers: tuple[str, ...] = ("authorization",)

    def __init__(self, name: str) -> None:
        self.name = name
        self._tokens = Tokens()
        catalog = package_catalog(type(self).__module__.partition(".")[0])
        self.info = catalog.providers.get(name) or ProviderInfo(name, name)

    # -- what a provider writes --------------------------------------------------------------

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the whole JSON body of the request. Pure.

        It holds the conversation, the tools, the fields of options (see `sent_options`), `extra`
        (see `with_extra`), and whatever else the API wants in a body, such as the model's name.
        Wrappers of the hook `convert_messages` see and change exactly this.
        """
        raise NotImplementedError("convert() has to be written")

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the address of the request. Pure. The default is `path` below the base URL."""
        return f"{self.base_url(options)}{self.path}"

    def request(self, model: Model, payload: dict[str, Any], options: StreamOptions) -> HTTPRequest:
        """Return the request whose body is `payload`. Pure; credentials come later.

        `payload` is what `convert` returned, or what wrappers of `convert_messages` made of it.
        The default posts it to `url`; override it to add headers or to choose the address by
        the body. It adds nothing to the body, because no wrapper would see that.
        """
        return self.json_request(self.url(model, options), payload)

    def parser(self, model: Model) -> Parser:
        """Make a parser for one response."""
        raise NotImplementedError("parser() has to be written")

    def classify(self, failure: Failure) -> Classification | None:
        """Classify a failure, or return `None` for the core's defaults."""
        return None

    def api(self, model: Model, options: StreamOptions) -> API:
        """Return the API that answers this call, of a provider that has several. Pure."""
        return self

    def speaker(self, model: Model) -> HTTPProvider:
        """Return the provider whose errors a model's are: another, where that speaks for it."""
        return self

    def notices(self, model: Model, options: StreamOptions) -> tuple[Notice, ...]:
        """Return notices for options that are changed or omitted. Pure.

        The options are those that remain after API and rules (`Fitted`). The default returns no
        notices. A provider whose `request` changes an option must report it here.
        """
        return ()

    def fit(self, model: Model, context: Context, options: StreamOptions) -> Fitted:
        """Return the call as the API and the model take it. Pure.

        Override it to add what no rule can say. Calls of a single text that have the same model and
        options share one result while `learned` and the date stay the same.
        """
        return Fitted(model, context, options).fit(self.api(model, options))

    def learned(self, model: Model, options: StreamOptions) -> Hashable:
        """Return the facts about the model's server that `fit` uses, or `None`."""
        return None

    def error_facts(self, failure: Failure) -> None:
        """Fill `code`, `type` and `message` from the body of an HTTP error.

        The default reads what most APIs have: `error` (parts or a text), `message`, `request_id`.
        """
        read_error(failure)

    def takes_address(self, model: Model, block: MediaBlock, options: StreamOptions) -> bool:
        """Tell whether the API itself fetches media given by an address. Pure.

        The default converts a message that holds it alone, and looks whether that is refused.
        """
        try:
            fitted = self.fit(model, Context([UserMessage(block)]), options)
            if fitted.failure is None:
                self.convert(model, FittedContext.keep(fitted.context), fitted.options)
        except ProviderFailure as error:
            return error.failure.kind is not Kind.UNSUPPORTED
        return True

    def buffers(self, model: Model, context: Context, options: StreamOptions) -> bool:
        """Tell whether this call is better not streamed: the endpoint does it badly."""
        return False

    def credential(
        self, request: HTTPRequest, options: StreamOptions
    ) -> str | Token | Grant | None:
        """Return the credential of a request: a key, a token, or a grant. Pure.

        The token of a grant is fetched, kept and renewed by the core. The default is `api_key`.
        `None`: the request goes out without. Raises ProviderFailure where one is missing.
        """
        return self.api_key(options)

    def sign(self, request: HTTPRequest, credential: str | Token, options: StreamOptions) -> None:
        """Put a credential into a request. Pure. The default is a bearer token."""
        value = credential if isinstance(credential, str) else credential.value
        request.headers["Authorization"] = f"Bearer {value}"

    def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        """Yield the bytes of the answer as they arrive.

        The default sends the request and returns the body of its response. A provider with several
        requests, or with another source of bytes (a process, a socket), overrides it as an async
        generator. Raises ProviderFailure.
        """
        return x.stream()

    # -- what it may use ---------------------------------------------------------------------

    def has_credentials(self, request: HTTPRequest) -> bool:
        """Tell whether a request's headers carry credentials."""
        return any(name.lower() in self.credential_headers for name in request.headers)

    def api_key(
        self, options: StreamOptions, environ: Mapping[str, str] | None = None
    ) -> str | None:
        """Return the API key of the call or the environment, or `None` if none is needed.

        Raises ProviderFailure (`auth`) where one is needed and none is set.
        """
        key = options.api_key or first_set(self.info.api_key_env, environ)
        key = key and key.strip()  # one that was read from a file ends in a newline
        if not key and self.info.auth == "key":
            names = " or ".join(self.info.api_key_env) or "api_key"
            why = f"no API key for {self.name}: {names} is not set"
            failure = Failure("request", kind=Kind.AUTH, code="no_credentials", message=why)
            raise ProviderFailure(failure)
        return key or None

    def base_url(self, options: StreamOptions, environ: Mapping[str, str] | None = None) -> str:
        """Return the address to use, without a slash at its end."""
        url = options.base_url or first_set(self.info.base_url_env, environ) or self.info.base_url
        if not url:
            why = f"no base URL for {self.name}: pass base_url=…"
            why += "".join(f" or set {name}" for name in self.info.base_url_env[:1])
            kind = Kind.INVALID_REQUEST
            raise ProviderFailure(Failure("request", kind=kind, code="no_base_url", message=why))
        return url.rstrip("/")

    def at_home(self, options: StreamOptions, environ: Mapping[str, str] | None = None) -> bool:
        """Tell whether a call goes to the provider's own address, which its `models.toml` names."""
        given = options.base_url or first_set(self.info.base_url_env, environ)
        return not given or given.rstrip("/") == (self.info.base_url or "").rstrip("/")

    def is_free(self, model: Model, options: StreamOptions) -> bool:
        """Tell whether answers are free: the model has no price, and its server is this machine or
        in a private network."""
        has_price = model.info is not None and model.info.prices is not None
        return not has_price and is_own_address(self.base_url(options), private=True)

    @staticmethod
    def model_path(model: Model, name: str, safe: str = "") -> str:
        """Quote a model's name for use in a path, which it cannot leave.

        Characters in `safe` are not quoted. Raises InvalidModel.
        """
        try:
            if not {"", ".", ".."}.intersection(name.split("/")):
                return quote(name, safe=safe)
        except UnicodeEncodeError:
            pass
        raise InvalidModel(
            f"{str(model)!r} cannot be part of a URL",
            resolution="Check the model's name; `swink models` lists those that are known.",
        )

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

    def plan_again(self, call: Call, options: StreamOptions) -> Plan:
        """Plan the attempt anew with `options`, and with new facts about the server.

        From then on `call.convert()` returns the body of the new plan. Notices that the former
        plan did not have reach the observers. Raises ProviderFailure for a call that is refused.
        """
        attempt = call.attempt
        known = attempt.plan.notices if attempt.plan is not None else ()
        fit = self.fit(attempt.model, call.context, options)
        plan = self._plan_of(fit, attempt.model, attempt.target, call.clock.now().date())
        attempt.follow(plan)
        for notice in plan.notices:
            if notice not in known:
                call.notice(notice.code, notice.detail)
        return plan

    @final
    async def authorize(
        self, request: HTTPRequest, options: StreamOptions, call: Call
    ) -> Callable[[Failure], bool] | None:
        """Sign a request, unless its headers carry credentials already.

        Returns, for a token that was fetched, a function that drops it if the request's failure
        refuses it, and tells whether it does. Raises ProviderFailure.
        """
        if self.has_credentials(request):
            return None
        credential = self.credential(request, options)
        if isinstance(credential, Grant):
            token = await self._tokens.get(credential, call)
            self.sign(request, token, options)
            return partial(self._tokens.drop_refused, credential, token)
        if credential is not None:
            if isinstance(credential, Token):
                call.secrets |= secrets_of(credential)
            self.sign(request, credential, options)
        return None

    @final
    def failure_facts(self, model: Model) -> Callable[[Failure], None]:
        """Return the function that reads the error bodies of a model."""
        return self.speaker(model).error_facts

    # -- the hooks, final --------------------------------------------------------------------

    @final
    @hookimpl
    def convert_messages(
        self, model: Model, context: Context, options: StreamOptions
    ) -> dict[str, Any]:
        """Delegate to `convert`, with the call as API and model take it.

        Raises PluginError where `convert` returns something else than a dict.
        """
        if not isinstance(context, FittedContext):
            fit = self.fit(model, context, options)
            context = fit.context
            options = fit.options
        body: Any = self.convert(model, context, options)
        if not isinstance(body, dict):
            what = f"{type(self).__name__}.convert returned {type(body).__name__}"
            raise PluginError(f"{what}, not a dict with the JSON body of the request")
        found: dict[str, Any] = body
        return found

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
        plan = self._planned(model, context, options, call)
        call.attempt.follow(plan)
        options = plan.options
        api = self.api(model, options)
        parser = api.parser(model)
        decoder = type(self).decoder()
        if options.transport == "buffered" and api.buffered:
            parser = BufferedParser(parser)
            decoder = BufferedDecoder()
        x = DrivenExchange(self, model, options, call)
        chunks = x.begin()
        source = EventSource(
            call,
            chunks,
            decoder,
            parser,
            malformed=options.malformed or self.malformed,
            notices=plan.notices,
            names=plan.names,
            exchange=None if x.is_plain else x,
        )
        return source

    def _planned(self, model: Model, context: Context, options: StreamOptions, call: Call) -> Plan:
        """Return the plan of a call. Raises ProviderFailure if the model does not support the call.

        One text is as another: its plan is remembered with the target.
        """
        target = call.attempt.target
        today = call.clock.now().date()
        is_remembered = is_text(context) and options is target.options and model is target.model
        key = (self.name, today, self.learned(model, options)) if is_remembered else None
        plan = target.remembered.get(key)
        if plan is not None:
            plan = Plan(FittedContext.keep(context), plan.options, plan.notices, plan.names)
        else:
            fit = self.fit(model, context, options)
            plan = self._plan_of(fit, model, target, today)
            if key is not None and fit.context == context:
                target.remembered.clear()  # of another day, or before something was learned
                target.remembered[key] = Plan(context, plan.options, plan.notices, plan.names)
        if plan.options.transport == "auto" and self.buffers(model, context, plan.options):
            what = f"{model} does not stream this reliably; a complete response was requested"
            plan.notices = (*plan.notices, Notice("buffered", what))
            plan.options = evolve(plan.options, transport="buffered")
        return plan

    def _plan_of(self, fit: Fitted, model: Model, target: Target, today: date) -> Plan:
        """Make the plan of a fitted call. Raises ProviderFailure for a call that is refused."""
        fit.age(today, self.at_home(fit.options))
        if fit.failure is not None:
            raise ProviderFailure(fit.failure)
        notices = (*fit.notices, *self.notices(model, fit.options))
        plan = Plan(FittedContext.keep(fit.context), fit.options, notices, fit.names)
        if target.extra and target.inherited:
            self._lay_extra_over(plan, model, target)
        return plan

    def _lay_extra_over(self, plan: Plan, model: Model, target: Target) -> None:
        """Let the call's `extra` replace what options of the client stand for."""
        api = self.api(model, plan.options)
        places = {**fields_of(api.knobs), **getattr(api, "places", {})}
        extra = layered_extra(plan.options.extra, target.extra, target.inherited, places)
        plan.options = evolve(plan.options, extra=extra)
