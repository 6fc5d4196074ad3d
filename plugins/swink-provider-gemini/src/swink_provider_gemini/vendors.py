"""What the APIs of other vendors have in common on Google's servers: who may have refused."""

from __future__ import annotations

from swink_core import Classification, Failure
from swink_core.providers import HTTPProvider
from swink_provider_gemini.errors import classify, read_error

__all__ = ["GoogleErrors"]


class GoogleErrors(HTTPProvider):
    """Reads the errors of another vendor's API on Google's servers: that vendor's, and Google's."""

    def error_facts(self, failure: Failure) -> None:
        """Read what Google wrote, or else what the vendor's server did."""
        read_error(failure)
        if failure.type is None:
            super().error_facts(failure)

    def classify(self, failure: Failure) -> Classification | None:
        """Go by the vendor's words, then by Google's."""
        return super().classify(failure) or classify(failure)
