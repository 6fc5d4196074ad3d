"""Protocols that clients speak: a request to a conversation, events to frames. No I/O is here.

One module a protocol, the mirror of the providers' parsers and converters. A protocol reads what
its client asks (`ClientProtocol.read`) into an `Asked`: a model's name, a conversation and options,
as `swink_core.Client.stream` takes them. What it has no word for is no error: it is named in
`Asked.dropped`, or kept in `Asked.own` for a provider that speaks the same wire format. For the
answer it makes an `Encoder`, which turns the events of each network read into one buffer of bytes,
or the whole message into one body. An encoder belongs to one answer and keeps all state there is.

`BadRequest` is what `read` raises for a body that is not one of this protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from attrs import define, field

from swink_core import AssistantMessage, AssistantMessageEvent, Context, Error, Model, Usage

__all__ = ["Asked", "BadRequest", "ClientProtocol", "Encoder", "Facts", "Known", "Reply"]


class BadRequest(ValueError):
    """A body that is no request of this protocol; the message says where and why."""


@define
class Asked:
    """What a client asks for.

    `options` are keyword arguments of `Client.stream`. `dropped` names, as paths into the body,
    what is not carried further; `own` are fields of the body that swink has no word for, and
    `headers` those of the request, for a provider of the same wire format (see `passthrough`);
    `own_places` are the paths of what is its own, where `own` does not say them.
    `tools` are names of tools as the client knows them, by those under which they go out. `said`
    is what the protocol itself wants to know again when it answers. `inherited` are the options
    that the client gives to all its calls, over which `extra` lies: the fields of the body that
    this one call says. `idle` is why the answer ends that nobody has to be asked for. `patience` is
    the client's own time limit, in seconds, where it states one. `tags` are the client's words for
    the ledger. `is_strict` keeps options that the model refuses. `notices` list changes to the
    request.
    """

    model: str
    context: Context
    options: dict[str, Any] = field(factory=dict)
    stream: bool = False
    dropped: list[str] = field(factory=list)
    own: dict[str, Any] = field(factory=dict)
    own_places: list[str] = field(factory=list)
    headers: dict[str, str] = field(factory=dict)
    tools: dict[str, Any] = field(factory=dict)
    said: dict[str, Any] = field(factory=dict)
    extra: dict[str, Any] = field(factory=dict)
    inherited: frozenset[str] = frozenset()
    idle: str | None = None
    patience: float | None = None
    tags: tuple[str, ...] = ()
    is_strict: bool = False
    notices: list[str] = field(factory=list)


class Known(Protocol):
    """What is known of an answer while it comes; an `Attempt` is one."""

    @property
    def model(self) -> Model:
        """The model that is asked."""

    response_id: str | None
    response_model: str | None
    usage: Usage | None


@define(frozen=True)
class Facts:
    """What the server says of an answer before it begins.

    `id` is for answers that the provider gives none; `created` is in seconds since 1970;
    `wire_formats` are those of the providers that may answer, by their names.
    """

    id: str
    created: int
    wire_formats: Mapping[str, str] = field(factory=dict)


@define(frozen=True)
class Reply:
    """A whole response: what a client gets in place of an answer."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(factory=dict)
    content_type: str = "application/json"


class Encoder(Protocol):
    """Writes one answer. `ended`: it has written how the answer ended, nothing may follow.

    `has_statuses`: a failure before the answer is an HTTP status, and not a part of the stream.
    """

    content_type: str
    ended: bool
    has_statuses: bool

    def feed(self, batch: Sequence[AssistantMessageEvent], known: Known) -> bytes:
        """Return what the events of one network read are in this protocol, often nothing."""

    def alive(self, known: Known) -> bytes:
        """Return what tells the client that its answer is still being made, and nothing else."""

    def whole(self, message: AssistantMessage) -> bytes:
        """Return the body of an answer that is not streamed."""


class ClientProtocol(Protocol):
    """What a client speaks. `wire_format` is that of providers which speak the same."""

    name: str
    wire_format: str

    def read(self, body: Any, path: Mapping[str, str], headers: Mapping[str, str]) -> Asked:
        """Return what a request asks for.

        `body` is its JSON data, `path` the variable parts of its address and its query. Raises
        BadRequest.
        """

    def encoder(self, asked: Asked, facts: Facts) -> Encoder:
        """Make an encoder for the answer to a request."""

    def failure(self, error: Error, status: int) -> Reply:
        """Return what says that there is no answer, with this HTTP status."""
