"""Drive SDKs and agent frameworks at a failing vendor, directly and through the gateway.

    python -m lab.clients.sdks                     # all that are installed
    python -m lab.clients.sdks anthropic --write   # one, and write its rows of the page anew

It runs in the environments of `.venv-clients`, each of which plays the clients that it has.

`make clients` installs them into another environment. Clients repeat requests as they do by
default. Exit code 1 where one ends with another exception through the gateway, with more requests
at the vendor, or more than 1 s and 10 % later.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from attrs import define

import lab.clients.table as table
import swink_core as swink
from lab.clients.installed import FOLDER
from lab.clients.scenes import FAILURES, SDK_SCENES, Scene, vendor_of
from lab.clients.sdk_calls import SDKS, EndedInNode, Sdk, Way
from swink_gateway.policy.cooldowns import Cooldowns
from swink_gateway.serving.server import Gateway

KEY = "key-of-the-client"
ROUTE = "route"
"""The model's name at the gateway."""

PATIENCE = 2.0
"""The time limit of clients, in seconds, during silence."""

TIME_LIMIT = 60.0

TRIES = 3

SCENES = {**FAILURES, **SDK_SCENES}

BETTER = {("AI SDK, Gemini", "error")}
"""Rows in which a client raises the vendor's error through the gateway alone."""


@define
class Seen:
    """The exception of a client with its status, the requests at the vendor, and the seconds until
    it gave up."""

    ending: str
    requests: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.ending}, {self.requests} requests, {self.seconds:.1f} s"


def differences(name: str, scene: str, direct: Seen, through: Seen) -> list[str]:
    """Return where a client fares worse through the gateway than directly."""
    found = []
    if through.ending != direct.ending and (name, scene) not in BETTER:
        found.append(f"{through.ending}, directly {direct.ending}")
    if through.requests > direct.requests:
        found.append(f"{through.requests} requests, directly {direct.requests}")
    if through.seconds > direct.seconds + max(1.0, 0.1 * direct.seconds):
        found.append(f"{through.seconds:.1f} s, directly {direct.seconds:.1f} s")
    return found


async def seen(sdk: Sdk, way: Way) -> tuple[str, float]:
    """Make one call; return its ending and its seconds."""
    began = time.monotonic()
    try:
        ending = await asyncio.wait_for(sdk.call(way), TIME_LIMIT)
    except ImportError:
        raise
    except EndedInNode as ended:
        return ended.ending, ended.seconds
    except Exception as error:
        ending = _ending(error)
    return ending, time.monotonic() - began


def _ending(error: BaseException) -> str:
    """Return an exception's type and status; one without a status, its cause's as well."""
    status = getattr(error, "status_code", getattr(error, "code", None))
    if isinstance(status, int):
        return f"{type(error).__name__} {status}"
    cause = None if error.__cause__ is None else _ending(error.__cause__)
    has_status = cause is not None and cause[-1].isdigit()
    return f"{type(error).__name__}{f', {cause}' if has_status else ''}"


async def play(sdk: Sdk, name: str, scene: Scene) -> tuple[Seen, Seen]:
    """Play a scene directly and through the gateway."""
    keys = [scene.key_for(KEY)]
    timeout = PATIENCE if name == "silence" else TIME_LIMIT
    async with vendor_of(scene, KEY, None) as vendor:
        record = vendor.state.record
        ending, seconds = await seen(sdk, Way(vendor.url, sdk.model, KEY, timeout))
        direct = Seen(ending, len(record.exchanges), seconds)
        record.clear()
        folder = "/v1" if sdk.provider == "openai" else ""
        own: dict[str, Any] = {"base_url": vendor.url + folder, "api_key": keys[0]}
        routes = {ROUTE: [f"{sdk.provider}/{sdk.model}"]}
        async with (
            swink.Client(providers={sdk.provider: own}, gates=[Cooldowns()]) as client,
            Gateway(client, keys=keys, routes=routes) as gateway,
        ):
            ending, seconds = await seen(sdk, Way(gateway.url, ROUTE, KEY, timeout))
            return direct, Seen(ending, len(record.exchanges), seconds)


async def drive(sdk: Sdk, names: list[str]) -> list[tuple[str, Seen, Seen]]:
    """Play these scenes of a client, again where the gateway differs. Print a line for each."""
    found = []
    for name in names:
        scene = SCENES[name]
        for _ in range(TRIES):
            direct, through = await play(sdk, name, scene)
            wrong = differences(sdk.name, name, direct, through)
            if not wrong:
                break
        print(f"{sdk.name}, {name}: {direct}; through {through}", flush=True)
        found.append((name, direct, through))
    return found


def main() -> None:
    """Play the named clients that this environment has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of clients' names; none: all")
    parser.add_argument("--scenes", help="names of scenes, with commas between; none: all")
    parser.add_argument("--write", action="store_true", help="write their rows anew")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    here = Path(sys.prefix)
    if here.parent != FOLDER:
        sys.exit("run `make clients`, which installs SDKs and runs this with each environment")
    environments = {here.name, *(["npm"] if here.name == "sdks" else [])}
    wrong = []
    names = given.scenes.split(",") if given.scenes else [*SCENES]
    for sdk in SDKS:
        if given.names and not sdk.name.lower().startswith(tuple(given.names)):
            continue
        if sdk.environment not in environments:
            continue
        found = asyncio.run(drive(sdk, names))
        if given.write:
            table.write_sdk(sdk.name, f"`{sdk.package}` {sdk.version}", found)
        for name, direct, through in found:
            wrong += [
                f"{sdk.name}, {name}: {each}"
                for each in differences(sdk.name, name, direct, through)
            ]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
