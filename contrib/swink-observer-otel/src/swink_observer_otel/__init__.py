"""Calls as OpenTelemetry spans and metrics, by the conventions for generative AI."""

import logging

from swink_observer_otel.observer import OTelObserver, shared

__all__ = ["OTelObserver", "shared"]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # who wants the log says so
