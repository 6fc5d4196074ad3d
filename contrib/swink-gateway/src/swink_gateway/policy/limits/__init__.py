"""What clients may take, what they took, and which models rest: one ledger for all who serve.

A ledger is in memory for one process, in a SQLite file for the processes of one machine, and in
Redis for several machines (`swink-gateway[redis]`).
"""

from swink_gateway.policy.limits.ledger import (
    Allowance,
    Circuit,
    FailedAttempt,
    Ledger,
    Refusal,
    Spending,
    StoreUnavailable,
    Ticket,
)
from swink_gateway.policy.limits.memory import MemoryLedger
from swink_gateway.policy.limits.stores import Store, faults_of_place, open_ledger

__all__ = [
    "Allowance",
    "Circuit",
    "FailedAttempt",
    "Ledger",
    "MemoryLedger",
    "Refusal",
    "Spending",
    "Store",
    "StoreUnavailable",
    "Ticket",
    "faults_of_place",
    "open_ledger",
]
