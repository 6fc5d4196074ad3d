"""Print whether a budget that is written as a gate stops calls, in the ways that people write one.

    python -m lab.findings.gates

Every gate refuses from the second call on. A gate must fail closed, whatever it raises.
"""

from __future__ import annotations

from collections.abc import Callable

import swink
from lab.findings.gateways import verdict

CALLS = 3

ONE_CALL = 5
"""Tokens after which the budget is spent: fewer than one call takes."""


class BudgetExceeded(Exception):
    """An exception that an application defines for itself."""


class Budget:
    """A gate that raises `refusal()` once the budget is spent."""

    def __init__(self, refusal: Callable[[], Exception]) -> None:
        self.spent = 0
        self._refusal = refusal

    async def enter(self, target: object) -> None:
        """Admit an attempt, or raise."""
        if self.spent >= ONE_CALL:
            raise self._refusal()

    def leave(self, target: object, terminal: swink.Done | swink.Error, response: object) -> None:
        """Count the tokens of an attempt."""
        self.spent += (terminal.usage.total or 0) if terminal.usage else 0


class Broken(Budget):
    """A gate whose `leave` has a mistake."""

    def leave(self, target: object, terminal: swink.Done | swink.Error, response: object) -> None:
        """Raise, as a misspelt attribute does."""
        raise AttributeError("usages")


def quota() -> Exception:
    """Return the failure with which a gate refuses as documented."""
    kind = swink.StreamErrorKind.QUOTA_EXHAUSTED
    return swink.ProviderFailure(swink.Failure("connect", kind=kind, message="Budget spent."))


def wrong_failure() -> Exception:
    """Return a failure whose arguments are wrong."""
    return swink.ProviderFailure("The budget is spent.")  # type: ignore[arg-type]  # the mistake


GATES: dict[str, Callable[[], Budget]] = {
    "an exception of the application": lambda: Budget(lambda: BudgetExceeded("spent")),
    "swink.QuotaExhausted": lambda: Budget(lambda: swink.QuotaExhausted("spent")),
    "swink.ProviderFailure": lambda: Budget(quota),
    "ProviderFailure with a wrong argument": lambda: Budget(wrong_failure),
    "a mistake in `leave`": lambda: Broken(quota),
}


def main() -> None:
    """Print one line for each way."""
    for name, make in GATES.items():
        answered = 0
        raised: list[str] = []
        with swink.SyncClient(gates=[make()]) as client:
            for _ in range(CALLS):
                try:
                    client.complete("echo/echo", "one two three four five six")
                    answered += 1
                except swink.SwinkError as error:
                    raised.append(type(error).__name__)
        # The mistake shows after the first call; the call after it has to report it.
        right = answered < CALLS and bool(raised)
        verdict(right, f"{name}: {answered} of {CALLS} calls answered, {raised}")


if __name__ == "__main__":
    main()
