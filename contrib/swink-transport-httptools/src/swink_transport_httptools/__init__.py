"""An HTTP client for swink with less overhead per request, on httptools."""

from swink_transport_httptools.client import HttptoolsClient

__all__ = ["HttptoolsClient"]
