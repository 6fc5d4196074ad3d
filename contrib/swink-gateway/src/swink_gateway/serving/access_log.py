"""The access log: a line for each request with key, model, duration, tokens, cost and outcome.

Lines go to the logger `swink_gateway.access` at INFO, as text or as JSON. They contain the names of
the key and the model, but no text of a prompt or an answer, and no credentials.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web
from attrs import define

from swink_core import EventStream, StopReason

__all__ = ["ACCESS_LOGGER", "FORMATS", "STREAM", "AccessLog"]

ACCESS_LOGGER = "swink_gateway.access"

log = logging.getLogger(ACCESS_LOGGER)

STREAM = web.RequestKey("stream", EventStream)
"""The request key for the call that was made for it, if any."""

FORMATS = ("text", "json")

CLIENT_LEFT = "client left"


@define(frozen=True)
class AccessLog:
    """Writes log lines in one format; `clock` measures seconds."""

    format: str = "text"
    clock: Callable[[], float] = time.monotonic

    def write(
        self, request: web.Request, owner: str | None, began: float, status: int | None
    ) -> None:
        """Write the line of a request.

        `status` is `None` if the client disconnected before an answer.
        """
        row = {
            "key": owner,
            "method": request.method,
            "path": request.path,
            "status": status,
            "seconds": round(self.clock() - began, 3),
            **_of_call(request.get(STREAM)),
        }
        if status is None:
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
    return {
        "model": str(call.model),
        "call": call.id,
        "attempts": call.attempts,
        "input": usage.input if usage else None,
        "output": usage.output if usage else None,
        "dollars": cost.total if cost else None,
        "ended": ended,
    }


def _word(value: object) -> str:
    """Format a value as one word of a text line."""
    if value is None or value == "":
        return "-"
    text = str(value)
    return text if text.isprintable() and " " not in text and '"' not in text else json.dumps(text)
