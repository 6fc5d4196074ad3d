"""The client of swink's native protocol, for any model behind a swink gateway."""

from swink_provider_proxy.provider import ProxyProvider

__all__ = ["ProxyProvider"]
