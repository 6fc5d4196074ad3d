"""The table of failure kinds and codes agrees with the code of the core."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from swink_core import StreamErrorKind as Kind
from swink_core.failures.kinds import CODES, KINDS, STALE
from swink_core.vocabulary.outcome import for_every_kind

CORE = Path(__file__).resolve().parent.parent / "swink_core"
TABLE = CORE / "failures" / "kinds.py"


def test_every_code_is_one_that_the_core_sets() -> None:
    source = "".join(path.read_text("utf-8") for path in CORE.rglob("*.py") if path != TABLE)
    words = {*re.findall(r'"([a-z_]+)"', source), *Kind, "bad_event", STALE}
    assert set(CODES) - words == set()


def test_every_code_that_the_core_sets_is_listed() -> None:
    trees = [ast.parse(path.read_text("utf-8")) for path in CORE.rglob("*.py") if path != TABLE]
    found = {code for tree in trees for code in _codes_set_in(tree)}
    assert len(found) > 20
    assert found - set(CODES) == {"command"}  # of `not_started`, for providers that run commands


def _codes_set_in(tree: ast.AST) -> Iterator[str]:
    """Yield the texts that a module passes to a `Failure` as its code, or assigns to one."""
    for node in ast.walk(tree):
        given: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            for target in node.targets:
                is_pair = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                pairs = zip(target.elts, node.value.elts, strict=True) if is_pair else ()
                given += [*pairs, (target, node.value)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Failure":
            given = [(ast.Name(each.arg or ""), each.value) for each in node.keywords]
        for name, value in given:
            if ast.unparse(name).rpartition(".")[2] == "code":
                values = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
                yield from (v.value for v in values if isinstance(v, ast.Constant) and v.value)


@pytest.mark.parametrize("code", CODES)
def test_a_code_bounds_retries_only_below_those_of_its_kind(code: str) -> None:
    row = CODES[code]
    most = KINDS[row.kind].retries
    assert row.most_retries is None or 0 <= row.most_retries <= most


def test_a_table_that_lacks_a_kind_is_refused_by_the_name_of_the_kind() -> None:
    rows = {kind: 1 for kind in Kind if kind not in (Kind.AUTH, Kind.TIMEOUT)}
    with pytest.raises(LookupError, match=r"^statuses: no row for TIMEOUT, AUTH$"):
        for_every_kind("statuses", rows)
