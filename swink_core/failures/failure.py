"""The raw facts of a failure, and what they mean."""

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
    """The raw facts of a failure, before anyone says what they mean.

    `phase` is how far the attempt had come. `code`, `type` and `message` are the provider's own,
    where its error had such parts; `body` is the response body, capped. `kind` is set only where
    the core itself made the failure (a time limit, a cut stream) and so knows what it is. `title`
    and `resolution` tell people what happened and what to do, where a plugin knows better than
    the core's general advice.

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
    """The meaning of a failure.

    `retry_after` is in seconds, `None` without a known wait. `code` is the provider's own error
    code, or that of the code that found the failure; `None` without one.
    """

    kind: StreamErrorKind
    retry_after: float | None = None
    code: str | None = None


class MalformedFrame(ValueError):
    """Raised by a parser for a frame that is not what its wire format allows."""
