"""The secret parts of requests and addresses, and the parts that are shown."""

from __future__ import annotations

import html
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from swink_core import StreamOptions
from swink_core.failures.redaction import (
    address_fault,
    basic_credentials,
    credentials_in,
    excerpt,
    public_url,
    redact,
)
from swink_testing.freeze import FREEZE, HOSTILE_SIZE, cpu_seconds

CANARY = "sk-canary-1"

# (name, headers, what a server may say of them)
ECHOED: list[tuple[str, dict[str, str], list[str]]] = [
    ("a_bearer", {"Authorization": f"Bearer {CANARY}"}, [CANARY, f"Bearer {CANARY}"]),
    ("a_key", {"x-api-key": CANARY}, [CANARY]),
    ("a_cookie_in_the_middle", {"Cookie": f"a=1; session={CANARY}; b=2"}, [CANARY]),
    ("cookies_without_blanks", {"cookie": f"a=1;session={CANARY};b=2"}, [CANARY]),
    ("a_quoted_cookie", {"cookie": f'session="{CANARY}"'}, [CANARY]),
    ("parameters", {"Authorization": f'Digest user="me", response="{CANARY}"'}, [CANARY]),
    ("a_secret", {"X-Client-Secret": CANARY}, [CANARY]),
    ("a_password", {"X-Password": CANARY}, [CANARY]),
    ("a_token", {"X-Session-Token": CANARY}, [CANARY]),
    ("two_keys", {"X-Keys": f"{CANARY}, other-key"}, [CANARY]),
    ("a_credential_without_a_scheme", {"Authorization": CANARY}, [CANARY]),
    ("padding", {"Authorization": f"Basic {CANARY}=="}, [f"{CANARY}=="]),
]


@pytest.mark.parametrize(
    ("headers", "texts"), [case[1:] for case in ECHOED], ids=[case[0] for case in ECHOED]
)
def test_every_word_of_a_credential_header_is_a_secret(
    headers: dict[str, str], texts: list[str]
) -> None:
    for text in texts:
        assert "canary" not in redact(f"no: {text}!", credentials_in(headers))


def test_a_quoted_secret_is_one_without_its_quotes_alone() -> None:
    found = credentials_in({"Cookie": 'session="_key_"'})
    assert found == {'session="_key_"', "_key_"}


def test_the_name_of_a_scheme_and_other_headers_are_no_secrets() -> None:
    headers = {"Authorization": "Bearer x", "Content-Type": "text/event-stream", "X-Team": "blue"}
    assert credentials_in(headers) == {"x"}


SPECIAL = "sk+can/ary==\"q&x-0123'<ü>"

CODINGS: dict[str, Callable[[str], str]] = {
    "URL": lambda key: quote(key, safe=""),
    "URL path": quote,
    "form": quote_plus,
    "JSON": lambda key: json.dumps(key)[1:-1],
    "JSON in Unicode": lambda key: json.dumps(key, ensure_ascii=False)[1:-1],
    "HTML": html.escape,
    "HTML with numbers": lambda key: (
        html.escape(key).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")
    ),
    "Base64": lambda key: b64encode(key.encode()).decode(),
    "Base64 for URLs": lambda key: urlsafe_b64encode(key.encode()).decode(),
    "hexadecimal": lambda key: key.encode().hex(),
    "capital hexadecimal": lambda key: key.encode().hex().upper(),
}


@pytest.mark.parametrize("encode", CODINGS.values(), ids=CODINGS)
def test_a_secret_is_hidden_in_each_coding(encode: Callable[[str], str]) -> None:
    text = encode(SPECIAL)
    assert redact(f"no: {text}!", {SPECIAL}).rstrip("=!") == "no: [hidden]"


def test_credential_parameters_of_an_address_are_secrets_and_others_are_not() -> None:
    url = "https://a.example/v1?token=canary-1&api-version=2024-05-01&x-sig-key=canary%2B2"
    assert credentials_in({}, url) == {"canary-1", "canary+2"}
    assert credentials_in({}, "https://a.example/v1?X-Signature=canary-3") == {"canary-3"}
    assert credentials_in({}, "https://[broken?token=canary-1") == set()


@pytest.mark.parametrize(
    "text", ["me:p%40ss-canary", "p%40ss-canary", "p@ss-canary", "bWU6cEBzcy1jYW5hcnk="]
)
def test_an_address_gives_away_its_user_information_in_no_form(text: str) -> None:
    secrets = credentials_in({}, "https://me:p%40ss-canary@a.example/v1")
    assert redact(f"no: {text}!", secrets) == "no: [hidden]!"


# (address, address without user information, credentials)
ADDRESSES = [
    ("https://a.example/v1", "https://a.example/v1", ""),
    ("https://me:pass@a.example:8/v1?q=@", "https://a.example:8/v1?q=@", "Basic bWU6cGFzcw=="),
    ("https://me@a.example/", "https://a.example/", "Basic bWU6"),
    ("https://me@a.example/me@b", "https://a.example/me@b", "Basic bWU6"),
    ("https://me:p%40ss@a.example/", "https://a.example/", "Basic bWU6cEBzcw=="),
    ("http://[broken@", "http://[broken@", ""),
    ("https://a.example/@cf/meta", "https://a.example/@cf/meta", ""),
]


@pytest.mark.parametrize(("url", "bare", "credentials"), ADDRESSES)
def test_user_information_becomes_basic_credentials(url: str, bare: str, credentials: str) -> None:
    assert basic_credentials(url) == (bare, credentials)


# What people write who forget to escape a password, or the scheme.
CARELESS = [
    "https://me:pa/ss-canary@a.example/v1",
    "https://me:pa#ss-canary@a.example/v1",
    "https://me:pa?ss-canary@a.example/v1",
    "me:canary@a.example/v1",
    "canary",
]


@pytest.mark.parametrize("url", CARELESS)
def test_an_address_that_is_none_is_not_shown(url: str) -> None:
    assert "canary" not in public_url(url)
    assert "me:pa" not in public_url(url)


@pytest.mark.parametrize(
    "url", ["https://me:canary@a.example/v1", "https://a.example/v1?key=canary"]
)
def test_the_options_of_a_call_do_not_show_what_is_secret_in_its_address(url: str) -> None:
    assert "canary" not in repr(StreamOptions(base_url=url))
    assert "https://a.example/v1" in repr(StreamOptions(base_url="https://a.example/v1"))


FAULTS = [
    ("https://[::1", "its brackets do not match"),
    ("ftp://acme.test", "it does not begin with https://"),
    ("acme.test/v1", "it does not begin with https://"),
    ("http://acme.test:x", "its port is not a number"),
    ("HTTPS://acme.test:x", "its port is not a number"),
    ("http://", "it names no host"),
    ("https://:80", "it names no host"),
]


@pytest.mark.parametrize(("url", "fault"), FAULTS)
def test_the_problem_of_an_address_is_reported_without_the_address(url: str, fault: str) -> None:
    assert address_fault(url) == fault


def test_an_address_that_is_refused_is_not_quoted() -> None:
    with pytest.raises(ValueError, match="begins with http") as caught:
        StreamOptions(base_url="me:canary@a.example/v1")
    assert "canary" not in str(caught.value)


def test_neither_redaction_nor_an_excerpt_holds_the_thread() -> None:
    secrets = {f"secret-{number}" for number in range(100)}
    for text in ("secret-" * (HOSTILE_SIZE // 7), "s" * HOSTILE_SIZE, "\ud800" * HOSTILE_SIZE):
        assert cpu_seconds(lambda text=text: redact(text, secrets)) < FREEZE  # type: ignore[misc]
    assert cpu_seconds(lambda: excerpt(b"\xff" * HOSTILE_SIZE, secrets, 200)) < FREEZE


def test_an_excerpt_is_taken_from_a_bounded_part_of_a_body() -> None:
    body = b"x" * 65_536 + b"y" * 10
    assert excerpt(body, (), 100_000) == repr("x" * 65_536)
    assert excerpt(body, (), 5) == "'xxxxx'"
    assert excerpt(b" a\xff ", (), 5) == "'a\ufffd'"
    assert excerpt(b"a\0b", (), 5) == "3 bytes that are not text"
    assert excerpt(b"the canary-1 sings", {"canary-1"}, 8) == "'the [hid'"
