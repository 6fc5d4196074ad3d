"""Error messages for `await`, `for` or `with` where `async for` or `async with` is needed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from swink_core.failures.exceptions import UsageError

T = TypeVar("T")

_WITHOUT_AWAIT = "SyncClient offers the same without await."


class AsyncOnly:
    """A base class for objects read with `async for`; other ways to use them raise UsageError."""

    if not TYPE_CHECKING:  # type checkers find these mistakes

        def __await__(self) -> Any:
            raise UsageError(
                f"{type(self).__name__} cannot be awaited",
                resolution="Write async with … or async for …, or await its result().",
            )

        def __iter__(self) -> Any:
            raise UsageError(
                f"{type(self).__name__} must be read with async for",
                resolution=f"Write async for … in …. {_WITHOUT_AWAIT}",
            )

        def __enter__(self) -> Any:
            raise UsageError(
                f"{type(self).__name__} must be opened with async with",
                resolution=f"Write async with … as …. {_WITHOUT_AWAIT}",
            )

        def __exit__(self, *raised: object) -> None: ...

    def _pieces(self, generator: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Wrap an async generator, so that `for`, `with` or `await` on it raises UsageError."""
        return _AsyncPieces(generator)


class _AsyncPieces(AsyncOnly, AsyncGenerator[T, None]):
    """An async generator that raises UsageError when used with `await`, `for` or `with`."""

    __slots__ = ("_generator",)

    def __init__(self, generator: AsyncGenerator[T, None]) -> None:
        self._generator = generator

    def __aiter__(self) -> AsyncGenerator[T, None]:
        return self._generator.__aiter__()  # type: ignore[return-value]  # returns the generator

    def __anext__(self) -> Any:
        return self._generator.__anext__()

    def asend(self, value: None) -> Any:
        """Resume the generator."""
        return self._generator.asend(value)

    def athrow(self, *raised: Any) -> Any:
        """Raise an exception in the generator."""
        return self._generator.athrow(*raised)

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Close the generator."""
        return self._generator.aclose()
