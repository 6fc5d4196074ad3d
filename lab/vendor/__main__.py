"""Serve the vendor until it is interrupted: `python -m lab.vendor --port 0`."""

from __future__ import annotations

import argparse
import asyncio
import os

from lab.vendor.server import Vendor

_KILLED = 137


async def _die(seconds: float) -> None:
    os._exit(_KILLED)


async def _serve(options: argparse.Namespace) -> None:
    keys: dict[str, list[str]] = {}
    for each in options.account or []:
        name, _, key = each.partition("=")
        keys.setdefault(name, []).append(key)
    vendor = Vendor(
        keys or None,
        seed=options.seed,
        tokens_per_second=options.tokens_per_second,
        first_token=options.first_token,
        batch_seconds=options.batch_seconds,
        host=options.host,
        port=options.port,
        on_kill=_die if options.die else None,
    )
    async with vendor:
        print(vendor.url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m lab.vendor", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port, which is printed")
    parser.add_argument("--account", action="append", metavar="NAME=KEY", help="repeat for more")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokens-per-second", type=float, help="default: as fast as possible")
    parser.add_argument("--first-token", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--batch-seconds", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--die", action="store_true", help="the fault `kill` ends this process")
    try:
        asyncio.run(_serve(parser.parse_args()))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
