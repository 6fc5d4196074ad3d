"""`OpenAIProvider`: calls OpenAI's APIs at the base URL and in the dialect of a catalogue entry."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Hashable, Mapping
from copy import copy
from functools import cached_property, partial
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
from attrs import evolve

from swink_core import (
    Call,
    Classification,
    Context,
    Failure,
    Model,
    Notice,
    ProviderFailure,
    StreamOptions,
    Tool,
    replace,
)
from swink_core.providers import (
    AiohttpClient,
    Exchange,
    Fitted,
    HTTPProvider,
    HTTPRequest,
    HTTPResponse,
    Parser,
    closed_schema,
    first_set,
    rewritten_schema,
    rule_of,
)
from swink_provider_openai.beside import with_kept_sound
from swink_provider_openai.cache_marks import caches_by_marks, is_crowded
from swink_provider_openai.chat import ChatAPI
from swink_provider_openai.choice import api_of
from swink_provider_openai.converter import ChatConverter
from swink_provider_openai.dialect import Dialect
from swink_provider_openai.either import MISSING, NO_MODEL, EitherAPI
from swink_provider_openai.errors import classify, read_error
from swink_provider_openai.parameters import is_strict, kept
from swink_provider_openai.parser import ChatParser
from swink_provider_openai.promises import refuse_idle_overrides
from swink_provider_openai.remembered import Remembered
from swink_provider_openai.responses.agent import AgentAPI
from swink_provider_openai.responses.api import PREVIOUS, ResponsesAPI
from swink_provider_openai.responses.background import (
    cancelled,
    followed,
    is_background,
    polled,
    resumed,
)
from swink_provider_openai.responses.socket import Sockets, first_message
from swink_provider_openai.responses.websocket import open_websocket
from swink_provider_openai.schemas import plain_schema
from swink_provider_openai.several import answers_of

__all__ = ["OpenAIProvider"]

SOUND = "Audio models accept it over Chat Completions, for example gpt-audio-1.5."

MOST_URLS = 1000
"""The maximum number of base URLs that a provider remembers as servers with the Responses API.

The number is limited because every call may set another base URL.
"""

_STORED = frozenset({"conversation", "previous_response_id", "prompt", "tools"})
"""Fields that refer to stored data: with them, a 404 may also mean that the data is missing."""

_NO_OPTIONS = StreamOptions()


class OpenAIProvider(HTTPProvider):
    """A service with OpenAI's APIs; the entry point's name selects its catalogue entry.

    A package for another service subclasses this class. The subclass has a catalogue entry with a
    `dialect`, or passes a dialect to its constructor. `converter` is the class that converts
    messages for Chat Completions. `chat_parser` is the class that parses the answers of Chat
    Completions; it gets the fields with OpenAI's names, even if the dialect's `answer` declares
    other names. A subclass that overrides `parser`, `features` or `knobs` raises TypeError when it
    is defined.
    """

    buffered = True
    converter: type[ChatConverter] = ChatConverter
    chat_parser: type[ChatParser] = ChatParser

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        refuse_idle_overrides(cls)

    def __init__(self, name: str, dialect: Dialect | None = None) -> None:
        super().__init__(name)
        self.dialect = dialect or Dialect.of(self.info.dialect)
        self._check_places()
        self.settings_of = {variable: name for name, variable in self.dialect.places.items()}
        self.features, self.knobs = self._chat.features, self._chat.knobs
        self._sockets = Sockets()
        self._chat_only: set[str] = set()  # base URLs without the Responses API
        self._complete: set[str] = set()  # other base URLs that have answered over it
        self._apis = Remembered[ChatAPI | ResponsesAPI]()  # each call needs its API several times

    def _check_places(self) -> None:
        """Raise PluginError if this class builds the URL with a placeholder without a value."""
        fills = type(self).base_url is OpenAIProvider.base_url
        if fills and type(self).url is OpenAIProvider.url:
            self.dialect.check_places(self.info.base_url)

    @cached_property
    def _chat(self) -> ChatAPI:
        return ChatAPI(self.name, self.dialect, self.converter, self.chat_parser)

    @cached_property
    def _responses(self) -> ResponsesAPI:
        made = AgentAPI if self.dialect.api == "agent" else ResponsesAPI
        return made(self.name, self.dialect)

    @cached_property
    def _either(self) -> EitherAPI:
        return EitherAPI(self.name, self.dialect, self._chat)

    def api(self, model: Model, options: StreamOptions) -> ChatAPI | ResponsesAPI:
        """Return the API for a call.

        The first of these decides: the caller's setting `api`, the catalogue entry of the model,
        the rules, the dialect. Only the Responses API supports WebSockets, stored conversations and
        background responses. A call that requests one of these features uses this API, unless the
        caller sets `api`.
        """
        regions = self.dialect.regions
        # if the environment sets the URL, the next call may use another API
        is_fixed = not self._chat_only and (regions is None or options.base_url is not None)
        url = None if is_fixed else self.base_url(options)
        learned = url in self._chat_only
        found = self._apis.get(model, options, (url, learned))
        if found is None:
            found = self._asked(model, options)
            if regions is not None and _is_regional(self.base_url(options), regions):
                found = copy(found)
                found.regional = True
            if isinstance(found, ChatAPI) and (answers := answers_of(options)) > 1:
                found = copy(found)
                found.answers = answers
            self._apis.keep(model, options, (url, learned), found)
        return found

    def learned(self, model: Model, options: StreamOptions) -> Hashable:
        """Return True if the server is known to lack the Responses API."""
        return self._has_only_chat(options)

    def _has_only_chat(self, options: StreamOptions) -> bool:
        return bool(self._chat_only) and self.base_url(options) in self._chat_only

    def _asked(self, model: Model, options: StreamOptions) -> ChatAPI | ResponsesAPI:
        wanted = options.settings.get("api")
        kept = is_background(options) or PREVIOUS in options.settings
        kept = kept or any(options.extra.get(name) for name in self.info.continues)
        if options.transport == "websocket" or (kept and self.info.continues):
            wanted = wanted or "responses"
        if "resume" in options.settings or self.dialect.api == "agent":
            return self._responses
        if wanted is None:
            wanted = model.info.api if model.info else None
        if wanted is None:
            wanted = api_of(model, options) or self.dialect.api
            if wanted == "responses":
                return self._chat if self._has_only_chat(options) else self._either
        return self._responses if wanted == "responses" else self._chat

    def fit(self, model: Model, context: Context, options: StreamOptions) -> Fitted:
        """Return the call, adapted to the API and the model.

        Schemas are converted to the form of the API. In the schemas of strict tools,
        `additionalProperties` is set to false in every object. If strict mode still does not
        support the schema of a tool, the tool is sent without `strict`. If only one of the two APIs
        supports the content of a call, the provider uses that API.
        """
        chosen = self._chosen(model, context, options)
        call = super().fit(model, context, chosen)
        kept = [name for name in (PREVIOUS, "background") if chosen.settings.get(name)]
        if kept and isinstance(self.api(model, call.options), ChatAPI):
            call.refuse(kept[0], f"uses Chat Completions, which does not support {kept[0]}")
        if chosen is not options:
            call.tell(
                ": sent to the Responses API, because Chat Completions does not support the request"
            )
        if call.failure is not None and call.failure.code == "audio":
            call.failure.resolution = f"{SOUND} {call.failure.resolution}"
        crowded = is_crowded(call.context, call.options.cache, self.name)
        if crowded and caches_by_marks(model):
            what = (
                ": the conversation has the maximum number of cache marks, so none was added at "
                "the end"
            )
            call.tell(what, "option_ignored", "options.cache")
        if "set" in call.words("prefill") and _begins_anew(model):
            what = " starts a new answer; the last assistant message is not continued"
            call.tell(what, "option_changed", f"messages[{len(context.messages) - 1}]")
        if options.rules and rule_of(model).facts.get("strict_schemas"):
            given = [
                replace(tool, parameters=rewritten_schema(plain_schema, tool.parameters))
                for tool in call.context.tools
            ]
            tools = [_strict(at, t, call) if t.strict else t for at, t in enumerate(given)]
            call.context = replace(call.context, tools=tools)
            if isinstance(wanted := call.options.response_format, Mapping):
                call.options = evolve(call.options, response_format=plain_schema(wanted))
        return call

    def _chosen(self, model: Model, context: Context, options: StreamOptions) -> StreamOptions:
        """Return the options; if they select no API, add the one that the conversation needs."""
        if not options.rules or "api" in options.settings or (model.info and model.info.api):
            return options
        wanted = api_of(model, options, context)
        if wanted is None or wanted == api_of(model, options):
            return options
        return evolve(options, settings={**options.settings, "api": wanted})

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body in the format of the call's API."""
        return self.api(model, options).convert(model, context, options)

    def request(self, model: Model, payload: dict[str, Any], options: StreamOptions) -> HTTPRequest:
        """Return the request with this body, or the request that resumes an earlier response."""
        if "resume" in options.settings:
            return self._resumed(model, options, options.settings["resume"], options.settings)
        url = self.url(model, options)
        if self.dialect.prefix and (payload.get("messages") or [{}])[-1].get("prefix"):
            base = self.base_url(options).removesuffix("/v1").removesuffix(self.dialect.prefix)
            url = f"{base}{self.dialect.prefix}/{self._chat.path}"
        if options.transport == "websocket":
            url, payload = first_message(url, payload)
        return self.json_request(url, payload, self.own_headers())

    def base_url(self, options: StreamOptions, environ: Mapping[str, str] | None = None) -> str:
        """Return the base URL, with the values of the placeholders in the dialect's `places`.

        Raises ProviderFailure if a value is not set.
        """
        url = super().base_url(options, environ)
        for name, variable in self.dialect.places.items():
            place = f"{{{name}}}"
            value = options.settings.get(name) or first_set([variable], environ)
            if place in url and not value:
                raise self.missing_variable(variable)
            url = url.replace(place, quote(value or "", safe=""))
        return url

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the URL of the endpoint."""
        return f"{self.base_url(options)}/{self.api(model, options).path}"

    def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        """Yield the bytes of the answer, over HTTP or a WebSocket.

        A background response or a resumed response may need several requests.
        """
        model = x.model
        options = x.options
        id = options.settings.get("resume")
        kept = id is not None or is_background(options)
        on_socket = options.transport == "websocket" and id is None
        if not kept or on_socket or not isinstance(self.api(model, options), ResponsesAPI):
            return x.stream(respond=partial(self._respond, x))

        def resume(id: str, after: int | None) -> HTTPRequest:
            return self._resumed(model, options, id, {"starting_after": after})

        def cancel(id: str) -> HTTPRequest:
            return HTTPRequest(cancelled(self.url(model, options), id), b"", self.own_headers())

        leaves = options.settings.get("detached") or not is_background(options)
        if options.transport == "buffered":
            return polled(x, resume, None if leaves else cancel)
        after = options.settings.get("starting_after")
        return followed(x, resume, None if leaves else cancel, id, after)

    def _resumed(
        self, model: Model, options: StreamOptions, id: str, settings: Mapping[str, Any]
    ) -> HTTPRequest:
        """Return the request that resumes a response which the service has already begun."""
        streamed = options.transport != "buffered"
        url = resumed(self.url(model, options), id, settings, streamed)
        accepted = {"Accept": ", ".join(self.content_types)}
        return HTTPRequest(url, b"", {**accepted, **self.own_headers()}, "GET")

    async def _respond(self, x: Exchange) -> HTTPResponse:
        """Send the request and return the response.

        Use a WebSocket if the options or the dialect select it and WebSockets have not failed
        before. If the server turns out to lack the Responses API, send the call to Chat
        Completions.
        """
        model = x.model
        options = x.options
        call = x.call
        if self.dialect.own_server and self.is_free(model, options):
            call.attempt.report_cost(0.0)
        await x.convert()
        x.payload = _current(x.payload, call)
        either = isinstance(self.api(model, options), EitherAPI)
        preferred = options.transport == "auto" and self.dialect.websocket == "preferred"
        if preferred and self.api(model, options).websocket:
            x.options = options = evolve(options, transport="websocket")
        if options.transport == "websocket":
            http = call.http
            dial = partial(open_websocket, http) if isinstance(http, AiohttpClient) else None
            response = await self._sockets.open(partial(x.send, dial=dial), call)
            if response is not None:
                return response
            chosen = {"api": "responses", **options.settings}
            x.options = options = evolve(options, transport="sse", settings=chosen)
        url = self.base_url(options)
        elsewhere = either and self.shipped_url not in (None, url)
        try:
            response = await x.send()
        except ProviderFailure as error:
            failed = error.failure
            has_no_api = failed.status in MISSING and failed.code != NO_MODEL
            # a server that has the API reports a missing file or conversation with the same status
            if not (elsewhere and has_no_api) or url in self._complete:
                raise
            settings = {**call.options.settings, "api": "chat"}
            asked = evolve(call.options, settings=settings, transport=options.transport)
            try:
                x.options = self.plan_again(call, asked).options
            except ProviderFailure:
                raise error from None
        else:
            if elsewhere and len(self._complete) < MOST_URLS:
                self._complete.add(url)
            return response
        x.payload = _current(call.convert(), call)
        response = await x.send()
        if not _STORED & call.options.extra.keys():
            self._chat_only.add(url)
        call.notice("chat_completions", f"{model}: the server has no Responses API")
        return response

    def own_headers(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the headers whose values the dialect reads from the environment."""
        named = self.dialect.headers.items()
        found = ((header, first_set([variable], environ)) for header, variable in named)
        return {header: value for header, value in found if value is not None}

    def parser(self, model: Model) -> Parser:
        """Create a parser for one response of the model's API."""
        parser: Parser = self.api(model, _NO_OPTIONS).parser(model)
        return parser

    def notices(self, model: Model, options: StreamOptions) -> tuple[Notice, ...]:
        """Return the notices about options.

        Besides unsupported options, the notices report that caching is automatic, that a thinking
        budget was changed to a level, and that a call was sent to Chat Completions although the
        model's default is the Responses API.
        """
        notices = super().notices(model, options)
        cached = options.cache is not None and options.cache.mode == "auto"
        facts = rule_of(model, self.api(model, options)).facts
        asked = self.dialect.gateway or caches_by_marks(model)
        if cached and not kept(facts, options, self.dialect) and not asked:
            detail = f"{model} caches prompts automatically; cache was not sent"
            notices += (Notice("option_ignored", detail, ("options.cache",)),)
        counted = isinstance(options.thinking, int) and options.thinking > 0
        if counted and self.dialect.thinking not in ("reasoning", "budget"):
            detail = (
                f"{model}: thinking was changed from {options.thinking} to {options.thinking_level}"
            )
            notices += (Notice("option_changed", detail, ("options.thinking",)),)
        usual = api_of(model, _NO_OPTIONS) == "responses" and "api" not in options.settings
        if usual and api_of(model, options) != "responses":
            detail = (
                f"{model}: sent to Chat Completions, because the Responses API does not support "
                "the request"
            )
            notices += (Notice("option_changed", detail),)
        return notices

    def classify(self, failure: Failure) -> Classification | None:
        """Classify a failure by the tables in the module `errors`."""
        return classify(failure)

    def error_facts(self, failure: Failure) -> None:
        """Read an HTTP error in the same way as an error in a stream.

        If the body has none of the forms that `read_error` knows, the base class reads it.
        """
        try:
            known = read_error(msgspec.json.decode(failure.body), failure)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        if not known:
            super().error_facts(failure)


def _is_regional(url: str, regions: str) -> bool:
    return re.fullmatch(regions, urlsplit(url).hostname or "") is not None


def _current(payload: Any, call: Call) -> Any:
    """Return a body without the ids of audio that the service no longer stores."""
    if not any("audio" in message for message in payload.get("messages", ())):
        return payload
    said = with_kept_sound(payload["messages"], call.clock.now().timestamp())
    return {**payload, "messages": said}


def _begins_anew(model: Model) -> bool:
    return rule_of(model).facts.get("continues") is False


def _strict(at: int, tool: Tool, call: Fitted) -> Tool:
    closed = rewritten_schema(closed_schema, tool.parameters)
    if is_strict(closed):
        return replace(tool, parameters=closed)
    what = f": the schema of {tool.name} does not fit strict mode; strict was not sent"
    call.tell(what, "option_ignored", f"tools[{at}].strict")
    return replace(tool, strict=None)
