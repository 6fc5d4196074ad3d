"""A Postgres server that tests start, kill and start again: the one of the machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

DISTRIBUTIONS = Path("/usr/lib/postgresql")

USERS = ("postgres", "_postgres", "daemon")
"""Users that run the server for tests of root, because Postgres refuses to run as root."""


def programs() -> Path:
    """Return the folder with the programs of a server. Skips the test without a server."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(DISTRIBUTIONS.glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return pytest.skip("no Postgres server is installed")


class PostgresServer:
    """A server with an empty database, on a socket in a folder, without a password."""

    def __init__(self) -> None:
        self._programs = programs()
        self._folder = Path(tempfile.mkdtemp(prefix="swink-postgres-"))
        self._user = None
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            import pwd

            names = {entry.pw_name for entry in pwd.getpwall()}
            self._user = next(name for name in USERS if name in names)
            shutil.chown(self._folder, self._user)
        self._process: subprocess.Popen[bytes] | None = None
        words = ["--no-sync", "--auth=trust", "--username=swink", "--locale=C", "--encoding=UTF8"]
        made = [str(self._programs / "initdb"), "--pgdata", str(self._folder / "data"), *words]
        subprocess.run(
            made, user=self._user, cwd=self._folder, check=True, stdout=subprocess.DEVNULL
        )

    @property
    def url(self) -> str:
        return f"postgresql://swink@/postgres?host={self._folder}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                self._programs / "postgres", "-D", self._folder / "data", "-k", self._folder,
                "-c", "listen_addresses=", "-c", "fsync=off",
            ],
            user=self._user, cwd=self._folder, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        import psycopg

        while True:
            assert self._process.poll() is None, "the Postgres server ended at its start"
            try:
                psycopg.connect(self.url).close()
            except psycopg.OperationalError:
                time.sleep(0.01)
            else:
                return

    def schema(self, name: str) -> str:
        """Make an empty schema, and return the address that leads to it."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{name}"'.encode())
        return f"{self.url}&options=-csearch_path%3D{name}"

    def stop(self) -> None:
        """Stop the server at once; committed data stay."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def remove(self) -> None:
        """Stop the server, and delete its folder."""
        self.stop()
        shutil.rmtree(self._folder)
