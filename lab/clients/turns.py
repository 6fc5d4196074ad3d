"""Have eight agents think, call two tools and answer through the gateway, over four vendors each.

    python -m lab.clients.turns                  # all of them
    python -m lab.clients.turns codex --write    # those whose names begin so, and write their rows

A turn is right if the tool ran and the agent printed the answer. `make clients` installs the
agents. Exit code 1 where a turn is not right.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

import lab.clients.table as table
import swink_core as swink
from lab.clients.drive import AT_A_TIME, Result
from lab.clients.installed import CLIENTS, FOLDER, KEY, MODEL, Client
from lab.clients.scenes import SCENES, vendor_of
from swink_gateway.serving.calls import REQUESTS
from swink_gateway.serving.server import Gateway

UPSTREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "OpenAI, Responses": ("openai/gpt-5.4-mini", {"settings": {"api": "responses"}}),
    "Anthropic": ("anthropic/claude-haiku-4-5", {}),
    "Google": ("gemini/gemini-3.6-flash", {}),
    "OpenAI, Chat": ("openai/gpt-4.1", {"settings": {"api": "chat"}}),
}
"""The models that answer, by the names of the columns, and their options."""

NAMES = ("Codex", "Claude Code", "opencode", "Gemini CLI", "Qwen Code")
"""How the names of the agents begin."""

TRIES = 2


async def turn(client: Client, upstream: str) -> Result:
    """Play one turn through the gateway."""
    model, own = UPSTREAMS[upstream]
    name = model.partition("/")[0]
    async with vendor_of(SCENES["tool"], KEY, client.tool) as vendor:
        folder = "/v1" if name == "openai" else ""
        options = {"base_url": vendor.url + folder, "api_key": KEY, **own}
        async with (
            swink.Client(providers={name: options}) as asking,
            Gateway(asking, keys=[KEY], routes={MODEL: [model]}) as gateway,
        ):
            run = await client.run(gateway.url)
            requests = len(vendor.state.record.exchanges)
            return Result(client, "tool", run, requests, gateway.counters[REQUESTS])


async def play(clients: list[Client]) -> list[Result]:
    """Play all turns of these agents, and one that failed again; print a line for each."""
    places = asyncio.Semaphore(AT_A_TIME)

    async def one(client: Client, upstream: str) -> Result:
        async with places:
            for _ in range(TRIES):
                result = await turn(client, upstream)
                if result.fault is None:
                    break
        words = result.fault or f"right, {result.requests} requests, {result.run.ran} calls"
        print(f"{client.name}, {upstream}: {words}, {result.run.seconds:.1f} s", flush=True)
        return result

    return await asyncio.gather(*(one(c, u) for c in clients for u in UPSTREAMS))


def main() -> None:
    """Play what is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of agents' names; none: all")
    parser.add_argument("--write", action="store_true", help="write their rows anew")
    given = parser.parse_args()
    if not FOLDER.exists():
        sys.exit("run `make clients`, which installs the agents")
    wanted = tuple(given.names)
    clients = [
        client
        for client in CLIENTS
        if client.name.startswith(NAMES) and (not wanted or client.name.lower().startswith(wanted))
    ]
    results = asyncio.run(play(clients))
    if given.write:
        rows = {client.name: [client.name] for client in clients}
        for result in results:
            rows[result.client.name].append(
                result.fault or f"{result.requests} requests, {result.run.ran} calls"
            )
        table.write_turns([*UPSTREAMS], rows)
    wrong = [r for r in results if r.fault is not None]
    print(f"{len(results) - len(wrong)} of {len(results)} turns are right")
    if wrong:
        sys.exit("\n".join(f"{r.client.name}: {r.run.output[-500:]}" for r in wrong))


if __name__ == "__main__":
    main()
