"""General routes, the page and the command."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from serving import ask, serving


async def test_the_health_checks_of_clients_are_answered() -> None:
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


async def test_the_page_loads_nothing_from_other_origins() -> None:
    async with serving() as gateway:
        answer = await ask(gateway, "/")
    text = answer.body.decode()
    assert 'value="echo/echo"' in text
    assert "http" not in text.replace("http-", "")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


NOT_STARTED = "The gateway was not started"
KEY = {"SWINK_GATEWAY_KEY": "k"}

# the command's arguments and environment, the title of the error, the advice
NO_STARTS: dict[str, tuple[list[str], dict[str, str], str, str]] = {
    "a route to nothing": (["--route", "mine"], {}, "Invalid option", "Write NAME=MODEL"),
    "no key": (["--host", "0.0.0.0"], {}, NOT_STARTED, "Set a key for clients"),
    # RFC 5737: an address that is not assigned
    "elsewhere": (["--host", "192.0.2.1"], KEY, NOT_STARTED, "Give --host an address of this"),
    "a port in use": (["--port", "PORT"], {}, NOT_STARTED, "Choose another --port"),
    "no place": (["--config", "FILE"], {}, "Limits cannot be kept", "Give the path of a file"),
}


@pytest.mark.parametrize("name", NO_STARTS)
def test_start_errors_have_a_cause_and_advice(swink: Any, tmp_path: Path, name: str) -> None:
    given, environment, title, advice = NO_STARTS[name]
    file = tmp_path / "team.toml"
    file.write_text("[store]\nengine = 'sqlite'\npath = 'absent/ledger.db'\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        places = {"PORT": str(taken.getsockname()[1]), "FILE": str(file)}
        line = [places.get(word, word) for word in given]
        done = swink("gateway", *([] if "PORT" in given else ["--port", "0"]), *line, **environment)
    assert done.returncode != 0
    first, *_, last = done.stderr.splitlines()
    assert first == f"Error: {title}"
    assert last.startswith(advice)


async def test_a_wrong_method_gets_the_allowed_one() -> None:
    async with serving() as gateway:
        answer = await ask(gateway, "/v1/messages")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("model", ["nobody/any"])
def test_an_invalid_route_is_reported_at_the_start(swink: Any, model: str) -> None:
    done = swink("gateway", "--port", "0", "--route", f"mine={model}")
    assert done.returncode != 0
    assert "nobody" in done.stderr


UNSERVED = {
    "/v1/images/generations": "not_found_error",
    "/v1/messages/batches": "not_found_error",
    "/v1/responses/compact": "not_found_error",
    "/v1/responses/input_tokens": "not_found_error",
    "/v1beta/models/echo/echo:predictLongRunning": "NOT_FOUND",
    "/v1/models/echo/echo:predictLongRunning": "NOT_FOUND",
    "/api/pull": None,
}
"""Paths that do not exist, each with its API's code for a missing path."""


@pytest.mark.parametrize("path", UNSERVED)
async def test_an_unknown_path_is_a_404_that_lists_the_served_ones(path: str) -> None:
    async with serving() as gateway:
        answer = await ask(gateway, path, {"model": "echo/echo"})
    error = answer.json["error"]
    word = UNSERVED[path]
    message = error if word is None else error["message"]
    assert answer.status == 404
    assert word is None or word in (error.get("type"), error.get("status"))
    assert f"POST {path} is not supported" in message
    for served in ("/v1/chat/completions", "/v1/messages", "/{version}/models/{model}:{method}"):
        assert served in message


async def test_a_listed_model_has_all_fields_that_anthropics_sdk_requires() -> None:
    async with serving() as gateway:
        rows = (await ask(gateway, "/v1/models")).json["data"]
    wanted = {"id", "type", "display_name", "created_at", "lifecycle"}
    known = {"capabilities", "deprecated_at", "line", "max_input_tokens", "max_tokens"}
    assert all(wanted | known | {"retires_at"} <= row.keys() for row in rows)
    assert {row["lifecycle"] for row in rows} == {"active"}
