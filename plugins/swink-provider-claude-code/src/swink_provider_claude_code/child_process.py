"""Run a command in a separate process group, so that its child processes end together with it.

Output is available as soon as the command writes it. The exit of the command is detected
independently of the end of output, because a surviving child process may keep the pipes open. A
process that leaves the group (`setsid`) survives, but the process has no file descriptors of the
program.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from swink_core import ProviderFailure
from swink_core.providers import LoopClock, end_group, not_started

GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL."""

REAP_SECONDS = 10.0
"""The maximum time, in seconds, to wait for the end of a process after it was killed."""

LAST_SECONDS = 0.5
"""The maximum time, in seconds, to wait for the rest of the output after a process has exited.

This output is already in the pipe.
"""

HELD_BYTES = 64 * 1024
COMPLAINT_BYTES = 4096


class ChildProcess(asyncio.SubprocessProtocol):
    """A running command. Iterating over the object yields the command's output until it exits.

    `complaint` is the last part of the command's standard error. `code` is the exit status (`None`
    while the process runs; negative for a signal). The caller must await `aclose()`.
    """

    @classmethod
    async def start(cls, command: Sequence[str], words: bytes = b"") -> Self:
        """Start a command with `words` as its standard input.

        Raises ProviderFailure if the command cannot be started.
        """
        loop = asyncio.get_running_loop()
        try:
            _, child = await loop.subprocess_exec(cls, *command, start_new_session=True)
        except (OSError, ValueError) as error:
            raise ProviderFailure(not_started(error, command[0])) from error
        stdin = child._transport.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        stdin.write(words)
        stdin.write_eof()
        return child

    def __init__(self) -> None:
        self._moved = asyncio.Event()
        self._exited = asyncio.Event()
        self._output: list[bytes] = []
        self._held = 0
        self._open = {1, 2}
        self.complaint = b""
        self.code: int | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        with suppress(TimeoutError):
            while not self._output and (self._open or self.code is None):
                self._moved.clear()
                async with LoopClock.limit(LAST_SECONDS if self._exited.is_set() else None):
                    await self._moved.wait()
        if not self._output:
            raise StopAsyncIteration
        data = b"".join(self._output)
        self._output.clear()
        self._flow(-len(data))
        return data

    async def aclose(self) -> None:
        """End the command and its child processes, by SIGTERM and then SIGKILL; close all pipes."""
        try:
            for force, seconds in ((False, GRACE_SECONDS), (True, REAP_SECONDS)):
                if not self._exited.is_set():
                    end_group(self._transport.get_pid(), force)
                    with suppress(TimeoutError):
                        async with LoopClock.limit(seconds):
                            await self._exited.wait()
        finally:
            if not self._exited.is_set():  # this was cancelled a second time
                end_group(self._transport.get_pid(), force=True)
            stdin = self._transport.get_pipe_transport(0)
            if isinstance(stdin, asyncio.WriteTransport) and stdin.get_write_buffer_size():
                stdin.abort()  # closing would wait for a reader
            self._transport.close()

    def _flow(self, count: int) -> None:
        """Add `count` to the number of unread bytes.

        The output is paused while more than `HELD_BYTES` are unread.
        """
        self._held += count
        stdout = self._transport.get_pipe_transport(1)
        assert isinstance(stdout, asyncio.ReadTransport)
        if self._held > HELD_BYTES:
            stdout.pause_reading()
        else:
            stdout.resume_reading()

    # -- called by the event loop ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the process."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Store output."""
        if fd == 1:
            self._output.append(data)
            self._flow(len(data))
            self._moved.set()
        else:
            self.complaint = (self.complaint + data)[-COMPLAINT_BYTES:]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Record the end of an output stream."""
        self._open.discard(fd)
        self._moved.set()

    def process_exited(self) -> None:
        """Record that the process exited, and end its remaining child processes."""
        self.code = self._transport.get_returncode()
        if sys.platform != "win32":  # Windows has no groups, and may reuse the id at once
            end_group(self._transport.get_pid(), force=True)
        self._exited.set()
        self._moved.set()
