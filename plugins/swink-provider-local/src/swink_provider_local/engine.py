"""An engine: a child process that serves one model over loopback HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

from attrs import define, field

from swink_core import Failure, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import end_group, not_started
from swink_provider_local.choice import CACHE_RAM

__all__ = ["Engine", "Settings"]

log = logging.getLogger(__name__)

Phase = Literal["connect", "streaming"]

CREDENTIAL = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
"""Matches names of environment variables that may contain credentials."""

START_SECONDS = 600.0
"""The maximum duration of a start, in seconds: enough for a large model on a slow disk."""

STOP_SECONDS = 5.0
EXIT_SECONDS = 1.0
"""The number of seconds that a failed call waits to learn whether the child process has ended."""

LOG_LINES = 50
"""The number of lines at the end of the engine's log that are kept for error messages."""

TELLING = (" E ", "ASSERT", "Error")
"""A log line that contains one of these texts explains a failure."""


@define(frozen=True)
class Settings:
    """Settings of an engine. Calls with equal settings share an engine.

    For a setting that is `None`, the engine uses its default.

    `context` is the context window in tokens, `cache_type` the data type of the KV cache, and
    `cache_ram` the memory in MiB in which the caches of earlier conversations are kept.
    """

    path: Path
    context: int
    gpu_layers: int | None = None
    threads: int | None = None
    cache_type: str = "f16"
    cache_ram: int = CACHE_RAM


@define(eq=False)
class Engine:
    """A running engine. `url` is the base URL for Chat Completions, `key` the API key."""

    settings: Settings
    url: str
    key: str = field(repr=False)
    _process: subprocess.Popen[str] = field(repr=False)
    _log: deque[str] = field(repr=False)

    @classmethod
    def start(cls, settings: Settings) -> Engine:
        """Start the child process and wait until its model is loaded. This call blocks.

        Raises ProviderFailure (`internal`, code `engine`) if the start fails, and ProviderFailure
        (`resource`) if the system cannot create another process.
        """
        process = _spawn()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        lines: deque[str] = deque(maxlen=LOG_LINES)
        reader = threading.Thread(target=_keep, args=(process.stderr, lines), daemon=True)
        reader.start()
        key = secrets.token_hex(16)
        orders = {
            "path": str(settings.path), "name": settings.path.stem, "key": key,
            "context": settings.context, "gpu_layers": settings.gpu_layers,
            "threads": settings.threads, "cache_type": settings.cache_type,
            "cache_ram": settings.cache_ram,
        }  # fmt: skip
        started = time.monotonic()
        alarm = threading.Timer(START_SECONDS, process.kill)
        alarm.daemon = True
        alarm.start()
        try:
            process.stdin.write(json.dumps(orders) + "\n")
            process.stdin.flush()
            url = process.stdout.readline().strip()
        except BrokenPipeError:
            url = ""
        finally:
            alarm.cancel()
        engine = cls(settings, f"{url}/v1", key, process, lines)
        if not url:
            engine.stop()
            reader.join(STOP_SECONDS)
            raise ProviderFailure(engine.failure("connect", "could not be started"))
        log.info("loaded %s in %.1f s", settings.path.name, time.monotonic() - started)
        return engine

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the child process is running."""
        return self._process.poll() is None

    async def lost(self) -> bool:
        """Return True if the child process has ended, or ends within `EXIT_SECONDS`."""
        end = time.monotonic() + EXIT_SECONDS
        while self.alive:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.01)
        return True

    def failure(self, phase: Phase = "streaming", what: str = "ended") -> Failure:
        """Return the failure of a call whose engine has ended, with the reason from its log."""
        status = self._process.poll()
        how = f"signal {-status}" if status is not None and status < 0 else f"status {status}"
        lines = list(self._log)
        told = [line for line in lines if any(word in line for word in TELLING)]
        # at the start, the first error is the cause; later, the last one is
        said = (told or lines or [""])[0 if phase == "connect" and told else -1]
        said = (said.partition(" E ")[2] or said).strip()
        message = f"the engine for {self.settings.path.name} {what} ({how})"
        return Failure(
            phase,
            kind=Kind.INTERNAL,
            code="engine",
            message=f"{message}: {said}" if said else message,
            title="The engine failed",
            resolution="The next call starts a new one. If it fails again, check the file, or try "
            "a smaller context (SWINK_LOCAL_CONTEXT) or fewer layers on the GPU "
            "(SWINK_LOCAL_GPU_LAYERS).",
        )

    def stop(self) -> None:
        """End the child process and wait until it has exited. This call blocks for milliseconds."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            end_group(process.pid, force=True)
            process.wait()
        process.stdout.close()


def _environment() -> dict[str, str]:
    """Return the child's environment.

    It contains no credentials, because the child parses untrusted files.
    """
    return {name: value for name, value in os.environ.items() if not CREDENTIAL.search(name)}


def _spawn() -> subprocess.Popen[str]:
    # -P: do not import from the current folder.
    command = [sys.executable, "-P", "-m", "swink_provider_local.child"]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise ProviderFailure(not_started(error, command[0])) from error


def _keep(stream: IO[str], lines: deque[str]) -> None:
    with stream:
        lines.extend(line for line in stream if line.strip())
