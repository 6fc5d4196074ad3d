"""The exception tree: what people catch, what they read, what is hidden from them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import copy, deepcopy

import pytest

import swink_core as swink
from swink_core import Failure, StreamError, StreamErrorKind, SwinkError
from swink_core.failures.redaction import excerpt, public_url, redact
from swink_core.providers import MalformedFrame


@pytest.mark.parametrize("kind", StreamErrorKind)
def test_each_kind_has_an_exception_of_its_own(kind: StreamErrorKind) -> None:
    cls = StreamError.for_kind(kind)
    assert cls is not StreamError
    assert cls.kind is kind
    assert issubclass(cls, StreamError)
    assert cls.__name__ in swink.__all__


def test_no_two_kinds_share_an_exception() -> None:
    assert len({StreamError.for_kind(kind) for kind in StreamErrorKind}) == len(StreamErrorKind)


def test_an_unstated_kind_is_an_unknown_failure() -> None:
    assert StreamError.for_kind(None) is swink.UnknownFailure


TREE = {
    swink.UsageError: (SwinkError, ValueError),
    swink.UnknownProvider: (swink.UsageError,),
    swink.InvalidModel: (swink.UsageError,),
    swink.InvalidOption: (swink.UsageError,),
    swink.InvalidContext: (swink.UsageError,),
    swink.MediaError: (swink.UsageError,),
    swink.PluginError: (SwinkError,),
    swink.ProviderFailure: (SwinkError,),
    swink.StreamError: (SwinkError,),
    MalformedFrame: (ValueError,),
    swink.CodecError: (SwinkError, ValueError),
}


@pytest.mark.parametrize("cls", TREE, ids=lambda cls: cls.__name__)
def test_exceptions_stand_where_the_tree_shows_them(cls: type[Exception]) -> None:
    assert cls.__bases__ == TREE[cls]


def test_a_message_is_followed_by_advice() -> None:
    assert str(SwinkError("It broke.", resolution="Mend it.")) == "It broke.\nMend it."
    assert str(SwinkError("It broke.")) == "It broke."


def test_a_title_is_that_of_the_class_unless_one_is_given() -> None:
    assert SwinkError("It broke.").title == "Something went wrong"
    assert swink.PluginError("It broke.").title == "Broken plugin"
    assert swink.PluginError("It broke.", title="Old plugin").title == "Old plugin"
    raised = swink.ProviderFailure(Failure("request", title="Busy", resolution="Wait."))
    assert (raised.title, raised.resolution) == ("Busy", "Wait.")
    assert raised.message == "the provider failed"


def test_all_facts_of_a_failed_call_are_named_and_none_is_needed() -> None:
    with pytest.raises(TypeError, match="positional"):
        swink.NetworkError("cut", "The call failed")  # type: ignore[misc]  # what is tested
    facts = {name: value for name, value in vars(swink.NetworkError("cut")).items() if value}
    kind = StreamErrorKind.NETWORK
    assert facts == {"message": "cut", "title": "The call failed", "kind": kind, "attempts": 1}


def test_a_failed_call_names_title_attempts_time_and_request() -> None:
    error = swink.ModelThrottled(
        "slow down",
        title="Rate limited by Acme",
        resolution="Wait.",
        attempts=3,
        elapsed=4.25,
        request_id="q1",
    )
    assert str(error) == "Rate limited by Acme: slow down (3 attempts in 4.2 s) [request q1]\nWait."
    assert str(swink.NetworkError("cut")) == "The call failed: cut"
    assert str(swink.NetworkError("cut", elapsed=1.0)) == "The call failed: cut"
    again = swink.NetworkError("cut", attempts=2, resolution="Try.")
    assert str(again) == "The call failed: cut (2 attempts)\nTry."


def test_exceptions_survive_pickling_with_their_message() -> None:
    error = pickle.loads(pickle.dumps(SwinkError("It broke.")))
    assert (type(error), error.message) == (SwinkError, "It broke.")


def test_a_failed_call_survives_pickling_with_all_its_facts() -> None:
    made = swink.NetworkError("cut", provider="acme", attempts=3, retryable=True)
    error = pickle.loads(pickle.dumps(made))
    assert repr(error) == repr(made) == "NetworkError('cut')"
    assert (error.kind, error.provider, error.attempts) == (StreamErrorKind.NETWORK, "acme", 3)
    assert error.retryable
    assert error.args == made.args == ("cut",)


@pytest.mark.parametrize("copied", [copy, deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_failure_of_a_provider_survives_copying_and_pickling(
    copied: Callable[[swink.ProviderFailure], swink.ProviderFailure],
) -> None:
    failure = Failure("request", 429, message="slow down", title="Busy", resolution="Wait.")
    made = swink.ProviderFailure(failure)
    made.add_note("in the second request")
    error = copied(made)
    assert type(error) is swink.ProviderFailure
    assert error.failure == failure
    assert (str(error), error.title) == ("slow down\nWait.", "Busy")
    assert error.__notes__ == ["in the second request"]


def test_a_message_that_is_given_by_its_name_survives_pickling_too() -> None:
    made = swink.NetworkError(message="cut", code="connection")
    error = pickle.loads(pickle.dumps(made))
    assert (error.message, error.code, error.args) == ("cut", "connection", ("cut",))


def test_a_fact_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="retriable"):
        swink.NetworkError("cut", retriable=True)  # type: ignore[call-arg]  # what is tested


# (name, text, secrets, text without them)
REDACTED = [
    ("one", "key sk-123456 is bad", {"sk-123456"}, "key [hidden] is bad"),
    ("everywhere", "sk-123456/sk-123456", {"sk-123456"}, "[hidden]/[hidden]"),
    ("several", "a sk-123456 b sk-abcdef", {"sk-123456", "sk-abcdef"}, "a [hidden] b [hidden]"),
    ("none", "nothing here", {"sk-123456"}, "nothing here"),
    ("too_short_to_be_one", "a key", {"key", ""}, "a key"),
    ("as_short_as_one_may_be", "12345 123456", {"12345", "123456"}, "12345 [hidden]"),
    ("a_lone_surrogate", "key sk-\ud800-1 is bad", {"sk-\ud800-1"}, "key [hidden] is bad"),
    ("base64_for_urls", "key YWJjZGU_, or YWJjZGU/", {"abcde?"}, "key [hidden], or [hidden]"),
    ("json_of_a_backslash", '"abcdef\\\\"', {"abcdef\\"}, '"[hidden]"'),
    ("one_within_another", "sk-123456-long", {"sk-123456", "sk-123456-long"}, "[hidden]"),
]


@pytest.mark.parametrize(
    ("text", "secrets", "left"), [case[1:] for case in REDACTED], ids=[c[0] for c in REDACTED]
)
def test_secrets_are_hidden_in_texts_for_people(text: str, secrets: set[str], left: str) -> None:
    assert redact(text, secrets) == left


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b' {"type": "text"}\n', """'{"type": "text"}'"""),
        (b"\xc3\xa9\xff", "'é\ufffd'"),
        (b"\x00\x00\x00\x1c\x00\x00\x00\x0c\xd0\xb1", "10 bytes that are not text"),
    ],
    ids=["json", "damaged_text", "binary"],
)
def test_an_excerpt_quotes_text_and_measures_what_is_none(data: bytes, shown: str) -> None:
    assert excerpt(data, (), 80) == shown


def test_a_secret_at_the_edge_of_an_excerpt_is_hidden_whole() -> None:
    body = b"x" * 75 + b"sk-123456" + b"y" * 100
    for size in range(70, 95):
        assert "sk-" not in excerpt(body, {"sk-123456"}, size)


# (address, address without what may be secret)
URLS = [
    ("https://a.example/v1/chat", "https://a.example/v1/chat"),
    ("https://a.example/v1?key=sk-1&x=2#f", "https://a.example/v1"),
    ("https://me:sk-1@a.example:8080/v1", "https://a.example:8080/v1"),
    ("http://[broken", "[hidden]"),
]


@pytest.mark.parametrize(("url", "public"), URLS)
def test_an_address_is_shown_without_credentials(url: str, public: str) -> None:
    assert public_url(url) == public


def test_a_failure_shows_neither_headers_nor_body_nor_exception() -> None:
    failure = Failure(
        "request",
        401,
        headers={"X-Key": "sk-canary"},
        body=b"sk-canary",
        exception=ValueError("sk-canary"),
    )
    assert "canary" not in repr(failure)
