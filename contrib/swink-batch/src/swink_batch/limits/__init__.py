"""Adapt the number of concurrent calls and the rate of new calls to providers' responses."""

from swink_batch.limits.headers import Allowance, allowances
from swink_batch.limits.lane import Lane
from swink_batch.limits.limiter import Limiter
from swink_batch.limits.turns import LocalTurns, Turns

__all__ = ["Allowance", "Lane", "Limiter", "LocalTurns", "Turns", "allowances"]
