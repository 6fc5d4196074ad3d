"""The conformance kit on the claude command, played by a stand-in that says what was recorded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from swink_testing.conformance import PROVIDER_CHECKS, ProviderConformance, Subject, run_checks

RECORDINGS = Path(__file__).parents[1] / "src" / "swink_provider_claude_code" / "recordings"

STAND_IN = """#!{python}
import sys
sys.stdin.readline()
*lines, last = open({answer!r})
sys.stdout.writelines(lines)
sys.stdout.write('{{"type": "filler"}}\\n' * 100_000)  # more than is read at once
sys.stdout.write(last)
"""


@pytest.fixture(autouse=True)
def _stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = min(RECORDINGS.glob("*/body.*"))
    command = tmp_path / "claude"
    command.write_text(STAND_IN.format(python=sys.executable, answer=str(answer)))
    command.chmod(0o755)
    monkeypatch.setenv("SWINK_CLAUDE_COMMAND", str(command))


class TestClaudeCode(ProviderConformance):
    provider = "claude-code"
    model = "claude-code/sonnet"
    offline = True


class TestClaudeCodeUnasked(ProviderConformance):
    """Conformance tests without permission to run the command."""

    provider = "claude-code"


def test_what_is_needed_is_checked_without_the_command() -> None:
    needed = [check for check in PROVIDER_CHECKS if check.needed]

    results = run_checks(needed, Subject.find("claude-code"))

    assert [f"{result.name}: {result.detail}" for result in results if not result.holds] == []
