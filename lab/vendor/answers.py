"""An answer, and the steps in which it is produced: one for each token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lab.vendor import tokens

__all__ = ["Answer", "Call", "Choice", "Part", "Refusal", "Step", "Stop", "Text", "Thought"]

Stop = Literal["stop", "length", "tools", "filter", "sequence", "pause"]


@dataclass(frozen=True, slots=True)
class Thought:
    """A thought of the model; `redacted` thoughts leave the vendor only encrypted."""

    text: str
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """Text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Text with which the model declines."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool; `text` is its arguments as JSON."""

    name: str
    text: str
    id: str = ""


Part = Thought | Text | Refusal | Call


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer of several; `stop_sequence` is the one that ended it."""

    parts: tuple[Part, ...]
    stop: Stop
    stop_sequence: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One moment of production.

    `delta` steps carry a piece of text and its tokens. `end` closes a choice. `index` counts the
    parts of a choice. `close` of the last part has the choice's `stop` already.
    """

    kind: Literal["open", "delta", "close", "end"]
    choice: int
    index: int = 0
    part: Part | None = None
    text: str = ""
    tokens: int = 0
    stop: Stop = "stop"
    stop_sequence: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """All choices of an answer."""

    choices: tuple[Choice, ...] = field(default_factory=tuple)

    def steps(self) -> Iterator[Step]:
        """Yield the steps of production; those of several choices alternate."""
        running = [_steps_of(at, choice) for at, choice in enumerate(self.choices)]
        while running:
            for each in list(running):
                step = next(each, None)
                if step is None:
                    running.remove(each)
                else:
                    yield step


def _steps_of(at: int, choice: Choice) -> Iterator[Step]:
    for index, part in enumerate(choice.parts):
        yield Step("open", at, index, part)
        for text, number in tokens.pieces(part.text):
            yield Step("delta", at, index, part, text, number)
        is_last = index == len(choice.parts) - 1
        yield Step("close", at, index, part, stop=choice.stop if is_last else "stop")
    last: Sequence[Part] = choice.parts[-1:]
    yield Step(
        "end",
        at,
        len(choice.parts),
        last[0] if last else None,
        stop=choice.stop,
        stop_sequence=choice.stop_sequence,
    )
