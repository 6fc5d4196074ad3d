"""The classification of failures, and the retry delay that a provider requests."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from swink_core import Classification, Failure
from swink_core import StreamErrorKind as Kind
from swink_core.failures.classification import classify_default
from swink_core.failures.waits import duration_seconds, retry_after_seconds
from swink_core.providers import by_tables, wait_seconds

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)

# (text, seconds)
DURATIONS = [
    ("46s", 46.0),
    ("6m0s", 360.0),
    ("2ms", 0.002),
    ("1h30m", 5400.0),
    ("1d", 86400.0),
    ("0.5s", 0.5),
    (" 7 s ", 7.0),
    ("1m 30s", 90.0),
    ("", None),
    ("46", None),
    ("soon", None),
    ("5s or so", None),
    ("-5s", None),
]


@pytest.mark.parametrize(("text", "seconds"), DURATIONS)
def test_durations_are_read(text: str, seconds: float | None) -> None:
    assert duration_seconds(text) == seconds


# (text, seconds)
TEXTS = [
    ("6m0s", 360.0),
    ("46", 46.0),
    ("Fri, 20 Nov 2026 12:00:10 GMT", 10.0),
    ("2026-11-20T12:00:10Z", 10.0),
    (str(int(NOW.timestamp()) + 10), 10.0),
    ("2026-11-20T11:00:00Z", 0.0),
    ("soon", None),
]


@pytest.mark.parametrize(("text", "seconds"), TEXTS)
def test_a_wait_is_read_from_one_text(text: str, seconds: float | None) -> None:
    assert wait_seconds(text, NOW) == seconds


# (name, headers, seconds)
WAITS: list[tuple[str, dict[str, str], float | None]] = [
    ("not_said", {"Date": "today"}, None),
    ("seconds", {"Retry-After": "30"}, 30.0),
    ("seconds_with_a_fraction", {"retry-after": "1.5"}, 1.5),
    ("no_wait", {"Retry-After": "0"}, 0.0),
    ("milliseconds", {"Retry-After-Ms": "250"}, 0.25),
    ("milliseconds_outrank_seconds", {"Retry-After": "30", "retry-after-ms": "250"}, 0.25),
    ("a_date", {"Retry-After": "Fri, 20 Nov 2026 12:00:45 GMT"}, 45.0),
    ("a_date_in_the_past", {"Retry-After": "Fri, 20 Nov 2026 11:59:00 GMT"}, 0.0),
    ("an_rfc_3339_time", {"Retry-After": "2026-11-20T12:01:00Z"}, 60.0),
    ("a_time_without_a_zone", {"Retry-After": "2026-11-20T12:01:00"}, 60.0),
    ("an_epoch_time", {"Retry-After": str(int(NOW.timestamp()) + 20)}, 20.0),
    ("a_duration", {"Retry-After": "1m30s"}, 90.0),
    ("nonsense", {"Retry-After": "soon"}, None),
    ("a_negative_number", {"Retry-After": "-5"}, None),
    ("infinity", {"Retry-After": "inf"}, None),
    ("not_a_number", {"Retry-After": "nan"}, None),
    (
        "an_exhausted_allowance",
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"},
        360.0,
    ),
    (
        "an_allowance_that_is_left",
        {"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "6m0s"},
        None,
    ),
    (
        "the_longest_of_two_exhausted_allowances",
        {
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "1s",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-reset-tokens": "20s",
        },
        20.0,
    ),
    (
        "an_allowance_that_resets_at_a_time",
        {
            "acme-ratelimit-tokens-remaining": "0",
            "acme-ratelimit-tokens-reset": "2026-11-20T12:00:10Z",
        },
        10.0,
    ),
    (
        "an_allowance_in_epoch_milliseconds",
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{int(NOW.timestamp() + 5)}000"},
        5.0,
    ),
    (
        "retry_after_outranks_an_allowance",
        {
            "Retry-After": "3",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "6m0s",
        },
        3.0,
    ),
]


@pytest.mark.parametrize(
    ("headers", "seconds"), [case[1:] for case in WAITS], ids=[case[0] for case in WAITS]
)
def test_how_long_to_wait_is_read_from_every_documented_form(
    headers: dict[str, str], seconds: float | None
) -> None:
    wait = retry_after_seconds(headers, NOW)
    assert wait == (seconds if seconds is None else pytest.approx(seconds))


# (status, kind)
STATUSES = [
    (301, Kind.PROTOCOL),
    (307, Kind.PROTOCOL),
    (400, Kind.INVALID_REQUEST),
    (401, Kind.AUTH),
    (402, Kind.QUOTA_EXHAUSTED),
    (403, Kind.AUTH),
    (404, Kind.MODEL_NOT_FOUND),
    (405, Kind.INVALID_REQUEST),
    (299, Kind.UNKNOWN),
    (300, Kind.PROTOCOL),
    (399, Kind.PROTOCOL),
    (408, Kind.NETWORK),
    (410, Kind.MODEL_NOT_FOUND),
    (413, Kind.INVALID_REQUEST),
    (422, Kind.INVALID_REQUEST),
    (429, Kind.THROTTLED),
    (500, Kind.NETWORK),
    (502, Kind.NETWORK),
    (503, Kind.OVERLOADED),
    (504, Kind.NETWORK),
    (529, Kind.OVERLOADED),
    (599, Kind.NETWORK),
    (418, Kind.UNKNOWN),
    (499, Kind.UNKNOWN),
    (200, Kind.UNKNOWN),
    (None, Kind.UNKNOWN),
]


@pytest.mark.parametrize(("status", "kind"), STATUSES)
def test_a_status_means_what_http_says_it_means(status: int | None, kind: Kind) -> None:
    assert classify_default(Failure("request", status)) == Classification(kind)
    given = Failure("request", status, code="E17", type="bad")
    assert classify_default(given) == Classification(kind, None, "E17")
    assert classify_default(Failure("request", status, type="bad")).code == "bad"


def test_findings_of_the_core_outrank_the_status() -> None:
    failure = Failure("request", 200, kind=Kind.PROTOCOL, code="content_type", retry_after=2.0)
    assert classify_default(failure) == Classification(Kind.PROTOCOL, 2.0, "content_type")
    assert classify_default(Failure("request", kind=Kind.TIMEOUT)).code is None


CODES = {"overloaded_error": Kind.OVERLOADED, "insufficient_quota": Kind.QUOTA_EXHAUSTED}
WORDINGS = [
    ("maximum context length", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("filtered", Kind.CONTENT_FILTERED),
]

# (name, failure, what it means by the tables)
TABLES: list[tuple[str, Failure, Classification | None]] = [
    ("a_code", Failure("request", 429, code="insufficient_quota"),
     Classification(Kind.QUOTA_EXHAUSTED, None, "insufficient_quota")),
    ("a_type", Failure("request", type="overloaded_error"),
     Classification(Kind.OVERLOADED, None, "overloaded_error")),
    ("a_code_outranks_a_type",
     Failure("request", code="insufficient_quota", type="overloaded_error"),
     Classification(Kind.QUOTA_EXHAUSTED, None, "insufficient_quota")),
    ("a_code_outranks_a_wording", Failure("request", code="overloaded_error", message="filtered"),
     Classification(Kind.OVERLOADED, None, "overloaded_error")),
    ("a_wording", Failure("request", 400, message="The Maximum Context Length is 10"),
     Classification(Kind.CONTEXT_WINDOW_EXCEEDED, None, None)),
    ("a_wording_beside_a_code_that_says_less",
     Failure("request", 400, code="bad_request", message="The maximum context length is 10"),
     Classification(Kind.CONTEXT_WINDOW_EXCEEDED, None, "bad_request")),
    ("a_wording_outranks_a_status", Failure("request", 418, message="filtered", type="teapot"),
     Classification(Kind.CONTENT_FILTERED, None, "teapot")),
    ("a_status_of_the_providers_own", Failure("request", 418),
     Classification(Kind.QUOTA_EXHAUSTED, None, None)),
    ("another_status", Failure("request", 429), None),
    ("an_unknown_code", Failure("request", code="new", message="so"), None),
    ("with_a_wait", Failure("request", headers={"Retry-After": "5"}, code="overloaded_error"),
     Classification(Kind.OVERLOADED, 5.0, "overloaded_error")),
    ("with_a_wait_in_the_error_itself",
     Failure("streaming", headers={"Retry-After": "5"}, code="overloaded_error", retry_after=2.0),
     Classification(Kind.OVERLOADED, 2.0, "overloaded_error")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("failure", "meaning"), [case[1:] for case in TABLES], ids=[case[0] for case in TABLES]
)
def test_a_providers_tables_go_from_the_most_specific_to_the_least(
    failure: Failure, meaning: Classification | None
) -> None:
    assert by_tables(failure, CODES, WORDINGS, {418: Kind.QUOTA_EXHAUSTED}) == meaning
