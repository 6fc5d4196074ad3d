"""Arguments in pieces become the JSON text of the same arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_provider_gemini.arguments import ArgumentText, OutOfOrder

LEAVES = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20)
NAMES = st.text(
    st.characters(categories=["Lu", "Ll", "Nd"], include_characters="_ é鍵"), min_size=1
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=4)
        | st.dictionaries(NAMES, inner, min_size=1, max_size=4)
    ),
    max_leaves=12,
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=4)


def _pieces(value: Any, path: str = "$") -> Iterator[dict[str, Any]]:
    """Return the server's deltas for these arguments; strings arrive in two pieces."""
    match value:
        case dict():
            for name, inner in value.items():
                yield from _pieces(inner, f"{path}.{name}")
        case list():
            for at, inner in enumerate(value):
                yield from _pieces(inner, f"{path}[{at}]")
        case str():
            half = len(value) // 2
            yield {"jsonPath": path, "stringValue": value[:half], "willContinue": True}
            yield {"jsonPath": path, "stringValue": value[half:]}
        case bool():
            yield {"jsonPath": path, "boolValue": value}
        case None:
            yield {"jsonPath": path, "nullValue": "NULL_VALUE"}
        case _:
            yield {"jsonPath": path, "numberValue": value}


@given(ARGUMENTS)
def test_pieces_in_order_make_the_arguments(arguments: dict[str, Any]) -> None:
    text = ArgumentText()
    written = "".join([*(text.add(piece) for piece in _pieces(arguments)), text.close()])
    assert json.loads(written) == arguments


@given(ARGUMENTS)
def test_what_is_written_so_far_is_the_beginning_of_what_will_be(arguments: dict[str, Any]) -> None:
    text, so_far = ArgumentText(), ""
    for piece in _pieces(arguments):
        so_far += text.add(piece)
        assert so_far.startswith("{")
        with pytest.raises(json.JSONDecodeError):
            json.loads(so_far)
    assert json.loads(so_far + text.close()) == arguments


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("$.a", '{"a":1}'),
        ("$.a.b", '{"a":{"b":1}}'),
        ("$.a[0]", '{"a":[1]}'),
        ("$.a[0][0].b", '{"a":[[{"b":1}]]}'),
        ("$['a b'].c", '{"a b":{"c":1}}'),
        ('$["it\'s"]', '{"it\'s":1}'),
        (r"$['it\'s']", '{"it\'s":1}'),
        ("$.ключ", '{"ключ":1}'),
    ],
)
def test_paths(path: str, written: str) -> None:
    text = ArgumentText()
    assert text.add({"jsonPath": path, "numberValue": 1}) + text.close() == written


def test_a_string_that_is_never_ended_is_ended_by_what_follows() -> None:
    text = ArgumentText()
    first = text.add({"jsonPath": "$.a", "stringValue": "x", "willContinue": True})
    second = text.add({"jsonPath": "$.b", "stringValue": "y", "willContinue": True})
    assert (first, second, text.close()) == ('{"a":"x', '","b":"y', '"}')


def test_without_pieces_there_are_no_arguments() -> None:
    assert ArgumentText().close() == "{}"


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("the same place twice", ["$.a", "$.a"]),
        ("into an object that is over", ["$.a.b", "$.c", "$.a.d"]),
        ("into a list that is over", ["$.a[0]", "$.b", "$.a[1]"]),
        ("a list with a gap", ["$.a[0]", "$.a[2]"]),
        ("a list from its middle", ["$.a[1]"]),
        ("a list that turns into an object", ["$.a[0]", "$.a.b"]),
        ("a value that turns into an object", ["$.a", "$.a.b"]),
        ("no place", ["$"]),
        ("a list of arguments", ["$[0]"]),
        ("not a path", ["a.b"]),
        ("half a path", ["$.a[0"]),
        ("more than one place", ["$.a[*]"]),
    ],
)
def test_what_cannot_be_placed_is_refused(name: str, paths: list[str]) -> None:
    text = ArgumentText()
    for path in paths[:-1]:
        text.add({"jsonPath": path, "numberValue": 1})
    with pytest.raises(OutOfOrder):
        text.add({"jsonPath": paths[-1], "numberValue": 1})
