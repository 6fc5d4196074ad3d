"""JSON data in which one value is very large, as a faulty or hostile server may send it.

    for where, frame in inflated({"text": "Hi", "cites": [{"url": "a"}]}, 256 * 1024): ...

Each value is enlarged in every way that its type allows: as a text that repeats a character, a list
of many elements, a mapping of many names, a number of many digits, or deep nesting.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec

__all__ = ["NESTING", "TEXTS", "WHOLE", "inflated"]

TEXTS = ("x", "1", " ", "[", '{"a":', "1m", "try again in 1", "\\u00e9", "\\n", "<think>")
"""The texts that are repeated to make a long text, in the form in which JSON contains them."""

TAGS = frozenset({"type", "kind", "role", "object", "event", "status", "format"})
"""Names of fields that identify the kind of an object.

In an enlarged list, the values of these fields are the same in every element.
"""

NESTING = "nesting"
"""The name of deep nesting in the description of a variant.

The cost of nesting depends on the number of levels, not on the size.
"""

WHOLE = "all of it"
"""The place in the description of a variant whose large value replaces all data."""

NESTED = 600
"""The maximum number of nested pairs of levels inside a frame; each pair is a list and an object.

Decoders that recurse accept about 1,000 levels at most.
"""

_HERE, _AT, _NUMBER = "@@here", "@@at", "@@number"

_json = msgspec.json.encode


def inflated(
    data: Any, size: int, texts: Sequence[str] = TEXTS, only: Container[str] | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield variants of `data` in which one value is very large.

    Each variant is a description and about `size` bytes of JSON.

    `texts` are repeated to make long texts. In a list, only the first element is enlarged. If
    `only` is given, only the variants whose descriptions are in `only` are created.
    """
    for path, value in _places(data):
        place = ".".join(str(name) for name in path) or WHOLE
        levels = min(size // 12, NESTED) if path else size // 12
        for way, make in _ways(value, size, texts, levels):
            where = f"{place}: {way}"
            if only is None or where in only:
                around = _json(_put(data, path, _HERE))
                yield where, around.replace(b'"%s"' % _HERE.encode(), make(), 1)


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


def _ways(
    value: Any, size: int, texts: Sequence[str], levels: int
) -> Iterator[tuple[str, Callable[[], bytes]]]:
    yield NESTING, lambda: b'[{"a":' * levels + b"1" + b"}]" * levels
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
        yield "names", lambda: _names(size // 10)
    elif value:
        first, count = value[0], max(1, size // len(_json(value[0])))
        yield "the same", partial(_elements, first, count)
        if (texts_differ := _marked(first, False)) != first:
            yield "with other texts", partial(_elements, texts_differ, count)
        if (all_differ := _marked(first, True)) != texts_differ:
            yield "with other texts and numbers", partial(_elements, all_differ, count)


@lru_cache(maxsize=4)
def _text(piece: bytes, size: int) -> bytes:
    return b'"%s"' % (piece * (size // len(piece)))


@lru_cache(maxsize=2)
def _names(count: int) -> bytes:
    return b"{%s}" % b",".join(b'"n%d":1' % at for at in range(count))


def _elements(marked: Any, count: int) -> bytes:
    """Return the JSON of a list of `count` elements.

    In each element, the marks that `_marked` inserted are replaced by the element's number.
    """
    template = _json(marked).replace(b'"%s"' % _NUMBER.encode(), _AT.encode())
    parts = template.split(_AT.encode())
    if len(parts) == 1:
        return b"[%s]" % b",".join(parts * count)
    return b"[%s]" % b",".join((b"%d" % at).join(parts) for at in range(count))


def _marked(data: Any, numbers: bool) -> Any:
    """Return data with a mark in each text and, if `numbers` is true, in place of each integer."""
    match data:
        case str():
            return f"{data}{_AT}"
        case bool() | float():
            return data
        case int():
            return _NUMBER if numbers else data
        case list():
            return [_marked(value, numbers) for value in data]
        case dict():
            return {n: v if n in TAGS else _marked(v, numbers) for n, v in data.items()}
    return data
