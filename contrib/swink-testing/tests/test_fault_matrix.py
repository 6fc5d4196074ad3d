"""Every standard fault before every provider that is installed."""

from swink_testing.fault_matrix import FaultMatrix


class TestEveryProvider(FaultMatrix):
    """All installed providers."""
