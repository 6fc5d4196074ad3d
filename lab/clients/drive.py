"""Drive real coding agents, headless and offline, at a vendor and through the gateway.

    python -m lab.clients.drive                    # all of them: half an hour
    python -m lab.clients.drive codex aider        # those whose names begin so
    python -m lab.clients.drive --write            # and write the table of the docs anew

Each client gets each scene twice: straight from a scripted vendor that speaks its protocol, and
through the gateway, behind which the same vendor is asked in another protocol. Exit code 1 where an
answer or a tool's run is missing, where a client does not end, or where one asks the gateway more
often than docs/reference/real-clients.md says.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from attrs import define

import lab.clients.table as table
import swink_core as swink
from lab.clients.installed import CLIENTS, FOLDER, KEY, MODEL, PATIENCE, ROOT, Client, Run
from lab.clients.scripted_vendor import ANSWER, MODES, Vendor
from swink_core.providers import LoopClock
from swink_gateway.policy.cooldowns import Cooldowns
from swink_gateway.serving.calls import REQUESTS
from swink_gateway.serving.limits import Limits
from swink_gateway.serving.server import Gateway

MAKER = ROOT / "plugins" / "swink-provider-local" / "tests" / "make_tiny_gguf.py"

AT_A_TIME = 2
MODEL_PATIENCE = 900.0
HASTE = 20

BEHIND = {
    "responses": "anthropic/claude-haiku-4-5",
    "chat": "anthropic/claude-haiku-4-5",
    "messages": "openai/m",
    "gemini": "openai/m",
}
"""The model behind the gateway, by what the client speaks: always another protocol."""


@define
class Result:
    """What came of a scene. `asked` is how often the client did, `upstream` how often the gateway
    had to ask on; `None` where there was no gateway."""

    client: Client
    mode: str
    run: Run
    asked: int
    upstream: int | None

    @property
    def fault(self) -> str | None:
        """What is wrong with it, through the gateway; `None`: nothing."""
        run = self.run
        if self.mode in ("answer", "tool", "pause", "model"):
            if run.code != 0 or ANSWER not in run.output:
                return "the answer is missing"
            return "the tool did not run" if self.mode == "tool" and not run.ran else None
        if not run.ended:
            return f"it did not end within {PATIENCE:g} s"
        return None if _told(run.output) else "the failure is not told"


def _told(output: str) -> bool:
    """Tell whether an output speaks of a failure, in any client's words."""
    said = output.lower()
    return any(word in said for word in ("error", "at capacity", "failed"))


class Hasty(LoopClock):
    """A clock that runs fast, so that a short pause shows signs of life, which come every 10 s."""

    def time(self) -> float:
        return HASTE * time.monotonic()

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        delay = (when - self.time()) / HASTE
        return asyncio.get_running_loop().call_later(delay, callback).cancel


HASTY = Limits(HASTE * PATIENCE, silence=HASTE * PATIENCE, clock=Hasty())
"""No client is left because the clock runs fast."""


async def directly(client: Client, mode: str) -> Result:
    """Play a scene without the gateway."""
    async with Vendor(mode, client.tool) as vendor:
        run = await client.run(vendor.url)
    return Result(client, mode, run, vendor.asked, None)


async def through(client: Client, mode: str) -> Result:
    """Play a scene through the gateway."""
    async with Vendor(mode, client.tool) as vendor:
        own: dict[str, Any] = {
            "anthropic": {"base_url": vendor.url, "api_key": "test"},
            "openai": {"base_url": f"{vendor.url}/v1", "api_key": "test", "api": "chat"},
        }
        routes = {MODEL: [BEHIND[client.protocol]]}
        async with (
            swink.Client(providers=own, gates=[Cooldowns()]) as asking,
            Gateway(asking, keys=[KEY], routes=routes, limits=HASTY) as gateway,
        ):
            run = await client.run(gateway.url)
            return Result(client, mode, run, gateway.counters[REQUESTS], vendor.asked)


class Greedy(swink.Client):
    """Has the likeliest token said, whatever a client asks for: Gemini CLI wants temperature 1."""

    def stream(self, *asked: Any, **options: Any) -> swink.EventStream:
        return super().stream(*asked, **{**options, "temperature": 0.0})


async def through_to_a_model(client: Client, folder: Path) -> Result:
    """Have an agent answered by a model that computes, the tiny one of `swink-provider-local`.

    It reads prompts of 100,000 characters one by one, which takes minutes.
    """
    maker = SimpleNamespace(**run_path(str(MAKER)))
    file = folder / "tiny.gguf"
    if not file.exists():
        maker.write_model(file)
    settings = {"context": 2 * maker.CONTEXT, "gpu_layers": 0, "threads": 2}
    own = {"local": {"settings": settings}}
    async with (
        Greedy(providers=own) as asking,
        Gateway(asking, keys=[KEY], routes={MODEL: [f"local/{file}"]}) as gateway,
    ):
        run = await client.run(gateway.url, patience=MODEL_PATIENCE)
        run.output = run.output.replace(maker.ANSWER, ANSWER)
        return Result(client, "model", run, gateway.counters[REQUESTS], gateway.counters[REQUESTS])


def scenes(client: Client) -> list[str]:
    """Return the scenes that a client can play."""
    return [mode for mode in MODES if mode != "tool" or client.tool is not None]


async def play(clients: list[Client], direct: bool) -> list[tuple[Result | None, Result]]:
    """Play all scenes; return what came of each without and with the gateway."""
    places = asyncio.Semaphore(AT_A_TIME)

    async def both(client: Client, mode: str) -> tuple[Result | None, Result]:
        async with places:
            without = await directly(client, mode) if direct else None
            return without, _said(await through(client, mode))

    found = [both(client, mode) for client in clients for mode in scenes(client)]
    return await asyncio.gather(*found)


async def play_a_model(clients: list[Client]) -> list[tuple[Result | None, Result]]:
    """Have those answered by the tiny model that are one of a protocol's, one after the other."""
    chosen = [client for client in clients if client.answered_by_a_model]
    with TemporaryDirectory(prefix="swink-model-") as folder:
        return [(None, _said(await through_to_a_model(c, Path(folder)))) for c in chosen]


def _said(result: Result) -> Result:
    asked = f"asked {result.asked} times, {result.upstream} upstream"
    print(f"{result.client.name}, {result.mode}: {asked}, {result.run.seconds:.0f} s", flush=True)
    return result


def faults(results: list[tuple[Result | None, Result]]) -> list[str]:
    """Say what is wrong, and which client asked more often than the table has it."""
    said = []
    allowed = table.read()
    for _, result in results:
        name = f"{result.client.name}, {result.mode}"
        if (fault := result.fault) is not None:
            said.append(f"{name}: {fault}\n{result.run.output[-2000:]}")
        most = allowed.get((result.client.name, result.mode))
        if most is None or result.asked > most:
            said.append(f"{name}: asked {result.asked} times; the table has {most}")
    return said


def main() -> None:
    """Play what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of clients' names; none: all")
    parser.add_argument("--write", action="store_true", help="write the table anew")
    asked = parser.parse_args()
    wanted = tuple(name.lower() for name in asked.names)
    clients = [c for c in CLIENTS if not wanted or c.name.lower().startswith(wanted)]
    if not FOLDER.exists():
        sys.exit("run `make clients`, which installs them")
    said = []
    for playing in (play(clients, asked.write), play_a_model(clients)):
        results = asyncio.run(playing)
        if asked.write:
            table.write(results)
        said += faults(results)
    if said:
        sys.exit("\n".join(said))


if __name__ == "__main__":
    main()
