"""Serve the metrics of this process, or of all processes that share a folder, over HTTP."""

from __future__ import annotations

import threading

from prometheus_client import REGISTRY, start_http_server

from swink_observer_prometheus.sharing import of_all_processes

__all__ = ["serve", "serve_once"]

_served = set[tuple[str, int]]()
_lock = threading.Lock()


def serve(host: str, port: int) -> int:
    """Serve the default registry in a thread, and return the port. Port 0 selects a free port.

    If `PROMETHEUS_MULTIPROC_DIR` is set, serve the sums over all processes that use this folder.
    """
    server, _ = start_http_server(port, host, of_all_processes(REGISTRY))
    return int(server.server_port)


def serve_once(host: str, port: int) -> None:
    """Serve the default registry, unless it is already served at this address."""
    with _lock:
        if (host, port) not in _served:
            serve(host, port)
            _served.add((host, port))
