"""The metrics of all processes that share a folder (`PROMETHEUS_MULTIPROC_DIR`)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.multiprocess import MultiProcessCollector

__all__ = ["of_all_processes"]


def of_all_processes(registry: CollectorRegistry) -> CollectorRegistry:
    """Return a registry with the metrics of all processes that share their folder with this one.

    Return `registry` itself if the environment variable `PROMETHEUS_MULTIPROC_DIR` is not set.
    Raises ValueError if it does not name a folder.
    """
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if not folder:
        return registry
    all_processes = CollectorRegistry()
    all_processes.register(_Files(folder))
    return all_processes


class _Files:
    """The files in which processes keep their metrics."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._reader = MultiProcessCollector(None, folder)  # type: ignore[no-untyped-call]

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of all files; prometheus_client calls this.

        A process creates its files empty. prometheus_client cannot read an empty file, so such
        files are omitted.
        """
        files = [str(file) for file in self._folder.glob("*.db") if _has_content(file)]
        found: Iterable[Metric] = self._reader.merge(files)  # type: ignore[no-untyped-call]
        return found


def _has_content(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:  # gauges of a process that has ended were removed
        return False
