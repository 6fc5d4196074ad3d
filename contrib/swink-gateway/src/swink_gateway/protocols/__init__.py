"""Client protocols: convert requests to conversations, and events to frames, without I/O.

Each protocol has a package, which parses the requests of clients and formats the answers to them.
`ClientProtocol.read` converts a request to an `Asked`: a model's name, a conversation and options,
as `swink_core.Client.stream` takes them. Fields unknown to swink are not an error: they are listed
in `Asked.dropped`, or stored in `Asked.own` for a provider with the same wire format.
`ClientProtocol.encoder` creates an `Encoder` for the answer. The encoder converts the events of
each network read to one buffer of bytes, or the complete message to one body. An encoder belongs to
one answer and contains all state of the encoding.

`read` raises `BadRequest` for a body that is invalid in this protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import define, field

from swink_core import AssistantMessage, AssistantMessageEvent, Context, Error, Model, Usage

__all__ = ["Asked", "BadRequest", "ClientProtocol", "Encoder", "Facts", "Known", "Reply"]


class BadRequest(ValueError):
    """An invalid request body; the message contains the path of the field and the reason."""


@define
class Asked:
    """A parsed request.

    `options` are keyword arguments of `Client.stream`. `dropped` lists the paths in the body that
    are not forwarded. `own` contains body fields unknown to swink, and `headers` contains request
    headers; both are sent only to a provider with the same wire format (see `passthrough`).
    `own_places` lists the paths (such as `options.num_ctx`) of all data in the body for which only
    such a provider has a field; the gateway reports these paths to the client if it drops the data.
    If `own_places` is empty, the gateway reports the names in `own` instead. `own_options` are the
    values of options for such a provider, for options that stand for cache marks in the request;
    `None` means that only the marks are sent. `exact_thinking` contains the body fields for a
    reasoning effort to which no level of the option `thinking` is equal; models with efforts at
    such a provider get these fields in place of the level. `highest_effort` is the path of an
    effort `max` that the option `thinking` lowers to `extra_high`, or empty. `tools` maps the
    names of tools that are sent to the provider to the client's names. `said` is data from the
    request that the encoder of the answer needs. `inherited` contains the names of those `options`
    that a swink client sets for all its calls. `extra` contains body fields for this call only;
    they override the fields in an inherited option `extra`. `idle` is the stop reason of a request
    that the gateway answers without calling a provider (`None`: a normal request). `patience` is
    the client's own time limit in seconds, if it sends one. `tags` are the client's tags for the
    ledger. `memory` is the memory in bytes that the request takes. `answers` is the number of
    requested answers, and `answers_field` is the path of this number in the body; only a provider
    with the same wire format can give more than one answer. With `is_strict`, unsupported options
    are refused and not replaced. `notices` describe the changes that the gateway made to the
    request. `prepared` is called once a large request is converted and checked, or the provider has
    answered.
    """

    model: str
    context: Context
    options: dict[str, Any] = field(factory=dict)
    stream: bool = False
    dropped: list[str] = field(factory=list)
    own: dict[str, Any] = field(factory=dict)
    own_places: list[str] = field(factory=list)
    own_options: dict[str, Any] = field(factory=dict)
    exact_thinking: dict[str, Any] = field(factory=dict)
    highest_effort: str = ""
    headers: dict[str, str] = field(factory=dict)
    tools: dict[str, Any] = field(factory=dict)
    said: dict[str, Any] = field(factory=dict)
    extra: dict[str, Any] = field(factory=dict)
    inherited: frozenset[str] = frozenset()
    idle: str | None = None
    patience: float | None = None
    tags: tuple[str, ...] = ()
    memory: int = 0
    answers: int = 1
    answers_field: str = ""
    is_strict: bool = False
    notices: list[str] = field(factory=list)
    prepared: Callable[[], None] = lambda: None


class Known(Protocol):
    """Facts about an answer in progress that an encoder reads; `Attempt` has these attributes."""

    @property
    def model(self) -> Model:
        """The model that answers."""

    response_id: str | None
    response_model: str | None
    usage: Usage | None


@define(frozen=True)
class Facts:
    """Data from the server that the encoder needs before the answer begins.

    `id` is the id of the answer if the provider sends none. `created` is in seconds since 1970.
    `wire_formats` contains the wire format of each provider that may answer, by provider name.
    """

    id: str
    created: int
    wire_formats: Mapping[str, str] = field(factory=dict)


@define(frozen=True)
class Reply:
    """A complete HTTP response that is sent instead of an answer, for example for a failure."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(factory=dict)
    content_type: str = "application/json"


class Encoder(Protocol):
    """Encodes one answer. `ended` is true once the end of the answer has been written.

    `has_statuses` is true if a failure before the answer is reported by an HTTP status and not in
    the stream.
    """

    content_type: str
    ended: bool
    has_statuses: bool

    def feed(self, batch: Sequence[AssistantMessageEvent], known: Known) -> bytes:
        """Encode the events of one network read; the result is often empty."""

    def alive(self, known: Known) -> bytes:
        """Return a keep-alive for the client."""

    def whole(self, message: AssistantMessage) -> bytes:
        """Return the body of an answer that is not streamed."""


class ClientProtocol(Protocol):
    """A protocol of clients. A provider with the same protocol has the same `wire_format`."""

    name: str
    wire_format: str

    def read(self, body: Any, path: Mapping[str, str], headers: Mapping[str, str]) -> Asked:
        """Parse a request.

        `body` is the decoded JSON; `path` contains the variable parts of the URL and the query.
        Raises BadRequest for a body that is invalid in this protocol.
        """

    def encoder(self, asked: Asked, facts: Facts) -> Encoder:
        """Create an encoder for the answer to a request."""

    def failure(self, error: Error, status: int) -> Reply:
        """Return the response for a failure before the answer, with this HTTP status."""
