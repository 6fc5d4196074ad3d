"""The kit finds faults: those that an earlier one missed, and mutants made by rule."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import msgspec
import pytest
from conformance_subjects import FIXTURES, subject_of

from swink_testing.conformance import PROVIDER_CHECKS
from swink_testing.mutants import RULES, killed_by, mutants_of

sys.path.append(str(FIXTURES))  # modules are mutated before a fixture could do it

FOUND_BY = {
    "temperature_zero_dropped": "nothing_dropped",
    "arguments_emptied": "nothing_dropped",
    "ids_of_results_dropped": "nothing_dropped",
    "tool_descriptions_dropped": "nothing_dropped",
    "tool_schemas_dropped": "nothing_dropped",
    "thinking_not_sent_back": "answers_go_back",
    "plans_not_sent_back": "answers_go_back",
    "thinking_off_ignored": "nothing_dropped",
    "tool_choice_none_ignored": "nothing_dropped",
    "named_tool_is_any_tool": "nothing_dropped",
    "extra_dropped": "nothing_dropped",
    "extra_overrides_options": "nothing_dropped",
    "another_model_asked": "nothing_dropped",
    "images_of_another_type": "other_models",
    "images_dropped": "other_models",
    "image_bytes_dropped": "other_models",
    "normalise_not_called": "nothing_dropped",
    "unknown_frame_raises": "unknown_frames",
    "missing_reason_is_stop": "stop_reasons",
}
"""What an earlier kit called complete, and the check that finds it now."""

EQUIVALENT = {"blocks_merged_into_one": "a model reads the same words in the same order"}


def test_every_survivor_of_an_earlier_kit_is_here() -> None:
    from sound_provider.survivors import SURVIVORS

    assert SURVIVORS.keys() == FOUND_BY.keys() | EQUIVALENT.keys()
    assert len(SURVIVORS) == 20


@pytest.mark.parametrize(("fault", "name"), FOUND_BY.items(), ids=list(FOUND_BY))
def test_a_fault_that_was_missed_once_is_found(fault: str, name: str) -> None:
    from sound_provider.survivors import SURVIVORS

    subject = subject_of(load=lambda: SURVIVORS[fault])
    check = [check for check in PROVIDER_CHECKS if check.name == name]

    assert killed_by(subject, check) == name


MUTANTS = {mutant.name: mutant for mutant in mutants_of("sound_provider")}
LISTED = msgspec.toml.decode(
    (Path(__file__).parent / "equivalent_mutants.toml").read_bytes(), type=dict[str, str]
)


@pytest.mark.parametrize("name", [n for n in [*MUTANTS][::4] if n not in LISTED])
def test_a_mutant_is_found(name: str) -> None:
    """One in four of those that `make mutants` tries of the sound provider."""
    with MUTANTS[name].installed():
        assert killed_by(subject_of()) is not None


def test_a_mutant_is_gone_when_it_is_not_installed() -> None:
    import sound_provider

    with MUTANTS["sound_provider.Sound.parser nothing 1"].installed():
        from sound_provider import Sound

        assert Sound("sound").parser(subject_of().model) is None
    from sound_provider import Sound as Again

    assert Again is sound_provider.Sound


def test_every_rule_makes_mutants() -> None:
    rules = {name.split(" ")[1] for name in MUTANTS}
    assert RULES.keys() - rules <= {"deaf", "negated"}
    assert all(ast.parse(mutant.source) for mutant in MUTANTS.values())
