"""The rules by which `make core-mutants` makes mutants: what each changes and leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.mutants.core_mutations import RULES, mutants_of

ROOT = Path(__file__).resolve().parent.parent

# (rule, source, what stands in its place, each time)
MADE: list[tuple[str, str, list[str]]] = [
    ("comparison", "a < b", ["(a <= b)"]),
    ("comparison", "a is not None", ["(a is None)"]),
    ("boolean", "a and b", ["(a or b)"]),
    ("boolean", "not a", ["(a)"]),
    ("boolean", "b if a else c", ["(not a)"]),
    ("constant", "[1, True, 0.5, 'word']", ["2", "False", "1.5", "'word_'"]),
    ("calculation", "a + b", ["(a - b)"]),
    ("calculation", "a += 1", ["a -= 1"]),
    ("removed", "a = 1", ["pass"]),
    ("removed", "f()", ["pass"]),
    ("removed", "raise ValueError", ["pass"]),
    ("returned", "def f():\n    return 5", ["return None"]),
    ("returned", "def f():\n    return", []),
    ("returned", "def f():\n    return False", []),
    ("swapped", "f(a, b, c)", ["(f(b, a, c))"]),
    ("swapped", "f(a, a)", []),
    ("swapped", "min(a, b)", []),
    ("swapped", "suppress(a, b)", []),
    ("swapped", "f(*a, b)", []),
    ("off_by_one", "a[b:c]", ["(b + 1)", "(c + 1)"]),
    ("off_by_one", "len(a)", ["(len(a) - 1)"]),
    ("uncaught", "try:\n    pass\nexcept ValueError:\n    pass", ["()"]),
]


@pytest.mark.parametrize(("rule", "source", "made"), MADE, ids=[f"{r[0]}-{r[1]}" for r in MADE])
def test_a_rule_changes_one_place(rule: str, source: str, made: list[str]) -> None:
    assert [each.now for each in mutants_of("a.py", source) if each.rule == rule] == made


def test_no_rule_is_without_an_example() -> None:
    assert RULES.keys() == {rule for rule, _, _ in MADE}


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "from a import b",
        "__all__ = ['a']",
        "log.debug('%s: so', 5)",
        "'words for people'.f",
        "f'{a}: 5'",
        "'utf-8'",
        "'utf-16'",
        "T = TypeVar('T', bound=int)",
        "def f(a: Literal['b']) -> Literal[1]: ...",
    ],
)
def test_text_without_behaviour_is_not_mutated(source: str) -> None:
    changed = [each for each in mutants_of("a.py", source) if each.rule != "removed"]
    assert changed == []


def test_a_mutant_says_where_it_is_and_its_lines_keep_their_numbers() -> None:
    source = "class A:\n    def f(self):\n        # why\n        if self.a:\n            return 1\n"
    [negated] = [each for each in mutants_of("a.py", source) if each.rule == "boolean"]
    assert (negated.line, negated.name) == (4, "a.py: A.f: self.a → (not self.a)")
    assert negated.source == source.replace("self.a", "(not self.a)")


def test_equal_changes_in_one_function_have_names_of_their_own() -> None:
    made = mutants_of("a.py", "def f():\n    return a + a + b\n\ndef g():\n    return b\n" * 2)
    assert [each.name for each in made if each.rule == "returned"] == [
        "a.py: f: return a + a + b → return None",
        "a.py: g: return b → return None",
        "a.py: f: return a + a + b → return None (2)",
        "a.py: g: return b → return None (2)",
    ]


def test_every_mutant_of_the_core_is_another_module() -> None:
    source = (ROOT / "swink_core/failures/waits.py").read_text("utf-8")
    made = list(mutants_of("failures/waits.py", source))
    assert len({each.source for each in made} | {source}) == len(made) + 1
    assert len({each.name for each in made}) == len(made)
