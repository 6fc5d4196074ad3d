"""Building blocks for observers, and a live feed of calls."""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
