"""Conversations and answers, independent of any API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["NOT_JSON", "Call", "Entry", "Failed", "Result", "Said", "Seen", "User", "said_of"]

NOT_JSON = "INVALID_JSON"
"""The field of an object that holds arguments which are not JSON."""


@dataclass(frozen=True, slots=True)
class User:
    """A message of the user: texts, and PNG images between them and the end."""

    texts: tuple[str, ...]
    images: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool. `arguments` is `None` where `raw` is not the JSON of an object."""

    id: str
    name: str
    arguments: dict[str, Any] | None
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the model. `native` is the form that the caller's API gave it in."""

    text: str
    calls: tuple[Call, ...] = ()
    native: Any = None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call."""

    id: str
    name: str
    text: str
    is_error: bool = False


Entry = User | Said | Result


@dataclass(frozen=True, slots=True)
class Failed:
    """A failure as its caller gets it.

    From the library `kind` and the name of the exception, from the gateway the `status` of the
    response (200 for a failure within the stream) and the `code` and `type` of the error's body.
    """

    kind: str | None = None
    exception: str | None = None
    status: int | None = None
    code: str | None = None
    type: str | None = None
    message: str = ""
    attempts: int = 1


@dataclass(slots=True)
class Seen:
    """The answer that a caller gets to one request. Missing counts of tokens are `None`.

    `charge` and `reserved` are those of a call that was left, in US dollars.
    `left` is set when the caller hung up. `named` are the paths of fields that were left out or
    changed, as far as the caller gets to know.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    stop: str | None = None
    usage: dict[str, int | None] = field(default_factory=dict)
    cost: float | None = None
    estimated: bool = False
    charge: float | None = None
    reserved: float | None = None
    failed: Failed | None = None
    left: bool = False
    named: tuple[str, ...] = ()
    native: Any = None
    choices: int = 1
    problems: list[str] = field(default_factory=list)


def said_of(seen: Seen) -> Said:
    """Return an answer as an entry of the conversation."""
    return Said(seen.text, seen.calls, seen.native)
