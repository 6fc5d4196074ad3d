"""A gateway that serves any provider to clients of several APIs: `serving.server.Gateway`."""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # no output by default
