"""Reports of values that a request leaves out or changes, collected during conversion.

Converters report each value here, block by block, and `Call.convert` turns the reports into
notices. The notices of a `Plan` are created before the conversion and do not pass through this
module.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TypeAlias

from swink_core.vocabulary.events import Notice
from swink_core.vocabulary.models import Model

Gathered: TypeAlias = dict[tuple[str, str], list[str]]
"""Paths of values, by the code and the text of their notice."""

_gathered: ContextVar[Gathered | None] = ContextVar("swink_changes", default=None)


def report_change(path: str, what: str, code: str = "content_left_out") -> None:
    """Report that the request leaves out or changes a value.

    `path` names the value as in `Notice.paths`; `what` says in a few words what happened to it.
    Values with the same code and text share one notice. Outside the conversion of a call, nothing
    is reported.
    """
    gathered = _gathered.get()
    if gathered is not None:
        gathered.setdefault((code, what), []).append(path)


def gather_changes() -> Token[Gathered | None]:
    """Begin to collect reports, until `gathered_notices` is called with the returned token."""
    return _gathered.set({})


def gathered_notices(token: Token[Gathered | None], model: Model) -> list[Notice]:
    """Return notices about the changes reported since `gather_changes`, for a call of `model`."""
    gathered = _gathered.get()
    _gathered.reset(token)
    notices: list[Notice] = []
    for (code, what), paths in gathered.items() if gathered else ():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        detail = f"{model}: {what} ({paths[0]}{more})"
        notices.append(Notice(code, detail, tuple(paths)))
    return notices
