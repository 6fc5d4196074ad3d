"""A provider for swink that runs models on this machine, in a child process."""

import logging

from swink_provider_local.hub import Hub, HubFile
from swink_provider_local.provider import LocalProvider

__all__ = ["Hub", "HubFile", "LocalProvider"]

logging.getLogger(__name__).addHandler(logging.NullHandler())
