"""The access log: a line for each request with key, model, duration, tokens, cost and outcome.

Each request over a WebSocket has a line with the method `WEBSOCKET`; the end of the connection has
another line. Lines go to the logger `swink_gateway.access` at INFO, as text or as JSON. The lines
contain the names of the key and the model, but no text of a prompt or an answer, and no
credentials.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

from aiohttp import web
from attrs import define

from swink_core import EventStream, StopReason
from swink_gateway.policy.spending import COST_DIGITS

__all__ = [
    "ACCESS_LOGGER",
    "CALL",
    "FORMATS",
    "REFUSED",
    "SENT",
    "SHOWN_PATH",
    "STREAM",
    "WEBSOCKET",
    "AccessLog",
    "LogLine",
    "call_id",
    "forget_stream",
]

ACCESS_LOGGER = "swink_gateway.access"

log = logging.getLogger(ACCESS_LOGGER)

WEBSOCKET = "WEBSOCKET"
"""The method in the line of a request over a WebSocket."""

STREAM = web.RequestKey("stream", EventStream)
"""The request key under which the call for the request is stored, if there is one."""

SENT = web.RequestKey("sent", int)
"""The request key for the HTTP status of a streamed answer, set after the end was sent.

The log uses this status if the client disconnects before the handler returns the response.
"""

REFUSED = web.RequestKey("refused", str)
"""The request key for the kind of failure with which the gateway refused a request."""

SHOWN_PATH = web.RequestKey("shown_path", str)
"""The request key for the path to log, from which clients' keys have been removed."""

CALL = "x-swink-call"
"""The response header with the id of the call, which is also in the log."""

_CALL_ID = web.RequestKey("call_id", str)

PROBED = frozenset({"/health", "/metrics", "/ready"})
"""Paths that programs request every few seconds; they have lines only if they fail."""

FORMATS = ("text", "json")

CLIENT_LEFT = "client left"

FAILED = 400
"""The lowest status of a failed request."""


def call_id(request: web.Request) -> str:
    """Return the id of the call for a request; a request without a call gets its own id."""
    if (stream := request.get(STREAM)) is not None:
        return str(stream.call.id)
    if _CALL_ID not in request:
        request[_CALL_ID] = token_hex(6)
    return request[_CALL_ID]


def forget_stream(request: web.Request) -> None:
    """Keep only the id of a request's call, whose conversation may be large.

    An idle connection keeps its last request until the next one arrives.
    """
    request[_CALL_ID] = call_id(request)
    request.pop(STREAM, None)


@define
class LogLine:
    """The values of a line in the access log.

    `status` is `None` if the client left before the answer ended. `refused` is the kind of
    failure of a request that the gateway refused before a call. `call` is the id that the client
    received, if it received one.
    """

    call: str | None = None
    owner: str | None = None
    status: int | None = None
    stream: EventStream | None = None
    refused: str | None = None


@define(frozen=True)
class AccessLog:
    """Writes log lines in one format. `clock` measures durations; `now` returns the Unix time."""

    format: str = "text"
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time

    @contextmanager
    def line(self, request: web.Request, method: str) -> Iterator[LogLine]:
        """Write the line of an HTTP or WebSocket request when the `with` block ends."""
        began, at, line = self.clock(), self.now(), LogLine()
        try:
            yield line
        finally:
            path = request.get(SHOWN_PATH, request.path)
            if path not in PROBED or line.status is None or line.status >= FAILED:
                self._write(path, method, line, at, self.clock() - began)

    def _write(self, path: str, method: str, line: LogLine, at: float, seconds: float) -> None:
        row = {
            "at": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
            "key": line.owner,
            "method": method,
            "path": path,
            "status": line.status,
            "seconds": round(seconds, 3),
            **({"call": line.call} if line.call else {}),
            **({"ended": line.refused} if line.refused else {}),
            **_of_call(line.stream),
        }
        if line.status is None:
            row["ended"] = CLIENT_LEFT
        if self.format == "json":
            log.info("%s", json.dumps(row))
        else:
            log.info("%s", " ".join(f"{name}={_word(value)}" for name, value in row.items()))


def _of_call(stream: EventStream | None) -> dict[str, Any]:
    if stream is None:
        return {}
    call, message = stream.call, stream.message
    usage, dollars = call.usage, call.cost.total if call.cost else None
    ended = str(message.stop_reason) if message.stop_reason else CLIENT_LEFT
    if message.stop_reason is StopReason.ERROR and message.error_kind:
        ended = str(message.error_kind)
    acted = [name for guard in call.guards for name in getattr(guard, "acted", ())]
    return {
        "model": str(call.model),
        "call": call.id,
        **({"request_id": call.request_id} if call.request_id else {}),
        "attempts": call.attempts,
        "input": usage.input if usage else None,
        "output": usage.output if usage else None,
        "dollars": None if dollars is None else round(dollars, COST_DIGITS),
        **({"guards": acted} if acted else {}),
        "ended": ended,
    }


def _word(value: object) -> str:
    """Format a value as one word of a text line."""
    if value is None or value == "":
        return "-"
    text = ",".join(value) if isinstance(value, list) else str(value)
    return text if text.isprintable() and " " not in text and '"' not in text else json.dumps(text)
