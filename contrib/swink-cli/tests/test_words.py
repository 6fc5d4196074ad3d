"""How numbers, tables, panels and Markdown are laid out."""

from __future__ import annotations

import json
from datetime import date

import pytest

import swink_core as swink
from swink_cli.commands.demo.panels import Layout, choose_layout
from swink_cli.commands.models import is_stale
from swink_cli.files import encode_json
from swink_cli.summary import money, rate, seconds, tokens
from swink_cli.terminal import PrintableStream, as_unicode, printable, show_error, table
from swink_core import ModelInfo


@pytest.mark.parametrize(
    ("dollars", "expected"),
    [
        (0, "$0"),
        (1234.5, "$1,234.50"),
        (1.0, "$1.00"),
        (0.25, "$0.25"),
        (0.0123456, "$0.012"),
        (0.000246, "$0.00025"),
        (0.00000012, "$0.00000012"),
    ],
)
def test_money_has_cents_or_two_figures(dollars: float, expected: str) -> None:
    assert money(dollars) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0004, "0 ms"), (0.42, "420 ms"), (0.9996, "1.0 s"), (12.34, "12.3 s")],
)
def test_seconds_are_those_that_people_waited(value: float, expected: str) -> None:
    assert seconds(value) == expected


def test_a_rate_needs_a_count_and_a_time() -> None:
    assert rate(100, 2.0) == 50
    assert rate(None, 2.0) is None
    assert rate(100, 0.001) is None


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, "tokens unknown"),
        (swink.Usage(), "tokens unknown"),
        (swink.Usage(input=1200, output=3), "1,200 tokens in, 3 out"),
        (swink.Usage(output=3), "? tokens in, 3 out"),
        (
            swink.Usage(input=9, output=8, cache_read=4, reasoning=5),
            "9 tokens in (4 cached), 8 out (5 thinking)",
        ),
    ],
)
def test_an_unknown_amount_is_not_zero(usage: swink.Usage | None, expected: str) -> None:
    assert tokens(usage) == expected


@pytest.mark.parametrize(
    ("as_of", "expected"),
    [(None, False), ("2026-06-01", False), ("2026-05-04", False), ("2026-05-03", True),
     ("long ago", True)],
)  # fmt: skip
def test_figures_are_stale_after_180_days(as_of: str | None, expected: bool) -> None:
    info = ModelInfo("m", as_of=as_of)
    assert is_stale(info, date(2026, 10, 31)) is expected


@pytest.mark.parametrize(
    ("count", "width", "height", "expected"),
    [
        (1, 80, 24, Layout(1, 12)),
        (4, 80, 24, Layout(2, 11)),
        (4, 200, 50, Layout(4, 12)),
        (6, 200, 50, Layout(3, 12)),
        (15, 80, 24, Layout(3, 4)),
        (15, 200, 50, Layout(5, 12)),
        (18, 80, 24, Layout(1, 1)),
        (3, 20, 10, Layout(1, 1)),
    ],
)
def test_all_panels_fit_on_the_screen(
    count: int, width: int, height: int, expected: Layout
) -> None:
    layout = choose_layout(count, width, height)
    assert layout == expected
    if layout.height > 1:
        assert layout.height * -(-count // layout.columns) < height


def test_a_table_aligns_its_columns_below_titles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    rows = ["first", ("a", "bb", "the last"), "second", ("aaa", "b", "")]
    assert table(rows) == ["first", "  a    bb  the last", "second", "  aaa  b"]
    assert table([]) == []


PRINTABLE = pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb\nc\r\nd", "a\tb\nc\nd"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07text", r"\x1b]0;title\x07text"),
        ("bell\x07 \x1b \x00 \r", r"bell\x07 \x1b \x00 \x0d"),
        ("c1 \x9b2J", r"c1 \x9b2J"),
        ("\x1b]0;\x1b]0;title\x07text", r"\x1b]0;\x1b]0;title\x07text"),
        ("pay \u202ecilA\u2069", r"pay \u202ecilA\u2069"),
        ("\u200fמלך\u200e", r"\u200fמלך\u200e"),
        ("\ufeffa\u200bb\xadc\u2028d", r"\ufeffa\u200bb\xadc\u2028d"),
        ("a\U000e0068\U000e0069", r"a\U000e0068\U000e0069"),  # words in tag characters
        ("\ud83d", r"\ud83d"),
        ("👩\u200d💻 ❤\ufe0f", "👩\u200d💻 ❤\ufe0f"),
        ("🏳\ufe0f\u200d🌈 1\ufe0f\u20e3", "🏳\ufe0f\u200d🌈 1\ufe0f\u20e3"),
        ("می\u200cخواهم 葛\U000e0100", "می\u200cخواهم 葛\U000e0100"),
        ("a\u200db ❤\ufe0f\ufe0e \u200d", r"a\u200db ❤" "\ufe0f" r"\ufe0e \u200d"),
        ("e\u0301 ü 漢字 \xa0«»", "e\u0301 ü 漢字 \xa0«»"),
        ("\x1b]" * 200_000, r"\x1b]" * 200_000),
    ],
    ids=range(17),
)  # fmt: skip


@PRINTABLE
def test_characters_that_act_on_a_terminal_are_shown_as_escapes(text: str, expected: str) -> None:
    assert printable(text) == expected
    assert printable(expected) == expected


@PRINTABLE
def test_pieces_of_a_text_are_printable_as_the_whole_is(text: str, expected: str) -> None:
    stream = PrintableStream()
    assert "".join([*map(stream.feed, text), stream.close()]) == expected


def test_table_cells_and_json_cannot_control_the_terminal() -> None:
    assert table([("\x1b]0;t\x07a", "b\x9b2J"), ("aaa", "b")]) == [
        r"\x1b]0;t\x07a  b\x9b2J", "aaa            b",
    ]  # fmt: skip
    text = encode_json({"a": "\x1b[2J\x7f\x9b2J\u202e"}).decode()
    assert text == '{"a": "\\u001b[2J\\u007f\\u009b2J\\u202e"}\n'
    assert json.loads(text) == {"a": "\x1b[2J\x7f\x9b2J\u202e"}


def test_input_in_another_encoding_becomes_unicode() -> None:
    assert as_unicode("na\udcefve") == "na\ufffdve"


def test_a_lone_surrogate_is_written_as_json_has_it() -> None:
    assert encode_json({"a": "\ud83d ü"}) == b'{"a": "\\ud83d \xc3\xbc"}\n'


def test_advice_uses_command_line_wording_except_in_provider_messages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_error(
        "Too long", "please lower max_tokens", "Raise max_output_chars, or lower max_tokens."
    )
    show_error("No address", "no address for acme: pass base_url=…")
    assert capsys.readouterr().err.splitlines() == [
        "Error: Too long",
        "please lower max_tokens",
        "Raise --option max_output_chars=NUMBER, or lower --max-tokens.",
        "Error: No address",
        "no address for acme: pass --base-url URL",
    ]
