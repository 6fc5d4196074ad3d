"""Recordings of network traffic: their file format, capture and replay."""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
