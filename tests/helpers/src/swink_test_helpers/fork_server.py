"""`swink` processes that need not import anew what all of them import: forks of one that has.

Such a process has a separate environment, folder and standard streams, runs `python -m swink_cli`
and ends as an interpreter does. Settings that an interpreter reads at its start are shared; see
`can_run`. It has imported the installed plugins, which read the environment when they are created;
the metadata of packages is read again if the path or a file on it has changed.
"""

from __future__ import annotations

import ast
import atexit
import gc
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from swink_core import Host
from swink_testing import command_line

__all__ = ["Started", "can_run", "run", "run_swink", "stand_in", "start"]

IMPORTED = (
    *("aiohttp", "cattrs", "concurrent.futures.thread", "csv", "importlib.metadata"),
    *("importlib_metadata", "platformdirs", "rich.live", "markdown_it", "rich.table", "secrets"),
    *("sqlite3", "tomlkit", "tomllib", "zipp", "swink.amounts", "swink_cli.calling"),
    *("swink_cli.clients", "swink_cli.commands.ask", "swink_cli.commands.chat"),
    *("swink_cli.extraction", "swink_cli.listing", "swink_cli.main"),
    *("swink_cli.memory", "swink_cli.model_choice", "swink_core.providers.aiohttp_insides"),
    *("swink_recorder.recorder", "swink_recorder.replay", "swink_recorder.sqlite_store"),
    *("importlib_metadata._adapters", "packaging.requirements", "swink.client"),
    *("swink_batch.commands.batch", "swink_cli.commands.doctor", "swink_gateway.commands.gateway"),
    *("swink_testing.commands.check", "swink_testing.conformance", "swink_testing.observers"),
)

AT_START = {"LANG": "C.UTF-8", "PYTHONWARNINGS": "error"}
"""The startup settings that the interpreter has read."""

MOST_INPUT = 4096
"""Bytes that every pipe takes before anybody reads (POSIX: PIPE_BUF and more)."""


def can_run(environment: Mapping[str, str], stdin: bytes) -> bool:
    """Return whether such a process behaves like a new interpreter."""
    read = {n: v for n, v in environment.items() if n.startswith(("LANG", "LC_", "PYTHON"))}
    folders = read.pop("PYTHONPATH", "").split(os.pathsep)
    customised = any(os.path.exists(os.path.join(f, "sitecustomize.py")) for f in folders if f)
    small = len(stdin) <= MOST_INPUT
    return hasattr(os, "fork") and read == AT_START and small and not customised


def run(
    arguments: Sequence[str], environment: Mapping[str, str], stdin: bytes, seconds: float
) -> tuple[int, bytes, bytes]:
    """Run a command line to its end and return its exit code and its output.

    Raises TimeoutError after so many seconds, and ends it.
    """
    reader, writer = os.pipe()
    os.write(writer, stdin)
    os.close(writer)
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = start(arguments, environment, reader, output.fileno(), errors.fileno())
        os.close(reader)
        try:
            code = process.wait(seconds)
        except TimeoutError:
            process.kill()
            raise
        return code, _all_of(output), _all_of(errors)


def run_swink(
    *arguments: str, environment: Mapping[str, str], stdin: str | bytes = ""
) -> subprocess.CompletedProcess[str]:
    """Do what `swink_testing.command_line.run_swink` does, in a fork if `can_run` allows it."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    if not can_run(environment, data):
        return command_line.run_swink(*arguments, environment=environment, stdin=data)
    code, output, errors = run(arguments, environment, data, command_line.SECONDS)
    return subprocess.CompletedProcess(arguments, code, output.decode(), errors.decode())


class Started:
    """A process that runs, with what of `subprocess.Popen` tests have a use for.

    `stdin`, `stdout` and `stderr` are our ends of the requested pipes, or `None`.
    """

    stdin: IO[bytes] | None = None
    stdout: IO[bytes] | None = None
    stderr: IO[bytes] | None = None

    def __init__(self, told: IO[str], what: str) -> None:
        self._told = told
        self._what = what
        self._code: int | None = None
        self.pid = int(told.readline())

    def wait(self, seconds: float) -> int:
        """Return the exit code as soon as there is one. Raises TimeoutError."""
        if self._code is None:
            if not select.select([self._told], [], [], seconds)[0]:
                raise TimeoutError(f"{self._what} has not ended in {seconds} s")
            self._code = int(self._told.readline())
            self._told.close()
        return self._code

    def poll(self) -> int | None:
        """Return the exit code, if there is one already."""
        with suppress(TimeoutError):
            self.wait(0)
        return self._code

    def send_signal(self, number: int) -> None:
        """Send a signal, where it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def start(
    arguments: Sequence[str], environment: Mapping[str, str], stdin: int, stdout: int, stderr: int
) -> Started:
    """Start a command line on these file descriptors; `subprocess.PIPE` makes a pipe."""
    told, tells = os.pipe()
    theirs, ours = [], {}
    for name, given in zip(_STANDARD, (stdin, stdout, stderr), strict=True):
        if given != subprocess.PIPE:
            theirs.append(os.dup(given))
            continue
        reader, writer = os.pipe()
        theirs.append(reader if name == "stdin" else writer)
        ours[name] = open(writer, "wb", 0) if name == "stdin" else open(reader, "rb", 0)  # noqa: SIM115
    request = {"arguments": [*arguments], "environment": dict(environment), "folder": os.getcwd()}
    socket.send_fds(_server(), [ascii(request).encode() + b"\n"], [*theirs, tells])
    for descriptor in (*theirs, tells):
        os.close(descriptor)
    process = Started(open(told), f"swink {' '.join(arguments)}")  # noqa: SIM115
    for name, pipe in ours.items():
        setattr(process, name, pipe)
    return process


_STANDARD = ("stdin", "stdout", "stderr")

STAND_IN = """#!{python} -IS
# neither json nor socket: to import both takes as long as to start an interpreter
import array, os, sys
from _socket import SCM_RIGHTS, SOL_SOCKET, socket

told, tells = os.pipe()
request = {{"arguments": sys.argv[1:], "environment": {{**os.environ}}, "folder": os.getcwd()}}
server = socket(fileno={descriptor})
streams = (SOL_SOCKET, SCM_RIGHTS, array.array("i", [0, 1, 2, tells]))
data = ascii(request).encode() + b"\\n"
sent = server.sendmsg([data], [streams])
server.sendall(data[sent:])
os.close(tells)
with open(told) as answer:
    _, code = answer
sys.exit(int(code) % 256)
"""


def stand_in(folder: Path) -> int:
    """Put a `swink` into a folder that runs such processes on the standard streams it is given.

    Return the file descriptor that whoever starts it has to hand on.
    """
    descriptor = _server().fileno()
    command = folder / "swink"
    command.write_text(STAND_IN.format(python=sys.executable, descriptor=descriptor), "utf-8")
    command.chmod(0o755)
    return descriptor


def _all_of(file: IO[bytes]) -> bytes:
    file.seek(0)
    written: bytes = file.read()
    return written


@cache
def _server() -> socket.socket:
    """Start the process that forks, and return what it listens at."""
    ours, theirs = socket.socketpair()
    environment = {"PATH": os.environ["PATH"], **AT_START}
    command = [sys.executable, "-m", __spec__.name, str(theirs.fileno())]
    server = subprocess.Popen(
        command,
        env=environment,
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def _serve(asked: socket.socket) -> None:
    """Fork for each request, and return in the process that is to run it."""
    for name in IMPORTED:
        import_module(name)
    for entry in Host(environ={}).entries():
        entry.catalog()
        import_module(entry.value.partition(":")[0])
    gc.freeze()  # so that no fork copies what a collection would only look at
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while True:
        data, streams, _, _ = socket.recv_fds(asked, 1 << 16, 4)
        while data and not data.endswith(b"\n"):
            data += asked.recv(1 << 16)
        if not data:
            asked.close()
            sys.exit()
        if os.fork() == 0:
            break
        for stream in streams:
            os.close(stream)
    asked.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told = streams.pop()
    if pid := os.fork():
        os.write(told, b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    os.close(told)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, (stream, name) in enumerate(zip(streams, _STANDARD, strict=True)):
        os.dup2(stream, number)
        os.close(stream)
        was = getattr(sys, name)  # of a file, on which one can seek
        by_line = 1 if name == "stderr" else -1
        now = open(number, was.mode, by_line, was.encoding, was.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, now)
    request = ast.literal_eval(data.decode())
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    more = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [request["folder"], *filter(None, more)]
    sys.argv[1:] = request["arguments"]


def _end(code: int) -> None:
    """End as an interpreter does, at once where that would show nothing more.

    An interpreter frees all modules, which would take most of the time of a short command. Return
    if it would be heard or seen: a thread runs, the output cannot be written, or an object is left
    that may tell that it was not closed.
    """
    if threading.active_count() > 1:
        return
    atexit._run_exitfuncs()
    streams = (sys.stdout, sys.stderr, sys.stdin)
    try:
        for stream in streams:
            stream.flush()
    except (OSError, ValueError):
        return
    gc.collect()
    parts = [each for s in streams for each in (s, s.buffer, getattr(s.buffer, "raw", None))]
    for left in gc.get_objects():  # those of the process that forks are frozen
        if hasattr(type(left), "__del__") and not any(left is part for part in parts):
            return
    os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        runpy.run_module("swink_cli", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, int):
            _end(ended.code & 0xFF)
        raise
