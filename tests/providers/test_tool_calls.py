"""The matching of fragments with an unknown key to the call that they complete."""

from __future__ import annotations

import pytest

from swink_core.providers.tool_calls import LOOK, MAX_STRAY_WORK, OpenCalls


@pytest.mark.parametrize("beyond", [0, 1])
def test_what_is_scanned_and_what_is_parsed_counts_against_the_limit(beyond: int) -> None:
    length = (MAX_STRAY_WORK - LOOK - len(" }")) // 2 + beyond
    calls = OpenCalls()
    call = calls.begin(0)
    call.index = 0
    call.parts.append('{"a":"'.ljust(length - 1, "x") + '"')
    stray = calls.begin(1)
    stray.parts.append(" }")
    assert calls.completed_by(stray) is (None if beyond else call)


def test_arguments_that_have_ended_are_not_joined_with_a_fragment() -> None:
    calls = OpenCalls()
    for key, arguments in enumerate(('{"a":"'.ljust(MAX_STRAY_WORK // 2, "x") + '"}', '{"b":[1')):
        call = calls.begin(key)
        call.index = key
        call.parts.append(arguments)
    stray = calls.begin(2)
    stray.parts.append("]}")
    assert calls.completed_by(stray) is call
    assert call.parts == ['{"b":[1', "]}"]
