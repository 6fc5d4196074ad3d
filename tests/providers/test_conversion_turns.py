"""Turns that an API wants to alternate."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core.providers import merged_turns


def _turn(role: str, *parts: str) -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


@pytest.mark.parametrize(
    ("name", "messages", "expected"),
    [
        ("none", [], []),
        ("one", [_turn("user", "a")], [_turn("user", "a")]),
        (
            "already alternating",
            [_turn("user", "a"), _turn("assistant", "b"), _turn("user", "c")],
            [_turn("user", "a"), _turn("assistant", "b"), _turn("user", "c")],
        ),
        (
            "three of one role",
            [_turn("user", "a"), _turn("user", "b", "c"), _turn("user", "d")],
            [_turn("user", "a", "b", "c", "d")],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_neighbours_of_one_role_become_one_turn(
    name: str, messages: list[dict[str, Any]], expected: list[dict[str, Any]]
) -> None:
    assert merged_turns(messages) == expected


def test_the_key_of_the_parts_is_the_providers() -> None:
    messages = [{"role": "user", "parts": [1]}, {"role": "user", "parts": [2]}]
    assert merged_turns(messages, "parts") == [{"role": "user", "parts": [1, 2]}]


def test_the_messages_that_were_given_do_not_change() -> None:
    first = _turn("user", "a")
    merged_turns([first, _turn("user", "b")])
    assert first == _turn("user", "a")
