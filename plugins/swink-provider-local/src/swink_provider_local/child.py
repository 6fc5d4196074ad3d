"""The child process: run llama.cpp's HTTP server on loopback until stdin is closed.

    python -m swink_provider_local.child

The first line of stdin is a JSON object with `path`, `name`, `key`, `context`, `cache_type`,
`cache_ram`, and optionally `gpu_layers` and `threads`. Once the model is loaded, the process writes
the server's URL to stdout. The engine runs in a child process, because a failed assertion in the
engine ends the process.

The child process ends together with its parent: however the parent ends, the pipe to the child's
stdin is closed. Another process that the parent has forked can keep this pipe open, so the child
also checks whether its parent process id has changed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

PARENT_SECONDS = 0.5
"""The number of seconds between two checks whether the parent is still running."""

LOG_LEVEL = 2
"""Warnings and errors; lower levels would log the text of conversations."""

LOG_SECONDS = 0.2
"""The number of seconds that the process waits before it ends, so that a thread can copy the log.

If the engine does not start, only the engine's log contains the reason.
"""


def main() -> None:
    """Serve the model that the first line of stdin describes."""
    orders = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C, the parent decides
    parent = os.getppid()
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    # everything the engine prints goes to the log; stdout is only for the URL
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = _serve(orders)
    answer.write(server.listening_address + "\n")
    answer.close()
    sys.stdin.read()
    os._exit(0)  # the engine's threads may be busy


def _serve(orders: dict[str, Any]) -> Any:
    import xllamacpp  # type: ignore[import-untyped]  # the package has no annotations

    parameters = xllamacpp.CommonParams()
    parameters.verbosity = LOG_LEVEL
    parameters.model.path = orders["path"]
    parameters.model_alias = {orders["name"]}
    parameters.api_keys = [orders["key"]]
    parameters.n_ctx = orders["context"]
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0  # selects a free port
    parameters.n_parallel = 1
    parameters.cache_ram_mib = orders["cache_ram"]
    kept_as = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{orders['cache_type'].upper()}")
    parameters.cache_type_k = parameters.cache_type_v = kept_as
    if orders.get("gpu_layers") is not None:
        parameters.n_gpu_layers = orders["gpu_layers"]
    if orders.get("threads") is not None:
        parameters.cpuparams.n_threads = orders["threads"]
    try:
        return xllamacpp.Server(parameters)
    except RuntimeError:
        time.sleep(LOG_SECONDS)
        raise


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    main()
