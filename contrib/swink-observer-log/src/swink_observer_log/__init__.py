"""Structured logs of calls, through the standard `logging`."""

import logging

from swink_observer_log.formats import JSONFormatter, LogfmtFormatter
from swink_observer_log.observer import LogObserver, from_environment

__all__ = ["JSONFormatter", "LogObserver", "LogfmtFormatter", "from_environment"]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
