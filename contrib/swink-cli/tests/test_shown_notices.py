"""Which notices the command line shows."""

from __future__ import annotations

import logging

import pytest

import swink_core as swink
from swink_cli.display import Display, make_sink


@pytest.mark.parametrize(
    ("code", "level", "shown"),
    [
        ("content_left_out", logging.WARNING, True),
        ("thinking_left_out", logging.WARNING, False),
        ("thinking_left_out", logging.DEBUG, True),
        ("metadata_left_out", logging.WARNING, False),
        ("metadata_left_out", logging.DEBUG, True),
    ],
)
def test_notices_that_come_with_most_turns_are_shown_for_debugging_alone(
    code: str,
    level: int,
    shown: bool,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(level)
    display = Display(make_sink(plain=True))
    display.feed([swink.Notice(code, "the detail")])
    display.close()

    assert ("notice: the detail" in capsys.readouterr().err) is shown
