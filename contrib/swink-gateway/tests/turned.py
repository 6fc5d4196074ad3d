"""Encode events in a client protocol, and read the result with a provider's parser."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from attrs import define

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Context,
    Done,
    Error,
    Host,
    Model,
    Retry,
    ThinkingBlock,
    ToolCallStart,
    Usage,
    UserMessage,
    replace,
)
from swink_core.providers import Catalog
from swink_gateway.protocols import Asked, ClientProtocol, Facts
from swink_testing.driver import fold, run_bytes


@define
class Said:
    """The facts of an answer, which are all known from the beginning."""

    model: Model
    response_id: str | None = None
    response_model: str | None = None
    usage: Usage | None = None


def asked_for(model: str = "acme/large", **said: Any) -> Asked:
    return Asked(model, Context([UserMessage("Hi")]), stream=True, said=said)


def written(
    protocol: ClientProtocol,
    batches: Iterable[Sequence[AssistantMessageEvent]],
    *,
    model: str = "acme/large",
    wire_formats: dict[str, str] | None = None,
    **said: Any,
) -> list[bytes]:
    """Return the encoded bytes of each batch."""
    batches = [list(batch) for batch in batches]
    last: Any = batches[-1][-1]
    known = Said(Model.parse(model), last.response_id, last.model, last.usage)
    facts = Facts("f4c75", 1_700_000_000, wire_formats or {})
    asked = asked_for(model, **said)
    asked.tools = said.get("tools", {})
    encoder = protocol.encoder(asked, facts)
    pieces = [encoder.feed(batch, known) for batch in batches]
    assert encoder.ended
    return pieces


def whole(
    protocol: ClientProtocol, message: AssistantMessage, wire_formats: dict[str, str] | None = None
) -> bytes:
    """Return the encoded bytes of a complete message, with thinking."""
    facts = Facts("f4c75", 1_700_000_000, wire_formats or {})
    asked = asked_for(array=False, thoughts=True)
    return protocol.encoder(asked, facts).whole(message)


@cache
def _model(provider: str, model: str) -> tuple[Any, Model]:
    host = Host(environ={})
    return host.bind(provider).provider, Catalog(host, {}).resolve(Model(provider, model))


def last_attempt(events: Sequence[AssistantMessageEvent]) -> list[AssistantMessageEvent]:
    """Return the events since the last restart, with unique ids of tool calls.

    A parser takes a repeated id for the same call.
    """
    restarts = [n for n, event in enumerate(events) if isinstance(event, Retry)]
    known: set[str] = set()
    return [_named_anew(event, known) for event in events[restarts[-1] + 1 if restarts else 0 :]]


def _named_anew(event: AssistantMessageEvent, known: set[str]) -> AssistantMessageEvent:
    if not isinstance(event, ToolCallStart):
        return event
    id = f"{event.id}_{len(known)}" if event.id in known else event.id
    known.add(id)
    return replace(event, id=id)


def is_empty(block: Any) -> bool:
    """Tell whether a block is empty thinking."""
    return isinstance(block, ThinkingBlock) and not (
        block.thinking or block.signature or block.metadata
    )


def read_by(
    provider: str, pieces: Iterable[bytes], model: str = "any"
) -> tuple[AssistantMessage, Done | Error]:
    """Return the message and the last event that a provider's parser reads."""
    events = run_bytes(*_model(provider, model), pieces)
    terminal: Any = events[-1]
    return fold(events, provider), terminal
