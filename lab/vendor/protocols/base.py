"""The parts of an API: it reads requests, and writes answers and errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lab.vendor import jsons
from lab.vendor.answers import Answer, Part, Step
from lab.vendor.ask import Ask
from lab.vendor.bill import Charge, Usage
from lab.vendor.failures import Failure, Refused

if TYPE_CHECKING:
    from lab.vendor.state import State

__all__ = [
    "API",
    "Action",
    "Encoder",
    "Followed",
    "Open",
    "Reply",
    "Request",
    "Route",
    "as_body",
    "event",
    "named_event",
]


@dataclass(slots=True)
class Request:
    """A request, as an API sees it. Header names are in lower case.

    `kept` is what a WebSocket remembers of earlier requests; `None` for plain HTTP.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    provider: str
    account: str
    request_id: str = ""
    found: Mapping[str, str] = field(default_factory=dict)
    kept: dict[str, Any] | None = None


@dataclass(slots=True)
class Reply:
    """A response that is sent whole; `charge` is its price, if it has one."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    charge: Charge | None = None

    @classmethod
    def json(cls, data: Any, status: int = 200) -> Reply:
        """Return a response with a JSON body."""
        return cls(status, jsons.dump(data))


@dataclass(slots=True)
class Followed:
    """A response whose frames come from elsewhere, from an answer in the background."""

    frames: AsyncIterator[bytes]
    content_type: str


Action = Callable[["State", Request], Awaitable["Reply | Followed"]]
"""A handler of a route that generates nothing. Raises Refused for an error."""


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a pattern of paths; without an `action` it generates an answer."""

    method: str
    pattern: str
    action: Action | None = None


@dataclass(slots=True)
class Open:
    """A part of an answer under way: what was produced of it so far."""

    part: Part
    id: str = ""
    text: str = ""
    tokens: int = 0
    closed: bool = False


class Encoder(ABC):
    """Writes one answer, step by step, and keeps what the whole needs.

    `answer` is the answer to come, for APIs whose first frames depend on later ones.
    """

    media_type = "text/event-stream"

    def __init__(self, state: State, ask: Ask) -> None:
        self.state = state
        self.ask = ask
        self.created = int(state.clock.now())
        self.parts: list[dict[int, Open]] = [{} for _ in range(ask.count)]
        self.stops: list[Step | None] = [None] * ask.count
        self.answer = Answer()

    def take(self, step: Step) -> None:
        """Keep a step. Call it once before `step`."""
        if step.kind == "end":
            self.stops[step.choice] = step
            return
        assert step.part is not None
        parts = self.parts[step.choice]
        if step.kind == "open":
            parts[step.index] = Open(step.part, id=self.id_of(step.part))
        elif step.kind == "delta":
            parts[step.index].text += step.text
            parts[step.index].tokens += step.tokens
        else:
            parts[step.index].closed = True

    def id_of(self, part: Part) -> str:
        """Return the id of a part, for APIs that give parts ids."""
        return ""

    def open_part(self, step: Step) -> Open:
        """Return the part that a step belongs to."""
        return self.parts[step.choice][step.index]

    @abstractmethod
    def begin(self, usage: Usage) -> bytes:
        """Return the frames that open the stream."""

    @abstractmethod
    def step(self, step: Step, usage: Usage) -> bytes:
        """Return the frames of a step; empty if the API sends none for it."""

    @abstractmethod
    def finish(self, usage: Usage) -> bytes:
        """Return the frames that end the stream."""

    @abstractmethod
    def broken(self, failure: Failure) -> bytes:
        """Return an error within the stream, with what the API sends after it."""

    @abstractmethod
    def whole(self, usage: Usage) -> bytes:
        """Return the body of an answer that is not streamed."""

    def whole_media_type(self) -> str:
        """Return the content type of an answer that is not streamed."""
        return "application/json"


class API(ABC):
    """One vendor's API. `judged_as` is the name that the rules have for it."""

    name: str
    judged_as: str
    provider: str
    routes: tuple[Route, ...] = ()

    @abstractmethod
    def read(self, state: State, request: Request, body: dict[str, Any]) -> Ask:
        """Read what a request asks for. Raises Refused."""

    @abstractmethod
    def encoder(self, state: State, ask: Ask) -> Encoder:
        """Return the encoder of an answer."""

    @abstractmethod
    def failure(self, failure: Failure, request_id: str) -> Reply:
        """Return an error response in the API's own form."""

    def model(self, request: Request, body: dict[str, Any]) -> str:
        """Return the id of the model that a request names."""
        return jsons.text(body.get("model"))

    def no_model(self, id: str) -> str:
        """Return the words for a model that there is not."""
        return f"The model `{id}` does not exist or you do not have access to it."

    def normal(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a body in the one spelling that is judged and read."""
        return body

    def headers(self, state: State, request_id: str) -> dict[str, str]:
        """Return the headers that every answer of the API has."""
        return {}

    def is_streamed(self, request: Request, body: dict[str, Any]) -> bool:
        """Tell whether the answer is to be streamed."""
        return body.get("stream") is True


def as_body(request: Request) -> dict[str, Any]:
    """Return a request's body, which is a JSON object. Raises Refused for any other."""
    try:
        body = jsons.load(request.body)
    except ValueError:
        message = "We could not parse the JSON body of your request."
        raise Refused(Failure("invalid", message, 400)) from None
    if not isinstance(body, dict):
        raise Refused(Failure("invalid", "The JSON body of your request is not an object.", 400))
    return body


def event(data: dict[str, Any]) -> bytes:
    """Write an event of a stream."""
    return b"data: " + jsons.dump(data) + b"\n\n"


def named_event(data: dict[str, Any]) -> bytes:
    """Write an event of a stream whose name is its type."""
    return f"event: {data['type']}\n".encode() + event(data)
