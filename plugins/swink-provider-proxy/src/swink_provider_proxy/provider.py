"""`proxy/<provider>/<model>`: swink's native protocol, with one JSON event per SSE frame.

The events have the JSON form that `swink_core.dump` writes. The gateway does not send the partial
message, because the client builds it from the deltas. The client checks the order of all events,
including the `Retry` events of the gateway.
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
"""Options that affect only this client and its connection; all others are sent to the gateway."""

_UNSET = StreamOptions()


_TYPES = frozenset(event.type for event in get_args(Event))


class _EveryField(Container[str]):
    """Contains every name, so that all fields of a block's metadata are sent to the gateway."""

    def __contains__(self, name: object) -> bool:
        return True


class _Parser:
    writer = ForwardingWriter

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Pass on the event in a frame; ignore `[DONE]`, the end marker of other protocols."""
        if frame == b"[DONE]":
            return
        data = msgspec.json.decode(frame)
        kind = data.get("type") if isinstance(data, dict) else None
        if isinstance(kind, str) and kind not in _TYPES:
            out.notice("unknown_event", f"the gateway sent an unknown event: {kind}")
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
    """Any model behind a gateway with the route `POST {base}/v1/stream`.

    A frame that is not an event ends the stream with an error of kind `protocol`: the gateway is
    broken, so the call is not retried. A damaged frame ends the stream as well.
    """

    features = frozenset(
        {"tools", "tool_choice", "stop", "images", "documents", "audio", "json"}
        | {"structured_output", "file_ids", "file_ids_of_others"}
        | {"extensions", "extensions_of_others", "buffered_transport", "websocket_transport"}
        | {"assistant_images", "assistant_documents", "assistant_audio"}
        | {"strict", "system_messages"}
    )
    knobs = dict.fromkeys(TUNING)
    """All sampling and output options are sent together with the other options; see `request`."""

    system_marks = _EveryField()
    malformed = "fail"

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body, with the model, the conversation, and the options under their own names.

        Files in the conversation have already been replaced by their data. The field `options`
        contains the options of the client and of the call, merged. If the call's `extra` overrides
        options of the client, the field `call` contains this `extra`, and the names of the options
        that only the client sets.
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
        # The names of the client's options, if the call's `extra` overrides some of them.
        inherited = getattr(options.extra, "inherited", None)
        if inherited is not None:
            own = getattr(options.extra, "own", {})
            body["call"] = {"extra": own, "inherited": sorted(inherited - HERE)}
        return body

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the URL of the gateway's native protocol."""
        return f"{self.base_url(options).removesuffix('/v1')}/v1/stream"

    def parser(self, model: Model) -> _Parser:
        """Create a parser for one answer."""
        return _Parser()

    def _portable(self, message: Message) -> Message:
        """Return a message without its `provider` if the provider is this proxy.

        Without a provider, the message is valid for every model behind the gateway.
        """
        if isinstance(message, AssistantMessage) and message.provider == self.name:
            return replace(message, provider=None)
        return message
