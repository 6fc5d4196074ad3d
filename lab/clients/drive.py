"""Drive real coding agents, headless and offline, at a vendor and through the gateway.

    python -m lab.clients.drive                    # all of them
    python -m lab.clients.drive codex aider        # those whose names begin so
    python -m lab.clients.drive --scenes 503,cut   # these scenes
    python -m lab.clients.drive --write            # and write their rows of the page anew
    python -m lab.clients.drive --quick            # without slow agents and the local model

Each client plays each scene twice: directly at the simulated vendor (`lab/vendor`), and through the
gateway. Behind the gateway, answers come from another API than the client's; failures come from
the same API, so that both screens can be compared. Exit code 1 where an answer or a run of a tool
is missing, or where a client ends otherwise, later or with more requests than directly. Clients
share two processors: a scene that differs is played again by itself, at most twice.
"""

from __future__ import annotations

import argparse
import asyncio
import re
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
from lab.clients.installed import CLIENTS, FOLDER, KEY, MODEL, ROOT, Client, Run
from lab.clients.scenes import ANSWER, SCENES, Scene, vendor_of
from lab.vendor import Vendor
from swink_core.providers import LoopClock
from swink_gateway.policy.cooldowns import Cooldowns
from swink_gateway.serving.calls import REQUESTS
from swink_gateway.serving.limits import Limits
from swink_gateway.serving.server import Gateway

MAKER = ROOT / "plugins" / "swink-provider-local" / "tests" / "make_tiny_gguf.py"

AT_A_TIME = 4
MODEL_PATIENCE = 900.0
HASTE = 20
TRIES = 2

OTHER = {
    "responses": "anthropic/claude-haiku-4-5",
    "chat": "anthropic/claude-haiku-4-5",
    "messages": "openai/gpt-4.1",
    "gemini": "openai/gpt-4.1",
}
"""The model that answers behind the gateway, by the client's protocol: of another API."""

SAME = {
    "responses": f"openai/{MODEL}",
    "chat": f"openai/{MODEL}",
    "messages": f"anthropic/{MODEL}",
    "gemini": f"gemini/{MODEL}",
}
"""The model that fails behind the gateway: of the client's own API."""

SCREEN_CHARACTERS = 160

_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_VARYING = re.compile(
    r"file://[^\s)]+|https?://127\.0\.0\.1:\d+(?:/[\w.:?=-]+)*"
    r"|\b(?:req_|msg_|resp_|chatcmpl-)?[0-9a-f]{12,}\b"
    r"|\breq_\w+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b\d+(?:\.\d+)? ?(?:ms|s)\b"
    r"|\b\d{4}-\d\d-\d\d[T ][\d:.]+Z?"
)
_FAILED = re.compile(
    r"error|fail|invalid|capacity|exceed|limit|overload|not exist|denied|retr", re.I
)


@define
class Result:
    """One scene of a client. `requests` are those at the vendor, `asked` those at the gateway;
    `asked` is `None` without one."""

    client: Client
    scene: str
    run: Run
    requests: int
    asked: int | None

    @property
    def screen(self) -> str:
        """The last line about a failure, without ids, addresses and times; empty without one."""
        lines = [_VARYING.sub("…", _STYLE.sub("", line)) for line in self.run.output.splitlines()]
        found = [" ".join(line.split()) for line in lines if _FAILED.search(line)]
        return found[-1][:SCREEN_CHARACTERS] if found else ""

    @property
    def fault(self) -> str | None:
        """Return a fault in a scene with an answer, or `None`."""
        kind = SCENES[self.scene].kind if self.scene in SCENES else "answer"
        if kind == "failure":
            return None
        if self.run.code != 0 or ANSWER not in self.run.output:
            return "the answer is missing"
        return "the tool did not run" if kind == "tool" and not self.run.ran else None


def differences(direct: Result, through: Result) -> list[str]:
    """Return where a client fares worse through the gateway than directly."""
    found = []
    if direct.run.code != through.run.code:
        found.append(f"exit code {_code(through)}, directly {_code(direct)}")
    # how often a client that never gives up asks in a limited time depends on its random pauses
    most = direct.requests if direct.run.ended else through.asked or 0
    if through.requests > most:
        found.append(f"{through.requests} requests, directly {direct.requests}")
    latest = direct.run.seconds + max(1.0, 0.1 * direct.run.seconds)
    is_timed = SCENES[direct.scene].kind == "failure"
    if is_timed and direct.run.ended and through.run.seconds > latest:
        found.append(f"{through.run.seconds:.1f} s, directly {direct.run.seconds:.1f} s")
    if direct.run.ran != through.run.ran:
        found.append(f"the tool ran {through.run.ran} times, directly {direct.run.ran}")
    return found


def _code(result: Result) -> str:
    return "none (stopped)" if result.run.code is None else str(result.run.code)


class Hasty(LoopClock):
    """A clock that runs fast, so that a short pause shows signs of life, which come every 10 s."""

    def time(self) -> float:
        return HASTE * time.monotonic()

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        delay = (when - self.time()) / HASTE
        return asyncio.get_running_loop().call_later(delay, callback).cancel


HASTY = Limits(HASTE * 100.0, silence=HASTE * 100.0, clock=Hasty())
"""The limits of scenes with pauses. No client is left because the clock runs fast."""


def requests_at(vendor: Vendor) -> int:
    """Return the number of answers requested from a vendor."""
    generating = ("POST", "WEBSOCKET")
    found = [e for e in vendor.state.record.exchanges if e.method in generating]
    return sum(b'"generate":false' not in each.body.replace(b" ", b"") for each in found)


async def directly(client: Client, name: str) -> Result:
    """Play a scene without the gateway."""
    async with vendor_of(SCENES[name], KEY, client.tool) as vendor:
        run = await client.run(vendor.url)
        return Result(client, name, run, requests_at(vendor), None)


def providers_of(client: Client, scene: Scene, vendor: Vendor) -> dict[str, dict[str, Any]]:
    """Return the settings by which the gateway reaches the vendor."""
    key = scene.key_for(KEY)
    own = scene.kind == "failure" and client.protocol == "responses"
    return {
        "anthropic": {"base_url": vendor.url, "api_key": key},
        "gemini": {"base_url": vendor.url, "api_key": key},
        "openai": {
            "base_url": f"{vendor.url}/v1",
            "api_key": key,
            "api": "responses" if own else "chat",
        },
    }


async def through(client: Client, name: str) -> Result:
    """Play a scene through the gateway."""
    scene = SCENES[name]
    model = (SAME if scene.kind == "failure" else OTHER)[client.protocol]
    keys = [scene.key_for(KEY)]
    limits = HASTY if scene.kind == "pause" else None
    async with (
        vendor_of(scene, KEY, client.tool) as vendor,
        swink.Client(providers=providers_of(client, scene, vendor), gates=[Cooldowns()]) as asking,
        Gateway(asking, keys=keys, routes={MODEL: [model]}, limits=limits) as gateway,
    ):
        run = await client.run(gateway.url)
        return Result(client, name, run, requests_at(vendor), gateway.counters[REQUESTS])


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
        requests = gateway.counters[REQUESTS]
        return Result(client, table.MODEL_SCENE, run, requests, requests)


Pair = tuple[Result | None, Result]
"""A scene directly, if it is played so, and through the gateway."""


async def play(clients: list[Client], names: list[str]) -> list[Pair]:
    """Play scenes directly and through the gateway, again where the two differ.

    Several clients play at a time. Those that play again have the machine to themselves: before, a
    client that started beside it may have taken one of the two times longer.
    """
    places = asyncio.Semaphore(AT_A_TIME)

    async def both(client: Client, name: str) -> Pair:
        async with places:
            return _shown((await directly(client, name), await through(client, name)))

    scenes = [
        (c, name)
        for c in clients
        for name in table.scenes_of(c)
        if name in SCENES and name in names
    ]
    pairs = await asyncio.gather(*(both(*scene) for scene in scenes))
    for number, scene in enumerate(scenes):
        for _ in range(TRIES):
            if not faults([pairs[number]]):
                break
            pairs[number] = await both(*scene)
    return pairs


async def play_a_model(clients: list[Client], names: list[str]) -> list[Pair]:
    """Have those answered by the tiny model that are one of a protocol's, one after the other."""
    chosen = [c for c in clients if c.answered_by_a_model and table.MODEL_SCENE in names]
    with TemporaryDirectory(prefix="swink-model-") as folder:
        return [_shown((None, await through_to_a_model(c, Path(folder)))) for c in chosen]


def _shown(pair: Pair) -> Pair:
    """Print a line for a scene."""
    direct, through = pair
    parts = [f"{each.requests} requests, exit {_code(each)}, {each.run.seconds:.1f} s"
             for each in pair if each is not None]  # fmt: skip
    print(f"{through.client.name}, {through.scene}: {'; through '.join(parts)}", flush=True)
    if direct is not None and direct.screen != through.screen:
        print(f"    {direct.screen}\n    {through.screen}", flush=True)
    return pair


def faults(pairs: list[Pair]) -> list[str]:
    """Return the faults through the gateway, with the end of the client's output."""
    found = []
    for direct, result in pairs:
        wrong = [] if direct is None else differences(direct, result)
        if result.fault is not None:
            wrong.append(result.fault)
        if wrong:
            name = f"{result.client.name}, {result.scene}"
            found.append(f"{name}: {'; '.join(wrong)}\n{result.run.output[-1500:]}")
    return found


def main() -> None:
    """Play what is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of clients' names; none: all")
    parser.add_argument("--scenes", help="names of scenes, with commas between; none: all")
    parser.add_argument("--write", action="store_true", help="write their rows anew")
    parser.add_argument("--quick", action="store_true", help="leave out slow agents")
    given = parser.parse_args()
    wanted = tuple(name.lower() for name in given.names)
    clients = [c for c in CLIENTS if not wanted or c.name.lower().startswith(wanted)]
    names = given.scenes.split(",") if given.scenes else [*SCENES, table.MODEL_SCENE]
    if given.quick and not wanted:
        clients = [client for client in clients if not client.is_slow]
        names = [name for name in names if name != table.MODEL_SCENE]
    if not FOLDER.exists():
        sys.exit("run `make clients`, which installs them")
    wrong = []
    for playing in (play, play_a_model):
        pairs = asyncio.run(playing(clients, names))
        if given.write:
            table.write(pairs)
        wrong += faults(pairs)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
