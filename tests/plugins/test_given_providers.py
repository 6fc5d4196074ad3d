"""Providers that a program gives by their class, without installing them."""

from __future__ import annotations

from typing import Any

import pytest

import swink_core as swink
from swink_testing.acme import AcmeProvider, acme_answer
from swink_testing.driver import MemoryHTTPClient

KEY = {"api_key": "key", "base_url": "http://acme.invalid"}


async def test_one_line_registers_a_class() -> None:
    http = MemoryHTTPClient(acme_answer({"text": "Hello"}, {"stop": "stop"}))
    async with swink.Client(providers={"mine": AcmeProvider}, http=http) as client:
        assert (await client.complete("mine/any", "Hi", **KEY)).text == "Hello"


async def test_a_host_has_a_class_and_the_client_its_options() -> None:
    http = MemoryHTTPClient(acme_answer({"text": "Hello"}, {"stop": "stop"}))
    host = swink.Host(providers={"mine": AcmeProvider})
    async with swink.Client(host=host, providers={"mine": KEY}, http=http) as client:
        assert (await client.complete("mine/any", "Hi")).text == "Hello"


async def test_a_class_takes_the_place_of_an_installed_provider() -> None:
    class Mine(AcmeProvider):
        pass

    host = swink.Host(providers={"echo": Mine}, environ={"SWINK_PLUGINS": ""})
    assert type(host.bind("echo").provider) is Mine


def test_a_class_has_an_entry_without_a_distribution() -> None:
    entry = swink.Host(providers={"mine": AcmeProvider}).entry("mine")
    assert (entry.name, entry.package) == ("mine", "swink_testing")
    assert (entry.group, entry.value) == ("swink.providers", "swink_testing.acme:AcmeProvider")
    assert (entry.distribution, entry.version, entry.error) == ("?", "?", None)
    assert str(entry) == 'provider "mine" (?)'


@pytest.mark.parametrize("given", ["a text", AcmeProvider("mine")])
def test_an_object_that_is_not_a_class_is_refused(given: Any) -> None:
    with pytest.raises(swink.PluginError, match="is an object of type"):
        swink.Host(providers={"mine": given})


def test_a_host_and_classes_beside_it_are_refused() -> None:
    with pytest.raises(swink.UsageError, match="mine"):
        swink.Client(host=swink.Host(), providers={"mine": AcmeProvider})
