"""Calls as OpenTelemetry spans and metrics, by the conventions for generative AI.

Import from its modules: this one is imported wherever it is installed, and costs nothing.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
