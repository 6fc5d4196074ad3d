"""OpenTelemetry spans and metrics for calls, according to the conventions for generative AI.

Import from the modules of this package. Every program that uses swink imports this `__init__`
module, which therefore imports nothing.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
