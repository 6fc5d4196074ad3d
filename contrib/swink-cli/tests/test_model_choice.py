"""The first run: a person at a terminal who has named no model."""

from __future__ import annotations

from typing import Any

import pytest
from chat_service import ChatService
from screen import seen

TERMINAL = (100, 40)


def first_run(start: Any, typed: str) -> tuple[int, str]:
    """Answer the question for a model; return the exit code and what the screen shows."""
    running = start("ask", "Good morning", size=TERMINAL)
    running.wait_for("Which one")
    running.type(f"{typed}\n")
    code = running.finish()
    return code, "\n".join(seen(running.output, TERMINAL[0]))


@pytest.mark.parametrize("has_key", [False, True])
def test_enter_at_the_first_prompt_downloads_nothing_and_buys_nothing(
    start: Any, swink_environment: dict[str, str], has_key: bool
) -> None:
    with ChatService(["bought"]) as service:
        swink_environment["OPENAI_BASE_URL"] = service.base_url
        if has_key:
            swink_environment["OPENAI_API_KEY"] = "sk-test"
        code, screen = first_run(start, "")
        assert service.requests == []
    assert code == 0
    assert ("key" in screen.partition("openai/")[2]) is has_key
    assert "swink keys set PROVIDER" in screen
    assert "swink default echo/echo" in screen
    assert "download" not in screen.partition("Which one")[2]
    assert "Good morning" in screen.partition("swink default echo/echo")[2]


def test_zero_at_the_first_prompt_asks_no_model(start: Any) -> None:
    code, screen = first_run(start, "0")
    assert code == 2
    assert "No model chosen" in screen


def test_without_echo_enter_asks_no_model(start: Any, swink_environment: dict[str, str]) -> None:
    swink_environment["SWINK_DISABLE_PLUGINS"] = "echo"
    swink_environment["OPENAI_API_KEY"] = "sk-test"
    with ChatService(["bought"]) as service:
        swink_environment["OPENAI_BASE_URL"] = service.base_url
        code, screen = first_run(start, "")
        assert service.requests == []
    assert code == 2
    assert "No model chosen" in screen
