"""Runs a job on a Ray cluster of two nodes, and kills a worker and a node in the middle.

Before that, the tests of the journal's engines are run with Ray in their place.

Ray is installed in `.venv-ray`, which `make counterparts` creates, not in this program's
environment. The rows must equal those of a run on one machine, and no journalled row may be sent
again.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "contrib/swink-batch/tests"))

ROWS = 600
BATCH = 60
RPM = 3000.0


def main() -> int:
    """Run both, and say what was found."""
    suite = ROOT / "contrib/swink-batch/tests/test_journalled_runs.py"
    tests = [sys.executable, "-m", "pytest", "-q", "-k", "ray", str(suite)]
    return subprocess.run(tests, cwd=ROOT).returncode or killed()


def killed() -> int:
    """Run a job while a worker and a node are killed, and say what was found."""
    import ray
    from kills import fetched, row_server
    from ray.cluster_utils import Cluster

    from swink_batch import Job, run
    from swink_batch.on_ray import ask

    rows = [{"id": f"r{number}", "prompt": f"row r{number}"} for number in range(ROWS)]
    with tempfile.TemporaryDirectory() as folder, row_server("--latency", "0.05") as url:
        own = {"openai": {"base_url": f"{url}/v1", "api_key": "x", "api": "chat"}}
        settings: dict[str, Any] = {"client": {"providers": own}, "concurrency": 4}
        alone = Path(folder) / "alone.jsonl"
        asyncio.run(run("openai/rows", rows, alone, order="input", **settings))
        before = sum(fetched(f"{url}/counts").values())

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        node = cluster.add_node(num_cpus=2)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        killed: list[str] = []
        threading.Thread(
            target=_kill, args=(cluster, node, f"{url}/counts", before, killed), daemon=True
        ).start()
        began = time.monotonic()
        job = Job(models="openai/rows", rpm=RPM, **settings)
        data = ray.data.from_items(rows, override_num_blocks=ROWS // BATCH)
        journal = Path(folder) / "journal"
        found = ask(data, job, journal=journal, actors=3, batch=BATCH, limits="actor").take_all()
        seconds = time.monotonic() - began
        asked = sum(fetched(f"{url}/counts").values()) - before
        ray.shutdown()
        cluster.shutdown()
        wanted = {line["id"]: line["text"] for line in map(json.loads, alone.open())}
        got = {row["id"]: json.loads(row["answer"])["text"] for row in found}
    again = asked - ROWS
    print(f"{len(found)} rows in {seconds:.0f} s; killed: {killed}; {again} asked twice")
    most = 2 * 3 * settings["concurrency"]  # two kills, three actors at most
    rate = (asked - 1) / seconds * 60
    ok = got == wanted and len(found) == ROWS and len(killed) == 2 and 0 <= again <= most
    ok = ok and rate <= RPM * 1.05
    print("the rows are those of one machine" if got == wanted else "the rows differ")
    return 0 if ok else 1


def _kill(cluster: Any, node: Any, counts: str, before: int, killed: list[str]) -> None:
    from kills import fetched

    _until(lambda: sum(fetched(counts).values()) - before > ROWS * 0.2)
    worker = _asker()
    if worker is not None:
        os.kill(worker, signal.SIGKILL)
        killed.append("a worker")
    _until(lambda: sum(fetched(counts).values()) - before > ROWS * 0.5)
    cluster.remove_node(node, allow_graceful=False)
    killed.append("a node")


def _until(holds: Any) -> None:
    while not holds():
        time.sleep(0.05)


def _asker() -> int | None:
    """Return the process of an actor that asks."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                if b"_Asker" in (folder / "cmdline").read_bytes():
                    return int(folder.name)
            except OSError:
                continue
    return None


if __name__ == "__main__":
    sys.exit(main())
