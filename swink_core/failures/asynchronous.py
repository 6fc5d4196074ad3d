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
                f"{_shown(self)} cannot be awaited",
                resolution="Write async with … or async for …, or await its result().",
            )

        def __iter__(self) -> Any:
            raise UsageError(
                f"{_shown(self)} must be read with async for",
                resolution=f"Write async for … in …. {_WITHOUT_AWAIT}",
            )

        def __enter__(self) -> Any:
            raise UsageError(
                f"{_shown(self)} must be opened with async with",
                resolution=f"Write async with … as …. {_WITHOUT_AWAIT}",
            )

        def __exit__(self, *raised: object) -> None: ...

    def _pieces(self, generator: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Wrap an async generator, so that `for`, `with` or `await` on it raises UsageError."""
        property_name = getattr(generator, "__name__", "").strip("_")
        return _AsyncPieces(generator, f"{type(self).__name__}.{property_name}")


class _AsyncPieces(AsyncOnly, AsyncGenerator[T, None]):
    """An async generator that raises UsageError when used with `await`, `for` or `with`."""

    def __init__(self, generator: AsyncGenerator[T, None], name: str) -> None:
        self._generator = generator
        self.name = name

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


def _shown(read: AsyncOnly) -> str:
    """Return the name of an object in an error message: its public class or property."""
    return read.name if isinstance(read, _AsyncPieces) else type(read).__name__
