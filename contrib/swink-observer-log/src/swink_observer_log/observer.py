"""`LogObserver`: logs the progress of calls, at these levels.

    ERROR    the call has failed, after all retries
    WARNING  the call is retried with the same model or the next one; or a notice reports a problem
    INFO     the call has begun; the call is complete, or its caller has closed it
    DEBUG    the events of the call, without their content

Prompts and answers are never logged. Credentials in error messages of providers are hidden.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import swink_core as swink
from swink_observer_log.formats import FORMATS, pairs
from swink_observers.calls import CallObserver, CallState, Delta

__all__ = ["LogObserver", "from_environment"]

FORMAT_ENV = "SWINK_LOG"
"""The environment variable that enables the log: `json` or `logfmt`."""

LEVEL_ENV = "SWINK_LOG_LEVEL"
"""The environment variable with the lowest level that is logged (default: INFO)."""

TROUBLE = frozenset({"buffered", "malformed_frame", "target_passed_over"})
"""The codes of notices that are logged as warnings."""

MOST_CHARACTERS = 1_000
"""How many characters of a provider's error message are logged at most."""

_ELLIPSIS = "…"


class LogObserver(CallObserver["_Call"]):
    """Logs calls to `logger`, by default the logger `swink_observer_log`.

    The attribute `swink` of a log record is a dict of all fields; the message contains the same
    fields as logfmt. `hide` is a function from text to text, for example one that removes mail
    addresses. The function is applied, after credentials have been hidden, to every text that may
    come from a provider.
    """

    name = "log"

    def __init__(
        self, logger: logging.Logger | None = None, *, hide: Callable[[str], str] = str
    ) -> None:
        super().__init__()
        self._logger = logger or logging.getLogger("swink_observer_log")
        self._hide = hide

    def watch(self, call: swink.Call) -> _Call | None:
        """Log that a call begins. Return `None` if the logger is disabled even for errors."""
        if not self._logger.isEnabledFor(logging.ERROR):
            return None
        return _Call(call, self._logger, self._hide)


class _Call(CallState):
    """Logs the events of one call. The log level is read once, when the call begins."""

    def __init__(
        self, call: swink.Call, logger: logging.Logger, hide: Callable[[str], str]
    ) -> None:
        super().__init__()
        self._logger = logger
        self._hide = hide
        self.deltas = logger.isEnabledFor(logging.DEBUG)
        self._log(logging.INFO, "call begins", call, session=call.options.session_id)

    def event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Log an event other than a delta."""
        match event:
            case swink.Done():
                self._log(logging.INFO, "call done", call, **self._end(event, call))
            case swink.Error():
                self._failed(event, call)
            case swink.Retry():
                self._retried(event, call)
            case swink.Notice(code=code, detail=detail) if self.deltas or code in TROUBLE:
                level = logging.WARNING if code in TROUBLE else logging.DEBUG
                self._log(level, "notice", call, code=code, detail=self._said(detail, call))
            case _ if self.deltas:
                index = getattr(event, "content_index", None)
                self._log(logging.DEBUG, event.type, call, block=index)

    def delta(self, event: Delta, call: swink.Call) -> None:
        """Log the size of a delta."""
        index, size = event.content_index, len(event.delta)
        self._log(logging.DEBUG, event.type, call, block=index, characters=size)

    def _retried(self, event: swink.Retry, call: swink.Call) -> None:
        is_fallback = event.model != str(call.model)
        self._log(
            logging.WARNING,
            "fallback" if is_fallback else "retry",
            call,
            attempt=call.attempt.number,
            next_model=event.model if is_fallback else None,
            delay_s=round(event.delay, 3),
            kind=event.error_kind,
            error=self._said(event.error, call),
            request=call.request_id,
        )

    def _failed(self, event: swink.Error, call: swink.Call) -> None:
        end = self._end(event, call)
        if event.stop_reason is swink.StopReason.ABORTED:
            self._log(logging.INFO, "call closed", call, **end)
            return
        self._log(
            logging.ERROR,
            "call failed",
            call,
            kind=event.error_kind,
            error=self._said(event.error_message, call),
            status=event.status,
            phase=event.phase,
            **end,
        )

    def _end(self, event: swink.Done | swink.Error, call: swink.Call) -> dict[str, Any]:
        usage, cost = call.usage or swink.Usage(), call.cost or swink.Cost()
        return {
            "stop": event.stop_reason,
            "attempts": call.attempts,
            "seconds": _seconds(call.started_at, call.ended_at),
            "first_event_s": _seconds(call.attempt.started_at, call.attempt.first_event_at),
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cached_tokens": usage.cache_read,
            "cost_usd": None if cost.total is None else round(cost.total, 9),
            "cost_estimated": cost.estimated or None,
            "cached": self.cached or None,
            "response": event.response_id,
            "request": event.request_id,
        }

    def _said(self, text: str, call: swink.Call) -> str:
        """Redact and shorten a text that comes from outside, such as from a provider."""
        text = self._hide(call.redact(text))
        if len(text) > MOST_CHARACTERS:
            text = text[:MOST_CHARACTERS] + _ELLIPSIS
        return text

    def _log(self, level: int, event: str, call: swink.Call, **fields: Any) -> None:
        logger = self._logger
        if logger.isEnabledFor(level):
            known = {"event": event, "call": call.id, "model": str(call.model)}
            known |= {name: value for name, value in fields.items() if value is not None}
            message = (_Lazily(known),)
            # `Logger.log` would search the stack for its caller, which is always this line
            made = logger.makeRecord(
                logger.name, level, __file__, 0, "%s", message, None, None, {"swink": known}
            )
            logger.handle(made)


class _Lazily:
    """A dict of fields whose text is only computed when a log formatter needs it."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return pairs(self._fields)


def _seconds(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else round(end - start, 6)


def from_environment(environ: Mapping[str, str] | None = None) -> LogObserver | None:
    """Return an observer that writes to stderr, if `SWINK_LOG` names a format.

    If the program has already added a handler to the logger, no other handler is added. Raises
    UsageError for an unknown format or level.
    """
    environ = os.environ if environ is None else environ
    name = environ.get(FORMAT_ENV, "")
    if not name:
        return None
    level = environ.get(LEVEL_ENV, "INFO").upper()
    if name not in FORMATS or level not in logging.getLevelNamesMapping():
        raise swink.UsageError(
            f"{FORMAT_ENV} is {name!r} and {LEVEL_ENV} is {level!r}",
            resolution=f"{FORMAT_ENV} is {' or '.join(FORMATS)}, {LEVEL_ENV} one of logging's.",
        )
    logger = logging.getLogger("swink_observer_log")
    if not any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        handler = logging.StreamHandler()
        handler.setFormatter(FORMATS[name]())
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False  # a handler of the root logger would write each line again
    return LogObserver(logger)
