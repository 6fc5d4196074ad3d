"""Drive clients in a process of another environment, and judge two turns of each of them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lab.findings.upstreams import KEY, MODELS, Stand, verdict

__all__ = ["Driver", "driver", "turns"]

SECONDS = 60.0
"""The most time for a call."""

THINKS_AND_CALLS: tuple[list[dict[str, Any]], ...] = (
    [{"thought": "Hm."}, {"call": "look", "arguments": {"city": "Oslo"}}],
    [{"text": "It is 21 degrees."}],
)

CITY: list[dict[str, Any]] = [{"text": '{"name": "Oslo", "degrees": 21}'}]


class Driver:
    """A process that plays calls: a line of JSON for each call, and one for its result."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def play(self, client: str, base: str, model: str, task: str) -> dict[str, Any]:
        """Play one call, and return its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        call = {"client": client, "base": base, "model": model, "task": task}
        self._process.stdin.write(json.dumps(call).encode() + b"\n")
        line = await asyncio.wait_for(self._process.stdout.readline(), SECONDS)
        result: dict[str, Any] = json.loads(line)
        return result


@asynccontextmanager
async def driver(command: Sequence[str], folder: Path) -> AsyncIterator[Driver]:
    """Run the process in a folder. `KEY` in its environment is the API key."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
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


def is_city(data: Any) -> bool:
    """Tell whether an answer has the schema of a city. The vendor draws its values."""
    return isinstance(data.get("name"), str) and isinstance(data.get("degrees"), float | int)


async def turns(
    at: Stand,
    node: Driver,
    client: str,
    tasks: Sequence[str] = ("tools", "object"),
    *,
    sends_schema: bool = True,
) -> None:
    """Play a turn with a tool, and an answer with a schema, with every vendor.

    The vendor draws that answer by the schema, or by a script if the client does not send one.
    """
    for model in MODELS:
        if "tools" in tasks:
            at.play(*THINKS_AND_CALLS)
            result = await node.play(client, at.gateway, model, "tools")
            problems = [*result["errors"], *refusals(at)]
            right = not problems and "21 degrees" in result["text"] and result["calls"] == 1
            verdict(right, f"{client}, {model}, a tool", "; ".join(problems)[:140])
        if "object" in tasks:
            at.play(*([] if sends_schema else [CITY]))
            result = await node.play(client, at.gateway, model, "object")
            problems = [*result["errors"], *refusals(at)]
            right = not problems and is_city(result["object"])
            verdict(right, f"{client}, {model}, a schema", "; ".join(problems)[:140])
