"""Cache answers, and return them again for the same request by the same caller."""

import logging

from swink_cache.cache import SwinkCache

__all__ = ["SwinkCache"]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
