"""OpenTelemetry spans and metrics for calls, according to the conventions for generative AI.

Import from the modules of this package. The package itself is imported by every program that uses
swink, so it imports nothing.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
