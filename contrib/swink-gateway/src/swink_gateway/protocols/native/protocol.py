"""swink's native protocol, `POST /v1/stream`, which swink-provider-proxy uses.

Conversations and events have the format of `swink_core.dump`: each server-sent event contains one
JSON event, and options have the same names as in the library. No information is lost. With
`"stream": false`, the response body is the complete message. Clients cannot set options about the
gateway's own connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    CacheStrategy,
    CodecError,
    Context,
    Done,
    Error,
    FileSource,
    Message,
    Retry,
    StreamErrorKind,
    StreamOptions,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UrlSource,
    dump,
    load,
    replace,
)
from swink_core.providers import OPTIONS
from swink_gateway.protocols import Asked, BadRequest, Facts, Known, Reply
from swink_gateway.protocols.failures import BROKEN_OFF, for_clients, headers_of, why_again
from swink_gateway.protocols.fields import Fields
from swink_gateway.protocols.frames import ALIVE, SSE, data_frame, encode
from swink_gateway.protocols.media import source_of

__all__ = ["NativeProtocol"]

GATEWAYS_OWN = frozenset(name for name, each in OPTIONS.items() if each.local)
"""Options for the gateway's own addresses, credentials and timeouts, which clients cannot set."""

SETTINGS = frozenset({"api", "script", "starting_after"})
"""Settings that clients may always set.

None of these settings affects the gateway's machine, its credentials or the host of requests. Other
settings are defined by providers, and may name commands or paths.
"""

_STEERING = {"settings", "extra", "rules", "retired", "transport"}
_INHERITED = StreamOptions.names() - GATEWAYS_OWN - _STEERING
"""Options (fields of the request body) that a client may list as inherited (see `Asked`)."""

_FILE_SCHEME = "file:"

_DELTAS = {
    kind: b'data: {"type":"%b","content_index":%%d,"delta":%%b}\n\n' % kind.type.encode()
    for kind in (TextDelta, ThinkingDelta, ToolCallDelta)
}


class NativeProtocol:
    """The native protocol, with conversations, options and events in swink's JSON form."""

    name = "native"
    wire_format = "swink"

    def __init__(self, settings: Iterable[str] = ()) -> None:
        self._settings = SETTINGS | set(settings)

    def read(self, body: Any, path: Mapping[str, str], headers: Mapping[str, str]) -> Asked:
        """Parse a request."""
        said = Fields(body)
        context = {
            "system_prompt": said.take("system", (str, list)),
            "messages": said.take("messages", list) or [],
            "tools": said.take("tools", list) or [],
        }
        stream = said.flag("stream")
        try:
            asked = Asked(said.required("model"), load(Context, context))
        except CodecError as error:
            raise BadRequest(str(error)) from error
        _check_addresses(asked.context.messages)
        asked.stream = stream is not False
        asked.is_strict = True  # swink clients report unsupported options themselves
        if (options := said.object("options")) is not None:
            options.take("extra", dict)
            asked.options = self._options(options.all())
        _check_extra(asked.options.get("extra"), "options.extra")
        if (call := said.object("call")) is not None:
            asked.extra = call.take("extra", dict) or {}
            _check_extra(asked.extra, "call.extra")
            named = [name for name in call.take("inherited", list) or () if isinstance(name, str)]
            asked.inherited = frozenset(_INHERITED & asked.options.keys() & {*named})
        asked.dropped = said.dropped
        return asked

    def encoder(self, asked: Asked, facts: Facts) -> NativeEncoder:
        """Create an encoder for the answer to a request."""
        return NativeEncoder()

    def failure(self, error: Error, status: int) -> Reply:
        """Return the response for a failure before the answer, with this HTTP status."""
        told = for_clients(error)
        body = {"error": {"message": told.error_message, **dump(told)}}
        return Reply(status, encode(body), headers_of(error))

    def _options(self, given: dict[str, Any]) -> dict[str, Any]:
        if own := sorted(GATEWAYS_OWN & given.keys()):
            raise BadRequest(f"options.{own[0]} can be set only by the gateway")
        if unknown := sorted(given.keys() - StreamOptions.names()):
            raise BadRequest(f"options.{unknown[0]} is not an option")
        settings = given.get("settings")
        if isinstance(settings, dict) and (closed := sorted(settings.keys() - self._settings)):
            raise BadRequest(
                f"options.settings.{closed[0]} is not allowed for clients: the gateway's "
                "operator can allow it with swink gateway --setting"
            )
        options = dict(given)
        if isinstance(cache := options.get("cache"), dict):
            try:
                options["cache"] = CacheStrategy(**cache)
            except (TypeError, ValueError) as error:
                raise BadRequest(f"options.cache: {error}") from error
        return options


def _check_addresses(messages: Iterable[Message]) -> None:
    """Raise BadRequest for a media URL that does not begin with http: or https:."""
    for at, message in enumerate(messages):
        for block in () if isinstance(message.content, str) else message.content:
            source = getattr(block, "source", None)
            if isinstance(source, UrlSource):
                source_of(source.url, f"messages[{at}].source.url")
            elif isinstance(source, FileSource):
                raise BadRequest(
                    f"messages[{at}].source is a file; send its data, or an http: or https: URL"
                )


def _check_extra(data: Any, place: str) -> None:
    """Raise BadRequest for a file URL in a provider's own fields."""
    if isinstance(data, str):
        if data[: len(_FILE_SCHEME)].lower() == _FILE_SCHEME:
            raise BadRequest(f"{place} is a file URL; send the data, or an http: or https: URL")
    elif isinstance(data, dict):
        for name, value in data.items():
            _check_extra(value, f"{place}.{name}")
    elif isinstance(data, list):
        for at, value in enumerate(data):
            _check_extra(value, f"{place}[{at}]")


class NativeEncoder:
    """Writes events unchanged, because the clients handle all kinds of failures and restarts."""

    content_type = SSE
    has_statuses = False

    def __init__(self) -> None:
        self.ended = False

    def alive(self, known: Known) -> bytes:
        """Return an SSE comment."""
        return ALIVE

    def feed(self, batch: Sequence[AssistantMessageEvent], known: Known) -> bytes:
        """Encode each event as a frame."""
        return b"".join(map(self._frame, batch))

    def _frame(self, event: Any) -> bytes:
        kind = type(event)
        if kind in _DELTAS:
            return _DELTAS[kind] % (event.content_index, encode(event.delta))
        self.ended = kind in (Done, Error)
        if kind is Retry:
            is_cut = event.error_kind is StreamErrorKind.NETWORK
            event = replace(event, error=BROKEN_OFF if is_cut else why_again(event))
        return data_frame(dump(for_clients(event) if kind is Error else event))

    def whole(self, message: AssistantMessage) -> bytes:
        """Encode the message."""
        return encode(dump(message))
