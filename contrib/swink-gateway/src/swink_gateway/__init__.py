"""A gateway from any client protocol to any provider; start with `server.Gateway`."""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent by default
