"""A provider that exists only in tests, with a minimal wire format.

    data: {"thinking": "Hm", "signature": "c2ln"}
    data: {"text": "Hello"}
    data: {"extension": {"query": "Hello"}}
    data: {"call": "add", "arguments": "{}"}
    data: {"stop": "stop"}
    data: {"error": "busy"}

`Client(host=acme_host(), http=MemoryHTTPClient(…))` calls it without a network.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from swink_core import (
    Classification,
    Context,
    Failure,
    Host,
    Model,
    StopReason,
    StreamErrorKind,
    StreamOptions,
)
from swink_core.providers import EventWriter, HTTPProvider, by_tables, with_extra
from swink_testing.driver import MemoryResponse

__all__ = ["AcmeParser", "AcmeProvider", "acme_answer", "acme_host"]


class _Frame(msgspec.Struct):
    thinking: str | None = None
    signature: str | None = None
    text: str | None = None
    extension: dict[str, Any] | None = None
    call: str | None = None
    arguments: str | None = None
    stop: str | None = None
    error: str | None = None


_decode = msgspec.json.Decoder(_Frame).decode


class AcmeParser:
    """Reads acme's frames."""

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Write the events of one frame."""
        data = _decode(frame)
        if data.thinking is not None:
            out.thinking(data.thinking, signature=data.signature)
        if data.text is not None:
            out.text(data.text)
        if data.extension is not None:
            out.extension("search", data.extension)
        if data.call is not None:
            out.tool_call(None, name=data.call, arguments=data.arguments)
        if data.stop is not None:
            out.usage(input=1, output=2)
            out.stop(StopReason(data.stop))
            out.finish()
        if data.error is not None:
            out.fail(Failure("streaming", code=data.error, message=f"acme says: {data.error}"))


class AcmeProvider(HTTPProvider):
    """The provider `acme`, which uses the wire format in this module's docstring."""

    path = "/chat"

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the request body: the model, the number of messages, and the extra fields."""
        return with_extra(options.extra, {"model": model.id, "messages": len(context.messages)})

    def parser(self, model: Model) -> AcmeParser:
        """Make a parser."""
        return AcmeParser()

    def classify(self, failure: Failure) -> Classification | None:
        """Classify the code `busy` as overloaded."""
        return by_tables(failure, {"busy": StreamErrorKind.OVERLOADED})


def acme_answer(*frames: dict[str, Any]) -> MemoryResponse:
    """Return a response with these frames, one in each network read."""
    chunks = [b"data: " + msgspec.json.encode(frame) + b"\n\n" for frame in frames]
    return MemoryResponse(chunks, headers={"Content-Type": "text/event-stream"})


class _EntryPoint:
    name, group, value = "acme", "swink.providers", "acme:AcmeProvider"
    dist = None

    def load(self) -> type[AcmeProvider]:
        return AcmeProvider


def acme_host(plugins: Iterable[Any] = ()) -> Host:
    """Return a host with acme as its only provider, and with the given plugins."""
    return Host(plugins, entry_points=[_EntryPoint()], environ={})
