"""Logging formatters that write a record as one line of JSON, or of key=value pairs (logfmt)."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any

__all__ = ["FORMATS", "JSONFormatter", "LogfmtFormatter"]

_BARE = re.compile(r"[\w.:/@+-]+")
"""Matches values that need no quotes in logfmt."""

_BREAKING = re.compile("[\x7f-\x9f\u2028\u2029]")
"""Matches control characters and line separators that JSON does not escape."""


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields to log for a record of any library."""
    fields = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname,
        "logger": record.name,
    }
    # records of other libraries have a message but none of swink's fields
    fields |= getattr(record, "swink", None) or {"event": record.getMessage()}
    if record.exc_info:
        fields["exception"] = logging.Formatter().formatException(record.exc_info)
    return fields


class JSONFormatter(logging.Formatter):
    """Formats a record as one JSON object on a line; times are in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return _json(_fields(record))


class LogfmtFormatter(logging.Formatter):
    """Formats a record as `key=value` pairs, quoted as in JSON if necessary; times are in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return pairs(_fields(record))


FORMATS: dict[str, type[logging.Formatter]] = {"json": JSONFormatter, "logfmt": LogfmtFormatter}


def pairs(fields: dict[str, Any]) -> str:
    """Return fields as logfmt. Values are escaped: they cannot end the line or imitate fields."""
    return " ".join(f"{name}={_value(value)}" for name, value in fields.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if _BARE.fullmatch(text) else _json(text)


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return _BREAKING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
