"""The open tool calls of an answer, and the code that finds the call of each arriving fragment.

The fragments of parallel calls may arrive interleaved. The call of a fragment is found by the
provider's key, id and name. A fragment that has neither a key nor a known id belongs to the latest
call. The work is linear in the input: calls are found in dictionaries, and each piece of arguments
is scanned only once to find out whether the arguments are complete.
"""

from __future__ import annotations

import re
from collections.abc import Hashable

from attrs import define, field

from swink_core.providers.open_blocks import OpenBlock
from swink_core.vocabulary.messages import is_synthetic_id, parse_arguments

MAX_STRAY_WORK = 512 * 1024
"""The maximum number of characters of arguments that are processed to assign stray fragments.

A stray fragment has a key that does not belong to a call. To find the call that it completes,
arguments are scanned, joined and parsed. The limit applies to each answer separately.
"""

LOOK = 64
"""Examining one call counts as this many characters of the limit `MAX_STRAY_WORK`."""

# A bracket, or a string with its closing quote if present. Possessive, hence linear.
_find_tokens = re.compile(r'(?s)[{}\[\]]|"(?:[^"\\]++|\\.)*+("?)').finditer


@define(eq=False)
class ToolCall(OpenBlock):
    """A tool call that is being received; `index` is negative until the first event of the call.

    Brackets and quotes in the arguments are counted, to find the end of the JSON object.
    """

    id: str | None = None
    name: str | None = None
    named_before: bool = False  # the name arrived before the latest fragment
    parts: list[str] = field(factory=list)
    length: int = 0  # characters scanned
    _ended: bool = False  # the outermost bracket was closed
    _depth: int = 0
    _string: str = ""  # the unfinished string at the end of the last part
    _followed: int = 0  # number of parts scanned
    _whole: bool | None = None  # set when the outermost bracket was closed

    def is_complete(self) -> bool:
        """Return True if the arguments are a JSON object whose outermost bracket was closed."""
        if self._whole is None:
            self._follow()
            if self._ended:
                self._whole = parse_arguments("".join(self.parts)) is not None
        return bool(self._whole)

    def unread(self) -> int:
        """Return the number of characters that `can_end` has not scanned yet."""
        return sum(map(len, self.parts[self._followed :]))

    def can_end(self, closing: int, quotes: int) -> bool:
        """Return True if more text could complete the arguments.

        `closing` and `quotes` are the numbers of closing brackets and of quotes in that text.
        """
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
                self._string = '"' + text[found.end() :]  # may end in half an escape


class OpenCalls:
    """The open calls of an answer, in the order in which they began."""

    def __init__(self) -> None:
        self._open: dict[ToolCall, None] = {}
        self._by_key: dict[Hashable, ToolCall] = {}
        self._by_id: dict[str, ToolCall] = {}
        self._named: list[ToolCall] = []
        self._stray_work = 0

    def find(
        self, key: Hashable, id: str | None, name: str | None, arguments: str | None = None
    ) -> ToolCall | None:
        """Return the open call to which a fragment belongs; `None` if it begins a new call."""
        call = self._by_key.get(key) if key is not None else next(reversed(self._open), None)
        if id and (known := call if call and call.id == id else self._by_id.get(id)) is not None:
            if known not in self._open or (name and known.name not in (None, name)):
                return None
            opens = arguments is not None and arguments.lstrip().startswith("{")
            is_new_key = key is not None and call is None
            # some servers repeat id and name in each fragment, also after whole arguments
            begins = (name or opens) if is_new_key else (name and opens)
            return None if begins and known.is_complete() else known
        if call not in self._open:
            return None
        if id and call.id and not is_synthetic_id(call.id):
            return None  # a second id; but it may replace a generated one
        if name and call.name and (name != call.name or call.is_complete()):
            return None  # another name, or the same after whole arguments
        return call

    def of(self, key: Hashable) -> ToolCall | None:
        """Return the open call with a key, or `None`."""
        return call if (call := self._by_key.get(key)) in self._open else None

    def begin(self, key: Hashable) -> ToolCall:
        """Open a call."""
        call = ToolCall(key)
        self._open[call] = None
        if key is not None:
            self._by_key[key] = call
        return call

    def identify(self, call: ToolCall, id: str) -> int:
        """Record an id by which fragments may refer to a call. The first id becomes the call's id.

        Return by how many characters the content in memory has grown.
        """
        known = id in self._by_id
        call.id = call.id or id
        self._by_id[id] = call
        return 0 if known else len(id)

    def name(self, call: ToolCall, name: str) -> None:
        """Record the name of a call."""
        call.name = name
        self._named.append(call)

    def take_named(self) -> list[ToolCall]:
        """Return the calls whose name has become known since the last call of this method.

        The first event of these calls can now be written.
        """
        named = self._named
        self._named = []
        return [call for call in named if call.index < 0 and call in self._open]

    def close(self, call: ToolCall) -> None:
        """Remove a call from the open calls, because it gets no further fragments."""
        del self._open[call]

    def strays_first(self) -> list[ToolCall]:
        """Return the open calls; calls for which no event has been written come first."""
        return sorted(self._open, key=lambda call: call.index >= 0)

    def completed_by(self, stray: ToolCall) -> ToolCall | None:
        """Find the open call that `stray` completes, and add the arguments of `stray` to it.

        `stray` is a call without a name, which arises if the server changes the key of a call
        between two fragments. Return the completed call, or `None` if no call is completed.
        """
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
        """Count characters processed for stray fragments; False if they exceed `MAX_STRAY_WORK`."""
        self._stray_work += characters
        return self._stray_work <= MAX_STRAY_WORK
