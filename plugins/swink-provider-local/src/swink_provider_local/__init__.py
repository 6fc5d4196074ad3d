"""Models on this machine, in a child process, for swink."""

from swink_provider_local.hub import Hub, HubFile
from swink_provider_local.provider import LocalProvider

__all__ = ["Hub", "HubFile", "LocalProvider"]
