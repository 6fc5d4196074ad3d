"""`swink gateway`: serve every installed provider to clients of other APIs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

import swink_core as swink
from swink_cli.clients import make_client
from swink_cli.settings import chosen
from swink_cli.terminal import say
from swink_gateway.server import LOOPBACK, Gateway

__all__ = ["command"]

KEY_ENV = "SWINK_GATEWAY_KEY"
"""Names the variable with the keys that clients have to show, separated by spaces."""

PORT = 8117


@click.command("gateway")
@click.option("--host", default=LOOPBACK, show_default=True, help="The address to listen at.")
@click.option(
    "--port", default=PORT, show_default=True, type=click.IntRange(0, 65535),
    help="The port to listen at; 0 takes a free one.",
)  # fmt: skip
@click.option(
    "--name", "names", multiple=True, metavar="HOST",
    help="A host name by which clients reach it, beside this machine's own.",
)  # fmt: skip
@click.option(
    "--route", "routes", multiple=True, metavar="NAME=MODEL[,MODEL…]",
    help="A name for a model, or for several to fall back through.",
)  # fmt: skip
@click.option(
    "--setting", "settings", multiple=True, metavar="NAME",
    help="A setting of providers that clients of swink's own protocol may say, too.",
)  # fmt: skip
def command(
    host: str, port: int, names: Sequence[str], routes: Sequence[str], settings: Sequence[str]
) -> int:
    """Serve any installed model to clients of OpenAI, Anthropic, Google, Ollama and swink.

    Models are named provider/model, or by their bare names. Only this machine is served, unless
    SWINK_GATEWAY_KEY holds a key that clients have to show; several are separated by spaces.
    """
    keys = os.environ.get(KEY_ENV, "").split()
    with suppress(KeyboardInterrupt):
        given: dict[str, Any] = {"hosts": names, "keys": keys, "settings": settings}
        asyncio.run(_serve(host, port, dict(map(_route, routes)), given))
    return 0


def _route(text: str) -> tuple[str, list[str]]:
    name, equals, models = text.partition("=")
    chain = [model.strip() for model in models.split(",") if model.strip()]
    if not (name and equals and chain):
        raise swink.UsageError(
            f"--route {text!r} is not a name and its models",
            resolution="Write NAME=MODEL, or NAME=MODEL,MODEL to fall back.",
        )
    return name, chosen(chain)


async def _serve(host: str, port: int, routes: dict[str, list[str]], given: dict[str, Any]) -> None:
    async with make_client() as client:
        gateway = Gateway(client, host=host, port=port, routes=routes, **given)
        for chain in routes.values():
            for model in chain:
                client.catalog.resolve(model)
        try:
            async with gateway:
                say(f"serving {len(client.host.provider_names())} providers at {gateway.url}")
                say("open it in a browser to see how to point a client here; Ctrl-C stops")
                await asyncio.Event().wait()
        except OSError as error:
            raise swink.SwinkError(
                f"cannot listen at {host}:{port}: {error.strerror or error}",
                title="The gateway was not started",
                resolution="Choose another --port, or 0 for a free one.",
            ) from error
