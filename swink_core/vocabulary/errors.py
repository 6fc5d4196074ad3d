"""The base of all exceptions of this library."""

from __future__ import annotations

from typing import Any


class SwinkError(Exception):
    """The base of all exceptions of this library.

    `title` says what happened, `message` gives the details, `resolution` says what to do.
    """

    title = "Something went wrong"

    def __init_subclass__(cls, **facts: Any) -> None:
        """Set the `title` and `kind` of a subclass."""
        super().__init_subclass__()
        for name, value in facts.items():
            setattr(cls, name, value)

    def __init__(self, message: str, *, title: str | None = None, resolution: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.resolution = resolution
        if title is not None:
            self.title = title

    def __str__(self) -> str:
        return f"{self.message}\n{self.resolution}" if self.resolution else self.message
