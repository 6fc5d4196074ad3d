"""Reports of values that a request leaves out or changes, collected during conversion.

Converters call `report_change` for each such value, and `Call.convert` turns the reports into
notices. This module does not handle the notices of a `Plan`, which are created before the
conversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from typing import TypeAlias

from swink_core.vocabulary.events import Notice
from swink_core.vocabulary.models import Model

Gathered: TypeAlias = dict[tuple[str, str], list[str]]
"""Maps the code and the text of a notice to the paths of the values that the notice reports."""

_gathered: ContextVar[Gathered | None] = ContextVar("swink_changes", default=None)


def report_change(path: str, what: str, code: str = "content_left_out") -> None:
    """Report that the request leaves out or changes a value.

    `path` names the value as in `Notice.paths`; `what` says in a few words what happened to the
    value. Reports with the same `code` and `what` become one notice. If no call is being converted,
    do nothing.
    """
    gathered = _gathered.get()
    if gathered is not None:
        gathered.setdefault((code, what), []).append(path)


def gather_changes() -> Token[Gathered | None]:
    """Begin to collect reports, until `gathered_notices` is called with the returned token."""
    return _gathered.set({})


def gathered_notices(token: Token[Gathered | None], model: Model) -> list[Notice]:
    """Return notices about the changes reported since `gather_changes` returned `token`.

    The text of a notice begins with the name of `model`.
    """
    gathered = _gathered.get()
    _gathered.reset(token)
    changes = gathered.items() if gathered else ()
    return [notice_of(model, code, what, paths) for (code, what), paths in changes]


def notice_of(model: Model, code: str, what: str, paths: Sequence[str]) -> Notice:
    """Return a notice that the request to `model` leaves out or changes the values at `paths`."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return Notice(code, f"{model}: {what} ({paths[0]}{more})", tuple(paths))
