"""The entry point of the package. It imports heavy modules only if OpenTelemetry is configured."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swink_observer_otel.observer import OTelObserver

__all__ = ["where_set_up"]

NAMED_BY = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")
"""Variables with which a user selects the tracer and meter providers of OpenTelemetry."""


def where_set_up() -> OTelObserver | None:
    """Return the observer that all clients share; `None` if OpenTelemetry is not configured.

    Until a program configures OpenTelemetry, its API does nothing, so no observer is needed. The
    configuration is checked when a client makes its first call.
    """
    if "opentelemetry" not in sys.modules and not any(os.environ.get(name) for name in NAMED_BY):
        return None
    from opentelemetry import metrics, trace

    providers = {trace: trace.get_tracer_provider(), metrics: metrics.get_meter_provider()}
    if all(type(made).__module__.startswith(api.__name__) for api, made in providers.items()):
        return None
    from swink_observer_otel.observer import shared

    return shared()
