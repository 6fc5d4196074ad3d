"""Waits that a hostile server asks for: read in no time, and never beyond a year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from swink_core import Failure
from swink_core.failures.waits import (
    LONGEST_TEXT,
    LONGEST_WAIT,
    duration_seconds,
    retry_after_seconds,
)
from swink_core.providers import by_tables, wait_seconds
from swink_testing.freeze import FREEZE, HOSTILE_SIZE, cpu_seconds

NOW = datetime(2026, 3, 1, tzinfo=UTC)

LONG = [
    "1" * HOSTILE_SIZE,
    "1" * HOSTILE_SIZE + "x",
    "1" * HOSTILE_SIZE + "s",
    "1." * (HOSTILE_SIZE // 2),
    "1s" * (HOSTILE_SIZE // 2),
    "1 " * (HOSTILE_SIZE // 2),
    " " * HOSTILE_SIZE,
    "1" + " " * HOSTILE_SIZE + "x",
    "1e" * (HOSTILE_SIZE // 2),
    "_1" * (HOSTILE_SIZE // 2),
    "Mon, " * (HOSTILE_SIZE // 5),
    "(" * HOSTILE_SIZE,
    "2026-" * (HOSTILE_SIZE // 5),
    "\ud800" * HOSTILE_SIZE,
]
HEADERS = ["retry-after", "retry-after-ms", "x-ratelimit-reset-requests"]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("text", LONG, ids=lambda text: repr(text[:6]))
def test_no_header_holds_the_thread(header: str, text: str) -> None:
    headers = {"x-ratelimit-remaining-requests": "0", header: text}
    assert cpu_seconds(lambda: retry_after_seconds(headers, NOW)) < FREEZE
    assert retry_after_seconds(headers, NOW) is None


@pytest.mark.parametrize("text", LONG, ids=lambda text: repr(text[:6]))
def test_no_duration_in_a_body_holds_the_thread(text: str) -> None:
    assert cpu_seconds(lambda: wait_seconds(text)) < FREEZE
    assert wait_seconds(text) is None


@pytest.mark.parametrize("text", LONG, ids=lambda text: repr(text[:6]))
def test_no_message_holds_the_thread(text: str) -> None:
    failure = Failure("request", 429, message=text, code=text, headers={"retry-after": text})
    wordings = [(f"wording {number}", "throttled") for number in range(50)]
    assert cpu_seconds(lambda: by_tables(failure, {}, wordings)) < FREEZE  # type: ignore[arg-type]  # kinds


# (name, headers, seconds)
ENDLESS: list[tuple[str, dict[str, str], float | None]] = [
    ("seconds", {"retry-after": "9" * 60 + "s"}, 366 * 24 * 3600.0),
    ("days", {"retry-after": "9" * 8 + "d"}, LONGEST_WAIT),
    ("a_number_beyond_every_date", {"retry-after": "9" * 60}, LONGEST_WAIT),
    ("milliseconds", {"retry-after-ms": "9" * 60}, LONGEST_WAIT),
    ("as_many_digits_as_are_read", {"retry-after-ms": "5".zfill(LONGEST_TEXT)}, 0.005),
    ("a_digit_more", {"retry-after-ms": "5".zfill(LONGEST_TEXT + 1)}, None),
    ("the_longest_of_waits", {"retry-after": "1000000000"}, LONGEST_WAIT),
    ("the_first_of_moments", {"retry-after": "1000000001"}, 0.0),
    ("infinity", {"retry-after": "inf"}, None),
    ("no_number", {"retry-after": "nan"}, None),
    ("an_exponent", {"retry-after": "1e308"}, LONGEST_WAIT),
    ("below_zero", {"retry-after": "-5"}, None),
    ("a_date_in_a_thousand_years", {"retry-after": "3026-03-01T00:00:00Z"}, LONGEST_WAIT),
    ("a_date_before_time", {"retry-after": "0001-01-01T00:00:00+23:59"}, 0.0),
    ("a_date_after_time", {"retry-after": "9999-12-31T23:59:59-23:59"}, LONGEST_WAIT),
    ("a_year_that_no_date_has", {"retry-after": f"Mon, 01 Jan {'9' * 30} 00:00:00 GMT"}, None),
    ("a_zone_that_no_date_has", {"retry-after": "Mon, 01 Jan 2026 00:00:00 +99999999"}, None),
    ("digits_of_another_script", {"retry-after": "١٢s"}, None),
    (
        "a_reset_that_never_comes",
        {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "9" * 60 + "s"},
        LONGEST_WAIT,
    ),
]


@pytest.mark.parametrize(
    ("headers", "seconds"), [case[1:] for case in ENDLESS], ids=[case[0] for case in ENDLESS]
)
def test_no_wait_is_above_a_year(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers, NOW) == seconds


@pytest.mark.parametrize("text", ["1s" * (LONGEST_TEXT // 2), "0" * (LONGEST_TEXT - 1) + "s"])
def test_a_text_of_the_greatest_length_is_read(text: str) -> None:
    assert duration_seconds(text) is not None
    assert duration_seconds(text + " ") is None
    assert wait_seconds(text) == duration_seconds(text)
    assert wait_seconds(text + " ") is None
    date = "Sun, 01 Mar 2026 00:00:05 GMT".ljust(LONGEST_TEXT)
    assert wait_seconds(date, NOW) == 5.0
    assert wait_seconds(date + " ", NOW) is None


def test_a_moment_is_compared_with_the_present_unless_another_is_given() -> None:
    moment = datetime.now(UTC) + timedelta(hours=2)
    for text in (moment.isoformat(), str(moment.timestamp())):
        for wait in (wait_seconds(text), retry_after_seconds({"Retry-After": text})):
            assert wait is not None
            assert 7_000 < wait <= 7_200
        assert wait_seconds(text, moment - timedelta(seconds=9)) == pytest.approx(9, abs=1e-3)
