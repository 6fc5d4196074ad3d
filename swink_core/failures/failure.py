"""The details of a failure (`Failure`), and its kind (`Classification`)."""

from __future__ import annotations

from collections.abc import Mapping
from sys import float_info
from typing import Any, Literal, get_args

from attrs import converters, define, field

from swink_core.vocabulary.outcome import StreamErrorKind

Phase = Literal["connect", "request", "first_event", "streaming", "finalize"]


PHASES = get_args(Phase)


def _check_phase(failure: Failure, attribute: Any, phase: object) -> None:
    if phase not in PHASES:
        raise ValueError(f"Unknown phase {phase!r}. Use one of {', '.join(PHASES)}.")


def _check_status(failure: Failure, attribute: Any, status: object) -> None:
    if status is not None and not isinstance(status, int):
        raise TypeError(f"The status must be an integer or None, not {status!r}.")


def _wait(seconds: float | None) -> float | None:
    """Return a waiting time for `retry_after`: 0 if the moment has passed.

    Raises TypeError for a value that is not a number, and ValueError for one that is not finite.
    """
    if seconds is None:
        return None
    if not isinstance(seconds, float | int):
        raise TypeError(f"retry_after must be a number of seconds or None, not {seconds!r}.")
    if not abs(seconds) <= float_info.max:
        raise ValueError(f"retry_after must be a finite number of seconds, not {seconds!r}.")
    return max(seconds, 0.0)


@define
class Failure:
    """The details of a failure, before it is classified.

    `phase` is the step at which the attempt failed. `code`, `type` and `message` are copied from
    the provider's error, if it has them; `body` is the response body, cut to a maximum size. `kind`
    is set only if the core itself detected the failure, for example a time limit; otherwise, the
    failure is still to be classified. `title` and `resolution` tell people what happened and what
    to do; a plugin sets them if it can give better advice than the core.

    Raises ValueError for an unknown phase or kind and for a `retry_after` that is not finite, and
    TypeError for a status that is not an integer and a `retry_after` that is not a number.
    """

    phase: Phase = field(validator=_check_phase)
    status: int | None = field(default=None, validator=_check_status)
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    exception: BaseException | None = field(default=None, repr=False)
    code: str | None = field(default=None, converter=converters.optional(str))
    type: str | None = None
    message: str | None = field(default=None, converter=converters.optional(str))
    request_id: str | None = None
    kind: StreamErrorKind | None = field(
        default=None, converter=converters.optional(StreamErrorKind)
    )
    retry_after: float | None = field(default=None, converter=_wait)
    title: str | None = None
    resolution: str | None = None


@define
class Classification:
    """The kind of a failure, and the waiting time that the server requested.

    `retry_after` is the waiting time in seconds, or `None` if the server did not request one.
    `code` is the provider's error code, or swink's own code for a failure that swink detected, or
    `None` if neither exists.

    Raises ValueError for an unknown kind and for a `retry_after` that is not finite, and TypeError
    for a `retry_after` that is not a number.
    """

    kind: StreamErrorKind = field(converter=StreamErrorKind)
    retry_after: float | None = field(default=None, converter=_wait)
    code: str | None = field(default=None, converter=converters.optional(str))


class MalformedFrame(ValueError):
    """Raised by a parser for a frame that violates the wire format."""
