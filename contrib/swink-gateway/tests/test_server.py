"""Routes beside those of the protocols, the page and the command."""

from __future__ import annotations

from typing import Any

import pytest
from serving import ask, serving


async def test_clients_that_look_first_whether_it_is_there_are_answered() -> None:
    async with serving() as gateway:
        assert (await ask(gateway, "/", method="HEAD")).status == 200
        assert (await ask(gateway, "/health")).json == {"status": "ok"}
        assert (await ask(gateway, "/ready")).json == {"status": "ok"}
        missing = await ask(gateway, "/v1/nothing")
    assert (missing.status, missing.json["error"]["type"]) == (404, "not_found_error")


async def test_models_are_listed_in_one_object_for_all_sdks() -> None:
    async with serving(routes={"mine": ["echo/echo"]}) as gateway:
        listed = (await ask(gateway, "/v1/models")).json
    names = [row["id"] for row in listed["data"]]
    assert names[0] == "mine"
    assert "echo/echo" in names
    assert (listed["first_id"], listed["last_id"]) == (names[0], names[-1])
    assert listed["has_more"] is False


async def test_the_page_loads_nothing_from_elsewhere() -> None:
    async with serving() as gateway:
        answer = await ask(gateway, "/")
    text = answer.body.decode()
    assert 'value="echo/echo"' in text
    assert "http" not in text.replace("http-", "")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_the_command_tells_what_is_wrong_with_a_route(swink: Any) -> None:
    done = swink("gateway", "--route", "mine")
    assert done.returncode == 2
    assert "NAME=MODEL" in done.stderr


def test_the_command_does_not_serve_others_without_a_key(swink: Any) -> None:
    done = swink("gateway", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode != 0
    assert "there is no key" in done.stderr


async def test_who_asks_by_a_wrong_method_is_told_the_right_one() -> None:
    async with serving() as gateway:
        answer = await ask(gateway, "/v1/messages")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("model", ["nobody/any"])
def test_a_route_to_nowhere_is_found_before_anybody_asks(swink: Any, model: str) -> None:
    done = swink("gateway", "--port", "0", "--route", f"mine={model}")
    assert done.returncode != 0
    assert "nobody" in done.stderr
