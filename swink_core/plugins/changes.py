"""Reports of values that a request leaves out or changes, collected during conversion.

Converters report each value here, block by block, and `Call.convert` turns the reports into
notices. A plan has its own notices, made before the conversion.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from swink_core.vocabulary.events import Notice
from swink_core.vocabulary.models import Model

_gathered: ContextVar[dict[tuple[str, str], list[str]] | None] = ContextVar(
    "swink_changes", default=None
)


def report_change(path: str, what: str, code: str = "content_left_out") -> None:
    """Report that the request leaves out or changes a value.

    `path` names the value as `Notice.paths` does; `what` says in a few words what became of it.
    Values with the same code and words become one notice. Without a call that is being converted,
    nothing is reported.
    """
    gathered = _gathered.get()
    if gathered is not None:
        gathered.setdefault((code, what), []).append(path)


@contextmanager
def gathered_changes(model: Model) -> Iterator[list[Notice]]:
    """Gather what converters report within the block, for a call of `model`.

    The list that the block gets holds the notices after it.
    """
    notices: list[Notice] = []
    gathered: dict[tuple[str, str], list[str]] = {}
    token = _gathered.set(gathered)
    try:
        yield notices
    finally:
        _gathered.reset(token)
    for (code, what), paths in gathered.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        detail = f"{model}: {what} ({paths[0]}{more})"
        notices.append(Notice(code, detail, tuple(paths)))
