"""Run a command in a separate process group, so that its child processes can be ended with it.

Output is available as soon as the command writes it. The exit of the command is detected
independently of the end of its output, because a surviving child process may hold the pipes open. A
process that leaves the group (`setsid`) survives, but it holds none of our file descriptors.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from swink_core import ProviderFailure
from swink_core.providers import end_group, not_started

GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL."""

REAP_SECONDS = 10.0
"""How long the system may take to end a process that was killed."""

LAST_SECONDS = 0.5
"""How long the output of a process that has exited may take to come: it is in the pipe already."""

HELD_BYTES = 64 * 1024
COMPLAINT_BYTES = 4096


class ChildProcess(asyncio.SubprocessProtocol):
    """A running command. Iterating yields what it writes to standard output, until it exits.

    `complaint` is the end of standard error. `code` is the exit status (`None` while the process
    runs; negative for a signal). The caller must await `aclose()`.
    """

    @classmethod
    async def start(cls, command: Sequence[str], words: bytes = b"") -> Self:
        """Run a command with `words` on its standard input. Raises ProviderFailure."""
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
                async with asyncio.timeout(LAST_SECONDS if self._exited.is_set() else None):
                    await self._moved.wait()
        if not self._output:
            raise StopAsyncIteration
        data = b"".join(self._output)
        self._output.clear()
        self._flow(-len(data))
        return data

    async def aclose(self) -> None:
        """End it and what it started, first by asking, and give everything back."""
        try:
            for force, seconds in ((False, GRACE_SECONDS), (True, REAP_SECONDS)):
                if not self._exited.is_set():
                    end_group(self._transport.get_pid(), force)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(seconds):
                            await self._exited.wait()
        finally:
            if not self._exited.is_set():  # a second cancellation
                end_group(self._transport.get_pid(), force=True)
            stdin = self._transport.get_pipe_transport(0)
            if isinstance(stdin, asyncio.WriteTransport) and stdin.get_write_buffer_size():
                stdin.abort()  # closing would wait for a reader
            self._transport.close()

    def _flow(self, count: int) -> None:
        """Read no further ahead of a slow reader than `HELD_BYTES`."""
        self._held += count
        stdout = self._transport.get_pipe_transport(1)
        assert isinstance(stdout, asyncio.ReadTransport)
        if self._held > HELD_BYTES:
            stdout.pause_reading()
        else:
            stdout.resume_reading()

    # -- what the event loop tells -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to the process."""
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
        """Note the end of what it writes."""
        self._open.discard(fd)
        self._moved.set()

    def process_exited(self) -> None:
        """Note that it exited, and end what it left behind."""
        self.code = self._transport.get_returncode()
        if sys.platform != "win32":  # which has no groups, and may give the number away at once
            end_group(self._transport.get_pid(), force=True)
        self._exited.set()
        self._moved.set()
