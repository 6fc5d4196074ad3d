"""A context manager for tests in which calls fail on purpose."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quiet"]


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the log of calls that fail on purpose."""
    logger = logging.getLogger("swink_core")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
