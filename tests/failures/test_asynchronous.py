"""Objects that are read with `async for` refuse other uses with advice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from swink_core import UsageError
from swink_core.failures.asynchronous import AsyncOnly


class Events(AsyncOnly):
    """An object that is read with `async for`."""


# (a use, what the error says)
USES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda events: events.__await__(), "Events cannot be awaited"),
    (iter, "Events must be read with async for"),
]


@pytest.mark.parametrize(("use", "message"), USES, ids=["await", "iter"])
def test_another_use_is_refused_with_advice(use: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        use(Events())
    assert "async for" in caught.value.resolution
