"""Limits on the requests of clients, and a JSON reader that enforces them."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import msgspec

from swink_gateway.protocols import Asked, BadRequest, ClientProtocol

__all__ = [
    "COPIES", "MOST_BLOCKS", "MOST_BODY_BYTES", "MOST_DEPTH", "MOST_DIGITS", "MOST_ELEMENTS",
    "MUCH_MEMORY_BYTES", "asked_of", "asks_for_logprobs", "check_sealed", "json_of",
    "least_memory", "memory_of",
]  # fmt: skip

MOST_BODY_BYTES = 32 * 1024 * 1024
"""The size limit of a request in bytes.

A coding agent's request has at least 40 kB; a request with images has several MB.
"""

COPIES = 3
"""The number of copies of a body in memory, in addition to its parsed JSON data.

The copies are the body as received, the body sent to a provider, and the write buffer.
"""

MUCH_MEMORY_BYTES = 1024 * 1024
"""A request that takes more bytes of memory than this is processed in threads."""

MOST_ELEMENTS = 500_000
"""The limit for opening brackets in a body, because each object or list takes memory.

Brackets in strings count as well.
"""

MOST_DEPTH = 100
"""The limit for nested objects and lists, because they are processed recursively."""

MOST_CONTAINERS = 100_000
"""The limit for objects and lists in a parsed body, which are processed in the event loop."""

MOST_VALUES = 200_000
"""The limit for the values in the objects and lists of a body, without the numbers in lists."""

_NUMBERS = frozenset({int, float})

MOST_FIELDS = 1_000
"""The limit for the fields of a body, of which each is compared with several tables."""

MOST_DIGITS = 640
"""The limit for the digits of an integer. The parsing time is quadratic in the number of digits.

640 is the lowest limit that `sys.set_int_max_str_digits` accepts.
"""

MOST_NAME = 500
"""The limit for a model's name in characters; answers, logs and errors repeat the name."""

MOST_BLOCKS = 10_000
"""The limit for messages, blocks and tools, which are all processed before a provider is called."""


MOST_SEALED_BYTES = 32 * 1024 * 1024
"""The limit in bytes for the memory that the sealed data of one request may take.

Sealed data is data that the gateway encoded into a string of an earlier answer. It is decoded only
when the request is read, so `memory_of` cannot count it.
"""

_WITH_LOGPROBS = frozenset({"generationconfig", "generation_config", "options"})
"""Fields, in lower case, that contain the options of a request in the APIs of Google and Ollama."""

_sealed: ContextVar[list[int]] = ContextVar("sealed")
"""The memory of the sealed data that has been read so far from the current request, in bytes."""

_MEMORY = ((b"{", 180), (b"[", 64), (b'"', 28), (b",", 34))
"""How many bytes an object, a list, a quote and a value take in CPython, in addition to the text.

Measured with msgspec's decoder; tests check that the estimate is never too low.
"""

_WIDE = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4", b"\\ud", b"\\uD")
"""The beginnings of characters beyond U+FFFF in JSON: UTF-8 bytes, and prefixes of escapes."""


def least_memory(size: int) -> int:
    """Return the least memory in bytes that a request with a body of `size` bytes takes."""
    return (COPIES + 1) * size


def memory_of(body: bytes) -> int:
    """Estimate the memory in bytes that a request takes, without parsing its body."""
    return COPIES * len(body) + _width(body) * len(body) + _memory_of_values(body)


def _memory_of_values(text: bytes) -> int:
    """Estimate the memory in bytes that the values of a JSON text take, without their text."""
    return sum(text.count(of) * size for of, size in _MEMORY)


def _width(body: bytes) -> int:
    """Return the number of bytes (1, 2 or 4) that Python stores per character of a body.

    The widest character determines the number.
    """
    if body.isascii() and b"\\u" not in body:
        return 1
    return 4 if any(part in body for part in _WIDE) else 2


def check_sealed(text: bytes) -> None:
    """Add `text` to the request's sealed data (see `sealing`) and check its total size.

    Raises BadRequest if the total exceeds `MOST_SEALED_BYTES`.
    """
    taken = _sealed.get([0])
    taken[0] += len(text) + _memory_of_values(text)
    if taken[0] > MOST_SEALED_BYTES:
        raise BadRequest("the data that the gateway has sealed in the answers is too large")


def json_of(body: bytes) -> Any:
    """Parse JSON, whatever the media type. Raises BadRequest for invalid or too large JSON."""
    if body.count(b"{") + body.count(b"[") > MOST_ELEMENTS:
        raise BadRequest(f"the body has more than {MOST_ELEMENTS} objects and lists")
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from error
    _check_size(data)
    return data


def _check_size(data: Any) -> None:
    """Raise BadRequest for data with too many levels or values; works without recursion."""
    level = [data] if isinstance(data, dict | list) else []
    containers = 0
    values = 0
    for _ in range(MOST_DEPTH):
        containers += len(level)
        if containers > MOST_CONTAINERS:
            raise BadRequest(f"the body has more than {MOST_CONTAINERS} objects and lists")
        values += sum([len(one) for one in level if isinstance(one, dict)])
        listed = [v for one in level if isinstance(one, list) for v in one]
        values += sum([type(value) not in _NUMBERS for value in listed])
        if values > MOST_VALUES:
            raise BadRequest(f"the body has more than {MOST_VALUES} values")
        inner = [v for one in level if isinstance(one, dict) for v in one.values()]
        level = [value for value in (*inner, *listed) if isinstance(value, dict | list)]
        if not level:
            return
    raise BadRequest(f"the body is nested too deeply: more than {MOST_DEPTH} levels")


def _check_fields(fields: Any) -> None:
    """Raise BadRequest for an object with more fields than any API has."""
    if isinstance(fields, Mapping) and len(fields) > MOST_FIELDS:
        raise BadRequest(f"the body has more than {MOST_FIELDS} fields")


def asked_of(
    protocol: ClientProtocol, data: Any, path: Mapping[str, str], headers: Mapping[str, str]
) -> Asked:
    """Parse the JSON data of a request.

    Raises BadRequest for a request that is invalid or exceeds a limit.
    """
    _sealed.set([0])
    _check_fields(data)
    asked = protocol.read(data, path, headers)
    _check_fields(asked.options.get("extra"))
    _check_fields(asked.extra)
    if len(asked.model) > MOST_NAME:
        raise BadRequest(f"the name of the model has more than {MOST_NAME} characters")
    if not asked.model.isprintable():
        raise BadRequest("the name of the model has characters that cannot be printed")
    contents = [message.content for message in asked.context.messages]
    blocks = sum(1 if isinstance(content, str) else len(content) for content in contents)
    if max(blocks, len(contents)) + len(asked.context.tools) > MOST_BLOCKS:
        raise BadRequest(f"the conversation has more than {MOST_BLOCKS} messages and blocks")
    return asked


def asks_for_logprobs(fields: Any) -> bool:
    """Return True if fields of a request, in any API, may ask for log probabilities."""
    return isinstance(fields, Mapping) and any(
        ("logprobs" in name.casefold() and bool(value))
        or (name == "include" and "logprobs" in str(value))
        or (name.casefold() in _WITH_LOGPROBS and asks_for_logprobs(value))
        for name, value in fields.items()
    )
