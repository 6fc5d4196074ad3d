"""Answers that somebody saved: what `curl -i` printed, or the body of a stream alone."""

from __future__ import annotations

import re

from swink_core import UsageError
from swink_recorder.recording import Recording

__all__ = ["saved_answer"]

_HEAD = b"HTTP/"

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")

_SENT_OR_TOLD = (b"* ", b"> ", b"< ")
"""How lines begin that `curl -v` adds."""

_OF_CURL = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that say how the body came, which curl has undone."""


def saved_answer(data: bytes, provider: str, model: str, content_type: str) -> Recording:
    """Return the recording of an answer of `provider/model`, as far as it was saved.

    Of several heads (a redirect, a proxy's, `100 Continue`) the last one counts. Without any, it is
    an answer of status 200 and of this content type. Raises UsageError for what is no answer.
    """
    status, headers = 200, {"Content-Type": content_type}
    body = data.lstrip()
    if body.startswith(_SENT_OR_TOLD):
        raise _unread("it holds what curl -v tells besides", "Save what curl -i prints.")
    while body.startswith(_HEAD):
        head, body = [*_BLANK_LINE.split(body, 1), b""][:2]
        status, headers = _head(head)
    if not body.strip():
        raise _unread("it has no body", "Save the answer with its body: curl -i -N.")
    if body.startswith(b"\x1f\x8b"):
        raise _unread("its body is compressed", "Save it with curl --compressed.")
    return Recording(provider, model, body, [(0.0, len(body))], status=status, headers=headers)


def _head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").splitlines()
    status = first.split(" ")[1:2]
    if not status or not status[0].isdigit():
        raise _unread(f"{first!r:.60} is no status line", "Save what curl -i prints.")
    named = (line.partition(":") for line in lines)
    headers = {name.strip(): value.strip() for name, _, value in named}
    return int(status[0]), {n: v for n, v in headers.items() if n.lower() not in _OF_CURL}


def _unread(why: str, resolution: str) -> UsageError:
    return UsageError(
        f"the saved answer cannot be read: {why}",
        title="Nothing was recorded",
        resolution=resolution,
    )
