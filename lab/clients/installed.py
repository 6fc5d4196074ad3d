"""The coding agents: their configuration for an address, and one unattended run.

A client is configured as a how-to page of docs/ says. Each runs in a separate folder and home, with
a minimal environment, and a proxy setting without a proxy blocks other machines.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define

from lab.clients.scenes import Tool

__all__ = ["CLIENTS", "FOLDER", "KEY", "MODEL", "PATIENCE", "ROOT", "Client", "Run", "version_of"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv-clients"
BIN = FOLDER / "npm" / "node_modules" / ".bin"
AIDER = FOLDER / "aider" / "bin" / "aider"

PINS = Path(__file__).parent

KEY = "k1"
MODEL = "stub-model"
RAN = "ran.txt"
"""The file to which the tool writes."""

PATIENCE = 45.0
PROMPT = "Say hello"

COMMAND = f"echo ran >> {RAN}"
SHELL = {"command": COMMAND, "description": "Write a file"}
NOWHERE = "http://127.0.0.1:9"


@define
class Run:
    """One run of a client. `code` is `None` if it was stopped; `ran` counts runs of its tool."""

    code: int | None
    output: str
    seconds: float
    ran: int

    @property
    def ended(self) -> bool:
        """Whether it came to an end by itself."""
        return self.code is not None


@define
class Client:
    """A coding agent. `files` are written first, below its home; `tool` is what it can be called
    to run; `protocol` is what it speaks; `answered_by_a_model`: it plays the scene that takes
    minutes; `is_slow`: its scenes take more than ten minutes together."""

    name: str
    package: str
    protocol: str
    command: Sequence[str]
    environ: Mapping[str, str]
    files: Callable[[str], Mapping[str, str]] = lambda url: {}
    tool: Tool | None = None
    answered_by_a_model: bool = False
    is_slow: bool = False

    async def run(self, url: str, patience: float = PATIENCE) -> Run:
        """Give it one prompt, and wait until it has ended, or has not for so many seconds."""
        with tempfile.TemporaryDirectory(prefix="swink-client-") as folder:
            home = Path(folder)
            work = home / "work"
            work.mkdir()
            for name, text in self.files(url).items():
                file = home / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            begun = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                *(part.format(prompt=PROMPT) for part in self.command),
                cwd=work,
                env=self._environ(url, folder),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
            output = bytearray()
            assert process.stdout is not None
            try:
                async with asyncio.timeout(patience):
                    while piece := await process.stdout.read(65536):
                        output += piece
                    await process.wait()
            except TimeoutError:
                pass
            finally:
                code = process.returncode
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            text = output.decode(errors="replace")
            ran = (work / RAN).read_text().count("ran") if (work / RAN).exists() else 0
            return Run(code, text, time.monotonic() - begun, ran)

    def _environ(self, url: str, home: str) -> dict[str, str]:
        return {
            "HOME": home,
            "PATH": os.environ["PATH"],
            "TERM": "dumb",
            "NO_PROXY": "127.0.0.1,localhost",
            **{f"{scheme}_PROXY": NOWHERE for scheme in ("HTTP", "HTTPS", "ALL")},
            **{name: value.format(url=url) for name, value in self.environ.items()},
        }


def codex(sockets: bool) -> Callable[[str], dict[str, str]]:
    """Return a function that writes the configuration of Codex."""

    def files(url: str) -> dict[str, str]:
        text = f"""\
model = "{MODEL}"
model_provider = "swink"
[model_providers.swink]
name = "swink"
base_url = "{url}/v1"
env_key = "SWINK_KEY"
wire_api = "responses"
supports_websockets = {str(sockets).lower()}
"""
        return {".codex/config.toml": text}

    return files


def opencode(package: str) -> Callable[[str], dict[str, str]]:
    """Return a function that writes the configuration of opencode with the SDK `package`."""

    def files(url: str) -> dict[str, str]:
        own = {
            "npm": package,
            "name": "swink",
            "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
            "models": {MODEL: {"name": "stub"}},
        }
        told: dict[str, Any] = {
            "autoupdate": False,
            "share": "disabled",
            "permission": {"*": "allow"},
            "provider": {"swink": own},
            "model": f"swink/{MODEL}",
        }
        return {"work/opencode.json": json.dumps(told)}

    return files


def gemini(url: str) -> dict[str, str]:
    """Return the settings of Gemini CLI."""
    told = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    return {".gemini/settings.json": json.dumps(told)}


def pi(api: str, folder: str = "") -> Callable[[str], dict[str, str]]:
    """Make the function that writes the model file of pi, for one API."""

    def files(url: str) -> dict[str, str]:
        own = {
            "baseUrl": f"{url}{folder}",
            "api": api,
            "apiKey": KEY,
            "models": [{"id": MODEL}],
        }
        return {".pi/agent/models.json": json.dumps({"providers": {"swink": own}})}

    return files


def continue_(url: str) -> dict[str, str]:
    """Return the configuration file of Continue. JSON is valid YAML."""
    own = {
        "name": "stub",
        "provider": "openai",
        "model": MODEL,
        "apiBase": f"{url}/v1",
        "apiKey": KEY,
    }
    told = {"name": "swink", "version": "1.0.0", "schema": "v1", "models": [own]}
    return {"work/continue.yaml": json.dumps(told)}


def _pi(name: str, protocol: str, api: str, folder: str = "") -> Client:
    command = [str(BIN / "pi"), "-p", "--offline", "--provider", "swink", "--model", MODEL,
               "{prompt}"]  # fmt: skip
    tool = ("bash", {"command": COMMAND})
    return Client(
        name, "@mariozechner/pi-coding-agent", protocol, command, {}, pi(api, folder), tool
    )


def _codex(name: str, sockets: bool) -> Client:
    command = [str(BIN / "codex"), "exec", "--json", "--skip-git-repo-check",
               "--dangerously-bypass-approvals-and-sandbox", "{prompt}"]  # fmt: skip
    tool = ("exec_command", {"cmd": COMMAND})
    environ = {"SWINK_KEY": KEY}
    files = codex(sockets)
    return Client(name, "@openai/codex", "responses", command, environ, files, tool, not sockets)


def _opencode(name: str, protocol: str, package: str) -> Client:
    command = [str(BIN / "opencode"), "run", "{prompt}"]
    environ = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    files = opencode(package)
    tool = ("bash", SHELL)
    return Client(name, "opencode-ai", protocol, command, environ, files, tool, is_slow=True)


CLIENTS = [
    _codex("Codex, SSE", False),
    _codex("Codex, WebSocket", True),
    Client(
        "Claude Code",
        "@anthropic-ai/claude-code",
        "messages",
        [str(BIN / "claude"), "-p", "{prompt}", "--model", MODEL, "--allowedTools", "Bash"],
        {
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        tool=("Bash", SHELL),
        answered_by_a_model=True,
    ),
    _opencode("opencode, Chat", "chat", "@ai-sdk/openai-compatible"),
    _opencode("opencode, Messages", "messages", "@ai-sdk/anthropic"),
    _opencode("opencode, Responses", "responses", "@ai-sdk/openai"),
    Client(
        "Gemini CLI",
        "@google/gemini-cli",
        "gemini",
        [str(BIN / "gemini"), "-m", MODEL, "--approval-mode", "yolo", "-p", "{prompt}"],
        {
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        gemini,
        ("run_shell_command", SHELL),
        answered_by_a_model=True,
    ),
    Client(
        "Qwen Code",
        "@qwen-code/qwen-code",
        "chat",
        [str(BIN / "qwen"), "-p", "{prompt}", "--auth-type", "openai", "--yolo"],
        {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}/v1", "OPENAI_MODEL": MODEL},
        tool=("run_shell_command", {**SHELL, "is_background": False}),
        is_slow=True,
    ),
    _pi("pi, Chat", "chat", "openai-completions", "/v1"),
    _pi("pi, Messages", "messages", "anthropic-messages"),
    _pi("pi, Responses", "responses", "openai-responses", "/v1"),
    Client(
        "Continue",
        "@continuedev/cli",
        "chat",
        [str(BIN / "cn"), "-p", "{prompt}", "--auto", "--config", "continue.yaml"],
        {"CONTINUE_TELEMETRY_ENABLED": "0"},
        continue_,
        ("Bash", {"command": COMMAND}),
    ),
    Client(
        "cline",
        "cline",
        "chat",
        ["sh", "-c",
         f'{BIN}/cline auth openai -k {KEY} -m {MODEL} -b "$BASE" >/dev/null && '
         f'exec {BIN}/cline --json "{{prompt}}"'],
        {"BASE": "{url}/v1"},
        tool=("run_commands", {"commands": [COMMAND]}),
        is_slow=True,
    ),
    Client(
        "aider",
        "aider-chat",
        "chat",
        [str(AIDER), "--model", f"openai/{MODEL}", "--message", "{prompt}", "--no-git",
         "--yes-always", "--no-check-update", "--no-show-model-warnings", "--no-analytics",
         "--no-gitignore"],
        {
            "OPENAI_API_BASE": "{url}/v1",
            "OPENAI_API_KEY": KEY,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        answered_by_a_model=True,
        is_slow=True,
    ),
]  # fmt: skip
"""In the order of the table."""


def version_of(package: str) -> str:
    """Return the version to which a client is pinned."""
    pinned = json.loads((PINS / "package.json").read_text())["dependencies"]
    if package in pinned:
        return str(pinned[package])
    return (PINS / "aider.txt").read_text().rpartition("==")[2].strip()
