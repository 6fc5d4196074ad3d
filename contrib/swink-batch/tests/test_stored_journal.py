"""A run goes on from the journal of an earlier version.

Commit 390bb376 wrote `stored/journal`, when messages and answers were classes of attrs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from swink_batch import run

JOURNAL = Path(__file__).parent / "stored" / "journal"

ROWS = [{"id": "a", "text": "Oslo"}, {"id": "b", "text": "Rome"}, {"id": "d", "text": "Bern"}]


async def test_answers_of_an_earlier_version_are_kept_and_the_rest_is_sent(
    tmp_path: Path,
) -> None:
    journal = shutil.copytree(JOURNAL, tmp_path / "journal")
    stored = [line.partition(" ")[2] for line in _lines(journal / "all.journal")[1:]]
    output = tmp_path / "answers.jsonl"
    tally = await run(
        "echo/echo",
        [*ROWS, {"id": "c"}],
        output,
        prompt="Where is {text}?",
        journal=journal,
        options={"max_tokens": 50},
    )
    assert (tally.total, tally.kept, tally.kept_failed, tally.answered) == (4, 2, 1, 1)
    answers = {json.loads(line)["id"]: line for line in _lines(output)}
    assert {*answers} == {"a", "b", "c", "d"}
    assert [answers["a"], answers["b"]] == [line for line in stored if '"text"' in line]
    assert json.loads(answers["d"])["text"] == "Where is Bern?"


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()
