"""`swink gateway`: serve all installed providers to clients of other APIs."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
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
from swink_gateway.policy.config import KEY_ENV, Config, Fault, Source
from swink_gateway.policy.cooldowns import Cooldowns
from swink_gateway.policy.limits import Store, faults_of_place, open_ledger
from swink_gateway.policy.routing import Routing, usable
from swink_gateway.protocols.bodies import MOST_DIGITS
from swink_gateway.serving.access_log import ACCESS_LOGGER, FORMATS, AccessLog
from swink_gateway.serving.allocator import return_large_blocks
from swink_gateway.serving.descriptors import raise_limit
from swink_gateway.serving.limits import MEMORY_BYTES, MOST_STREAMS, Limits
from swink_gateway.serving.reloading import Reloader
from swink_gateway.serving.server import LOOPBACK, Gateway
from swink_gateway.serving.shared_config import SharedConfig
from swink_gateway.serving.shutdown import DRAIN_SECONDS, Shutdown, serve_until_stopped
from swink_gateway.serving.workers import TOGETHER_ENV, Worker, fork_workers, listen

__all__ = ["command"]

SWITCH_SECONDS = 0.001
"""How long a thread may use the interpreter while another waits for it.

Threads parse and check large requests. With Python's 5 ms, a small request waits for up to 0.2 s
in all while one of them runs.
"""

PORT = 8117

MEGABYTE = 1024 * 1024

MEMORY_FOLDER = "/dev/shm"
"""Shared memory on Linux."""


@click.command("gateway")
@click.option(
    "--host", default=LOOPBACK, show_default=True, metavar="ADDRESS",
    help="The address to listen on.",
)  # fmt: skip
@click.option(
    "--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), metavar="N",
    help="The port to listen on; 0 picks a free port.",
)  # fmt: skip
@click.option(
    "--name", "names", multiple=True, metavar="HOST",
    help="An additional host name under which clients reach the gateway.",
)  # fmt: skip
@click.option(
    "--route", "routes", multiple=True, metavar="NAME=MODEL[,MODEL…]",
    help="A name for a model, or for a fallback chain of models.",
)  # fmt: skip
@click.option(
    "--setting", "settings", multiple=True, metavar="NAME",
    help="A provider setting that clients of swink's native protocol may set.",
)  # fmt: skip
@click.option(
    "--streams", default=MOST_STREAMS, show_default=True, type=click.IntRange(1), metavar="N",
    help="The limit of concurrent requests; further ones get a 503 with Retry-After.",
)  # fmt: skip
@click.option(
    "--memory", default=MEMORY_BYTES // MEGABYTE, show_default=True, type=click.IntRange(1),
    metavar="MB",
    help="Memory for the bodies of active requests, shared by all workers.",
)  # fmt: skip
@click.option(
    "--coalesce", is_flag=True,
    help="Keep reading from the provider when a client reads slowly; merge the waiting deltas.",
)  # fmt: skip
@click.option(
    "--access-log", "access_log", type=click.Choice(FORMATS),
    help="Log each request to stderr, with its key, model, seconds, tokens, dollars and outcome.",
)  # fmt: skip
@click.option(
    "--config", "file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="A TOML file with routes, rules and keys; reloaded when it changes, and on SIGHUP.",
)  # fmt: skip
@click.option(
    "--check", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="Check the configuration, print a summary, and exit.",
)  # fmt: skip
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1), metavar="N",
    help="The number of worker processes.",
)  # fmt: skip
@click.option(
    "--drain", default=DRAIN_SECONDS, show_default=True, type=click.FloatRange(0),
    metavar="SECONDS", help="Time for active requests to finish after SIGTERM or Ctrl-C.",
)  # fmt: skip
@click.option(
    "--notice", default=0.0, show_default=True, type=click.FloatRange(0),
    metavar="SECONDS",
    help="Time between the first failing /ready and the refusal of new requests.",
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

    Clients name models as provider/model, or by their bare names. Without keys, the gateway serves
    only this machine. Set SWINK_GATEWAY_KEY to one or more keys, separated by spaces, or list keys
    in the --config file: then clients must send one of them. If a key in the file has the value
    ${SWINK_GATEWAY_KEY}, the limits in the file apply to the keys in that variable.
    """
    if check is not None:
        return asyncio.run(_check(check))
    _say_what_is_logged()
    environ = dict(os.environ)
    keys = os.environ.pop(KEY_ENV, "").split()  # hide the keys from child processes
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
    with suppress(KeyboardInterrupt), ExitStack() as of_all, ExitStack() as of_parent:
        if workers > 1:
            folder = mkdtemp(prefix=f"swink-gateway-{os.getpid()}-", dir=_in_memory())
            of_parent.callback(rmtree, folder, ignore_errors=True)
            os.environ.setdefault(TOGETHER_ENV, folder)
            store = shared_store(store, Path(folder))
            if source is not None:
                shared = SharedConfig(source.text)
            with _told_why(host, port):
                sock = of_all.enter_context(listen(host, port))
            try:
                worker = fork_workers(workers, sock, _forget, notice + drain)
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
        if worker is not None and worker.is_orphan:  # otherwise the parent removes the folder
            _remove(folder)
    if worker is None:
        _say_stopped()
    return 0


def shared_store(store: Store, folder: Path) -> Store:
    """Return a store that several workers can share; its files are in `folder` by default."""
    if store.engine == "memory":
        return Store("sqlite", folder / "ledger")
    if store.engine == "redis" and store.path is None:
        return evolve(store, path=folder)
    return store


def _remove(folder: str) -> None:
    """Remove a folder that other workers may write to or remove at the same time."""
    for _ in range(20):
        rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(0.05)


def _in_memory() -> str | None:
    """Return the parent folder for the metrics of workers; `None` means the system's default.

    The folder is in memory if possible. The metrics are memory-mapped files, and the system kills a
    worker that writes to such a file on a full disk.
    """
    return MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK | os.X_OK) else None


def _forget_text(text: str) -> None:
    """Do nothing: with a single process, no other process needs the text of the configuration."""


def _say_stopped() -> None:
    _say_below("stopped")


def _say_below(line: str) -> None:
    """Print a line below the ^C that the terminal shows."""
    say(f"\n{line}" if is_terminal(sys.stderr) else line)


def _of(worker: Worker | None, line: str) -> str:
    """Prefix a line with the worker's process id, if there are several workers."""
    return line if worker is None else f"worker {os.getpid()}: {line}"


def _say_of(worker: Worker | None, line: str) -> None:
    say(_of(worker, line))


class _Saying(logging.Handler):
    """A handler that prints log records to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            say(self.format(record))
        except Exception:  # standard error is closed: keep serving
            self.handleError(record)


def _say_what_is_logged() -> None:
    if all(isinstance(one, logging.NullHandler) for one in logging.getLogger().handlers):
        saying = _Saying(logging.WARNING)
        # the reloader prints its messages itself, except tracebacks
        saying.addFilter(lambda one: one.name != Reloader.__module__ or bool(one.exc_info))
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
            f"invalid --route {text!r}: expected a name and its models",
            resolution="Write NAME=MODEL, or NAME=MODEL,MODEL to fall back.",
        )
    return name, chosen(chain)


def _forget(worker: int) -> None:
    """Remove the gauges of a worker that has ended, as prometheus_client does."""
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
    """Serve with the configuration in `source`.

    `keep` is called with the text of each later configuration.
    """
    from swink_gateway.serving.metrics import Monitor  # its imports read TOGETHER_ENV

    sys.set_int_max_str_digits(MOST_DIGITS)
    return_large_blocks()
    sys.setswitchinterval(SWITCH_SECONDS)
    monitor = Monitor()
    async with aclosing(open_ledger(store, monitor.counters)) as ledger:
        parts = client_parts(None, monitor.plugins)
        cooldowns = Cooldowns(ledger)
        cooldowns.heard = monitor.hear_circuit
        async with swink.Client(**parts, breaker=False, gates=[cooldowns]) as client:
            config: Config = given["config"]
            watching: AbstractContextManager[None] = nullcontext()
            if source is not None:
                config = usable(client, source, environ)
                for name in source.variables_of_keys():
                    os.environ.pop(name, None)  # hidden from child processes
            unknown = _unknown_settings(client, given["settings"])
            await ledger.spending([*config.keys])  # cached in case the server is lost
            gateway = Gateway(client, **given, ledger=ledger, monitor=monitor)
            cooldowns.place_of = lambda key: gateway.routing.named(key)
            if source is not None:
                gateway.reconfigure(config)  # a worker may start after the file has changed
                tell = partial(_say_of, worker)
                monitor.reloader = Reloader(
                    client, source, environ, gateway.reconfigure, tell, keep=keep
                )
                watching = monitor.reloader.watching()
            for chain in given["routes"].values():
                for model in chain:
                    client.catalog.resolve(model)
            with watching:
                async with AsyncExitStack() as serving:
                    with _told_why(given["host"], given["port"]):
                        await serving.enter_async_context(gateway)
                    if worker is None or worker.number == 0:
                        count = len(client.host.provider_names())
                        word = "provider" if count == 1 else "providers"
                        for name in unknown:
                            say(f"--setting {name}: no installed provider has this setting")
                        say(f"serving {count} {word} at {gateway.url}")
                        say("open it in a browser to see how to point a client here; Ctrl-C stops")
                    await serve_until_stopped(gateway, shutdown, worker)


def _unknown_settings(client: swink.Client, names: Sequence[str]) -> list[str]:
    """Return the names in `--setting` that no provider declares.

    The names are reported, not refused: a provider may accept settings that it does not declare.
    Raises SwinkError if no provider's data can be read, because then the user's own models file
    (SWINK_MODELS) is the probable cause.
    """
    known, faults = set[str](), list[swink.SwinkError]()
    providers = client.host.provider_names()
    for provider in providers:
        try:
            info = client.catalog.provider(provider)
        except swink.SwinkError as error:
            faults.append(error)  # reported when the provider is used
        else:
            known |= {*info.settings} if info else set()
    if faults and len(faults) == len(providers):
        raise faults[0]
    return [name for name in names if name not in known]


@contextmanager
def _told_why(host: str, port: int) -> Iterator[None]:
    """Raise SwinkError with advice if the gateway cannot listen on an address."""
    try:
        yield
    except OSError as error:
        advice = "Choose another --port, or 0 for a free one."
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            advice = "Give --host an address of this machine."
        # asyncio's own message repeats the address
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise swink.SwinkError(
            f"cannot listen on {host}:{port}: {why}",
            title="The gateway was not started",
            resolution=advice,
        ) from error
