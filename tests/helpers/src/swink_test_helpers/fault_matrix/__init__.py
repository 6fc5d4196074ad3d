"""Every fault before every provider: kind, requests, closure, partial message, one terminal.

    class TestAcmeFaults(FaultMatrix):
        provider = "acme"

The provider's own recordings are what a chaos server spoils. Needs `swink-testing[pytest]`.
"""

from swink_test_helpers.fault_matrix.call import Outcome, call
from swink_test_helpers.fault_matrix.subject import FaultSubject, subjects
from swink_test_helpers.fault_matrix.suite import FaultMatrix

__all__ = ["FaultMatrix", "FaultSubject", "Outcome", "call", "subjects"]
