"""Print what clients see when workers die while the configuration file has a fault.

    python -m lab.findings.dead_config

New workers should start from the last good configuration of their parent.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

from lab.findings.gateways import MODEL, Gateway, gateway, owner, verdict
from lab.vendor import Vendor

WORKERS = 2

NOTICED = 3.0
"""Seconds until every worker has read a changed file."""

FAULT = "\n[keys.broken]\nkey = 5\n"


def statuses(served: Gateway) -> Counter[int | None]:
    """Ask six times; each counts by its status, `None` for no response in four seconds."""
    return Counter(served.chat("bob", MODEL, "Hi", seconds=4.0).status for _ in range(6))


def children(process: int) -> list[int]:
    """Return the ids of a process's children, from Linux's /proc."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(each) for each in text.split()]


def main() -> None:
    """Break the file, kill workers one after another, mend the file."""
    with (
        Vendor() as vendor,
        gateway(vendor, owner("bob"), "--workers", str(WORKERS)) as served,
    ):
        time.sleep(1)
        good = served.configuration.read_text()
        parent = served.process.pid
        served.configuration.write_text(good + FAULT)
        time.sleep(NOTICED)
        found = statuses(served)
        verdict(found[200] == 6, f"the file has a fault: {dict(found)}")
        for number in range(1, WORKERS + 2):
            if workers := children(parent):
                os.kill(workers[0], signal.SIGKILL)
            time.sleep(2)
            found = statuses(served)
            health = served.ask("/health", None, seconds=3.0).status
            workers = children(parent)
            text = f"{number} killed: {dict(found)}, /health {health}, {len(workers)} workers"
            verdict(found[200] == 6 and health == 200, text)
        served.configuration.write_text(good)
        time.sleep(NOTICED)
        found = statuses(served)
        verdict(found[200] == 6, f"the file is mended: {dict(found)}")
        print(f"lines in the log: {len(served.log)}")


if __name__ == "__main__":
    main()
