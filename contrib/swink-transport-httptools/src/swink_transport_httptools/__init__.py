"""An HTTP client for swink, built on httptools, that needs less CPU time per request."""

from swink_transport_httptools.client import HttptoolsClient

__all__ = ["HttptoolsClient"]
