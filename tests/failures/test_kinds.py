"""The effect of each kind of failure on a call: retries, fallback, circuit breaker."""

from __future__ import annotations

import pytest

from swink_core import StreamErrorKind as Kind
from swink_core.failures.kinds import CODES, KINDS, NOT_SENT, most_retries

# (retries, whether the next model is tried, what it says of the target's health, HTTP statuses)
MEANS: dict[Kind, tuple[int, bool, bool | None, set[int]]] = {
    Kind.THROTTLED: (5, True, False, {429}),
    Kind.OVERLOADED: (5, True, False, {503, 529}),
    Kind.NETWORK: (3, True, False, {408}),
    Kind.EMPTY_RESPONSE: (1, True, None, set()),
    Kind.TIMEOUT: (3, True, False, set()),
    Kind.PROTOCOL: (1, True, None, set()),
    Kind.AUTH: (0, False, None, {401, 403}),
    Kind.QUOTA_EXHAUSTED: (0, True, False, {402}),
    Kind.CONTEXT_WINDOW_EXCEEDED: (0, False, True, set()),
    Kind.CONTENT_FILTERED: (0, False, True, set()),
    Kind.MODEL_NOT_FOUND: (0, True, None, {404, 410}),
    Kind.INVALID_REQUEST: (0, False, True, {400, 405, 406, 413, 415, 422}),
    Kind.UNSUPPORTED: (0, True, None, set()),
    Kind.OUTPUT_TOO_LARGE: (0, False, None, set()),
    Kind.RESOURCE: (2, True, None, set()),
    Kind.CANCELLED: (0, False, None, set()),
    Kind.INTERNAL: (0, False, None, set()),
    Kind.UNKNOWN: (0, False, None, set()),
}


@pytest.mark.parametrize("kind", list(Kind), ids=str)
def test_a_kind_means_what_the_table_says(kind: Kind) -> None:
    row = KINDS[kind]
    assert (row.retries, row.falls_back, row.healthy, {*row.statuses}) == MEANS[kind]


# (what a failure affects, the status with which a gateway reports it)
REPORTED: dict[Kind, tuple[str, int]] = {
    Kind.THROTTLED: ("account", 429),
    Kind.OVERLOADED: ("service", 503),
    Kind.NETWORK: ("service", 502),
    Kind.EMPTY_RESPONSE: ("answer", 502),
    Kind.TIMEOUT: ("service", 504),
    Kind.PROTOCOL: ("answer", 502),
    Kind.AUTH: ("account", 502),
    Kind.QUOTA_EXHAUSTED: ("account", 429),
    Kind.CONTEXT_WINDOW_EXCEEDED: ("request", 400),
    Kind.CONTENT_FILTERED: ("request", 400),
    Kind.MODEL_NOT_FOUND: ("account", 404),
    Kind.INVALID_REQUEST: ("request", 400),
    Kind.UNSUPPORTED: ("request", 400),
    Kind.OUTPUT_TOO_LARGE: ("request", 502),
    Kind.RESOURCE: ("machine", 503),
    Kind.CANCELLED: ("caller", 503),
    Kind.INTERNAL: ("plugin", 500),
    Kind.UNKNOWN: ("unknown", 502),
}


def test_a_kind_is_reported_with_its_scope_and_status() -> None:
    assert {kind: (row.scope, row.reply) for kind, row in KINDS.items()} == REPORTED


# by the code of a failure that the core names itself; others have no bound of their own
AT_MOST: dict[str, int] = {
    "limit": 0,
    "connection_refused": 1,
    "dns": 1,
    "tls": 0,
    "first_event": 1,
    "total": 0,
    "total_of_model": 0,
    "circuit_open": 0,
    "redirect": 0,
    "bad_event": 0,
    "grammar": 0,
}


def test_attempts_after_the_cores_own_failures_are_bounded_as_the_table_says() -> None:
    assert {code: most_retries(code) for code in CODES} == {c: AT_MOST.get(c) for c in CODES}
    assert set(AT_MOST) <= set(CODES)
    assert most_retries("rate_limit_exceeded") is None  # a provider's own word
    assert most_retries(None) is None


UNSENT = {
    "stale", "connection_refused", "dns", "tls", "connect", "circuit_open", "no_credentials",
    "no_variable", "retired", "url", "no_base_url", "proxy", "header", "download",
    "no_descriptors", "token", "body", "limit", "gate",
}  # fmt: skip
"""Codes of failures after which the provider cannot have received a request."""


def test_a_code_names_its_meaning_its_kind_and_whether_the_request_was_sent() -> None:
    assert {code for code, row in CODES.items() if row.unsent} == UNSENT
    for row in CODES.values():
        assert isinstance(row.kind, Kind)
        assert " " in row.meaning


TOLD = [
    *((kind, row.title, row.resolution) for kind, row in KINDS.items()),
    *((code, row.title, row.resolution) for code, row in CODES.items() if row.title),
    ("not asked", *NOT_SENT),
]


@pytest.mark.parametrize(("title", "resolution"), [r[1:] for r in TOLD], ids=[r[0] for r in TOLD])
def test_each_failure_has_a_message_and_advice(title: str, resolution: str) -> None:
    assert title
    assert title[-1] not in ".!"
    assert resolution.endswith(".")
