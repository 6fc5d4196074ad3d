"""Parse a response with several answers (choices), which the request field `n` asks for.

The frames of several choices are interleaved. Choice 0 is the message; `ChatParser` reads it from
frames that contain nothing of the other choices. Each other choice becomes one extension of the
kind `choice` at the end of the answer, even if the stream is truncated. The data of the extension
has the form of a choice in a response that is not streamed. Pieces of a choice are merged as
OpenAI's SDK merges them: texts are joined, list items with the same `index` are merged, and other
list items are appended.

The response is complete when all choices are complete. Therefore the parser of choice 0 gets the
finish reason of choice 0 only when all choices have one. A server may ignore `n` and send fewer
choices; then the usage after the choices, or `[DONE]`, completes the response. If choices have no
finish reason, `[DONE]` completes the response only if the usage has arrived after their content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from swink_core import ExtensionBlock, StreamOptions
from swink_core.providers import EventWriter, MalformedFrame
from swink_provider_openai.finish import BROKEN_OFF, ERROR_FINISH
from swink_provider_openai.parser import DONE
from swink_provider_openai.usage import follows_content

__all__ = ["answers_of", "with_several"]

MOST_ANSWERS = 128
"""The maximum number of answers that a request can ask for."""

MOST_LEVELS = 100
"""The maximum depth of nested data in a piece of a choice."""

MOST_PIECES = 8192
"""The maximum number of pieces that are stored for a text. More pieces are joined into one."""

_WORDS = frozenset({"format", "id", "name", "role", "signature", "type"})
"""Text fields that are replaced, not appended to: some servers repeat their value in each chunk."""

_ENDS = ("finish_reason", "native_finish_reason", "stop_reason")


def answers_of(options: StreamOptions) -> int:
    """Return the number of requested answers, from 1 to `MOST_ANSWERS`."""
    count = options.extra.get("n")
    if isinstance(count, str) and count.isdecimal():
        count = int(count)
    if not isinstance(count, int | float) or count != count:  # not a number
        return 1
    return int(min(max(count, 1), MOST_ANSWERS))


def with_several(parser: Any, count: int) -> Any:
    """Return a parser for a response with `count` answers; `parser` parses the first answer."""
    return _Parser(parser, count) if count > 1 else parser


class _Parser:
    """Passes frames with choice 0 to another parser, and collects the other choices."""

    def __init__(self, parser: Any, count: int) -> None:
        self._parser = parser
        self._others = _Others(count)
        self._finish: bytes | None = None  # a frame with the finish reason of choice 0
        self._counted = False
        self.writer = partial(_Writer, self._others)

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of a frame to `out`."""
        data = _decoded(frame)
        choices, usage = data.get("choices"), data.get("usage")
        if isinstance(choices, list) and any(map(_has_content, choices)):
            self._counted = False
        elif isinstance(usage, dict):
            self._counted = self._counted or follows_content(usage, choices, out)
        if not isinstance(choices, list):
            if frame.strip() == DONE:
                self._complete(out, is_end=True)
                if not (self._counted or out.stopped):
                    out.finish()
                    return
            self._parser.feed(frame, out)
            return
        first, others = _split(choices)
        for choice in others:
            out.hold(self._others.add(choice))
        shown = [self._without_finish(choice) for choice in first]
        if others or shown != first:
            frame = msgspec.json.encode({**data, "choices": shown})
        self._parser.feed(frame, out)
        if not choices and self._counted and not self._others.unfinished:
            self._complete(out, is_end=True)
        else:
            self._complete(out)

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Read an answer that was not streamed, and report its content to `out`."""
        data = msgspec.json.decode(body)
        choices = data.get("choices") if isinstance(data, dict) else None
        first, others = _split(choices if isinstance(choices, list) else [])
        found = {self._others.index_of(choice): choice for choice in others}
        if others:
            body = msgspec.json.encode({**data, "choices": first})
        self._parser.buffered(body, out)
        for _, choice in sorted(found.items()):
            _rename_calls(choice, out.names)
            out.extension(ExtensionBlock.CHOICE, choice)

    def _without_finish(self, choice: Any) -> Any:
        """Remove and store the finish reason of choice 0 while other choices are incomplete."""
        reason = choice.get("finish_reason") if isinstance(choice, dict) else None
        if not isinstance(reason, str) or not reason or self._others.are_complete:
            return choice
        if reason == ERROR_FINISH or reason.lower() in BROKEN_OFF:
            return choice  # the answer fails at once
        end = {name: choice[name] for name in _ENDS if name in choice}
        self._finish = msgspec.json.encode({"choices": [{"index": 0, "delta": {}, **end}]})
        return {**choice, "finish_reason": None}

    def _complete(self, out: EventWriter, is_end: bool = False) -> None:
        """Pass the stored finish reason of choice 0 to its parser if all choices are complete.

        `is_end` means that no further data follows. In this case, a choice may lack its finish
        reason if the usage has arrived after all content; a notice then reports the number of such
        choices.
        """
        if self._finish is None or out.stopped:
            return
        unfinished = self._others.unfinished
        if is_end and unfinished and self._counted:
            out.notice("stop_reason", f"{unfinished} answers ended without a finish reason")
        elif not (self._others.are_complete or (is_end and not unfinished)):
            return
        frame, self._finish = self._finish, None
        self._parser.feed(frame, out)


class _Writer(EventWriter):
    """A writer that adds the other choices after all blocks, however the answer ends."""

    def __init__(self, others: _Others, *about: str) -> None:
        super().__init__(*about)
        self._others = others

    def close(self) -> None:
        """Close every open block, and write the other choices."""
        super().close()
        size, found = self._others.take()
        self.hold(-size)
        for choice in found:
            _rename_calls(choice, self.names)
            self.extension(ExtensionBlock.CHOICE, choice)


class _Others:
    """The choices of a response except choice 0, by index; `count` is the number of all choices."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._found: dict[int, _Choice] = {}
        self._finished = 0
        self._size = 0

    def index_of(self, choice: dict[str, Any]) -> int:
        """Return the index of a choice.

        Raises MalformedFrame if the index is not below the number of requested answers.
        """
        index = choice["index"]
        if isinstance(index, int | float) and index == index // 1 and 0 < index < self._count:
            return int(index)
        raise MalformedFrame(f"a choice has the index {index!r:.40}; {self._count} were requested")

    def add(self, choice: dict[str, Any]) -> int:
        """Add a piece of a choice, and return the number of characters in the piece.

        Raises MalformedFrame for an invalid index, or for data that is nested too deep.
        """
        index = self.index_of(choice)
        size = _size(choice, 0)
        found = self._found.get(index)
        if found is None:
            found = self._found[index] = _Choice()
        before = found.is_finished
        found.add(choice)
        self._finished += found.is_finished - before
        self._size += size
        return size

    @property
    def unfinished(self) -> int:
        """The number of choices that have begun and have no finish reason."""
        return len(self._found) - self._finished

    @property
    def are_complete(self) -> bool:
        """Whether all requested choices are finished."""
        return self._finished == self._count - 1

    def take(self) -> tuple[int, list[dict[str, Any]]]:
        """Return the number of received characters, and the choices with content; reset both."""
        size, found = self._size, sorted(self._found.items())
        self._size = self._finished = 0
        self._found = {}
        return size, [choice.whole(index) for index, choice in found if choice.has_content]


class _Choice:
    """A choice that is being received."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"role": "assistant"}
        self._logprobs: Any = None
        self._rest: dict[str, Any] = {"finish_reason": None}
        self.has_content = False

    @property
    def is_finished(self) -> bool:
        return bool(self._rest["finish_reason"])

    def add(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            _merge(self._message, delta)
            self.has_content = self.has_content or _has_content(choice)
        self._logprobs = _merged("logprobs", self._logprobs, choice.get("logprobs"))
        for name, value in choice.items():
            if value is not None and name not in ("delta", "index", "logprobs", "message"):
                self._rest[name] = value
        self.has_content = self.has_content or self.is_finished

    def whole(self, index: int) -> dict[str, Any]:
        """Return the choice in the form that it has in a response that is not streamed."""
        message = _plain(self._message)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                call.pop("index", None)
        logprobs = _plain(self._logprobs)
        return {"index": index, "message": message, "logprobs": logprobs, **self._rest}


def _rename_calls(choice: dict[str, Any], names: Mapping[str, str]) -> None:
    """Replace the names of called tools by the caller's names.

    `names` maps the names in the request to the caller's names.
    """
    message = choice.get("message")
    calls = message.get("tool_calls") if names and isinstance(message, dict) else None
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and function.get("name") in names:
            function["name"] = names[function["name"]]


def _decoded(frame: bytes) -> dict[str, Any]:
    """Decode a frame; return `{}` if it is not a JSON object.

    The parser of choice 0 gets the same frame and reports the error.
    """
    try:
        data = msgspec.json.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return data if isinstance(data, dict) else {}


def _has_content(choice: Any) -> bool:
    """Return True if a piece of a choice contains more than a role or a finish reason."""
    delta = choice.get("delta") if isinstance(choice, dict) else None
    return isinstance(delta, dict) and any(v for name, v in delta.items() if name != "role")


def _split(choices: list[Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """Split the choices of a frame into pieces of choice 0 and pieces of the other choices."""
    first: list[Any] = []
    others: list[dict[str, Any]] = []
    for choice in choices:
        if isinstance(choice, dict) and choice.get("index"):
            others.append(choice)
        else:
            first.append(choice)
    return first, others


# -- merging ---------------------------------------------------------------------------------------


class _Text(list[str]):
    """The pieces of a text; many pieces are joined to one."""

    def add(self, piece: str) -> None:
        self.append(piece)
        if len(self) > MOST_PIECES:
            self[:] = ["".join(self)]


class _Items:
    """The items of a list that arrives in pieces; items with the same `index` are merged."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._places: dict[int | float, int] = {}

    def add(self, item: Any) -> None:
        index = item.get("index") if isinstance(item, dict) else None
        if not isinstance(index, int | float):
            self.items.append(item)
            return
        place = self._places.get(index)
        if place is None or _differ(self.items[place], item):
            place = self._places[index] = len(self.items)
            self.items.append({})
        _merge(self.items[place], item)


def _differ(held: dict[str, Any], item: dict[str, Any]) -> bool:
    """Return True if two items with the same index have different ids or types.

    Such items are separate, not pieces of one item.
    """
    both = ((held.get(name), item.get(name)) for name in ("id", "type"))
    return any(one and other and one != other for one, other in both)


def _merge(held: dict[str, Any], piece: dict[str, Any]) -> None:
    for name, value in piece.items():
        held[name] = _merged(name, held.get(name), value)


def _merged(name: str, held: Any, value: Any) -> Any:
    """Merge a new value of the field `name` into the value so far, `held` (`None`: none)."""
    if value is None:
        return held
    if isinstance(value, str):
        if name in _WORDS:
            return value if value or held is None else held
        text = held if isinstance(held, _Text) else _Text()
        text.add(value)
        return text
    if isinstance(value, dict):
        fields = held if isinstance(held, dict) else {}
        _merge(fields, value)
        return fields
    if isinstance(value, list):
        items = held if isinstance(held, _Items) else _Items()
        for item in value:
            items.add(item)
        return items
    return value


def _plain(held: Any) -> Any:
    """Convert the collected pieces of a choice (`_Text`, `_Items`) to plain JSON data."""
    if isinstance(held, _Text):
        return "".join(held)
    if isinstance(held, _Items):
        return [_plain(item) for item in held.items]
    if isinstance(held, dict):
        return {name: _plain(value) for name, value in held.items()}
    return held


def _size(data: Any, level: int) -> int:
    """Return the size of data in characters. Raises MalformedFrame if it is nested too deep."""
    if isinstance(data, str):
        return len(data)
    if not isinstance(data, dict | list):
        return 1
    if level > MOST_LEVELS:
        raise MalformedFrame("a choice is nested too deep")
    values: Iterator[Any] = iter(data.values() if isinstance(data, dict) else data)
    return sum(_size(value, level + 1) for value in values)
