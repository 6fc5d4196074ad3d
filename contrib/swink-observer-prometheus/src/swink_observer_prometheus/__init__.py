"""Prometheus metrics for calls, with a Grafana dashboard.

Import from the modules of this package. This `__init__` module imports no other module of the
package, because every program that uses swink loads it.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
