"""JSON data made large in one of its places: what a hostile server sends.

    for where, frame in inflated({"text": "Hi", "cites": [{"url": "a"}]}, 256 * 1024): ...

A place is inflated in every way that its value allows: text of one character over and over, a list
of many elements, a mapping of many names, a number of many digits, nesting without end.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

__all__ = ["TEXTS", "inflated", "numbered"]

TEXTS = ("x", "1", " ", "[", '{"a":', "1m", "try again in 1", "\\u00e9", "\\n", "<think>")
"""What a long text repeats, as it stands in JSON."""

TAGS = frozenset({"type", "kind", "role", "object", "event", "status", "format"})
"""Names whose values say what a mapping is, and stay as they are in every element."""

_HERE, _TEXT, _NUMBER = "@@here", "@@text", "@@number"

_json = msgspec.json.encode


def inflated(
    data: Any, size: int, texts: Sequence[str] = TEXTS, only: Container[str] | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield data as JSON of about `size` bytes, with the place and the way that are meant.

    `texts` are what long texts repeat. Of the elements of a list the first stands for all. Nothing
    is made but what is in `only`, where that is given.
    """
    for path, value in _places(data):
        place = ".".join(str(name) for name in path) or "all of it"
        before, _, after = _json(_put(data, path, _HERE)).partition(b'"%s"' % _HERE.encode())
        for way, make in _ways(value, size, texts):
            where = f"{place}: {way}"
            if only is None or where in only:
                yield where, before + make() + after


def numbered(data: Any, count: int, *, numbers: bool = False) -> list[bytes]:
    """Return data as JSON so many times, each time with other texts, and with other whole
    `numbers` where that is asked for."""
    template = _json(_marked(data, numbers))
    number = b'"%s"' % _NUMBER.encode()
    return [
        template.replace(number, b"%d" % at).replace(_TEXT.encode(), b"%d" % at)
        for at in range(count)
    ]


def _places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    yield path, data
    if isinstance(data, dict):
        for name, value in data.items():
            yield from _places(value, (*path, name))
    elif isinstance(data, list) and data:
        yield from _places(data[0], (*path, 0))


def _put(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    name, *rest = path
    copied = dict(data) if isinstance(data, dict) else list(data)
    copied[name] = _put(data[name], tuple(rest), value)
    return copied


def _ways(value: Any, size: int, texts: Sequence[str]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    depth = size // 12
    yield "nesting", lambda: b'[{"a":' * depth + b"1" + b"}]" * depth
    if isinstance(value, str):
        for text in texts:
            piece = text.replace('"', '\\"').encode()
            yield f"text of {text!r}", partial(_text, piece, size)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield "digits", lambda: b"1" * size
        yield "decimals", lambda: b"0." + b"1" * size
    elif isinstance(value, dict):
        names = range(size // 10)
        yield "names", lambda: b"{%s}" % b",".join(b'"n%d":1' % at for at in names)
    elif value:
        first, count = value[0], max(1, size // len(_json(value[0])))
        yield "the same", lambda: _list([_json(first)] * count)
        yield "with other texts", lambda: _list(numbered(first, count))
        numbers = "with other texts and numbers"
        yield numbers, lambda: _list(numbered(first, count, numbers=True))


def _text(piece: bytes, size: int) -> bytes:
    return b'"%s"' % (piece * (size // len(piece)))


def _list(elements: list[bytes]) -> bytes:
    return b"[%s]" % b",".join(elements)


def _marked(data: Any, numbers: bool) -> Any:
    match data:
        case str():
            return f"{data}{_TEXT}"
        case bool() | float():
            return data
        case int():
            return _NUMBER if numbers else data
        case list():
            return [_marked(value, numbers) for value in data]
        case dict():
            return {n: v if n in TAGS else _marked(v, numbers) for n, v in data.items()}
    return data
