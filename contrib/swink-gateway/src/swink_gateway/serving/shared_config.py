"""The last good configuration, shared by the workers and inherited by their replacements.

    shared = SharedConfig(text)       # in the parent, before it forks
    shared.write(other)             # in a worker that has begun to use another text
    shared.read()                   # in a worker that begins

The text may contain secrets. The text is kept in an anonymous file in memory if the system supports
that, otherwise in a temporary file without a name. The text is never part of arguments or of the
environment, and child processes that providers start do not inherit it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import tempfile

from swink_gateway.policy.config import MOST_BYTES

__all__ = ["SharedConfig"]

log = logging.getLogger(__name__)

_HEAD = struct.Struct(">QI32s")
"""A slot's header: the number of the write, the text's length in bytes, and its SHA-256 digest."""

_SLOT = _HEAD.size + MOST_BYTES


class SharedConfig:
    """A configuration text in a file that forked processes share.

    Writes alternate between two slots. If a process dies during a write, the other slot stays
    valid.
    """

    def __init__(self, text: str) -> None:
        if hasattr(os, "memfd_create"):
            self._file = os.fdopen(os.memfd_create("swink-gateway-config"), "w+b")
        else:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 – open as long as this object
        self._store(0, text)

    def read(self) -> str:
        """Return the text that was written last."""
        return max(self._slots())[1]

    def write(self, text: str) -> None:
        """Replace the text. A file system error is logged, and the old text stays."""
        import fcntl  # Windows lacks it, and does not fork

        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                number, before = max(self._slots())
                if text != before:
                    self._store(number + 1, text)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)
        except OSError as error:
            log.warning("restarted workers will use the old configuration: %s", error)

    def _slots(self) -> list[tuple[int, str]]:
        """Return the slots with a complete text, each with the sequence number of the write."""
        found: list[tuple[int, str]] = []
        for slot in range(2):
            head = os.pread(self._file.fileno(), _HEAD.size, slot * _SLOT)
            if len(head) < _HEAD.size:
                continue
            number, length, digest = _HEAD.unpack(head)
            data = os.pread(self._file.fileno(), length, slot * _SLOT + _HEAD.size)
            if hashlib.sha256(data).digest() == digest:
                found.append((number, data.decode()))
        return found

    def _store(self, number: int, text: str) -> None:
        data = text.encode()
        head = _HEAD.pack(number, len(data), hashlib.sha256(data).digest())
        os.pwrite(self._file.fileno(), head + data, number % 2 * _SLOT)
