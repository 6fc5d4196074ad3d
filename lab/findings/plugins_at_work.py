"""Print what a process does whose plugin is uninstalled, and whose observers fail or are slow.

    python -m lab.findings.plugins_at_work

The last part compares the times in Prometheus' series with those of a fallback chain.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import shutil
import sys
import tempfile
import time
from pathlib import Path

from prometheus_client import CollectorRegistry

import swink
from lab.findings.broken_plugins import Plugin
from lab.findings.gateways import verdict
from swink_observer_prometheus.observer import PrometheusObserver

SLOW = 0.3
"""Seconds that the slow observer takes for each piece."""

WAIT = 1.0
"""Seconds between the attempts of a chain."""


def uninstalled() -> None:
    """Uninstall a provider before and after its first call."""
    for used in (True, False):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            Plugin().install(folder)
            sys.path.insert(0, name)
            importlib.invalidate_caches()
            try:
                call_without(folder, used)
            finally:
                sys.path.remove(name)
                sys.modules.pop("acme_one", None)


def call_without(folder: Path, used: bool) -> None:
    """Delete the files of the plugin, then make a call."""
    when = "after" if used else "before"
    with swink.SyncClient() as client:
        if used:
            client.complete("acme/large", "Hi")
        else:
            list(client.catalog.models("acme"))
        for each in folder.iterdir():
            shutil.rmtree(each)
        importlib.invalidate_caches()
        try:
            seen = f"answered {client.complete('acme/large', 'Hi').text!r}"
            right = True
        except Exception as error:
            words = " ".join(str(error).split())[:90]
            seen = f"{type(error).__name__}: {words}"
            right = isinstance(error, swink.SwinkError) and "acme" in words
        verdict(right, f"uninstalled {when} the first call: {seen}")


class Failing:
    """Raises for each piece of text."""

    @swink.hookimpl
    def on_event(self, event: swink.Event, call: swink.Call) -> None:
        """Raise."""
        if isinstance(event, swink.TextDelta):
            raise ValueError("a fault of the observer")


class Slow:
    """Takes its time for each piece of text."""

    @swink.hookimpl
    def on_event(self, event: swink.Event, call: swink.Call) -> None:
        """Block."""
        if isinstance(event, swink.TextDelta):
            time.sleep(SLOW)


async def observers() -> None:
    """Make a call beside each observer."""
    for observer in (Failing(), Slow()):
        async with swink.Client(plugins=[observer]) as client:
            began = time.monotonic()
            message = await client.complete("echo/echo", "one two three")
            took = time.monotonic() - began
        name = type(observer).__name__.lower()
        text = f"{name} observer: answered {message.text!r} in {took:.1f} s"
        verdict(message.text == "one two three", text)


async def prometheus() -> None:
    """Let the first model of a chain fail after two pieces, and read the series of the second."""
    registry = CollectorRegistry()
    once = swink.RetryPolicy(
        retries={swink.StreamErrorKind.OVERLOADED: 1},
        base=WAIT,
        max_delay=WAIT,
        restart_after_output=True,
    )
    chain = ["echo/fail-overloaded-after-2", "echo/slow"]
    async with swink.Client(plugins=[PrometheusObserver(registry=registry)]) as client:
        await client.complete(chain, "one two three", retry=once)
    for metric in registry.collect():
        for sample in metric.samples:
            if sample.name.endswith("_sum") and ("first" in sample.name or "dur" in sample.name):
                labels = " ".join(f"{key}={value}" for key, value in sample.labels.items())
                first = "first" in sample.name and "slow" in labels
                if first:
                    verdict(sample.value < WAIT, f"{sample.name} {labels} {sample.value:.3f}")
                else:
                    print(f"       {sample.name} {labels} {sample.value:.3f}")


async def run() -> None:
    """Print the lines of observers."""
    await observers()
    await prometheus()


def main() -> None:
    """Run the program."""
    logging.disable(logging.CRITICAL)
    uninstalled()
    asyncio.run(run())


if __name__ == "__main__":
    main()
