"""`swink record` asks whether the message is what the answer says, and keeps what was confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest

import swink_core as swink
from swink_cli.understood import ask_a_person, confirmed
from swink_recorder.recording import Recording

MESSAGE = swink.AssistantMessage(
    [swink.TextBlock("Ray"), swink.ToolCallBlock("c1", "look_up", {"word": "sky"})],
    usage=swink.Usage(3, 7, total=10, reported=True),
    stop_reason=swink.StopReason.STOP,
)

PARTS = ["text", "tool calls", "usage", "stop reason"]


def test_what_is_right_stays_and_is_confirmed() -> None:
    assert confirmed(MESSAGE, lambda _: True, lambda _: "") == (MESSAGE, PARTS)


@pytest.mark.parametrize(
    ("wrong", "typed", "expected"),
    [
        ("text", "Rayleigh", swink.replace(MESSAGE, content=[
            swink.TextBlock("Rayleigh"), MESSAGE.content[1]])),
        ("tool calls", '[{"name": "find", "arguments": {}}]', swink.replace(MESSAGE, content=[
            MESSAGE.content[0], swink.ToolCallBlock("c1", "find", {})])),
        ("usage", "7 3", swink.replace(
            MESSAGE, usage=swink.Usage(7, 3, total=10, reported=True))),
        ("usage", "none", swink.replace(MESSAGE, usage=None)),
        ("stop reason", "length", swink.replace(MESSAGE, stop_reason=swink.StopReason.LENGTH)),
    ],
)  # fmt: skip
def test_what_is_wrong_is_corrected(
    wrong: str, typed: str, expected: swink.AssistantMessage
) -> None:
    answers = iter([part != wrong for part in PARTS])

    assert confirmed(MESSAGE, lambda _: next(answers), lambda _: typed) == (expected, PARTS)


def test_a_correction_that_cannot_be_read_is_asked_for_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers, typed = iter([True, True, False, True]), iter(["seven", "7 3"])

    message, _ = confirmed(MESSAGE, lambda _: next(answers), lambda _: next(typed))

    assert message.usage == swink.Usage(7, 3, total=10, reported=True)
    assert "try again" in capsys.readouterr().err


def test_without_a_terminal_nothing_is_asked_or_confirmed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ask_a_person(MESSAGE, is_there=False) == (MESSAGE, [])
    assert "nothing was confirmed" in capsys.readouterr().err


def test_a_recording_keeps_what_was_confirmed(tmp_path: Path) -> None:
    Recording("acme", "large", b"", [], message=MESSAGE, confirmed=PARTS).save(tmp_path / "kept")

    assert Recording.load(tmp_path / "kept").confirmed == PARTS
