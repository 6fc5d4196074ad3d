"""`proxy/<provider>/<model>`: swink's own protocol, one JSON event to an SSE frame.

The events are those of `swink_core.codec`, the partial message left out: the client folds the
deltas itself. They are held against the grammar, an upstream's `Retry` included.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, get_args

import msgspec
from attrs import asdict

from swink_core import (
    AssistantMessage,
    CodecError,
    Context,
    Event,
    Failure,
    Message,
    Model,
    StreamOptions,
    dump,
    load,
    replace,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import (
    OPTIONS,
    TUNING,
    EventWriter,
    HTTPProvider,
)
from swink_provider_proxy.forwarding import ForwardingWriter

__all__ = ["ProxyProvider"]

HERE = frozenset(name for name, option in OPTIONS.items() if option.local)
"""Options that are about the connection to this gateway; all others travel."""

_UNSET = StreamOptions()


_TYPES = frozenset(event.type for event in get_args(Event))


class _EveryField(Container[str]):
    """Contains every name: the gateway gets a block's metadata whole."""

    def __contains__(self, name: object) -> bool:
        return True


class _Parser:
    writer = ForwardingWriter

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Pass on the event of a frame; the end marker of other protocols is ignored."""
        if frame == b"[DONE]":
            return
        data = msgspec.json.decode(frame)
        kind = data.get("type") if isinstance(data, dict) else None
        if isinstance(kind, str) and kind not in _TYPES:
            out.notice("unknown_event", f"the gateway sent what is unknown here: {kind}")
            return
        try:
            event = load(Event, data)
        except CodecError as error:
            why = f"a frame is not an event: {error}"
            out.fail(Failure("streaming", kind=Kind.PROTOCOL, code="bad_event", message=why))
            return
        assert isinstance(out, ForwardingWriter)
        out.forward(event)


class ProxyProvider(HTTPProvider):
    """Any model behind a gateway that speaks `POST {base}/v1/stream`.

    A frame that is not an event ends the stream as `protocol`: the gateway is broken, and
    nothing is retried. One that was damaged on its way ends it at once, too.
    """

    features = frozenset(
        {"tools", "tool_choice", "stop", "images", "documents", "audio", "json"}
        | {"structured_output", "file_ids", "file_ids_of_others"}
        | {"extensions", "extensions_of_others", "buffered_transport", "websocket_transport"}
        | {"assistant_images", "assistant_documents", "assistant_audio"}
        | {"strict", "system_messages"}
    )
    knobs = dict.fromkeys(TUNING)
    """Every option that tunes an answer travels beside the others; see `request`."""

    system_marks = _EveryField()
    malformed = "fail"

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return model, conversation, and options by their names; files were read by then.

        Where the call's `extra` lies over options of the client, `call` tells the gateway which
        options are the client's and which `extra` is the call's, since both are in `options`.
        """
        asked = {name: getattr(options, name) for name in sorted(StreamOptions.names() - HERE)}
        sent = {name: v for name, v in asked.items() if v != getattr(_UNSET, name)}
        if options.cache is not None:
            sent["cache"] = asdict(options.cache)
        system = context.system_prompt
        body = {
            "model": model.id,
            "system": [dump(block) for block in system] if isinstance(system, list) else system,
            "messages": [dump(self._portable(message)) for message in context.messages],
            "tools": [dump(tool) for tool in context.tools],
            "options": sent,
        }
        inherited = getattr(options.extra, "inherited", None)  # of the call's, laid over a client's
        if inherited is not None:
            own = getattr(options.extra, "own", {})
            body["call"] = {"extra": own, "inherited": sorted(inherited - HERE)}
        return body

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the address of the gateway's own protocol."""
        return f"{self.base_url(options).removesuffix('/v1')}/v1/stream"

    def parser(self, model: Model) -> _Parser:
        """Make a parser for one answer."""
        return _Parser()

    def _portable(self, message: Message) -> Message:
        """Clear the provider of this proxy's messages, so that every upstream accepts them."""
        if isinstance(message, AssistantMessage) and message.provider == self.name:
            return replace(message, provider=None)
        return message
