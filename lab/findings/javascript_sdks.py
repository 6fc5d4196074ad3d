"""Print what JavaScript SDKs make of every vendor behind the gateway, and of failures.

    python -m lab.findings.javascript_sdks

The AI SDK with five of its providers, and the SDKs of OpenAI, Anthropic and Google. They need Node;
npm installs them into `.venv-findings/javascript`. The vendor thinks, calls a tool and checks what
comes back.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lab.findings.failing_agents import FAULTS
from lab.findings.upstreams import KEY, MODELS, Stand, stand, verdict

FOLDER = Path(__file__).parent / "javascript"
INSTALLED = Path(".venv-findings/javascript")
SECONDS = 30.0

THINKS_AND_CALLS: tuple[list[dict[str, Any]], ...] = (
    [{"thought": "Hm."}, {"call": "look", "arguments": {"city": "Oslo"}}],
    [{"text": "It is 21 degrees."}],
)

AI_SDK = (
    "ai, OpenAI Responses",
    "ai, OpenAI Chat",
    "ai, Anthropic",
    "ai, Google",
    "ai, OpenAI-compatible",
)

STREAMED = {
    "ai, OpenAI Responses": ("gpt-5.4-mini", "gpt"),
    "ai, OpenAI Chat": ("gpt-4.1", "deepseek"),
    "ai, Anthropic": ("claude-haiku-4-5", "claude"),
    "ai, Google": ("gemini-3.6-flash", "gemini"),
    "openai": ("gpt-4.1", "deepseek"),
    "anthropic": ("claude-haiku-4-5", "claude"),
    "google-genai": ("gemini-3.6-flash", "gemini"),
}
"""The model's id at the vendor, and its route at the gateway, of each client."""


def install() -> None:
    """Install the SDKs, if they are missing or their versions have changed."""
    wanted = FOLDER / "package.json"
    here = INSTALLED / "package.json"
    if shutil.which("npm") is None:
        sys.exit("npm is not installed: install Node.js 22 or newer")
    if not here.exists() or here.read_text() != wanted.read_text():
        INSTALLED.mkdir(parents=True, exist_ok=True)
        shutil.copy(wanted, here)
        command = ["npm", "install", "--prefix", str(INSTALLED), "--silent", "--no-audit"]
        subprocess.run([*command, "--no-fund"], check=True)
    shutil.copy(FOLDER / "drive.mjs", INSTALLED)


class Driver:
    """The Node process that plays calls."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def play(self, client: str, base: str, model: str, task: str) -> dict[str, Any]:
        """Play one call, and return its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"client": client, "base": base, "model": model, "task": task}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        line = await asyncio.wait_for(self._process.stdout.readline(), SECONDS)
        result: dict[str, Any] = json.loads(line)
        return result


@asynccontextmanager
async def driver() -> AsyncIterator[Driver]:
    """Run the Node process."""
    process = await asyncio.create_subprocess_exec(
        "node",
        "drive.mjs",
        cwd=INSTALLED,
        env={**os.environ, "KEY": KEY},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Driver(process)
    finally:
        process.kill()
        await process.wait()


def refusals(at: Stand) -> list[str]:
    """Return the messages of refused requests, and forget all requests."""
    found = [each.message or "" for each in at.vendor.state.record.of() if each.ended == "refused"]
    at.forget()
    return found


async def turns(at: Stand, node: Driver) -> None:
    """Play a turn with a tool, and an answer with a schema, for each client and vendor."""
    for client in AI_SDK:
        for model in MODELS:
            at.play(*THINKS_AND_CALLS)
            result = await node.play(client, at.gateway, model, "tools")
            problems = [*result["errors"], *refusals(at)]
            right = not problems and "21 degrees" in result["text"] and result["calls"] == 1
            shown = "; ".join(problems)[:140] or f"{result['thoughts']} pieces of thoughts"
            verdict(right, f"{client}, {model}, a tool", shown)
            at.play([{"text": '{"name": "Oslo", "degrees": 21}'}])
            result = await node.play(client, at.gateway, model, "object")
            problems = [*result["errors"], *refusals(at)]
            right = not problems and result["object"] == {"name": "Oslo", "degrees": 21}
            verdict(right, f"{client}, {model}, a schema", "; ".join(problems)[:140])


async def failures(node: Driver) -> None:
    """Compare the failures directly and through the gateway."""
    for client, (direct, route) in STREAMED.items():
        async with stand() as at:
            for kind, fault in FAULTS.items():
                seen: list[str] = []
                for base, model in ((at.vendor.url, direct), (at.gateway, route)):
                    at.vendor.state.faults.clear()
                    at.vendor.state.faults.add(fault)
                    result = await node.play(client, base, model, "stream")
                    seen.append(", ".join(result["errors"]) or "nothing")
                same = seen[0] == seen[1]
                verdict(same, f"{client}, {kind}", f"{seen[0]}; through the gateway {seen[1]}")


async def run() -> None:
    """Print the lines of all clients."""
    async with driver() as node:
        async with stand() as at:
            await turns(at, node)
        await failures(node)


def main() -> None:
    """Run the program."""
    install()
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    asyncio.run(run())


if __name__ == "__main__":
    main()
