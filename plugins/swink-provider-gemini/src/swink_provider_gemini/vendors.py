"""The base classes for other vendors' APIs on Google's servers: URLs and error formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from swink_core import Classification, Failure, Model, StreamOptions
from swink_core.providers import HTTPProvider
from swink_provider_gemini.errors import classify, read_error

__all__ = ["AtRawPredict", "OfVendor"]


class OfVendor(HTTPProvider):
    """Another vendor's API on Google's servers.

    `address` returns the base URL of a model. `given` is passed to the constructor of the vendor's
    provider class. Errors may be in the vendor's or in Google's format.
    """

    def __init__(
        self, name: str, address: Callable[[Model, StreamOptions], str], *given: Any
    ) -> None:
        super().__init__(name, *given)
        self._address = address

    def error_facts(self, failure: Failure) -> None:
        """Read an error in Google's format, or else in the vendor's format."""
        read_error(failure)
        if failure.type is None:
            super().error_facts(failure)

    def classify(self, failure: Failure) -> Classification | None:
        """Classify a failure by the vendor's error messages and codes, then by Google's."""
        return super().classify(failure) or classify(failure)


class AtRawPredict(OfVendor):
    """An API at the model's URL followed by `:rawPredict` or `:streamRawPredict`."""

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the model's URL with `rawPredict` or `streamRawPredict`."""
        verb = "rawPredict" if options.transport == "buffered" else "streamRawPredict"
        return f"{self._address(model, options)}:{verb}"
