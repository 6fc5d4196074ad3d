"""Any client protocol on top of any provider; `server.Gateway` is where to begin."""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # who wants the log says so
