"""WebSockets for the Responses API, with HTTP as the fallback.

A WebSocket carries the same JSON events as the stream over HTTP. Its messages are converted to
server-sent events. Therefore both transports use the same decoder and the same format of
recordings, and if the server refuses the WebSocket, the attempt can continue over HTTP.

Each answer uses a new WebSocket. After a service has refused a WebSocket, or has closed two in a
row before the answer was complete, the provider uses HTTP until the client is closed. Source:
OpenAI's guide "WebSocket mode"; xAI's "WebSocket Mode".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

import msgspec

from swink_core import Call, ProviderFailure
from swink_core.providers import HTTPResponse
from swink_provider_openai.responses.websocket import SWITCHED
from swink_provider_openai.responses.wire import TERMINAL

__all__ = ["Sockets", "first_message"]

DROPS = 2
"""After this many interrupted answers in a row, WebSockets are no longer used."""

NOT_SENT = frozenset({"stream", "stream_options", "background"})
"""Fields of the HTTP request that are not sent over a WebSocket."""


class _Type(msgspec.Struct):
    type: Any = None


_decode_type = msgspec.json.Decoder(_Type).decode
_MARKS = tuple(f'"{name}"'.encode() for name in TERMINAL)


def first_message(url: str, body: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the URL of the WebSocket for `url`, and the message that requests an answer."""
    asked = {name: value for name, value in body.items() if name not in NOT_SENT}
    return f"ws{url.removeprefix('http')}", {"type": "response.create", **asked}


class Sockets:
    """Opens WebSockets of a service, and counts how many were closed too early."""

    def __init__(self) -> None:
        self.drops = 0
        self.given_up: str | None = None

    async def open(
        self, dial: Callable[[], Awaitable[HTTPResponse]], call: Call
    ) -> HTTPResponse | None:
        """Open a WebSocket with `dial` and return the response; `None` if HTTP must be used.

        Raises ProviderFailure if the WebSocket cannot be opened for a reason, such as a refused
        connection, that would make an HTTP request fail as well.
        """
        if self.given_up is None:
            try:
                response = await dial()
            except ProviderFailure as error:
                status = error.failure.status
                if status is None:
                    if error.failure.phase == "connect":
                        self.dropped()
                    raise
                self.given_up = f"refuses WebSockets (HTTP {status})"
            else:
                if response.status == SWITCHED:
                    return _SocketResponse(response, self)
                response.close()
                self.given_up = f"refuses WebSockets (HTTP {response.status})"
        call.notice("transport", f"{call.model.provider} {self.given_up}; HTTP is used")
        return None

    def dropped(self) -> None:
        """Record that a socket was closed before its answer was complete."""
        self.drops += 1
        if self.drops >= DROPS:
            self.given_up = f"dropped {self.drops} WebSockets"


class _SocketResponse:
    """The messages of one answer, converted to server-sent events."""

    def __init__(self, socket: HTTPResponse, sockets: Sockets) -> None:
        self.status = socket.status
        self.headers = socket.headers
        self._socket = socket
        self._sockets = sockets
        self._complete = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._complete:
            raise StopAsyncIteration
        try:
            message = await self._socket.__anext__()
        except (ProviderFailure, StopAsyncIteration):
            self._sockets.dropped()
            raise
        if _is_terminal(message):
            self._complete = True
            self._sockets.drops = 0
        line = message.replace(b"\r", b" ").replace(
            b"\n", b" "
        )  # in JSON, line breaks are only white space between tokens
        return b"data: " + line + b"\n\n"

    def close(self) -> None:
        self._socket.close()


def _is_terminal(message: bytes) -> bool:
    if not any(mark in message for mark in _MARKS):
        return False
    try:
        return _decode_type(message).type in TERMINAL
    except msgspec.DecodeError:
        return False
