"""The command `python -m swink_provider_local pull MODEL`, which downloads a model in advance."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from swink_core import (
    Host,
    Model,
    ProviderFailure,
)
from swink_core.providers import Catalog
from swink_provider_local.choice import file_of
from swink_provider_local.hub import Hub, HubFile, size_text

BAR = 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m swink_provider_local", description="Models on this machine."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    pull = commands.add_parser("pull", help="download a model's file")
    pull.add_argument("model", nargs="?", default="default", help="smollm3-3b, or repo:file.gguf")
    commands.add_parser("list", help="list known models and which are downloaded")
    given = parser.parse_args(arguments)
    try:
        return _list() if given.command == "list" else _pull(given.model)
    except ProviderFailure as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; run pull again to resume", file=sys.stderr)
        return 130


def _pull(name: str) -> int:
    model = Catalog(Host()).resolve(Model("local", name.removeprefix("local/")))
    file = file_of(model, os.environ)
    if isinstance(file, HubFile):
        bar = _Bar(file.name, sys.stderr)
        file = Hub.of(os.environ).download(file, bar.show)
        bar.end()
    print(file)
    return 0


def _list() -> int:
    hub = Hub.of(os.environ)
    for info in Catalog(Host()).models("local"):
        file = HubFile(info.extra["repo"], info.extra["file"])
        print(f"{'*' if hub.path(file).is_file() else ' '} {info.id:15} {file}")
    return 0


class _Bar:
    """A progress bar on one line. It shows nothing if the output is not a terminal."""

    def __init__(self, name: str, out: TextIO) -> None:
        self._name, self._out = name, out
        self._shown = ""

    def show(self, done: int, total: int | None) -> None:
        """Redraw the bar if it has changed."""
        if not self._out.isatty():
            return
        if total:
            filled = BAR * done // total
            text = f"[{'#' * filled}{'.' * (BAR - filled)}] {100 * done // total:3} % of "
            text += size_text(total)
        else:
            text = size_text(done)
        if text != self._shown:
            self._shown = text
            self._out.write(f"\r{self._name} {text}")
            self._out.flush()

    def end(self) -> None:
        """Write a line end after the bar."""
        if self._shown:
            self._out.write("\n")


if __name__ == "__main__":
    sys.exit(main())
