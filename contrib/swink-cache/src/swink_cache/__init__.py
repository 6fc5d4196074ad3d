"""Cache answers, and return a cached answer if the same caller repeats a request."""

import logging

from swink_cache.cache import SwinkCache

__all__ = ["SwinkCache"]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
