"""Print what JavaScript SDKs make of every vendor behind the gateway, and of failures.

    python -m lab.findings.javascript_sdks

The AI SDK with five providers, and the SDKs of OpenAI, Anthropic and Google. They need Node;
npm installs them into `.venv-findings/javascript`. The vendor thinks, calls a tool and checks what
comes back.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lab.clients.scenes import FAILURES
from lab.findings.drivers import Driver, driver, turns
from lab.findings.upstreams import stand, verdict

FOLDER = Path(__file__).parent / "javascript"
INSTALLED = Path(".venv-findings/javascript")
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


async def failures(node: Driver) -> None:
    """Compare the failures directly and through the gateway."""
    for client, (direct, route) in STREAMED.items():
        async with stand() as at:
            for kind, scene in FAILURES.items():
                if scene.fault is None:
                    continue
                seen: list[str] = []
                for base, model in ((at.vendor.url, direct), (at.gateway, route)):
                    at.vendor.state.faults.clear()
                    at.vendor.state.faults.add(scene.fault)
                    result = await node.play(client, base, model, "stream")
                    seen.append(", ".join(result["errors"]) or "nothing")
                same = seen[0] == seen[1]
                verdict(same, f"{client}, {kind}", f"{seen[0]}; through the gateway {seen[1]}")


async def run() -> None:
    """Print the lines of all clients."""
    async with driver(["node", "drive.mjs"], INSTALLED) as node:
        async with stand() as at:
            for client in AI_SDK:
                await turns(at, node, client, sends_schema=client != "ai, OpenAI-compatible")
        await failures(node)


def main() -> None:
    """Run the program."""
    install()
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    asyncio.run(run())


if __name__ == "__main__":
    main()
