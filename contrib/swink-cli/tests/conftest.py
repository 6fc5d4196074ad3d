"""The command as a process that a test talks to while it runs, on pipes or on a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from swink_test_helpers import fork_server, screens
from swink_test_helpers.forked_commands import swink  # noqa: F401  # the tests here run many
from swink_testing.command_line import swink_command

sys.path.append(str(Path(__file__).parent))  # helpers, in a checkout and in an unpacked sdist

# A shell passes an ignored interrupt on to what it runs in the background, and Python leaves it
# ignored; the programs that these tests start and interrupt would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SECONDS = 30
"""How long a process may take before a test fails; nothing waits so long when all is well."""


class Running:
    """A running command, on pipes or on a separate terminal (then all output is `output`)."""

    def __init__(
        self,
        command: list[str] | None,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        size: tuple[int, int] | None,
        stdin: str,
        stdout: IO[bytes] | None,
    ) -> None:
        self.output = b""
        self._seen = 0
        self._terminal: int | None = None
        options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        options["stderr"] = subprocess.PIPE
        if size is not None:
            self._terminal, inner = pty.openpty()
            _set_size(inner, *size)
            options = dict.fromkeys(("stdin", "stdout", "stderr"), inner)
        if stdout is not None:
            options["stdout"] = stdout.fileno()
        self.process: Any
        if command is None and fork_server.can_run(environment, b""):
            self.process = fork_server.start(arguments, environment, **options)
        else:
            command = command or swink_command(*arguments)
            self.process = subprocess.Popen(command, env=dict(environment), **options)
        if self.process.stdin is not None:
            self.process.stdin.write(stdin.encode())
            self.process.stdin.close()
        if self._terminal is None:
            self._source = self.process.stdout.fileno()
        else:
            os.close(inner)
            self._source = self._terminal

    def wait_for(self, text: str) -> None:
        """Reads output until it holds a text, from where the last wait ended."""
        end = time.monotonic() + SECONDS
        needle = text.encode()
        while (found := self.output.find(needle, self._seen)) < 0:
            assert self._read(end - time.monotonic()), f"{text!r} never came: {self.output!r}"
        self._seen = found + len(needle)

    def wait_for_error(self, text: str) -> None:
        """Reads standard error until it holds a text."""
        assert self.process.stderr is not None
        data = b""
        while text.encode() not in data:
            ready, _, _ = select.select([self.process.stderr], [], [], SECONDS)
            piece = os.read(self.process.stderr.fileno(), 65536) if ready else b""
            assert piece, f"{text!r} never came: {data!r}"
            data += piece

    def type(self, text: str) -> None:
        """Types on the terminal."""
        assert self._terminal is not None
        os.write(self._terminal, text.encode())

    def interrupt(self) -> None:
        """Presses Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def is_waiting(self) -> bool:
        """Tells whether the process waits for something: a key, where it has nothing to do."""
        return screens.is_waiting(self.process.pid)

    def finish(self) -> int:
        """Reads to the end and returns the exit code."""
        end = time.monotonic() + SECONDS
        while self._read(end - time.monotonic()):
            pass
        code = self.process.wait(SECONDS)
        return code

    @property
    def stderr(self) -> str:
        """The content of standard error, after the end."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._source], [], [], max(0.0, seconds))
        if not ready:
            self.process.kill()
            raise AssertionError(f"nothing more came after {self.output!r}")
        try:
            data = os.read(self._source, 65536)
        except OSError:  # how a terminal says that its program has gone
            data = b""
        self.output += data
        return bool(data)

    def close(self) -> None:
        """Ends what still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(SECONDS)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        if self._terminal is not None:
            os.close(self._terminal)


def _set_size(terminal: int, columns: int, lines: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Waits until a condition holds that another thread or process brings about."""

    def wait(condition: Callable[[], object]) -> None:
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, "it never came about"
            time.sleep(0.002)

    return wait


@pytest.fixture
def start(swink_environment: dict[str, str]) -> Iterator[Callable[..., Running]]:
    """Starts a command line; `size` (columns, lines) gives it a terminal, `stdout` a file.

    `command` is another program that is to be started.
    """
    started: list[Running] = []

    def run(
        *arguments: str,
        size: tuple[int, int] | None = None,
        stdin: str = "",
        stdout: IO[bytes] | None = None,
        command: list[str] | None = None,
        **more: str,
    ) -> Running:
        running = Running(command, arguments, {**swink_environment, **more}, size, stdin, stdout)
        started.append(running)
        return running

    yield run
    for running in started:
        running.close()
