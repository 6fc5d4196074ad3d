"""The details of a failure (`Failure`), and its kind (`Classification`)."""

from __future__ import annotations

from collections.abc import Mapping
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


@define
class Failure:
    """The details of a failure, before it is classified.

    `phase` is the step at which the attempt failed. `code`, `type` and `message` are copied from
    the provider's error, if it has them; `body` is the response body, cut to a maximum size. `kind`
    is set only if the core itself detected the failure, for example a time limit; otherwise, the
    failure is still to be classified. `title` and `resolution` tell people what happened and what
    to do; a plugin sets them if it can give better advice than the core.

    Raises ValueError for an unknown phase or kind, and TypeError for a status that is not an
    integer.
    """

    phase: Phase = field(validator=_check_phase)
    status: int | None = field(default=None, validator=_check_status)
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    exception: BaseException | None = field(default=None, repr=False)
    code: str | None = None
    type: str | None = None
    message: str | None = field(default=None, converter=converters.optional(str))
    request_id: str | None = None
    kind: StreamErrorKind | None = field(
        default=None, converter=converters.optional(StreamErrorKind)
    )
    retry_after: float | None = None
    title: str | None = None
    resolution: str | None = None


@define
class Classification:
    """The kind of a failure, and the waiting time that the server requested.

    `retry_after` is the waiting time in seconds, or `None` if the server did not request one.
    `code` is the provider's error code, or swink's own code for a failure that swink detected, or
    `None` if neither exists.
    """

    kind: StreamErrorKind
    retry_after: float | None = None
    code: str | None = None


class MalformedFrame(ValueError):
    """Raised by a parser for a frame that violates the wire format."""
