"""The table of failures in the documentation says what the code does."""

import re
from pathlib import Path

import failure_table
import pytest

from swink_core import StreamErrorKind as Kind
from swink_core.failures.kinds import CODES
from swink_core.failures.kinds import CORE as PREFIX
from swink_core.streaming.retries import FINAL

CORE = Path(__file__).resolve().parent.parent / "swink_core"


def test_the_page_is_up_to_date() -> None:
    written = failure_table.PAGE.read_text("utf-8")
    assert written == failure_table.page(), "run tools/failure_table.py"


@pytest.mark.parametrize("kind", list(Kind), ids=str)
def test_every_kind_says_where_it_comes_from(kind: Kind) -> None:
    assert failure_table.sources()[kind.name].endswith(".")


def test_every_rule_of_its_own_that_bounds_retries_is_listed() -> None:
    bounding = {PREFIX + code for code, row in CODES.items() if row.most_retries is not None}
    assert {*bounding, FINAL} <= {rule for _, rule, _ in failure_table.CHECKS}


def test_every_listed_rule_is_one_that_the_core_sets() -> None:
    source = "".join(path.read_text("utf-8") for path in CORE.rglob("*.py"))
    codes = set(re.findall(r'"([a-z_]+)"', source)) | set(Kind)
    assert {rule.removeprefix("core:") for _, rule, _ in failure_table.CHECKS} <= codes
