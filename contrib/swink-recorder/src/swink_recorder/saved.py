"""Convert the saved output of `curl -i`, or the saved body of a stream, to a recording."""

from __future__ import annotations

import re

from swink_core import UsageError
from swink_recorder.recording import Recording

__all__ = ["saved_answer"]

_HEAD = b"HTTP/"

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")

_SENT_OR_TOLD = (b"* ", b"> ", b"< ")
"""The beginnings of lines that `curl -v` adds to a saved response."""

_OF_CURL = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers about encodings that curl has already decoded."""


def saved_answer(data: bytes, provider: str, model: str, content_type: str) -> Recording:
    """Return the recording of a saved answer of `provider/model`.

    If the data contains several response heads (of a redirect, of a proxy, or `100 Continue`), the
    last head is used. Without a head, the status is 200 and the content type is `content_type`.
    Raises UsageError for a file that is not an answer.
    """
    status, headers = 200, {"Content-Type": content_type}
    body = data.lstrip()
    if body.startswith(_SENT_OR_TOLD):
        raise _unread("it contains the additional output of curl -v", "Save the output of curl -i.")
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
        raise _unread(f"{first!r:.60} is not a status line", "Save the output of curl -i.")
    named = (line.partition(":") for line in lines)
    headers = {name.strip(): value.strip() for name, _, value in named}
    return int(status[0]), {n: v for n, v in headers.items() if n.lower() not in _OF_CURL}


def _unread(why: str, resolution: str) -> UsageError:
    return UsageError(
        f"the saved answer cannot be read: {why}",
        title="Nothing was recorded",
        resolution=resolution,
    )
