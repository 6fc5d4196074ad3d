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
from typing import Any

from aiohttp import web
from attrs import define

from swink_core import EventStream, StopReason

__all__ = [
    "ACCESS_LOGGER",
    "FORMATS",
    "REFUSED",
    "SENT",
    "SHOWN_PATH",
    "STREAM",
    "WEBSOCKET",
    "AccessLog",
    "LogLine",
]

ACCESS_LOGGER = "swink_gateway.access"

log = logging.getLogger(ACCESS_LOGGER)

WEBSOCKET = "WEBSOCKET"
"""The method in the line of a request over a WebSocket."""

STREAM = web.RequestKey("stream", EventStream)
"""The request key under which the call for the request is stored, if there is one."""

SENT = web.RequestKey("sent", int)
"""The request key for the status of a streamed answer whose end was sent.

The client may disconnect then, which cancels the handler before it returns the response.
"""

REFUSED = web.RequestKey("refused", str)
"""The request key for the kind of failure with which the gateway refused a request."""

SHOWN_PATH = web.RequestKey("shown_path", str)
"""The request key for the path to log, from which clients' keys have been removed."""

FORMATS = ("text", "json")

CLIENT_LEFT = "client left"


@define
class LogLine:
    """The values of a line in the access log.

    `status` is `None` if the client left before the answer ended. `refused` is the kind of
    failure of a request that the gateway refused before a call.
    """

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
        """Write the line of a request, HTTP or WebSocket, at the end of the block."""
        began, at, line = self.clock(), self.now(), LogLine()
        try:
            yield line
        finally:
            path = request.get(SHOWN_PATH, request.path)
            self._write(path, method, line, at, self.clock() - began)

    def _write(self, path: str, method: str, line: LogLine, at: float, seconds: float) -> None:
        row = {
            "at": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
            "key": line.owner,
            "method": method,
            "path": path,
            "status": line.status,
            "seconds": round(seconds, 3),
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
    usage, cost = call.usage, call.cost
    ended = str(message.stop_reason) if message.stop_reason else CLIENT_LEFT
    if message.stop_reason is StopReason.ERROR and message.error_kind:
        ended = str(message.error_kind)
    acted = [name for guard in call.guards for name in getattr(guard, "acted", ())]
    return {
        "model": str(call.model),
        "call": call.id,
        "attempts": call.attempts,
        "input": usage.input if usage else None,
        "output": usage.output if usage else None,
        "dollars": cost.total if cost else None,
        **({"guards": acted} if acted else {}),
        "ended": ended,
    }


def _word(value: object) -> str:
    """Format a value as one word of a text line."""
    if value is None or value == "":
        return "-"
    text = ",".join(value) if isinstance(value, list) else str(value)
    return text if text.isprintable() and " " not in text and '"' not in text else json.dumps(text)
