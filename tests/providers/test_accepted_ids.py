"""Ids that an API takes: those that it refuses become others, each its own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_core.providers import accepted_id

REFUSED = re.compile(r"[^a-z0-9_]")

# (an id, the longest that is taken, whether it stays as it is)
IDS: list[tuple[str, int | None, bool]] = [
    ("call_1", None, True),
    ("x", None, True),
    ("x" * 400, None, True),
    ("x" * 13, 13, True),
    ("x" * 14, 13, False),
    ("call-1", None, False),
    ("", None, False),
    ("", 40, False),
]


@pytest.mark.parametrize(("id", "longest", "stays"), IDS)
def test_an_id_changes_only_where_it_is_refused(id: str, longest: int | None, stays: bool) -> None:
    assert (accepted_id(id, REFUSED, longest) == id) is stays


def test_the_readable_part_of_an_id_precedes_its_unique_suffix() -> None:
    assert re.fullmatch("call_1_[0-9a-f]{12}", accepted_id("call-1", REFUSED))
    assert re.fullmatch("x{40}_[0-9a-f]{12}", accepted_id("x" * 400, REFUSED, 399))
    assert re.fullmatch("x{7}_[0-9a-f]{12}", accepted_id("x" * 400, REFUSED, 20))


@given(
    st.lists(st.text(st.sampled_from("a_-é\ud800"), max_size=30), unique=True, min_size=2),
    st.one_of(st.none(), st.integers(13, 80)),
)
def test_no_two_ids_become_one(ids: list[str], longest: int | None) -> None:
    sent = [accepted_id(id, REFUSED, longest) for id in ids]
    assert len({*sent}) == len(ids)
    assert sent == [accepted_id(id, REFUSED, longest) for id in ids]
    for id in sent:
        assert not REFUSED.search(id)
        assert 0 < len(id) <= (longest or 53)
