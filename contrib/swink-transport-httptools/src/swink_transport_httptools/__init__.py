"""An HTTP client for swink, built on httptools, with less overhead per request."""

from swink_transport_httptools.client import HttptoolsClient

__all__ = ["HttptoolsClient"]
