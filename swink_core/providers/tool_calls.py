"""The tool calls of an answer that are open, and which of them a fragment belongs to.

Fragments of parallel calls interleave on the wire. The provider's key, id and name decide, never
"the latest" where there is a key. The work is linear in the input: calls are found by dictionary,
and whether arguments are whole is followed piece by piece instead of parsed with every fragment.
"""

from __future__ import annotations

import re
from collections.abc import Hashable

from attrs import define, field

from swink_core.providers.open_blocks import OpenBlock
from swink_core.vocabulary.messages import is_synthetic_id, parse_arguments

MAX_STRAY_WORK = 512 * 1024
"""Characters of arguments that are read, joined or parsed for the stray fragments of an answer."""

LOOK = 64
"""Characters that one comparison of a fragment with a call counts as."""

# A bracket, or a string with its closing quote if that is there. Possessive, hence linear.
_find_tokens = re.compile(r'(?s)[{}\[\]]|"(?:[^"\\]++|\\.)*+("?)').finditer


@define(eq=False)
class ToolCall(OpenBlock):
    """A call being received. Its index is negative until it is announced.

    Its arguments are followed by their brackets and strings, to find where the object ends.
    """

    id: str | None = None
    name: str | None = None
    named_before: bool = False  # in an earlier fragment than the last
    parts: list[str] = field(factory=list)
    length: int = 0  # characters that were followed
    _ended: bool = False  # the outermost bracket was closed
    _depth: int = 0
    _string: str = ""  # how a string begins that the next part goes on with
    _followed: int = 0  # parts
    _whole: bool | None = None  # known when the outermost bracket was closed

    def is_complete(self) -> bool:
        """Tell whether the arguments are a whole object where its outermost bracket is closed."""
        if self._whole is None:
            self._follow()
            if self._ended:
                self._whole = parse_arguments("".join(self.parts)) is not None
        return bool(self._whole)

    def unread(self) -> int:
        """Count the characters that `can_end` has not read yet."""
        return sum(map(len, self.parts[self._followed :]))

    def can_end(self, closing: int, quotes: int) -> bool:
        """Tell whether text with so many closing brackets and quotes may end the arguments."""
        self._follow()
        return not self._ended and closing >= self._depth and bool(quotes or not self._string)

    def _follow(self) -> None:
        fresh = self.parts[self._followed :]
        self._followed += len(fresh)
        for part in fresh:
            self.length += len(part)
            self._follow_part(part)

    def _follow_part(self, part: str) -> None:
        text = self._string + part
        self._string = ""
        for found in _find_tokens(text):
            token = found[0]
            if token in ("{", "["):
                self._depth += 1
            elif token in ("}", "]"):
                self._depth -= 1
                if self._depth <= 0:
                    self._ended = True
                    break
            elif not found[1]:
                self._string = '"' + text[found.end() :]  # half an escape, perhaps


class OpenCalls:
    """The open calls of an answer, in the order in which they began."""

    def __init__(self) -> None:
        self._open: dict[ToolCall, None] = {}
        self._by_key: dict[Hashable, ToolCall] = {}
        self._by_id: dict[str, ToolCall] = {}
        self._named: list[ToolCall] = []
        self._stray_work = 0

    def find(self, key: Hashable, id: str | None, name: str | None) -> ToolCall | None:
        """Return the open call that a fragment belongs to; `None` if it begins one."""
        call = self._by_key.get(key) if key is not None else next(reversed(self._open), None)
        if id and (known := call if call and call.id == id else self._by_id.get(id)) is not None:
            fits = known in self._open and (not name or known.name in (None, name))
            return known if fits else None
        if call not in self._open:
            return None
        if id and call.id and not is_synthetic_id(call.id):
            return None  # a second id; one that comes after ours was made up is the first
        if name and call.name and (name != call.name or call.is_complete()):
            return None  # another name, or the same name again after whole arguments
        return call

    def of(self, key: Hashable) -> ToolCall | None:
        """Return the open call of a key."""
        return call if (call := self._by_key.get(key)) in self._open else None

    def begin(self, key: Hashable) -> ToolCall:
        """Open a call."""
        call = ToolCall(key)
        self._open[call] = None
        if key is not None:
            self._by_key[key] = call
        return call

    def identify(self, call: ToolCall, id: str) -> int:
        """Note an id that fragments may name a call by, the first being its own; return by how
        many characters that is more to keep."""
        known = id in self._by_id
        call.id = call.id or id
        self._by_id[id] = call
        return 0 if known else len(id)

    def name(self, call: ToolCall, name: str) -> None:
        """Note the name of a call."""
        call.name = name
        self._named.append(call)

    def take_named(self) -> list[ToolCall]:
        """Return the calls that may be announced, once."""
        named = self._named
        self._named = []
        return [call for call in named if call.index < 0 and call in self._open]

    def close(self, call: ToolCall) -> None:
        """Take a call out: nothing more belongs to it."""
        del self._open[call]

    def strays_first(self) -> list[ToolCall]:
        """Return the open calls, those before the rest that were never announced."""
        return sorted(self._open, key=lambda call: call.index >= 0)

    def completed_by(self, stray: ToolCall) -> ToolCall | None:
        """Return the announced call that fragments under a drifted key complete, having
        given it the fragments."""
        tail = "".join(stray.parts)
        closing = tail.count("}") + tail.count("]")
        quotes = tail.count('"')
        for call in self._open if closing else ():
            if not self._is_affordable(LOOK):
                break
            if call.index < 0:
                continue
            if not self._is_affordable(call.unread()):
                break
            if not call.can_end(closing, quotes):
                continue
            if not self._is_affordable(call.length + len(tail)):
                break
            if parse_arguments("".join((*call.parts, tail))) is not None:
                call.parts.append(tail)
                return call
        return None

    def _is_affordable(self, characters: int) -> bool:
        """Count characters read for fragments without a call; tell whether the limit is kept."""
        self._stray_work += characters
        return self._stray_work <= MAX_STRAY_WORK
