"""Answers that are kept and given again: to the same request, from the same caller."""

import logging

from swink_cache.cache import SwinkCache

__all__ = ["SwinkCache"]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
