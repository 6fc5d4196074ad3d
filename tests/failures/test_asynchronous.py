"""Objects that are read with `async for` refuse other uses with advice."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from swink_core import UsageError
from swink_core.failures.asynchronous import AsyncOnly


class Events(AsyncOnly):
    """An object that is read with `async for`, and whose text is read so as well."""

    @property
    def text(self) -> AsyncGenerator[str, None]:
        return self._pieces(self._text())

    async def _text(self) -> AsyncGenerator[str, None]:
        try:
            yield "Hel"
            yield "lo"
        except KeyError as error:
            yield f"no {error.args[0]}"
        finally:
            self.is_closed = True


# (a use, what the error says, its advice)
USES: list[tuple[Callable[[Any], Any], str, str]] = [
    (lambda events: events.__await__(), " cannot be awaited", "async with … or async for …"),
    (iter, " must be read with async for", "async for … in …"),
    (lambda events: events.__enter__(), " must be opened with async with", "async with … as …"),
]


@pytest.mark.parametrize(("use", "message", "advice"), USES, ids=["await", "iter", "with"])
def test_another_use_is_refused_with_advice(
    use: Callable[[Any], Any], message: str, advice: str
) -> None:
    for read, name in [(Events(), "Events"), (Events().text, "Events.text")]:
        with pytest.raises(UsageError, match=f"^{name}{message}\n") as caught:
            use(read)
        assert advice in caught.value.resolution


async def test_the_text_is_an_async_generator() -> None:
    text = Events().text
    assert isinstance(text, AsyncGenerator)
    assert [piece async for piece in text] == ["Hel", "lo"]
    text = Events().text
    assert await anext(text) == "Hel"
    assert await text.asend(None) == "lo"
    with pytest.raises(StopAsyncIteration):
        await anext(text)
    text = Events().text
    assert await anext(text) == "Hel"
    assert await text.athrow(KeyError("more")) == "no more"
    with pytest.raises(ValueError, match="wrong"):
        await text.athrow(ValueError("wrong"))


async def test_the_text_is_closed_with_its_source() -> None:
    events = Events()
    text = events.text
    assert await anext(text) == "Hel"
    await text.aclose()
    assert events.is_closed
    assert [piece async for piece in text] == []
