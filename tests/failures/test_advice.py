"""Error messages: a title and advice for every kind of failure."""

from __future__ import annotations

import pytest

from swink_core import Failure, Model, ProviderInfo, StreamErrorKind
from swink_core.failures.advice import advise, duration_text

MODEL = Model("acme", "large")
INFO = ProviderInfo(
    "acme",
    "Acme Inc.",
    api_key_env=("ACME_API_KEY", "ACME_KEY"),
    portal="https://acme.example/keys",
)


@pytest.mark.parametrize("kind", StreamErrorKind)
@pytest.mark.parametrize("info", [None, INFO])
def test_every_kind_has_a_title_and_something_to_do_with_every_gap_filled(
    kind: StreamErrorKind, info: ProviderInfo | None
) -> None:
    title, resolution = advise(kind, Failure("request"), MODEL, info)
    for text in (title, resolution):
        assert text
        assert "{" not in text
        assert "None" not in text
    assert resolution.endswith(".")


def found(kind: StreamErrorKind, code: str, status: int | None = None) -> Failure:
    """Return a failure that the core found itself."""
    return Failure("connect", status, kind=kind, code=code)


# (kind, failure, parts of the advice)
SAID = [
    (StreamErrorKind.AUTH, Failure("request", 401), ["Acme Inc.", "ACME_API_KEY or ACME_KEY",
     "https://acme.example/keys", "acme/large"]),
    (StreamErrorKind.AUTH, found(StreamErrorKind.AUTH, "no_credentials"),
     ["No credentials for Acme", "Set ACME_API_KEY or ACME_KEY", "api_key="]),
    (StreamErrorKind.NETWORK, found(StreamErrorKind.NETWORK, "connection_refused"),
     ["Cannot connect", "http://localhost:1"]),
    (StreamErrorKind.NETWORK, found(StreamErrorKind.NETWORK, "dns"), ["does not resolve"]),
    (StreamErrorKind.NETWORK, found(StreamErrorKind.NETWORK, "tls"), ["certificate"]),
    (StreamErrorKind.PROTOCOL, found(StreamErrorKind.PROTOCOL, "redirect", 307), ["not followed"]),
    (StreamErrorKind.RESOURCE, found(StreamErrorKind.RESOURCE, "no_descriptors"), ["ulimit -n"]),
    (StreamErrorKind.MODEL_NOT_FOUND, Failure("request", 404), ["swink models acme"]),
    (StreamErrorKind.MODEL_NOT_FOUND, Failure("request", 404, message="no such page"),
     ["the address (http://localhost:1)"]),
    (StreamErrorKind.NETWORK, Failure("streaming", code="cut"),
     ["Check the network connection and the address (http://localhost:1)."]),
    (StreamErrorKind.THROTTLED, Failure("request", 429), ["Wait a moment"]),
    (StreamErrorKind.INVALID_REQUEST, Failure("request", code="no_region",
     kind=StreamErrorKind.INVALID_REQUEST), ["No request was sent", "Correct the value"]),
    (StreamErrorKind.INVALID_REQUEST, Failure("connect",
     kind=StreamErrorKind.INVALID_REQUEST), ["No request was sent", "Correct the value"]),
    (StreamErrorKind.INVALID_REQUEST, Failure("first_event",
     kind=StreamErrorKind.INVALID_REQUEST), ["Acme Inc. does not accept the request"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "failure", "parts"), SAID)
def test_advice_names_what_is_known(
    kind: StreamErrorKind, failure: Failure, parts: list[str]
) -> None:
    text = "\n".join(advise(kind, failure, MODEL, INFO, "http://localhost:1"))
    for part in parts:
        assert part in text


def test_a_providers_own_code_is_not_taken_for_one_of_the_cores() -> None:
    for failure in (Failure("request", 400, code="dns"), Failure("streaming", code="dns")):
        title, _ = advise(StreamErrorKind.INVALID_REQUEST, failure, MODEL)
        assert title == "acme does not accept the request"


def test_a_404_that_names_the_model_is_no_question_of_the_address() -> None:
    failure = Failure("request", 404, message="the model large does not exist")
    _, resolution = advise(
        StreamErrorKind.MODEL_NOT_FOUND, failure, MODEL, INFO, "http://localhost:1"
    )
    assert "http://localhost:1" not in resolution


def test_who_is_asked_without_an_address_is_not_looked_for_in_the_network() -> None:
    _, resolution = advise(StreamErrorKind.NETWORK, Failure("streaming", code="cut"), MODEL, INFO)
    assert resolution == (
        "Check the process on this machine and its network connection. "
        "If the service is down, try again later."
    )


def test_a_known_wait_is_stated() -> None:
    _, resolution = advise(StreamErrorKind.THROTTLED, Failure("request"), MODEL, None, None, 90.0)
    assert resolution.startswith("Wait 1 min 30 s and try again")


# (seconds, words)
WAITS = [
    (0.0, "a moment"),
    (0.4, "1 s"),
    (59.0, "59 s"),
    (59.5, "1 min"),
    (61.0, "1 min 1 s"),
    (3600.0, "1 h"),
    (7500.0, "2 h 5 min"),
    (86_400.0, "1 d"),
    (90_061.0, "1 d 1 h"),
]


@pytest.mark.parametrize(("seconds", "words"), WAITS)
def test_a_wait_is_formatted_in_its_largest_units(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words


def test_advice_of_a_plugin_precedes_general_advice() -> None:
    failure = Failure("connect", title="No paper", resolution="Fill the {tray}.")
    assert advise(StreamErrorKind.INTERNAL, failure, MODEL, INFO) == (
        "No paper",
        "Fill the {tray}.",
    )
    half = Failure("connect", resolution="Fill the tray.")
    title, resolution = advise(StreamErrorKind.INTERNAL, half, MODEL, INFO)
    assert (title, resolution) == ("A plugin failed", "Fill the tray.")
