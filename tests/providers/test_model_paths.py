"""A model's name is a part of an address and cannot make it another."""

from __future__ import annotations

import pytest

from swink_core import Model
from swink_core.failures.exceptions import InvalidModel
from swink_core.providers import HTTPProvider

ROWS = [
    ("a", "", "a"),
    ("a:b", ":", "a:b"),
    ("a/b", "/", "a/b"),
    ("a/b", "", "a%2Fb"),
    ("a?b#c%2e", "/", "a%3Fb%23c%252e"),
    ("..a/.b/c..", "/", "..a/.b/c.."),
    ("\N{GREEK SMALL LETTER ALPHA}", "", "%CE%B1"),
]


@pytest.mark.parametrize(("name", "safe", "expected"), ROWS)
def test_a_name_is_quoted(name: str, safe: str, expected: str) -> None:
    assert HTTPProvider.model_path(Model("acme", name), name, safe) == expected


HOSTILE = ["..", ".", "../x", "../../x", "a/../../x", "a/.", "a//b", "/a", "a/", "\ud800"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_leads_elsewhere_is_none(name: str) -> None:
    with pytest.raises(InvalidModel):
        HTTPProvider.model_path(Model("acme", name), name, "/")
