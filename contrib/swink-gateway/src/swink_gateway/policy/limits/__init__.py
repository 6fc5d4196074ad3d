"""Limits, budgets, circuit breakers and the ledger, shared by all processes of a gateway.

The store is memory for one process, a SQLite file for the processes of one machine, and Postgres or
Redis for several machines (`swink-gateway[postgres]`, `swink-gateway[redis]`). The ledger has a row
for each attempt: see `rows`.
"""

from swink_gateway.policy.limits.audit import Difference, Findings, audited
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
from swink_gateway.policy.limits.rows import DIMENSIONS, Entry, Query, Total
from swink_gateway.policy.limits.stores import Store, faults_of_place, open_ledger, reading_rows

__all__ = [
    "DIMENSIONS",
    "Allowance",
    "Circuit",
    "Difference",
    "Entry",
    "FailedAttempt",
    "Findings",
    "Ledger",
    "MemoryLedger",
    "Query",
    "Refusal",
    "Spending",
    "Store",
    "StoreUnavailable",
    "Ticket",
    "Total",
    "audited",
    "faults_of_place",
    "open_ledger",
    "reading_rows",
]
