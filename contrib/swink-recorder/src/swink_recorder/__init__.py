"""Recordings of what went over the wire: their format, capture and replay."""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # who wants the log says so
