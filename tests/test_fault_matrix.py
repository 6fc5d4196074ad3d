"""Every standard fault before every provider that is installed."""

from swink_test_helpers.fault_matrix import FaultMatrix


class TestEveryProvider(FaultMatrix):
    """All installed providers."""
