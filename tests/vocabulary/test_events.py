"""Events as adapters make them."""

from __future__ import annotations

import inspect
from typing import get_args

import pytest

from swink_core import AssistantMessageEvent, Error, Event, Start, StopReason, StreamErrorKind
from swink_core.vocabulary.grammar import RULES

HELPERS = {
    StreamErrorKind.CONTEXT_WINDOW_EXCEEDED: "context_overflow",
}


@pytest.mark.parametrize("kind", StreamErrorKind)
def test_there_is_a_helper_for_an_error_of_each_kind(kind: StreamErrorKind) -> None:
    helper = getattr(Error, HELPERS.get(kind, kind.value))
    assert helper("so") == Error(
        error_message="so", error_kind=kind, stop_reason=StopReason.ERROR, usage=None
    )
    assert f"`{kind}`" in helper.__doc__


def test_other_events_make_no_errors() -> None:
    assert not hasattr(AssistantMessageEvent, "throttled")


def test_a_limit_may_say_when_to_come_back() -> None:
    assert Error.throttled("so", 2.0).retry_after == 2.0
    assert Error.overloaded("so", 3.0).retry_after == 3.0


@pytest.mark.parametrize("cls", RULES, ids=lambda cls: cls.__name__)
def test_each_event_is_slotted_and_tagged_by_its_name(cls: type[AssistantMessageEvent]) -> None:
    words = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("_")
    assert cls.type == words
    assert not cls.__dictoffset__
    assert inspect.getdoc(cls)


def test_the_union_of_events_is_those_of_the_grammar() -> None:
    assert set(get_args(Event)) == set(RULES)


def test_tags_are_unique() -> None:
    assert len({cls.type for cls in RULES}) == len(RULES)


def test_the_first_event_answers_the_attributes_of_other_libraries() -> None:
    with pytest.raises(AttributeError, match=r"'Start' object has no attribute 'choices'; .*delta"):
        Start().choices  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(Start(), "colour")
