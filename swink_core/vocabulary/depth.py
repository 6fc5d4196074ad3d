"""The maximum nesting of JSON data.

Decoding JSON, `swink_core.dump`, comparison, `copy.deepcopy` and `repr` are all recursive. Of
these, `dump` needs the most stack: three frames for each level of the data, and Python allows 1,000
frames by default. For data of at most `MAX_DEPTH` levels, these functions work even if much of the
stack is already in use.
"""

from __future__ import annotations

import re

MAX_DEPTH = 128
"""The maximum depth of nested arrays and objects that is accepted from a provider."""

SHALLOW_SIZE = 2 * MAX_DEPTH
"""JSON with at most this many bytes has at most `MAX_DEPTH` levels: a level needs two bytes."""

# A string, with its closing quote if present. Possessive, hence linear.
_remove_strings = re.compile(rb'(?s)"(?:[^"\\]++|\\.)*+"?').sub

_ONE_KIND = bytes.maketrans(b"{}", b"[]")

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def is_too_deep(text: bytes | str) -> bool:
    """Return True if JSON text is nested deeper than `MAX_DEPTH`.

    Returns False for text with unbalanced brackets, which is not JSON. The time is linear in the
    length of the text.
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
