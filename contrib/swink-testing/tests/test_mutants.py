"""The kit finds faults: those that an earlier one missed, and mutants made by rule."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from conformance_subjects import FIXTURES, subject_of

from swink_testing.conformance import PROVIDER_CHECKS
from swink_testing.mutants import RULES, edited, killed_by, mutants_of

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
    "images_of_another_type": "nothing_dropped",
    "images_dropped": "nothing_dropped",
    "image_bytes_dropped": "nothing_dropped",
    "normalise_not_called": "nothing_dropped",
    "unknown_frame_raises": "other_forms",
    "missing_reason_is_stop": "finish_reasons",
}
"""Faults that an earlier kit missed, and the check that finds each now."""

EQUIVALENT = {"blocks_merged_into_one": "a model reads the same words in the same order"}


def _survivors() -> dict[str, type]:
    found: dict[str, type] = import_module("sound_provider.survivors").SURVIVORS
    return found


def test_every_survivor_of_an_earlier_kit_is_here() -> None:
    assert _survivors().keys() == FOUND_BY.keys() | EQUIVALENT.keys()
    assert len(_survivors()) == 20


@pytest.mark.heavy
@pytest.mark.parametrize(("fault", "name"), FOUND_BY.items(), ids=list(FOUND_BY))
def test_a_fault_that_was_missed_once_is_found(fault: str, name: str) -> None:
    subject = subject_of(load=lambda: _survivors()[fault])
    check = [check for check in PROVIDER_CHECKS if check.name == name]

    assert killed_by(subject, check) == name


HERE = Path(__file__).parent
BY_RULE = {mutant.name: mutant for mutant in mutants_of("sound_provider")}
ROWS = msgspec.toml.decode((HERE / "handwritten_mutants.toml").read_bytes())["mutants"]
BY_HAND = [edited(**row) for row in ROWS if row["module"] == "sound_provider"]
MUTANTS = BY_RULE | {mutant.name: mutant for mutant in BY_HAND}
LISTED = msgspec.toml.decode((HERE / "equivalent_mutants.toml").read_bytes(), type=dict[str, str])


@pytest.mark.parametrize("name", [n for n in [*MUTANTS][::5] if n not in LISTED])
def test_a_mutant_is_found(name: str) -> None:
    """One in five of those that `make mutants` tries of the sound provider."""
    with MUTANTS[name].installed():
        assert killed_by(subject_of()) is not None


def test_a_mutant_is_gone_when_it_is_not_installed() -> None:
    mutant = MUTANTS["sound_provider.Sound.parser nothing 1"]
    before = import_module("sound_provider")

    with mutant.installed():
        mutated = import_module("sound_provider")
        assert mutated.Sound("sound").parser(subject_of().model) is None

    assert import_module("sound_provider") is before


def test_the_place_of_a_mutant_is_the_line_that_it_changes() -> None:
    file, _, line = MUTANTS["sound_provider.Sound.parser nothing 1"].place.rpartition(":")

    assert Path(file) == FIXTURES / "sound_provider" / "__init__.py"
    assert Path(file).read_text("utf-8").splitlines()[int(line) - 1] == "        return Parser()"


def test_a_text_that_a_module_does_not_have_once_is_no_place_for_a_fault() -> None:
    with pytest.raises(ValueError, match="sound_provider has 'no such text' 0 times"):
        edited("a fault", "sound_provider", "no such text", "")


def test_every_rule_makes_mutants() -> None:
    rules = {name.split(" ")[1] for name in BY_RULE}
    assert RULES.keys() - rules <= {"deaf", "negated"}
    assert all(ast.parse(mutant.source) for mutant in MUTANTS.values())
