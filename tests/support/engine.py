"""A server that is not ours as the other side: llama.cpp's, with a model whose answers are known.

    with running_engine(folder) as engine:
        base_url = f"{engine.url}/v1"       # /v1/chat/completions and /v1/messages

It runs in a child process, because a failed assertion of the engine ends the process it is in.
The child leaves when its stdin closes, so that it ends with us in whatever way we end.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from attrs import define, field
from make_tiny_gguf import CONTEXT, write_model

__all__ = ["Engine", "running_engine"]

MODEL = "tiny"
START_SECONDS = 60
"""For a busy machine; an idle one needs less than one second."""
STOP_SECONDS = 10

_open = build_opener(ProxyHandler({})).open  # loopback, whatever the environment's proxies


@define
class Engine:
    """A running server. `url` has no slash at its end; `model` is what it calls its model."""

    url: str
    key: str = field(repr=False)
    model: str = MODEL

    def get(self, path: str) -> Any:
        """This will return JSON data of one of the server's own pages."""
        request = Request(f"{self.url}{path}", headers={"Authorization": f"Bearer {self.key}"})
        with _open(request, timeout=START_SECONDS) as response:
            return json.load(response)

    def slot(self) -> dict[str, Any]:
        """This will return the state of the one slot in which the server computes."""
        (slot,) = self.get("/slots")
        return dict(slot)

    def wait_until_idle(self, seconds: float) -> dict[str, Any]:
        """This will return the slot's state once it is free. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while (slot := self.slot())["is_processing"]:
            if time.monotonic() > end:
                raise TimeoutError(f"the slot was still busy after {seconds} s")
            time.sleep(0.01)
        return slot


@contextmanager
def running_engine(folder: Path) -> Iterator[Engine]:
    """This will make the model in `folder`, serve it, and stop the server in the end.

    Raises RuntimeError, with the end of its log, where the server does not start.
    """
    path = folder / "tiny.gguf"
    write_model(path)
    key = secrets.token_hex(16)
    script = Path(__file__).with_name("engine_process.py")
    with (folder / "engine.log").open("w+b") as log:
        process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            orders = {"path": str(path), "name": MODEL, "key": key, "context": CONTEXT}
            yield Engine(_start(process, orders, log), key)
        finally:
            _stop(process)


def _start(process: subprocess.Popen[str], orders: dict[str, Any], log: IO[bytes]) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    alarm = Timer(START_SECONDS, process.kill)
    alarm.start()
    try:
        process.stdin.write(json.dumps(orders) + "\n")
        process.stdin.flush()
        url = process.stdout.readline().strip()
        while url and not _is_ready(url):
            if process.poll() is not None:
                url = ""
            time.sleep(0.01)
    except BrokenPipeError:
        url = ""
    finally:
        alarm.cancel()
    if not url:
        process.wait(STOP_SECONDS)
        log.seek(0)
        tail = log.read()[-2000:].decode("utf-8", "replace")
        raise RuntimeError(f"the engine ended with {process.returncode}:\n{tail}")
    return url


def _is_ready(url: str) -> bool:
    try:
        with _open(f"{url}/health", timeout=START_SECONDS):
            return True
    except HTTPError as error:  # 503 while it loads
        error.close()
    except OSError:
        pass
    return False


def _stop(process: subprocess.Popen[str]) -> None:
    with process:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
