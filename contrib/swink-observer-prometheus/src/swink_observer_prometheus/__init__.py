"""Calls as Prometheus metrics, with a dashboard for Grafana."""

import logging

from swink_observer_prometheus.observer import PrometheusObserver, from_environment

__all__ = ["PrometheusObserver", "from_environment"]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # who wants the log says so
