"""Generate numbers within bounds, and texts within lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

from swink_provider_echo.nodes import Node, kind_of, nothing

__all__ = ["is_within", "number_of", "text_of"]

_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")


def is_within(node: Node, value: float) -> bool:
    """Return True if a number is within the bounds of a node."""
    low, excludes_low = _bound(node, "minimum", "exclusiveMinimum", max)
    high, excludes_high = _bound(node, "maximum", "exclusiveMaximum", min)
    exact = _exact(value)
    step = _exact(node.get("multipleOf") or 0)
    is_high_enough = low is None or exact > low or (exact == low and not excludes_low)
    is_low_enough = high is None or exact < high or (exact == high and not excludes_high)
    return is_high_enough and is_low_enough and (not step or (exact / step).denominator == 1)


def number_of(node: Node, wanted: int, number: int, place: str) -> float:
    """Return the number within a node's bounds that is nearest to `wanted`.

    `number` selects a different result: for 0 the nearest number, for 1 the next number after it,
    and so on. Raises NoSample if the bounds exclude each other.
    """
    low, excludes_low = _bound(node, "minimum", "exclusiveMinimum", max)
    high, excludes_high = _bound(node, "maximum", "exclusiveMaximum", min)
    step = _step(node, low, high, number)
    first = None if low is None else math.ceil(low / step)
    last = None if high is None else math.floor(high / step)
    if first is not None and excludes_low and first * step == low:
        first += 1
    if last is not None and excludes_high and last * step == high:
        last -= 1
    if first is not None and last is not None and first > last:
        bounds = {name: node[name] for name in _BOUNDS if name in node}
        raise nothing(place, f"no {kind_of(node)} is within {bounds}")
    exact = step * _counted(round(wanted / step), first, last, number)
    return int(exact) if exact.denominator == 1 else float(exact)


def _step(node: Node, low: Fraction | None, high: Fraction | None, number: int) -> Fraction:
    """Return the distance between consecutive generated numbers.

    The distance is a whole number, unless the bounds then contain too few numbers.
    """
    multiple = _exact(node.get("multipleOf") or 0)
    if kind_of(node) == "integer":
        return Fraction(multiple.numerator or 1)  # the least whole multiple
    if multiple:
        return multiple
    step = Fraction(1)
    if low is None or high is None:
        return step
    if low == high:
        return abs(low) or step
    while step * 4 * (number + 1) > high - low > 0:
        step /= 10
    return step


def _bound(
    node: Node, keyword: str, exclusive: str, tighter: Callable[..., Fraction]
) -> tuple[Fraction | None, bool]:
    """Return one bound (`None`: unlimited), and whether the bound itself is excluded."""
    including, excluding = node.get(keyword), node.get(exclusive)
    if isinstance(excluding, bool):  # before draft 6: True excludes the value of the other keyword
        including, excluding = (None, including) if excluding else (including, None)
    if excluding is None:
        return (None if including is None else _exact(including)), False
    if including is None:
        return _exact(excluding), True
    bound = tighter(_exact(including), _exact(excluding))
    return bound, bound == _exact(excluding)


def _exact(number: float) -> Fraction:
    return Fraction(str(number))


def _counted(start: int, first: int | None, last: int | None, number: int) -> int:
    """Return the whole number that is `number` steps from `start`, within the bounds.

    With both bounds, counting continues at `first` after `last`. With only `last`, the steps go
    down.
    """
    if first is not None and last is not None:
        begin = min(max(start, first), last)
        return first + (begin - first + number) % (last - first + 1)
    if last is not None:
        return min(start, last) - number
    return (start if first is None else max(start, first)) + number


def text_of(text: str, shortest: int, longest: int, write: Callable[[str], str], place: str) -> str:
    """Repeat or cut a text until `write(text)` has the required length, and return this result.

    The required length is `shortest` to `longest` characters. Raises NoSample if no text gives a
    result of this length.
    """
    for part in _parts(text, shortest, longest):
        written = write(part)
        if shortest <= len(written) <= longest:
            return written
    raise nothing(place, f"no text has {shortest} to {longest} characters")


def _parts(text: str, shortest: int, longest: int) -> Iterator[str]:
    yield text
    words = text.strip() or "echo"
    words = " ".join([words] * (shortest // (len(words) + 1) + 2))
    if shortest:
        yield _cut(words, max(shortest, min(len(text.strip()), longest)))
    # base64 writes four characters for three bytes
    for size in range(min(len(words), longest), max(0, longest * 3 // 16) - 1, -1):
        yield _cut(words, size)


def _cut(words: str, size: int) -> str:
    """Return the first `size` characters of a text, with `_` in place of a space at the end.

    Some string types would remove the space, and the text would then be too short.
    """
    cut = words[:size]
    return cut if cut == cut.rstrip() else f"{cut[:-1]}_"
