"""`swink gateway`: serve every installed provider to clients of other APIs."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    aclosing,
    contextmanager,
    nullcontext,
    suppress,
)  # fmt: skip
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import click
from attrs import evolve

import swink_core as swink
from swink_cli.clients import chosen, client_parts
from swink_cli.listing import print_lines
from swink_cli.terminal import is_terminal, say
from swink_gateway.commands.check import lines_of
from swink_gateway.policy.config import Config, Fault, Source
from swink_gateway.policy.cooldowns import Cooldowns
from swink_gateway.policy.limits import Store, faults_of_place, open_ledger
from swink_gateway.policy.routing import Routing, usable
from swink_gateway.serving.access_log import ACCESS_LOGGER, FORMATS, AccessLog
from swink_gateway.serving.descriptors import raise_limit
from swink_gateway.serving.limits import MEMORY_BYTES, MOST_STREAMS, Limits
from swink_gateway.serving.reloading import Reloader
from swink_gateway.serving.server import LOOPBACK, Gateway
from swink_gateway.serving.shared_config import SharedConfig
from swink_gateway.serving.shutdown import DRAIN_SECONDS, Shutdown, serve_until_stopped
from swink_gateway.serving.workers import TOGETHER_ENV, Worker, fork_workers, listen

__all__ = ["command"]

KEY_ENV = "SWINK_GATEWAY_KEY"
"""Names the variable with the keys that clients have to show, separated by spaces."""

PORT = 8117


MEGABYTE = 1024 * 1024

MEMORY_FOLDER = "/dev/shm"
"""The folder of shared memory that Linux offers."""


@click.command("gateway")
@click.option(
    "--host", default=LOOPBACK, show_default=True, metavar="ADDRESS",
    help="The address to listen at.",
)  # fmt: skip
@click.option(
    "--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), metavar="N",
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
@click.option(
    "--streams", default=MOST_STREAMS, show_default=True, type=click.IntRange(1), metavar="N",
    help="How many answers may be under way at a time; more are told to come again.",
)  # fmt: skip
@click.option(
    "--memory", default=MEMORY_BYTES // MEGABYTE, show_default=True, type=click.IntRange(1),
    metavar="MB",
    help="Memory for the requests that are being answered, shared among the workers.",
)  # fmt: skip
@click.option(
    "--coalesce", is_flag=True,
    help="Read on while a client reads slowly, and join the pieces that wait for it.",
)  # fmt: skip
@click.option(
    "--access-log", "access_log", type=click.Choice(FORMATS),
    help="Log each request to stderr, with its key, model, seconds, tokens, dollars and outcome.",
)  # fmt: skip
@click.option(
    "--config", "file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="A TOML file with routes, rules and keys; read again when it changes, and on SIGHUP.",
)  # fmt: skip
@click.option(
    "--check", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="Print what such a file would have the gateway do, and serve nothing.",
)  # fmt: skip
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1), metavar="N",
    help="How many processes serve the port.",
)  # fmt: skip
@click.option(
    "--drain", default=DRAIN_SECONDS, show_default=True, type=click.FloatRange(0),
    metavar="SECONDS", help="For how long answers may finish after SIGTERM or Ctrl-C.",
)  # fmt: skip
@click.option(
    "--notice", default=0.0, show_default=True, type=click.FloatRange(0),
    metavar="SECONDS",
    help="For how long before that /ready says so and new requests are still answered.",
)  # fmt: skip
def command(
    host: str,
    port: int,
    names: Sequence[str],
    routes: Sequence[str],
    settings: Sequence[str],
    streams: int,
    memory: int,
    coalesce: bool,
    access_log: str | None,
    file: Path | None,
    check: Path | None,
    workers: int,
    drain: float,
    notice: float,
) -> int:
    """Serve any installed model to clients of OpenAI, Anthropic, Google, Ollama and swink.

    Models are named provider/model, or by their bare names. Only this machine is served, unless
    SWINK_GATEWAY_KEY holds a key that clients have to show; several are separated by spaces. So do
    the keys of a --config, which may name that variable, too: then its key is the one of that name.
    """
    if check is not None:
        return asyncio.run(_check(check))
    _say_what_is_logged()
    environ = dict(os.environ)
    keys = os.environ.pop(KEY_ENV, "").split()  # programs that providers start do not get it
    given: dict[str, Any] = {"hosts": names, "keys": keys, "settings": settings}
    given["limits"] = Limits(
        streams=streams, memory=memory * MEGABYTE // workers, coalesce=coalesce
    )
    if (warning := raise_limit(given["limits"])) is not None:
        say(warning)
    if access_log is not None:
        given["access_log"] = AccessLog(access_log)
        _write_access_log()
    given |= {"host": host, "port": port, "routes": dict(map(_route, routes))}
    source = None if file is None else Source.of(file)
    config = given["config"] = Config() if source is None else source.config(environ)
    store = config.store
    worker = shared = None
    parent = os.getpid()
    with suppress(KeyboardInterrupt), ExitStack() as of_all, ExitStack() as of_parent:
        if workers > 1:
            folder = mkdtemp(prefix=f"swink-gateway-{os.getpid()}-", dir=_in_memory())
            of_parent.callback(rmtree, folder, ignore_errors=True)
            os.environ.setdefault(TOGETHER_ENV, folder)
            if store.engine == "memory":
                store = Store("sqlite", Path(folder, "ledger"))
            elif store.engine == "redis":
                store = evolve(store, path=Path(folder))
            if source is not None:
                shared = SharedConfig(source.text)
            with _told_why(host, port):
                sock = of_all.enter_context(listen(host, port))
            try:
                worker = fork_workers(workers, sock, _forget)
            except SystemExit as ended:
                if not ended.code:
                    _say_stopped()
                raise
            given["shared"] = sock, worker.room
            of_parent.pop_all()
        if source is not None and shared is not None:
            source = evolve(source, text=shared.read())
        shutdown = Shutdown(drain, notice, lambda line: _say_below(_of(worker, line)))
        keep = _forget_text if shared is None else shared.write
        asyncio.run(_serve(given, source, environ, store, shutdown, worker, keep))
        if worker is not None and os.getppid() != parent:  # which would have removed it
            rmtree(folder, ignore_errors=True)
    if worker is None:
        _say_stopped()
    return 0


def _in_memory() -> str | None:
    """Return a folder in memory; `None` for the usual one.

    The metrics of workers are mapped files: a full disk under them would kill each worker.
    """
    return MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK | os.X_OK) else None


def _forget_text(text: str) -> None:
    """Keep nothing: a gateway without workers is not replaced."""


def _say_stopped() -> None:
    _say_below("stopped")


def _say_below(line: str) -> None:
    """Say a line below the ^C of a terminal."""
    say(f"\n{line}" if is_terminal(sys.stderr) else line)


def _of(worker: Worker | None, line: str) -> str:
    """Return a line that says whose it is where there are several who say it."""
    return line if worker is None else f"worker {os.getpid()}: {line}"


def _say_of(worker: Worker | None, line: str) -> None:
    say(_of(worker, line))


class _Saying(logging.Handler):
    """Says what is logged: while it serves, a gateway has nobody else to tell."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            say(self.format(record))
        except Exception:  # nobody reads: what was to be told fails for no such reason
            self.handleError(record)


def _say_what_is_logged() -> None:
    if all(isinstance(one, logging.NullHandler) for one in logging.getLogger().handlers):
        saying = _Saying(logging.WARNING)
        saying.addFilter(lambda record: record.name != Reloader.__module__)  # it tells by itself
        logging.getLogger("swink_gateway").addHandler(saying)


def _write_access_log() -> None:
    """Send the access log to standard error unchanged."""
    access = logging.getLogger(ACCESS_LOGGER)
    access.setLevel(logging.INFO)
    access.propagate = False
    access.addHandler(logging.StreamHandler())


def _route(text: str) -> tuple[str, list[str]]:
    name, equals, models = text.partition("=")
    chain = [model.strip() for model in models.split(",") if model.strip()]
    if not (name and equals and chain):
        raise swink.InvalidOption(
            f"--route {text!r} is not a name and its models",
            resolution="Write NAME=MODEL, or NAME=MODEL,MODEL to fall back.",
        )
    return name, chosen(chain)


def _forget(worker: int) -> None:
    """Count no more what a worker had under way that has ended (as prometheus_client has it)."""
    for file in Path(os.environ[TOGETHER_ENV]).glob(f"gauge_live*_{worker}.db"):
        file.unlink(missing_ok=True)


def _faults_of_place(config: Config) -> Iterator[Fault]:
    return (Fault(("store", name), why) for name, why in faults_of_place(config.store))


async def _check(file: Path) -> int:
    async with swink.Client(**client_parts(None, ())) as client:
        source = Source.of(file)
        config = usable(client, source, os.environ, _faults_of_place)
        print_lines(lines_of(Routing(client, config)))
    return 0


async def _serve(
    given: dict[str, Any],
    source: Source | None,
    environ: dict[str, str],
    store: Store,
    shutdown: Shutdown,
    worker: Worker | None,
    keep: Callable[[str], None],
) -> None:
    """Serve as `source` says; `keep` is called with each text that is used instead of it."""
    from swink_gateway.serving.metrics import Monitor  # what it imports reads TOGETHER_ENV

    monitor = Monitor()
    async with aclosing(open_ledger(store, monitor.counters)) as ledger:
        parts = client_parts(None, monitor.plugins)
        cooldowns = monitor.cooldowns = Cooldowns(ledger)
        async with swink.Client(**parts, breaker=False, gates=[cooldowns]) as client:
            config: Config = given["config"]
            watching: AbstractContextManager[None] = nullcontext()
            if source is not None:
                config = usable(client, source, environ)
                for name in source.variables_of_keys():
                    os.environ.pop(name, None)  # programs that providers start do not get it
            unknown = _unknown_settings(client, given["settings"])
            await ledger.spending([*config.keys])  # so that it knows them if its server is lost
            gateway = Gateway(client, **given, ledger=ledger, monitor=monitor)
            if source is not None:
                gateway.reconfigure(config)  # a worker may begin late, with another text
                tell = partial(_say_of, worker)
                monitor.reloader = Reloader(
                    client, source, environ, gateway.reconfigure, tell, keep=keep
                )
                watching = monitor.reloader.watching()
            for chain in given["routes"].values():
                for model in chain:
                    client.catalog.resolve(model)
            with watching, _told_why(given["host"], given["port"]):
                async with gateway:
                    if worker is None or worker.number == 0:
                        count = len(client.host.provider_names())
                        word = "provider" if count == 1 else "providers"
                        for name in unknown:
                            say(f"--setting {name}: no provider that is installed declares it")
                        say(f"serving {count} {word} at {gateway.url}")
                        say("open it in a browser to see how to point a client here; Ctrl-C stops")
                    await serve_until_stopped(gateway, shutdown, worker)


def _unknown_settings(client: swink.Client, names: Sequence[str]) -> list[str]:
    """Return those that no provider declares; one of them may pass on whatever it is told.

    Raises SwinkError where no provider's data can be read: it is the user's own that cannot.
    """
    known, faults = set[str](), list[swink.SwinkError]()
    providers = client.host.provider_names()
    for provider in providers:
        try:
            info = client.catalog.provider(provider)
        except swink.SwinkError as error:
            faults.append(error)  # a plugin's is told when it is asked
        else:
            known |= {*info.settings} if info else set()
    if faults and len(faults) == len(providers):
        raise faults[0]
    return [name for name in names if name not in known]


@contextmanager
def _told_why(host: str, port: int) -> Iterator[None]:
    """Say what an address that cannot be listened at means."""
    try:
        yield
    except OSError as error:
        advice = "Choose another --port, or 0 for a free one."
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            advice = "Give --host an address of this machine."
        # the text of asyncio's error has the address once more
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise swink.SwinkError(
            f"cannot listen at {host}:{port}: {why}",
            title="The gateway was not started",
            resolution=advice,
        ) from error
