"""The entry point of the package. It imports heavy modules only if the observer is configured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from swink_observers.address import address

if TYPE_CHECKING:
    from swink_observer_prometheus.observer import PrometheusObserver

__all__ = ["from_environment"]

SETTING = "SWINK_PROMETHEUS"
"""The environment variable that enables the metrics.

With the value `registry`, the metrics are only added to prometheus_client's default registry. With
an address as the value, such as `127.0.0.1:9464`, they are also served at this address.
"""


def from_environment(environ: Mapping[str, str] | None = None) -> PrometheusObserver | None:
    """Return an observer if `SWINK_PROMETHEUS` is set; if set to an address, serve the metrics.

    An address is `PORT`, for this machine only, or `HOST:PORT`. Raises UsageError for any other
    value.
    """
    environ = os.environ if environ is None else environ
    if not (setting := environ.get(SETTING, "")):
        return None
    where = None if setting == "registry" else address(SETTING, setting)
    from swink_observer_prometheus.observer import PrometheusObserver
    from swink_observer_prometheus.serving import serve_once

    if where is not None:
        serve_once(*where)
    return PrometheusObserver()
