"""How deeply JSON may be nested.

The decoder, `swink_core.dump`, comparison, `copy.deepcopy` and `repr` all recurse. `dump` uses
most of the interpreter's stack: three frames for each level of 1,000 that Python allows. Data of
at most `MAX_DEPTH` levels therefore pass through all of them, also from code that is called deep
in the stack.
"""

from __future__ import annotations

import re

MAX_DEPTH = 128
"""The most arrays and objects inside each other that are accepted from a provider."""

SHALLOW_SIZE = 2 * MAX_DEPTH
"""JSON of at most so many bytes cannot be nested deeper than `MAX_DEPTH`: each level takes two."""

# A string, with its closing quote if it has one. Possessive, hence linear.
_remove_strings = re.compile(rb'(?s)"(?:[^"\\]++|\\.)*+"?').sub

_ONE_KIND = bytes.maketrans(b"{}", b"[]")

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def is_too_deep(text: bytes | str) -> bool:
    """Tell whether JSON text is nested deeper than `MAX_DEPTH`.

    The result for text with unbalanced brackets, which is no JSON, is false. The work is linear.
    """
    if len(text) <= SHALLOW_SIZE:
        return False
    if isinstance(text, str):
        if text.count("[") + text.count("{") <= MAX_DEPTH:
            return False
        text = text.encode("utf-8", "surrogatepass")
    elif text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    brackets = _remove_strings(b"", text).translate(_ONE_KIND, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):  # each round removes the innermost level of every branch
        outer = brackets.replace(b"[]", b"")
        if len(outer) == len(brackets):
            return False
        brackets = outer
    return bool(brackets)
