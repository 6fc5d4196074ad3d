"""`HTTPProvider`: the base class of providers that use HTTP.

A provider consists of four pure methods, `convert`, `request`, `parser` and `classify`, and of
attributes. A pure method does no I/O, and its result depends only on its arguments. The methods
that implement hooks are final: a subclass must not override them, because pluggy would ignore the
overriding method unless it is decorated, too.
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
from swink_core.plugins.package_data import package_catalog, user_entry
from swink_core.providers.answers import read_error
from swink_core.providers.buffered import BufferedDecoder, BufferedParser
from swink_core.providers.contexts import FittedContext, is_text
from swink_core.providers.exchange import DrivenExchange, Exchange
from swink_core.providers.features import API
from swink_core.providers.fields import layered_extra
from swink_core.providers.intact import RepairedRequest, has_half, lenient_json
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
"""The options that most APIs support, with the names of their request fields."""


class HTTPProvider:
    """The base class of providers that stream over HTTP. A plugin host creates one instance.

    Facts that do not need the plugin (address, environment variables, wire format) come from the
    package's `models.toml`. Class attributes:

    * `features`: what a call may use, by default `tools`, `tool_choice` and `stop`. Other features
      are `images`, `documents`, `audio`, `json`, `structured_output`, `file_ids` and `extensions`.
      For media in assistant messages, there are separate features, such as `assistant_images`.
      Without the feature `strict`, tools are sent without the field `strict`. Without
      `system_messages`, system messages inside the conversation are sent as user messages.
    * `knobs`: the sampling and output options and their request fields, see `sent_options`.
    * `decoder`: a function that creates the decoder of a response.
    * `content_types`: the content types of a stream.
    * `malformed`: the policy for damaged frames, see `EventSource`.
    * `websocket`: whether the caller may request a WebSocket (`transport="websocket"`).
    * `api_name`: the name of the API in the rules of `models.toml`.
    * `credential_headers`: the headers in which a caller may send credentials, in lower case.
    """

    features: frozenset[str] = frozenset({"tools", "tool_choice", "stop"})
    knobs: Knobs = KNOBS
    decoder: Callable[[], Decoder] = SSEDecoder
    content_types: tuple[str, ...] = ("text/event-stream",)
    malformed: str = "read_on"
    api_name: str = ""
    places: ClassVar[Mapping[str, Collection[str]]] = {}
    """The fields of the body in which an option is sent, as dotted paths.

    Needed for options that a function in `knobs` converts or that `knobs` does not contain, unless
    they are sent under their own names. If the call's `extra` contains such a field, the value in
    `extra` replaces the value of an option that only the client sets.
    """

    settings_of: Mapping[str, str] = {}
    """The settings that replace environment variables, by the names of the variables."""

    speaks_http: bool = True
    """Whether answers come over HTTP.

    `False` means that answers come from another source, such as a child process or a socket. The
    provider's `exchange` passes the result of `convert` to this source, without an HTTP request.
    """

    path: str = ""
    """The path of requests below the base URL, for example `/chat`. See `url`."""

    buffered: bool = False
    """Whether the provider also reads responses that are not streamed.

    If this is `True`, `convert` must request such a response when `options.transport` is
    `buffered`, and the parser must have a method `buffered(body, out)`.
    """

    system_marks: Container[str] | None = None
    """The metadata fields, such as cache marks, that a block of the system prompt may have.

    `None` means that the API's system prompt is one string; the conversation that `convert` gets
    then has no leading system messages, because they are joined to the system prompt. For any other
    value, these messages stay, and `convert` calls `system_blocks` to separate them.
    """

    websocket: bool = False
    credential_headers: tuple[str, ...] = ("authorization",)

    def __init__(self, name: str) -> None:
        self.name = name
        self._tokens = Tokens()
        package = type(self).__module__.partition(".")[0]
        shipped = package_catalog(package).providers.get(name)
        entry = user_entry(name, shipped)
        unknown = ProviderInfo(name, name)
        self.info = entry or unknown
        self._overridden = None if entry is shipped else shipped or unknown

    # -- methods that a provider overrides --------------------------------------------------

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the whole JSON body of the request. This method must be pure.

        The body contains the conversation, the tools, the fields for the options (see
        `sent_options`), the fields in `extra` (see `with_extra`), and other fields that the API
        needs, such as the model's name. Wrappers of the hook `convert_messages` receive exactly
        this body and may change it.
        """
        raise NotImplementedError("convert() has to be written")

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the URL of the request: by default `path` below the base URL.

        This method must be pure.
        """
        return f"{self.base_url(options)}{self.path}"

    def request(self, model: Model, payload: dict[str, Any], options: StreamOptions) -> HTTPRequest:
        """Return the request with the body `payload`. This method must be pure.

        `payload` is the result of `convert`, or the body as changed by wrappers of the hook
        `convert_messages`. The default is a POST request to `url`. Override this method to add
        headers, or to choose the URL according to the body. The overriding method must not change
        the body, because the wrappers have already run. Credentials are added later.
        """
        return self.json_request(self.url(model, options), payload)

    def parser(self, model: Model) -> Parser:
        """Create a parser for one response."""
        raise NotImplementedError("parser() has to be written")

    def classify(self, failure: Failure) -> Classification | None:
        """Classify a failure, or return `None` for the core's defaults."""
        return None

    def api(self, model: Model, options: StreamOptions) -> API:
        """Return the API that a call uses, if the provider has several APIs.

        This method must be pure.
        """
        return self

    def speaker(self, model: Model) -> HTTPProvider:
        """Return the provider whose error format the model uses.

        Override this method if errors come from the API of another provider, for example from an
        upstream behind a router.
        """
        return self

    def notices(self, model: Model, options: StreamOptions) -> tuple[Notice, ...]:
        """Return notices for options that are changed or omitted. This method must be pure.

        `options` are the options of the call after its adaptation to the API and the rules
        (`Fitted`). The default returns no notices. If a provider's conversion changes or omits an
        option, this method must report that.
        """
        return ()

    def fit(self, model: Model, context: Context, options: StreamOptions) -> Fitted:
        """Return the call, adapted to the API and the model. This method must be pure.

        Override this method for adaptations that cannot be written as rules. The result is cached
        for calls with a single text as their conversation: a later call with the same model and
        options gets the cached result, unless the result of `learned` or the date has changed.
        """
        return Fitted(model, context, options).fit(self.api(model, options))

    def learned(self, model: Model, options: StreamOptions) -> Hashable:
        """Return a value that changes when the provider learns more about the model's server.

        Override this method if the result of `fit` depends on facts from a server's responses, such
        as the capabilities of a model. After the value has changed, cached results of `fit` are no
        longer used. The default, `None`, means that `fit` uses no such facts.
        """
        return None

    def error_facts(self, failure: Failure) -> None:
        """Set `code`, `type` and `message` from the body of an HTTP error.

        The default reads the fields that most APIs use: `error` (an object or a string), `message`
        and `request_id`.
        """
        read_error(failure)

    def takes_address(self, model: Model, block: MediaBlock, options: StreamOptions) -> bool:
        """Return True if the API itself fetches media from a URL. This method must be pure.

        The default converts a message that contains only this block, and returns False if this
        conversion fails with the kind `unsupported`.
        """
        try:
            fitted = self.fit(model, Context([UserMessage(block)]), options)
            if fitted.failure is None:
                self.convert(model, FittedContext.keep(fitted.context), fitted.options)
        except ProviderFailure as error:
            return error.failure.kind is not Kind.UNSUPPORTED
        return True

    def buffers(self, model: Model, context: Context, options: StreamOptions) -> bool:
        """Return True if a call is better sent without streaming, because of faults of the API."""
        return False

    def credential(
        self, request: HTTPRequest, options: StreamOptions
    ) -> str | Token | Grant | None:
        """Return the credential of a request: a key, a token, or a grant. This method must be pure.

        If this method returns a grant, the core fetches, stores and renews the token for it. The
        default is the result of `api_key`. `None` means that the request is sent without a
        credential. Raises ProviderFailure if a credential is missing.
        """
        return self.api_key(options)

    def sign(self, request: HTTPRequest, credential: str | Token, options: StreamOptions) -> None:
        """Add a credential to a request, without I/O; by default, as a bearer token."""
        value = credential if isinstance(credential, str) else credential.value
        request.headers["Authorization"] = f"Bearer {value}"

    def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        """Yield the bytes of the answer as they arrive.

        The default sends the request and returns the body of its response. A provider with several
        requests, or with another source of bytes (a process, a socket), overrides this method as an
        async generator. Raises ProviderFailure if a request fails.
        """
        return x.stream()

    # -- methods that a provider may call ----------------------------------------------------

    def has_credentials(self, request: HTTPRequest) -> bool:
        """Return True if a request's headers contain credentials."""
        return any(name.lower() in self.credential_headers for name in request.headers)

    def api_key(
        self, options: StreamOptions, environ: Mapping[str, str] | None = None
    ) -> str | None:
        """Return the API key of the call or the environment, or `None` if none is needed.

        Raises ProviderFailure (`auth`) if one is needed and none is set.
        """
        key = options.api_key or first_set(self.info.api_key_env, environ)
        key = key and key.strip()  # a key read from a file ends with a newline
        if not key and self.info.auth == "key":
            names = " or ".join(self.info.api_key_env) or "api_key"
            why = f"no API key for {self.name}: {names} is not set"
            failure = Failure("request", kind=Kind.AUTH, code="no_credentials", message=why)
            raise ProviderFailure(failure)
        return key or None

    def missing_variable(self, variable: str) -> ProviderFailure:
        """Return the failure of a call that needs an environment variable which is not set."""
        setting = self.settings_of.get(variable)
        if setting not in self.info.settings:
            setting = None
        unset = (
            f': neither it nor the setting "{setting}" is set' if setting else ", which is not set"
        )
        instead = f', or pass settings={{"{setting}": …}}' if setting else ""
        return ProviderFailure(
            Failure(
                "request",
                kind=Kind.AUTH,
                code="no_variable",
                message=f"{self.name} needs {variable}{unset}",
                resolution=f"Set {variable} in the environment{instead}.",
            )
        )

    def require_variables(
        self, options: StreamOptions, environ: Mapping[str, str] | None = None
    ) -> None:
        """Raise ProviderFailure if a variable that every call needs is not set (`required_env`)."""
        for variable in self.info.required_env:
            setting = self.settings_of.get(variable, "")
            if not (options.settings.get(setting) or first_set([variable], environ)):
                raise self.missing_variable(variable)

    def base_url(self, options: StreamOptions, environ: Mapping[str, str] | None = None) -> str:
        """Return the base URL of the call, without a trailing slash."""
        url = options.base_url or first_set(self.info.base_url_env, environ) or self.info.base_url
        if not url:
            why = f"no base URL for {self.name}: pass base_url=…"
            why += "".join(f" or set {name}" for name in self.info.base_url_env[:1])
            kind = Kind.INVALID_REQUEST
            raise ProviderFailure(Failure("request", kind=kind, code="no_base_url", message=why))
        return url.rstrip("/")

    def at_home(self, options: StreamOptions, environ: Mapping[str, str] | None = None) -> bool:
        """Return True if the call uses the base URL `shipped_url`."""
        given = self.given_url(options, environ)
        return not given or given.rstrip("/") == (self.shipped_url or "").rstrip("/")

    @property
    def shipped_url(self) -> str | None:
        """The base URL in the package's `models.toml`, even if the user's file has another one."""
        return (self._overridden or self.info).base_url

    def given_url(
        self, options: StreamOptions, environ: Mapping[str, str] | None = None
    ) -> str | None:
        """Return the base URL from the call, the environment or the user's file, or `None`."""
        given = options.base_url or first_set(self.info.base_url_env, environ)
        return given or (self.info.base_url if self.info.base_url != self.shipped_url else None)

    def is_free(self, model: Model, options: StreamOptions) -> bool:
        """Return True if answers are free.

        Answers are free if the catalogue contains no price for the model, and the server is on this
        machine or in a private network.
        """
        has_price = model.info is not None and model.info.prices is not None
        return not has_price and is_own_address(self.base_url(options), private=True)

    @staticmethod
    def model_path(model: Model, name: str, safe: str = "") -> str:
        """Quote a model's name for use as one part of the path of a URL.

        Characters in `safe` are not quoted. Raises InvalidModel for a name that cannot be part of a
        path.
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
        """Return a POST request with a JSON body.

        Lone surrogates, which UTF-8 cannot represent, become U+FFFD. The request is then a
        `RepairedRequest`, which observers of the call learn from a notice.
        """
        kind = HTTPRequest
        try:
            body = msgspec.json.encode(payload)
        except UnicodeEncodeError:
            body = lenient_json(payload)
            kind = RepairedRequest if has_half(payload) else HTTPRequest
        own = {"Content-Type": "application/json", "Accept": ", ".join(self.content_types)}
        return kind(url, body, {**own, **(headers or {})})

    def plan_again(self, call: Call, options: StreamOptions) -> Plan:
        """Replace the plan of the current attempt: the conversation and options that it sends.

        Call this method if a response of the server changes the result of `fit`. The new plan is
        made from `options`. After that, `call.convert()` returns the body of the new plan.
        Observers receive those notices of the new plan that the earlier one did not have. Raises
        ProviderFailure if the provider refuses the call.
        """
        attempt = call.attempt
        known = attempt.plan.notices if attempt.plan is not None else ()
        fit = self.fit(attempt.model, call.context, options)
        plan = self._plan_of(fit, attempt.model, attempt.target, call.clock.now().date())
        attempt.follow(plan)
        for notice in plan.notices:
            if notice not in known:
                call.notice(notice.code, notice.detail, *notice.paths)
        return plan

    @final
    async def authorize(
        self, request: HTTPRequest, options: StreamOptions, call: Call
    ) -> Callable[[Failure], bool] | None:
        """Sign a request, unless its headers already contain credentials.

        If the credential is a fetched token, return a function, which the core calls with the
        failure if the request fails. If the server refused the token, the function discards it and
        returns True. For any other credential, return `None`. Raises ProviderFailure if a
        credential is missing or a token cannot be fetched.
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
        """Return the function that parses the error bodies of a model."""
        return self.speaker(model).error_facts

    # -- the hooks, final --------------------------------------------------------------------

    @final
    @hookimpl
    def convert_messages(
        self, model: Model, context: Context, options: StreamOptions
    ) -> dict[str, Any]:
        """Adapt the conversation and the options to the API and the model, and call `convert`.

        Raises PluginError if `convert` does not return a dict.
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
        """Call `classify`; return `None` for failures that the core itself detected."""
        return None if failure.kind is not None else self.speaker(model).classify(failure)

    @final
    @hookimpl
    def stream(
        self, model: Model, context: Context, options: StreamOptions, call: Call
    ) -> AsyncIterable[Any]:
        """Return the `EventSource` of an attempt, which sends the request and parses the body."""
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

        If the conversation is a single text, the plan is cached in the target. Later calls with
        this target then reuse the options, notices and names of the plan.
        """
        if self.info.required_env:
            self.require_variables(options)
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
                target.remembered.clear()  # cached on another day, or before facts were learned
                kept = Context([])  # the cache must not keep the text of the conversation
                target.remembered[key] = Plan(kept, plan.options, plan.notices, plan.names)
        if plan.options.transport == "auto" and self.buffers(model, context, plan.options):
            what = f"{model} does not stream this reliably; a complete response was requested"
            plan.notices = (*plan.notices, Notice("buffered", what))
            plan.options = evolve(plan.options, transport="buffered")
        return plan

    def _plan_of(self, fit: Fitted, model: Model, target: Target, today: date) -> Plan:
        """Create the plan of an adapted call. Raises ProviderFailure for a call that is refused."""
        fit.age(today, self.at_home(fit.options))
        if fit.failure is not None:
            raise ProviderFailure(fit.failure)
        notices = (*fit.notices, *self.notices(model, fit.options))
        plan = Plan(FittedContext.keep(fit.context), fit.options, notices, fit.names)
        if target.extra and target.inherited:
            self._lay_extra_over(plan, model, target)
        return plan

    def _lay_extra_over(self, plan: Plan, model: Model, target: Target) -> None:
        """Let fields in the call's `extra` replace values of options that only the client sets."""
        api = self.api(model, plan.options)
        places = {**fields_of(api.knobs), **getattr(api, "places", {})}
        extra = layered_extra(plan.options.extra, target.extra, target.inherited, places)
        plan.options = evolve(plan.options, extra=extra)
