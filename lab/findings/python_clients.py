"""Print what Python clients make of every vendor behind the gateway.

    python -m lab.findings.python_clients

LangChain, Pydantic AI, instructor, litellm and Ollama's SDK. pip installs them into
`.venv-findings/python`. The vendor thinks, calls a tool and checks what comes back.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lab.findings.drivers import driver, turns
from lab.findings.upstreams import stand

FOLDER = Path(__file__).parent / "python"
INSTALLED = Path(".venv-findings/python")

BOTH = ("tools", "object")

CLIENTS = {
    "LangChain, OpenAI Chat": BOTH,
    "LangChain, OpenAI Responses": BOTH,
    "LangChain, Anthropic": BOTH,
    "LangChain, Google": BOTH,
    "Pydantic AI, Chat": BOTH,
    "Pydantic AI, Responses": BOTH,
    "Pydantic AI, Anthropic": BOTH,
    "Pydantic AI, Google": BOTH,
    "instructor, OpenAI": ("object",),
    "instructor, Anthropic": ("object",),
    "litellm, OpenAI": ("tools",),
    "litellm, Anthropic": ("tools",),
    "litellm, Ollama": ("tools",),
    "ollama": BOTH,
}
"""The clients that `python/drive.py` has, and the tasks of each."""


def install() -> None:
    """Install the clients, if they are missing or the list has changed."""
    wanted = FOLDER / "requirements.txt"
    here = INSTALLED / "requirements.txt"
    if not here.exists() or here.read_text() != wanted.read_text():
        subprocess.run([sys.executable, "-m", "venv", str(INSTALLED)], check=True)
        pip = [str(INSTALLED / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--disable-pip-version-check", "-r", str(wanted)], check=True)
        shutil.copy(wanted, here)


async def run(named: list[str]) -> None:
    """Print the lines of all clients, or of those whose names begin so."""
    python = str((INSTALLED / "bin" / "python").absolute())
    async with (
        stand() as at,
        driver([python, str((FOLDER / "drive.py").absolute())], INSTALLED) as process,
    ):
        for client, tasks in CLIENTS.items():
            if not named or client.startswith(tuple(named)):
                await turns(at, process, client, tasks)


def main() -> None:
    """Run the program."""
    install()
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    asyncio.run(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
