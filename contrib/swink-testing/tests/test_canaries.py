"""No credential, address or header reaches a provider or an address that it was not given for.

Asked of every provider that is installed: of what the environment holds, a client was given, a
call was given, in chains, by redirects and by proxies.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from swink_core import (
    Client,
    Error,
    Host,
    Model,
    RetryPolicy,
)
from swink_core.providers import AiohttpClient, Catalog, HTTPRequest
from swink_test_helpers.canary_credentials import SONG, environment_of, given_to, sung
from swink_testing.conformance import Subject
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

HOST = Host(environ={})
EVERY = [Subject.find(name) for name in HOST.provider_names()]
HTTP = [subject for subject in EVERY if subject.speaks_http]
NAMES = [subject.name for subject in HTTP]
ASKED = pytest.mark.parametrize("subject", HTTP, ids=lambda subject: subject.name)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)


@pytest.fixture(autouse=True)
def _no_environment() -> Iterator[None]:
    """No variable of the user's has a say."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with patch.dict(os.environ, kept, clear=True):
        yield


async def _asked(
    chain: Any, answers: list[MemoryResponse], providers: Any = None, **options: Any
) -> list[HTTPRequest]:
    """Return the requests that a call makes."""
    http = MemoryHTTPClient(*answers)
    client = Client(host=HOST, http=http, retry=RetryPolicy.none(), providers=providers)
    async with client.stream(chain, "Hello", **options) as stream:
        async for _ in stream:
            pass
    return http.requests


def _gone() -> MemoryResponse:
    """After this answer a chain goes on."""
    return MemoryResponse.of_json({"error": {"message": "no such model", "code": 404}}, 404)


def _other_of(subject: Subject) -> list[Subject]:
    """The provider before it, and one that shares its package, where there is one."""
    before = HTTP[HTTP.index(subject) - 1]
    siblings = [s for s in HTTP if s.entry.package == subject.entry.package and s != subject]
    return [before, *siblings[:1]]


@ASKED
async def test_what_the_environment_holds_goes_to_its_own_provider(subject: Subject) -> None:
    with patch.dict(os.environ, environment_of(Catalog(HOST, {}), NAMES)):
        requests = await _asked(subject.model, [_gone()] * 2)
    own, others = sung(requests, subject.name)
    assert others == set()
    info = subject.info
    assert own or info is None or not (info.api_key_env or info.base_url_env)
    assert requests


@ASKED
async def test_what_a_client_was_given_for_a_provider_goes_to_that_one(subject: Subject) -> None:
    providers = {name: given_to(name) for name in NAMES}
    requests = await _asked(subject.model, [_gone()] * 2, providers)
    own, others = sung(requests, subject.name)
    assert others == set()
    assert {SONG.fullmatch(song)[1] for song in own} >= {"address", "header"}  # type: ignore[index]  # it has matched


@ASKED
async def test_what_a_call_was_given_goes_to_its_first_target(subject: Subject) -> None:
    for first in _other_of(subject):
        given = given_to(first.name)
        own = given_to(subject.name)
        chain = [first.model, (subject.model, own)]
        requests = await _asked(chain, [_gone(), _gone(), _gone(), _gone()], **given)
        to_first = [r for r in requests if f"address-of-{first.name}-end" in r.url]
        to_second = [r for r in requests if r not in to_first]
        assert to_first
        assert to_second
        assert sung(to_first, first.name)[1] == set()
        assert sung(to_second, subject.name)[1] == set()


@ASKED
async def test_another_address_of_the_same_provider_gets_nothing_of_the_first(
    subject: Subject,
) -> None:
    elsewhere = {"base_url": "http://elsewhere.invalid/v1", "api_key": "another-key"}
    model, second = subject.model, (Model(subject.name, subject.model.id), elsewhere)
    given = given_to(subject.name)
    for options, providers in ((given, None), ({}, {subject.name: given})):
        requests = await _asked([model, second], [_gone()] * 4, providers, **options)
        there = [request for request in requests if "elsewhere.invalid" in request.url]
        assert there
        assert sung(there, "nobody") == (set(), set())


@ASKED
async def test_no_redirect_is_followed(subject: Subject) -> None:
    answer = MemoryResponse(status=307, headers={"Location": "http://elsewhere.invalid/v1"})
    requests = await _asked(subject.model, [answer], None, **given_to(subject.name))
    assert [f"address-of-{subject.name}-end" in r.url for r in requests] == [True]


@ASKED
async def test_a_proxys_password_is_nothing_that_anyone_is_told(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = given_to("proxy-itself")["base_url"]
    monkeypatch.setenv("http_proxy", proxy)
    given = {**given_to(subject.name), "base_url": "http://server.invalid/v1"}
    http = AiohttpClient()
    client = Client(host=HOST, http=http, retry=RetryPolicy.none())
    async with client, client.stream(subject.model, "Hello", **given) as stream:
        events = [event async for event in stream]
    assert isinstance(events[-1], Error)
    assert "http_proxy" in events[-1].error_message
    shown = SONG.findall(repr(events) + repr(stream.call) + repr(stream.message))
    assert {what for what, _ in shown} <= {"address"}  # the proxy's, which is to be named
