"""The conformance kit for the client of swink's native protocol, with the gateway behind it.

The proxy alone cannot tell which content is foreign to the model behind the gateway, so its package
waives this check. With the gateway, the upstream request passes the check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import msgspec

from swink_core import Host, Model, StreamOptions
from swink_core.providers import Catalog, HTTPRequest
from swink_gateway.policy.passthrough import addressed
from swink_gateway.protocols.native.protocol import NativeProtocol
from swink_provider_proxy import ProxyProvider
from swink_testing.conformance import PROVIDER_CHECKS, Check, ProviderConformance
from swink_testing.conformance.check import Waivers
from swink_testing.conformance.requests import conversions
from swink_testing.conformance.requests.conversions import require_nothing_foreign
from swink_testing.conformance.subject import Subject

BEHIND = "anthropic/claude-haiku-4-5"


class ThroughTheGateway(ProxyProvider):
    """The proxy; its request is the one that leaves the gateway."""

    def request(self, model: Model, payload: Any, options: StreamOptions) -> HTTPRequest:
        """Return the request that the provider behind the gateway receives."""
        own = super().request(model, payload, options)
        asked = NativeProtocol().read(msgspec.json.decode(own.body), {}, {})
        host = Host(environ={})
        target = Catalog(host, {}).resolve(BEHIND)
        found = addressed(asked, "swink", target.provider, "anthropic-messages")
        behind: Any = host.bind(target.provider).provider
        asks = StreamOptions(**{**found.options, "api_key": options.api_key})
        converted = behind.convert(target, found.context, asks)
        request: HTTPRequest = behind.request(target, converted, asks)
        return request


def _require_nothing_foreign(subject: Subject, options: StreamOptions) -> None:
    """Content that another provider marked as its own must not leave the gateway."""
    provider = subject.binding.provider
    provider.__class__ = ThroughTheGateway
    try:
        require_nothing_foreign(subject, options)
    finally:
        provider.__class__ = ProxyProvider


def check_conversations(subject: Subject) -> None:
    """Check conversations, foreign content by the request that leaves the gateway."""
    with patch.object(conversions, "require_nothing_foreign", _require_nothing_foreign):
        conversions.check_conversations(subject)


class TestProxyThroughTheGateway(ProviderConformance):
    """All checks, without waivers."""

    provider = "proxy"
    model = f"proxy/{BEHIND}"

    @classmethod
    def checks(cls) -> Sequence[Check[Subject]]:
        """Return the kit's checks, with the request that leaves the gateway in one of them."""
        name = check_conversations.__name__
        return [
            Check(check_conversations, check.looks_at, check.needed)
            if check.function.__name__ == name
            else check
            for check in PROVIDER_CHECKS
        ]

    @classmethod
    def all_waivers(cls) -> Waivers:
        """Waive no check: the gateway removes the causes of the proxy's waivers."""
        return {}
