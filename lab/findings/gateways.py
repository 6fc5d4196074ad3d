"""Run `swink gateway` before the simulated vendor, for the programs that need one.

    with Vendor() as vendor, gateway(vendor, CONFIGURATION) as served:
        reply = served.chat("bob", "openai/gpt-5.4-mini", "Hi")

The key of each owner in a configuration is made by `key_of`.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.vendor import Vendor
from swink_testing.command_line import clean_environment, swink_command

__all__ = [
    "MODEL",
    "OPERATOR",
    "Gateway",
    "Reply",
    "environment_for",
    "gateway",
    "key_of",
    "owner",
    "verdict",
]

MODEL = "openai/gpt-5.4-mini"

OPERATOR = "olga"
"""The owner of a key that sees everybody's spending; every configuration has it."""

_START = 30.0
"""Seconds until a gateway has to listen."""

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


def verdict(right: bool, text: str) -> None:
    """Print one line: what was seen, and whether it is right."""
    print(f"{'right' if right else 'wrong'}: {text}", flush=True)


def key_of(name: str) -> str:
    """Return the key of an owner."""
    return f"key-of-{name}-0123456789"


def owner(name: str, **limits: object) -> str:
    """Return the section of a configuration for an owner and its limits."""
    digest = hashlib.sha256(key_of(name).encode()).hexdigest()
    lines = [f"[keys.{name}]", f'key = "sha256:{digest}"']
    for field, value in limits.items():
        lines.append(f"{field} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def environment_for(vendor: Vendor, folder: Path) -> dict[str, str]:
    """Return the variables of a process whose OpenAI, Anthropic and Gemini are the vendor."""
    return {
        **clean_environment(folder),
        "OPENAI_API_KEY": "key-alpha",
        "OPENAI_BASE_URL": f"{vendor.url}/v1",
        "ANTHROPIC_API_KEY": "key-alpha",
        "ANTHROPIC_BASE_URL": vendor.url,
        "GEMINI_API_KEY": "key-alpha",
        "GOOGLE_GEMINI_BASE_URL": vendor.url,
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "default",
    }


@dataclass(frozen=True, slots=True)
class Reply:
    """A response. `status` is `None` if the client left, or the connection failed, before one."""

    status: int | None
    body: bytes = b""
    headers: Mapping[str, str] | None = None

    @property
    def error(self) -> dict[str, Any]:
        """Return the error of the body; `{}` without one."""
        try:
            data = json.loads(self.body)
        except ValueError:
            return {}
        found = data.get("error") if isinstance(data, dict) else None
        return found if isinstance(found, dict) else {}


class Gateway:
    """A gateway that runs: its address, process, configuration file and log."""

    def __init__(
        self, url: str, process: subprocess.Popen[bytes], configuration: Path, log: Path
    ) -> None:
        self.url = url
        self.process = process
        self.configuration = configuration
        self._log = log

    @property
    def log(self) -> list[str]:
        """Return the lines of the log."""
        return self._log.read_text(errors="replace").splitlines()

    def ask(
        self, path: str, key: str | None, body: object = None, *, seconds: float = 20.0
    ) -> Reply:
        """Send one request: GET without a body, POST with one. Hang up after `seconds`."""
        data = body if isinstance(body, bytes) else None
        if body is not None and data is None:
            data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=seconds) as response:
                try:
                    received = response.read()
                except http.client.IncompleteRead as error:
                    received = error.partial
                return Reply(response.status, received, dict(response.headers))
        except urllib.error.HTTPError as error:
            return Reply(error.code, error.read(), dict(error.headers))
        except OSError:
            return Reply(None)

    def chat(
        self, name: str, model: str, text: str, *, seconds: float = 20.0, **more: object
    ) -> Reply:
        """Ask a model by Chat Completions, with the key of an owner."""
        messages = [{"role": "user", "content": text}]
        body = {"model": model, "messages": messages, **more}
        return self.ask("/v1/chat/completions", key_of(name), body, seconds=seconds)

    def spending(self, name: str) -> dict[str, Any]:
        """Fetch the spending of an owner."""
        reply = self.ask("/v1/spending", key_of(OPERATOR))
        rows: list[dict[str, Any]] = json.loads(reply.body)["data"]
        return next(row for row in rows if row["key"] == name)


@contextmanager
def gateway(
    vendor: Vendor,
    configuration: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Gateway]:
    """Run a gateway with a configuration, to which the operator's key is added."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "gateway.toml"
        file.write_text(configuration + owner(OPERATOR, operator=True))
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                swink_command("gateway", "--config", str(file), "--port", "0", *arguments),
                env={**environment_for(vendor, folder), **(environment or {})},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield Gateway(_address(process, log), process, file, log)
        finally:
            _end(process)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + _START
    while time.monotonic() < until and process.poll() is None:
        text = log.read_text(errors="replace")
        if found := _ADDRESS.search(text):
            return found[0]
        time.sleep(0.05)
    raise SystemExit(f"the gateway did not start:\n{log.read_text(errors='replace')}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
