"""Lists of models are made once for many requests, and never for another key."""

from __future__ import annotations

import pytest
from serving import ask, serving

from swink_gateway.policy.config import Source
from swink_gateway.serving import model_routes
from swink_gateway.serving.limits import Limits
from swink_gateway.serving.model_routes import LIST_SECONDS
from swink_testing.clock import ManualClock

KEYS = """
[routes.best]
tiers = "echo/echo"
[keys.alice]
key = "${A}"
[keys.bob]
key = "${B}"
models = ["best"]
"""

PATHS = ["/v1/models", "/v1beta/models", "/api/tags"]


@pytest.mark.parametrize("path", PATHS)
async def test_a_list_is_made_once_in_some_seconds_for_each_choice_of_models(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    real = model_routes.listed_models

    def counted(names: object, models: object) -> object:
        made.append(1)
        return real(names, models)  # type: ignore[arg-type]

    monkeypatch.setattr(model_routes, "listed_models", counted)
    clock = ManualClock()
    config = Source("t", KEYS).config({"A": "a", "B": "b"})
    async with serving(config=config, limits=Limits(clock=clock)) as gateway:

        async def listed(key: str) -> bytes:
            return (await ask(gateway, path, headers={"x-api-key": key}, method="GET")).body

        first = [await listed(key) for key in "abab"]
        assert (first[0], first[1]) == (first[2], first[3])
        assert b"best" in first[0]
        assert b"best" in first[1]
        assert len(first[1]) < len(first[0])
        assert len(made) == 2
        await clock.advance(LIST_SECONDS + 1)
        assert await listed("b") == first[1]
        assert len(made) == 3
        changed = KEYS.replace("routes.best", "routes.new").replace('"best"', '"new"')
        gateway.reconfigure(Source("t", changed).config({"A": "a", "B": "b"}))
        assert b"new" in await listed("b")
        assert b"best" not in await listed("b")
