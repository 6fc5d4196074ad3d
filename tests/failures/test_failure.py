"""The details of a failure, as plugins state them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from math import inf, nan
from typing import Any

import pytest

from swink_core import Classification, Failure, StreamErrorKind

# (fields, exception, part of its message)
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"phase": "later"}, ValueError, "Unknown phase 'later'. Use one of connect, request, first_"),
    ({"phase": None}, ValueError, "Unknown phase None."),
    ({"phase": "request", "status": "429"}, TypeError, "an integer or None, not '429'"),
    ({"phase": "request", "status": 429.0}, TypeError, "an integer or None, not 429.0"),
    ({"phase": "request", "kind": "tired"}, ValueError, "'tired' is not a valid StreamErrorKind"),
]


@pytest.mark.parametrize(("fields", "error", "message"), REFUSED)
def test_a_failure_of_unknown_facts_is_refused(
    fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        Failure(**fields)
    assert message in str(caught.value)


@pytest.mark.parametrize("phase", ["connect", "request", "first_event", "streaming", "finalize"])
def test_a_failure_has_one_of_the_phases(phase: Any) -> None:
    assert Failure(phase).phase == phase


def test_a_failure_has_no_facts_but_those_that_are_given() -> None:
    failure = Failure("request")
    facts = {name: getattr(failure, name) for name in Failure.__slots__ if name[0] != "_"}
    assert {name: fact for name, fact in facts.items() if fact is not None} == {
        "phase": "request", "headers": {}, "body": b"",
    }  # fmt: skip


def test_a_kind_may_be_named_in_words_and_a_message_may_be_any_value() -> None:
    failure = Failure("request", kind="auth", message=KeyError("key"))
    assert failure.kind is StreamErrorKind.AUTH
    assert failure.message == "'key'"


# the two classes in which a plugin states a wait and a code
STATING = [partial(Failure, "request"), partial(Classification, StreamErrorKind.THROTTLED)]


@pytest.mark.parametrize("make", STATING, ids=["failure", "classification"])
@pytest.mark.parametrize(
    ("wait", "error", "message"),
    [
        ("3", TypeError, "a number of seconds or None, not '3'"),
        (timedelta(seconds=3), TypeError, "not datetime.timedelta(seconds=3)"),
        (nan, ValueError, "a finite number of seconds, not nan"),
        (inf, ValueError, "a finite number of seconds, not inf"),
        (10**400, ValueError, "a finite number of seconds, not 1000"),
    ],
)
def test_a_wait_that_is_no_number_of_seconds_is_refused(
    make: Callable[..., Any], wait: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        make(retry_after=wait)
    assert message in str(caught.value)


@pytest.mark.parametrize("make", STATING, ids=["failure", "classification"])
def test_a_wait_that_has_passed_is_no_wait_and_a_code_may_be_a_number(
    make: Callable[..., Any],
) -> None:
    made = make(retry_after=-3, code=1302)
    assert (made.retry_after, made.code) == (0.0, "1302")


def test_a_classification_has_one_of_the_kinds() -> None:
    kinds: list[Any] = ["overloaded", "tired"]
    assert Classification(kinds[0]).kind is StreamErrorKind.OVERLOADED
    with pytest.raises(ValueError, match="'tired' is not a valid StreamErrorKind"):
        Classification(kinds[1])
